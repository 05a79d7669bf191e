/*
 * arena.c - see arena.h.
 */

#include "arena.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>


static uint64_t hymt_memory_number(const char *group, const char *name,
    const char *key, uint64_t absent);


void *
hymt_arena_take(hymt_arena_t *a, uint64_t count, uint64_t size)
{
    void      *p;
    uint64_t   bytes, end;

    if (hymt_mul_overflow(count, size, &bytes)
        || hymt_add_overflow(a->used, bytes, &end)
        || hymt_add_overflow(end, 63, &end))
    {
        a->overflow = true;
        return NULL;
    }

    p = a->base != NULL ? a->base + a->used : NULL;
    a->used = end / 64 * 64;

    return p;
}


hymt_status_t
hymt_arena_map(hymt_arena_t *a, const char *what, bool huge,
    hymt_error_t *err)
{
    void  *p;

    if (a->overflow || a->used > SIZE_MAX / 2) {
        return hymt_fail(err, "%s: the size does not fit in memory: lower"
                         " the context or the batch", what);
    }

    a->size = hymt_max(a->used, 64);

    p = mmap(NULL, a->size, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1,
             0);
    if (p == MAP_FAILED) {
        a->size = 0;
        (void) hymt_fail(err, "%s: can't get %" PRIu64 " bytes of memory: %s",
                         what, a->used, strerror(errno));
        return HYMT_AGAIN;
    }

    /* a hint: reading weights is half again as fast with 2 MiB pages */

    if (huge) {
        (void) madvise(p, a->size, MADV_HUGEPAGE);
    }

    a->base = p;
    a->used = 0;

    return HYMT_OK;
}


void
hymt_arena_unmap(hymt_arena_t *a)
{
    if (a->base != NULL) {
        munmap(a->base, a->size);
    }

    memset(a, 0, sizeof(*a));
}


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
