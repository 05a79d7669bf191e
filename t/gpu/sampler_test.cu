/*
 * sampler_test.cu - the device's sampler draws the CPU backend's tokens, for
 * all settings and for awkward logits, wherever a row stands in its batch.
 *
 * The device's weights are rounded to 2^-46 of the best's and the CPU's sums to
 * 2^-53, so a draw that falls so close to a border could differ; of the
 * thousands here none should.
 *
 * With the arguments "seed small", for compute-sanitizer: each way to draw, by
 * each number of blocks; "seed small 4": by at most four, as racecheck comes to
 * no end with eight.
 */

extern "C" {
#include "../../kernels/cpu/sampler.h"
}

#include "device_buffer.h"


#define N_KINDS   11
#define MAX_ROWS  300
#define UNTOUCHED 0xdeadbeefu

#define BF16_MAX  0x1.fep127f


typedef struct {
    uint32_t            vocab;
    uint32_t            ld;
    uint32_t            rows;
    uint32_t            slots;
    uint32_t            words;      /* of a slot's set, 32 bits each */

    uint16_t           *logits;     /* [rows][ld] bf16 */
    hymt_sample_row_t  *sample;     /* [rows] */
    uint32_t           *seen;       /* [slots][words] */
    uint32_t           *last;       /* [slots] */
    uint32_t           *out;        /* [rows] */
    uint32_t            bad;

    buffer_t            d_logits, d_sample, d_seen, d_last, d_out, d_bad;
    buffer_t            d_scratch;
} batch_t;


static hymt_cuda_t  dev;


static void *
new_array(size_t n, size_t size)
{
    void  *p;

    p = calloc(n, size);

    if (p == NULL) {
        printf("Bail out! no memory\n");
        exit(2);
    }

    return p;
}


static void
batch_new(batch_t *b, uint32_t rows, uint32_t vocab, uint32_t ld)
{
    b->vocab = vocab;
    b->ld = ld;
    b->rows = rows;
    b->slots = rows + 5;
    b->words = (vocab + 63) / 64 * 2;

    b->logits = (uint16_t *) new_array((size_t) rows * ld, 2);
    b->sample = (hymt_sample_row_t *) new_array(rows, sizeof(*b->sample));
    b->seen = (uint32_t *) new_array((size_t) b->slots * b->words, 4);
    b->last = (uint32_t *) new_array(b->slots, 4);
    b->out = (uint32_t *) new_array(rows, 4);

    buffer_new(&b->d_logits, (size_t) rows * ld * 2);
    buffer_new(&b->d_sample, rows * sizeof(*b->sample));
    buffer_new(&b->d_seen, (size_t) b->slots * b->words * 4);
    buffer_new(&b->d_last, b->slots * 4);
    buffer_new(&b->d_out, rows * 4);
    buffer_new(&b->d_bad, 4);
    buffer_new(&b->d_scratch, hymt_sampler_scratch(rows, ld));
}


static void
batch_free(batch_t *b)
{
    buffer_free(&b->d_logits);
    buffer_free(&b->d_sample);
    buffer_free(&b->d_seen);
    buffer_free(&b->d_last);
    buffer_free(&b->d_out);
    buffer_free(&b->d_bad);
    buffer_free(&b->d_scratch);
    free(b->logits);
    free(b->sample);
    free(b->seen);
    free(b->last);
    free(b->out);
}


/* A logit of one kind. */
static float
logit(uint32_t kind, uint32_t vocab)
{
    float  x;

    static const float  brought[] = { 20, 21, 10, 60 };

    switch (kind) {
    case 0:
        return (float) random_below(1000000) / 50000 - 12;

    case 1:
        return (float) random_below(9) - 4;

    case 2:
        return random_below(3) ? -BF16_MAX : (float) random_below(40) / 4 - 5;

    case 3:
        return 1.5f;

    case 4:
        x = random_below(100) ? -30 - (float) random_below(90)
                              : (float) random_below(1000) / 300;
        return random_below(50) ? x : -0.0f;

    case 5:
        return random_normal() * 3;

    case 6:
        return random_normal();

    case 7:
        return random_normal() * 1e-39f;

    case 8:
        x = random_below(vocab) < 40 ? 7.25f : random_normal();
        return random_below(vocab) < 10 ? 8 + random_normal() / 4 : x;

    case 9:
        return random_normal() * 1e38f;

    default:
        /* penalties of 1.05, 0.5 and 3 bring each to 20, or next to it */
        return brought[random_below(4)];
    }
}


