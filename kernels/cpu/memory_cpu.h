/*
 * memory_cpu.h - how much of the host's memory is left.
 */

#ifndef HYMT_MEMORY_CPU_H
#define HYMT_MEMORY_CPU_H

#include "base.h"


/*
 * Bytes that this process may still take: what the kernel calls available, and
 * what its cgroup (v2) leaves, hymt_memory_left().  A mapping gets more than
 * that without an error, and the process is killed when it touches it: so ask
 * before.  UINT64_MAX where the host does not say.
 */
uint64_t hymt_memory_available(void);

/*
 * What the limit of a cgroup, a directory with memory.max, memory.current and
 * memory.stat, leaves; what files of weights have in the page cache is counted
 * there, but goes when the memory is wanted.  UINT64_MAX: no limit.
 */
uint64_t hymt_memory_left(const char *group);


#endif /* HYMT_MEMORY_CPU_H */
