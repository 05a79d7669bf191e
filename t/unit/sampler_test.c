/*
 * sampler_test.c - the sampler against a plain one that sorts, and the
 * distribution, ranges and random numbers it promises.
 */

#include "sampler.h"
#include "tap.h"


#define VOCAB  3000


typedef struct {
    float     score;
    uint32_t  id;
    double    p;
} entry_t;


static float     logits[VOCAB], work[VOCAB];
static double    scratch[VOCAB];
static uint64_t  seen[hymt_seen_words(VOCAB)];
static uint64_t  state;


static uint32_t
random_below(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;

    return (uint32_t) (state >> 33) % n;
}


static int
by_score(const void *one, const void *two)
{
    const entry_t  *a = one, *b = two;

    if (a->score != b->score) {
        return a->score < b->score ? 1 : -1;
    }

    return a->id < b->id ? -1 : 1;
}


static int
by_id(const void *one, const void *two)
{
    const entry_t  *a = one, *b = two;

    return a->id < b->id ? -1 : 1;
}


/* sampling.h and sampler.h word by word. */
static uint32_t
plain(const hymt_sampling_t *s, uint32_t n_out, const float *x, uint32_t n)
{
    double          sum, goal, u;
    uint32_t        i, kept, k;

    static entry_t  e[VOCAB];

    for (i = 0; i < n; i++) {
        e[i].id = i;
        e[i].score = x[i];

        if (seen[i / 64] >> i % 64 & 1) {
            e[i].score = x[i] < 0 ? x[i] * s->repetition_penalty
                                  : x[i] / s->repetition_penalty;
        }

        if (s->temperature != 0) {
            e[i].score /= s->temperature;
        }
    }

    qsort(e, n, sizeof(entry_t), by_score);

    if (s->temperature == 0) {
        return e[0].id;
    }

    kept = n;

    if (s->top_k != 0 && s->top_k < n) {
        k = s->top_k;

        while (k < n && e[k].score == e[s->top_k - 1].score) {
            k++;
        }

        kept = k;
    }

    sum = 0;

    for (i = 0; i < kept; i++) {
        e[i].p = exp((double) e[i].score - (double) e[0].score);
        sum += e[i].p;
    }

    if (s->top_p < 1) {
        goal = (double) s->top_p * sum;
        sum = 0;

        for (i = 0; i < kept && (i == 0 || sum < goal); i++) {
            sum += e[i].p;
        }

        kept = i;
    }

    qsort(e, kept, sizeof(entry_t), by_id);

    u = (double) hymt_uniform(s, n_out) * sum;
    sum = 0;
    k = e[0].id;

    for (i = 0; i < kept; i++) {
        if (e[i].p > 0) {
            k = e[i].id;
            sum += e[i].p;

            if (sum > u) {
                break;
            }
        }
    }

    return k;
}


/* Logits of one of a few kinds: smooth, full of ties, with holes, flat. */
static void
fill(uint32_t kind, uint32_t n)
{
    uint32_t  i;

    for (i = 0; i < n; i++) {
        switch (kind) {
        case 0:
            logits[i] = (float) random_below(1000000) / 50000 - 12;
            break;
        case 1:
            logits[i] = (float) random_below(9) - 4;
            break;
        case 2:
            logits[i] = random_below(3) ? -INFINITY
                                        : (float) random_below(40) / 4 - 5;
            break;
        case 3:
            logits[i] = 1.5f;
            break;
        default:
            logits[i] = random_below(100) ? -30 - (float) random_below(90)
                                          : (float) random_below(1000) / 300;
            logits[i] = random_below(50) ? logits[i] : -0.0f;
        }
    }

    memset(seen, 0, sizeof(seen));

    for (i = 0; i < n / 20; i++) {
        hymt_seen_add(seen, random_below(n));
    }
}


