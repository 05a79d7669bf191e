/*
 * thread.c - see thread.h.
 */

#include "thread.h"

#include <signal.h>


int
hymt_thread_start(pthread_t *tid, const char *name, void *(*fn)(void *),
    void *data)
{
    int       rc;
    sigset_t  set, old;

    sigfillset(&set);
    sigdelset(&set, SIGSEGV);
    sigdelset(&set, SIGBUS);
    sigdelset(&set, SIGFPE);
    sigdelset(&set, SIGILL);

    /* the mask is inherited: no signal finds the thread before it is set */

    (void) pthread_sigmask(SIG_BLOCK, &set, &old);
    rc = pthread_create(tid, NULL, fn, data);
    (void) pthread_sigmask(SIG_SETMASK, &old, NULL);

    if (rc == 0) {
        (void) pthread_setname_np(*tid, name);
    }

    return rc;
}
