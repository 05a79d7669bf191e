/*
 * tokenizer_private.h - what the files of the tokenizer share: the loaded
 * tables (tokenizer_load.c), the stages text goes through (normalize.c,
 * pretokenize.c, bpe.c) and the scratch memory of an encoder (encoder.c).
 *
 *   text -> normalize -> pre-tokens -> BPE -> ids
 */

#ifndef HYMT_TOKENIZER_PRIVATE_H
#define HYMT_TOKENIZER_PRIVATE_H

#define PCRE2_CODE_UNIT_WIDTH  8

#include "tokenizer.h"

#include <jansson.h>
#include <pcre2.h>
#include <string.h>


#define HYMT_TOKENIZER_FILE    "tokenizer.json"
#define HYMT_TOKENIZER_LIMIT   ((size_t) 64 * 1024 * 1024)
#define HYMT_MAX_VOCAB         (1u << 20)
#define HYMT_MAX_NORMALIZERS   8
#define HYMT_MAX_STAGES        32
#define HYMT_MAX_NESTING       8

/* offsets are 32 bits wide; compatibility forms grow text up to 18 times */
#define HYMT_MAX_TEXT          ((size_t) 16 * 1024 * 1024)

#define HYMT_NO_TOKEN          UINT32_MAX
#define HYMT_NO_RANK           UINT32_MAX

/* a cache line holds a short word and its ids */
#define HYMT_WORD_BYTES        22
#define HYMT_WORD_IDS          10
#define HYMT_WORD_SLOTS        4096


typedef enum {
    HYMT_NFC = 0,
    HYMT_NFD,
    HYMT_NFKC,
    HYMT_NFKD,
} hymt_normal_form_t;


typedef enum {
    HYMT_SPLIT_ISOLATED = 0,
    HYMT_SPLIT_REMOVED,
    HYMT_SPLIT_MERGED_PREVIOUS,
    HYMT_SPLIT_MERGED_NEXT,
    HYMT_SPLIT_CONTIGUOUS,
} hymt_split_t;


typedef struct {
    pcre2_code    *re;      /* owned; NULL: puts a space before each piece */
    hymt_split_t   split;
    bool           invert;
    bool           jit;     /* false where the system forbids code pages */
} hymt_stage_t;


typedef struct {
    uint32_t       offset;  /* in hymt_tokenizer_s.bytes */
    uint32_t       len;
    bool           present; /* ids may have holes */
    bool           added;
    bool           special;
} hymt_token_t;


/* A slot of the open-addressed table of merges; rank HYMT_NO_RANK: free. */
typedef struct {
    uint64_t       pair;    /* left << 32 | right */
    uint32_t       rank;    /* index into merged */
} hymt_merge_t;


struct hymt_tokenizer_s {
    hymt_token_t        *tokens;        /* [size] */
    uint32_t             size;
    char                *bytes;

    uint32_t             byte_id[256];

    hymt_merge_t        *merges;        /* [merge_mask + 1] */
    uint32_t             merge_mask;
    uint32_t            *merged;        /* [n_merges]: rank -> id */
    uint32_t             n_merges;

    /* ids by their bytes, open-addressed; NULL without ignore_merges */
    uint32_t            *words;
    uint32_t             word_mask;

    hymt_normal_form_t   normalizers[HYMT_MAX_NORMALIZERS];
    uint32_t             n_normalizers;

    hymt_stage_t         stages[HYMT_MAX_STAGES];
    uint32_t             n_stages;
};


/* Memory that grows and is kept for the next call. */
typedef struct {
    void                *data;
    size_t               size;
} hymt_scratch_t;


typedef struct {
    uint32_t             begin;
    uint32_t             end;
} hymt_piece_t;


typedef struct {
    uint32_t             id;
    uint32_t             prev;
    uint32_t             next;
    uint32_t             rank;  /* of the merge with next, or HYMT_NO_RANK */
} hymt_symbol_t;


typedef struct {
    uint8_t              len;   /* 0: free */
    uint8_t              n;
    uint8_t              bytes[HYMT_WORD_BYTES];
    uint32_t             ids[HYMT_WORD_IDS];
} hymt_word_t;


