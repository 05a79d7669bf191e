/*
 * scheduler_private.h - what runs and what is in flight.  Private to
 * scheduler*.c: scheduler.c says who runs, scheduler_line.c who is next,
 * scheduler_twins.c who follows, scheduler_plan.c what a step carries,
 * scheduler_commit.c what has come of it.
 *
 * Thread: the engine thread.
 */

#ifndef HYMT_SCHEDULER_PRIVATE_H
#define HYMT_SCHEDULER_PRIVATE_H

#include "coalesce.h"
#include "scheduler_line.h"


#define HYMT_SCHED_DEPTH  2       /* plans that may be open */


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
    uint32_t  n_rows;
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

    hymt_line_t           line;
    bool                  cancels;     /* among those waiting, maybe */
    hymt_seq_list_t       news;
    hymt_coalesce_t       coalesce;    /* those that wait or run */
    uint64_t              n_coalesced;

    hymt_plan_t           plans[HYMT_SCHED_DEPTH];
    uint32_t              oldest;
    uint32_t              n_open;
    uint64_t              n_plans;

    hymt_batch_seq_t     *seqs;        /* [max_batch], of the last plan */
    uint32_t             *prefill;     /* [max_batch], slots with prompt left */
    uint32_t             *want;        /* [max_batch], rows each could take */
    uint32_t             *take;        /* [max_batch], rows for each of those */

    uint32_t             *stop;        /* [n_stop] */
};


/* scheduler.c */

/*
 * Takes a running sequence out of its slot, and tells.  The slot stays in
 * order[] until hymt_sched_compact(), so that loops over it may call this.
 */
void hymt_sched_end(hymt_sched_t *sched, hymt_seq_t *seq,
    hymt_finish_t finish);

/* Drops the slots of ended sequences from order[], and frees idle ones. */
void hymt_sched_compact(hymt_sched_t *sched);

void hymt_sched_free_slot(hymt_sched_t *sched, uint32_t slot);

bool hymt_sched_is_canceled(const hymt_seq_t *seq);

/* Puts a sequence on the news list, once. */
void hymt_sched_tell(hymt_sched_t *sched, hymt_seq_t *seq);


/* ---- scheduler_twins.c ---- */

/* Indexes a sequence that comes, or makes it follow: true. */
bool hymt_sched_join(hymt_sched_t *sched, hymt_seq_t *seq);

/* Makes all equal ones that wait follow a sequence that begins to run. */
void hymt_sched_gather(hymt_sched_t *sched, hymt_seq_t *seq);

/* Ends those that follow it with it. */
void hymt_sched_end_twins(hymt_sched_t *sched, hymt_seq_t *seq,
    hymt_finish_t finish);

/* Drops canceled ones of those that follow. */
void hymt_sched_drop_twins(hymt_sched_t *sched, hymt_seq_t *seq);

/* Puts the first that follows it in its place; false: there is none. */
bool hymt_sched_hand_over(hymt_sched_t *sched, hymt_seq_t *seq);

/* Takes a sequence that is over out of the index. */
void hymt_sched_leave(hymt_sched_t *sched, hymt_seq_t *seq);


/* scheduler_plan.c: the next rows of what runs, into the newest open plan. */
void hymt_sched_fill(hymt_sched_t *sched, hymt_batch_t *batch);


/*
 * scheduler_commit.c: one step less in flight for each slot of the plan;
 * drained ones are free.
 */
void hymt_sched_close(hymt_sched_t *sched, const hymt_plan_t *plan);


#endif /* HYMT_SCHEDULER_PRIVATE_H */
