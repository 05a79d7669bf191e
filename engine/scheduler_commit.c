/*
 * scheduler_commit.c - what has come of a step: tokens are appended and ends
 * found, or an aborted step is taken back.  See scheduler.h.
 */

#include "scheduler_private.h"


static void hymt_sched_rewind(hymt_sched_t *sched, const hymt_plan_t *plan);
static void hymt_sched_append(hymt_sched_t *sched, hymt_seq_t *seq,
    uint32_t token);
static bool hymt_sched_is_stop(const hymt_sched_t *sched,
    const hymt_seq_t *seq, uint32_t token);


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

        if (entry->is_void) {
            continue;
        }

        /* also of one that has ended since: what it computed is there */

        hymt_prefix_commit(&sched->pool, &sched->slots[entry->slot].table,
                           entry->n_done, entry->n_rows);

        seq = sched->slots[entry->slot].seq;

        if (seq != NULL && entry->sample) {
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

        if (entry->is_void) {
            continue;
        }

        if (seq != NULL) {
            seq->n_done = entry->n_done;
            seq->n_planned = entry->n_planned;
        }

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
    uint32_t     n;
    hymt_seq_t  *s;

    if (hymt_sched_is_stop(sched, seq, token)) {
        hymt_sched_end(sched, seq, HYMT_FINISH_STOP);
        return;
    }

    n = atomic_load_explicit(&seq->n_out, memory_order_relaxed);

    /* itself, and all that follow it: they have as many tokens */

    for (s = seq; s != NULL; s = s->twins) {
        s->out[n] = token;
        atomic_store_explicit(&s->n_out, n + 1, memory_order_release);
    }

    if (n + 1 == seq->max_new) {
        hymt_sched_end(sched, seq, HYMT_FINISH_LENGTH);
        return;
    }

    for (s = seq; s != NULL; s = s->twins) {
        hymt_sched_tell(sched, s);
    }
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


void
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
