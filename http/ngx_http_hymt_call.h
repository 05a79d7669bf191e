
/*
 * Copyright (C) the hymt authors
 */


/*
 * A call: the texts of a request, what was asked about them, how far they are;
 * and an API, which makes calls of requests and answers of calls.
 */


#ifndef _NGX_HTTP_HYMT_CALL_H_INCLUDED_
#define _NGX_HTTP_HYMT_CALL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>

#include "document.h"
#include "host.h"
#include "ngx_http_hymt_cache.h"
#include "ngx_http_hymt_conf.h"

#include <jansson.h>


/* kinds of body */
#define NGX_HTTP_HYMT_JSON           0x1
#define NGX_HTTP_HYMT_FORM           0x2
#define NGX_HTTP_HYMT_MULTIPART      0x4
#define NGX_HTTP_HYMT_PLAIN          0x8


typedef struct ngx_http_hymt_call_s       ngx_http_hymt_call_t;


/* An error, before an API gives it its form. */

typedef struct {
    ngx_uint_t                  status;    /* 0: none */
    const char                 *code;
    char                        param[64]; /* at fault, or "" */
    char                        message[1600];
} ngx_http_hymt_failure_t;


/* A malloc'ed text that grows; for answers and events. */

typedef struct {
    char                       *data;
    size_t                      len;
    size_t                      cap;
    unsigned                    failed:1;  /* out of memory */
} ngx_http_hymt_text_t;


/*
 * One text of a call.  A translation goes through a document, which cuts it
 * into units; a chat (doc NULL) is one unit as it is.
 */

typedef struct {
    const char                 *text;      /* in the call's parsed body */
    size_t                      len;
    int32_t                     src;       /* language, or HYMT_LANG_NONE */
    hymt_sampling_t             sampling;

    /* what detection found, where it was asked */
    int32_t                     detected;  /* language, or HYMT_LANG_NONE */
    double                      confidence;
    unsigned                    too_short:1;  /* to trust the detection */

    ngx_http_hymt_call_t       *call;
    hymt_document_t            *doc;
    char                       *chat;      /* malloc'ed output of a chat */
    size_t                      chat_len;

    const char                 *out;       /* set when all is done */
    size_t                      out_len;
    size_t                      sent;      /* of it, streamed */
    size_t                      head;      /* of that, not the model's */

    uint32_t                    finish;    /* hymt_finish_t: the worst */
    uint32_t                    prompt_tokens;
    uint32_t                    completion_tokens;
    uint64_t                    queue_ns;  /* the longest of its units */
    uint64_t                    first_ns;
    uint64_t                    total_ns;

    ngx_http_hymt_failure_t    *failure;   /* malloc'ed: this one's alone */
    unsigned                    asked:1;   /* a chat: submitted */
    unsigned                    as_is:1;   /* not translated: text comes back */
    unsigned                    done:1;
} ngx_http_hymt_item_t;


/* A unit in the engine. */

struct ngx_http_hymt_job_s {
    ngx_http_hymt_call_t       *call;
    ngx_http_hymt_item_t       *item;      /* NULL: free */
    uint32_t                    id;        /* of the document's unit */
    uint32_t                    slot;
    u_char                      key[HYMT_TRANSLATION_KEY];
    unsigned                    keep:1;    /* its result, under that key */
    unsigned                    suspect:1; /* of having ended an engine */
};


/* A unit that was being computed when an engine ended. */

typedef struct {
    ngx_http_hymt_item_t       *item;
    uint32_t                    id;
} ngx_http_hymt_suspect_t;


typedef struct {
    const char                 *source;    /* terminated */
    const char                 *target;
} ngx_http_hymt_term_t;


typedef void (*ngx_http_hymt_work_pt)(ngx_http_hymt_call_t *call);


/* What an API offers below its location. */

