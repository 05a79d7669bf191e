/*
 * coalesce.h - sequences that give the same output, found by what they are.
 *
 * Two sequences are equal where prompt, cap, end tokens, scope and whatever of
 * the sampling has a meaning are (of a greedy one neither seed nor top-k nor
 * top-p has).  Since an output depends on nothing else, one of them can be
 * computed for all.
 *
 * A hash says where to look; everything is compared.
 *
 * Thread: engine thread only.
 */

#ifndef HYMT_COALESCE_H
#define HYMT_COALESCE_H

#include "scheduler.h"


typedef struct {
    hymt_seq_t  **bucket;    /* owned, [mask + 1] */
    uint32_t      mask;
    uint64_t      seed;
} hymt_coalesce_t;


/* For about n sequences: more make it slower, not wrong. */
hymt_status_t hymt_coalesce_init(hymt_coalesce_t *c, uint32_t n,
    hymt_error_t *err);

void hymt_coalesce_free(hymt_coalesce_t *c);

/* Sets seq->key, then adds it; a sequence is in the index once at most. */
void hymt_coalesce_key(const hymt_coalesce_t *c, hymt_seq_t *seq);
void hymt_coalesce_add(hymt_coalesce_t *c, hymt_seq_t *seq);

/* Out of the index; nothing where it is not in. */
void hymt_coalesce_remove(hymt_coalesce_t *c, hymt_seq_t *seq);

/*
 * The next sequence of the index, after `from` (NULL: the first), that is equal
 * to seq and another one; NULL: no more.  seq->key is set.
 */
hymt_seq_t *hymt_coalesce_find(const hymt_coalesce_t *c,
    const hymt_seq_t *seq, const hymt_seq_t *from);


#endif /* HYMT_COALESCE_H */
