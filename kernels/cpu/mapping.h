/*
 * mapping.h - one mapping for many arrays.
 *
 * Memory is laid out twice by the same function: the first time the mapping is
 * empty, takes return NULL and only count; hymt_mapping_make() then gets that
 * much; the second time the takes return the places.  So the sum can't differ
 * from its parts, and every product and sum is checked in one place.
 *
 *     layout(b, &mapping);
 *     hymt_mapping_make(&mapping, "KV cache", false, err);
 *     layout(b, &mapping);
 */

#ifndef HYMT_MAPPING_H
#define HYMT_MAPPING_H

#include "base.h"


typedef struct {
    uint8_t   *base;       /* owned; NULL while counting */
    uint64_t   size;       /* mapped */
    uint64_t   used;       /* taken so far */
    bool       overflow;   /* the sum does not fit in 64 bits */
} hymt_mapping_t;


/* count * size bytes, aligned to 64 bytes; NULL while counting. */
void *hymt_mapping_take(hymt_mapping_t *map, uint64_t count, uint64_t size);


/*
 * Maps what was counted, zeroed, and starts again from the beginning; `what`
 * names it in errors.  `huge` asks for huge pages: for what is filled at once
 * and read from end to end, not for what is touched bit by bit, a whole page
 * cleared at each touch.  HYMT_AGAIN: the system has no memory for it now.
 */
hymt_status_t hymt_mapping_make(hymt_mapping_t *map, const char *what,
    bool huge, hymt_error_t *err);

void hymt_mapping_free(hymt_mapping_t *map);


#endif /* HYMT_MAPPING_H */
