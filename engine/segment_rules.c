/*
 * segment_rules.c - see segment_private.h; and scripts without spaces.
 */

#include "segment_private.h"
#include "utf8.h"

#include <string.h>

#include <unicode/uchar.h>
#include <unicode/uscript.h>


#define HYMT_MAX_ABBREVIATION  16   /* bytes, without the full stop */


/*
 * Words that a full stop does not make the end of a sentence, lower case, each
 * between spaces; lang NULL: in all languages.  Single letters and words with
 * full stops inside ("z.B") need no entry.
 */
typedef struct {
    const char  *lang;
    const char  *words;
} hymt_abbreviations_t;


static const hymt_abbreviations_t  hymt_abbreviations[] = {
    { NULL, " dr prof mr mrs ms st vs etc cf al co corp inc ltd no nr vol fig"
            " ed eds pp " },
    { "en", " messrs mx rev hon gen col maj capt cmdr lt sgt cpl pvt gov sen"
            " rep pres supt jr sr esq dept univ assn bros ave blvd rd hwy mt"
            " ft jan feb mar apr jun jul aug sep sept oct nov dec approx est"
            " ext tel ca eq sec ch art nos vols figs viz incl " },
    { "de", " hr hrn fr frl fa dipl ing bzw bspw usw ca evtl ggf inkl exkl max"
            " min mio mrd nr str tel abb abs art aufl bd bde hrsg jh jan feb"
            " mrz apr jun jul aug sep sept okt nov dez vgl sog bzgl zzgl u d z"
            " st geb gest allg ausschl entspr insb od usf kap anm " },
    { "fr", " m mm mme mmes mlle mlles me mgr dr pr ste av bd env ex chap fig"
            " janv févr avr juil sept oct nov déc tél réf art " },
    { "es", " sr sra sres sras srta d dña dr dra lic ing prof profa ud uds vd"
            " vds av avda núm pág págs tel art cap aprox ene feb mar abr may"
            " jun jul ago sept oct nov dic gral ej " },
    { "pt", " sr sra srs sras srta dr dra eng prof profa av núm pág págs tel"
            " art cap aprox jan fev mar abr mai jun jul ago set out nov dez"
            " exmo ex " },
    { "it", " sig sigg dott dott.ssa prof profssa ing avv arch geom rag on sen"
            " egr gent spett pag pagg art cap fig tel ecc gen feb mar apr mag"
            " giu lug ago set ott nov dic " },
    { "nl", " dhr mevr mw drs ir ing mr dr prof bijv blz nr enz evt incl excl"
            " ca jl jan feb mrt apr jun jul aug sept okt nov dec tel art " },
    { "pl", " p pan ul al os pl nr dr inż mgr prof hab np itd itp tzn tzw im"
            " św ks gen płk ur zm godz tel r w str rozdz wg " },
    { "cs", " p pí ing mgr bc dr judr mudr phdr doc prof č čís str tzn tzv"
            " např atd apod ul nám sv tel mj resp příp " },
    { "tr", " dr prof doç yrd av sn bkz vb vd vs mah cad sok apt no örn yy"
            " tel çev ed " },
    { "ru", " г гг ул д кв стр им т тт тыс млн млрд руб коп см ср др пр проф"
            " акад доц инж гр обл р пос пер пл просп рис табл гл напр тел " },
    { "uk", " м вул буд кв стор ім т тис млн млрд грн коп див пор ін проф акад"
            " доц інж гр обл р пл просп рис табл гл напр тел " },
    { "vi", " ths ts pgs gs tp tr st " },
    { "id", " dr drs ir jl no tgl hlm dll dsb dst yth bpk sdr kab kec " },
    { "ms", " dr en pn tn no jln dll dsb " },
    { "tl", " g gng bb dr atty engr hal blg " },
    { "kk", " т ж б д м мыс млн млрд тг " },
};

