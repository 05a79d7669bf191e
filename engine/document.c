/*
 * document.c - see document.h; the queue of units, and the output.
 */

#include "document_private.h"

#include <stdlib.h>
#include <string.h>


/* what is taken out may leave something behind: "<|e<|eos|>os|>" */
#define HYMT_GUARD_ROUNDS  4


static hymt_status_t hymt_document_keep_terms(hymt_document_t *doc,
    const hymt_list_t *list, hymt_error_t *err);
static void hymt_document_show(const hymt_document_t *doc,
    const hymt_work_t *work, hymt_unit_t *unit);
static void hymt_document_empty(hymt_document_t *doc, hymt_work_t *work);
static hymt_work_t *hymt_document_out(hymt_document_t *doc, uint32_t id);
static bool hymt_document_flush(hymt_document_t *doc);


hymt_status_t
hymt_document_create(const char *text, size_t len,
    const hymt_document_params_t *params, hymt_document_t **docp,
    hymt_error_t *err)
{
    hymt_status_t     rc;
    hymt_document_t  *doc;

    if (len >= INT32_MAX - 64) {
        return hymt_fail(err, "a text of %zu bytes: at most %d", len,
                         INT32_MAX - 64);
    }

    doc = hymt_zalloc(sizeof(hymt_document_t));

    if (doc != NULL) {
        doc->source = malloc(len + 1);
    }

    if (doc == NULL || doc->source == NULL) {
        free(doc);
        return hymt_fail(err, "no memory for a text of %zu bytes", len);
    }

    memcpy(doc->source, text, len);
    doc->source[len] = '\0';
    doc->len = (uint32_t) len;
    doc->params = *params;
    doc->queue_last = &doc->queue;
    doc->nbsp = params->format != HYMT_FORMAT_TEXT
                && memmem(text, len, "&nbsp;", 6) != NULL;

    if (doc->params.unit_bytes == 0) {
        doc->params.unit_bytes = HYMT_UNIT_BYTES;
    }

    if (doc->params.max_units == 0) {
        doc->params.max_units = HYMT_MAX_UNITS;
    }

    rc = hymt_document_keep_terms(doc, &params->keep, err);

    if (rc == HYMT_OK) {
        doc->cutting = true;
        rc = hymt_document_cut(doc, err);
        doc->cutting = false;
    }

    /* the strings are the caller's, and have been read */

    hymt_terms_free(&doc->keep);
    memset(&doc->params.keep, 0, sizeof(hymt_list_t));

    if (rc != HYMT_OK) {
        hymt_document_free(doc);
        return rc;
    }

    doc->ready = doc->first;
    *docp = doc;

    return HYMT_OK;
}


static hymt_status_t
hymt_document_keep_terms(hymt_document_t *doc, const hymt_list_t *list,
    hymt_error_t *err)
{
    uint32_t  i;

    for (i = 0; i < list->n; i++) {
        if (!hymt_terms_add(&doc->keep, list->item[i], strlen(list->item[i])))
        {
            return hymt_fail(err, "no memory for %u terms", list->n);
        }
    }

    if (!hymt_terms_sort(&doc->keep)) {
        return hymt_fail(err, "no memory for %u terms", list->n);
    }

    return HYMT_OK;
}


void
hymt_document_free(hymt_document_t *doc)
{
    if (doc == NULL) {
        return;
    }

    hymt_arena_free(&doc->arena);
    hymt_terms_free(&doc->keep);
    free(doc->work);
    free(doc->out);
    free(doc->scratch);
    free(doc->source);
    free(doc);
}


void
hymt_document_enqueue(hymt_document_t *doc, hymt_work_t *work)
{
    hymt_work_t  **where;

    where = doc->insert != NULL ? doc->insert : doc->queue_last;

    work->state = HYMT_WORK_WAITS;
    work->queue = *where;
    *where = work;

    if (work->queue == NULL) {
        doc->queue_last = &work->queue;
    }

    if (doc->insert != NULL) {
        doc->insert = &work->queue;
    }
}


hymt_status_t
hymt_document_next(hymt_document_t *doc, hymt_unit_t *unit)
{
    hymt_work_t  *work;

    if (doc->no_memory || (doc->queue == NULL && doc->n_out == 0)) {
        return HYMT_DECLINED;
    }

    if (doc->queue == NULL) {
        return HYMT_AGAIN;
    }

    work = doc->queue;
    doc->queue = work->queue;

    if (doc->queue == NULL) {
        doc->queue_last = &doc->queue;
    }

    work->state = HYMT_WORK_OUT;
    doc->n_out++;
    doc->stats.units++;

    hymt_document_show(doc, work, unit);

    return HYMT_OK;
}


static void
hymt_document_show(const hymt_document_t *doc, const hymt_work_t *work,
    hymt_unit_t *unit)
{
    memset(unit, 0, sizeof(*unit));

    unit->id = work->id;
    unit->text = work->tagged != NULL ? work->tagged : work->text;
    unit->len = work->tagged != NULL ? work->tagged_len : work->len;
    unit->tagged = work->tagged != NULL;
    unit->attempt = work->attempt;

    if (doc->params.neighbours && work->before != NULL) {
        unit->context = work->before->text;
        unit->context_len = work->before->len;
    }
}


void
hymt_document_waiting(const hymt_document_t *doc, hymt_unit_pt each,
    void *data)
{
    hymt_unit_t         unit;
    const hymt_work_t  *work;

    for (work = doc->queue; work != NULL; work = work->queue) {
        hymt_document_show(doc, work, &unit);
        each(&unit, data);
    }
}


