/*
 * scheduler_line_test.c - the promises of scheduler_line.h.
 */

#include "random.h"
#include "scheduler_line.h"
#include "tap.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>


#define N_SEQS   400
#define N_FLOWS  6


static hymt_seq_t  seqs[N_SEQS];
static uint32_t    n_seqs;


static hymt_seq_t *
push(hymt_line_t *line, uint32_t priority, uint64_t flow, uint32_t tokens)
{
    hymt_seq_t  *seq;

    seq = &seqs[n_seqs++];
    memset(seq, 0, sizeof(hymt_seq_t));
    seq->priority = priority;
    seq->flow[1] = flow;
    seq->n_prompt = tokens - 1;
    seq->max_new = 1;

    hymt_line_push(line, seq);

    return seq;
}


static hymt_seq_t *
take(hymt_line_t *line)
{
    hymt_seq_t  *seq;

    seq = hymt_line_first(line, true);

    if (seq != NULL) {
        hymt_line_take(line, seq);
    }

    return seq;
}


static void
open_line(hymt_line_t *line, uint32_t max_flows, uint64_t age)
{
    n_seqs = 0;
    is_int(hymt_line_init(line, max_flows, age, NULL), HYMT_OK,
           "a line of %u flows", max_flows);
    ok(hymt_line_first(line, true) == NULL, "nobody waits");
}


static void
test_arrival(void)
{
    uint32_t     i, good;
    hymt_line_t  line;

    open_line(&line, 0, 0);

    for (i = 0; i < 20; i++) {
        push(&line, 0, i % 3, 1 + roll(5000));
    }

    for (i = 0, good = 0; i < 20; i++) {
        good += hymt_line_first(&line, false) == &seqs[i]
                && take(&line) == &seqs[i];
    }

    is_int(good, 20, "without flows: in order of arrival");
    ok(take(&line) == NULL, "then nobody is left");
    is_int(line.n, 0, "and none is counted");

    hymt_line_free(&line);
}


/* A client with many, and one that comes later with one. */
static void
test_flood(void)
{
    uint32_t     i;
    hymt_seq_t  *late, *other;
    hymt_line_t  line;

    open_line(&line, 8, 0);

    for (i = 0; i < 100; i++) {
        push(&line, 0, 1, 200);
    }

    for (i = 0; i < 10; i++) {
        take(&line);
    }

    late = push(&line, 0, 2, 200);
    other = push(&line, 0, 0, 200);

    for (i = 1; take(&line) != late && i < 100; i++) { /* void */ }

    ok(i <= 4, "it is not behind the hundred: %u", i);

    for (i = 1; take(&line) != other && i < 100; i++) { /* void */ }

    ok(i <= 4, "nor is one without a key: %u", i);

    hymt_line_free(&line);
}


/* Flows that always wait get equal numbers of tokens. */
static void
test_shares(void)
{
    uint32_t     i, turn, size;
    uint64_t     got[N_FLOWS + 1], least, most;
    hymt_seq_t  *seq;
    hymt_line_t  line;

    static const uint32_t  sizes[N_FLOWS + 1] = {
        0, 20, 300, 100, 3000, 700, 50
    };

    open_line(&line, 8, 0);
    memset(got, 0, sizeof(got));

    for (i = 1; i <= N_FLOWS; i++) {
        push(&line, 0, i, sizes[i]);
        push(&line, 0, i, sizes[i]);
    }

    for (turn = 0; turn < 20000; turn++) {
        seq = take(&line);
        i = (uint32_t) seq->flow[1];
        size = seq->n_prompt + 1;
        got[i] += size;

        /* its place in the line is taken again */

        seq->n_prompt = 1 + roll(2 * sizes[i] - 1);
        hymt_line_push(&line, seq);
    }

    for (i = 1, least = UINT64_MAX, most = 0; i <= N_FLOWS; i++) {
        least = hymt_min(least, got[i]);
        most = hymt_max(most, got[i]);
    }

    ok(most - least <= 2 * 6000 + HYMT_LINE_QUANTUM, "of %d flows each got"
       " %d tokens and at most %d more", N_FLOWS, (int) least,
       (int) (most - least));

    hymt_line_free(&line);
}