static void
test_against_plain(void)
{
    uint32_t         i, kind, n, got, want, bad, total;
    hymt_sampling_t  s;

    static const float     temperatures[] = { 0, 0.1f, 0.7f, 1, 3 };
    static const float     ps[] = { 1, 0.6f, 0.95f, 0.05f, 1e-6f };
    static const float     penalties[] = { 1, 1.05f, 0.5f, 3 };
    static const uint32_t  ks[] = { 0, 1, 20, 500, VOCAB + 5 };
    static const uint32_t  sizes[] = { 1, 2, 65, 1000, VOCAB };

    n = 0;

    for (kind = 0; kind < 5; kind++) {
        bad = 0;
        total = 0;

        for (i = 0; i < 2500; i++) {
            if (i % 10 == 0) {
                n = sizes[random_below(5)];
                fill(kind, n);
            }

            memset(&s, 0, sizeof(s));
            s.temperature = temperatures[random_below(5)];
            s.top_p = ps[random_below(5)];
            s.top_k = ks[random_below(5)];
            s.repetition_penalty = penalties[random_below(4)];
            s.seed = i;
            s.index = i % 3;

            memcpy(work, logits, n * sizeof(float));

            got = hymt_sample(&s, seen, i, work, n, scratch);
            want = plain(&s, i, logits, n);
            total++;

            if (got != want && bad++ < 3) {
                printf("# kind %u, %u logits, temperature %g, top_k %u, top_p"
                       " %g, penalty %g, seed %u: got %u (%g), want %u (%g)\n",
                       kind, n, s.temperature, s.top_k, s.top_p,
                       s.repetition_penalty, i, got, logits[got], want,
                       logits[want]);
            }
        }

        is_int(bad, 0, "logits of kind %u: %u draws as by sorting", kind,
               total);
    }
}


static void
test_ties(void)
{
    uint32_t         i, n;
    hymt_sampling_t  s = { .temperature = 0, .top_p = 1,
                           .repetition_penalty = 1 };

    const float  x[6] = { 1, 5, 5, 2, 5, -INFINITY };

    memset(seen, 0, sizeof(seen));

    memcpy(work, x, sizeof(x));
    is_int(hymt_sample(&s, seen, 0, work, 6, scratch), 1,
           "greedy: the smallest id of equal scores");

    s.repetition_penalty = 2;
    hymt_seen_add(seen, 1);
    memcpy(work, x, sizeof(x));
    is_int(hymt_sample(&s, seen, 0, work, 6, scratch), 2,
           "greedy: after the penalty");

    /* half of the mass of three equal scores: the first two ids */

    memset(seen, 0, sizeof(seen));
    s.temperature = 0.01f;
    s.top_p = 0.5f;
    n = 0;

    for (i = 0; i < 200; i++) {
        memcpy(work, x, sizeof(x));
        n |= 1u << hymt_sample(&s, seen, i, work, 6, scratch);
    }

    is_int(n, 1 << 1 | 1 << 2, "top-p: of equal scores the smaller ids");

    s.top_p = 1;
    s.top_k = 1;
    n = 0;

    for (i = 0; i < 200; i++) {
        memcpy(work, x, sizeof(x));
        n |= 1u << hymt_sample(&s, seen, i, work, 6, scratch);
    }

    is_int(n, 1 << 1 | 1 << 2 | 1 << 4,
           "top-k: all that are not below the k-th value");

    for (i = 0; i < 6; i++) {
        work[i] = -INFINITY;
    }

    is_int(hymt_sample(&s, seen, 0, work, 6, scratch), 0,
           "nothing possible: the first id, and no crash");

    for (i = 0, n = 0; i < 200; i++) {
        work[0] = 0;
        work[1] = -INFINITY;
        work[2] = 0;
        s.top_k = 0;
        s.temperature = 1;
        n |= 1u << hymt_sample(&s, seen, i, work, 3, scratch);
    }

    is_int(n, 1 << 0 | 1 << 2, "what is impossible is never drawn");
}


/* 200,000 draws from 8 tokens: chi-square with 7 degrees of freedom. */
static void
test_distribution(void)
{
    double           p[8], sum, chi, expected;
    uint32_t         i, count[8];
    hymt_sampling_t  s = { .temperature = 0.7f, .top_p = 1, .seed = 2024,
                           .repetition_penalty = 1 };

    const uint32_t  draws = 200000;
    const float     x[8] = { 0, 1, -1, 0.5f, 2, -2, 1.5f, 0 };

    memset(count, 0, sizeof(count));
    memset(seen, 0, sizeof(seen));
    sum = 0;

    for (i = 0; i < 8; i++) {
        p[i] = exp((double) x[i] / 0.7);
        sum += p[i];
    }

    for (i = 0; i < draws; i++) {
        memcpy(work, x, sizeof(x));
        s.index = i % 7;
        count[hymt_sample(&s, seen, i / 7, work, 8, scratch)]++;
    }

    chi = 0;

    for (i = 0; i < 8; i++) {
        expected = draws * p[i] / sum;
        chi += (count[i] - expected) * (count[i] - expected) / expected;
    }

    ok(chi < 24.3, "distribution: chi-square %.2f, below 24.3 (p = 0.001)",
       chi);
}