/* languages that write ordinals with a full stop */
static const char  hymt_ordinals[] = " de cs pl tr ";

/* languages whose closing quotes are the opening ones of others */
static const char  hymt_reversed[] = " de cs ru uk ";


static bool hymt_abbreviation(int lang, const char *word, size_t len);
static bool hymt_listed(const char *words, const char *word, size_t len);
static bool hymt_number(const char *word, size_t len, size_t most);
static bool hymt_quotes_reversed(int lang);


size_t
hymt_sentence_inner(const char *text, size_t len)
{
    int32_t  c;
    size_t   at, end;

    at = 0;

    while (at < len) {

        /* every terminator of ours begins with one of these bytes */

        for (end = at; end < len; end++) {
            if ((unsigned char) text[end] == 0xe0
                || (unsigned char) text[end] == 0xe1)
            {
                break;
            }
        }

        if (end == len) {
            return len;
        }

        c = hymt_utf8_char_at(text, end, len);
        at = end + 1;

        if (!((c >= 0x0f0d && c <= 0x0f12) || c == 0x0f14 || c == 0x17d4
              || c == 0x17d5 || c == 0x104b || c == 0x0964 || c == 0x0965))
        {
            continue;
        }

        at = end + 3;

        /* a pair of shad, a closing quote, and the space belong to it */

        while (at < len) {
            c = hymt_utf8_char_at(text, at, len);

            if (!(c == 0x0f0d || c == 0x0f0e || c == 0x17d4 || c == 0x104b
                  || c == 0x0964 || c == '"' || c == ')' || c == 0x2019
                  || c == 0x201d || c == 0xbb))
            {
                break;
            }

            at += (size_t) U8_LENGTH(c);
        }

        at += hymt_blank_before(text + at, len - at);

        return at;
    }

    return len;
}


bool
hymt_sentence_no_end(int lang, const char *text, size_t at, size_t len)
{
    int32_t  c, next;
    size_t   end, begin, p;

    end = at - hymt_blank_after(text, at);
    next = hymt_utf8_char_at(text, at, len);
    p = end;
    c = p > 0 ? hymt_utf8_prev_char(text, &p) : -1;

    /* the sentence goes on behind a quotation: 「…。」と, "…!", he said */

    if (end == at
        && (c == 0x300d || c == 0x300f || c == 0x201d || c == 0xff09)
        && (next == 0x3068 || next == 0x3063 || next == 0x3001
            || next == 0xff0c || next == 0x3002))
    {
        return true;
    }

    if (c != '.') {
        return false;
    }

    end = p;
    begin = end;

    while (begin > 0 && end - begin <= HYMT_MAX_ABBREVIATION) {
        p = begin;
        c = hymt_utf8_prev_char(text, &p);

        if (c != '.' && !u_isalnum(c)) {
            break;
        }

        begin = p;
    }

    if (begin == end || end - begin > HYMT_MAX_ABBREVIATION) {
        return false;
    }

    if (hymt_number(text + begin, end - begin, 2)) {
        return lang != HYMT_LANG_NONE
               && hymt_listed(hymt_ordinals, hymt_langs[lang].code,
                              strlen(hymt_langs[lang].code));
    }

    return hymt_abbreviation(lang, text + begin, end - begin);
}


static bool
hymt_abbreviation(int lang, const char *word, size_t len)
{
    char     lower[HYMT_MAX_ABBREVIATION];
    size_t   i, letters, longest;
    int32_t  c;

    letters = 0;
    longest = 0;

    for (i = 0; i < len; i++) {
        lower[i] = word[i];

        if (word[i] >= 'A' && word[i] <= 'Z') {
            lower[i] = (char) (word[i] | 0x20);
        }

        if (word[i] == '.') {
            letters = 0;

        } else if ((word[i] & 0xc0) != 0x80) {
            letters++;
            longest = hymt_max(longest, letters);
        }
    }

    /* initials and "U.S", "z.B"; a digit or an ideograph is none */

    if (longest == 1) {
        c = hymt_utf8_char_at(word, 0, len);

        return u_isalpha(c) && !hymt_char_unspaced(c);
    }

    for (i = 0; i < hymt_nelts(hymt_abbreviations); i++) {

        if (hymt_abbreviations[i].lang != NULL
            && (lang == HYMT_LANG_NONE
                || strcmp(hymt_abbreviations[i].lang, hymt_langs[lang].code)
                   != 0))
        {
            continue;
        }

        if (hymt_listed(hymt_abbreviations[i].words, lower, len)) {
            return true;
        }
    }

    return false;
}