struct hymt_encoder_s {
    const hymt_tokenizer_t  *tok;

    pcre2_match_data        *match;
    pcre2_match_context     *match_context;
    pcre2_jit_stack         *jit_stack;     /* NULL: the machine's own */

    hymt_scratch_t           points;        /* int32_t: normalisation */
    hymt_scratch_t           normal;        /* char */
    hymt_scratch_t           prefixed;      /* char: text with spaces added */
    hymt_scratch_t           pieces[2];     /* hymt_piece_t: in, out */
    hymt_scratch_t           symbols;       /* hymt_symbol_t */
    hymt_scratch_t           heap;          /* uint64_t: rank, position */
    hymt_scratch_t           text;          /* char: see encoder_text() */

    hymt_word_t             *words;         /* [HYMT_WORD_SLOTS] */
};


/* Well mixed bits of x: the finalizer of splitmix64. */
static inline uint64_t
hymt_mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9;
    x ^= x >> 27;
    x *= 0x94d049bb133111eb;
    x ^= x >> 31;

    return x;
}


static inline uint32_t
hymt_hash_bytes(const char *p, size_t n)
{
    uint64_t  h, part;

    h = n;

    for ( /* void */ ; n >= sizeof(part); p += sizeof(part), n -= sizeof(part))
    {
        memcpy(&part, p, sizeof(part));
        h = hymt_mix64(h ^ part);
    }

    part = 0;
    memcpy(&part, p, n);

    return (uint32_t) hymt_mix64(h ^ part);
}


/* Makes room for size bytes, keeping what is there; false without memory. */
bool hymt_scratch_reserve(hymt_scratch_t *s, size_t size);


/*
 * The encoder's own buffer of at least size bytes, for a caller that puts a
 * text together before encoding it; hymt_encode() leaves it alone.  NULL
 * without memory.
 */
char *hymt_encoder_text(hymt_encoder_t *enc, size_t size);


/*
 * normalizer and pre_tokenizer of a tokenizer.json into tok; path is for
 * messages.
 */
hymt_status_t hymt_normalizer_load(hymt_tokenizer_t *tok, const json_t *json,
    const char *path, hymt_error_t *err);
hymt_status_t hymt_pretokenizer_load(hymt_tokenizer_t *tok, const json_t *json,
    const char *path, hymt_error_t *err);


/*
 * Translates a regular expression from the dialect that Hugging Face compiles
 * (Oniguruma, Unicode 16) into one that means the same to any PCRE2 since
 * 10.30 with UTF, UCP and MULTILINE.  What can't be said is refused by name.
 * *out is malloc'ed and terminated.
 */
hymt_status_t hymt_oniguruma_translate(const char *pattern, char **out,
    hymt_error_t *err);


/*
 * Code points that Unicode 15, 15.1 and 16 assigned, with their general
 * category: a PCRE2 built on older tables does not know them.
 */
typedef struct {
    uint32_t             first;
    uint32_t             last;
    char                 category[3];
} hymt_unicode_added_t;

extern const hymt_unicode_added_t  hymt_unicode_added[];
extern const size_t                hymt_n_unicode_added;


/*
 * text, len through the tokenizer's normalizers; the result lies in the
 * encoder or is the input itself.
 */
hymt_status_t hymt_normalize(hymt_encoder_t *enc, const char **text,
    size_t *len, hymt_error_t *err);


/*
 * Splits text into pre-tokens.  *text is replaced where the tokenizer puts
 * spaces before pieces; *pieces lies in the encoder.
 */
hymt_status_t hymt_pretokenize(hymt_encoder_t *enc, const char **text,
    size_t len, const hymt_piece_t **pieces, size_t *n, hymt_error_t *err);


/*
 * The ids of one pre-token of n >= 1 bytes.  HYMT_TOO_LONG where they are more
 * than cap, HYMT_ERROR (without a message) where there is no memory.
 */
hymt_status_t hymt_bpe_word(hymt_encoder_t *enc, const unsigned char *word,
    uint32_t n, uint32_t *ids, size_t cap, size_t *n_ids);


#endif /* HYMT_TOKENIZER_PRIVATE_H */
