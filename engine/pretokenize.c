/*
 * pretokenize.c - cuts text into pre-tokens: the stages of a pre_tokenizer, one
 * after the other, each over the pieces of the one before.
 *
 * A stage sees one piece at a time and nothing around it, as in Hugging Face:
 * look-around ends at the piece's ends.
 */

#include "file.h"
#include "tokenizer_private.h"

#include <stdlib.h>
#include <string.h>


/* the split of GPT-2, which ByteLevel makes unless use_regex is false */
#define HYMT_BYTE_LEVEL_REGEX                                                 \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"       \
    "|\\s+(?!\\S)|\\s+"


typedef struct {
    hymt_encoder_t      *enc;
    const hymt_stage_t  *stage;
    hymt_scratch_t      *out;       /* hymt_piece_t */
    size_t               n;         /* pieces in out */
    size_t               first;     /* of the piece being cut */
    bool                 last_hit;  /* the last span was a match */
} hymt_cut_t;


static hymt_status_t hymt_stage_load(hymt_tokenizer_t *tok,
    const json_t *json, int depth, bool *ended, const char *path,
    hymt_error_t *err);
static hymt_status_t hymt_split_load(hymt_tokenizer_t *tok,
    const json_t *json, const char *path, hymt_error_t *err);
static hymt_status_t hymt_byte_level_load(hymt_tokenizer_t *tok,
    const json_t *json, const char *path, hymt_error_t *err);
static hymt_stage_t *hymt_stage_new(hymt_tokenizer_t *tok, const char *path,
    hymt_error_t *err);
static hymt_status_t hymt_stage_compile(hymt_stage_t *stage,
    const char *pattern, bool literal, hymt_error_t *err);
static hymt_status_t hymt_prefix_pieces(hymt_encoder_t *enc,
    const char **text, size_t *n, hymt_error_t *err);
static hymt_status_t hymt_cut_piece(hymt_cut_t *c, const char *text,
    hymt_piece_t piece, hymt_error_t *err);
static int hymt_find(hymt_cut_t *c, const char *text, size_t len, size_t at);
static hymt_status_t hymt_find_failed(int rc, size_t at, hymt_error_t *err);
static bool hymt_cut_add(hymt_cut_t *c, hymt_piece_t span, bool hit);
static void hymt_cut_end(hymt_cut_t *c);


