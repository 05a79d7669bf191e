/*
 * scan.h - passing over what most of a text is, sixteen bytes at a time.
 *
 * Text is read several times on its way through an event loop, each time for a
 * few bytes that something may begin with.
 *
 * Thread: any.
 */

#ifndef HYMT_SCAN_H
#define HYMT_SCAN_H

#include <stddef.h>
#include <stdint.h>


#define HYMT_SCAN_LANES  16
#define HYMT_SCAN_SIGNS  7


/* GCC's and clang's vectors: SSE2, NEON or plain registers. */
typedef uint8_t  hymt_lanes_t __attribute__((vector_size(HYMT_SCAN_LANES)));

#define hymt_lanes(c)  { c, c, c, c, c, c, c, c, c, c, c, c, c, c, c, c }


/* Bytes to stop at; each of them in all lanes. */
typedef struct {
    uint32_t      n_signs;
    hymt_lanes_t  sign[HYMT_SCAN_SIGNS];
    hymt_lanes_t  below;    /* and those below this */
    hymt_lanes_t  bits;     /* and those with one of these bits */
} hymt_scan_t;


/* The place of the first of them in text[at .. len), or len. */
size_t hymt_scan(const hymt_scan_t *scan, const char *text, size_t at,
    size_t len);


#endif /* HYMT_SCAN_H */
