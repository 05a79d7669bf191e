/*
 * json_quick.c - see json_quick.h.
 */

#include "json_quick.h"
#include "scan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>


#define HYMT_QUICK_DEPTH   16
#define HYMT_QUICK_KEY     64      /* bytes of a name, its end included */
#define HYMT_QUICK_NUMBER  32      /* of a number, likewise */
#define HYMT_QUICK_DIGITS  18      /* of an integer: fits into 64 bits */


typedef struct {
    const char  *p;
    const char  *end;
    char        *text;            /* of a string with escapes; NULL: none yet */
    size_t       size;
    size_t       left;            /* values that there may be yet */
    uint32_t     depth;
} hymt_quick_t;


/* what ends a run of a string's bytes that stand for themselves */
static const hymt_scan_t  hymt_quick_odd = {
    2, { hymt_lanes('"'), hymt_lanes('\\') }, hymt_lanes(' '), hymt_lanes(0)
};


static bool hymt_quick_flat(hymt_quick_t *r, hymt_json_member_t *m);
static bool hymt_quick_scalar(hymt_quick_t *r, hymt_json_member_t *m);
static bool hymt_quick_span(hymt_quick_t *r, const char **text, size_t *len);
static bool hymt_quick_known(const hymt_json_member_t *member, size_t n);
static json_t *hymt_quick_value(hymt_quick_t *r);
static json_t *hymt_quick_nested(hymt_quick_t *r);
static bool hymt_quick_members(hymt_quick_t *r, json_t *object);
static bool hymt_quick_member(hymt_quick_t *r, json_t *object);
static bool hymt_quick_items(hymt_quick_t *r, json_t *array);
static bool hymt_quick_more(hymt_quick_t *r, char close, bool *end);
static bool hymt_quick_word(hymt_quick_t *r, const char *word);
static json_t *hymt_quick_number(hymt_quick_t *r);
static bool hymt_quick_figure(hymt_quick_t *r, hymt_json_member_t *m);
static int64_t hymt_quick_integer(const char *p, size_t n);
static size_t hymt_quick_digits(hymt_quick_t *r);
static bool hymt_quick_string(hymt_quick_t *r, const char **text, size_t *len);
static bool hymt_quick_escaped(hymt_quick_t *r, size_t *len);
static size_t hymt_quick_unicode(hymt_quick_t *r, char *out);
static uint32_t hymt_quick_hex(hymt_quick_t *r);
static char hymt_quick_peek(hymt_quick_t *r);


json_t *
hymt_json_quick(const char *data, size_t len, size_t most)
{
    char          c;
    json_t       *root;
    hymt_quick_t   r;

    memset(&r, 0, sizeof(r));
    r.p = data;
    r.end = data + len;
    r.size = len;
    r.left = most;

    c = hymt_quick_peek(&r);

    if ((c != '{' && c != '[') || !hymt_utf8_check(data, len, NULL)) {
        return NULL;
    }

    root = hymt_quick_value(&r);

    (void) hymt_quick_peek(&r);

    if (r.p != r.end) {
        json_decref(root);
        root = NULL;
    }

    free(r.text);

    return root;
}


size_t
hymt_json_flat(const char *data, size_t len, hymt_json_member_t *member,
    size_t cap)
{
    bool          end;
    size_t        n;
    hymt_quick_t  r;

    if (len == 0) {
        return 0;
    }

    memset(&r, 0, sizeof(r));
    r.p = data;
    r.end = data + len;

    if (hymt_quick_peek(&r) != '{' || !hymt_utf8_check(data, len, NULL)) {
        return 0;
    }

    r.p++;
    n = 0;

    do {
        if (n == cap || !hymt_quick_flat(&r, &member[n])
            || hymt_quick_known(member, n) || !hymt_quick_more(&r, '}', &end))
        {
            return 0;
        }

        n++;

    } while (!end);

    (void) hymt_quick_peek(&r);

    return r.p == r.end ? n : 0;
}


