/*
 * scheduler_line.c - see scheduler_line.h.
 */

#include "scheduler_line.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>


#define HYMT_FLOW_NONE  UINT32_MAX


static hymt_flow_t *hymt_line_flow(hymt_line_t *line, const hymt_seq_t *seq);
static uint32_t *hymt_line_bucket(hymt_line_t *line, const uint64_t key[2],
    uint32_t class);
static void hymt_line_enter(hymt_line_t *line, hymt_flow_t *flow);
static void hymt_line_leave(hymt_line_t *line, hymt_flow_t *flow);
static uint64_t hymt_line_cost(const hymt_seq_t *seq);


hymt_status_t
hymt_line_init(hymt_line_t *line, uint32_t max_flows, uint64_t age,
    hymt_error_t *err)
{
    uint32_t  i, n;

    memset(line, 0, sizeof(hymt_line_t));

    /* the first ones are for those without a key */

    max_flows += HYMT_N_PRIORITIES;

    for (n = 1; n < max_flows && n < UINT32_C(1) << 31; n *= 2) { /* void */ }

    line->flows = calloc(max_flows, sizeof(hymt_flow_t));
    line->bucket = calloc(n, sizeof(uint32_t));

    if (line->flows == NULL || line->bucket == NULL) {
        hymt_line_free(line);
        return hymt_fail(err, "no memory for a line of %" PRIu32 " flows",
                         max_flows);
    }

    for (i = 0; i < n; i++) {
        line->bucket[i] = HYMT_FLOW_NONE;
    }

    for (i = 0; i < max_flows; i++) {
        line->flows[i].class = i % HYMT_N_PRIORITIES;
        line->flows[i].chain = i + 1 < max_flows ? i + 1 : HYMT_FLOW_NONE;
    }

    line->free = max_flows > HYMT_N_PRIORITIES ? HYMT_N_PRIORITIES
                                               : HYMT_FLOW_NONE;
    line->mask = n - 1;
    line->age = age != 0 ? age : HYMT_LINE_AGE;

    return HYMT_OK;
}


void
hymt_line_free(hymt_line_t *line)
{
    free(line->flows);
    free(line->bucket);

    line->flows = NULL;
    line->bucket = NULL;
}


void
hymt_line_push(hymt_line_t *line, hymt_seq_t *seq)
{
    hymt_flow_t  *flow;

    flow = hymt_line_flow(line, seq);

    seq->line = flow;
    seq->next = NULL;
    seq->prev = flow->last;

    if (flow->first == NULL) {
        flow->first = seq;
        hymt_line_enter(line, flow);

    } else {
        flow->last->next = seq;
    }

    flow->last = seq;
    line->n++;
}


/* The one of its key, or a free one for it, or that of those without. */
static hymt_flow_t *
hymt_line_flow(hymt_line_t *line, const hymt_seq_t *seq)
{
    uint32_t      i, *bucket;
    hymt_flow_t  *flow;

    if (seq->flow[0] == 0 && seq->flow[1] == 0) {
        return &line->flows[seq->priority];
    }

    bucket = hymt_line_bucket(line, seq->flow, seq->priority);

    for (i = *bucket; i != HYMT_FLOW_NONE; i = flow->chain) {
        flow = &line->flows[i];

        if (flow->class == seq->priority && flow->key[0] == seq->flow[0]
            && flow->key[1] == seq->flow[1])
        {
            return flow;
        }
    }

    i = line->free;

    if (i == HYMT_FLOW_NONE) {
        return &line->flows[seq->priority];
    }

    flow = &line->flows[i];
    line->free = flow->chain;

    flow->key[0] = seq->flow[0];
    flow->key[1] = seq->flow[1];
    flow->class = seq->priority;
    flow->chain = *bucket;
    *bucket = i;

    return flow;
}


static uint32_t *
hymt_line_bucket(hymt_line_t *line, const uint64_t key[2], uint32_t class)
{
    return &line->bucket[(key[0] ^ key[1] ^ class) & line->mask];
}


