/*
 * process.c - see process.h.
 */

#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


/* proc_pid_stat(5): field 22, the third is the first behind the name */
#define HYMT_STAT_START  (22 - 3)

/* a name has at most 64 bytes, each of the 50 numbers at most 21 */
#define HYMT_STAT_BYTES  2048


static uint32_t hymt_process_start(pid_t pid);


uint64_t
hymt_process(pid_t pid)
{
    return (uint64_t) pid << 32 | hymt_process_start(pid);
}


bool
hymt_process_alive(uint64_t process)
{
    pid_t     pid;
    uint32_t  then, now;

    pid = hymt_process_pid(process);

    if (pid <= 0 || (kill(pid, 0) == -1 && errno != EPERM)) {
        return false;
    }

    then = (uint32_t) process;
    now = hymt_process_start(pid);

    /* who can't tell waits for one too many */

    return then == now || then == 0 || now == 0;
}


/* 0: not known */
static uint32_t
hymt_process_start(pid_t pid)
{
    int       fd, i;
    char     *p, path[64], stat[HYMT_STAT_BYTES];
    ssize_t   n;
    uint32_t  start;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);

    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd == -1) {
        return 0;
    }

    n = read(fd, stat, sizeof(stat) - 1);
    close(fd);

    if (n <= 0) {
        return 0;
    }

    stat[n] = '\0';

    /* a name may have blanks, lines and parentheses in it, what follows none */

    p = strrchr(stat, ')');

    for (i = 0; p != NULL && i <= HYMT_STAT_START; i++) {
        p = strchr(p + 1, ' ');
    }

    if (p == NULL) {
        return 0;
    }

    start = (uint32_t) strtoull(p + 1, NULL, 10);

    return start != 0 ? start : 1;
}