static bool
hymt_quick_flat(hymt_quick_t *r, hymt_json_member_t *m)
{
    if (hymt_quick_peek(r) != '"'
        || !hymt_quick_span(r, &m->name, &m->name_len)
        || m->name_len >= HYMT_QUICK_KEY || hymt_quick_peek(r) != ':')
    {
        return false;
    }

    r->p++;
    m->tree = NULL;

    return hymt_quick_scalar(r, m);
}


static bool
hymt_quick_scalar(hymt_quick_t *r, hymt_json_member_t *m)
{
    switch (hymt_quick_peek(r)) {

    case '"':
        m->type = JSON_STRING;
        return hymt_quick_span(r, &m->text, &m->len);

    case 't':
        m->type = JSON_TRUE;
        return hymt_quick_word(r, "true");

    case 'f':
        m->type = JSON_FALSE;
        return hymt_quick_word(r, "false");

    default:
        return hymt_quick_figure(r, m);
    }
}


/* A string that stands for itself. */
static bool
hymt_quick_span(hymt_quick_t *r, const char **text, size_t *len)
{
    size_t  n;

    r->p++;
    n = hymt_scan(&hymt_quick_odd, r->p, 0, (size_t) (r->end - r->p));

    if (r->p + n == r->end || r->p[n] != '"') {
        return false;
    }

    *text = r->p;
    *len = n;
    r->p += n + 1;

    return true;
}


/* Whether the last one of n + 1 members has the name of another one. */
static bool
hymt_quick_known(const hymt_json_member_t *member, size_t n)
{
    size_t  i;

    for (i = 0; i < n; i++) {
        if (member[i].name_len == member[n].name_len
            && memcmp(member[i].name, member[n].name, member[n].name_len) == 0)
        {
            return true;
        }
    }

    return false;
}


static json_t *
hymt_quick_value(hymt_quick_t *r)
{
    size_t       len;
    const char  *text;

    if (r->left-- == 0) {
        return NULL;
    }

    switch (hymt_quick_peek(r)) {

    case '"':
        return hymt_quick_string(r, &text, &len)
               ? json_stringn_nocheck(text, len) : NULL;

    case '{':
    case '[':
        return hymt_quick_nested(r);

    case 't':
        return hymt_quick_word(r, "true") ? json_true() : NULL;

    case 'f':
        return hymt_quick_word(r, "false") ? json_false() : NULL;

    case 'n':
        return hymt_quick_word(r, "null") ? json_null() : NULL;

    default:
        return hymt_quick_number(r);
    }
}


static json_t *
hymt_quick_nested(hymt_quick_t *r)
{
    bool     good;
    json_t  *value;

    if (r->depth == HYMT_QUICK_DEPTH) {
        return NULL;
    }

    r->depth++;

    if (*r->p++ == '{') {
        value = json_object();
        good = value != NULL && hymt_quick_members(r, value);

    } else {
        value = json_array();
        good = value != NULL && hymt_quick_items(r, value);
    }

    r->depth--;

    if (!good) {
        json_decref(value);
        return NULL;
    }

    return value;
}


static bool
hymt_quick_members(hymt_quick_t *r, json_t *object)
{
    bool  end;

    if (hymt_quick_peek(r) == '}') {
        r->p++;
        return true;
    }

    do {
        if (!hymt_quick_member(r, object) || !hymt_quick_more(r, '}', &end)) {
            return false;
        }

    } while (!end);

    return true;
}


/* One that comes twice is an error, and so are others' to tell. */
static bool
hymt_quick_member(hymt_quick_t *r, json_t *object)
{
    char         key[HYMT_QUICK_KEY];
    size_t       len;
    json_t      *value;
    const char  *text;

    if (hymt_quick_peek(r) != '"' || !hymt_quick_string(r, &text, &len)
        || len >= sizeof(key))
    {
        return false;
    }

    memcpy(key, text, len);
    key[len] = '\0';

    if (hymt_quick_peek(r) != ':' || json_object_get(object, key) != NULL) {
        return false;
    }

    r->p++;
    value = hymt_quick_value(r);

    return value != NULL
           && json_object_set_new_nocheck(object, key, value) == 0;
}


