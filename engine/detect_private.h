/*
 * detect_private.h - what detect.c asks of CLD2 and of the text's letters.
 * Private to detect*.c and detect_cld2.cc, which is C++.
 *
 * Thread: any.
 */

#ifndef HYMT_DETECT_PRIVATE_H
#define HYMT_DETECT_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


#ifdef __cplusplus
extern "C" {
#endif


#define HYMT_CLD2_MAX  3


/* CLD2's answer, best first. */
typedef struct {
    const char  *code[HYMT_CLD2_MAX];     /* "iw", "zh-Hant", "un"; CLD2's */
    int          percent[HYMT_CLD2_MAX];  /* of the text's letters */
    bool         reliable;
} hymt_cld2_t;


/*
 * text [len] needs HYMT_CLD2_PAD readable bytes behind it: CLD2 looks ahead in
 * words.  hint: up to four codes, "en,de", that are likelier than others, or
 * NULL.  best_effort: an answer to everything, never reliable.
 */
#define HYMT_CLD2_PAD  64

void hymt_cld2(const char *text, int len, bool html, const char *hint,
    bool best_effort, hymt_cld2_t *answer);


/* The scripts of the 38 languages. */
typedef enum {
    HYMT_SCRIPT_NONE = 0,   /* not a letter */
    HYMT_SCRIPT_OTHER,      /* a letter that none of them is written in */
    HYMT_SCRIPT_LATIN,
    HYMT_SCRIPT_CYRILLIC,
    HYMT_SCRIPT_ARABIC,
    HYMT_SCRIPT_DEVANAGARI,
    HYMT_SCRIPT_HAN,
    HYMT_SCRIPT_KANA,
    HYMT_SCRIPT_HANGUL,
    HYMT_SCRIPT_HEBREW,
    HYMT_SCRIPT_BENGALI,
    HYMT_SCRIPT_GUJARATI,
    HYMT_SCRIPT_TAMIL,
    HYMT_SCRIPT_TELUGU,
    HYMT_SCRIPT_THAI,
    HYMT_SCRIPT_TIBETAN,
    HYMT_SCRIPT_MYANMAR,
    HYMT_SCRIPT_KHMER,
    HYMT_SCRIPT_MONGOLIAN,
    HYMT_N_SCRIPTS,
} hymt_script_t;


/* Letters that only some languages of a script write. */
typedef enum {
    HYMT_LETTERS_MN = 0,    /* also in Kazakh and other Turkic languages */
    HYMT_LETTERS_TURKIC,    /* Cyrillic, not in Mongolian */
    HYMT_LETTERS_PAIR,      /* Cyrillic, long vowels, written so in Mongolian */
    HYMT_LETTERS_KK,        /* Cyrillic, not in Kyrgyz, Tatar, Mongolian */
    HYMT_LETTERS_UK,        /* Cyrillic, not in Russian */
    HYMT_LETTERS_RU,        /* Cyrillic, not in Ukrainian nor Bulgarian */
    HYMT_LETTERS_EAST,      /* Cyrillic, not in Serbian nor Macedonian */
    HYMT_LETTERS_UG,        /* Arabic, in none of the other three */
    HYMT_LETTERS_UR,        /* Arabic, in none of the other three */
    HYMT_LETTERS_FA,        /* Arabic, not in Arabic */
    HYMT_LETTERS_AR,        /* Arabic, rare in the other three */
    HYMT_LETTERS_MR,        /* Devanagari, not in Hindi */
    HYMT_N_LETTERS,
} hymt_letters_t;


typedef struct {
    uint32_t  letters;                  /* all scripts */
    uint32_t  weight;                   /* the same, an ideograph or a
                                           syllable as three letters */
    uint32_t  script[HYMT_N_SCRIPTS];   /* letters in each */
    uint32_t  mark[HYMT_N_LETTERS];
} hymt_scripts_t;


/*
 * Counts the letters of text [len], whole UTF-8 without NUL bytes but one at
 * its end; html: those in tags and entities are left out.
 */
void hymt_scripts_count(const char *text, size_t len, bool html,
    hymt_scripts_t *s);

/* A letter of this script, as a part of `weight`. */
uint32_t hymt_script_weight(hymt_script_t script);


#ifdef __cplusplus
}
#endif


#endif /* HYMT_DETECT_PRIVATE_H */