typedef struct {
    ngx_uint_t                  methods;   /* NGX_HTTP_POST|... */

    /*
     * without slashes at its ends; "" is the location itself; a last part of
     * "*" stands for one part, found in call->part
     */
    const char                 *path;

    ngx_uint_t                  types;     /* NGX_HTTP_HYMT_JSON|... */
    unsigned                    engine:1;  /* needs an engine that is there */
    unsigned                    thread:1;  /* parse reads files: never on the
                                              event loop */

    /*
     * Any thread.  Ends in one of: a failure (ngx_http_hymt_fail), an answer
     * (ngx_http_hymt_reply), items with their options filled in.
     */
    ngx_http_hymt_work_pt       parse;

    /* any thread: items -> answer (ngx_http_hymt_reply), or a failure */
    ngx_http_hymt_work_pt       render;
} ngx_http_hymt_endpoint_t;


struct ngx_http_hymt_api_s {
    ngx_str_t                   name;
    ngx_http_hymt_endpoint_t   *endpoints; /* last one: methods 0 */

    /* an error's JSON; may change the status to one the API knows */
    json_t                   *(*error)(ngx_http_hymt_failure_t *f);

    /*
     * Streaming, on the event loop: events are appended to `out`.  NULL where
     * the API has none.
     */
    void                      (*delta)(ngx_http_hymt_call_t *call,
                                   const char *text, size_t len,
                                   ngx_http_hymt_text_t *out);
    void                      (*end)(ngx_http_hymt_call_t *call,
                                   ngx_http_hymt_text_t *out);
    void                      (*broken)(ngx_http_hymt_call_t *call,
                                   ngx_http_hymt_failure_t *f,
                                   ngx_http_hymt_text_t *out);
};


/*
 * The module's ctx, in the request's pool.  It outlives the call: the access
 * log, which comes after the request's cleanup, asks it.
 */

typedef struct {
    ngx_http_hymt_call_t       *call;      /* NULL: gone */
    ngx_http_hymt_model_t      *model;
    const char                 *finish;    /* NULL: nothing was asked */
    ngx_int_t                   src;       /* or HYMT_LANG_NONE */
    ngx_int_t                   tgt;
    ngx_uint_t                  tokens_in;
    ngx_uint_t                  tokens_out;
    ngx_uint_t                  batch;
    const char                 *cache;     /* or NULL */
    uint32_t                    worst;     /* hymt_finish_t */
    uint64_t                    queue_ns;
    uint64_t                    first_ns;
    uint64_t                    compute_ns;
    unsigned                    asked:1;   /* there are texts */
    unsigned                    timed:1;   /* the engine had one */
    unsigned                    mixed:1;   /* sources differ */
} ngx_http_hymt_ctx_t;


/*
 * A request's work, outside of its pool: a task in another thread may still
 * hold it when the client has gone.  `r` is then NULL and the task's end frees
 * it; in any other case the request's cleanup does.
 */

struct ngx_http_hymt_call_s {
    ngx_http_request_t         *r;
    ngx_http_hymt_ctx_t        *ctx;       /* while there is r */
    ngx_http_hymt_model_t      *model;
    ngx_http_hymt_loc_conf_t   *conf;
    ngx_uint_t                  api;       /* its number, for counters */
    ngx_http_hymt_endpoint_t   *endpoint;  /* NULL until it is found */
    ngx_thread_pool_t          *pool;
    ngx_log_t                  *log;       /* the connection's */

    ngx_event_t                 timer;     /* timeout; never cancelable */
    ngx_event_t                 begin;     /* posted: parse in another turn */
    ngx_event_t                 run;       /* posted: go on with the call */
    ngx_queue_t                 queue;     /* runtime: all admitted calls */
    ngx_queue_t                 line;      /* runtime: those wanting slots */

