/*
 * process.h - which process a word in shared memory means.
 *
 * A pid alone is another process's once its own has gone and the kernel has
 * given it away again.  A word is the pid (the upper 32 bits) with the time at
 * which its process started, in ticks since the machine did (the lower ones; 0:
 * not known, where /proc can't be read): no two processes have the same.
 *
 * Thread: any.  Reads /proc, which waits for no disk.
 */

#ifndef HYMT_PROCESS_H
#define HYMT_PROCESS_H

#include "base.h"

#include <sys/types.h>


/* The word of a process that there is. */
uint64_t hymt_process(pid_t pid);

/*
 * Whether the process a word was made for is still there, be it another
 * user's; false for 0 and for any word that was made for none.
 */
bool hymt_process_alive(uint64_t process);


static inline pid_t
hymt_process_pid(uint64_t process)
{
    return (pid_t) (process >> 32);
}


#endif /* HYMT_PROCESS_H */
