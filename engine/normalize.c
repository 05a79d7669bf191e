/*
 * normalize.c - NFC, NFD, NFKC and NFKD of a whole text.
 *
 * Tables and composition are utf8proc's; decomposition is put in canonical
 * order here, by counting, because utf8proc's own ordering is quadratic in the
 * length of a run of combining marks and the text comes from outside.
 *
 * Hugging Face normalises by the tables of Unicode 9: to them a younger code
 * point is one that no form touches, and so it is here.
 */

#include "file.h"
#include "tokenizer_private.h"

#include <string.h>
#include <utf8proc.h>


#define HYMT_CCC_VALUES  256

/* the longest decomposition of one code point (U+FDFA) has 18 */
#define HYMT_MAX_EXPANSION  18


typedef struct {
    int32_t  first;
    int32_t  last;
} hymt_range_t;


/*
 * Younger than Unicode 9 and touched by a form since: with a combining class,
 * a decomposition, or part of a composition (up to Unicode 16).
 */
static const hymt_range_t  hymt_young[] = {
    { 0x7fd, 0x7fd }, { 0x897, 0x89f }, { 0x8ca, 0x8d3 },
    { 0x9fe, 0x9fe }, { 0xc3c, 0xc3c }, { 0xd3b, 0xd3c },
    { 0xeba, 0xeba }, { 0xece, 0xece }, { 0x1715, 0x1715 },
    { 0x1abf, 0x1ace }, { 0x1df6, 0x1dfa }, { 0x32ff, 0x32ff },
    { 0xa7f2, 0xa7f4 }, { 0xa82c, 0xa82c }, { 0xab69, 0xab69 },
    { 0x105c0, 0x105ff }, { 0x10781, 0x10785 }, { 0x10787, 0x107b0 },
    { 0x107b2, 0x107ba }, { 0x10d24, 0x10d27 }, { 0x10d69, 0x10d6d },
    { 0x10eab, 0x10eac }, { 0x10efc, 0x10eff }, { 0x10f46, 0x10f50 },
    { 0x10f82, 0x10f85 }, { 0x11070, 0x11070 }, { 0x1133b, 0x1133b },
    { 0x11380, 0x113ff }, { 0x1145e, 0x1145e }, { 0x11839, 0x1183a },
    { 0x11900, 0x1195f }, { 0x119e0, 0x119e0 }, { 0x11a34, 0x11a34 },
    { 0x11a47, 0x11a47 }, { 0x11a99, 0x11a99 }, { 0x11d42, 0x11d42 },
    { 0x11d44, 0x11d45 }, { 0x11d97, 0x11d97 }, { 0x11f41, 0x11f42 },
    { 0x16100, 0x1613f }, { 0x16d40, 0x16d7f }, { 0x16ff0, 0x16ff1 },
    { 0x1ccd6, 0x1ccf9 }, { 0x1e030, 0x1e06d }, { 0x1e08f, 0x1e08f },
    { 0x1e130, 0x1e136 }, { 0x1e2ae, 0x1e2ae }, { 0x1e2ec, 0x1e2ef },
    { 0x1e4ec, 0x1e4ef }, { 0x1e5ee, 0x1e5ef }, { 0x1f16c, 0x1f16c },
    { 0x1fbf0, 0x1fbf9 },
};


static hymt_status_t hymt_normalizer_add(hymt_tokenizer_t *tok,
    const json_t *json, int depth, const char *path, hymt_error_t *err);
static bool hymt_is_ascii(const char *text, size_t len);
static hymt_status_t hymt_normalize_one(hymt_encoder_t *enc,
    hymt_normal_form_t form, const char **text, size_t *len,
    hymt_error_t *err);
static hymt_status_t hymt_decompose(hymt_encoder_t *enc, bool compatible,
    const char *text, size_t len, size_t *n, hymt_error_t *err);
static bool hymt_is_young(int32_t point);
static bool hymt_canonical_order(hymt_encoder_t *enc, size_t n);
static void hymt_sort_marks(int32_t *points, int32_t *sorted, size_t n);
static uint32_t hymt_ccc(int32_t point);
static hymt_status_t hymt_compose(int32_t *points, size_t *n,
    hymt_error_t *err);
static hymt_status_t hymt_recode(hymt_encoder_t *enc, size_t n,
    const char **text, size_t *len, hymt_error_t *err);


hymt_status_t
hymt_normalizer_load(hymt_tokenizer_t *tok, const json_t *json,
    const char *path, hymt_error_t *err)
{
    if (json == NULL || json_is_null(json)) {
        return HYMT_OK;
    }

    return hymt_normalizer_add(tok, json, 0, path, err);
}


