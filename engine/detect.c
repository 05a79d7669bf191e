/*
 * detect.c - see detect.h.
 *
 * Most scripts tell the language by themselves.  Where several languages share
 * one (Latin, Cyrillic, Arabic, Devanagari, Han), CLD2 is asked; letters that
 * only one of them writes come first.  CLD2's usual tables know neither Uyghur,
 * Mongolian in Cyrillic nor Tibetan; letters and script do.
 */

#include "detect.h"

#include "detect_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#define HYMT_DETECT_BYTES    65536
#define HYMT_DETECT_LETTERS  20     /* fewer, in a shared script, are few */
#define HYMT_DETECT_CLOSE    100    /* the same for Malay and Indonesian */
#define HYMT_DETECT_HINT     64


/* How sure an answer is; measured on short texts, see t/unit/detect_test.c. */
#define HYMT_SURE_SCRIPT     1.0
#define HYMT_SURE_LETTERS    0.95
#define HYMT_SURE_RELIABLE   0.95
#define HYMT_SURE_SHORT      0.7    /* CLD2 is sure, the text is short */
#define HYMT_SURE_EFFORT     0.5
#define HYMT_SURE_ONLY       0.3    /* no more than: it is written so */


/* The languages of a script, most spoken first: the order decides guesses. */
typedef struct {
    hymt_script_t  script;
    const char    *codes[15];
} hymt_detect_script_t;


/* One request's state. */
typedef struct {
    hymt_lang_set_t  set;
    hymt_scripts_t   scripts;
    hymt_cld2_t      sure;      /* CLD2's answer */
    hymt_cld2_t      effort;    /* its best effort, where that was no help */
    double           share[HYMT_N_LANGS];  /* of the text, told so far */
    double           trust[HYMT_N_LANGS];  /* in that */
} hymt_detect_t;


static const hymt_detect_script_t  hymt_detect_scripts[] = {
    { HYMT_SCRIPT_LATIN, { "en", "es", "fr", "de", "pt", "it", "id", "vi",
                           "tr", "nl", "pl", "ms", "tl", "cs" } },
    { HYMT_SCRIPT_CYRILLIC, { "ru", "uk", "kk", "mn" } },
    { HYMT_SCRIPT_ARABIC, { "ar", "fa", "ur", "ug" } },
    { HYMT_SCRIPT_DEVANAGARI, { "hi", "mr" } },
    { HYMT_SCRIPT_HAN, { "zh", "zh-Hant", "yue", "ja" } },
    { HYMT_SCRIPT_KANA, { "ja" } },
    { HYMT_SCRIPT_HANGUL, { "ko" } },
    { HYMT_SCRIPT_HEBREW, { "he" } },
    { HYMT_SCRIPT_BENGALI, { "bn" } },
    { HYMT_SCRIPT_GUJARATI, { "gu" } },
    { HYMT_SCRIPT_TAMIL, { "ta" } },
    { HYMT_SCRIPT_TELUGU, { "te" } },
    { HYMT_SCRIPT_THAI, { "th" } },
    { HYMT_SCRIPT_TIBETAN, { "bo" } },
    { HYMT_SCRIPT_MYANMAR, { "my" } },
    { HYMT_SCRIPT_KHMER, { "km" } },
    { HYMT_SCRIPT_MONGOLIAN, { "mn" } },
};


static char *hymt_detect_copy(const char *text, size_t *len);
static void hymt_detect_ask(hymt_detect_t *dt, const char *text, size_t len,
    bool html);
static const char *hymt_detect_hint(const hymt_detect_t *dt,
    char buf[HYMT_DETECT_HINT]);
static void hymt_detect_script(hymt_detect_t *dt,
    const hymt_detect_script_t *ds);
static bool hymt_detect_foreign(const hymt_detect_t *dt);
static const char *hymt_detect_certain(const hymt_scripts_t *s,
    hymt_script_t script);
static const char *hymt_detect_likely(const hymt_scripts_t *s,
    hymt_script_t script);
static bool hymt_detect_tell(hymt_detect_t *dt, const char *code, double share,
    double trust);