static bool
hymt_quick_items(hymt_quick_t *r, json_t *array)
{
    bool     end;
    json_t  *value;

    if (hymt_quick_peek(r) == ']') {
        r->p++;
        return true;
    }

    do {
        value = hymt_quick_value(r);

        if (value == NULL || json_array_append_new(array, value) != 0
            || !hymt_quick_more(r, ']', &end))
        {
            return false;
        }

    } while (!end);

    return true;
}


/* What is behind a value: a comma, or the end of what it is in. */
static bool
hymt_quick_more(hymt_quick_t *r, char close, bool *end)
{
    char  c;

    c = hymt_quick_peek(r);
    *end = c == close;

    if (!*end && c != ',') {
        return false;
    }

    r->p++;

    return true;
}


static bool
hymt_quick_word(hymt_quick_t *r, const char *word)
{
    size_t  n;

    n = strlen(word);

    if ((size_t) (r->end - r->p) < n || memcmp(r->p, word, n) != 0) {
        return false;
    }

    r->p += n;

    return true;
}


static json_t *
hymt_quick_number(hymt_quick_t *r)
{
    hymt_json_member_t  m;

    if (!hymt_quick_figure(r, &m)) {
        return NULL;
    }

    return m.type == JSON_INTEGER ? json_integer(m.integer)
                                  : json_real(m.real);
}


static bool
hymt_quick_figure(hymt_quick_t *r, hymt_json_member_t *m)
{
    bool         whole;
    char         number[HYMT_QUICK_NUMBER], *end;
    size_t       n, digits;
    const char  *from;

    from = r->p;
    r->p += hymt_quick_peek(r) == '-';

    digits = 1;

    if (r->p < r->end && *r->p == '0') {
        r->p++;

    } else {
        digits = hymt_quick_digits(r);
    }

    whole = true;

    if (digits > 0 && r->p < r->end && *r->p == '.') {
        r->p++;
        whole = false;
        digits = hymt_quick_digits(r);
    }

    if (digits > 0 && r->p < r->end && (*r->p == 'e' || *r->p == 'E')) {
        r->p++;
        whole = false;
        r->p += r->p < r->end && (*r->p == '-' || *r->p == '+');
        digits = hymt_quick_digits(r);
    }

    n = (size_t) (r->p - from);

    if (digits == 0 || n >= sizeof(number)
        || (whole && digits > HYMT_QUICK_DIGITS))
    {
        return false;
    }

    if (whole) {
        m->type = JSON_INTEGER;
        m->integer = hymt_quick_integer(from, n);
        m->real = (double) m->integer;
        return true;
    }

    memcpy(number, from, n);
    number[n] = '\0';

    /* a locale may have another point */

    m->type = JSON_REAL;
    m->real = strtod(number, &end);

    return *end == '\0' && isfinite(m->real);
}


/* as many digits as fit, behind a minus or not */
static int64_t
hymt_quick_integer(const char *p, size_t n)
{
    size_t   i;
    int64_t  x;

    x = 0;

    for (i = *p == '-'; i < n; i++) {
        x = x * 10 + (p[i] - '0');
    }

    return *p == '-' ? -x : x;
}


static size_t
hymt_quick_digits(hymt_quick_t *r)
{
    const char  *from;

    from = r->p;

    while (r->p < r->end && *r->p >= '0' && *r->p <= '9') {
        r->p++;
    }

    return (size_t) (r->p - from);
}


/* The text lies in the data, or until the next string in r->text. */
static bool
hymt_quick_string(hymt_quick_t *r, const char **text, size_t *len)
{
    const char  *p;

    r->p++;
    p = r->p + hymt_scan(&hymt_quick_odd, r->p, 0, (size_t) (r->end - r->p));

    if (p == r->end || (uint8_t) *p < ' ') {
        return false;
    }

    if (*p == '\\') {
        *len = 0;

        if (!hymt_quick_escaped(r, len)) {
            return false;
        }

        *text = r->text;

        return true;
    }

    *text = r->p;
    *len = (size_t) (p - r->p);
    r->p = p + 1;

    return true;
}


