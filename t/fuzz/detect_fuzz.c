/*
 * detect_fuzz.c - libFuzzer on the detection of languages.
 *
 * Input: five bytes, the set; one, the format; then the text.  Every answer
 * must be in the set, in order, with confidences in (0, 1].
 */

#include "detect.h"

#include <stdlib.h>
#include <string.h>


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t          i;
    hymt_lang_set_t   set;
    hymt_detection_t  d;

    if (size < 6) {
        return 0;
    }

    set = 0;
    memcpy(&set, data, 5);

    hymt_detect((const char *) data + 6, size - 6, data[5] & 1, set, &d);

    if (d.n > HYMT_DETECT_MAX || (d.reliable && (d.n == 0 || d.too_short))) {
        abort();
    }

    for (i = 0; i < d.n; i++) {
        if (d.best[i].lang < 0 || d.best[i].lang >= HYMT_N_LANGS
            || (set >> d.best[i].lang & 1) == 0
            || !(d.best[i].confidence > 0 && d.best[i].confidence <= 1)
            || (i > 0 && d.best[i].confidence > d.best[i - 1].confidence))
        {
            abort();
        }
    }

    return 0;
}
