/*
 * detect.h - which language a text is in, by its script, its letters and CLD2.
 *
 * A script that one language of the 38 alone is written in (Thai, Hebrew,
 * Hangul, Khmer ...) is certain from one letter on.  Where several share one,
 * CLD2 is asked, and letters that only one of them has are looked at.  A text
 * in several languages gives each its part.  Cantonese is not told apart from
 * Chinese: it comes as zh-Hant or zh.  Malay and Indonesian, which differ
 * little, need more text than others.  A language that is none of the 38 gives
 * none, or a doubtful one that is written alike.
 *
 * Thread: any.
 */

#ifndef HYMT_DETECT_H
#define HYMT_DETECT_H

#include "lang.h"


#define HYMT_DETECT_MAX  3


typedef struct {
    int     lang;         /* index, one of the 38 */
    double  confidence;   /* 0..1: its part of the text times the trust */
} hymt_detected_t;


typedef struct {
    hymt_detected_t  best[HYMT_DETECT_MAX];  /* best first */
    uint32_t         n;                      /* 0: nothing told */
    bool             reliable;    /* best[0] is */
    bool             too_short;   /* too little text, or no letter at all, for
                                     a word of trust */
} hymt_detection_t;


/*
 * Looks at text [len] (whole UTF-8; at most its first 64 KiB), only at the
 * languages of `set`: where that leaves one for a script, it is given, with
 * little confidence unless CLD2 says so too.  html: tags, entities, scripts and
 * styles are skipped.
 *
 * Text that is not UTF-8, or without a letter, or no memory: n = 0.  64 KiB
 * take up to 20 ms.
 */
void hymt_detect(const char *text, size_t len, bool html, hymt_lang_set_t set,
    hymt_detection_t *d);


#endif /* HYMT_DETECT_H */
