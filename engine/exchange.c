/*
 * exchange.c - the layout of an exchange, and what anybody may read of it.
 */

#include "exchange_layout.h"

#include <string.h>


/* Tries before a reader gives up on a reason that keeps changing. */
#define HYMT_REASON_TRIES  64


static uint32_t hymt_power_of_two(uint32_t n);
static bool hymt_layout_add(size_t *at, uint64_t n, uint64_t bytes);
static void hymt_header_reason(hymt_header_t *h, char *reason);


bool
hymt_layout(const hymt_exchange_params_t *p, hymt_layout_t *l)
{
    size_t  at;

    if (p->n_lanes == 0 || p->n_lanes > HYMT_MAX_LANES
        || p->n_slots == 0 || p->n_slots > HYMT_MAX_SLOTS
        || p->in_bytes == 0 || p->out_bytes == 0)
    {
        return false;
    }

    /*
     * Unread at once, of one slot: the cancel of a job that was done already,
     * the next job, its cancel; and a progress and a done.
     */

    l->submit_cap = hymt_power_of_two(4 * p->n_slots);
    l->complete_cap = hymt_power_of_two(2 * p->n_slots);

    l->in_stride = hymt_line_up((size_t) p->in_bytes);
    l->out_stride = hymt_line_up((size_t) p->out_bytes);

    at = sizeof(hymt_lane_t);

    l->submit_at = at;
    at += hymt_line_up(l->submit_cap * sizeof(uint32_t));

    l->complete_at = at;
    at += hymt_line_up(l->complete_cap * sizeof(uint32_t));

    l->slots_at = at;
    at += p->n_slots * sizeof(hymt_slot_t);

    l->arenas_at = at;

    if (!hymt_layout_add(&at, p->n_slots, l->in_stride)
        || !hymt_layout_add(&at, p->n_slots, l->out_stride))
    {
        return false;
    }

    l->lane_stride = at;
    l->size = sizeof(hymt_header_t);

    return hymt_layout_add(&l->size, p->n_lanes, l->lane_stride);
}


static uint32_t
hymt_power_of_two(uint32_t n)
{
    uint32_t  p;

    for (p = HYMT_LINE / sizeof(uint32_t); p < n; p *= 2) { /* void */ }

    return p;
}


static bool
hymt_layout_add(size_t *at, uint64_t n, uint64_t bytes)
{
    uint64_t  all, end;

    if (hymt_mul_overflow(n, bytes, &all) || hymt_add_overflow(*at, all, &end)
        || end > SIZE_MAX / 2)
    {
        return false;
    }

    *at = (size_t) end;

    return true;
}


size_t
hymt_exchange_size(const hymt_exchange_params_t *params)
{
    hymt_layout_t  l;

    return hymt_layout(params, &l) ? l.size : 0;
}


/* Zeros are an empty exchange: nobody has attached, nothing is in any ring. */
void
hymt_exchange_init(hymt_exchange_t *ex, void *mem,
    const hymt_exchange_params_t *params)
{
    ex->mem = mem;
    ex->params = *params;
}


hymt_host_state_t
hymt_exchange_state(const hymt_exchange_t *ex)
{
    uint32_t  state;

    state = atomic_load_explicit(&hymt_header(ex)->state,
                                 memory_order_acquire);

    return state <= HYMT_HOST_STOPPED ? state : HYMT_HOST_NONE;
}


#define hymt_take(field)                                                      \
    info->field = atomic_load_explicit(&h->field, memory_order_relaxed)


void
hymt_exchange_info(const hymt_exchange_t *ex, hymt_host_info_t *info)
{
    uint32_t        i;
    hymt_header_t  *h;

    h = hymt_header(ex);

    info->state = hymt_exchange_state(ex);

    hymt_take(epoch);
    hymt_take(waiting);
    hymt_take(running);
    hymt_take(kv_blocks);
    hymt_take(kv_blocks_used);
    hymt_take(max_batch);
    hymt_take(context);
    hymt_take(steps);
    hymt_take(step_ns);
    hymt_take(step_max_ns);
    hymt_take(step_seqs);
    hymt_take(rows_prefill);
    hymt_take(rows_decode);
    hymt_take(prefix_hits);
    hymt_take(prefix_misses);
    hymt_take(prefix_tokens);
    hymt_take(prefix_evictions);
    hymt_take(prefix_blocks);
    hymt_take(coalesced);
    hymt_take(load_ns);
    hymt_take(bytes_weights);
    hymt_take(bytes_kv);
    hymt_take(bytes_other);
    hymt_take(progress_ns);
    hymt_take(turn_ns);
    hymt_take(work_ns);

    for (i = 0; i < HYMT_BUCKETS; i++) {
        hymt_take(step_count[i]);
        hymt_take(batch_count[i]);
    }

    hymt_header_reason(h, info->reason);
}


#undef hymt_take


bool
hymt_exchange_stuck(const hymt_host_info_t *info, uint64_t now,
    uint64_t patience_ns)
{
    uint64_t  since, silence;

    if (info->state != HYMT_HOST_READY) {
        return false;
    }

    /* signed: what was read may be of a moment later */

    silence = patience_ns + 2 * (uint64_t) HYMT_TURN_MS * 1000000;

    if ((int64_t) (now - info->turn_ns) > (int64_t) silence) {
        return true;
    }

    since = hymt_max(info->progress_ns, info->work_ns);

    return info->work_ns != 0
           && (int64_t) (now - since)
              > (int64_t) (patience_ns + info->step_max_ns);
}


static void
hymt_header_reason(hymt_header_t *h, char *reason)
{
    size_t    bad;
    uint32_t  i, tries, before, after;
    uint64_t  words[HYMT_REASON_WORDS];

    for (tries = 0; tries < HYMT_REASON_TRIES; tries++) {
        before = atomic_load_explicit(&h->seq, memory_order_acquire);

        /* acquire: none of them may be read after the second look at seq */

        for (i = 0; i < HYMT_REASON_WORDS; i++) {
            words[i] = atomic_load_explicit(&h->reason[i],
                                            memory_order_acquire);
        }

        after = atomic_load_explicit(&h->seq, memory_order_relaxed);

        if (before == after && before % 2 == 0) {
            memcpy(reason, words, HYMT_REASON_MAX);
            reason[HYMT_REASON_MAX - 1] = '\0';

            /* it goes into JSON, whoever has written it */

            if (!hymt_utf8_check(reason, strlen(reason), &bad)) {
                reason[bad] = '\0';
            }

            return;
        }
    }

    reason[0] = '\0';
}


uint32_t
hymt_exchange_in_flight(const hymt_exchange_t *ex)
{
    uint32_t       i, n, sum;
    hymt_layout_t  l;

    if (!hymt_layout(&ex->params, &l)) {
        return 0;
    }

    sum = 0;

    for (i = 0; i < ex->params.n_lanes; i++) {
        n = atomic_load_explicit(&hymt_lane(ex, &l, i)->in_flight,
                                 memory_order_acquire);
        sum += hymt_min(n, ex->params.n_slots);
    }

    return sum;
}