/* Logits of one kind; what is past the vocabulary must not matter. */
static void
fill_row(uint16_t *x, uint32_t kind, uint32_t vocab, uint32_t ld)
{
    uint32_t  i;

    for (i = 0; i < ld; i++) {
        x[i] = i < vocab ? bf16_bits(logit(kind, vocab))
               : i % 2 ? bf16_bits(NAN) : bf16_bits(INFINITY);
    }

    if (kind == 6) {
        x[random_below(vocab)] = bf16_bits(10000);
    }
}


static void
fill_settings(hymt_sample_row_t *s, uint32_t slot)
{
    static const float     temperatures[] = { 0, 0.1f, 0.7f, 0.7f, 1, 3 };
    static const float     ps[] = { 1, 0.6f, 0.6f, 0.95f, 0.05f, 1e-6f };
    static const float     penalties[] = { 1, 1.05f, 1.05f, 0.5f, 3 };
    static const uint32_t  ks[] = { 0, 1, 20, 20, 50, 128, 129, 500, 1000000 };

    memset(s, 0, sizeof(*s));

    s->slot = slot;
    s->n_out = random_below(1000);
    s->temperature = temperatures[random_below(6)];
    s->top_p = ps[random_below(6)];
    s->top_k = ks[random_below(9)];
    s->repetition_penalty = penalties[random_below(5)];
    s->seed = (uint64_t) random_u32() << 32 | random_u32();
    s->index = random_below(4);

    if (s->temperature == 0 && random_below(2)) {
        s->top_p = 0;
        s->repetition_penalty = 1;
        s->top_k = 0;
        s->seed = 0;
    }
}


static void
fill_batch(batch_t *b, uint32_t kind)
{
    uint32_t  i, j, slot;

    for (i = 0; i < b->slots * b->words; i++) {
        b->seen[i] = 0;
    }

    for (i = 0; i < b->slots; i++) {
        b->last[i] = UNTOUCHED;

        for (j = 0; j < b->vocab / 20; j++) {
            slot = random_below(b->vocab);
            b->seen[i * b->words + slot / 32] |= 1u << slot % 32;
        }
    }

    /* rows in any order of slots: a walk by a step of one from any of them */

    slot = random_below(b->slots);

    for (i = 0; i < b->rows; i++) {
        slot = (slot + 1) % b->slots;
        fill_row(b->logits + (size_t) i * b->ld, kind, b->vocab, b->ld);
        fill_settings(&b->sample[i], slot);
        b->out[i] = UNTOUCHED;
    }

    b->bad = 0;
}


static void
batch_put(batch_t *b)
{
    buffer_poison(&b->d_scratch);
    buffer_put(&b->d_logits, b->logits, b->d_logits.bytes);
    buffer_put(&b->d_sample, b->sample, b->d_sample.bytes);
    buffer_put(&b->d_seen, b->seen, b->d_seen.bytes);
    buffer_put(&b->d_last, b->last, b->d_last.bytes);
    buffer_put(&b->d_out, b->out, b->d_out.bytes);
    buffer_put(&b->d_bad, &b->bad, 4);
}


static void
batch_run(const batch_t *b, uint32_t first, uint32_t rows)
{
    hymt_sample_args_t  args;

    args.logits = (hymt_bf16_t *) b->d_logits.data + (size_t) first * b->ld;
    args.ld = b->ld;
    args.vocab = b->vocab;
    args.rows = rows;
    args.sample = (hymt_sample_row_t *) b->d_sample.data + first;
    args.seen = (uint32_t *) b->d_seen.data;
    args.seen_words = b->words;
    args.last = (uint32_t *) b->d_last.data;
    args.out = (uint32_t *) b->d_out.data + first;
    args.bad = (uint32_t *) b->d_bad.data;
    args.scratch = b->d_scratch.data;

    gpu(hymt_cuda_sample(&dev, &args, dev.stream));
    gpu(cudaStreamSynchronize(dev.stream));
}


static bool
batch_guarded(const batch_t *b)
{
    return buffer_guarded(&b->d_logits) && buffer_guarded(&b->d_sample)
           && buffer_guarded(&b->d_seen) && buffer_guarded(&b->d_last)
           && buffer_guarded(&b->d_out) && buffer_guarded(&b->d_bad)
           && buffer_guarded(&b->d_scratch);
}


