/*
 * mapping.c - see mapping.h.
 */

#include "mapping.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>


void *
hymt_mapping_take(hymt_mapping_t *map, uint64_t count, uint64_t size)
{
    void      *p;
    uint64_t   bytes, end;

    if (hymt_mul_overflow(count, size, &bytes)
        || hymt_add_overflow(map->used, bytes, &end)
        || hymt_add_overflow(end, 63, &end))
    {
        map->overflow = true;
        return NULL;
    }

    p = map->base != NULL ? map->base + map->used : NULL;
    map->used = end / 64 * 64;

    return p;
}


hymt_status_t
hymt_mapping_make(hymt_mapping_t *map, const char *what, bool huge,
    hymt_error_t *err)
{
    void  *p;

    if (map->overflow || map->used > SIZE_MAX / 2) {
        return hymt_fail(err, "%s: the size does not fit in memory: lower"
                         " the context or the batch", what);
    }

    map->size = hymt_max(map->used, 64);

    p = mmap(NULL, map->size, PROT_READ|PROT_WRITE,
             MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        map->size = 0;
        (void) hymt_fail(err, "%s: can't get %" PRIu64 " bytes of memory: %s",
                         what, map->used, strerror(errno));
        return HYMT_AGAIN;
    }

    /* a hint: reading weights is half again as fast with 2 MiB pages */

    if (huge) {
        (void) madvise(p, map->size, MADV_HUGEPAGE);
    }

    map->base = p;
    map->used = 0;

    return HYMT_OK;
}


void
hymt_mapping_free(hymt_mapping_t *map)
{
    if (map->base != NULL) {
        munmap(map->base, map->size);
    }

    memset(map, 0, sizeof(*map));
}
