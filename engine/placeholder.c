/*
 * placeholder.c - see placeholder.h.
 */

#include "placeholder.h"
#include "scan.h"

#include <string.h>


/* most bytes of a placeholder of each kind: what is longer is text */
#define HYMT_MAX_NAME     64
#define HYMT_MAX_DOUBLE   256
#define HYMT_MAX_MESSAGE  4096
#define HYMT_MAX_TAG      1024
#define HYMT_MAX_ADDRESS  2048


static size_t hymt_format(const char *text, size_t at, size_t len);
static size_t hymt_format_c(const char *p, size_t len);
static size_t hymt_braces(const char *p, size_t len);
static size_t hymt_braces_double(const char *p, size_t len);
static size_t hymt_message(const char *p, size_t len);
static bool hymt_message_kind(const char *p, size_t len);
static size_t hymt_text_tag(const char *p, size_t len);
static size_t hymt_text_tag_one(const char *p, size_t len, bool *start);
static size_t hymt_text_attribute(const char *p, size_t len);
static size_t hymt_url(const char *text, size_t at, size_t len);
static size_t hymt_email(const char *text, size_t at, size_t len);
static size_t hymt_blanks(const char *p, size_t len);
static size_t hymt_name(const char *p, size_t len, const char *more);
static bool hymt_digit(char c);
static bool hymt_letter(char c);
static bool hymt_alnum(char c);


hymt_placeholder_t
hymt_placeholder(const char *text, size_t at, size_t len, bool tags, size_t *n)
{
    const char  *p;

    p = text + at;
    *n = 0;

    switch (*p) {

    case '%':
        *n = hymt_format(text, at, len);
        break;

    case '{':
        *n = hymt_braces(p, len - at);
        break;

    case '$':
    case '#':
        if (len - at > 1 && p[1] == '{') {
            *n = hymt_braces(p + 1, len - at - 1);
            *n += *n != 0;
        }

        break;

    case '<':
        *n = tags ? hymt_text_tag(p, len - at) : 0;
        break;

    default:

        /* an address begins where a word does */

        if (!hymt_alnum(*p)
            || (at > 0 && (hymt_alnum(p[-1])
                           || (p[-1] != ' '
                               && strchr("._-+@/", p[-1]) != NULL))))
        {
            return HYMT_PLACEHOLDER_NONE;
        }

        *n = hymt_url(text, at, len);

        if (*n == 0) {
            *n = hymt_email(text, at, len);
        }

        return *n != 0 ? HYMT_PLACEHOLDER_ADDRESS : HYMT_PLACEHOLDER_NONE;
    }

    return *n != 0 ? HYMT_PLACEHOLDER_STRICT : HYMT_PLACEHOLDER_NONE;
}


size_t
hymt_placeholder_next(const char *text, size_t at, size_t len)
{
    static const hymt_scan_t  strict = {
        5,
        { hymt_lanes('%'), hymt_lanes('{'), hymt_lanes('$'), hymt_lanes('#'),
          hymt_lanes('<') },
        hymt_lanes(0), hymt_lanes(0)
    };

    return hymt_scan(&strict, text, at, len);
}


bool
hymt_placeholder_free(const char *text, size_t len)
{
    /* no address is without one of the last two, but for "www." */

    static const hymt_scan_t  any = {
        7,
        { hymt_lanes('%'), hymt_lanes('{'), hymt_lanes('$'), hymt_lanes('#'),
          hymt_lanes('<'), hymt_lanes('@'), hymt_lanes(':') },
        hymt_lanes(0), hymt_lanes(0)
    };

    return hymt_scan(&any, text, 0, len) == len
           && memmem(text, len, "www.", 4) == NULL;
}


bool
hymt_placeholder_joined(const char *text, size_t at, size_t len)
{
    return text[at] == '%' && at > 0 && hymt_digit(text[at - 1])
           && len - at > 2 && hymt_letter(text[at + 2])
           && hymt_format_c(text + at, len - at) == 2;
}


static size_t
hymt_format(const char *text, size_t at, size_t len)
{
    size_t       n;
    const char  *p;

    p = text + at;
    len -= at;

    if (len < 2) {
        return 0;
    }

    if (p[1] == '%') {
        return 2;
    }

    if (p[1] == '(' || p[1] == '{') {
        n = hymt_name(p + 2, len - 2, "._- ");

        if (n == 0 || n + 2 >= len || p[n + 2] != (p[1] == '(' ? ')' : '}')) {
            return 0;
        }

        n += 3;

        if (p[1] == '{') {
            return n;
        }

        /* %(name)s, %(name)05d */

        while (n < len && (hymt_digit(p[n]) || strchr("#-+.", p[n]) != NULL)
               && n < HYMT_MAX_NAME * 2)
        {
            n++;
        }

        return n < len && hymt_letter(p[n]) ? n + 1 : 0;
    }

    return hymt_placeholder_joined(text, at, at + len) ? 0
                                                      : hymt_format_c(p, len);
}


