/*
 * fake_state.h - the fake backend's knobs, counters and state, and the tokens
 * that it gives: see fake_backend.h.
 */

#ifndef HYMT_FAKE_STATE_H
#define HYMT_FAKE_STATE_H

#include "backend.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>


typedef struct {
    /* set by a test */
    uint32_t  vocab;            /* where create() gets no model */
    uint32_t  create_ms;        /* time loading takes, in slices of 1 ms */
    bool      create_fails;
    uint32_t  short_of_memory;  /* so many create() find too little */
    uint64_t  wants;            /* memory taken in turns; 0: none */
    _Atomic int64_t  room;      /* of it, for all */
    uint64_t  launch_fails_at;  /* step number, from 1; 0: never */
    uint64_t  collect_fails_at;
    bool      nan_logits;
    bool      batch_dependent;  /* logits change with the rows beside them */
    bool      chunk_dependent;  /* logits change with the rows before them */
    bool      abort_next;       /* the next collect() is HYMT_ABORTED */
    uint64_t  abort_from;       /* and each from this step to that one */
    uint64_t  abort_to;         /* 0: none */

    /* the output instead of hashes: its bytes, then script_end, or again */
    const char  *script;
    uint32_t     script_end;    /* 0: again and again */

    /* the same, while it runs */
    _Atomic uint64_t  ns_step;  /* time a step takes */
    _Atomic uint64_t  ns_row;   /* and each of its rows */

    /* counted here */
    uint64_t  launched;
    uint64_t  overlapped;       /* launched behind one not yet collected */
    uint64_t  fed;              /* rows whose token the backend has itself */
    uint64_t  aborted;
    uint32_t  max_rows;         /* most rows of a step so far */
    uint32_t  backends;         /* alive */
    char      fault[256];       /* the first promise broken; empty: none */
} fake_t;


static fake_t  fake = { .vocab = 60 };


typedef struct {
    bool      begun;
    bool      asked;        /* a token was sampled, or will be */
    uint32_t  last;         /* the token sampled last */
    uint32_t  n_prompt;
    uint32_t  next_pos;
    uint32_t  n_asked;
    uint32_t  in_flight;
    uint32_t  aborts;
    uint64_t  key;          /* of prompt and sampling */
} fake_slot_t;


typedef struct {
    hymt_batch_seq_t  *seqs;
    uint32_t          *tokens;   /* [max_rows] */
    uint32_t          *blocks;   /* [max_batch * blocks of a context] */
    uint32_t          *sampled;  /* [max_batch] */
    uint32_t          *aborts;   /* [max_batch], of the slot at launch */
    float             *logits;
    uint32_t           n_seqs;
    uint32_t           n_rows;
    bool               aborted;
} fake_step_t;


/* Who uses a block among the steps that are looked at. */
typedef struct {
    uint64_t  stamp;
    uint32_t  writer;       /* slot + 1, 0: nobody */
    uint32_t  reader;       /* the same, FAKE_MANY: several */
} fake_claim_t;


#define FAKE_MANY  UINT32_MAX


struct hymt_backend_s {
    hymt_backend_params_t   params;
    uint32_t                depth;
    uint32_t                vocab;
    uint32_t                table;     /* blocks of a context */
    uint64_t               *kv;        /* [n_blocks * HYMT_KV_BLOCK] */
    fake_claim_t           *claims;    /* [n_blocks], see fake_check() */
    fake_slot_t            *slots;
    fake_step_t             steps[2];
    uint32_t                oldest;
    uint32_t                n_open;
};


static inline uint64_t
fake_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;

    return x ^ (x >> 31);
}


static inline uint64_t
fake_entry(uint32_t token, uint32_t pos)
{
    return fake_mix(((uint64_t) pos << 32) | token);
}


static inline uint64_t
fake_key(const hymt_sampling_t *s, const uint32_t *prompt, uint32_t n)
{
    uint32_t  i;
    uint64_t  h;

    h = fake_mix(s->seed ^ fake_mix(s->index));

    for (i = 0; i < n; i++) {
        h = fake_mix(h ^ prompt[i]);
    }

    return h;
}


/* Output token n_out of a sequence, from its prompt and output so far. */
static inline uint32_t
fake_next(const hymt_sampling_t *s, const uint32_t *prompt, uint32_t n_prompt,
    const uint32_t *out, uint32_t n_out, uint32_t vocab)
{
    uint32_t  i;
    uint64_t  h;

    for (i = 0, h = 0; i < n_prompt + n_out; i++) {
        h = fake_mix(h ^ fake_entry(i < n_prompt ? prompt[i]
                                                 : out[i - n_prompt], i));
    }

    return (uint32_t) (fake_mix(h ^ fake_key(s, prompt, n_prompt) ^ n_out)
                       % vocab);
}


__attribute__((format(printf, 1, 2)))
static inline void
fake_fault(const char *fmt, ...)
{
    va_list  args;

    if (fake.fault[0] == '\0') {
        va_start(args, fmt);
        vsnprintf(fake.fault, sizeof(fake.fault), fmt, args);
        va_end(args);
    }
}


#endif /* HYMT_FAKE_STATE_H */
