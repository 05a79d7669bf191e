/*
 * probe.c - a static location asked while there is load, and before: threads
 * with a connection each, so that the load's own turns do not show.
 */

#include "load.h"

#include <math.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <time.h>


static void * load_probe(void *data);
static int load_probe_once(load_t *load, int *fd, const char *request);


void
load_probes_start(load_t *load)
{
    uint32_t  i;

    for (i = 0; i < LOAD_PROBES; i++) {
        load->probes[i].load = load;
        load->probes[i].random = load->seed * 1000003 + i + 1;

        if (pthread_create(&load->probes[i].tid, NULL, load_probe,
                           &load->probes[i])
            != 0)
        {
            fprintf(stderr, "http-load: no thread for the static location\n");
            exit(1);
        }
    }
}


void
load_probes_join(load_t *load)
{
    uint32_t  i;

    for (i = 0; i < LOAD_PROBES; i++) {
        pthread_join(load->probes[i].tid, NULL);
    }
}


/* Poisson arrivals over one connection; time counts from the arrival. */
static void *
load_probe(void *data)
{
    load_probe_t *probe = data;

    int              fd, phase;
    char             request[512];
    uint64_t         next, now;
    struct timespec  ts;

    fd = -1;
    next = hymt_now_ns();

    snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n",
             probe->load->static_uri, probe->load->host);

    while ((phase = atomic_load(&probe->load->phase)) != PHASE_END) {
        next += (uint64_t) (-log(1 - exact_uniform(&probe->random))
                            * LOAD_PROBES / probe->load->probe_rate * 1e9);

        ts.tv_sec = (time_t) (next / 1000000000);
        ts.tv_nsec = (long) (next % 1000000000);
        (void) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);

        /* woken late is the client's fault, a slow answer before is not */

        if (phase == PHASE_QUIET) {
            continue;
        }

        now = hymt_now_ns();

        if (load_probe_once(probe->load, &fd, request) != 0) {
            probe->failed++;
            continue;
        }

        now = hymt_now_ns() - now;

        if (phase == PHASE_IDLE) {
            hdr_add(&probe->before, now / 1000);

        } else if (phase == PHASE_LOADED) {
            hdr_add(&probe->during, now / 1000);

        } else if (phase == PHASE_AFTER) {
            hdr_add(&probe->after, now / 1000);
        }
    }

    close(fd);

    return NULL;
}


static int
load_probe_once(load_t *load, int *fd, const char *request)
{
    int      one;
    char     answer[4096] = "";
    ssize_t  n;

    if (*fd == -1) {
        one = 1;
        *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (connect(*fd, (struct sockaddr *) &load->addr, sizeof(load->addr))
            == -1)
        {
            close(*fd);
            *fd = -1;
            return -1;
        }

        (void) setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }

    n = send(*fd, request, strlen(request), 0);

    if (n > 0) {
        n = recv(*fd, answer, sizeof(answer) - 1, 0);
    }

    if (n <= 0 || strncmp(answer, "HTTP/1.1 200", 12) != 0) {
        close(*fd);
        *fd = -1;
        return -1;
    }

    return 0;
}