static void
test_uniform(void)
{
    float            u, low, high;
    double           sum;
    uint32_t         i;
    hymt_sampling_t  s;

    memset(&s, 0, sizeof(s));

    /* Random123's known answer for counter 0, key 0: 6627e8d5 ... */

    is_near(hymt_uniform(&s, 0), (0x6627e8d5u >> 8) * 0x1p-24, 0,
            "Philox4x32-10, known answer");

    s.seed = 0x0123456789abcdefu;
    s.index = 3;
    u = hymt_uniform(&s, 11);
    is_near(hymt_uniform(&s, 11), u, 0, "the same again");
    ok(hymt_uniform(&s, 12) != u, "another token, another number");
    s.index = 4;
    ok(hymt_uniform(&s, 11) != u, "another sequence, another number");
    s.index = 3;
    s.seed ^= (uint64_t) 1 << 40;
    ok(hymt_uniform(&s, 11) != u, "another seed, another number");

    low = 1;
    high = 0;
    sum = 0;

    for (i = 0; i < 100000; i++) {
        u = hymt_uniform(&s, i);
        low = fminf(low, u);
        high = fmaxf(high, u);
        sum += (double) u;
    }

    ok(low >= 0 && high < 1, "in [0, 1): %g to %.9g", low, high);
    is_near(sum / 100000, 0.5, 0.005, "mean");
}


static void
test_check(void)
{
    size_t           i;
    hymt_error_t     err;
    hymt_sampling_t  s;

    static const struct {
        float        temperature, top_p, penalty;
        const char  *field;
    } cases[] = {
        { 0, 1, 1, NULL },
        { 10, 0.001f, 0.1f, NULL },
        { 0.7f, 0.6f, 10, NULL },
        { -0.1f, 1, 1, "temperature" },
        { 10.5f, 1, 1, "temperature" },
        { NAN, 1, 1, "temperature" },
        { INFINITY, 1, 1, "temperature" },
        { 1, 0, 1, "top_p" },
        { 1, 1.01f, 1, "top_p" },
        { 1, NAN, 1, "top_p" },
        { 1, 1, 0.05f, "repetition_penalty" },
        { 1, 1, 11, "repetition_penalty" },
        { 1, 1, NAN, "repetition_penalty" },
    };

    for (i = 0; i < hymt_nelts(cases); i++) {
        memset(&s, 0, sizeof(s));
        s.temperature = cases[i].temperature;
        s.top_p = cases[i].top_p;
        s.repetition_penalty = cases[i].penalty;

        if (cases[i].field == NULL) {
            is_int(hymt_sampling_check(&s, &err), HYMT_OK,
                   "%g, %g, %g are in range", s.temperature, s.top_p,
                   s.repetition_penalty);

        } else {
            is_int(hymt_sampling_check(&s, &err), HYMT_ERROR,
                   "%g, %g, %g are not", s.temperature, s.top_p,
                   s.repetition_penalty);
            has_str(err.text, cases[i].field, "the error names the field");
        }
    }
}


static void
test_again(void)
{
    uint32_t         i, same;
    hymt_sampling_t  first, second, again;

    memset(&first, 0, sizeof(first));
    first.seed = 7;
    first.index = 3;

    second = first;
    again = first;

    hymt_sampling_again(&second, 1);
    hymt_sampling_again(&again, 1);

    for (i = 0, same = 0; i < 100; i++) {
        same += hymt_uniform(&first, i) == hymt_uniform(&second, i);
    }

    ok(same < 5, "another try: other numbers, %u of 100 the same", same);
    ok(second.seed == again.seed && second.index == first.index,
       "another try: always the same ones");

    hymt_sampling_again(&first, 0);
    is_int(first.seed, 7, "the first try has its seed");
}


static void
test_finite(void)
{
    uint32_t  i;
    float     x[100];

    for (i = 0; i < 100; i++) {
        x[i] = (i & 1 ? -3e38f : 3e38f);
    }

    ok(hymt_all_finite(x, 100), "large numbers are finite");
    x[57] = INFINITY;
    ok(!hymt_all_finite(x, 100), "infinity is not");
    x[57] = -INFINITY;
    ok(!hymt_all_finite(x, 100), "nor is -infinity");
    x[57] = NAN;
    ok(!hymt_all_finite(x, 100), "nor what is not a number");
}


int
main(void)
{
    test_against_plain();
    test_ties();
    test_distribution();
    test_uniform();
    test_check();
    test_again();
    test_finite();

    return tap_done();
}