static bool hymt_detect_cld2(hymt_detect_t *dt, const hymt_detect_script_t *ds,
    const hymt_cld2_t *answer, double share, double trust);
static bool hymt_detect_few(const hymt_detect_t *dt);
static hymt_lang_set_t hymt_detect_written(const hymt_detect_script_t *ds);
static hymt_lang_set_t hymt_detect_bit(const char *code);
static void hymt_detect_best(const hymt_detect_t *dt, hymt_detection_t *d);


void
hymt_detect(const char *text, size_t len, bool html, hymt_lang_set_t set,
    hymt_detection_t *d)
{
    char           *copy;
    size_t          i;
    hymt_detect_t   dt;

    *d = (hymt_detection_t) { .too_short = true };

    copy = hymt_detect_copy(text, &len);
    if (copy == NULL) {
        return;
    }

    dt = (hymt_detect_t) { .set = set & HYMT_LANGS_ALL };

    hymt_scripts_count(copy, len, html, &dt.scripts);

    hymt_detect_ask(&dt, copy, len, html);

    for (i = 0; i < hymt_nelts(hymt_detect_scripts); i++) {
        hymt_detect_script(&dt, &hymt_detect_scripts[i]);
    }

    hymt_detect_best(&dt, d);

    free(copy);
}


/*
 * The text's beginning with control bytes made blank, which CLD2 would take
 * for the end of what is valid.  NULL: not UTF-8, or no memory.
 */
static char *
hymt_detect_copy(const char *text, size_t *len)
{
    char    *copy;
    size_t   i;

    if (*len > HYMT_DETECT_BYTES) {
        *len = hymt_utf8_whole(text, HYMT_DETECT_BYTES);
    }

    if (!hymt_utf8_check(text, *len, NULL)) {
        return NULL;
    }

    copy = malloc(*len + HYMT_CLD2_PAD);
    if (copy == NULL) {
        return NULL;
    }

    for (i = 0; i < *len; i++) {
        copy[i] = (unsigned char) text[i] < 0x20 || text[i] == 0x7f
                  ? ' ' : text[i];
    }

    memset(copy + *len, 0, HYMT_CLD2_PAD);

    return copy;
}


/* CLD2 is asked only where scripts are shared, a second time if need be. */
static void
hymt_detect_ask(hymt_detect_t *dt, const char *text, size_t len, bool html)
{
    char             buf[HYMT_DETECT_HINT];
    const char      *hint;
    hymt_script_t    script;
    hymt_lang_set_t  found;

    for (script = HYMT_SCRIPT_LATIN; script <= HYMT_SCRIPT_HAN; script++) {
        if (dt->scripts.script[script] != 0) {
            break;
        }
    }

    if (script > HYMT_SCRIPT_HAN) {
        return;
    }

    hint = hymt_detect_hint(dt, buf);

    hymt_cld2(text, (int) len, html, hint, false, &dt->sure);

    found = hymt_detect_bit(dt->sure.code[0]);

    if (!dt->sure.reliable || (found & dt->set) == 0) {
        hymt_cld2(text, (int) len, html, hint, true, &dt->effort);
    }
}


/* the languages of a small set: CLD2 takes up to four */
static const char *
hymt_detect_hint(const hymt_detect_t *dt, char buf[HYMT_DETECT_HINT])
{
    int     i;
    size_t  len;

    if (__builtin_popcountll(dt->set) > 4) {
        return NULL;
    }

    len = 0;
    buf[0] = '\0';

    for (i = 0; i < HYMT_N_LANGS; i++) {
        if (dt->set >> i & 1) {
            len += (size_t) snprintf(buf + len, HYMT_DETECT_HINT - len, "%s%s",
                                     len == 0 ? "" : ",", hymt_langs[i].code);
        }
    }

    return buf;
}