static void
test_priorities(void)
{
    uint32_t     i;
    hymt_seq_t  *first, *second;
    hymt_line_t  line;

    open_line(&line, 8, 1000);

    first = push(&line, HYMT_PRIORITY_BATCH, 1, 100);
    second = push(&line, HYMT_PRIORITY_BATCH, 1, 100);
    ok(hymt_line_first(&line, false) == NULL, "batch may be left out");
    ok(hymt_line_first(&line, true) == first, "batch alone is next");

    for (i = 0; i < 20; i++) {
        push(&line, HYMT_PRIORITY_INTERACTIVE, 1 + i % 2, 100);
    }

    for (i = 0; take(&line) != first && i < 100; i++) { /* void */ }

    is_int(i, 10, "1000 tokens go before it");
    ok(hymt_line_first(&line, true) != second, "then the next has to wait");

    for (i = 0; i < 8; i++) {
        take(&line);
    }

    hymt_line_remove(&line, second);
    push(&line, HYMT_PRIORITY_BATCH, 1, 100);

    for (i = 0; hymt_line_first(&line, true)->priority
                == HYMT_PRIORITY_INTERACTIVE && i < 100; i++)
    {
        take(&line);
    }

    is_int(i, 2, "with no others left it is next");
    ok(take(&line) != NULL && take(&line) == NULL, "and the last");

    hymt_line_free(&line);
}


/* More keys than flows, ways out of the line at random, against a list. */
static bool
random_run(uint64_t seed)
{
    bool         good;
    uint32_t     i, n, turn, waiting;
    hymt_seq_t  *seq, *next;
    hymt_line_t  line;
    bool         in[N_SEQS];

    rng = seed * 2654435761 + 88172645463325252;
    n_seqs = 0;
    good = true;
    memset(in, 0, sizeof(in));
    hymt_line_init(&line, roll(5), 1 + roll(3000), NULL);

    for (turn = 0; turn < 1500 && good; turn++) {

        if (roll(2) && n_seqs < N_SEQS) {
            in[n_seqs] = true;
            push(&line, roll(2), roll(8), 2 + roll(900));

        } else if (roll(3)) {
            seq = hymt_line_first(&line, roll(2));

            /* of its flow it is the oldest */

            for (i = 0; seq != NULL && &seqs[i] != seq; i++) {
                good = good && !(in[i] && seqs[i].line == seq->line);
            }

            if (seq != NULL) {
                good = good && in[seq - seqs];
                in[seq - seqs] = false;
                hymt_line_take(&line, seq);
            }

        } else if (roll(4) == 0) {
            for (seq = hymt_line_next(&line, NULL); seq != NULL; seq = next) {
                next = hymt_line_next(&line, seq);

                if (roll(3) == 0) {
                    good = good && in[seq - seqs];
                    in[seq - seqs] = false;
                    hymt_line_remove(&line, seq);
                }
            }
        }

        for (i = 0, waiting = 0; i < n_seqs; i++) {
            waiting += in[i];
        }

        for (seq = hymt_line_next(&line, NULL), n = 0; seq != NULL;
             seq = hymt_line_next(&line, seq))
        {
            good = good && in[seq - seqs];
            n++;
        }

        good = good && n == waiting && line.n == waiting;
        good = good && (waiting == 0
                        || hymt_line_first(&line, true) != NULL);
    }

    if (!good) {
        printf("# seed %" PRIu64 ": turn %u\n", seed, turn);
    }

    hymt_line_free(&line);

    return good;
}


int
main(int argc, char **argv)
{
    test_arrival();
    test_flood();
    test_shares();
    test_priorities();

    ok(tap_runs(argc, argv, 200, random_run),
       "200 random runs: all that wait are in the line, each flow in"
       " order");

    return tap_done();
}
