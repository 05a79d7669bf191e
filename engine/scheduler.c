/*
 * scheduler.c - see scheduler.h: the waiting line, slots, and ends.
 *
 * A running sequence lives in a slot, which owns its blocks.  When it ends its
 * memory is the owner's again at once, but the slot stays taken ("drains")
 * until the last step that carries a row of it has been committed; so open
 * plans name slots, never sequences.
 */

#include "scheduler_private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>


#define HYMT_SCHED_MAX_BATCH  65536


static hymt_status_t hymt_sched_check(const hymt_sched_params_t *params,
    hymt_error_t *err);
static hymt_status_t hymt_sched_alloc(hymt_sched_t *sched, hymt_error_t *err);

static void hymt_sched_drop_running(hymt_sched_t *sched);
static void hymt_sched_drop_waiting(hymt_sched_t *sched);
static void hymt_sched_drop(hymt_sched_t *sched, hymt_seq_t *seq);
static void hymt_sched_admit(hymt_sched_t *sched, hymt_sched_begin_pt begin,
    void *data);
static bool hymt_sched_takes_batch(const hymt_sched_t *sched);

static void hymt_seq_list_push(hymt_seq_list_t *list, hymt_seq_t *seq);
static hymt_seq_t *hymt_seq_list_pop(hymt_seq_list_t *list);


