/*
 * scheduler.c - see scheduler.h.
 *
 * A running sequence lives in a slot, which owns its blocks.  When it ends its
 * memory is the owner's again at once, but the slot stays taken ("drains")
 * until the last step that carries a row of it has been committed; so open
 * plans name slots, never sequences.
 */

#include "scheduler.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>


#define HYMT_SCHED_DEPTH      2
#define HYMT_SCHED_MAX_BATCH  65536


typedef struct {
    hymt_seq_t          *seq;        /* NULL: free, or draining */
    hymt_block_table_t   table;
    uint32_t             in_flight;  /* open plans with rows of this slot */
} hymt_slot_t;


/* One sequence's part of an open plan, and where it stood before. */
typedef struct {
    uint32_t  slot;
    uint32_t  n_done;
    uint32_t  n_planned;
    bool      sample;
    bool      is_void;    /* built on a step that was aborted */
} hymt_planned_t;


typedef struct {
    hymt_planned_t  *entry;   /* [max_batch] */
    uint32_t         n;
} hymt_plan_t;


typedef struct {
    hymt_seq_t  *first;
    hymt_seq_t  *last;
} hymt_seq_list_t;


struct hymt_sched_s {
    hymt_sched_params_t   params;
    hymt_kv_pool_t        pool;

    hymt_slot_t          *slots;       /* [max_batch] */
    uint32_t             *free_slots;  /* [max_batch], a stack */
    uint32_t              n_free_slots;

    uint32_t             *order;       /* [max_batch], running slots by age */
    uint32_t              n_order;

    hymt_seq_list_t       waiting;
    uint32_t              n_waiting;
    bool                  cancels;     /* among those waiting, maybe */
    hymt_seq_list_t       news;

    hymt_plan_t           plans[HYMT_SCHED_DEPTH];
    uint32_t              oldest;
    uint32_t              n_open;
    uint64_t              n_plans;

    hymt_batch_seq_t     *seqs;        /* [max_batch], of the last plan */
    uint32_t             *prefill;     /* [max_batch], slots with prompt left */
    uint32_t             *take;        /* [max_batch], rows for each of those */

    uint32_t             *stop;        /* [n_stop] */
};


static hymt_status_t hymt_sched_check(const hymt_sched_params_t *params,
    hymt_error_t *err);
static hymt_status_t hymt_sched_alloc(hymt_sched_t *sched, hymt_error_t *err);

static void hymt_sched_drop_running(hymt_sched_t *sched);
static void hymt_sched_drop_waiting(hymt_sched_t *sched);
static void hymt_sched_drop(hymt_sched_t *sched, hymt_seq_t *seq);
static void hymt_sched_admit(hymt_sched_t *sched, hymt_sched_begin_pt begin,
    void *data);
static void hymt_sched_plan_decode(hymt_sched_t *sched, hymt_batch_t *batch);
static void hymt_sched_plan_prefill(hymt_sched_t *sched, hymt_batch_t *batch);
static void hymt_sched_share(hymt_sched_t *sched, uint32_t n,
    uint32_t budget);
static void hymt_sched_plan_rows(hymt_sched_t *sched, uint32_t slot,
    uint32_t n_rows, hymt_batch_t *batch);

static void hymt_sched_rewind(hymt_sched_t *sched, const hymt_plan_t *plan);
static void hymt_sched_append(hymt_sched_t *sched, hymt_seq_t *seq,
    uint32_t token);
static void hymt_sched_close(hymt_sched_t *sched, const hymt_plan_t *plan);
static bool hymt_sched_is_stop(const hymt_sched_t *sched,
    const hymt_seq_t *seq, uint32_t token);

static void hymt_sched_end(hymt_sched_t *sched, hymt_seq_t *seq,
    hymt_finish_t finish);
static void hymt_sched_compact(hymt_sched_t *sched);
static void hymt_sched_free_slot(hymt_sched_t *sched, uint32_t slot);
static void hymt_sched_tell(hymt_sched_t *sched, hymt_seq_t *seq);

