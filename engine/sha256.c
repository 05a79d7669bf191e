/*
 * sha256.c - see sha256.h.
 */

#include "sha256.h"

#include <string.h>


#define hymt_ror(x, n)     ((x) >> (n) | (x) << (32 - (n)))

/* FIPS 180-4, 6.2.2: its h, k here, becomes the next a, d the next e */
#define hymt_sha256_round(a, b, c, d, e, f, g, k, i)                          \
    do {                                                                      \
        t1 = k + (hymt_ror(e, 6) ^ hymt_ror(e, 11) ^ hymt_ror(e, 25))         \
             + ((e & f) ^ (~e & g)) + hymt_sha256_k[i] + w[i];                \
        t2 = (hymt_ror(a, 2) ^ hymt_ror(a, 13) ^ hymt_ror(a, 22))             \
             + ((a & b) ^ (a & c) ^ (b & c));                                 \
        d += t1;                                                              \
        k = t1 + t2;                                                          \
    } while (0)


/* FIPS 180-4, 4.2.2 */
static const uint32_t  hymt_sha256_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};


static void hymt_sha256_block(uint32_t h[8], const unsigned char *p);


void
hymt_sha256_init(hymt_sha256_t *s)
{
    static const uint32_t  h[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    };

    memcpy(s->h, h, sizeof(h));
    s->len = 0;
}


void
hymt_sha256_update(hymt_sha256_t *s, const void *data, size_t len)
{
    size_t                n, rest;
    const unsigned char  *p;

    p = data;
    rest = s->len % HYMT_SHA256_BLOCK;
    s->len += len;

    if (rest > 0) {
        n = hymt_min(len, HYMT_SHA256_BLOCK - rest);

        if (n > 0) {
            memcpy(s->rest + rest, p, n);
        }

        if (rest + n < HYMT_SHA256_BLOCK) {
            return;
        }

        hymt_sha256_block(s->h, s->rest);

        p += n;
        len -= n;
    }

    for ( /* void */ ; len >= HYMT_SHA256_BLOCK; len -= HYMT_SHA256_BLOCK) {
        hymt_sha256_block(s->h, p);
        p += HYMT_SHA256_BLOCK;
    }

    if (len > 0) {
        memcpy(s->rest, p, len);
    }
}


/* The rest, a one bit, zeros, the length in bits. */
void
hymt_sha256_final(hymt_sha256_t *s, unsigned char digest[HYMT_SHA256_SIZE])
{
    size_t         i, pad;
    uint64_t       bits;
    unsigned char  end[8];

    static const unsigned char  padding[HYMT_SHA256_BLOCK] = { 0x80 };

    bits = s->len * 8;

    for (i = 0; i < 8; i++) {
        end[i] = (unsigned char) (bits >> (56 - 8 * i));
    }

    /* 1 to 64 bytes, so that eight more end a block */

    pad = (2 * HYMT_SHA256_BLOCK - 9 - s->len % HYMT_SHA256_BLOCK)
          % HYMT_SHA256_BLOCK + 1;

    hymt_sha256_update(s, padding, pad);
    hymt_sha256_update(s, end, sizeof(end));

    for (i = 0; i < HYMT_SHA256_SIZE; i++) {
        digest[i] = (unsigned char) (s->h[i / 4] >> (24 - 8 * (i % 4)));
    }
}


void
hymt_sha256_hex(const void *data, size_t len, char hex[HYMT_SHA256_HEX + 1])
{
    size_t         i;
    hymt_sha256_t  s;
    unsigned char  digest[HYMT_SHA256_SIZE];

    hymt_sha256_init(&s);
    hymt_sha256_update(&s, data, len);
    hymt_sha256_final(&s, digest);

    for (i = 0; i < HYMT_SHA256_HEX; i++) {
        hex[i] = "0123456789abcdef"[digest[i / 2] >> (i % 2 ? 0 : 4) & 0xf];
    }

    hex[HYMT_SHA256_HEX] = '\0';
}


static void
hymt_sha256_block(uint32_t h[8], const unsigned char *p)
{
    size_t    i;
    uint32_t  w[64], t1, t2, a, b, c, d, e, f, g, k;

    for (i = 0; i < 16; i++) {
        w[i] = (uint32_t) p[4 * i] << 24 | (uint32_t) p[4 * i + 1] << 16
               | (uint32_t) p[4 * i + 2] << 8 | p[4 * i + 3];
    }

    for ( /* void */ ; i < 64; i++) {
        t1 = hymt_ror(w[i - 2], 17) ^ hymt_ror(w[i - 2], 19) ^ w[i - 2] >> 10;
        t2 = hymt_ror(w[i - 15], 7) ^ hymt_ror(w[i - 15], 18) ^ w[i - 15] >> 3;
        w[i] = t1 + w[i - 7] + t2 + w[i - 16];
    }

    a = h[0];
    b = h[1];
    c = h[2];
    d = h[3];
    e = h[4];
    f = h[5];
    g = h[6];
    k = h[7];

    /* eight at a time, so that the names turn and not the values */

    for (i = 0; i < 64; i += 8) {
        hymt_sha256_round(a, b, c, d, e, f, g, k, i);
        hymt_sha256_round(k, a, b, c, d, e, f, g, i + 1);
        hymt_sha256_round(g, k, a, b, c, d, e, f, i + 2);
        hymt_sha256_round(f, g, k, a, b, c, d, e, i + 3);
        hymt_sha256_round(e, f, g, k, a, b, c, d, i + 4);
        hymt_sha256_round(d, e, f, g, k, a, b, c, i + 5);
        hymt_sha256_round(c, d, e, f, g, k, a, b, i + 6);
        hymt_sha256_round(b, c, d, e, f, g, k, a, i + 7);
    }

    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
    h[5] += f;
    h[6] += g;
    h[7] += k;
}
