/*
 * host_log.c - lines from the host's threads, until the caller fetches them.
 */

#include "host_private.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>


hymt_status_t
hymt_host_log_init(hymt_host_log_t *log, int fd, hymt_error_t *err)
{
    log->fd = fd;

    if (pthread_mutex_init(&log->mutex, NULL) != 0) {
        return hymt_fail(err, "host: no mutex");
    }

    return HYMT_OK;
}


void
hymt_host_log_done(hymt_host_log_t *log)
{
    pthread_mutex_destroy(&log->mutex);
}


void
hymt_host_say(hymt_host_t *host, hymt_log_level_t level, const char *fmt, ...)
{
    ssize_t           n;
    va_list           args;
    uint64_t          one;
    hymt_log_line_t  *line;
    hymt_host_log_t  *log;

    log = &host->log;

    pthread_mutex_lock(&log->mutex);

    if (log->n == HYMT_LOG_LINES) {
        log->first = (log->first + 1) % HYMT_LOG_LINES;
        log->n--;
        log->dropped++;
    }

    line = &log->lines[(log->first + log->n) % HYMT_LOG_LINES];
    log->n++;

    line->level = level;

    va_start(args, fmt);
    vsnprintf(line->text, sizeof(line->text), fmt, args);
    va_end(args);

    pthread_mutex_unlock(&log->mutex);

    if (log->fd != -1) {
        one = 1;
        n = write(log->fd, &one, sizeof(one));
        (void) n;
    }
}


hymt_status_t
hymt_host_log(hymt_host_t *host, hymt_log_level_t *level, char *buf,
    size_t cap)
{
    hymt_status_t     rc;
    hymt_log_line_t  *line;
    hymt_host_log_t  *log;

    log = &host->log;
    rc = HYMT_OK;

    pthread_mutex_lock(&log->mutex);

    if (log->dropped > 0) {
        *level = HYMT_LOG_WARN;
        snprintf(buf, cap, "%llu older lines were dropped",
                 (unsigned long long) log->dropped);
        log->dropped = 0;

    } else if (log->n > 0) {
        line = &log->lines[log->first];
        log->first = (log->first + 1) % HYMT_LOG_LINES;
        log->n--;

        *level = line->level;
        snprintf(buf, cap, "%s", line->text);

    } else {
        rc = HYMT_AGAIN;
    }

    pthread_mutex_unlock(&log->mutex);

    return rc;
}