/* Its turn comes when all others have had theirs. */
static void
hymt_line_enter(hymt_line_t *line, hymt_flow_t *flow)
{
    hymt_flow_t  *turn;

    flow->deficit = 0;
    turn = line->turn[flow->class];

    if (turn == NULL) {
        flow->left = flow;
        flow->right = flow;
        line->turn[flow->class] = flow;
        return;
    }

    flow->left = turn->left;
    flow->right = turn;
    turn->left->right = flow;
    turn->left = flow;
}


/* Out of the ring; one with a key is free for another. */
static void
hymt_line_leave(hymt_line_t *line, hymt_flow_t *flow)
{
    uint32_t  i, *at;

    if (flow->right == flow) {
        line->turn[flow->class] = NULL;

    } else {
        flow->left->right = flow->right;
        flow->right->left = flow->left;

        if (line->turn[flow->class] == flow) {
            line->turn[flow->class] = flow->right;
        }
    }

    i = (uint32_t) (flow - line->flows);

    if (i < HYMT_N_PRIORITIES) {
        return;
    }

    at = hymt_line_bucket(line, flow->key, flow->class);

    while (*at != i) {
        at = &line->flows[*at].chain;
    }

    *at = flow->chain;
    flow->chain = line->free;
    line->free = i;
}


hymt_seq_t *
hymt_line_first(hymt_line_t *line, bool batch)
{
    uint32_t      class;
    hymt_flow_t  *flow;

    class = HYMT_PRIORITY_INTERACTIVE;

    if (batch && line->turn[HYMT_PRIORITY_BATCH] != NULL
        && (line->turn[class] == NULL || line->passed >= line->age))
    {
        class = HYMT_PRIORITY_BATCH;
    }

    flow = line->turn[class];

    if (flow == NULL) {
        return NULL;
    }

    while (flow->deficit < hymt_line_cost(flow->first)) {
        flow->deficit += HYMT_LINE_QUANTUM;
        flow = flow->right;
    }

    line->turn[class] = flow;

    return flow->first;
}


static uint64_t
hymt_line_cost(const hymt_seq_t *seq)
{
    return (uint64_t) seq->n_prompt + seq->max_new;
}


void
hymt_line_take(hymt_line_t *line, hymt_seq_t *seq)
{
    uint64_t  cost;

    cost = hymt_line_cost(seq);
    seq->line->deficit -= hymt_min(seq->line->deficit, cost);

    if (seq->line->class == HYMT_PRIORITY_BATCH) {
        line->passed = 0;

    } else if (line->turn[HYMT_PRIORITY_BATCH] != NULL) {
        line->passed += cost;
    }

    hymt_line_remove(line, seq);
}


void
hymt_line_remove(hymt_line_t *line, hymt_seq_t *seq)
{
    hymt_flow_t  *flow;

    flow = seq->line;

    if (seq->prev != NULL) {
        seq->prev->next = seq->next;

    } else {
        flow->first = seq->next;
    }

    if (seq->next != NULL) {
        seq->next->prev = seq->prev;

    } else {
        flow->last = seq->prev;
    }

    seq->line = NULL;
    line->n--;

    if (flow->first == NULL) {
        hymt_line_leave(line, flow);
    }

    if (line->turn[HYMT_PRIORITY_BATCH] == NULL) {
        line->passed = 0;
    }
}


hymt_seq_t *
hymt_line_next(const hymt_line_t *line, const hymt_seq_t *seq)
{
    uint32_t            class;
    const hymt_flow_t  *flow;

    if (seq != NULL && seq->next != NULL) {
        return seq->next;
    }

    class = 0;

    if (seq != NULL) {
        class = seq->line->class;
        flow = seq->line->right;

        if (flow != line->turn[class]) {
            return flow->first;
        }

        class++;
    }

    while (class < HYMT_N_PRIORITIES && line->turn[class] == NULL) {
        class++;
    }

    return class < HYMT_N_PRIORITIES ? line->turn[class]->first : NULL;
}
