/*
 * memory_cpu.c - see memory_cpu.h.
 */

#include "memory_cpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>


static uint64_t hymt_memory_number(const char *group, const char *name,
    const char *key, uint64_t absent);


uint64_t
hymt_memory_available(void)
{
    FILE      *f;
    char       line[128];
    uint64_t   kib, bytes;

    bytes = UINT64_MAX;

    f = fopen("/proc/meminfo", "re");

    if (f != NULL) {
        while (fgets(line, sizeof(line), f) != NULL) {
            if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1) {
                bytes = kib * 1024;
                break;
            }
        }

        fclose(f);
    }

    return hymt_min(bytes, hymt_memory_left("/sys/fs/cgroup"));
}


uint64_t
hymt_memory_left(const char *group)
{
    uint64_t  limit, used;

    limit = hymt_memory_number(group, "memory.max", "", UINT64_MAX);

    if (limit != UINT64_MAX) {
        used = hymt_memory_number(group, "memory.current", "", 0);
        used -= hymt_min(used, hymt_memory_number(group, "memory.stat",
                                                  "active_file ", 0));
        used -= hymt_min(used, hymt_memory_number(group, "memory.stat",
                                                  "inactive_file ", 0));
        limit -= hymt_min(used, limit);
    }

    return limit;
}


/* The number behind a line's beginning; absent also where it is "max". */
static uint64_t
hymt_memory_number(const char *group, const char *name, const char *key,
    uint64_t absent)
{
    FILE      *f;
    char       path[512], line[128];
    uint64_t   n;

    snprintf(path, sizeof(path), "%s/%s", group, name);

    f = fopen(path, "re");
    if (f == NULL) {
        return absent;
    }

    n = absent;

    while (fgets(line, sizeof(line), f) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            if (sscanf(line + strlen(key), "%" SCNu64, &n) != 1) {
                n = absent;
            }

            break;
        }
    }

    fclose(f);

    return n;
}