static hymt_status_t
hymt_normalizer_add(hymt_tokenizer_t *tok, const json_t *json, int depth,
    const char *path, hymt_error_t *err)
{
    char           show[HYMT_JSON_SHOW];
    size_t         i;
    const char    *type;
    const json_t  *list;

    static const char  *const forms[] = { "NFC", "NFD", "NFKC", "NFKD" };

    type = json_string_value(json_object_get(json, "type"));

    if (type == NULL) {
        return hymt_fail(err, "%s: normalizer: an object with a \"type\""
                         " is needed", path);
    }

    if (strcmp(type, "Sequence") == 0) {
        list = json_object_get(json, "normalizers");

        if (!json_is_array(list) || depth == HYMT_MAX_NESTING) {
            return hymt_fail(err, "%s: normalizer: Sequence needs"
                             " \"normalizers\", an array, nested at most %d"
                             " deep", path, HYMT_MAX_NESTING);
        }

        for (i = 0; i < json_array_size(list); i++) {
            if (hymt_normalizer_add(tok, json_array_get(list, i), depth + 1,
                                    path, err)
                != HYMT_OK)
            {
                return HYMT_ERROR;
            }
        }

        return HYMT_OK;
    }

    for (i = 0; i < hymt_nelts(forms); i++) {
        if (strcmp(type, forms[i]) != 0) {
            continue;
        }

        if (tok->n_normalizers == HYMT_MAX_NORMALIZERS) {
            return hymt_fail(err, "%s: normalizer: more than %d steps", path,
                             HYMT_MAX_NORMALIZERS);
        }

        tok->normalizers[tok->n_normalizers++] = (hymt_normal_form_t) i;

        return HYMT_OK;
    }

    return hymt_fail(err, "%s: normalizer %s is not supported (NFC, NFD, NFKC,"
                     " NFKD and Sequence are)", path,
                     hymt_json_show(json_object_get(json, "type"), show));
}


hymt_status_t
hymt_normalize(hymt_encoder_t *enc, const char **text, size_t *len,
    hymt_error_t *err)
{
    uint32_t                 i;
    const hymt_tokenizer_t  *tok;

    tok = enc->tok;

    /* ASCII is its own form in all four */

    if (tok->n_normalizers == 0 || hymt_is_ascii(*text, *len)) {
        return HYMT_OK;
    }

    for (i = 0; i < tok->n_normalizers; i++) {
        if (hymt_normalize_one(enc, tok->normalizers[i], text, len, err)
            != HYMT_OK)
        {
            return HYMT_ERROR;
        }
    }

    return HYMT_OK;
}


static bool
hymt_is_ascii(const char *text, size_t len)
{
    size_t  i;

    for (i = 0; i < len; i++) {
        if ((unsigned char) text[i] >= 0x80) {
            return false;
        }
    }

    return true;
}


