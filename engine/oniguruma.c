/*
 * oniguruma.c - regular expressions of a tokenizer.json, said in PCRE2.
 *
 * Hugging Face compiles them with Oniguruma, whose dialect looks alike and
 * differs in places: \s does not hold U+180E, \h is a hexadecimal digit, {2}+
 * is not possessive, \w and \b have another idea of a word, ^ and $ know
 * lines, [ nests inside a class, ss matches U+00DF where case does not count.
 * Its tables are those of Unicode 16.  Every construct is therefore either one
 * with the same meaning, or written out, or refused by name; nothing passes
 * unread.
 */

#include "file.h"
#include "tokenizer_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>


#define HYMT_MAX_PATTERN  (64 * 1024)
#define HYMT_MAX_REPEAT   65535

/* White_Space of the Unicode standard, and what lies between */
#define HYMT_SPACE      "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}"         \
                        "\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"      \
                        "\\x{205f}\\x{3000}"
#define HYMT_NON_SPACE  "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}"          \
                        "\\x{86}-\\x{9f}\\x{a1}-\\x{167f}"                    \
                        "\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}"              \
                        "\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}"              \
                        "\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"


typedef struct {
    const char    *begin;
    const char    *p;       /* what is still to be read */
    FILE          *out;
    uint32_t       depth;       /* of groups */
    uint32_t       caseless;    /* the depth where (?i: began, or 0 */
    uint32_t       last;        /* the literal before, in a caseless group */
    hymt_error_t  *err;
} hymt_onig_t;


/* One member of a class: a code point, or a set already written out. */
typedef enum {
    HYMT_ONIG_POINT = 0,
    HYMT_ONIG_SET,
} hymt_onig_item_t;


static hymt_status_t hymt_onig_pattern(hymt_onig_t *o);
static void hymt_onig_operator(hymt_onig_t *o);
static hymt_status_t hymt_onig_put(hymt_onig_t *o, uint32_t point);
static bool hymt_onig_folds(uint32_t first, uint32_t second);
static hymt_status_t hymt_onig_group(hymt_onig_t *o);
static hymt_status_t hymt_onig_repeat(hymt_onig_t *o);
static bool hymt_onig_number(const char **p, uint32_t *n);
static hymt_status_t hymt_onig_escape(hymt_onig_t *o);
static hymt_status_t hymt_onig_class(hymt_onig_t *o);
static hymt_status_t hymt_onig_class_item(hymt_onig_t *o,
    hymt_onig_item_t *kind, uint32_t *point);
static hymt_status_t hymt_onig_class_escape(hymt_onig_t *o,
    hymt_onig_item_t *kind, uint32_t *point);
static hymt_status_t hymt_onig_property(hymt_onig_t *o, char name[3],
    bool *negative);
static void hymt_onig_category(hymt_onig_t *o, const char *name);
static hymt_status_t hymt_onig_char_escape(hymt_onig_t *o, uint32_t *point);
static hymt_status_t hymt_onig_hex(hymt_onig_t *o, uint32_t *point);
static hymt_status_t hymt_onig_literal(hymt_onig_t *o, uint32_t *point);
static hymt_status_t hymt_onig_refuse(hymt_onig_t *o, const char *what);


hymt_status_t
hymt_oniguruma_translate(const char *pattern, char **out, hymt_error_t *err)
{
    size_t         size;
    hymt_onig_t    o;
    hymt_status_t  rc;

    if (pattern[0] == '\0' || strlen(pattern) > HYMT_MAX_PATTERN) {
        return hymt_fail(err, "a pattern of 1 to %d bytes is needed",
                         HYMT_MAX_PATTERN);
    }

    memset(&o, 0, sizeof(o));
    o.begin = pattern;
    o.p = pattern;
    o.err = err;
    o.out = open_memstream(out, &size);

    if (o.out == NULL) {
        return hymt_fail(err, "no memory to read a pattern");
    }

    rc = hymt_onig_pattern(&o);

    if (fclose(o.out) != 0) {
        rc = hymt_fail(err, "no memory to read a pattern");
    }

    if (rc != HYMT_OK) {
        free(*out);
        *out = NULL;
    }

    return rc;
}


static hymt_status_t
hymt_onig_pattern(hymt_onig_t *o)
{
    uint32_t       point;
    hymt_status_t  rc;

    rc = HYMT_OK;

    while (rc == HYMT_OK && *o->p != '\0') {

        switch (*o->p) {

        case '\\':
            rc = hymt_onig_escape(o);
            break;

        case '[':
            rc = hymt_onig_class(o);
            break;

        case '(':
            rc = hymt_onig_group(o);
            break;

        case '{':
            rc = hymt_onig_repeat(o);
            break;

        case ')': case '|': case '.': case '^': case '$':
        case '*': case '+': case '?':
            hymt_onig_operator(o);
            break;

        default:
            rc = hymt_onig_literal(o, &point);

            if (rc == HYMT_OK) {
                rc = hymt_onig_put(o, point);
            }
        }
    }

    return rc;
}


