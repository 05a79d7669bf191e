/*
 * detect.h - which language a text is in, by CLD2.
 *
 * Thread: any.
 */

#ifndef HYMT_DETECT_H
#define HYMT_DETECT_H

#include "lang.h"


#define HYMT_DETECT_MAX  3


typedef struct {
    int     lang;         /* index, one of the 38 */
    double  confidence;   /* 0..1 */
} hymt_detected_t;


typedef struct {
    hymt_detected_t  best[HYMT_DETECT_MAX];  /* best first */
    uint32_t         n;                      /* 0: nothing told */
    bool             reliable;
    bool             too_short;   /* too little text for a word of trust */
} hymt_detection_t;


/*
 * Looks at text [len] (whole UTF-8; at most its first 64 KiB), only at the
 * languages of `set`.  html: tags and entities are skipped.
 */
void hymt_detect(const char *text, size_t len, bool html, hymt_lang_set_t set,
    hymt_detection_t *d);


#endif /* HYMT_DETECT_H */
