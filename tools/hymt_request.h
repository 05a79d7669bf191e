/*
 * hymt_request.h - what a translation is asked with beside its text, from the
 * command line: context, terms, style.
 */

#ifndef HYMT_REQUEST_H
#define HYMT_REQUEST_H

#include "hymt_session.h"


/* getopt's values; far from those of a command's own. */
enum {
    HYMT_OPT_ABOUT = 512,
    HYMT_OPT_STYLE,
    HYMT_OPT_TERM,
};

#define HYMT_REQUEST_OPTIONS                                                  \
    { "context", required_argument, NULL, HYMT_OPT_ABOUT },                   \
    { "style", required_argument, NULL, HYMT_OPT_STYLE },                     \
    { "term", required_argument, NULL, HYMT_OPT_TERM }

#define HYMT_REQUEST_MANUAL                                                   \
    "  --context TEXT    what is good to know of the text; not translated.\n" \
    "                    This and the next two: where the model's family has\n"\
    "                    a prompt for it\n"                                   \
    "  --term SRC=TGT    translate SRC as TGT; may be given many times\n"     \
    "  --style TEXT      as in: formal\n"


/* Zeroed: nothing asked. */
typedef struct {
    const char  *context;
    const char  *style;
    char        *terms;       /* a job's part */
    size_t       terms_len;
} hymt_request_t;


/* As hymt_session_option(). */
hymt_status_t hymt_request_option(hymt_request_t *request, int option,
    const char *value, hymt_error_t *err);

/*
 * Puts it into a job, which points to it from then on; HYMT_ERROR: not for
 * models of this family.
 */
hymt_status_t hymt_request_fill(const hymt_request_t *request,
    hymt_family_t family, hymt_job_t *job, hymt_error_t *err);

void hymt_request_done(hymt_request_t *request);


#endif /* HYMT_REQUEST_H */