    /* what was asked: malloc'ed copies where they are strings */
    ngx_uint_t                  method;
    ngx_uint_t                  allow;     /* methods, where this one is not */
    ngx_uint_t                  type;      /* NGX_HTTP_HYMT_JSON ...; 0: none */
    ngx_str_t                   args;
    char                       *part;      /* what "*" stood for */
    char                       *owner;     /* hymt_owner; NULL without one */
    ngx_str_t                   session;   /* its id, in root or body */
    char                       *session_text;
    char                       *boundary;  /* of multipart/form-data */
    char                       *body;
    size_t                      body_len;
    size_t                      body_cap;

    /* filled by the endpoint's parse(), read by everyone after */
    ngx_http_hymt_work_pt       more;      /* set by a parse(): goes on with
                                              it where files may be read, on a
                                              thread of the pool */
    json_t                     *root;      /* the parameters; owns texts */
    void                       *data;      /* malloc'ed, the API's own */
    ngx_http_hymt_item_t       *items;
    ngx_uint_t                  n_items;
    hymt_job_t                  job;       /* options common to all items */
    hymt_document_params_t      document;
    ngx_http_hymt_term_t       *terms;     /* malloc'ed; only those that a unit
                                              holds go into its prompt */
    ngx_uint_t                  n_terms;
    hymt_glossary_t            *glossary;  /* a reference: more of such terms */
    const char                **stops;     /* malloc'ed: stop strings (chat) */
    ngx_uint_t                  n_stops;

    /* progress */
    ngx_http_hymt_cached_t      cached;
    ngx_http_hymt_job_t        *jobs;      /* [window] */
    ngx_uint_t                  n_jobs;    /* of them, that were ever used */
    ngx_uint_t                  running;   /* of them */
    ngx_uint_t                  first;     /* first item that is not done */
    ngx_uint_t                  done;      /* items */
    ngx_http_hymt_suspect_t    *suspects;  /* malloc'ed, [window] */
    ngx_uint_t                  n_suspects;
    ngx_msec_t                  start;     /* body read, ngx_current_msec */
    uint64_t                    start_ns;  /* the same, hymt_now_ns() clock */
    uint64_t                    deadline;

    /* since start_ns, by the jobs that are done; end_ns 0: none is */
    uint64_t                    queue_ns;  /* to the first step of any */
    uint64_t                    first_ns;  /* to the first token */
    uint64_t                    end_ns;    /* to the last result */
    ngx_uint_t                  batch;     /* most sequences in a step */

    /* the answer: malloc'ed, handed to the request's pool to free */
    char                       *answer;
    size_t                      answer_len;
    ngx_uint_t                  status;
    const char                 *content_type;

    struct ngx_http_hymt_stream_s  *stream_state;

    size_t                      charged;   /* bytes of hymt_buffers */
    size_t                      coming;    /* of them: see body_waits() */

    unsigned                    array:1;   /* texts came as an array */
    unsigned                    detect:1;  /* the source was to be detected */
    unsigned                    stream:1;  /* answer by events */
    unsigned                    events:1;  /* Accept asks for them first */
    unsigned                    chat:1;    /* items are chats */
    unsigned                    each:1;    /* a text may fail alone */
    unsigned                    busy:1;    /* a thread holds it */
    unsigned                    entered:1; /* what the engine takes in */
    unsigned                    loaded:1;  /* counted in what is in hand */
    ngx_uint_t                  tokens;    /* of its prompts, about */
    ngx_uint_t                  n_units;   /* by "tokens" */
    uint64_t                    terms_len; /* of the first of these */
    unsigned                    admitted:1;
    unsigned                    loading:1; /* timer is the loading wait */
    unsigned                    lined:1;   /* in the line for slots */
    unsigned                    waits:1;   /* there, for another's suspect */
    unsigned                    woken:1;   /* to run, for a slot that is free */
    unsigned                    ended:1;   /* of no interest to the engine */
    unsigned                    answered:1;
    unsigned                    counted:1;

    /* from its message on not cleared: most calls have none */
    ngx_http_hymt_failure_t     failure;
    char                        scratch[256];
};


#endif /* _NGX_HTTP_HYMT_CALL_H_INCLUDED_ */
