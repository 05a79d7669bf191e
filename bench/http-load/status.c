/*
 * status.c - what hymt_status says of the engine.
 */

#include "load.h"

#include <jansson.h>
#include <sys/socket.h>


static char * load_get(load_t *load, const char *uri);


void
load_status(load_t *load, load_status_t *status)
{
    char    *text;
    json_t  *root, *worker, *model, *work;

    memset(status, 0, sizeof(*status));

    text = load->status_uri != NULL ? load_get(load, load->status_uri) : NULL;

    if (text == NULL) {
        return;
    }

    root = json_loads(text, 0, NULL);
    worker = json_object_get(root, "engine_worker");
    model = json_array_get(json_object_get(root, "models"), 0);
    work = json_object_get(model, "work");

#define load_number(o, name)  json_number_value(json_object_get(o, name))

    status->valid = work != NULL;
    status->pid = (long) load_number(worker, "pid");
    status->step_seconds = load_number(work, "step_seconds");
    status->steps = load_number(work, "steps");
    status->prompt_tokens = load_number(work, "prompt_tokens");
    status->output_tokens = load_number(work, "output_tokens");

#undef load_number

    json_decref(root);
    free(text);
}


/* A body of up to 1 MB, owned by the caller, or NULL. */
static char *
load_get(load_t *load, const char *uri)
{
    int      fd;
    char    *in, *body, request[512];
    size_t   len;
    ssize_t  n;

    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    in = malloc(1 << 20);
    body = NULL;

    snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n",
             uri, load->host);

    if (in != NULL
        && connect(fd, (struct sockaddr *) &load->addr, sizeof(load->addr))
           == 0
        && send(fd, request, strlen(request), 0) > 0)
    {
        for (len = 0; len < (1 << 20) - 1; len += (size_t) n) {
            n = recv(fd, in + len, (1 << 20) - 1 - len, 0);

            if (n <= 0) {
                break;
            }
        }

        in[len] = '\0';
        body = strstr(in, "\r\n\r\n");
        body = body != NULL ? strdup(body + 4) : NULL;
    }

    close(fd);
    free(in);

    return body;
}
