/*
 * coalesce.c - see coalesce.h.
 */

#include "coalesce.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>


static uint64_t hymt_coalesce_mix(uint64_t h, const void *data, size_t len);
static void hymt_coalesce_sampling(const hymt_seq_t *seq, hymt_sampling_t *s);
static bool hymt_coalesce_equal(const hymt_seq_t *a, const hymt_seq_t *b);


hymt_status_t
hymt_coalesce_init(hymt_coalesce_t *c, uint32_t n, hymt_error_t *err)
{
    uint32_t  buckets;

    for (buckets = 1; buckets < n && buckets < UINT32_C(1) << 20; buckets *= 2)
    {
        /* void */
    }

    c->bucket = calloc(buckets, sizeof(hymt_seq_t *));
    if (c->bucket == NULL) {
        return hymt_fail(err, "no memory for an index of %" PRIu32
                         " sequences", n);
    }

    c->mask = buckets - 1;

    if (getrandom(&c->seed, sizeof(c->seed), GRND_NONBLOCK)
        != (ssize_t) sizeof(c->seed))
    {
        c->seed = hymt_now_ns();
    }

    return HYMT_OK;
}


void
hymt_coalesce_free(hymt_coalesce_t *c)
{
    free(c->bucket);
    c->bucket = NULL;
}


void
hymt_coalesce_key(const hymt_coalesce_t *c, hymt_seq_t *seq)
{
    uint64_t         h;
    hymt_sampling_t  s;

    hymt_coalesce_sampling(seq, &s);

    h = hymt_coalesce_mix(c->seed, seq->prompt,
                          seq->n_prompt * sizeof(uint32_t));
    h = hymt_coalesce_mix(h, &seq->max_new, sizeof(seq->max_new));
    h = hymt_coalesce_mix(h, &s.seed, sizeof(s.seed));

    seq->key = hymt_coalesce_mix(h, &seq->scope, sizeof(seq->scope));
}


/* Eight bytes at a time; each product's halves are folded. */
static uint64_t
hymt_coalesce_mix(uint64_t h, const void *data, size_t len)
{
    size_t             n;
    uint64_t           word;
    const char        *p;
    unsigned __int128  product;

    for (p = data; len > 0; p += n, len -= n) {
        n = hymt_min(len, sizeof(word));
        word = n;
        memcpy(&word, p, n);

        product = (unsigned __int128) (word ^ h) * UINT64_C(0x9e3779b97f4a7c15);
        h = (uint64_t) product ^ (uint64_t) (product >> 64);
    }

    return h;
}


/* What of a sequence's sampling decides on its output. */
static void
hymt_coalesce_sampling(const hymt_seq_t *seq, hymt_sampling_t *s)
{
    memset(s, 0, sizeof(hymt_sampling_t));

    s->temperature = seq->sampling.temperature;
    s->repetition_penalty = seq->sampling.repetition_penalty;

    if (s->temperature != 0) {
        s->top_p = seq->sampling.top_p;
        s->top_k = seq->sampling.top_k;
        s->seed = seq->sampling.seed;
        s->index = seq->sampling.index;
    }
}


static bool
hymt_coalesce_equal(const hymt_seq_t *a, const hymt_seq_t *b)
{
    hymt_sampling_t  s, t;

    if (a->key != b->key || a->n_prompt != b->n_prompt
        || a->max_new != b->max_new || a->n_stop != b->n_stop
        || memcmp(&a->scope, &b->scope, sizeof(hymt_scope_t)) != 0)
    {
        return false;
    }

    hymt_coalesce_sampling(a, &s);
    hymt_coalesce_sampling(b, &t);

    return s.temperature == t.temperature && s.top_p == t.top_p
           && s.repetition_penalty == t.repetition_penalty
           && s.top_k == t.top_k && s.seed == t.seed && s.index == t.index
           && memcmp(a->prompt, b->prompt, a->n_prompt * sizeof(uint32_t))
              == 0
           && (a->n_stop == 0
               || memcmp(a->stop, b->stop, a->n_stop * sizeof(uint32_t))
                  == 0);
}


void
hymt_coalesce_add(hymt_coalesce_t *c, hymt_seq_t *seq)
{
    hymt_seq_t  **bucket;

    bucket = &c->bucket[seq->key & c->mask];
    seq->chain = *bucket;
    *bucket = seq;
}


void
hymt_coalesce_remove(hymt_coalesce_t *c, hymt_seq_t *seq)
{
    hymt_seq_t  **p;

    for (p = &c->bucket[seq->key & c->mask]; *p != NULL; p = &(*p)->chain) {
        if (*p == seq) {
            *p = seq->chain;
            return;
        }
    }
}


hymt_seq_t *
hymt_coalesce_find(const hymt_coalesce_t *c, const hymt_seq_t *seq,
    const hymt_seq_t *from)
{
    hymt_seq_t  *s;

    for (s = from != NULL ? from->chain : c->bucket[seq->key & c->mask];
         s != NULL;
         s = s->chain)
    {
        if (s != seq && hymt_coalesce_equal(s, seq)) {
            return s;
        }
    }

    return NULL;
}