/* What the CPU backend does with a row: the token, and its state. */
static uint32_t
cpu_sample(batch_t *b, uint32_t row)
{
    uint32_t                  i, token;
    hymt_sampling_t           s;
    const hymt_sample_row_t  *from;

    static float              work[1 << 18];
    static double             scratch[1 << 18];

    from = &b->sample[row];

    if (from->slot == UINT32_MAX) {
        return UNTOUCHED;
    }

    for (i = 0; i < b->vocab; i++) {
        work[i] = bf16_value(b->logits[(size_t) row * b->ld + i]);
    }

    if (!hymt_all_finite(work, b->vocab)) {
        b->bad = 1;
        return UINT32_MAX;
    }

    s.temperature = from->temperature;
    s.top_p = from->top_p;
    s.repetition_penalty = from->repetition_penalty;
    s.top_k = from->top_k;
    s.seed = from->seed;
    s.index = from->index;

    /* its words have twice the bits; the bytes are the same */

    token = hymt_sample(&s, (uint64_t *) (b->seen
                                          + (size_t) from->slot * b->words),
                        from->n_out, work, b->vocab, scratch);

    b->last[from->slot] = token;
    b->seen[(size_t) from->slot * b->words + token / 32] |= 1u << token % 32;

    return token;
}


/* Runs the batch here and there; the number of words that differ. */
static uint32_t
compare(batch_t *b, uint32_t kind)
{
    uint32_t                  i, bad, *out, *last, *seen, device_bad;
    const hymt_sample_row_t  *s;

    batch_put(b);
    batch_run(b, 0, b->rows);

    bad = 0;
    out = (uint32_t *) new_array(b->rows, 4);
    last = (uint32_t *) new_array(b->slots, 4);
    seen = (uint32_t *) new_array((size_t) b->slots * b->words, 4);

    buffer_get(&b->d_out, out, b->d_out.bytes);
    buffer_get(&b->d_last, last, b->d_last.bytes);
    buffer_get(&b->d_seen, seen, b->d_seen.bytes);
    buffer_get(&b->d_bad, &device_bad, 4);

    for (i = 0; i < b->rows; i++) {
        b->out[i] = cpu_sample(b, i);
        s = &b->sample[i];

        if (out[i] != b->out[i] && bad++ < 3) {
            printf("# kind %u, row %u, slot %u, temperature %g, top_k %u,"
                   " top_p %g, penalty %g: got %u (%g), want %u (%g)\n", kind,
                   i, s->slot, (double) s->temperature, s->top_k,
                   (double) s->top_p, (double) s->repetition_penalty, out[i],
                   out[i] < b->vocab
                   ? (double) bf16_value(b->logits[(size_t) i * b->ld
                                                   + out[i]]) : NAN,
                   b->out[i],
                   b->out[i] < b->vocab
                   ? (double) bf16_value(b->logits[(size_t) i * b->ld
                                                   + b->out[i]]) : NAN);
        }
    }

    bad += memcmp(last, b->last, b->d_last.bytes) != 0;
    bad += memcmp(seen, b->seen, b->d_seen.bytes) != 0;
    bad += device_bad != b->bad;

    free(out);
    free(last);
    free(seen);

    return bad;
}


static void
test_against_cpu(uint32_t rows, uint32_t vocab, uint32_t ld, uint32_t rounds)
{
    bool      guarded;
    uint32_t  kind, i, bad;
    batch_t   b;

    batch_new(&b, rows, vocab, ld);

    for (kind = 0; kind < N_KINDS; kind++) {
        bad = 0;

        for (i = 0; i < rounds; i++) {
            fill_batch(&b, kind);
            bad += compare(&b, kind);
        }

        guarded = batch_guarded(&b);

        ok(bad == 0 && guarded, "logits of kind %u: %u of %u draws from %u"
           " tokens are not the CPU's%s", kind, bad, rows * rounds, vocab,
           guarded ? "" : "; written beside a buffer");
    }

    batch_free(&b);
}


/*
 * Each way to draw, by as many blocks as share a row: greedy, by candidates,
 * from the whole row; where all logits are equal there are too many candidates.
 * Then a padded row, and one that is not finite.
 */
