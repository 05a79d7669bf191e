/*
 * bpe.c - byte-pair encoding of one pre-token.
 *
 * Again and again the adjacent pair with the lowest rank merges, the leftmost
 * of equals.  Short words scan for it; longer ones keep the pairs in a heap
 * and the symbols in a list, O(n log n) whatever the text is.  A small table
 * remembers words: text repeats itself, and the same bytes give the same ids.
 */

#include "tokenizer_private.h"

#include <string.h>


#define HYMT_SCAN_SYMBOLS  32

#define HYMT_NO_SYMBOL     UINT32_MAX


static bool hymt_bpe_whole(const hymt_tokenizer_t *tok,
    const unsigned char *word, uint32_t n, uint32_t *id);
static hymt_word_t *hymt_bpe_slot(hymt_encoder_t *enc,
    const unsigned char *word, uint32_t n);
static void hymt_bpe_keep(hymt_word_t *w, const unsigned char *word,
    uint32_t n, const uint32_t *ids, size_t n_ids);
static uint32_t hymt_bpe_rank(const hymt_tokenizer_t *tok, uint32_t left,
    uint32_t right);
static uint32_t hymt_bpe_scan(const hymt_tokenizer_t *tok,
    const unsigned char *word, uint32_t n, uint32_t *ids);
static hymt_status_t hymt_bpe_heap(hymt_encoder_t *enc,
    const unsigned char *word, uint32_t n, uint32_t *ids, size_t cap,
    size_t *n_ids);
static void hymt_bpe_join(hymt_encoder_t *enc, hymt_symbol_t *symbols,
    uint32_t at, size_t *n_heap);
static void hymt_bpe_pair(hymt_encoder_t *enc, hymt_symbol_t *symbols,
    uint32_t at, size_t *n_heap);
static void hymt_heap_push(uint64_t *heap, size_t *n, uint64_t value);
static uint64_t hymt_heap_pop(uint64_t *heap, size_t *n);


hymt_status_t
hymt_bpe_word(hymt_encoder_t *enc, const unsigned char *word, uint32_t n,
    uint32_t *ids, size_t cap, size_t *n_ids)
{
    uint32_t                 id, found[HYMT_SCAN_SYMBOLS];
    hymt_word_t             *w;
    const uint32_t          *from;
    const hymt_tokenizer_t  *tok;

    tok = enc->tok;
    w = NULL;

    if (n == 1 || hymt_bpe_whole(tok, word, n, &id)) {
        found[0] = n == 1 ? tok->byte_id[word[0]] : id;
        from = found;
        *n_ids = 1;

    } else if (n > HYMT_SCAN_SYMBOLS) {
        return hymt_bpe_heap(enc, word, n, ids, cap, n_ids);

    } else {

        if (n <= HYMT_WORD_BYTES) {
            w = hymt_bpe_slot(enc, word, n);
        }

        if (w != NULL && w->len == n && memcmp(w->bytes, word, n) == 0) {
            from = w->ids;
            *n_ids = w->n;

        } else {
            *n_ids = hymt_bpe_scan(tok, word, n, found);
            from = found;

            if (w != NULL) {
                hymt_bpe_keep(w, word, n, found, *n_ids);
            }
        }
    }

    if (*n_ids > cap) {
        return HYMT_TOO_LONG;
    }

    memcpy(ids, from, *n_ids * sizeof(uint32_t));

    return HYMT_OK;
}


/* ignore_merges: a word that is a token is that token */
static bool
hymt_bpe_whole(const hymt_tokenizer_t *tok, const unsigned char *word,
    uint32_t n, uint32_t *id)
{
    uint32_t             i;
    const hymt_token_t  *t;

    if (tok->words == NULL) {
        return false;
    }

    i = hymt_hash_bytes((const char *) word, n) & tok->word_mask;

    while (tok->words[i] != HYMT_NO_TOKEN) {
        *id = tok->words[i];
        t = &tok->tokens[*id];

        if (t->len == n && memcmp(tok->bytes + t->offset, word, n) == 0) {
            return true;
        }

        i = (i + 1) & tok->word_mask;
    }

    return false;
}


static hymt_word_t *
hymt_bpe_slot(hymt_encoder_t *enc, const unsigned char *word, uint32_t n)
{
    return &enc->words[hymt_hash_bytes((const char *) word, n)
                       % HYMT_WORD_SLOTS];
}


static void
hymt_bpe_keep(hymt_word_t *w, const unsigned char *word, uint32_t n,
    const uint32_t *ids, size_t n_ids)
{
    if (n_ids > HYMT_WORD_IDS) {
        return;
    }

    w->len = (uint8_t) n;
    w->n = (uint8_t) n_ids;
    memcpy(w->bytes, word, n);
    memcpy(w->ids, ids, n_ids * sizeof(uint32_t));
}


static uint32_t
hymt_bpe_rank(const hymt_tokenizer_t *tok, uint32_t left, uint32_t right)
{
    uint32_t             i;
    uint64_t             pair;
    const hymt_merge_t  *m;

    pair = (uint64_t) left << 32 | right;
    i = (uint32_t) hymt_mix64(pair) & tok->merge_mask;

    for ( ;; ) {
        m = &tok->merges[i];

        if (m->pair == pair || m->rank == HYMT_NO_RANK) {
            return m->rank;
        }

        i = (i + 1) & tok->merge_mask;
    }
}


