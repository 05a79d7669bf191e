/*
 * scheduler_line.h - who waits for a slot, and who is next.
 *
 * Two classes: interactive goes before batch.  A batch sequence ages: once
 * sequences of `age` tokens have gone before it, it is next, and nobody
 * overtakes it any more.
 *
 * Within a class the line is fair between flows (a client, a customer: whatever
 * the owner of the sequences calls one): deficit round robin (Shreedhar and
 * Varghese, SIGCOMM 1995) over the tokens that a sequence reserves, prompt and
 * cap.  Of flows that always have something waiting each gets the same number
 * of tokens, to within its largest sequence and a quantum; within a flow the
 * order is that of arrival.  With one flow that is the order of all.
 *
 * A key of 0 is no key; who has none shares a flow, as do those that come when
 * `max_flows` keys are waiting.
 *
 * Thread: engine thread only.
 */

#ifndef HYMT_SCHEDULER_LINE_H
#define HYMT_SCHEDULER_LINE_H

#include "scheduler.h"


#define HYMT_LINE_QUANTUM  256     /* tokens a flow gets in a round */
#define HYMT_LINE_AGE      32768   /* tokens */


struct hymt_flow_s {
    uint64_t      key[2];
    uint32_t      class;
    uint32_t      chain;           /* next in its bucket, or of free ones */
    uint64_t      deficit;         /* tokens it may still take in its turn */
    hymt_seq_t   *first;           /* by next, prev; NULL: the flow is free */
    hymt_seq_t   *last;
    hymt_flow_t  *left;            /* in the ring of its class */
    hymt_flow_t  *right;
};


typedef struct {
    hymt_flow_t  *flows;           /* owned, [max_flows and one a class] */
    uint32_t     *bucket;          /* owned, [mask + 1], of flows in use */
    uint32_t      mask;
    uint32_t      free;            /* first free flow */
    hymt_flow_t  *turn[HYMT_N_PRIORITIES];   /* whose it is; NULL: nobody */
    uint32_t      n;               /* sequences */
    uint64_t      passed;          /* tokens that went before batch's next */
    uint64_t      age;
} hymt_line_t;


hymt_status_t hymt_line_init(hymt_line_t *line, uint32_t max_flows,
    uint64_t age, hymt_error_t *err);

void hymt_line_free(hymt_line_t *line);

/* At the end of its flow. */
void hymt_line_push(hymt_line_t *line, hymt_seq_t *seq);

/*
 * The next one, or NULL; the same until it is taken or removed, unless one of a
 * more urgent class comes.  Without `batch` none of that class.
 */
hymt_seq_t *hymt_line_first(hymt_line_t *line, bool batch);

/* The one that first() has given gets its slot. */
void hymt_line_take(hymt_line_t *line, hymt_seq_t *seq);

/* Any other way out of the line: nobody is charged. */
void hymt_line_remove(hymt_line_t *line, hymt_seq_t *seq);

/* All that wait, in no order: the one after seq (NULL: the first), or NULL. */
hymt_seq_t *hymt_line_next(const hymt_line_t *line, const hymt_seq_t *seq);


#endif /* HYMT_SCHEDULER_LINE_H */