/* the same in both */
static void
hymt_onig_operator(hymt_onig_t *o)
{
    if (*o->p != ')') {
        o->last = 0;

    } else if (o->depth > 0) {
        if (o->depth == o->caseless) {
            o->caseless = 0;
            o->last = 0;
        }

        o->depth--;
    }

    putc(*o->p++, o->out);
}


/*
 * A literal.  Where case does not count Oniguruma matches one character for
 * several (ss, U+FB06 for st) and PCRE2 does not: only ASCII goes there, and
 * no two letters that fold to one.
 */
static hymt_status_t
hymt_onig_put(hymt_onig_t *o, uint32_t point)
{
    if (o->caseless != 0) {

        if (point >= 0x80 || hymt_onig_folds(o->last, point)) {
            return hymt_onig_refuse(o, "this in a caseless group, before what"
                                    " follows,");
        }

        o->last = point;
    }

    fprintf(o->out, "\\x{%x}", point);

    return HYMT_OK;
}


static bool
hymt_onig_folds(uint32_t first, uint32_t second)
{
    size_t  i;

    static const char  *const pairs[] = { "ss", "st", "ff", "fi", "fl" };

    for (i = 0; i < hymt_nelts(pairs); i++) {
        if ((first | 0x20) == (uint32_t) pairs[i][0]
            && (second | 0x20) == (uint32_t) pairs[i][1])
        {
            return true;
        }
    }

    return false;
}


static hymt_status_t
hymt_onig_group(hymt_onig_t *o)
{
    size_t  i, n;

    static const char  *const kinds[] = {
        "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"
    };

    if (o->p[1] != '?') {

        if (o->p[1] == '*') {
            return hymt_onig_refuse(o, "a group that begins with \"*\"");
        }

        /* captures are never asked for */

        fputs("(?:", o->out);
        o->p++;
        o->depth++;

        return HYMT_OK;
    }

    for (i = 0; i < hymt_nelts(kinds); i++) {
        n = strlen(kinds[i]);

        if (strncmp(o->p, kinds[i], n) == 0) {
            fputs(kinds[i], o->out);
            o->p += n;
            o->depth++;

            if (kinds[i][2] == 'i' && o->caseless == 0) {
                o->caseless = o->depth;
            }

            return HYMT_OK;
        }
    }

    return hymt_onig_refuse(o, "this kind of group");
}


/* {n}, {n,}, {,m} and {n,m}; any other brace is literal */
static hymt_status_t
hymt_onig_repeat(hymt_onig_t *o)
{
    bool         has_low, has_high, comma;
    uint32_t     low, high;
    const char  *p;

    p = o->p + 1;
    low = 0;
    high = 0;

    has_low = hymt_onig_number(&p, &low);
    comma = *p == ',';
    p += comma;
    has_high = comma && hymt_onig_number(&p, &high);

    if (*p != '}' || (!has_low && !has_high)) {
        fputs("\\{", o->out);
        o->p++;

        return HYMT_OK;
    }

    if (low > HYMT_MAX_REPEAT || high > HYMT_MAX_REPEAT
        || (has_high && low > high) || o->caseless != 0)
    {
        return hymt_onig_refuse(o, "this repeat");
    }

    /* {n}+ repeats the repeat, {n}? makes it optional: not so in PCRE2 */

    if (p[1] == '+' || p[1] == '*' || (p[1] == '?' && !comma)) {
        return hymt_onig_refuse(o, "a repeat of a repeat");
    }

    fprintf(o->out, "{%u", low);

    if (comma) {
        putc(',', o->out);
    }

    if (has_high) {
        fprintf(o->out, "%u", high);
    }

    putc('}', o->out);
    o->p = p + 1;

    return HYMT_OK;
}


static bool
hymt_onig_number(const char **p, uint32_t *n)
{
    const char  *begin;

    begin = *p;

    for (*n = 0; **p >= '0' && **p <= '9'; (*p)++) {
        *n = hymt_min(*n * 10 + (uint32_t) (**p - '0'), HYMT_MAX_REPEAT + 1);
    }

    return *p != begin;
}