static bool hymt_seq_is_canceled(const hymt_seq_t *seq);
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
    s->take = calloc(n, sizeof(uint32_t));
    s->stop = calloc((size_t) s->params.n_stop + 1, sizeof(uint32_t));

    if (s->slots == NULL || s->free_slots == NULL || s->order == NULL
        || s->seqs == NULL || s->prefill == NULL || s->take == NULL
        || s->stop == NULL)
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

    free(sched->slots);
    free(sched->free_slots);
    free(sched->order);
    free(sched->seqs);
    free(sched->prefill);
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
    seq->n_planned = 0;
    seq->ended = HYMT_FINISH_NONE;
    seq->in_news = false;

    hymt_seq_list_push(&sched->waiting, seq);
    sched->n_waiting++;

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

    hymt_sched_plan_decode(sched, batch);
    hymt_sched_plan_prefill(sched, batch);

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

        if (hymt_seq_is_canceled(seq)) {
            hymt_sched_end(sched, seq, HYMT_FINISH_CANCELED);
        }
    }

    hymt_sched_compact(sched);
}


static void
hymt_sched_drop_waiting(hymt_sched_t *sched)
{
    hymt_seq_t       *seq;
    hymt_seq_list_t   waiting;

    sched->cancels = false;
    waiting = sched->waiting;
    memset(&sched->waiting, 0, sizeof(hymt_seq_list_t));

    while ((seq = hymt_seq_list_pop(&waiting)) != NULL) {

        if (hymt_seq_is_canceled(seq)) {
            hymt_sched_drop(sched, seq);
            continue;
        }

        hymt_seq_list_push(&sched->waiting, seq);
    }
}


/* A canceled one that has been taken out of the waiting line. */
static void
hymt_sched_drop(hymt_sched_t *sched, hymt_seq_t *seq)
{
    sched->n_waiting--;
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

    while (sched->waiting.first != NULL && sched->n_free_slots > 0) {

        seq = sched->waiting.first;

        if (hymt_seq_is_canceled(seq)) {
            hymt_seq_list_pop(&sched->waiting);
            hymt_sched_drop(sched, seq);
            continue;
        }

        slot = sched->free_slots[sched->n_free_slots - 1];
        s = &sched->slots[slot];

        if (hymt_kv_reserve(&sched->pool, &s->table,
                            seq->n_prompt + seq->max_new)
            != HYMT_OK)
        {
            return;
        }

        hymt_seq_list_pop(&sched->waiting);
        sched->n_waiting--;
        sched->n_free_slots--;

        s->seq = seq;
        s->in_flight = 0;
        seq->slot = slot;
        sched->order[sched->n_order++] = slot;

        begin(data, seq);
    }
}


static void
hymt_sched_plan_decode(hymt_sched_t *sched, hymt_batch_t *batch)
{
    uint32_t     i;
    hymt_seq_t  *seq;

    for (i = 0; i < sched->n_order; i++) {
        seq = sched->slots[sched->order[i]].seq;

        /* all may be asked for already, with the last ones in flight */

        if (seq->n_done >= seq->n_prompt && seq->n_planned < seq->max_new) {
            hymt_sched_plan_rows(sched, sched->order[i], 1, batch);
        }
    }
}


static void
hymt_sched_plan_prefill(hymt_sched_t *sched, hymt_batch_t *batch)
{
    uint32_t     i, n, budget;
    hymt_seq_t  *seq;

    for (i = 0, n = 0; i < sched->n_order; i++) {
        seq = sched->slots[sched->order[i]].seq;

        if (seq->n_done < seq->n_prompt) {
            sched->prefill[n++] = sched->order[i];
        }
    }

    if (n == 0) {
        return;
    }

    budget = batch->n_seqs ? sched->params.budget_mixed
                           : sched->params.budget_prefill;
    budget = hymt_min(budget, sched->params.max_rows - batch->n_rows);

    hymt_sched_share(sched, n, budget);

    for (i = 0; i < n; i++) {
        if (sched->take[i] > 0) {
            hymt_sched_plan_rows(sched, sched->prefill[i], sched->take[i],
                                 batch);
        }
    }
}


