/*
 * engine_fixture.h - an engine on hashes (fake_backend.h) behind a tiny
 * checkpoint, sequences for it, and what must have become of them.
 */

#ifndef HYMT_ENGINE_FIXTURE_H
#define HYMT_ENGINE_FIXTURE_H

#include "engine.h"
#include "fake_backend.h"
#include "fixture.h"
#include "tap.h"

#include <poll.h>
#include <sys/eventfd.h>


#define MS     UINT64_C(1000000)
#define VOCAB  272
#define N_OUT  96


typedef struct {
    hymt_seq_t  s;           /* first: poll() gives these */
    uint32_t    prompt[64];
    uint32_t    out[64];
    uint32_t    seen;        /* tokens at the last poll */
    bool        busy;
} seq_t;


static char      dir[FIXTURE_PATH];
static int       news_fd;
static uint64_t  rng = 42;


static inline void
set_up(void)
{
    fixture_shape_t  shape = { .vocab = VOCAB };

    fixture_dir(dir);
    fixture_model(dir, &shape, 1);
    news_fd = eventfd(0, EFD_CLOEXEC);
}


static inline void
tear_down(void)
{
    close(news_fd);
    fixture_remove(dir);
}


static inline uint32_t
roll(uint32_t n)
{
    rng = fake_mix(rng);

    return (uint32_t) (rng >> 32) % n;
}


static inline hymt_engine_params_t
params(uint32_t depth)
{
    hymt_engine_params_t  p;

    memset(&p, 0, sizeof(p));
    p.model = dir;
    p.backend = "auto";
    p.ops = &fake_ops[depth];
    p.max_batch = 8;
    p.context = 256;
    p.max_seqs = N_OUT;
    p.news_fd = news_fd;

    memset(&fake, 0, sizeof(fake));

    return p;
}


/* Sleeps until there is news; false after five seconds without. */
static inline bool
wait_news(hymt_engine_t *engine)
{
    uint64_t       n;
    struct pollfd  fd;

    if (hymt_engine_arm(engine)) {
        return true;
    }

    fd.fd = news_fd;
    fd.events = POLLIN;

    if (poll(&fd, 1, 5000) != 1) {
        return false;
    }

    return read(news_fd, &n, sizeof(n)) == sizeof(n);
}


static inline uint32_t
state(hymt_engine_t *engine)
{
    return atomic_load(&hymt_engine_stats(engine)->state);
}


/* Until it has loaded, or failed to. */
static inline void
wait_loaded(hymt_engine_t *engine)
{
    while (state(engine) == HYMT_ENGINE_LOADING && wait_news(engine)) {
        /* void */
    }
}


/* One that loads. */
static inline hymt_engine_t *
begin(const hymt_engine_params_t *p)
{
    hymt_error_t    err;
    hymt_engine_t  *engine;

    if (hymt_engine_start(p, &engine, &err) != HYMT_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }

    return engine;
}


static inline hymt_engine_t *
start(const hymt_engine_params_t *p)
{
    hymt_engine_t  *engine;

    engine = begin(p);
    wait_loaded(engine);

    return engine;
}


static inline void
fill(seq_t *seq, uint32_t n_prompt, uint32_t max_new)
{
    uint32_t  i;

    memset(seq, 0, sizeof(seq_t));
    seq->busy = true;

    for (i = 0; i < n_prompt && i < 64; i++) {
        seq->prompt[i] = roll(VOCAB);
    }

    seq->s.prompt = seq->prompt;
    seq->s.n_prompt = n_prompt;
    seq->s.max_new = max_new;
    seq->s.out = seq->out;
    seq->s.sampling.top_p = 1;
    seq->s.sampling.repetition_penalty = 1;
    seq->s.sampling.seed = roll(1000);
}


/* Like fill(), and it never gives an end token. */
static inline void
fill_endless(seq_t *seq, uint32_t n_prompt, uint32_t max_new)
{
    uint32_t  i, token;

    fill(seq, n_prompt, max_new);

    for ( ;; seq->s.sampling.seed++) {
        for (i = 0; i < max_new; i++) {
            token = fake_next(&seq->s.sampling, seq->prompt, n_prompt,
                              seq->out, i, VOCAB);

            if (token == FIXTURE_EOS || token == FIXTURE_EOD) {
                break;
            }

            seq->out[i] = token;
        }

        if (i == max_new) {
            memset(seq->out, 0, sizeof(seq->out));
            return;
        }
    }
}


/* The tokens are right so far, and the end is. */
static inline bool
is_right(const seq_t *seq)
{
    uint32_t           i, n, token, finish;
    const hymt_seq_t  *s;

    s = &seq->s;
    finish = atomic_load(&s->finish);
    n = atomic_load(&s->n_out);

    for (i = 0; i < n; i++) {
        token = fake_next(&s->sampling, s->prompt, s->n_prompt, s->out, i,
                          VOCAB);
        if (s->out[i] != token) {
            return false;
        }
    }

    if (finish == HYMT_FINISH_STOP) {
        token = fake_next(&s->sampling, s->prompt, s->n_prompt, s->out, n,
                          VOCAB);
        return token == FIXTURE_EOS || token == FIXTURE_EOD;
    }

    return finish != HYMT_FINISH_LENGTH || n == s->max_new;
}


/* Polls until n sequences have finished; how many did. */
static inline uint32_t
wait_finished(hymt_engine_t *engine, uint32_t n)
{
    uint32_t     done;
    hymt_seq_t  *s;

    for (done = 0; done < n; ) {
        s = hymt_engine_poll(engine);

        if (s == NULL) {
            if (!wait_news(engine)) {
                break;
            }

            continue;
        }

        done += atomic_load(&s->finish) != HYMT_FINISH_NONE;
    }

    return done;
}


#endif /* HYMT_ENGINE_FIXTURE_H */
