/*
 * worker_cpu.h - CPU time and memory of NGINX's workers, by kind of thread.
 *
 * From /proc: the workers are the children of the parent of a worker whose pid
 * is known; a thread's time in nanoseconds is the first number of its
 * schedstat.
 */

#ifndef HYMT_BENCH_WORKER_CPU_H
#define HYMT_BENCH_WORKER_CPU_H

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


typedef enum {
    CPU_LOOP = 0,          /* a worker's own thread: the event loop */
    CPU_POOL,              /* NGINX's thread pools */
    CPU_TEXT,
    CPU_ENGINE,
    CPU_OTHER,             /* compute threads, the driver's */
    CPU_KINDS
} worker_cpu_kind_t;


typedef struct {
    uint32_t  workers;
    uint64_t  ns[CPU_KINDS];
    uint64_t  rss;                   /* bytes, of all workers */
} worker_cpu_t;


/* The first line of a file, without its end; false: there is none. */
static inline int
worker_cpu_line(const char *path, char *line, size_t cap)
{
    FILE  *f;
    char  *end;

    f = fopen(path, "r");
    if (f == NULL) {
        return 0;
    }

    end = fgets(line, (int) cap, f);
    fclose(f);

    if (end == NULL) {
        return 0;
    }

    line[strcspn(line, "\n")] = '\0';

    return 1;
}


/* The fourth field of stat, behind a name that may hold anything. */
static inline long
worker_cpu_parent(long pid)
{
    char   path[64], line[512], state;
    long   parent;
    char  *p;

    snprintf(path, sizeof(path), "/proc/%ld/stat", pid);

    if (!worker_cpu_line(path, line, sizeof(line))) {
        return 0;
    }

    p = strrchr(line, ')');

    return p != NULL && sscanf(p + 1, " %c %ld", &state, &parent) == 2
           ? parent : 0;
}


static inline worker_cpu_kind_t
worker_cpu_kind(long pid, long tid, const char *name)
{
    if (pid == tid) {
        return CPU_LOOP;
    }

    if (strncmp(name, "hymt-text", 9) == 0) {
        return CPU_TEXT;
    }

    if (strncmp(name, "hymt-engine", 11) == 0) {
        return CPU_ENGINE;
    }

    return strncmp(name, "nginx", 5) == 0 ? CPU_POOL : CPU_OTHER;
}


static inline void
worker_cpu_process(long pid, worker_cpu_t *cpu)
{
    DIR            *dir;
    char            path[512], name[64], line[256];
    long            tid;
    uint64_t        ns, pages;
    struct dirent  *entry;

    snprintf(path, sizeof(path), "/proc/%ld/task", pid);

    dir = opendir(path);
    if (dir == NULL) {
        return;
    }

    cpu->workers++;

    while ((entry = readdir(dir)) != NULL) {
        tid = atol(entry->d_name);

        if (tid == 0) {
            continue;
        }

        snprintf(path, sizeof(path), "/proc/%ld/task/%ld/comm", pid, tid);

        if (!worker_cpu_line(path, name, sizeof(name))) {
            continue;
        }

        snprintf(path, sizeof(path), "/proc/%ld/task/%ld/schedstat", pid, tid);

        if (worker_cpu_line(path, line, sizeof(line))
            && sscanf(line, "%" SCNu64, &ns) == 1)
        {
            cpu->ns[worker_cpu_kind(pid, tid, name)] += ns;
        }
    }

    closedir(dir);

    snprintf(path, sizeof(path), "/proc/%ld/statm", pid);

    if (worker_cpu_line(path, line, sizeof(line))
        && sscanf(line, "%*u %" SCNu64, &pages) == 1)
    {
        cpu->rss += pages * (uint64_t) sysconf(_SC_PAGESIZE);
    }
}


/* Of all workers beside `pid`, itself included. */
static inline void
worker_cpu_read(long pid, worker_cpu_t *cpu)
{
    DIR            *dir;
    long            master, child;
    struct dirent  *entry;

    memset(cpu, 0, sizeof(*cpu));

    master = worker_cpu_parent(pid);
    dir = master > 1 ? opendir("/proc") : NULL;

    if (dir == NULL) {
        return;
    }

    while ((entry = readdir(dir)) != NULL) {
        child = atol(entry->d_name);

        if (child > 0 && worker_cpu_parent(child) == master) {
            worker_cpu_process(child, cpu);
        }
    }

    closedir(dir);
}


#endif /* HYMT_BENCH_WORKER_CPU_H */