/*
 * Shares the budget among the n prompts of prefill[], oldest first.  One that
 * wants more than half of the budget leaves half of what there is to those
 * behind it; what they do not need is dealt out again in the same order.  The
 * halves round up and down in turn, so that a budget of one row alternates.
 */
static void
hymt_sched_share(hymt_sched_t *sched, uint32_t n, uint32_t budget)
{
    uint32_t     i, want, left;
    hymt_seq_t  *seq;

    for (i = 0, left = budget; i < n; i++) {
        seq = sched->slots[sched->prefill[i]].seq;
        want = seq->n_prompt - seq->n_done;

        if (i + 1 < n && want > budget / 2) {
            want = hymt_min(want, (left + sched->n_plans % 2) / 2);
        }

        sched->take[i] = hymt_min(want, left);
        left -= sched->take[i];
    }

    for (i = 0; i < n && left > 0; i++) {
        seq = sched->slots[sched->prefill[i]].seq;
        want = seq->n_prompt - seq->n_done - sched->take[i];
        want = hymt_min(want, left);

        sched->take[i] += want;
        left -= want;
    }
}


/* Puts the next n_rows rows of a slot into the batch and the newest plan. */
static void
hymt_sched_plan_rows(hymt_sched_t *sched, uint32_t slot, uint32_t n_rows,
    hymt_batch_t *batch)
{
    hymt_seq_t        *seq;
    hymt_slot_t       *s;
    hymt_plan_t       *plan;
    hymt_planned_t    *entry;
    hymt_batch_seq_t  *row;

    s = &sched->slots[slot];
    seq = s->seq;
    plan = &sched->plans[(sched->oldest + sched->n_open - 1)
                         % sched->params.depth];
    entry = &plan->entry[plan->n++];
    row = &sched->seqs[batch->n_seqs++];

    row->slot = slot;
    row->n_rows = n_rows;
    row->pos = seq->n_done;
    row->blocks = s->table.block;
    row->sample = seq->n_done + n_rows >= seq->n_prompt;
    row->n_out = seq->n_planned;

    if (seq->n_done < seq->n_prompt) {
        row->tokens = &seq->prompt[seq->n_done];

    } else if (seq->n_planned
               <= atomic_load_explicit(&seq->n_out, memory_order_relaxed))
    {
        row->tokens = &seq->out[seq->n_planned - 1];

    } else {
        row->tokens = NULL;
    }

    /*
     * With two steps in flight a sequence may be its owner's again while a step
     * still carries a row of it; nothing must look at it then.
     */

    row->canceled = sched->params.depth == 1 ? &seq->canceled : NULL;

    entry->slot = slot;
    entry->n_done = seq->n_done;
    entry->n_planned = seq->n_planned;
    entry->sample = row->sample;
    entry->is_void = false;

    batch->n_rows += n_rows;
    seq->n_done += n_rows;
    seq->n_planned += row->sample;
    s->in_flight++;
}


void
hymt_sched_commit(hymt_sched_t *sched, const uint32_t *tokens)
{
    uint32_t         i;
    hymt_plan_t     *plan;
    hymt_seq_t      *seq;
    hymt_planned_t  *entry;

    if (sched->n_open == 0) {
        return;
    }

    plan = &sched->plans[sched->oldest];
    sched->oldest = (sched->oldest + 1) % sched->params.depth;
    sched->n_open--;

    if (tokens == NULL) {
        hymt_sched_rewind(sched, plan);
    }

    for (i = 0; tokens != NULL && i < plan->n; i++) {
        entry = &plan->entry[i];
        seq = sched->slots[entry->slot].seq;

        if (seq != NULL && entry->sample && !entry->is_void) {
            hymt_sched_append(sched, seq, tokens[i]);
        }
    }

    hymt_sched_compact(sched);
    hymt_sched_close(sched, plan);
}


/*
 * The KV that an aborted step was to write is undefined: its sequences go back
 * to where they stood before it, and what a younger open plan has built on it
 * counts for nothing.
 */
