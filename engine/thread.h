/*
 * thread.h - threads beside those of NGINX, or of whatever the library is in.
 */

#ifndef HYMT_THREAD_H
#define HYMT_THREAD_H

#include <pthread.h>


/*
 * Starts fn(data) in a thread of that name (15 bytes at most, as /proc shows
 * it).  The thread, and those it starts, leave signals to the process's own
 * threads; but a fault's (SIGSEGV and its like) reach whoever made it.
 *
 * Returns 0, or errno's value.
 */
int hymt_thread_start(pthread_t *tid, const char *name, void *(*fn)(void *),
    void *data);


#endif /* HYMT_THREAD_H */