/* No escape is shorter than what it stands for. */
static bool
hymt_quick_escaped(hymt_quick_t *r, size_t *len)
{
    char        *out;
    size_t       n;
    const char  *escape;

    static const char  escapes[] = "\"\\/bfnrt";
    static const char  chars[] = "\"\\/\b\f\n\r\t";

    if (r->text == NULL) {
        r->text = malloc(r->size);

        if (r->text == NULL) {
            return false;
        }
    }

    for (out = r->text; r->p < r->end && (uint8_t) *r->p >= ' '; /* void */ ) {

        if (*r->p == '"') {
            r->p++;
            *len = (size_t) (out - r->text);
            return true;
        }

        if (*r->p != '\\') {
            *out++ = *r->p++;
            continue;
        }

        if (++r->p == r->end) {
            return false;
        }

        if (*r->p == 'u') {
            n = hymt_quick_unicode(r, out);

            if (n == 0) {
                return false;
            }

            out += n;
            continue;
        }

        escape = *r->p != '\0' ? strchr(escapes, *r->p) : NULL;

        if (escape == NULL) {
            return false;
        }

        *out++ = chars[escape - escapes];
        r->p++;
    }

    return false;
}


/* uXXXX, or two of them for what is beyond U+FFFF; no U+0000. */
static size_t
hymt_quick_unicode(hymt_quick_t *r, char *out)
{
    uint32_t  c, low;

    c = hymt_quick_hex(r);

    if (c >= 0xd800 && c < 0xdc00) {

        if (r->end - r->p < 2 || r->p[0] != '\\' || r->p[1] != 'u') {
            return 0;
        }

        r->p++;
        low = hymt_quick_hex(r);

        if (low < 0xdc00 || low > 0xdfff) {
            return 0;
        }

        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);

    } else if (c >= 0xdc00 && c < 0xe000) {
        return 0;
    }

    if (c < 0x80) {
        out[0] = (char) c;
        return c != 0;
    }

    if (c < 0x800) {
        out[0] = (char) (0xc0 | c >> 6);
        out[1] = (char) (0x80 | (c & 0x3f));
        return 2;
    }

    if (c < 0x10000) {
        out[0] = (char) (0xe0 | c >> 12);
        out[1] = (char) (0x80 | (c >> 6 & 0x3f));
        out[2] = (char) (0x80 | (c & 0x3f));
        return 3;
    }

    out[0] = (char) (0xf0 | c >> 18);
    out[1] = (char) (0x80 | (c >> 12 & 0x3f));
    out[2] = (char) (0x80 | (c >> 6 & 0x3f));
    out[3] = (char) (0x80 | (c & 0x3f));

    return 4;
}


/* Of "uXXXX"; 0: it is none. */
static uint32_t
hymt_quick_hex(hymt_quick_t *r)
{
    uint32_t     i, c;
    const char  *digit;

    static const char  digits[] = "0123456789abcdefABCDEF";

    if (r->end - r->p < 5) {
        return 0;
    }

    r->p++;

    for (i = 0, c = 0; i < 4; i++, r->p++) {
        digit = *r->p != '\0' ? strchr(digits, *r->p) : NULL;

        if (digit == NULL) {
            return 0;
        }

        c = c << 4 | (uint32_t) (digit - digits - (*digit >= 'A'
                                                   && *digit <= 'F' ? 6 : 0));
    }

    return c;
}


/* The next character that is not blank; '\0' at the end. */
static char
hymt_quick_peek(hymt_quick_t *r)
{
    while (r->p < r->end
           && (*r->p == ' ' || *r->p == '\n' || *r->p == '\t'
               || *r->p == '\r'))
    {
        r->p++;
    }

    return r->p < r->end ? *r->p : '\0';
}