static void
test_ways(uint32_t most)
{
    bool                guarded;
    batch_t             b;
    uint32_t            i, j, way, bad;
    hymt_sample_row_t  *s;

    /* by one block each, by two, ... */

    static const uint32_t  rows[] = { 65, 33, 17, 10 };

    static const struct {
        float     temperature;
        float     top_p;
        float     penalty;
        uint32_t  top_k;
        uint32_t  kind;
    } ways[] = {
        { 0, 1, 1.05f, 0, 5 },
        { 0, 1, 1, 0, 3 },
        { 0.7f, 1, 1, 20, 5 },
        { 0.7f, 0.6f, 1.05f, 20, 5 },
        { 0.7f, 0.6f, 1, 20, 3 },
        { 1, 1, 1, 0, 5 },
        { 1, 0.6f, 1.05f, 0, 5 },
        { 0.7f, 0.95f, 1.05f, 200, 5 },
        { 0.7f, 1, 1, 20, 5 },
        { 0.7f, 1, 1, 20, 5 },
    };

    const uint32_t  n_ways = sizeof(ways) / sizeof(ways[0]);

    for (i = 0; 1u << i <= most; i++) {
        batch_new(&b, rows[i], 700, 704);
        fill_batch(&b, 5);

        for (j = 0; j < rows[i]; j++) {
            way = j % n_ways;
            s = &b.sample[j];

            fill_row(b.logits + j * b.ld, ways[way].kind, b.vocab, b.ld);
            s->temperature = ways[way].temperature;
            s->top_p = ways[way].top_p;
            s->repetition_penalty = ways[way].penalty;
            s->top_k = ways[way].top_k;

            if (way == n_ways - 2) {
                s->slot = UINT32_MAX;
            }

            if (way == n_ways - 1) {
                b.logits[j * b.ld + random_below(b.vocab)] = bf16_bits(NAN);
            }
        }

        bad = compare(&b, 5);
        guarded = batch_guarded(&b);

        ok(bad == 0 && guarded, "%u ways, %u rows, %u blocks each: %u draws are"
           " not the CPU's%s", n_ways, rows[i], 1u << i, bad,
           guarded ? "" : "; written beside a buffer");

        batch_free(&b);
    }
}


/* Padded rows draw nothing; what is not finite is noticed and not drawn. */
static void
test_not_drawn(void)
{
    uint32_t  i, id;
    batch_t   b;

    /* not a number, of both signs, and infinite */
    static const uint16_t  values[] = { 0x7fc1, 0xffff, 0x7f80, 0xff80 };

    batch_new(&b, 40, 12300, 12304);

    fill_batch(&b, 5);

    for (i = 0; i < b.rows; i += 3) {
        b.sample[i].slot = UINT32_MAX;
        b.logits[(size_t) i * b.ld + 7] = bf16_bits(NAN);
    }

    is_int(compare(&b, 5), 0, "padded rows draw nothing, whatever is in them");
    is_int(b.bad, 0, "and are not looked at");

    for (i = 0; i < 60; i++) {
        fill_batch(&b, 5);

        id = i == 0 ? b.vocab - 1 : random_below(b.vocab);
        id = i == 1 ? b.vocab - 2 : id;
        b.logits[(size_t) random_below(b.rows) * b.ld + id] = values[i % 4];

        if (compare(&b, 5) != 0 || b.bad == 0) {
            break;
        }
    }

    is_int(i, 60, "one logit that is not finite: the flag, no draw, no state");
    ok(batch_guarded(&b), "nothing is written beside the buffers");

    batch_free(&b);
}


/* A row draws the same alone, and in each place of another batch. */
static void
test_invariance(void)
{
    uint32_t  i, turn, from, bad, alone, *out;
    batch_t   b, other;

    const uint32_t  rows = 64, vocab = 120818, ld = 120832;

    batch_new(&b, rows, vocab, ld);
    batch_new(&other, rows, vocab, ld);

    fill_batch(&b, 5);

    for (i = 0; i < rows; i += 2) {
        fill_row(b.logits + (size_t) i * ld, i / 2 % N_KINDS, vocab, ld);
    }

    batch_put(&b);
    batch_run(&b, 0, rows);
    buffer_get(&b.d_out, b.out, b.d_out.bytes);
    bad = 0;

    for (i = 0; i < rows; i++) {
        batch_put(&b);
        batch_run(&b, i, 1);
        gpu(cudaMemcpy(&alone, (uint32_t *) b.d_out.data + i, 4,
                       cudaMemcpyDeviceToHost));
        bad += alone != b.out[i];
    }

    is_int(bad, 0, "%u rows, each alone: the same tokens", rows);

    out = (uint32_t *) new_array(rows, 4);
    memcpy(other.seen, b.seen, b.d_seen.bytes);
    bad = 0;

    for (turn = 1; turn < rows; turn += 13) {
        for (i = 0; i < rows; i++) {
            from = (i + turn) % rows;
            other.sample[i] = b.sample[from];
            memcpy(other.logits + (size_t) i * ld,
                   b.logits + (size_t) from * ld, ld * 2);
        }

        batch_put(&other);
        batch_run(&other, 0, rows);
        buffer_get(&other.d_out, out, other.d_out.bytes);

        for (i = 0; i < rows; i++) {
            bad += out[i] != b.out[(i + turn) % rows];
        }
    }

    is_int(bad, 0, "in other places of a batch: the same tokens");

    free(out);
    batch_free(&b);
    batch_free(&other);
}


