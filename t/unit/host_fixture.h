/*
 * host_fixture.h - an engine host, asked through an exchange: a tiny
 * checkpoint's tokenizer and prompts, and a backend whose tokens are a hash of
 * the sequence, so that every answer can be computed beforehand.
 */

#ifndef HYMT_HOST_FIXTURE_H
#define HYMT_HOST_FIXTURE_H

#include "fixture.h"

#include "fake_backend.h"
#include "host_private.h"

#include <poll.h>
#include <sys/eventfd.h>

#include "tap.h"


#define LANES    2
#define SLOTS    16
#define IN       4000
#define OUT      3000

#define CONTEXT  512

/* far more than anything here takes */
#define PATIENCE  20000


typedef struct {
    bool           done;
    uint32_t       slot;
    uint32_t       progress;     /* events */
    uint32_t       first;        /* bytes at the first of them */
    uint64_t       t_first;
    uint32_t       seen;         /* bytes at the last of them */
    bool           broken;       /* they were not whole UTF-8 */
    hymt_result_t  result;
    char           text[OUT + 1];
} answer_t;


typedef struct {
    uint32_t    lane;
    const char *text;
    uint32_t    len;
    int         src;
    int         tgt;
    uint32_t    max_tokens;
    uint32_t    flags;
    uint64_t    seed;
    uint64_t    within_ms;
    float       top_p;
    float       max_ratio;
    uint32_t    stop;            /* 0: none */
    const char *stops;           /* one stop string, or NULL */
    const char *part[HYMT_N_PARTS];
} ask_t;


static char                    dir[FIXTURE_PATH];
static hymt_exchange_params_t  sizes;
static hymt_exchange_t         ex;
static void                   *mem;
static hymt_host_t            *host;
static hymt_client_t          *client[LANES];
static int                     host_fd, log_fd;
static int                     lane_fd[LANES];
static uint32_t                epochs, states;
static bool                    share;       /* caches of the engine */
static int                     en, fr;


/* The checkpoint of all tests of a program; set_up() starts a host on it. */
static inline void
make_model(void)
{
    fixture_shape_t  shape = { .layers = 1, .max_position = 2048 };

    fixture_dir(dir);
    fixture_model(dir, &shape, 7);

    en = hymt_lang_find("en", 2);
    fr = hymt_lang_find("fr", 2);
}


static inline int
bell_new(void)
{
    return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}


static inline void
bell_read(int fd)
{
    uint64_t  n;
    ssize_t   rc;

    rc = read(fd, &n, sizeof(n));
    (void) rc;
}


static inline void
start_host(const char *model)
{
    hymt_error_t        err;
    hymt_host_params_t  p;

    memset(&p, 0, sizeof(p));
    p.exchange = ex;
    p.own_fd = host_fd;
    p.lane_fds = lane_fd;
    p.engine.model = model;
    p.engine.backend = "auto";
    p.engine.ops = &fake_ops[2];
    p.engine.max_batch = 8;
    p.engine.context = CONTEXT;
    p.engine.prefix_cache = share;
    p.engine.coalesce = share;
    p.family = HYMT_FAMILY_MT15;
    p.log_fd = log_fd;

    if (hymt_host_start(&p, &host, &err) != HYMT_OK) {
        printf("Bail out! host: %s\n", err.text);
        exit(1);
    }
}


static inline void
set_up(const char *model)
{
    int           i;
    size_t        size;
    hymt_error_t  err;

    sizes = (hymt_exchange_params_t) { LANES, SLOTS, IN,
                                       sizes.out_bytes ? sizes.out_bytes
                                                       : OUT };
    epochs = 0;
    states = 0;

    size = hymt_exchange_size(&sizes);
    mem = aligned_alloc(64, hymt_ceil_div(size, 64) * 64);
    memset(mem, 0, size);
    hymt_exchange_init(&ex, mem, &sizes);

    host_fd = bell_new();
    log_fd = bell_new();

    for (i = 0; i < LANES; i++) {
        lane_fd[i] = bell_new();

        if (hymt_client_open(&ex, (uint32_t) i, lane_fd[i], host_fd,
                             &client[i], &err)
            != HYMT_OK)
        {
            printf("Bail out! client: %s\n", err.text);
            exit(1);
        }
    }

    start_host(model);
}


