/*
 * sha256.h - SHA-256 (FIPS 180-4), at once or in pieces.
 *
 * For names of files that must not tell what they stand for, and for the keys
 * of caches; the engine has no other use for a library of cryptography.
 *
 * Thread: any.
 */

#ifndef HYMT_SHA256_H
#define HYMT_SHA256_H

#include "base.h"


#define HYMT_SHA256_SIZE   32
#define HYMT_SHA256_HEX    64
#define HYMT_SHA256_BLOCK  64


typedef struct {
    uint32_t       h[8];
    uint64_t       len;                       /* bytes so far */
    unsigned char  rest[HYMT_SHA256_BLOCK];   /* len % HYMT_SHA256_BLOCK */
} hymt_sha256_t;


void hymt_sha256_init(hymt_sha256_t *s);
void hymt_sha256_update(hymt_sha256_t *s, const void *data, size_t len);

/* afterwards s is of no use but to be initialized again */
void hymt_sha256_final(hymt_sha256_t *s,
    unsigned char digest[HYMT_SHA256_SIZE]);

/* The digest in lower-case hexadecimal, terminated. */
void hymt_sha256_hex(const void *data, size_t len,
    char hex[HYMT_SHA256_HEX + 1]);


#endif /* HYMT_SHA256_H */
