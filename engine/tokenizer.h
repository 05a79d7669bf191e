/*
 * tokenizer.h - byte-level BPE as a tokenizer.json declares it.
 *
 * Understood: model BPE (merges as "a b" strings or ["a", "b"] pairs; no
 * dropout, no unk, byte_fallback false; ignore_merges honoured); normalizer
 * null, NFC, NFKC, NFD, NFKD or a Sequence of those; pre_tokenizer ByteLevel,
 * Split (Regex or String pattern, behaviors Isolated, Removed,
 * MergedWithPrevious, MergedWithNext, Contiguous, invert) or a Sequence of
 * those; added_tokens; decoder null or ByteLevel.  Anything else is refused by
 * name, constructs of a regular expression too that PCRE2 takes differently
 * from Oniguruma, which Hugging Face compiles them with.  post_processor,
 * truncation and padding are ignored: the chat template places every special
 * token.
 *
 * Security: hymt_encode() treats its input as plain text.  No added token,
 * special or not, ever matches in it, so user text cannot become a control
 * token.
 *
 * Limits: file 64 MiB, vocabulary 2^20, 16 MiB of text at a time; PCRE2 runs
 * with JIT (without where the system forbids it) and match and depth limits;
 * encoding is O(n log n) in the length of one pre-token.
 *
 * Thread: a tokenizer is immutable after loading and may be shared; an encoder
 * holds the scratch memory of one thread.
 */

#ifndef HYMT_TOKENIZER_H
#define HYMT_TOKENIZER_H

#include "base.h"


typedef struct hymt_tokenizer_s  hymt_tokenizer_t;
typedef struct hymt_encoder_s    hymt_encoder_t;


/* Reads <dir>/tokenizer.json. */
hymt_status_t hymt_tokenizer_load(const char *dir, hymt_tokenizer_t **tok,
    hymt_error_t *err);

void hymt_tokenizer_free(hymt_tokenizer_t *tok);


/* One more than the greatest id of vocabulary and added tokens. */
uint32_t hymt_tokenizer_size(const hymt_tokenizer_t *tok);


/*
 * The id of an added token by its exact text: HYMT_OK or HYMT_DECLINED.  This
 * is the only way to a control token.
 */
hymt_status_t hymt_tokenizer_added(const hymt_tokenizer_t *tok,
    const char *text, uint32_t *id);


/* True for ids of added tokens marked special. */
bool hymt_tokenizer_special(const hymt_tokenizer_t *tok, uint32_t id);


/*
 * The bytes that token id stands for (not terminated; owned by the tokenizer),
 * the text itself for an added token.  False for an id without a token.
 */
bool hymt_tokenizer_bytes(const hymt_tokenizer_t *tok, uint32_t id,
    const char **bytes, uint32_t *len);


hymt_status_t hymt_encoder_create(const hymt_tokenizer_t *tok,
    hymt_encoder_t **enc, hymt_error_t *err);

void hymt_encoder_free(hymt_encoder_t *enc);


/*
 * Appends the ids of text [len], which must be whole UTF-8, to ids [cap] and
 * sets *n to how many were written.
 *
 * Returns HYMT_TOO_LONG when they are more than cap (the error says how many
 * bytes were reached) or the text is over the limit, HYMT_ERROR on invalid
 * UTF-8, a regex limit or no memory.  Scratch memory grows to the largest
 * input and is reused.
 */
hymt_status_t hymt_encode(hymt_encoder_t *enc, const char *text, size_t len,
    uint32_t *ids, size_t cap, size_t *n, hymt_error_t *err);


/*
 * Turns tokens into text as they come: only whole code points leave, the rest
 * waits for the next token.  Bytes that can no longer become UTF-8 leave as
 * U+FFFD, one per maximal broken part (the practice of Unicode 3.9, as
 * Python's and Rust's lossy decoders).  Special tokens give nothing.
 */
typedef struct {
    char      pending[4];
    uint32_t  n;
} hymt_detok_t;

#define hymt_detok_init(d)  ((d)->n = 0)


/*
 * Appends the text of token id to out [cap]; *n is set to the bytes written.
 * Needs cap >= 3 * (token's bytes + 4) in the worst case: returns
 * HYMT_TOO_LONG, writing nothing and keeping its state, where the text does
 * not fit.  An id without a token gives nothing.
 */
hymt_status_t hymt_detok_push(const hymt_tokenizer_t *tok, hymt_detok_t *d,
    uint32_t id, char *out, size_t cap, size_t *n);


/* What is left at the end: U+FFFD where a code point was cut, or nothing. */
hymt_status_t hymt_detok_end(hymt_detok_t *d, char *out, size_t cap,
    size_t *n);


#endif /* HYMT_TOKENIZER_H */
