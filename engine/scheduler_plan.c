/*
 * scheduler_plan.c - what the next step carries: a row for each sequence that
 * decodes, then prompt rows up to the budget.  See scheduler.h for the rules.
 */

#include "scheduler_private.h"


static void hymt_sched_plan_decode(hymt_sched_t *sched, hymt_batch_t *batch);
static void hymt_sched_plan_prefill(hymt_sched_t *sched, hymt_batch_t *batch);
static uint32_t hymt_sched_want(hymt_sched_t *sched, uint32_t slot);
static uint32_t hymt_sched_mixed(const hymt_sched_t *sched, uint32_t n_decode,
    uint32_t wanted);
static void hymt_sched_share(hymt_sched_t *sched, uint32_t n,
    uint32_t budget);
static void hymt_sched_plan_rows(hymt_sched_t *sched, uint32_t slot,
    uint32_t n_rows, hymt_batch_t *batch);


void
hymt_sched_fill(hymt_sched_t *sched, hymt_batch_t *batch)
{
    hymt_sched_plan_decode(sched, batch);
    hymt_sched_plan_prefill(sched, batch);
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
    uint32_t  i, n, want, wanted, budget;

    for (i = 0, n = 0, wanted = 0; i < sched->n_order; i++) {
        want = hymt_sched_want(sched, sched->order[i]);

        if (want > 0) {
            sched->prefill[n] = sched->order[i];
            sched->want[n] = want;
            wanted += want;
            n++;
        }
    }

    if (n == 0) {
        return;
    }

    budget = batch->n_seqs > 0
             ? hymt_sched_mixed(sched, batch->n_rows, wanted)
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


/* The prompt rows of a step in which n_decode decode and `wanted` wait. */
static uint32_t
hymt_sched_mixed(const hymt_sched_t *sched, uint32_t n_decode,
    uint32_t wanted)
{
    uint32_t  i, size, budget;

    budget = sched->params.budget_mixed;

    for (i = 0; i < HYMT_SCHED_SIZES && sched->params.sizes[i] != 0; i++) {
        size = sched->params.sizes[i];

        if (n_decode + size / 8 > size) {
            continue;
        }

        budget = size - n_decode;

        if (n_decode + wanted <= size * 2) {
            break;
        }
    }

    return hymt_max(budget, 1);
}


/*
 * Prompt rows that a slot could take now: none where it waits for a block that
 * another computes.
 */
static uint32_t
hymt_sched_want(hymt_sched_t *sched, uint32_t slot)
{
    uint32_t      pos;
    hymt_seq_t   *seq;
    hymt_slot_t  *s;

    s = &sched->slots[slot];
    seq = s->seq;

    if (seq->n_done >= seq->n_prompt) {
        return 0;
    }

    pos = hymt_prefix_skip(&sched->pool, &s->table, seq->n_done,
                           seq->n_prompt);

    seq->n_cached += pos - seq->n_done;
    seq->n_done = pos;

    return hymt_prefix_claim(&sched->pool, &s->table, slot, pos,
                             seq->n_prompt - pos);
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
    uint32_t  i, want, left;

    for (i = 0, left = budget; i < n; i++) {
        want = sched->want[i];

        if (i + 1 < n && want > budget / 2) {
            want = hymt_min(want, (left + sched->n_plans % 2) / 2);
        }

        sched->take[i] = hymt_min(want, left);
        left -= sched->take[i];
    }

    for (i = 0; i < n && left > 0; i++) {
        want = hymt_min(sched->want[i] - sched->take[i], left);

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
    entry->n_rows = n_rows;
    entry->sample = row->sample;
    entry->is_void = false;

    batch->n_rows += n_rows;
    seq->n_done += n_rows;
    seq->n_planned += row->sample;
    s->in_flight++;
}