/* A million draws from one row of logits; every draw is a row of its own. */
static void
test_distribution(uint32_t top_k, uint32_t n_drawn, double limit)
{
    uint16_t           *x;
    double              p, sum, chi, expected;
    batch_t             b;
    uint32_t            i, j, *out, *count;
    hymt_sample_args_t  args;

    const uint32_t  vocab = 200, rows = 4096, rounds = 250;

    batch_new(&b, rows, vocab, vocab);
    out = (uint32_t *) new_array(rows, 4);
    count = (uint32_t *) new_array(vocab, 4);
    x = b.logits;

    /* the greatest first, so that top-k keeps the first ids */

    for (i = 0; i < vocab; i++) {
        x[i] = bf16_bits(1.5f - (float) i * (2.0f / 200));
    }

    args.logits = (hymt_bf16_t *) b.d_logits.data;
    args.ld = 0;
    args.vocab = vocab;
    args.rows = rows;
    args.sample = (hymt_sample_row_t *) b.d_sample.data;
    args.seen = (uint32_t *) b.d_seen.data;
    args.seen_words = b.words;
    args.last = (uint32_t *) b.d_last.data;
    args.out = (uint32_t *) b.d_out.data;
    args.bad = (uint32_t *) b.d_bad.data;
    args.scratch = b.d_scratch.data;

    batch_put(&b);

    for (j = 0; j < rounds; j++) {
        for (i = 0; i < rows; i++) {
            b.sample[i].slot = i;
            b.sample[i].temperature = 0.7f;
            b.sample[i].top_p = 1;
            b.sample[i].repetition_penalty = 1;
            b.sample[i].top_k = top_k;
            b.sample[i].seed = random_state;
            b.sample[i].n_out = j;
            b.sample[i].index = i;
        }

        buffer_put(&b.d_sample, b.sample, b.d_sample.bytes);
        gpu(hymt_cuda_sample(&dev, &args, dev.stream));
        gpu(cudaStreamSynchronize(dev.stream));
        buffer_get(&b.d_out, out, b.d_out.bytes);

        for (i = 0; i < rows; i++) {
            count[out[i] < vocab ? out[i] : vocab - 1]++;
        }
    }

    sum = 0;
    chi = 0;

    for (i = 0; i < n_drawn; i++) {
        sum += exp((double) bf16_value(x[i]) / 0.7);
    }

    for (i = 0; i < n_drawn; i++) {
        p = exp((double) bf16_value(x[i]) / 0.7) / sum;
        expected = p * rows * rounds;
        chi += (count[i] - expected) * (count[i] - expected) / expected;
        count[i] = 0;
    }

    for (j = 0, i = n_drawn; i < vocab; i++) {
        j += count[i];
    }

    ok(chi < limit && j == 0, "%u draws, top_k %u: chi-square %.1f, below %.1f"
       " (p = 0.0001); %u outside the set", rows * rounds, top_k, chi, limit,
       j);

    batch_free(&b);
    free(out);
    free(count);
}


int
main(int argc, char **argv)
{
    random_begin(argc, argv);
    device_begin(&dev);

    test_ways(argc > 3 ? 4 : 8);

    if (small_shapes) {
        return tap_done();
    }

    test_against_cpu(1, 1, 8, 20);
    test_against_cpu(33, 2, 8, 10);
    test_against_cpu(64, 129, 136, 10);
    test_against_cpu(MAX_ROWS, 3000, 3008, 10);
    test_against_cpu(2, 12288, 12288, 30);
    test_against_cpu(17, 120818, 120832, 4);
    test_against_cpu(40, 128167, 128168, 1);
    test_not_drawn();
    test_invariance();
    test_distribution(20, 20, 50.8);
    test_distribution(0, 200, 281);

    gpu(cudaStreamDestroy(dev.stream));

    return tap_done();
}