/* % [index$] flags width .precision length conversion; no space as a flag */
static size_t
hymt_format_c(const char *p, size_t len)
{
    size_t  i, from;

    i = 1;
    from = i;

    while (i < len && hymt_digit(p[i]) && i < 8) {
        i++;
    }

    if (i > from && i < len && p[i] == '$') {
        i++;

    } else {
        i = 1;
    }

    while (i < len && i < 16 && p[i] != '\0' && strchr("-+#0'", p[i]) != NULL) {
        i++;
    }

    while (i < len && i < 24 && (hymt_digit(p[i]) || p[i] == '*')) {
        i++;
    }

    if (i < len && p[i] == '.') {
        i++;

        while (i < len && i < 32 && (hymt_digit(p[i]) || p[i] == '*')) {
            i++;
        }
    }

    while (i < len && i < 34 && p[i] != '\0' && strchr("hlqjzt", p[i]) != NULL)
    {
        i++;
    }

    if (i < len && p[i] != '\0' && strchr("diouxXeEfFgGaAcsSpn@", p[i]) != NULL)
    {
        return i + 1;
    }

    return 0;
}


static size_t
hymt_braces(const char *p, size_t len)
{
    size_t  n, end;

    if (len < 2) {
        return 0;
    }

    if (p[1] == '}') {
        return 2;
    }

    if (p[1] == '{' || p[1] == '%' || p[1] == '#') {
        return hymt_braces_double(p, len);
    }

    n = 1 + hymt_blanks(p + 1, len - 1);
    end = n + hymt_name(p + n, len - n, "_.$@[]-");

    if (end == n) {
        return 0;
    }

    end += hymt_blanks(p + end, len - end);

    if (end < len && p[end] == '}') {
        return end + 1;
    }

    if (end < len && p[end] == ',') {
        return hymt_message(p, len);
    }

    /* {0:.2f} {name!r:>10} {x|filter} */

    if (end < len && (p[end] == ':' || p[end] == '!' || p[end] == '|')) {

        for (n = end; n < len && n < HYMT_MAX_NAME * 2; n++) {

            if (p[n] == '}') {
                return n + 1;
            }

            if (p[n] == '{' || p[n] == '\n' || p[n] == '\0') {
                break;
            }
        }
    }

    return 0;
}


/* {{ x }} {% x %} {# x #} {{{x}}} */
static size_t
hymt_braces_double(const char *p, size_t len)
{
    char    close;
    size_t  i;

    close = p[1] == '{' ? '}' : p[1];

    for (i = 2; i + 1 < len && i < HYMT_MAX_DOUBLE; i++) {

        if (p[i] == '\n') {
            return 0;
        }

        if (p[i] == close && p[i + 1] == '}') {
            i += 2;

            return i < len && p[i] == '}' && p[2] == '{' ? i + 1 : i;
        }
    }

    return 0;
}


/* an ICU message's argument with its forms, to the brace that closes it */
static size_t
hymt_message(const char *p, size_t len)
{
    size_t    i;
    uint32_t  depth;

    depth = 0;
    len = hymt_min(len, HYMT_MAX_MESSAGE);
    i = (size_t) ((const char *) memchr(p, ',', len) - p) + 1;

    if (!hymt_message_kind(p + i, len - i)) {
        return 0;
    }

    for (i = 0; i < len; i++) {

        if (p[i] == '{') {
            depth++;

        } else if (p[i] == '}' && --depth == 0) {
            return i + 1;
        }
    }

    return 0;
}


static bool
hymt_message_kind(const char *p, size_t len)
{
    size_t              i, n, name;
    static const char  *kinds[] = {
        "plural", "selectordinal", "select", "choice", "number", "date",
        "time", "spellout", "ordinal", "duration",
    };

    n = hymt_blanks(p, len);
    name = hymt_name(p + n, len - n, "");

    for (i = 0; i < hymt_nelts(kinds); i++) {
        if (strlen(kinds[i]) == name && memcmp(kinds[i], p + n, name) == 0) {
            return true;
        }
    }

    return false;
}


/* a tag; <x id="1"></x> is one placeholder */
static size_t
hymt_text_tag(const char *p, size_t len)
{
    bool    start;
    size_t  n, name;

    n = hymt_text_tag_one(p, len, &start);

    if (n == 0 || !start) {
        return n;
    }

    name = hymt_name(p + 1, len - 1, "_:-.");

    if (len - n >= name + 3 && p[n] == '<' && p[n + 1] == '/'
        && memcmp(p + n + 2, p + 1, name) == 0 && p[n + 2 + name] == '>')
    {
        return n + name + 3;
    }

    return n;
}