hymt_status_t
hymt_pretokenizer_load(hymt_tokenizer_t *tok, const json_t *json,
    const char *path, hymt_error_t *err)
{
    bool  ended;

    ended = false;

    if (hymt_stage_load(tok, json, 0, &ended, path, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    if (!ended) {
        return hymt_fail(err, "%s: pre_tokenizer has no ByteLevel step: only"
                         " byte-level BPE is supported", path);
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_stage_load(hymt_tokenizer_t *tok, const json_t *json, int depth,
    bool *ended, const char *path, hymt_error_t *err)
{
    char           show[HYMT_JSON_SHOW];
    size_t         i;
    const char    *type;
    const json_t  *list;

    type = json_string_value(json_object_get(json, "type"));

    if (type == NULL) {
        return hymt_fail(err, "%s: pre_tokenizer: an object with a \"type\" is"
                         " needed, not %s", path, hymt_json_show(json, show));
    }

    if (*ended) {
        return hymt_fail(err, "%s: pre_tokenizer: nothing may follow"
                         " ByteLevel", path);
    }

    if (strcmp(type, "Split") == 0) {
        return hymt_split_load(tok, json, path, err);
    }

    if (strcmp(type, "ByteLevel") == 0) {
        *ended = true;
        return hymt_byte_level_load(tok, json, path, err);
    }

    if (strcmp(type, "Sequence") != 0) {
        return hymt_fail(err, "%s: pre_tokenizer %s is not supported"
                         " (ByteLevel, Split and Sequence are)", path,
                         hymt_json_show(json_object_get(json, "type"), show));
    }

    list = json_object_get(json, "pretokenizers");

    if (!json_is_array(list) || depth == HYMT_MAX_NESTING) {
        return hymt_fail(err, "%s: pre_tokenizer: Sequence needs"
                         " \"pretokenizers\", an array, nested at most %d"
                         " deep", path, HYMT_MAX_NESTING);
    }

    for (i = 0; i < json_array_size(list); i++) {
        if (hymt_stage_load(tok, json_array_get(list, i), depth + 1, ended,
                            path, err)
            != HYMT_OK)
        {
            return HYMT_ERROR;
        }
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_split_load(hymt_tokenizer_t *tok, const json_t *json, const char *path,
    hymt_error_t *err)
{
    char           show[HYMT_JSON_SHOW];
    size_t         i;
    hymt_error_t   why;
    const char    *regex, *string, *behavior;
    hymt_stage_t  *stage;
    const json_t  *pattern, *invert;

    static const char  *const behaviors[] = {
        "Isolated", "Removed", "MergedWithPrevious", "MergedWithNext",
        "Contiguous"
    };

    stage = hymt_stage_new(tok, path, err);
    if (stage == NULL) {
        return HYMT_ERROR;
    }

    behavior = json_string_value(json_object_get(json, "behavior"));

    for (i = 0; i < hymt_nelts(behaviors); i++) {
        if (behavior != NULL && strcmp(behavior, behaviors[i]) == 0) {
            break;
        }
    }

    if (i == hymt_nelts(behaviors)) {
        return hymt_fail(err, "%s: pre_tokenizer: Split: behavior %s is not"
                         " Isolated, Removed, MergedWithPrevious,"
                         " MergedWithNext or Contiguous", path,
                         hymt_json_show(json_object_get(json, "behavior"),
                                        show));
    }

    stage->split = (hymt_split_t) i;

    invert = json_object_get(json, "invert");

    if (invert != NULL && !json_is_boolean(invert)) {
        return hymt_fail(err, "%s: pre_tokenizer: Split: invert %s is not true"
                         " or false", path, hymt_json_show(invert, show));
    }

    stage->invert = json_is_true(invert);

    pattern = json_object_get(json, "pattern");
    regex = json_string_value(json_object_get(pattern, "Regex"));
    string = json_string_value(json_object_get(pattern, "String"));

    if ((regex == NULL) == (string == NULL)) {
        return hymt_fail(err, "%s: pre_tokenizer: Split: pattern %s is not"
                         " {\"Regex\": \"...\"} or {\"String\": \"...\"}",
                         path, hymt_json_show(pattern, show));
    }

    if (hymt_stage_compile(stage, regex != NULL ? regex : string,
                           regex == NULL, &why)
        != HYMT_OK)
    {
        return hymt_fail(err, "%s: pre_tokenizer: Split: pattern %s: %s", path,
                         hymt_json_show(pattern, show), why.text);
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_byte_level_load(hymt_tokenizer_t *tok, const json_t *json,
    const char *path, hymt_error_t *err)
{
    hymt_stage_t  *stage;
    const json_t  *prefix, *regex;

    prefix = json_object_get(json, "add_prefix_space");
    regex = json_object_get(json, "use_regex");

    if (!json_is_boolean(prefix)
        || (regex != NULL && !json_is_boolean(regex)))
    {
        return hymt_fail(err, "%s: pre_tokenizer: ByteLevel needs"
                         " add_prefix_space, true or false; use_regex, where"
                         " present, is true or false", path);
    }

    if (json_is_true(prefix) && hymt_stage_new(tok, path, err) == NULL) {
        return HYMT_ERROR;
    }

    if (json_is_false(regex)) {
        return HYMT_OK;
    }

    stage = hymt_stage_new(tok, path, err);
    if (stage == NULL) {
        return HYMT_ERROR;
    }

    return hymt_stage_compile(stage, HYMT_BYTE_LEVEL_REGEX, false, err);
}


/* An empty stage puts a space before each piece. */
static hymt_stage_t *
hymt_stage_new(hymt_tokenizer_t *tok, const char *path, hymt_error_t *err)
{
    if (tok->n_stages == HYMT_MAX_STAGES) {
        (void) hymt_fail(err, "%s: pre_tokenizer: more than %d steps", path,
                         HYMT_MAX_STAGES);
        return NULL;
    }

    return &tok->stages[tok->n_stages++];
}


static hymt_status_t
hymt_stage_compile(hymt_stage_t *stage, const char *pattern, bool literal,
    hymt_error_t *err)
{
    int                     code;
    char                   *translated;
    size_t                  at;
    uint32_t                options;
    unsigned char           text[160];
    pcre2_compile_context  *context;

    translated = NULL;
    options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE;

    if (literal) {
        options = PCRE2_UTF | PCRE2_LITERAL;

        if (pattern[0] == '\0') {
            return hymt_fail(err, "it is empty");
        }

    } else if (hymt_oniguruma_translate(pattern, &translated, err)
               != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    context = pcre2_compile_context_create(NULL);

    if (context == NULL) {
        free(translated);
        return hymt_fail(err, "no memory to compile a pattern");
    }

    pcre2_set_newline(context, PCRE2_NEWLINE_LF);

    stage->re = pcre2_compile((PCRE2_SPTR) (literal ? pattern : translated),
                              PCRE2_ZERO_TERMINATED, options, &code, &at,
                              context);

    pcre2_compile_context_free(context);
    free(translated);

    if (stage->re == NULL) {
        pcre2_get_error_message(code, text, sizeof(text));
        return hymt_fail(err, "%s", (char *) text);
    }

    /* where code pages can't be had, matching goes on without them */

    stage->jit = pcre2_jit_compile(stage->re, PCRE2_JIT_COMPLETE) == 0;

    return HYMT_OK;
}


hymt_status_t
hymt_pretokenize(hymt_encoder_t *enc, const char **text, size_t len,
    const hymt_piece_t **pieces, size_t *n, hymt_error_t *err)
{
    size_t                   i, n_in;
    uint32_t                 s;
    hymt_cut_t               cut;
    hymt_piece_t            *in;
    hymt_scratch_t           swap;
    const hymt_tokenizer_t  *tok;

    tok = enc->tok;

    if (!hymt_scratch_reserve(&enc->pieces[0], sizeof(hymt_piece_t))) {
        return hymt_fail(err, "no memory to split text");
    }

    in = enc->pieces[0].data;
    in[0].begin = 0;
    in[0].end = (uint32_t) len;
    n_in = len != 0;

    for (s = 0; s < tok->n_stages; s++) {

        if (tok->stages[s].re == NULL) {
            if (hymt_prefix_pieces(enc, text, &n_in, err) != HYMT_OK) {
                return HYMT_ERROR;
            }

            continue;
        }

        cut.enc = enc;
        cut.stage = &tok->stages[s];
        cut.out = &enc->pieces[1];
        cut.n = 0;

        in = enc->pieces[0].data;

        for (i = 0; i < n_in; i++) {
            if (hymt_cut_piece(&cut, *text, in[i], err) != HYMT_OK) {
                return HYMT_ERROR;
            }
        }

        n_in = cut.n;

        swap = enc->pieces[0];
        enc->pieces[0] = enc->pieces[1];
        enc->pieces[1] = swap;
    }

    *pieces = enc->pieces[0].data;
    *n = n_in;

    return HYMT_OK;
}


/* add_prefix_space: a space before each piece that does not begin with one */
static hymt_status_t
hymt_prefix_pieces(hymt_encoder_t *enc, const char **text, size_t *n,
    hymt_error_t *err)
{
    char          *out;
    size_t         i, size, len;
    hymt_piece_t  *pieces;

    pieces = enc->pieces[0].data;
    size = 0;

    for (i = 0; i < *n; i++) {
        size += pieces[i].end - pieces[i].begin + 1;
    }

    if (size > UINT32_MAX || !hymt_scratch_reserve(&enc->prefixed, size)) {
        return hymt_fail(err, "no memory to split text");
    }

    out = enc->prefixed.data;
    size = 0;

    for (i = 0; i < *n; i++) {
        len = pieces[i].end - pieces[i].begin;

        if ((*text)[pieces[i].begin] != ' ') {
            out[size] = ' ';
            memcpy(out + size + 1, *text + pieces[i].begin, len);
            len++;

        } else {
            memcpy(out + size, *text + pieces[i].begin, len);
        }

        pieces[i].begin = (uint32_t) size;
        size += len;
        pieces[i].end = (uint32_t) size;
    }

    *text = out;

    return HYMT_OK;
}


/*
 * Spans between matches and matches, in order.  An empty match right after a
 * match does not count, any other does, as in Oniguruma's iterator.
 */
static hymt_status_t
hymt_cut_piece(hymt_cut_t *c, const char *text, hymt_piece_t piece,
    hymt_error_t *err)
{
    int          rc;
    bool         matched;
    size_t       len, at, begin, end, done, *offsets;
    const char  *p;

    p = text + piece.begin;
    len = piece.end - piece.begin;
    at = 0;
    done = 0;
    matched = false;

    c->first = c->n;
    c->last_hit = false;

    while (at <= len) {

        rc = hymt_find(c, p, len, at);

        if (rc == PCRE2_ERROR_NOMATCH) {
            break;
        }

        if (rc < 0) {
            return hymt_find_failed(rc, piece.begin + at, err);
        }

        offsets = pcre2_get_ovector_pointer(c->enc->match);
        begin = offsets[0];
        end = offsets[1];

        if (begin == end && matched && end == done) {
            do {
                at++;
            } while (at < len && ((unsigned char) p[at] & 0xc0) == 0x80);

            continue;
        }

        if ((begin > done
             && !hymt_cut_add(c, (hymt_piece_t) {
                                  piece.begin + (uint32_t) done,
                                  piece.begin + (uint32_t) begin }, false))
            || !hymt_cut_add(c, (hymt_piece_t) {
                                 piece.begin + (uint32_t) begin,
                                 piece.begin + (uint32_t) end }, true))
        {
            return hymt_fail(err, "no memory to split text");
        }

        matched = true;
        done = end;
        at = end;
    }

    if (done < len
        && !hymt_cut_add(c, (hymt_piece_t) { piece.begin + (uint32_t) done,
                                             piece.end }, false))
    {
        return hymt_fail(err, "no memory to split text");
    }

    hymt_cut_end(c);

    return HYMT_OK;
}


static int
hymt_find(hymt_cut_t *c, const char *text, size_t len, size_t at)
{
    int              rc;
    hymt_encoder_t  *enc;

    enc = c->enc;

    if (c->stage->jit) {
        rc = pcre2_jit_match(c->stage->re, (PCRE2_SPTR) text, len, at,
                             PCRE2_NO_UTF_CHECK, enc->match,
                             enc->match_context);

        /* the slow way needs no stack: it keeps its place on the heap */

        if (rc != PCRE2_ERROR_JIT_STACKLIMIT) {
            return rc;
        }
    }

    return pcre2_match(c->stage->re, (PCRE2_SPTR) text, len, at,
                       PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, enc->match,
                       enc->match_context);
}


static hymt_status_t
hymt_find_failed(int rc, size_t at, hymt_error_t *err)
{
    unsigned char  text[160];

    pcre2_get_error_message(rc, text, sizeof(text));

    return hymt_fail(err, "splitting text at byte %zu: %s", at,
                     (char *) text);
}


/*
 * One span to the pieces of the stage; false without memory.  An empty one
 * counts for what its neighbours merge with and goes in the end.
 */
static bool
hymt_cut_add(hymt_cut_t *c, hymt_piece_t span, bool hit)
{
    bool           merge;
    hymt_piece_t  *out;

    hit ^= c->stage->invert;
    merge = false;

    switch (c->stage->split) {

    case HYMT_SPLIT_ISOLATED:
        break;

    case HYMT_SPLIT_REMOVED:
        if (hit) {
            return true;
        }

        break;

    case HYMT_SPLIT_MERGED_PREVIOUS:
        merge = hit && !c->last_hit;
        break;

    case HYMT_SPLIT_MERGED_NEXT:
        merge = !hit && c->last_hit;
        break;

    case HYMT_SPLIT_CONTIGUOUS:
        merge = hit == c->last_hit;
        break;
    }

    c->last_hit = hit;

    if (merge && c->n > c->first) {
        out = c->out->data;
        out[c->n - 1].end = span.end;

        return true;
    }

    if (!hymt_scratch_reserve(c->out, (c->n + 1) * sizeof(hymt_piece_t))) {
        return false;
    }

    out = c->out->data;
    out[c->n++] = span;

    return true;
}


static void
hymt_cut_end(hymt_cut_t *c)
{
    size_t         i, n;
    hymt_piece_t  *out;

    out = c->out->data;
    n = c->first;

    for (i = c->first; i < c->n; i++) {
        if (out[i].begin != out[i].end) {
            out[n++] = out[i];
        }
    }

    c->n = n;
}
