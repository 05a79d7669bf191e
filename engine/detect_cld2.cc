/*
 * detect_cld2.cc - CLD2, which has a C++ interface only, as one C function.
 *
 * No exceptions, no RTTI, no statics: nothing here needs a C++ library of its
 * own; libcld2 brings the one it was built with.
 */

#include "detect_private.h"

#include <stdio.h>      /* compact_lang_det.h uses FILE */

#include <cld2/public/compact_lang_det.h>
#include <cld2/public/encodings.h>


void
hymt_cld2(const char *text, int len, bool html, const char *hint,
    bool best_effort, hymt_cld2_t *answer)
{
    int             i, flags, letters, valid;
    double          score[HYMT_CLD2_MAX];
    CLD2::CLDHints  hints;
    CLD2::Language  lang[HYMT_CLD2_MAX];

    hints.content_language_hint = hint;
    hints.tld_hint = NULL;
    hints.encoding_hint = CLD2::UNKNOWN_ENCODING;
    hints.language_hint = CLD2::UNKNOWN_LANGUAGE;

    for (i = 0; i < HYMT_CLD2_MAX; i++) {
        lang[i] = CLD2::UNKNOWN_LANGUAGE;
        answer->percent[i] = 0;
    }

    answer->reliable = false;
    flags = best_effort ? CLD2::kCLDFlagBestEffort : 0;

    (void) CLD2::ExtDetectLanguageSummaryCheckUTF8(text, len, !html, &hints,
               flags, lang, answer->percent, score, NULL, &letters,
               &answer->reliable, &valid);

    for (i = 0; i < HYMT_CLD2_MAX; i++) {
        answer->code[i] = CLD2::LanguageCode(lang[i]);
    }

    if (best_effort) {
        answer->reliable = false;
    }
}