/* an escape outside of a class */
static hymt_status_t
hymt_onig_escape(hymt_onig_t *o)
{
    bool      negative;
    char      name[3];
    uint32_t  point;

    /* what sets fold to differs too */

    if (o->caseless != 0 && o->p[1] != '\0'
        && strchr("sSdDpP", o->p[1]) != NULL)
    {
        return hymt_onig_refuse(o, "a set in a caseless group");
    }

    switch (o->p[1]) {

    case 's':
    case 'S':
        fputs(o->p[1] == 's' ? "[" HYMT_SPACE "]" : "[^" HYMT_SPACE "]",
              o->out);
        o->p += 2;
        return HYMT_OK;

    case 'd':
    case 'D':
        fputs(o->p[1] == 'd' ? "[" : "[^", o->out);
        hymt_onig_category(o, "Nd");
        putc(']', o->out);
        o->p += 2;
        return HYMT_OK;

    case 'p':
    case 'P':
        if (hymt_onig_property(o, name, &negative) != HYMT_OK) {
            return HYMT_ERROR;
        }

        fputs(negative ? "[^" : "[", o->out);
        hymt_onig_category(o, name);
        putc(']', o->out);
        return HYMT_OK;

    case 'A':
    case 'z':
    case 'Z':
        fprintf(o->out, "\\%c", o->p[1]);
        o->p += 2;
        return HYMT_OK;
    }

    if (hymt_onig_char_escape(o, &point) != HYMT_OK) {
        return HYMT_ERROR;
    }

    return hymt_onig_put(o, point);
}


static hymt_status_t
hymt_onig_class(hymt_onig_t *o)
{
    uint32_t          low, high;
    hymt_onig_item_t  kind;

    putc('[', o->out);
    o->p++;

    o->last = 0;

    if (*o->p == '^') {
        if (o->caseless != 0) {
            return hymt_onig_refuse(o, "a negated class in a caseless group");
        }

        putc('^', o->out);
        o->p++;
    }

    if (*o->p == ']') {
        return hymt_onig_refuse(o, "a class that begins with \"]\"");
    }

    while (*o->p != ']') {

        if (hymt_onig_class_item(o, &kind, &low) != HYMT_OK) {
            return HYMT_ERROR;
        }

        if (o->caseless != 0 && (kind != HYMT_ONIG_POINT || low >= 0x80)) {
            return hymt_onig_refuse(o, "a set in a caseless group");
        }

        if (*o->p != '-' || o->p[1] == ']') {
            if (kind == HYMT_ONIG_POINT) {
                fprintf(o->out, "\\x{%x}", low);
            }

            continue;
        }

        o->p++;

        if (kind != HYMT_ONIG_POINT
            || hymt_onig_class_item(o, &kind, &high) != HYMT_OK
            || kind != HYMT_ONIG_POINT || low > high
            || (o->caseless != 0 && high >= 0x80)
            || (*o->p == '-' && o->p[1] != ']'))
        {
            return hymt_onig_refuse(o, "this range in a class");
        }

        fprintf(o->out, "\\x{%x}-\\x{%x}", low, high);
    }

    putc(']', o->out);
    o->p++;

    return HYMT_OK;
}


static hymt_status_t
hymt_onig_class_item(hymt_onig_t *o, hymt_onig_item_t *kind, uint32_t *point)
{
    if (*o->p == '[') {
        return hymt_onig_refuse(o, "a class inside a class");
    }

    if (o->p[0] == '&' && o->p[1] == '&') {
        return hymt_onig_refuse(o, "an intersection of classes");
    }

    if (*o->p == '\\') {
        return hymt_onig_class_escape(o, kind, point);
    }

    if (*o->p == '\0') {
        return hymt_onig_refuse(o, "a class without an end");
    }

    *kind = HYMT_ONIG_POINT;

    return hymt_onig_literal(o, point);
}


static hymt_status_t
hymt_onig_class_escape(hymt_onig_t *o, hymt_onig_item_t *kind,
    uint32_t *point)
{
    bool  negative;
    char  name[3];

    *kind = HYMT_ONIG_SET;

    switch (o->p[1]) {

    case 's':
    case 'S':
        fputs(o->p[1] == 's' ? HYMT_SPACE : HYMT_NON_SPACE, o->out);
        o->p += 2;
        return HYMT_OK;

    case 'd':
        hymt_onig_category(o, "Nd");
        o->p += 2;
        return HYMT_OK;

    case 'p':
    case 'P':
        if (hymt_onig_property(o, name, &negative) != HYMT_OK) {
            return HYMT_ERROR;
        }

        /* a complement can't lose what older tables do not know */

        if (negative) {
            return hymt_onig_refuse(o, "a negated property in a class");
        }

        hymt_onig_category(o, name);
        return HYMT_OK;
    }

    *kind = HYMT_ONIG_POINT;

    return hymt_onig_char_escape(o, point);
}


