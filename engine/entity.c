/*
 * entity.c - see entity.h.
 *
 * Of HTML's 2231 names those people write are decoded, so that the model sees
 * the letters; any other stays as it is in the text, as a placeholder.
 */

#include "entity.h"

#include <string.h>


#define HYMT_MAX_ENTITY  32


typedef struct {
    const char  *name;
    int32_t      c;
} hymt_named_entity_t;


/* XML's five; HTML knows all but apos without a semicolon too */
static const hymt_named_entity_t  hymt_entities_basic[] = {
    { "amp", '&' }, { "lt", '<' }, { "gt", '>' }, { "quot", '"' },
    { "AMP", '&' }, { "LT", '<' }, { "GT", '>' }, { "QUOT", '"' },
};

/* U+00A0 .. U+00FF, in HTML with or without a semicolon */
static const char  *hymt_entities_latin1[] = {
    "nbsp", "iexcl", "cent", "pound", "curren", "yen", "brvbar", "sect",
    "uml", "copy", "ordf", "laquo", "not", "shy", "reg", "macr",
    "deg", "plusmn", "sup2", "sup3", "acute", "micro", "para", "middot",
    "cedil", "sup1", "ordm", "raquo", "frac14", "frac12", "frac34", "iquest",
    "Agrave", "Aacute", "Acirc", "Atilde", "Auml", "Aring", "AElig", "Ccedil",
    "Egrave", "Eacute", "Ecirc", "Euml", "Igrave", "Iacute", "Icirc", "Iuml",
    "ETH", "Ntilde", "Ograve", "Oacute", "Ocirc", "Otilde", "Ouml", "times",
    "Oslash", "Ugrave", "Uacute", "Ucirc", "Uuml", "Yacute", "THORN", "szlig",
    "agrave", "aacute", "acirc", "atilde", "auml", "aring", "aelig", "ccedil",
    "egrave", "eacute", "ecirc", "euml", "igrave", "iacute", "icirc", "iuml",
    "eth", "ntilde", "ograve", "oacute", "ocirc", "otilde", "ouml", "divide",
    "oslash", "ugrave", "uacute", "ucirc", "uuml", "yacute", "thorn", "yuml",
};

static const hymt_named_entity_t  hymt_entities_more[] = {
    { "apos", '\'' }, { "OElig", 0x152 }, { "oelig", 0x153 },
    { "Scaron", 0x160 }, { "scaron", 0x161 }, { "Yuml", 0x178 },
    { "ensp", 0x2002 }, { "emsp", 0x2003 }, { "thinsp", 0x2009 },
    { "zwnj", 0x200c }, { "zwj", 0x200d }, { "lrm", 0x200e },
    { "rlm", 0x200f }, { "ndash", 0x2013 }, { "mdash", 0x2014 },
    { "lsquo", 0x2018 }, { "rsquo", 0x2019 }, { "sbquo", 0x201a },
    { "ldquo", 0x201c }, { "rdquo", 0x201d }, { "bdquo", 0x201e },
    { "dagger", 0x2020 }, { "Dagger", 0x2021 }, { "bull", 0x2022 },
    { "hellip", 0x2026 }, { "permil", 0x2030 }, { "prime", 0x2032 },
    { "Prime", 0x2033 }, { "lsaquo", 0x2039 }, { "rsaquo", 0x203a },
    { "euro", 0x20ac }, { "trade", 0x2122 }, { "larr", 0x2190 },
    { "uarr", 0x2191 }, { "rarr", 0x2192 }, { "darr", 0x2193 },
    { "minus", 0x2212 }, { "infin", 0x221e }, { "ne", 0x2260 },
    { "le", 0x2264 }, { "ge", 0x2265 },
};


static size_t hymt_entity_number(const char *text, size_t len, int32_t *c);
static int32_t hymt_entity_short(const char *name, size_t len, bool html);
static int32_t hymt_entity_long(const char *name, size_t len);
static bool hymt_entity_is(const char *name, size_t len, const char *s);


size_t
hymt_entity(const char *text, size_t len, bool html, int32_t *c)
{
    size_t  n;

    if (len > 1 && text[1] == '#') {
        return hymt_entity_number(text, len, c);
    }

    for (n = 0; n + 1 < len && n < HYMT_MAX_ENTITY; n++) {
        if (!((text[n + 1] >= 'a' && text[n + 1] <= 'z')
              || (text[n + 1] >= 'A' && text[n + 1] <= 'Z')
              || (n > 0 && text[n + 1] >= '0' && text[n + 1] <= '9')))
        {
            break;
        }
    }

    if (n > 0 && n + 1 < len && text[n + 1] == ';') {
        *c = hymt_entity_short(text + 1, n, html);

        if (*c == HYMT_ENTITY_OPAQUE) {
            *c = hymt_entity_long(text + 1, n);
        }

        return n + 2;
    }

    if (!html) {
        return 0;
    }

    /* "&copy2024": the longest name that needs no semicolon */

    for ( /* void */ ; n > 1; n--) {
        *c = hymt_entity_short(text + 1, n, true);

        if (*c != HYMT_ENTITY_OPAQUE) {
            return n + 1;
        }
    }

    return 0;
}


static size_t
hymt_entity_number(const char *text, size_t len, int32_t *c)
{
    int       digit;
    bool      hex;
    size_t    i, from;
    uint32_t  v;

    i = 2;
    hex = len > 2 && (text[2] | 0x20) == 'x';
    i += hex;
    from = i;
    v = 0;

    for ( /* void */ ; i < len; i++) {

        if (text[i] >= '0' && text[i] <= '9') {
            digit = text[i] - '0';

        } else if (hex && (text[i] | 0x20) >= 'a' && (text[i] | 0x20) <= 'f') {
            digit = (text[i] | 0x20) - 'a' + 10;

        } else {
            break;
        }

        if (v <= 0x10ffff) {
            v = v * (hex ? 16 : 10) + (uint32_t) digit;
        }
    }

    if (i == from) {
        return 0;
    }

    i += i < len && text[i] == ';';

    *c = (int32_t) v;

    if (v < 0x20 || (v >= 0x7f && v < 0xa0) || (v >= 0xd800 && v < 0xe000)
        || (v & 0xfffe) == 0xfffe || v > 0x10ffff)
    {
        *c = HYMT_ENTITY_OPAQUE;
    }

    return i;
}


static int32_t
hymt_entity_short(const char *name, size_t len, bool html)
{
    size_t  i, n;

    n = html ? hymt_nelts(hymt_entities_basic) : 4;

    for (i = 0; i < n; i++) {
        if (hymt_entity_is(name, len, hymt_entities_basic[i].name)) {
            return hymt_entities_basic[i].c;
        }
    }

    for (i = 0; i < hymt_nelts(hymt_entities_latin1); i++) {
        if (hymt_entity_is(name, len, hymt_entities_latin1[i])) {
            return 0xa0 + (int32_t) i;
        }
    }

    return HYMT_ENTITY_OPAQUE;
}


static int32_t
hymt_entity_long(const char *name, size_t len)
{
    size_t  i;

    for (i = 0; i < hymt_nelts(hymt_entities_more); i++) {
        if (hymt_entity_is(name, len, hymt_entities_more[i].name)) {
            return hymt_entities_more[i].c;
        }
    }

    return HYMT_ENTITY_OPAQUE;
}


static bool
hymt_entity_is(const char *name, size_t len, const char *s)
{
    return s[0] == name[0] && strlen(s) == len && memcmp(s, name, len) == 0;
}