static inline void
tear_down(void)
{
    int  i;

    hymt_host_stop(host);
    host = NULL;

    for (i = 0; i < LANES; i++) {
        hymt_client_close(client[i]);
        close(lane_fd[i]);
    }

    close(host_fd);
    close(log_fd);
    free(mem);

    memset(&fake, 0, sizeof(fake));
    fake.vocab = 60;
    sizes.out_bytes = 0;
}


static inline void
take_event(uint32_t lane, const hymt_event_t *e)
{
    uint32_t     len;
    answer_t    *a;
    const char  *text;

    epochs += e->kind == HYMT_EVENT_EPOCH;
    states += e->kind == HYMT_EVENT_STATE;

    if (e->kind != HYMT_EVENT_PROGRESS && e->kind != HYMT_EVENT_DONE) {
        return;
    }

    a = e->data;
    hymt_client_text(client[lane], e->slot, &text, &len);
    a->broken |= !hymt_utf8_check(text, len, NULL) || len < a->seen;
    a->broken |= strncmp(a->text, text, a->seen) != 0;
    a->seen = len;

    if (e->kind == HYMT_EVENT_PROGRESS) {
        if (a->progress++ == 0) {
            a->first = len;
            a->t_first = hymt_now_ns();
        }

        memcpy(a->text, text, len);
        a->text[len] = '\0';
        return;
    }

    hymt_client_result(client[lane], e->slot, &a->result);
    memcpy(a->text, text, len);
    a->text[len] = '\0';
    a->done = true;
    hymt_client_slot_free(client[lane], e->slot);
}


/* Everything that is there; sleeps a little where nothing is. */
static inline void
turn(void)
{
    uint32_t       i;
    bool           any;
    hymt_event_t   e;
    struct pollfd  p[LANES];

    any = false;

    for (i = 0; i < LANES; i++) {
        while (hymt_client_poll(client[i], &e) == HYMT_OK) {
            take_event(i, &e);
            any = true;
        }

        any |= hymt_client_arm(client[i]);
        p[i].fd = lane_fd[i];
        p[i].events = POLLIN;
    }

    if (!any) {
        (void) poll(p, LANES, 50);
    }

    for (i = 0; i < LANES; i++) {
        bell_read(lane_fd[i]);
    }
}


static inline hymt_host_info_t
info(void)
{
    hymt_host_info_t  in;

    hymt_exchange_info(&ex, &in);

    return in;
}


static inline void
wait_state(uint32_t state)
{
    uint64_t  end;

    end = hymt_now_ns() + PATIENCE * 1000000ull;

    while (info().state != state && hymt_now_ns() < end) {
        turn();
    }

    is_int(info().state, state, "state %u is reached", state);
}


static inline bool
wait_done(answer_t *a)
{
    uint64_t  end;

    end = hymt_now_ns() + PATIENCE * 1000000ull;

    while (!a->done && hymt_now_ns() < end) {
        turn();
    }

    return a->done;
}


