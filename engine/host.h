/*
 * host.h - the engine host: a text thread beside the engine thread.
 *
 * The text thread serves an exchange: it takes jobs, checks them, builds and
 * tokenises prompts, hands sequences to the engine, turns its tokens into text
 * as they come, and answers.  The engine thread sees token ids only and never
 * waits for text.  Tokenizer and prompts load on the text thread while weights
 * load on the engine thread; the host is READY when both are.
 *
 * Jobs that come while it loads wait (up to their deadline); once it has FAILED
 * they are answered UNAVAILABLE with the reason.
 *
 * The host calls nothing of its caller's from its threads: what it has to say
 * waits in a small log, to be fetched by hymt_host_log().
 *
 * Output cap where a job names none: max_ratio * (tokens of the text) + 128,
 * and never more than the context leaves; a job's own max_tokens is held to
 * the same context.  A max_ratio of 0 is 4, and 8 into a language whose script
 * takes more tokens for the same (hymt_lang_grows()).
 *
 * An output that repeats itself (loop_guard.h) ends there with
 * HYMT_FINISH_LOOP, at the same token whatever else runs.
 *
 * With engine.ignore_eos an output has exactly as many tokens as its cap: only
 * the end tokens that a job names itself end it before.
 *
 * Progress of a streaming job comes with its first token that makes whole code
 * points, then whenever there are more and the last was seen.
 *
 * Thread: start, stop, log from one thread (the NGINX main thread, a program's
 * main); after fork.
 */

#ifndef HYMT_HOST_H
#define HYMT_HOST_H

#include "exchange.h"
#include "prompt.h"


typedef struct {
    hymt_exchange_t       exchange;
    int                   own_fd;     /* eventfd, non-blocking: wakes it */
    const int            *lane_fds;   /* [n_lanes], copied */

    /*
     * engine.max_seqs and engine.news_fd are set by the host; strings are
     * copied
     */
    hymt_engine_params_t  engine;

    hymt_family_t         family;     /* AUTO: see hymt_prompt_detect() */
    const char           *override;   /* prompt template, or NULL; copied */

    int                   log_fd;     /* eventfd written when the log has news,
                                         or -1 */
} hymt_host_params_t;


typedef enum {
    HYMT_LOG_ERROR = 0,
    HYMT_LOG_WARN,
    HYMT_LOG_NOTICE,
    HYMT_LOG_INFO,
} hymt_log_level_t;


typedef struct hymt_host_s  hymt_host_t;


/*
 * Opens the exchange as its server, starts both threads with all signals
 * blocked but those of faults, returns at once.
 */
hymt_status_t hymt_host_start(const hymt_host_params_t *params,
    hymt_host_t **host, hymt_error_t *err);

/*
 * Stops: jobs out are answered UNAVAILABLE, threads joined.  Returns within one
 * layer of work.
 */
void hymt_host_stop(hymt_host_t *host);

/*
 * Whether it has failed after it had been READY, and so for good: by its own
 * word, where the exchange's is only what its memory says.
 */
bool hymt_host_lost(const hymt_host_t *host);

/*
 * The next line of the log into buf (terminated): HYMT_OK, or HYMT_AGAIN.  A
 * full log drops its oldest lines and says how many.
 */
hymt_status_t hymt_host_log(hymt_host_t *host, hymt_log_level_t *level,
    char *buf, size_t cap);


#endif /* HYMT_HOST_H */