/* the language, or languages, of the text's letters of one script */
static void
hymt_detect_script(hymt_detect_t *dt, const hymt_detect_script_t *ds)
{
    double           share;
    const char      *code;
    hymt_lang_set_t  written;

    if (dt->scripts.script[ds->script] == 0) {
        return;
    }

    share = (double) dt->scripts.script[ds->script]
            * hymt_script_weight(ds->script) / dt->scripts.weight;

    if (ds->codes[1] == NULL) {
        (void) hymt_detect_tell(dt, ds->codes[0], share, HYMT_SURE_SCRIPT);
        return;
    }

    code = hymt_detect_certain(&dt->scripts, ds->script);

    if (code != NULL
        && hymt_detect_tell(dt, code, share, HYMT_SURE_LETTERS))
    {
        return;
    }

    if (dt->sure.reliable
        && hymt_detect_cld2(dt, ds, &dt->sure, share,
                            hymt_detect_few(dt) ? HYMT_SURE_SHORT
                                                : HYMT_SURE_RELIABLE))
    {
        return;
    }

    if (!hymt_detect_foreign(dt)) {
        code = hymt_detect_likely(&dt->scripts, ds->script);

        if (code != NULL
            && hymt_detect_tell(dt, code, share, HYMT_SURE_EFFORT))
        {
            return;
        }

        if (hymt_detect_cld2(dt, ds, &dt->effort, share, HYMT_SURE_EFFORT)) {
            return;
        }

        if (ds->script == HYMT_SCRIPT_CYRILLIC
            && hymt_detect_tell(dt, "ru", share, HYMT_SURE_ONLY))
        {
            return;
        }
    }

    written = hymt_detect_written(ds) & dt->set;

    if (__builtin_popcountll(written) == 1) {
        (void) hymt_detect_tell(dt, hymt_langs[__builtin_ctzll(written)].code,
                                share, HYMT_SURE_ONLY);
    }
}


/*
 * True where CLD2 is sure of a language that is none of the 38: it is not bent
 * into one.  CLD2 takes short Russian and Ukrainian for Serbian, which lacks
 * letters that they have.
 */
static bool
hymt_detect_foreign(const hymt_detect_t *dt)
{
    const char  *code;

    code = dt->sure.code[0];

    if (!dt->sure.reliable || hymt_detect_bit(code) != 0) {
        return false;
    }

    return dt->scripts.mark[HYMT_LETTERS_EAST] == 0
           || (strcmp(code, "sr") != 0 && strcmp(code, "mk") != 0);
}


/* what CLD2 knows badly or not at all, and its letters tell */
static const char *
hymt_detect_certain(const hymt_scripts_t *s, hymt_script_t script)
{
    const uint32_t  *mark;

    mark = s->mark;

    switch (script) {

    case HYMT_SCRIPT_CYRILLIC:
        if (mark[HYMT_LETTERS_KK] > 0) {
            return "kk";
        }

        return mark[HYMT_LETTERS_MN] > 0 && mark[HYMT_LETTERS_TURKIC] == 0
               && mark[HYMT_LETTERS_UK] == 0 ? "mn" : NULL;

    case HYMT_SCRIPT_ARABIC:
        return mark[HYMT_LETTERS_UG] * 25 > s->script[script] ? "ug" : NULL;

    case HYMT_SCRIPT_HAN:
        return s->script[HYMT_SCRIPT_KANA] * 10 > s->script[script]
               ? "ja" : NULL;

    default:
        return NULL;
    }
}


/* where CLD2 is at a loss */
static const char *
hymt_detect_likely(const hymt_scripts_t *s, hymt_script_t script)
{
    const uint32_t  *mark;

    mark = s->mark;

    switch (script) {

    case HYMT_SCRIPT_CYRILLIC:
        if (mark[HYMT_LETTERS_PAIR] > 0) {
            return "mn";
        }

        if (mark[HYMT_LETTERS_MN] > 0 || mark[HYMT_LETTERS_TURKIC] > 0) {
            return NULL;
        }

        if (mark[HYMT_LETTERS_UK] > 0) {
            return mark[HYMT_LETTERS_RU] == 0 ? "uk" : NULL;
        }

        return mark[HYMT_LETTERS_RU] > 0 ? "ru" : NULL;

    case HYMT_SCRIPT_ARABIC:
        if (mark[HYMT_LETTERS_UR] > 0) {
            return "ur";
        }

        if ((mark[HYMT_LETTERS_FA] > 0) == (mark[HYMT_LETTERS_AR] > 0)) {
            return NULL;
        }

        return mark[HYMT_LETTERS_FA] > 0 ? "fa" : "ar";

    case HYMT_SCRIPT_DEVANAGARI:
        return mark[HYMT_LETTERS_MR] > 0 ? "mr" : NULL;

    default:
        return NULL;
    }
}