/* Zeros in an ask are an ordinary job from lane 0 into English. */
static inline answer_t *
ask(ask_t q)
{
    uint32_t       i;
    uint64_t       end;
    hymt_job_t     job;
    answer_t      *a;
    hymt_status_t  rc;

    a = calloc(1, sizeof(answer_t));
    a->result.code = HYMT_N_RESULTS;
    memset(&job, 0, sizeof(job));

    job.src = q.src ? q.src : HYMT_LANG_NONE;
    job.tgt = q.tgt ? q.tgt : en;
    job.max_tokens = q.max_tokens;
    job.flags = q.flags;
    job.sampling.top_p = q.top_p != 0 ? q.top_p : 1;
    job.sampling.repetition_penalty = 1;
    job.sampling.seed = q.seed;
    job.deadline_ns = q.within_ms ? hymt_now_ns() + q.within_ms * 1000000 : 0;
    job.max_ratio = q.max_ratio;
    job.stop[0] = q.stop;
    job.n_stop = q.stop != 0;

    q.part[HYMT_PART_TEXT] = q.text;

    for (i = 0; i < HYMT_N_PARTS; i++) {
        job.part[i] = q.part[i];
        job.part_len[i] = q.part[i] ? (uint32_t) strlen(q.part[i]) : 0;
    }

    /* with its NUL */

    job.part[HYMT_PART_STOPS] = q.stops;
    job.part_len[HYMT_PART_STOPS] = q.stops ? (uint32_t) strlen(q.stops) + 1
                                            : 0;

    job.part_len[HYMT_PART_TEXT] = q.len ? q.len
                                         : job.part_len[HYMT_PART_TEXT];

    end = hymt_now_ns() + PATIENCE * 1000000ull;

    do {
        rc = hymt_client_submit(client[q.lane], &job, a, &a->slot, NULL);

        if (rc == HYMT_AGAIN) {
            turn();
        }
    } while (rc == HYMT_AGAIN && hymt_now_ns() < end);

    if (rc != HYMT_OK) {
        ok(false, "a job is taken");
    }

    return a;
}


/* What the host must answer to a job without limits of its own. */
static inline void
expect(const char *text, uint64_t seed, uint32_t max_tokens, char *want,
    uint32_t *n_tokens)
{
    bool                   guessed;
    size_t                 n, n_text, w, at;
    uint32_t               ids[CONTEXT], out[CONTEXT], i, j, n_stop, cap;
    hymt_detok_t           d;
    hymt_config_t          config;
    hymt_encoder_t        *enc;
    hymt_prompter_t       *prompter;
    hymt_sampling_t        s;
    const uint32_t        *stop;
    hymt_tokenizer_t      *tok;
    hymt_prompt_params_t   pp;
    hymt_prompt_request_t  r;

    memset(&pp, 0, sizeof(pp));
    memset(&s, 0, sizeof(s));
    memset(&r, 0, sizeof(r));
    pp.family = HYMT_FAMILY_MT15;
    s.seed = seed;
    r.src = HYMT_LANG_NONE;
    r.tgt = en;
    r.text = text;
    r.len = strlen(text);

    if (hymt_config_read(dir, &config, NULL) != HYMT_OK
        || hymt_tokenizer_load(dir, &tok, NULL) != HYMT_OK
        || hymt_prompt_detect(dir, &config, &pp, &guessed, NULL) != HYMT_OK
        || hymt_prompter_create(tok, &config, &pp, &prompter, NULL) != HYMT_OK
        || hymt_encoder_create(tok, &enc, NULL) != HYMT_OK
        || hymt_prompt_build(prompter, enc, &r, ids, CONTEXT, &n, &n_text,
                             NULL)
           != HYMT_OK)
    {
        ok(false, "a prompt is built");
        return;
    }

    stop = hymt_prompter_stops(prompter, &n_stop);
    cap = max_tokens ? max_tokens : (uint32_t) (4 * n_text + 128);
    cap = hymt_min(cap, CONTEXT - (uint32_t) n);
    hymt_detok_init(&d);
    at = 0;

    for (i = 0; i < cap; i++) {
        out[i] = fake_next(&s, ids, (uint32_t) n, out, i, config.vocab);

        for (j = 0; j < n_stop && stop[j] != out[i]; j++) { /* void */ }

        if (j < n_stop) {
            break;
        }

        (void) hymt_detok_push(tok, &d, out[i], want + at, OUT - at, &w);
        at += w;
    }

    (void) hymt_detok_end(&d, want + at, OUT - at, &w);
    want[at + w] = '\0';
    *n_tokens = i;

    hymt_encoder_free(enc);
    hymt_prompter_free(prompter);
    hymt_tokenizer_free(tok);
}


static inline void
refused(ask_t q, uint32_t code, const char *error)
{
    answer_t  *a;

    a = ask(q);

    if (!wait_done(a)) {
        ok(false, "a wrong job is answered");
        return;
    }

    is_int(a->result.code, code, "%s", error);
    has_str(a->result.error, error, "the error says so");
    is_int(a->result.text_len, 0, "no text");
    free(a);
}


#endif /* HYMT_HOST_FIXTURE_H */
