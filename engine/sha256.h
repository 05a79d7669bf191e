/*
 * sha256.h - SHA-256 (FIPS 180-4) of a text in memory.
 *
 * For names of files that must not tell what they stand for; the engine has no
 * other use for a library of cryptography.
 *
 * Thread: any.
 */

#ifndef HYMT_SHA256_H
#define HYMT_SHA256_H

#include "base.h"


#define HYMT_SHA256_HEX  64


/* The digest in lower-case hexadecimal, terminated. */
void hymt_sha256_hex(const void *data, size_t len,
    char hex[HYMT_SHA256_HEX + 1]);


#endif /* HYMT_SHA256_H */