/* false: not a language of the set */
static bool
hymt_detect_tell(hymt_detect_t *dt, const char *code, double share,
    double trust)
{
    int  lang;

    lang = hymt_lang_find(code, strlen(code));

    if (lang == HYMT_LANG_NONE || (dt->set >> lang & 1) == 0) {
        return false;
    }

    dt->share[lang] += share;
    dt->trust[lang] = hymt_max(dt->trust[lang], trust);

    return true;
}


/* parts the script's share by what CLD2 says of languages so written */
static bool
hymt_detect_cld2(hymt_detect_t *dt, const hymt_detect_script_t *ds,
    const hymt_cld2_t *answer, double share, double trust)
{
    int              i, sum;
    hymt_lang_set_t  usable;

    sum = 0;
    usable = hymt_detect_written(ds) & dt->set;

    for (i = 0; i < HYMT_CLD2_MAX; i++) {
        if (hymt_detect_bit(answer->code[i]) & usable) {
            sum += answer->percent[i];
        }
    }

    for (i = 0; i < HYMT_CLD2_MAX && sum > 0; i++) {
        if (hymt_detect_bit(answer->code[i]) & usable) {
            (void) hymt_detect_tell(dt, answer->code[i],
                                    share * answer->percent[i] / sum, trust);
        }
    }

    return sum > 0;
}


/* too few letters to trust CLD2 where it says that it is sure */
static bool
hymt_detect_few(const hymt_detect_t *dt)
{
    hymt_lang_set_t  close;

    close = hymt_detect_bit("id") | hymt_detect_bit("ms");

    return dt->scripts.weight < HYMT_DETECT_LETTERS
           || (dt->scripts.weight < HYMT_DETECT_CLOSE
               && (dt->set & close) == close
               && (hymt_detect_bit(dt->sure.code[0]) & close) != 0);
}


static hymt_lang_set_t
hymt_detect_written(const hymt_detect_script_t *ds)
{
    size_t           i;
    hymt_lang_set_t  set;

    set = 0;

    for (i = 0; i < hymt_nelts(ds->codes) && ds->codes[i] != NULL; i++) {
        set |= hymt_detect_bit(ds->codes[i]);
    }

    return set;
}


/* the set of the one language; empty: none of the 38, or NULL */
static hymt_lang_set_t
hymt_detect_bit(const char *code)
{
    int  lang;

    lang = code == NULL ? HYMT_LANG_NONE : hymt_lang_find(code, strlen(code));

    return lang == HYMT_LANG_NONE ? 0 : (hymt_lang_set_t) 1 << lang;
}


static void
hymt_detect_best(const hymt_detect_t *dt, hymt_detection_t *d)
{
    int       lang;
    double    confidence;
    uint32_t  i;

    for (lang = 0; lang < HYMT_N_LANGS; lang++) {
        confidence = dt->share[lang] * dt->trust[lang];

        if (confidence <= 0) {
            continue;
        }

        for (i = hymt_min(d->n, HYMT_DETECT_MAX - 1); i > 0; i--) {
            if (d->best[i - 1].confidence >= confidence) {
                break;
            }

            d->best[i] = d->best[i - 1];
        }

        if (i < d->n && d->best[i].confidence >= confidence) {
            continue;
        }

        d->best[i].lang = lang;
        d->best[i].confidence = hymt_min(confidence, 1.0);
        d->n = hymt_min(d->n + 1, HYMT_DETECT_MAX);
    }

    d->too_short = dt->scripts.weight < HYMT_DETECT_LETTERS;

    if (d->n != 0) {
        lang = d->best[0].lang;

        if (dt->trust[lang] >= HYMT_SURE_LETTERS) {
            d->too_short = false;
        }

        d->reliable = dt->trust[lang] >= HYMT_SURE_LETTERS
                      && dt->share[lang] > 0.5;
    }
}