void
hymt_document_result(hymt_document_t *doc, uint32_t id, const char *text,
    size_t len, bool cut)
{
    char          *clean;
    bool           stripped, held, again;
    size_t         n, whole;
    uint32_t       round;
    hymt_work_t   *work;

    /* what is missing of a cut answer shows in its placeholders, if at all */

    (void) cut;

    work = hymt_document_out(doc, id);

    if (work == NULL) {
        return;
    }

    clean = len < UINT32_MAX / 8 ? malloc(len * 3 + 1) : NULL;

    if (clean == NULL) {
        doc->no_memory = true;
        return;
    }

    stripped = false;
    held = false;
    again = true;
    n = len;

    for (round = 0; again && round < HYMT_GUARD_ROUNDS; round++) {
        n = hymt_guard(doc, work, round == 0 ? text : clean, n, clean, &again);

        if (work->atom == NULL) {
            whole = n;
            n = hymt_guard_placeholders(doc, clean, n);
            held |= n != whole;
            again |= n != whole;
        }

        stripped |= again;
    }

    if (held && !hymt_has_letter(clean, n)) {
        n = 0;
    }

    doc->stats.stripped += stripped;

    if (n == 0
        || hymt_document_answer(doc, work, clean, n) == HYMT_DECLINED)
    {
        hymt_document_empty(doc, work);
    }

    free(clean);
}


/*
 * No answer, or one of no use: once more, then the source stays.  Of such an
 * answer nothing has been sent: see document_stream.c.
 */
static void
hymt_document_empty(hymt_document_t *doc, hymt_work_t *work)
{
    if (work->attempt != 0) {
        hymt_document_keep(doc, work);
        return;
    }

    work->attempt = 1;
    doc->stats.retries++;

    doc->insert = &doc->queue;
    hymt_document_enqueue(doc, work);
    doc->insert = NULL;
}


void
hymt_document_return(hymt_document_t *doc, uint32_t id)
{
    hymt_work_t  *work;

    work = hymt_document_out(doc, id);

    if (work == NULL) {
        return;
    }

    doc->insert = &doc->queue;
    hymt_document_enqueue(doc, work);
    doc->insert = NULL;
}


/* the unit, which is no longer out; NULL: it was not */
static hymt_work_t *
hymt_document_out(hymt_document_t *doc, uint32_t id)
{
    hymt_work_t  *work;

    if (id >= doc->n_work || doc->work[id]->state != HYMT_WORK_OUT) {
        return NULL;
    }

    work = doc->work[id];
    work->state = HYMT_WORK_DONE;
    doc->n_out--;

    return work;
}


void
hymt_document_keep(hymt_document_t *doc, hymt_work_t *work)
{
    (void) doc;

    work->state = HYMT_WORK_DONE;
    work->part->work = NULL;
    work->part->text = NULL;
    work->part->at = work->src;
    work->part->len = work->src_len;
}


hymt_status_t
hymt_document_ready(hymt_document_t *doc, size_t from, const char **text,
    size_t *len)
{
    if (!hymt_document_flush(doc)) {
        return HYMT_ERROR;
    }

    from = hymt_min(from, doc->out_len);

    *text = doc->out != NULL ? doc->out + from : "";
    *len = doc->out_len - from;

    return HYMT_OK;
}


hymt_status_t
hymt_document_output(hymt_document_t *doc, const char **text, size_t *len)
{
    if (!hymt_document_flush(doc)) {
        return HYMT_ERROR;
    }

    if (doc->ready != NULL) {
        return HYMT_AGAIN;
    }

    *text = doc->out != NULL ? doc->out : "";
    *len = doc->out_len;

    return HYMT_OK;
}


/* moves parts that are final to the output */
static bool
hymt_document_flush(hymt_document_t *doc)
{
    char         *grown;
    size_t        want;
    hymt_part_t  *part;

    while (!doc->no_memory && doc->ready != NULL && doc->ready->work == NULL) {
        part = doc->ready;
        want = doc->out_len + part->len + 1;

        if (want > doc->out_capacity) {
            want = hymt_max(want, doc->out_capacity + doc->out_capacity / 2);
            want = hymt_max(want, (size_t) doc->len + 64);
            grown = realloc(doc->out, want);

            if (grown == NULL) {
                doc->no_memory = true;
                break;
            }

            doc->out = grown;
            doc->out_capacity = want;
        }

        memcpy(doc->out + doc->out_len,
               part->text != NULL ? part->text : doc->source + part->at,
               part->len);

        doc->out_len += part->len;
        doc->out[doc->out_len] = '\0';
        doc->ready = part->next;
    }

    return !doc->no_memory;
}


size_t
hymt_document_memory(const hymt_document_t *doc)
{
    return sizeof(hymt_document_t) + doc->len + 1
           + doc->work_capacity * sizeof(hymt_work_t *)
           + doc->out_capacity + doc->scratch_size
           + hymt_arena_size(&doc->arena);
}


const hymt_document_stats_t *
hymt_document_stats(const hymt_document_t *doc)
{
    return &doc->stats;
}


bool
hymt_document_plain(const hymt_document_t *doc)
{
    if (doc->params.format != HYMT_FORMAT_TEXT || doc->n_work != 1) {
        return false;
    }

    return doc->work[0]->atom == NULL;
}
