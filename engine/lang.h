/*
 * lang.h - the 38 languages of the Hunyuan translation models, by code, English
 * and Chinese name.
 */

#ifndef HYMT_LANG_H
#define HYMT_LANG_H

#include "base.h"


#define HYMT_N_LANGS   38
#define HYMT_LANG_NONE (-1)   /* source language not given */


typedef struct {
    char         code[8];   /* "zh", "zh-Hant", "yue": as shown to users */
    const char  *english;   /* "Chinese" */
    const char  *chinese;   /* "中文" */
} hymt_lang_t;


/* Bit i stands for language i: a model may know a subset. */
typedef uint64_t  hymt_lang_set_t;

#define HYMT_LANGS_ALL  ((hymt_lang_set_t) (((uint64_t) 1 << HYMT_N_LANGS) - 1))


extern const hymt_lang_t hymt_langs[HYMT_N_LANGS];


/*
 * Finds a language by code ("ZH", "pt-BR", "zh_TW", "zh-Hant-HK", "iw"),
 * English name or Chinese name, case-insensitively.  Regional and script forms
 * map to what the models know (zh-CN, zh-SG, zh-Hans -> zh; zh-TW, zh-HK,
 * zh-MO, zh-Hant* -> zh-Hant; fil -> tl; xx-YY -> xx; ISO 639-2/3 codes too).
 *
 * Returns the index or HYMT_LANG_NONE.
 */
int hymt_lang_find(const char *name, size_t len);


/*
 * True for languages that take many more tokens than others to say the same:
 * those of scripts that vocabularies have few words of.
 */
bool hymt_lang_grows(int lang);


/*
 * Writes "en (English), zh (Chinese), ..." for the set into buf, terminated and
 * cut at cap; returns the length.
 */
size_t hymt_lang_list(hymt_lang_set_t set, char *buf, size_t cap);


#endif /* HYMT_LANG_H */