static size_t
hymt_text_tag_one(const char *p, size_t len, bool *start)
{
    size_t  i, n;

    *start = false;
    len = hymt_min(len, HYMT_MAX_TAG);
    i = 1 + (len > 1 && p[1] == '/');

    n = hymt_name(p + i, len - i, "_:-.");

    if (n == 0) {
        return 0;
    }

    *start = i == 1;
    i += n;

    for ( ;; ) {
        n = hymt_blanks(p + i, len - i);
        i += n;

        if (i >= len) {
            return 0;
        }

        if (p[i] == '>') {
            return i + 1;
        }

        if (p[i] == '/' && i + 1 < len && p[i + 1] == '>') {
            *start = false;
            return i + 2;
        }

        if (n == 0) {
            return 0;
        }

        n = hymt_text_attribute(p + i, len - i);

        if (n == 0) {
            return 0;
        }

        i += n;
    }
}


/* name="value": without the quotes it would rather be "a <b or c>" */
static size_t
hymt_text_attribute(const char *p, size_t len)
{
    size_t       i;
    const char  *end;

    i = hymt_name(p, len, "_:-.");

    if (i == 0 || i + 1 >= len || p[i] != '='
        || (p[i + 1] != '"' && p[i + 1] != '\''))
    {
        return 0;
    }

    end = memchr(p + i + 2, p[i + 1], len - i - 2);

    return end != NULL ? (size_t) (end - p) + 1 : 0;
}


static size_t
hymt_url(const char *text, size_t at, size_t len)
{
    size_t              i, n, from;
    const char         *p;
    static const char  *schemes[] = {
        "https://", "http://", "ftp://", "mailto:", "www.", "tel:+",
    };

    p = text + at;
    len = hymt_min(len - at, HYMT_MAX_ADDRESS);
    from = 0;

    for (i = 0; i < hymt_nelts(schemes); i++) {

        if (p[0] != schemes[i][0]) {
            continue;
        }

        n = strlen(schemes[i]);

        if (len > n && memcmp(p, schemes[i], n) == 0) {
            from = n;
            break;
        }
    }

    if (from == 0 || !hymt_alnum(p[from])) {
        return 0;
    }

    for (i = from; i < len; i++) {
        if (p[i] <= ' ' || p[i] >= 0x7f
            || strchr("\"'<>\\^`{|}", p[i]) != NULL)
        {
            break;
        }
    }

    /* a bracket is part of it where it was opened in it */

    while (i > from
           && (strchr(".,;:!?*_~", p[i - 1]) != NULL
               || (p[i - 1] == ')' && memchr(p, '(', i) == NULL)
               || (p[i - 1] == ']' && memchr(p, '[', i) == NULL)))
    {
        i--;
    }

    return i > from ? i : 0;
}


static size_t
hymt_email(const char *text, size_t at, size_t len)
{
    size_t       i, n, dot;
    const char  *p;

    p = text + at;
    len -= at;

    if (memchr(p, '@', hymt_min(len, HYMT_MAX_NAME + 1)) == NULL) {
        return 0;
    }

    n = hymt_name(p, len, "._%+-");

    if (n == 0 || n + 3 > len || p[n] != '@' || !hymt_alnum(p[n + 1])) {
        return 0;
    }

    i = n + 1;
    i += hymt_name(p + i, len - i, ".-");

    while (!hymt_alnum(p[i - 1])) {
        i--;
    }

    for (dot = i - 1; dot > n && p[dot] != '.'; dot--) { /* void */ }

    return dot > n + 1 && i - dot > 2 ? i : 0;
}


static size_t
hymt_blanks(const char *p, size_t len)
{
    size_t  i;

    for (i = 0; i < len && i < HYMT_MAX_NAME; i++) {
        if (p[i] != ' ' && p[i] != '\t' && p[i] != '\n' && p[i] != '\r') {
            break;
        }
    }

    return i;
}


/* letters, digits and `more`, begun by a letter, a digit or "_" */
static size_t
hymt_name(const char *p, size_t len, const char *more)
{
    size_t  i;

    if (len == 0 || !(hymt_alnum(p[0]) || p[0] == '_')) {
        return 0;
    }

    for (i = 1; i < len && i < HYMT_MAX_NAME; i++) {
        if (!hymt_alnum(p[i]) && (p[i] == '\0' || strchr(more, p[i]) == NULL)) {
            break;
        }
    }

    return i;
}


static bool
hymt_digit(char c)
{
    return c >= '0' && c <= '9';
}


static bool
hymt_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}


static bool
hymt_alnum(char c)
{
    return hymt_placeholder_word(c);
}
