/*
 * hymt_request.c - context, terms and style of hymt translate.
 */

#include "hymt_request.h"
#include "job_parts.h"

#include <stdlib.h>
#include <string.h>


static hymt_status_t hymt_request_term(hymt_request_t *request,
    const char *value, hymt_error_t *err);


hymt_status_t
hymt_request_option(hymt_request_t *request, int option, const char *value,
    hymt_error_t *err)
{
    switch (option) {

    case HYMT_OPT_ABOUT:
        request->context = value;
        return HYMT_OK;

    case HYMT_OPT_STYLE:
        request->style = value;
        return HYMT_OK;

    case HYMT_OPT_TERM:
        return hymt_request_term(request, value, err);

    default:
        return HYMT_DECLINED;
    }
}


static hymt_status_t
hymt_request_term(hymt_request_t *request, const char *value,
    hymt_error_t *err)
{
    char         *p;
    const char   *equals;
    hymt_term_t   term;

    equals = strchr(value, '=');

    if (equals == NULL || equals == value || equals[1] == '\0'
        || strpbrk(value, "\t\r\n") != NULL)
    {
        return hymt_fail(err, "--term %s: SRC=TGT on one line, neither empty",
                         value);
    }

    term.src = value;
    term.src_len = (size_t) (equals - value);
    term.tgt = equals + 1;
    term.tgt_len = strlen(term.tgt);

    p = realloc(request->terms, request->terms_len + term.src_len
                                + term.tgt_len + HYMT_TERM_EXTRA);
    if (p == NULL) {
        return hymt_fail(err, "no memory");
    }

    request->terms = p;
    request->terms_len = (size_t) (hymt_term_write(p + request->terms_len,
                                                   &term)
                                   - p);

    return HYMT_OK;
}


hymt_status_t
hymt_request_fill(const hymt_request_t *request, hymt_family_t family,
    hymt_job_t *job, hymt_error_t *err)
{
    size_t    i;
    uint32_t  features;

    const struct {
        hymt_part_t   part;
        const char   *text;
        size_t        len;
        uint32_t      feature;
        const char   *option;
    } parts[] = {
        { HYMT_PART_TERMS, request->terms, request->terms_len,
          HYMT_FEATURE_TERMS, "--term" },
        { HYMT_PART_CONTEXT, request->context,
          request->context == NULL ? 0 : strlen(request->context),
          HYMT_FEATURE_CONTEXT, "--context" },
        { HYMT_PART_STYLE, request->style,
          request->style == NULL ? 0 : strlen(request->style),
          HYMT_FEATURE_STYLE, "--style" },
    };

    features = 0;

    for (i = 0; i < hymt_nelts(parts); i++) {

        if (parts[i].len == 0) {
            continue;
        }

        features |= parts[i].feature;

        if (!hymt_prompt_has(family, features)) {
            return hymt_fail(err, "models of the family %s have no prompt for"
                             " %s", hymt_family_name(family),
                             parts[i].option);
        }

        job->part[parts[i].part] = parts[i].text;
        job->part_len[parts[i].part] = (uint32_t) hymt_min(parts[i].len,
                                                           UINT32_MAX);
    }

    return HYMT_OK;
}


void
hymt_request_done(hymt_request_t *request)
{
    free(request->terms);
}
