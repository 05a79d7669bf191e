/*
 * scan.c - see scan.h.
 */

#include "scan.h"
#include "base.h"

#include <string.h>


static size_t hymt_scan_first(hymt_lanes_t found);


size_t
hymt_scan(const hymt_scan_t *scan, const char *text, size_t at, size_t len)
{
    size_t        i, n;
    hymt_lanes_t  v, found;

    for ( /* void */ ; at < len; at += n) {
        n = HYMT_SCAN_LANES;

        if (len - at >= HYMT_SCAN_LANES) {
            memcpy(&v, text + at, HYMT_SCAN_LANES);

        } else {
            n = len - at;
            v = (hymt_lanes_t) hymt_lanes(0);
            memcpy(&v, text + at, n);
        }

        found = (v & scan->bits) | (hymt_lanes_t) (v < scan->below);

        for (i = 0; i < scan->n_signs; i++) {
            found |= (hymt_lanes_t) (v == scan->sign[i]);
        }

        i = hymt_scan_first(found);

        if (i < n) {
            return at + i;
        }
    }

    return len;
}


/* The first that is not 0; the lowest byte of a word is the first one. */
static size_t
hymt_scan_first(hymt_lanes_t found)
{
    uint64_t  half[2];

    memcpy(half, &found, sizeof(half));

    if (half[0] != 0) {
        return (size_t) __builtin_ctzll(half[0]) / 8;
    }

    return half[1] != 0 ? 8 + (size_t) __builtin_ctzll(half[1]) / 8
                        : HYMT_SCAN_LANES;
}