hymt_status_t
hymt_sched_create(const hymt_sched_params_t *params, hymt_sched_t **sched,
    hymt_error_t *err)
{
    hymt_sched_t  *s;

    if (hymt_sched_check(params, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    s = calloc(1, sizeof(hymt_sched_t));
    if (s == NULL) {
        return hymt_fail(err, "no memory for the scheduler");
    }

    s->params = *params;

    if (hymt_sched_alloc(s, err) != HYMT_OK) {
        hymt_sched_free(s);
        return HYMT_ERROR;
    }

    hymt_sched_budget(s, params->budget_mixed, params->budget_prefill);

    *sched = s;

    return HYMT_OK;
}


static hymt_status_t
hymt_sched_check(const hymt_sched_params_t *params, hymt_error_t *err)
{
    if (params->max_batch == 0 || params->max_batch > HYMT_SCHED_MAX_BATCH) {
        return hymt_fail(err, "max_batch %" PRIu32 ": 1 to %d are possible",
                         params->max_batch, HYMT_SCHED_MAX_BATCH);
    }

    /* so that decode rows always leave room for one row of a prompt */

    if (params->max_rows < params->max_batch) {
        return hymt_fail(err, "%" PRIu32 " rows a step are fewer than"
                         " max_batch %" PRIu32, params->max_rows,
                         params->max_batch);
    }

    if (params->depth == 0 || params->depth > HYMT_SCHED_DEPTH) {
        return hymt_fail(err, "%" PRIu32 " steps in flight: 1 to %d are"
                         " possible", params->depth, HYMT_SCHED_DEPTH);
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_sched_alloc(hymt_sched_t *s, hymt_error_t *err)
{
    uint32_t  i, n;

    n = s->params.max_batch;

    s->slots = calloc(n, sizeof(hymt_slot_t));
    s->free_slots = calloc(n, sizeof(uint32_t));
    s->order = calloc(n, sizeof(uint32_t));
    s->seqs = calloc(n, sizeof(hymt_batch_seq_t));
    s->prefill = calloc(n, sizeof(uint32_t));
    s->want = calloc(n, sizeof(uint32_t));
    s->take = calloc(n, sizeof(uint32_t));
    s->stop = calloc((size_t) s->params.n_stop + 1, sizeof(uint32_t));

    if (s->slots == NULL || s->free_slots == NULL || s->order == NULL
        || s->seqs == NULL || s->prefill == NULL || s->want == NULL
        || s->take == NULL || s->stop == NULL)
    {
        return hymt_fail(err, "no memory for a scheduler of max_batch %"
                         PRIu32, n);
    }

    for (i = 0; i < s->params.depth; i++) {
        s->plans[i].entry = calloc(n, sizeof(hymt_planned_t));
        if (s->plans[i].entry == NULL) {
            return hymt_fail(err, "no memory for the plans of a scheduler of"
                             " max_batch %" PRIu32, n);
        }
    }

    if (hymt_kv_pool_init(&s->pool, s->params.n_blocks, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    if (s->params.prefix_cache
        && hymt_prefix_init(&s->pool, err) != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    if (hymt_line_init(&s->line, s->params.max_flows, s->params.age, err)
        != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    if (s->params.coalesce
        && hymt_coalesce_init(&s->coalesce, hymt_max(4 * n,
                                                     s->params.max_flows),
                              err)
           != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    for (i = 0; i < n; i++) {
        if (hymt_block_table_init(&s->slots[i].table, s->params.context, err)
            != HYMT_OK)
        {
            return HYMT_ERROR;
        }

        s->free_slots[i] = n - 1 - i;
    }

    s->n_free_slots = n;

    for (i = 0; i < s->params.n_stop; i++) {
        s->stop[i] = s->params.stop[i];
    }

    s->params.stop = s->stop;

    return HYMT_OK;
}


void
hymt_sched_free(hymt_sched_t *sched)
{
    uint32_t  i;

    if (sched == NULL) {
        return;
    }

    for (i = 0; sched->slots != NULL && i < sched->params.max_batch; i++) {
        hymt_block_table_free(&sched->slots[i].table);
    }

    for (i = 0; i < HYMT_SCHED_DEPTH; i++) {
        free(sched->plans[i].entry);
    }

    hymt_kv_pool_free(&sched->pool);
    hymt_coalesce_free(&sched->coalesce);
    hymt_line_free(&sched->line);

    free(sched->slots);
    free(sched->free_slots);
    free(sched->order);
    free(sched->seqs);
    free(sched->prefill);
    free(sched->want);
    free(sched->take);
    free(sched->stop);
    free(sched);
}


hymt_status_t
hymt_sched_add(hymt_sched_t *sched, hymt_seq_t *seq, hymt_error_t *err)
{
    uint64_t  tokens, pool;

    if (seq->n_prompt == 0 || seq->max_new == 0) {
        return hymt_fail(err, "a sequence of %" PRIu32 " prompt tokens and"
                         " max_new %" PRIu32 ": both must be at least 1",
                         seq->n_prompt, seq->max_new);
    }

    tokens = (uint64_t) seq->n_prompt + seq->max_new;
    pool = (uint64_t) sched->pool.n_blocks * HYMT_KV_BLOCK;

    if (seq->priority >= HYMT_N_PRIORITIES) {
        return hymt_fail(err, "priority %" PRIu32 " is none of 0 to %d",
                         seq->priority, HYMT_N_PRIORITIES - 1);
    }

    if (tokens > sched->params.context || tokens > pool) {
        hymt_fail(err, "%" PRIu32 " prompt tokens and %" PRIu32 " of output do"
                  " not fit: the context is %" PRIu32 " tokens, the whole KV"
                  " pool %" PRIu64, seq->n_prompt, seq->max_new,
                  sched->params.context, pool);
        return HYMT_TOO_LONG;
    }

    atomic_store_explicit(&seq->n_out, 0, memory_order_relaxed);

    seq->batch = 0;
    seq->slot = 0;
    seq->n_done = 0;
    seq->n_cached = 0;
    seq->n_planned = 0;
    seq->ended = HYMT_FINISH_NONE;
    seq->in_news = false;

    seq->twins = NULL;
    seq->coalesced = false;

    if (hymt_sched_join(sched, seq)) {
        return HYMT_OK;
    }

    seq->place = HYMT_PLACE_LINE;
    hymt_line_push(&sched->line, seq);

    return HYMT_OK;
}


void
hymt_sched_budget(hymt_sched_t *sched, uint32_t mixed, uint32_t prefill)
{
    mixed = hymt_min(mixed, sched->params.max_rows);
    prefill = hymt_min(prefill, sched->params.max_rows);

    sched->params.budget_mixed = hymt_max(mixed, 1);
    sched->params.budget_prefill = hymt_max(prefill, 1);
}


void
hymt_sched_cancels(hymt_sched_t *sched)
{
    sched->cancels = true;
}


hymt_status_t
hymt_sched_plan(hymt_sched_t *sched, hymt_sched_begin_pt begin, void *data,
    hymt_batch_t *batch)
{
    uint32_t      i;
    hymt_seq_t   *seq;
    hymt_plan_t  *plan;

    if (sched->n_open == sched->params.depth) {
        return HYMT_AGAIN;
    }

    plan = &sched->plans[(sched->oldest + sched->n_open)
                         % sched->params.depth];
    plan->n = 0;

    memset(batch, 0, sizeof(hymt_batch_t));
    batch->seqs = sched->seqs;

    hymt_sched_drop_running(sched);

    if (sched->cancels) {
        hymt_sched_drop_waiting(sched);
    }

    hymt_sched_admit(sched, begin, data);

    /* opened first: what plans rows adds to the newest open plan */

    sched->n_open++;

    hymt_sched_fill(sched, batch);

    if (plan->n == 0) {
        sched->n_open--;
        return HYMT_AGAIN;
    }

    for (i = 0; i < plan->n; i++) {
        seq = sched->slots[plan->entry[i].slot].seq;
        seq->batch = hymt_max(seq->batch, plan->n);
    }

    sched->n_plans++;

    return HYMT_OK;
}


static void
hymt_sched_drop_running(hymt_sched_t *sched)
{
    uint32_t     i;
    hymt_seq_t  *seq;

    for (i = 0; i < sched->n_order; i++) {
        seq = sched->slots[sched->order[i]].seq;

        if (sched->cancels) {
            hymt_sched_drop_twins(sched, seq);
        }

        if (hymt_sched_is_canceled(seq)
            && !hymt_sched_hand_over(sched, seq))
        {
            hymt_sched_end(sched, seq, HYMT_FINISH_CANCELED);
        }
    }

    hymt_sched_compact(sched);
}


static void
hymt_sched_drop_waiting(hymt_sched_t *sched)
{
    hymt_seq_t  *seq, *next;

    sched->cancels = false;

    for (seq = hymt_line_next(&sched->line, NULL); seq != NULL; seq = next) {
        next = hymt_line_next(&sched->line, seq);

        if (hymt_sched_is_canceled(seq)) {
            hymt_sched_drop(sched, seq);
        }
    }
}


/* A canceled one that waits. */
static void
hymt_sched_drop(hymt_sched_t *sched, hymt_seq_t *seq)
{
    hymt_line_remove(&sched->line, seq);
    hymt_sched_leave(sched, seq);

    seq->ended = HYMT_FINISH_CANCELED;
    hymt_sched_tell(sched, seq);
}


/* The first that does not fit yet ends it: nobody is overtaken. */
static void
hymt_sched_admit(hymt_sched_t *sched, hymt_sched_begin_pt begin, void *data)
{
    uint32_t      slot;
    hymt_seq_t   *seq;
    hymt_slot_t  *s;

    while (sched->n_free_slots > 0) {

        seq = hymt_line_first(&sched->line, hymt_sched_takes_batch(sched));

        if (seq == NULL) {
            return;
        }

        if (hymt_sched_is_canceled(seq)) {
            hymt_sched_drop(sched, seq);
            continue;
        }

        slot = sched->free_slots[sched->n_free_slots - 1];
        s = &sched->slots[slot];

        if (hymt_prefix_reserve(&sched->pool, &s->table, slot, &seq->scope,
                                seq->prompt, seq->n_prompt,
                                seq->n_prompt + seq->max_new)
            != HYMT_OK)
        {
            return;
        }

        hymt_line_take(&sched->line, seq);
        sched->n_free_slots--;

        s->seq = seq;
        s->in_flight = 0;
        seq->slot = slot;
        seq->place = HYMT_PLACE_SLOT;
        sched->order[sched->n_order++] = slot;

        hymt_sched_gather(sched, seq);
        begin(data, seq);
    }
}


/* An eighth of the slots is for others, so that these find one at once. */
static bool
hymt_sched_takes_batch(const hymt_sched_t *sched)
{
    uint32_t  i, n;

    for (i = 0, n = 0; i < sched->n_order; i++) {
        n += sched->slots[sched->order[i]].seq->priority
             == HYMT_PRIORITY_BATCH;
    }

    return n < sched->params.max_batch - sched->params.max_batch / 8;
}


hymt_seq_t *
hymt_sched_news(hymt_sched_t *sched)
{
    hymt_seq_t  *seq;

    seq = hymt_seq_list_pop(&sched->news);

    if (seq != NULL) {
        seq->in_news = false;
    }

    return seq;
}


void
hymt_sched_drop_all(hymt_sched_t *sched, hymt_finish_t finish)
{
    uint32_t     i;
    hymt_seq_t  *seq;

    for (i = 0; i < sched->n_order; i++) {
        hymt_sched_end(sched, sched->slots[sched->order[i]].seq, finish);
    }

    hymt_sched_compact(sched);

    while ((seq = hymt_line_next(&sched->line, NULL)) != NULL) {
        hymt_line_remove(&sched->line, seq);
        hymt_sched_leave(sched, seq);
        seq->ended = finish;
        hymt_sched_tell(sched, seq);
    }

    while (sched->n_open > 0) {
        hymt_sched_close(sched, &sched->plans[sched->oldest]);
        sched->oldest = (sched->oldest + 1) % sched->params.depth;
        sched->n_open--;
    }
}


uint32_t
hymt_sched_waiting(const hymt_sched_t *sched)
{
    return sched->line.n;
}


uint32_t
hymt_sched_running(const hymt_sched_t *sched)
{
    return sched->n_order;
}


uint32_t
hymt_sched_blocks_used(const hymt_sched_t *sched)
{
    return sched->pool.n_blocks - hymt_kv_available(&sched->pool);
}


uint64_t
hymt_sched_coalesced(const hymt_sched_t *sched)
{
    return sched->n_coalesced;
}


void
hymt_sched_prefix_stats(const hymt_sched_t *sched, hymt_prefix_stats_t *stats)
{
    hymt_prefix_stats(&sched->pool, stats);
}


void
hymt_sched_end(hymt_sched_t *sched, hymt_seq_t *seq, hymt_finish_t finish)
{
    sched->slots[seq->slot].seq = NULL;

    hymt_sched_end_twins(sched, seq, finish);
    hymt_sched_leave(sched, seq);

    seq->ended = finish;
    hymt_sched_tell(sched, seq);
}


void
hymt_sched_compact(hymt_sched_t *sched)
{
    uint32_t  i, n, slot;

    for (i = 0, n = 0; i < sched->n_order; i++) {
        slot = sched->order[i];

        if (sched->slots[slot].seq != NULL) {
            sched->order[n++] = slot;

        } else if (sched->slots[slot].in_flight == 0) {
            hymt_sched_free_slot(sched, slot);
        }
    }

    sched->n_order = n;
}


void
hymt_sched_free_slot(hymt_sched_t *sched, uint32_t slot)
{
    hymt_prefix_abandon(&sched->pool, &sched->slots[slot].table, slot);
    hymt_kv_release(&sched->pool, &sched->slots[slot].table);
    sched->free_slots[sched->n_free_slots++] = slot;
}


void
hymt_sched_tell(hymt_sched_t *sched, hymt_seq_t *seq)
{
    if (!seq->in_news) {
        seq->in_news = true;
        hymt_seq_list_push(&sched->news, seq);
    }
}


bool
hymt_sched_is_canceled(const hymt_seq_t *seq)
{
    return __atomic_load_n(&seq->canceled, __ATOMIC_RELAXED) != 0;
}


static void
hymt_seq_list_push(hymt_seq_list_t *list, hymt_seq_t *seq)
{
    seq->next = NULL;

    if (list->first == NULL) {
        list->first = seq;

    } else {
        list->last->next = seq;
    }

    list->last = seq;
}


static hymt_seq_t *
hymt_seq_list_pop(hymt_seq_list_t *list)
{
    hymt_seq_t  *seq;

    seq = list->first;

    if (seq != NULL) {
        list->first = seq->next;
    }

    return seq;
}
