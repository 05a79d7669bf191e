/*
 * scan_test.c - passing over text, against a byte at a time: every length and
 * beginning, random bytes and stops, nothing read beyond the end.
 */

#include "base.h"
#include "scan.h"
#include "tap.h"

#include <sys/mman.h>
#include <unistd.h>


#define MOST  80


static uint64_t  state = 1;


static uint32_t
random_below(uint32_t n)
{
    state = state * 6364136223846793005 + 1442695040888963407;

    return (uint32_t) (state >> 33) % n;
}


static bool
stops(const hymt_scan_t *scan, char c)
{
    uint8_t   b;
    uint32_t  i;

    b = (uint8_t) c;

    for (i = 0; i < scan->n_signs; i++) {
        if (b == scan->sign[i][0]) {
            return true;
        }
    }

    return b < scan->below[0] || (b & scan->bits[0]) != 0;
}


static size_t
expected(const hymt_scan_t *scan, const char *text, size_t at, size_t len)
{
    while (at < len && !stops(scan, text[at])) {
        at++;
    }

    return at;
}


/* the number of lengths and beginnings for which both say the same */
static uint32_t
agreed(const hymt_scan_t *scan, char *end)
{
    char      *text;
    size_t     at, len;
    uint32_t   n;

    for (n = 0, len = 0; len <= MOST; len++) {
        text = end - len;

        for (at = 0; at <= len; at++) {
            n += hymt_scan(scan, text, at, len)
                 == expected(scan, text, at, len);
        }
    }

    return n;
}


int
main(void)
{
    char         *pages, *end;
    size_t        page, i;
    uint32_t      round, good, all;
    hymt_scan_t   scan;

    page = (size_t) sysconf(_SC_PAGESIZE);
    pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0) {
        return 1;
    }

    end = pages + page;
    all = (MOST + 1) * (MOST + 2) / 2;

    memset(&scan, 0, sizeof(scan));
    memset(end - MOST, '\xff', MOST);
    is_int(agreed(&scan, end), all, "no stops");

    scan.bits += 0x80;
    is_int(agreed(&scan, end), all, "every byte stops");

    for (round = 0, good = 0; round < 200; round++) {
        memset(&scan, 0, sizeof(scan));
        scan.n_signs = random_below(HYMT_SCAN_SIGNS + 1);
        scan.below += (uint8_t) random_below(random_below(4) ? 33 : 256);
        scan.bits += (uint8_t) (random_below(2) ? 0x80 : 0);

        for (i = 0; i < HYMT_SCAN_SIGNS; i++) {
            scan.sign[i] += (uint8_t) random_below(256);
        }

        /* mostly letters, so that runs are long */

        for (i = 1; i <= MOST; i++) {
            end[-(ptrdiff_t) i] = (char) (random_below(12) ? 'a'
                                                           : random_below(256));
        }

        good += agreed(&scan, end) == all;
    }

    is_int(good, 200, "random texts and stops");

    return tap_done();
}
