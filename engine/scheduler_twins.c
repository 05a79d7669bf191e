/*
 * scheduler_twins.c - sequences that follow another one which gives the same
 * output.  See scheduler.h.
 *
 * One that runs and those that follow it are one list, by `twins`: a follower's
 * place in it means nothing.  Those that wait and those that run are in the
 * index, those that follow are not.
 */

#include "scheduler_private.h"

#include <string.h>


static void hymt_sched_follow(hymt_sched_t *sched, hymt_seq_t *leader,
    hymt_seq_t *seq);


bool
hymt_sched_join(hymt_sched_t *sched, hymt_seq_t *seq)
{
    hymt_seq_t  *other;

    if (!sched->params.coalesce) {
        return false;
    }

    hymt_coalesce_key(&sched->coalesce, seq);

    for (other = hymt_coalesce_find(&sched->coalesce, seq, NULL);
         other != NULL;
         other = hymt_coalesce_find(&sched->coalesce, seq, other))
    {
        if (other->place == HYMT_PLACE_SLOT
            && !hymt_sched_is_canceled(other))
        {
            hymt_sched_follow(sched, other, seq);
            return true;
        }
    }

    hymt_coalesce_add(&sched->coalesce, seq);

    return false;
}


void
hymt_sched_gather(hymt_sched_t *sched, hymt_seq_t *seq)
{
    hymt_seq_t  *other, *next;

    if (!sched->params.coalesce) {
        return;
    }

    for (other = hymt_coalesce_find(&sched->coalesce, seq, NULL);
         other != NULL;
         other = next)
    {
        next = hymt_coalesce_find(&sched->coalesce, seq, other);

        /* a canceled one may still be in its slot */

        if (other->place == HYMT_PLACE_LINE) {
            hymt_line_remove(&sched->line, other);
            hymt_coalesce_remove(&sched->coalesce, other);
            hymt_sched_follow(sched, seq, other);
        }
    }
}


/* With the tokens that there are. */
static void
hymt_sched_follow(hymt_sched_t *sched, hymt_seq_t *leader, hymt_seq_t *seq)
{
    uint32_t  n;

    n = atomic_load_explicit(&leader->n_out, memory_order_relaxed);

    seq->place = HYMT_PLACE_TWIN;
    seq->coalesced = true;
    seq->n_cached = seq->n_prompt;
    seq->twins = leader->twins;
    leader->twins = seq;

    sched->n_coalesced++;

    if (n > 0) {
        memcpy(seq->out, leader->out, n * sizeof(uint32_t));
        atomic_store_explicit(&seq->n_out, n, memory_order_release);
        hymt_sched_tell(sched, seq);
    }
}


void
hymt_sched_end_twins(hymt_sched_t *sched, hymt_seq_t *seq,
    hymt_finish_t finish)
{
    hymt_seq_t  *twin;

    while ((twin = seq->twins) != NULL) {
        seq->twins = twin->twins;
        twin->batch = hymt_max(twin->batch, seq->batch);
        twin->place = HYMT_PLACE_NONE;
        twin->ended = finish;
        hymt_sched_tell(sched, twin);
    }
}


void
hymt_sched_drop_twins(hymt_sched_t *sched, hymt_seq_t *seq)
{
    hymt_seq_t  *twin, **p;

    for (p = &seq->twins; (twin = *p) != NULL; /* void */ ) {

        if (!hymt_sched_is_canceled(twin)) {
            p = &twin->twins;
            continue;
        }

        *p = twin->twins;
        twin->place = HYMT_PLACE_NONE;
        twin->ended = HYMT_FINISH_CANCELED;
        hymt_sched_tell(sched, twin);
    }
}


/*
 * Open plans name slots, not sequences, and both have the same tokens so far:
 * nothing else knows of the change.
 */
bool
hymt_sched_hand_over(hymt_sched_t *sched, hymt_seq_t *seq)
{
    hymt_seq_t  *heir;

    hymt_sched_drop_twins(sched, seq);

    heir = seq->twins;

    if (heir == NULL) {
        return false;
    }

    heir->place = HYMT_PLACE_SLOT;
    heir->slot = seq->slot;
    heir->n_done = seq->n_done;
    heir->n_planned = seq->n_planned;
    heir->n_cached = seq->n_cached;
    heir->batch = seq->batch;

    sched->slots[seq->slot].seq = heir;

    hymt_coalesce_remove(&sched->coalesce, seq);
    hymt_coalesce_add(&sched->coalesce, heir);

    seq->twins = NULL;
    seq->place = HYMT_PLACE_NONE;
    seq->ended = HYMT_FINISH_CANCELED;
    hymt_sched_tell(sched, seq);

    return true;
}


void
hymt_sched_leave(hymt_sched_t *sched, hymt_seq_t *seq)
{
    seq->place = HYMT_PLACE_NONE;

    if (sched->params.coalesce) {
        hymt_coalesce_remove(&sched->coalesce, seq);
    }
}