/* \p{L}, \p{Lu}, \p{^L}, \P{L}: general categories only */
static hymt_status_t
hymt_onig_property(hymt_onig_t *o, char name[3], bool *negative)
{
    size_t       n;
    const char  *p, *second;

    static const char  *const categories[] = {
        "Lultmo", "Mnce", "Ndlo", "Pcdseifo", "Smcko", "Zslp"
    };

    *negative = o->p[1] == 'P';
    p = o->p + 2;

    if (*p == '{') {
        p++;

        if (*p == '^') {
            *negative = !*negative;
            p++;
        }

        for (n = 0; n < hymt_nelts(categories); n++) {
            if (*p != categories[n][0]) {
                continue;
            }

            name[0] = *p++;
            name[1] = '\0';
            name[2] = '\0';

            second = *p == '\0' ? NULL : strchr(categories[n] + 1, *p);

            if (second != NULL) {
                name[1] = *p++;
            }

            if (*p == '}') {
                o->p = p + 1;
                return HYMT_OK;
            }

            break;
        }
    }

    return hymt_onig_refuse(o, "this property (general categories L, M, N, P,"
                            " S and Z are supported)");
}


/* the members of a class that make a general category of Unicode 16 */
static void
hymt_onig_category(hymt_onig_t *o, const char *name)
{
    size_t                       i;
    const hymt_unicode_added_t  *a;

    fprintf(o->out, "\\p{%s}", name);

    for (i = 0; i < hymt_n_unicode_added; i++) {
        a = &hymt_unicode_added[i];

        if (strncmp(a->category, name, strlen(name)) == 0) {
            fprintf(o->out, "\\x{%x}-\\x{%x}", a->first, a->last);
        }
    }
}


/* an escape that stands for one code point */
static hymt_status_t
hymt_onig_char_escape(hymt_onig_t *o, uint32_t *point)
{
    char         c;
    const char  *found;

    static const char  letters[] = "tnvfrae";
    static const char  codes[] = "\t\n\v\f\r\a\033";

    c = o->p[1];

    if (c == 'x' || c == 'u') {
        return hymt_onig_hex(o, point);
    }

    found = c == '\0' ? NULL : strchr(letters, c);

    if (found != NULL) {
        *point = (uint32_t) codes[found - letters];
        o->p += 2;

        return HYMT_OK;
    }

    if (c == '\0' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z')
        || (c >= 'a' && c <= 'z'))
    {
        return hymt_onig_refuse(o, "this escape");
    }

    o->p++;

    return hymt_onig_literal(o, point);
}


/* \xHH below 80 (above, Oniguruma means a byte), \x{H...}, \uHHHH */
static hymt_status_t
hymt_onig_hex(hymt_onig_t *o, uint32_t *point)
{
    bool         braces;
    size_t       n, digits;
    const char  *p;
    char         hex[9], *end;

    braces = o->p[1] == 'x' && o->p[2] == '{';
    p = o->p + 2 + braces;
    digits = strspn(p, "0123456789abcdefABCDEF");
    n = braces ? digits : o->p[1] == 'x' ? 2 : 4;

    if (n == 0 || n > digits || n >= sizeof(hex) || (braces && p[n] != '}')) {
        return hymt_onig_refuse(o, "this escape");
    }

    memcpy(hex, p, n);
    hex[n] = '\0';
    *point = (uint32_t) strtoul(hex, &end, 16);

    if (*point > 0x10ffff || (*point >= 0xd800 && *point < 0xe000)
        || (n == 2 && !braces && *point >= 0x80))
    {
        return hymt_onig_refuse(o, "this escape");
    }

    o->p = p + n + braces;

    return HYMT_OK;
}


static hymt_status_t
hymt_onig_literal(hymt_onig_t *o, uint32_t *point)
{
    int32_t           c;
    utf8proc_ssize_t  n;

    n = utf8proc_iterate((const utf8proc_uint8_t *) o->p, -1, &c);
    *point = (uint32_t) c;

    if (n <= 0) {
        return hymt_onig_refuse(o, "invalid UTF-8");
    }

    o->p += n;

    return HYMT_OK;
}


static hymt_status_t
hymt_onig_refuse(hymt_onig_t *o, const char *what)
{
    char     show[HYMT_JSON_SHOW];
    json_t  *rest;

    rest = json_string(o->p);

    hymt_fail(o->err, "%s is not supported, at byte %td of the pattern: %s",
              what, o->p - o->begin, hymt_json_show(rest, show));

    json_decref(rest);

    return HYMT_ERROR;
}