static hymt_status_t
hymt_normalize_one(hymt_encoder_t *enc, hymt_normal_form_t form,
    const char **text, size_t *len, hymt_error_t *err)
{
    size_t  n;
    bool    compatible, compose;

    compatible = form == HYMT_NFKC || form == HYMT_NFKD;
    compose = form == HYMT_NFC || form == HYMT_NFKC;
    n = 0;

    if (hymt_decompose(enc, compatible, *text, *len, &n, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    if (!hymt_canonical_order(enc, n)) {
        return hymt_fail(err, "no memory to normalise %zu code points", n);
    }

    if (compose && hymt_compose(enc->points.data, &n, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    return hymt_recode(enc, n, text, len, err);
}


/* UTF-8 into enc->points; *n is set to the code points. */
static hymt_status_t
hymt_decompose(hymt_encoder_t *enc, bool compatible, const char *text,
    size_t len, size_t *n, hymt_error_t *err)
{
    int                last_class;
    size_t             i, used;
    int32_t            point, *out;
    utf8proc_ssize_t   rc;
    utf8proc_option_t  options;

    options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;

    if (compatible) {
        options |= UTF8PROC_COMPAT;
    }

    used = 0;
    last_class = UTF8PROC_BOUNDCLASS_START;

    for (i = 0; i < len; i += (size_t) rc) {

        if (!hymt_scratch_reserve(&enc->points,
                                  (used + HYMT_MAX_EXPANSION)
                                  * sizeof(int32_t)))
        {
            return hymt_fail(err, "no memory to normalise %zu bytes", len);
        }

        rc = utf8proc_iterate((const utf8proc_uint8_t *) text + i,
                              (utf8proc_ssize_t) (len - i), &point);

        if (rc <= 0) {
            return hymt_fail(err, "invalid UTF-8 at byte %zu", i);
        }

        out = (int32_t *) enc->points.data + used;

        if (point < 0x80 || hymt_is_young(point)) {
            *out = point;
            used++;
            continue;
        }

        used += (size_t) utf8proc_decompose_char(point, out,
                                                 HYMT_MAX_EXPANSION, options,
                                                 &last_class);
    }

    *n = used;

    return HYMT_OK;
}


static bool
hymt_is_young(int32_t point)
{
    size_t  low, high, middle;

    if (point < hymt_young[0].first) {
        return false;
    }

    low = 0;
    high = hymt_nelts(hymt_young);

    while (low < high) {
        middle = (low + high) / 2;

        if (point > hymt_young[middle].last) {
            low = middle + 1;

        } else {
            high = middle;
        }
    }

    return low < hymt_nelts(hymt_young) && point >= hymt_young[low].first;
}


/*
 * Sorts each run of marks by combining class, stably (Unicode 3.11, D109).
 * The second half of the scratch takes the sorted run.
 */
static bool
hymt_canonical_order(hymt_encoder_t *enc, size_t n)
{
    size_t   begin, end;
    int32_t  *points;
    bool     sorted;

    if (!hymt_scratch_reserve(&enc->points, 2 * n * sizeof(int32_t))) {
        return false;
    }

    points = enc->points.data;

    for (begin = 0; begin < n; begin = end) {

        end = begin + 1;

        if (points[begin] < 0x300 || hymt_ccc(points[begin]) == 0) {
            continue;
        }

        sorted = true;

        while (end < n && points[end] >= 0x300 && hymt_ccc(points[end]) != 0) {
            sorted &= hymt_ccc(points[end - 1]) <= hymt_ccc(points[end]);
            end++;
        }

        if (!sorted) {
            hymt_sort_marks(points + begin, points + n, end - begin);
        }
    }

    return true;
}


static void
hymt_sort_marks(int32_t *points, int32_t *sorted, size_t n)
{
    size_t  i, start[HYMT_CCC_VALUES + 1];

    memset(start, 0, sizeof(start));

    for (i = 0; i < n; i++) {
        start[hymt_ccc(points[i]) + 1]++;
    }

    for (i = 1; i <= HYMT_CCC_VALUES; i++) {
        start[i] += start[i - 1];
    }

    for (i = 0; i < n; i++) {
        sorted[start[hymt_ccc(points[i])]++] = points[i];
    }

    memcpy(points, sorted, n * sizeof(int32_t));
}


static uint32_t
hymt_ccc(int32_t point)
{
    uint32_t  ccc;

    ccc = (uint32_t) utf8proc_get_property(point)->combining_class
          % HYMT_CCC_VALUES;

    return ccc == 0 || hymt_is_young(point) ? 0 : ccc;
}


/* Young code points stand between what may compose. */
static hymt_status_t
hymt_compose(int32_t *points, size_t *n, hymt_error_t *err)
{
    size_t            begin, end, used;
    utf8proc_ssize_t  composed;

    used = 0;

    for (begin = 0; begin < *n; begin = end) {

        for (end = begin; end < *n && !hymt_is_young(points[end]); end++) {
            /* void */
        }

        composed = 0;

        if (end > begin) {
            composed = utf8proc_normalize_utf32(points + begin,
                                          (utf8proc_ssize_t) (end - begin),
                                          UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        }

        if (composed < 0) {
            return hymt_fail(err, "normalisation failed: %s",
                             utf8proc_errmsg(composed));
        }

        memmove(points + used, points + begin,
                (size_t) composed * sizeof(int32_t));
        used += (size_t) composed;

        for ( /* void */ ; end < *n && hymt_is_young(points[end]); end++) {
            points[used++] = points[end];
        }
    }

    *n = used;

    return HYMT_OK;
}


static hymt_status_t
hymt_recode(hymt_encoder_t *enc, size_t n, const char **text, size_t *len,
    hymt_error_t *err)
{
    char     *out;
    size_t    i, used;
    int32_t  *points;

    if (!hymt_scratch_reserve(&enc->normal, 4 * n)) {
        return hymt_fail(err, "no memory to normalise %zu code points", n);
    }

    points = enc->points.data;
    out = enc->normal.data;
    used = 0;

    for (i = 0; i < n; i++) {
        used += (size_t) utf8proc_encode_char(points[i],
                                      (utf8proc_uint8_t *) out + used);
    }

    *text = out;
    *len = used;

    return HYMT_OK;
}