static bool
hymt_listed(const char *words, const char *word, size_t len)
{
    size_t  n;

    for (words++; *words != '\0'; words += n + 1) {
        n = strcspn(words, " ");

        if (n == len && memcmp(words, word, n) == 0) {
            return true;
        }
    }

    return false;
}


static bool
hymt_number(const char *word, size_t len, size_t most)
{
    size_t  i;

    for (i = 0; i < len; i++) {
        if (word[i] < '0' || word[i] > '9') {
            return false;
        }
    }

    return len <= most;
}


/* „so“ and »so«: what opens elsewhere closes here */
static bool
hymt_quotes_reversed(int lang)
{
    return lang != HYMT_LANG_NONE
           && hymt_listed(hymt_reversed, hymt_langs[lang].code,
                          strlen(hymt_langs[lang].code));
}


size_t
hymt_sentence_end(int lang, const char *text, size_t at)
{
    int32_t  c;
    size_t   p, begin;

    begin = at;
    p = at;

    while (p > 0) {
        c = hymt_utf8_prev_char(text, &p);

        if (u_charType(c) != U_START_PUNCTUATION
            && !(u_charType(c) == U_INITIAL_PUNCTUATION
                 && !hymt_quotes_reversed(lang)))
        {
            break;
        }

        begin = p;
    }

    return p > 0 ? begin : at;
}


bool
hymt_clause_end(int32_t c)
{
    switch (c) {

    case ',': case ';': case ':':
    case 0x2013: case 0x2014: case 0x2026:             /* dashes, ellipsis */
    case 0x060c: case 0x061b:                          /* Arabic */
    case 0x3001: case 0xff0c: case 0xff1b: case 0xff1a:
    case 0x104a: case 0x17d6:                          /* my, km */
        return true;
    }

    return false;
}


bool
hymt_lang_unspaced(int lang)
{
    const char  *code;

    if (lang == HYMT_LANG_NONE) {
        return false;
    }

    code = hymt_langs[lang].code;

    return strncmp(code, "zh", 2) == 0 || strcmp(code, "yue") == 0
           || strcmp(code, "ja") == 0;
}


bool
hymt_lang_wordless(int lang)
{
    const char  *code;

    if (lang == HYMT_LANG_NONE) {
        return false;
    }

    code = hymt_langs[lang].code;

    return hymt_lang_unspaced(lang)
           || hymt_listed(" th km my bo ", code, strlen(code));
}


bool
hymt_char_unspaced(int32_t c)
{
    UErrorCode  e;

    if (c < 0x0e00) {
        return false;
    }

    if ((c >= 0x3000 && c <= 0x303f) || (c >= 0xff01 && c <= 0xff64)) {
        return true;                       /* punctuation, full-width forms */
    }

    e = U_ZERO_ERROR;

    switch (uscript_getScript(c, &e)) {

    case USCRIPT_HAN:
    case USCRIPT_HIRAGANA:
    case USCRIPT_KATAKANA:
    case USCRIPT_BOPOMOFO:
    case USCRIPT_THAI:
    case USCRIPT_LAO:
    case USCRIPT_KHMER:
    case USCRIPT_MYANMAR:
    case USCRIPT_TIBETAN:
        return true;

    default:
        return false;
    }
}