static void
hymt_sched_rewind(hymt_sched_t *sched, const hymt_plan_t *plan)
{
    uint32_t         i, j, k;
    hymt_seq_t      *seq;
    hymt_plan_t     *younger;
    hymt_planned_t  *entry;

    for (i = 0; i < plan->n; i++) {
        entry = &plan->entry[i];
        seq = sched->slots[entry->slot].seq;

        if (seq == NULL || entry->is_void) {
            continue;
        }

        seq->n_done = entry->n_done;
        seq->n_planned = entry->n_planned;

        for (j = 0; j < sched->n_open; j++) {
            younger = &sched->plans[(sched->oldest + j)
                                    % sched->params.depth];

            for (k = 0; k < younger->n; k++) {
                if (younger->entry[k].slot == entry->slot) {
                    younger->entry[k].is_void = true;
                }
            }
        }
    }
}


static void
hymt_sched_append(hymt_sched_t *sched, hymt_seq_t *seq, uint32_t token)
{
    uint32_t  n;

    if (hymt_sched_is_stop(sched, seq, token)) {
        hymt_sched_end(sched, seq, HYMT_FINISH_STOP);
        return;
    }

    n = atomic_load_explicit(&seq->n_out, memory_order_relaxed);

    seq->out[n] = token;
    atomic_store_explicit(&seq->n_out, n + 1, memory_order_release);

    if (n + 1 == seq->max_new) {
        hymt_sched_end(sched, seq, HYMT_FINISH_LENGTH);
        return;
    }

    hymt_sched_tell(sched, seq);
}


static bool
hymt_sched_is_stop(const hymt_sched_t *sched, const hymt_seq_t *seq,
    uint32_t token)
{
    uint32_t  i;

    for (i = 0; i < sched->params.n_stop; i++) {
        if (sched->stop[i] == token) {
            return true;
        }
    }

    for (i = 0; i < seq->n_stop; i++) {
        if (seq->stop[i] == token) {
            return true;
        }
    }

    return false;
}


/* One step less in flight for each slot of the plan; drained ones are free. */
static void
hymt_sched_close(hymt_sched_t *sched, const hymt_plan_t *plan)
{
    uint32_t      i;
    hymt_slot_t  *s;

    for (i = 0; i < plan->n; i++) {
        s = &sched->slots[plan->entry[i].slot];
        s->in_flight--;

        if (s->seq == NULL && s->in_flight == 0) {
            hymt_sched_free_slot(sched, plan->entry[i].slot);
        }
    }
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

    while ((seq = hymt_seq_list_pop(&sched->waiting)) != NULL) {
        seq->ended = finish;
        hymt_sched_tell(sched, seq);
    }

    sched->n_waiting = 0;

    while (sched->n_open > 0) {
        hymt_sched_close(sched, &sched->plans[sched->oldest]);
        sched->oldest = (sched->oldest + 1) % sched->params.depth;
        sched->n_open--;
    }
}


uint32_t
hymt_sched_waiting(const hymt_sched_t *sched)
{
    return sched->n_waiting;
}


uint32_t
hymt_sched_running(const hymt_sched_t *sched)
{
    return sched->n_order;
}


uint32_t
hymt_sched_blocks_used(const hymt_sched_t *sched)
{
    return sched->pool.n_blocks - sched->pool.n_free;
}


/*
 * Takes a running sequence out of its slot.  The slot stays in order[] until
 * hymt_sched_compact(), so that loops over it may call this.
 */
static void
hymt_sched_end(hymt_sched_t *sched, hymt_seq_t *seq, hymt_finish_t finish)
{
    sched->slots[seq->slot].seq = NULL;
    seq->ended = finish;
    hymt_sched_tell(sched, seq);
}


/* Drops the slots of ended sequences from order[], and frees idle ones. */
static void
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


static void
hymt_sched_free_slot(hymt_sched_t *sched, uint32_t slot)
{
    hymt_kv_release(&sched->pool, &sched->slots[slot].table);
    sched->free_slots[sched->n_free_slots++] = slot;
}


static void
hymt_sched_tell(hymt_sched_t *sched, hymt_seq_t *seq)
{
    if (!seq->in_news) {
        seq->in_news = true;
        hymt_seq_list_push(&sched->news, seq);
    }
}


static bool
hymt_seq_is_canceled(const hymt_seq_t *seq)
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