/* n <= HYMT_SCAN_SYMBOLS; ids has room for n; returns how many are left */
static uint32_t
hymt_bpe_scan(const hymt_tokenizer_t *tok, const unsigned char *word,
    uint32_t n, uint32_t *ids)
{
    uint32_t  i, best, rank[HYMT_SCAN_SYMBOLS];

    for (i = 0; i < n; i++) {
        ids[i] = tok->byte_id[word[i]];
    }

    for (i = 0; i + 1 < n; i++) {
        rank[i] = hymt_bpe_rank(tok, ids[i], ids[i + 1]);
    }

    while (n > 1) {

        best = 0;

        for (i = 1; i + 1 < n; i++) {
            if (rank[i] < rank[best]) {
                best = i;
            }
        }

        if (rank[best] == HYMT_NO_RANK) {
            break;
        }

        ids[best] = tok->merged[rank[best]];

        for (i = best + 1; i + 1 < n; i++) {
            ids[i] = ids[i + 1];
            rank[i - 1] = rank[i];
        }

        n--;

        if (best > 0) {
            rank[best - 1] = hymt_bpe_rank(tok, ids[best - 1], ids[best]);
        }

        if (best + 1 < n) {
            rank[best] = hymt_bpe_rank(tok, ids[best], ids[best + 1]);
        }
    }

    return n;
}


static hymt_status_t
hymt_bpe_heap(hymt_encoder_t *enc, const unsigned char *word, uint32_t n,
    uint32_t *ids, size_t cap, size_t *n_ids)
{
    size_t                   n_heap;
    uint32_t                 i, at;
    uint64_t                 top;
    hymt_symbol_t           *symbols;
    const hymt_tokenizer_t  *tok;

    tok = enc->tok;

    /* n - 1 pairs at first; each of at most n - 1 merges takes one, adds two */

    if (!hymt_scratch_reserve(&enc->symbols, n * sizeof(hymt_symbol_t))
        || !hymt_scratch_reserve(&enc->heap,
                                 2 * (size_t) n * sizeof(uint64_t)))
    {
        return HYMT_ERROR;
    }

    symbols = enc->symbols.data;
    n_heap = 0;

    for (i = 0; i < n; i++) {
        symbols[i].id = tok->byte_id[word[i]];
        symbols[i].prev = i == 0 ? HYMT_NO_SYMBOL : i - 1;
        symbols[i].next = i + 1 == n ? HYMT_NO_SYMBOL : i + 1;
        symbols[i].rank = HYMT_NO_RANK;
    }

    for (i = 0; i + 1 < n; i++) {
        hymt_bpe_pair(enc, symbols, i, &n_heap);
    }

    while (n_heap != 0) {
        top = hymt_heap_pop(enc->heap.data, &n_heap);
        at = (uint32_t) top;

        /* a pair that has changed since it was pushed has another rank */

        if (symbols[at].rank == (uint32_t) (top >> 32)) {
            hymt_bpe_join(enc, symbols, at, &n_heap);
        }
    }

    *n_ids = 0;

    for (i = 0; i != HYMT_NO_SYMBOL; i = symbols[i].next) {
        if (*n_ids == cap) {
            return HYMT_TOO_LONG;
        }

        ids[(*n_ids)++] = symbols[i].id;
    }

    return HYMT_OK;
}


static void
hymt_bpe_join(hymt_encoder_t *enc, hymt_symbol_t *symbols, uint32_t at,
    size_t *n_heap)
{
    hymt_symbol_t  *left, *right;

    left = &symbols[at];
    right = &symbols[left->next];

    left->id = enc->tok->merged[left->rank];
    left->next = right->next;
    right->rank = HYMT_NO_RANK;

    if (right->next != HYMT_NO_SYMBOL) {
        symbols[right->next].prev = at;
    }

    if (left->prev != HYMT_NO_SYMBOL) {
        hymt_bpe_pair(enc, symbols, left->prev, n_heap);
    }

    hymt_bpe_pair(enc, symbols, at, n_heap);
}


/* the rank of the symbol at and its next, and a place in the heap */
static void
hymt_bpe_pair(hymt_encoder_t *enc, hymt_symbol_t *symbols, uint32_t at,
    size_t *n_heap)
{
    hymt_symbol_t  *s;

    s = &symbols[at];
    s->rank = HYMT_NO_RANK;

    if (s->next == HYMT_NO_SYMBOL) {
        return;
    }

    s->rank = hymt_bpe_rank(enc->tok, s->id, symbols[s->next].id);

    if (s->rank != HYMT_NO_RANK) {
        hymt_heap_push(enc->heap.data, n_heap, (uint64_t) s->rank << 32 | at);
    }
}


static void
hymt_heap_push(uint64_t *heap, size_t *n, uint64_t value)
{
    size_t  i, up;

    for (i = (*n)++; i != 0; i = up) {
        up = (i - 1) / 2;

        if (heap[up] <= value) {
            break;
        }

        heap[i] = heap[up];
    }

    heap[i] = value;
}


static uint64_t
hymt_heap_pop(uint64_t *heap, size_t *n)
{
    size_t    i, down;
    uint64_t  top, last;

    top = heap[0];
    last = heap[--(*n)];

    for (i = 0; 2 * i + 1 < *n; i = down) {
        down = 2 * i + 1;
        down += down + 1 < *n && heap[down + 1] < heap[down];

        if (last <= heap[down]) {
            break;
        }

        heap[i] = heap[down];
    }

    heap[i] = last;

    return top;
}
