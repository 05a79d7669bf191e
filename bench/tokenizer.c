/*
 * tokenizer.c - what tokenising costs: loading, prompts of about 100 tokens,
 * and 1 MB of text that tries to be slow.
 *
 * "again" encodes one prompt over and over, as a busy service with one pair of
 * languages nearly does; "fresh" encodes another text each time, so that the
 * table of words helps only as far as texts share words.  Medians; the 99th
 * percentile beside them.
 */

#include "tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#define BENCH_ROUNDS     2000
#define BENCH_LONG       1000000
#define BENCH_MAX_TEXT   4096
#define BENCH_TOKENS     100


typedef struct {
    hymt_encoder_t  *enc;
    uint32_t        *ids;       /* [2 * BENCH_LONG] */
    uint64_t         ns[BENCH_ROUNDS];
    uint32_t         random;
} bench_t;


static int bench_run(bench_t *b, const char *dir);
static void bench_prompts(bench_t *b, const char *name, bool fresh,
    const char *const *words, size_t n_words, const char *space);
static size_t bench_text(bench_t *b, const char *const *words,
    size_t n_words, const char *space, char *text);
static void bench_long(bench_t *b, const char *name, const char *unit);
static int bench_compare(const void *a, const void *b);


static const char *const  bench_english[] = {
    "the", "translation", "service", "answers", "within", "a", "few",
    "milliseconds", "and", "keeps", "every", "line", "where", "it", "was,",
    "even", "if", "42", "people", "ask", "at", "once.", "Nobody", "waits",
    "longer", "than", "necessary;", "unusual", "vocabulary", "costs",
    "somewhat", "more",
};

static const char *const  bench_chinese[] = {
    "翻译", "服务", "在", "几毫秒", "之内", "回答，", "每一行", "都", "保持",
    "原来的", "位置。", "即使", "很多人", "同时", "提问，", "也", "没有人",
    "等待", "太久。", "罕见的", "词语", "需要", "更多", "时间",
};


int
main(int argc, char **argv)
{
    int      rc;
    bench_t  b;

    if (argc != 2) {
        fprintf(stderr, "usage: %s MODEL\n", argv[0]);
        return 2;
    }

    memset(&b, 0, sizeof(b));
    b.random = 1;
    b.ids = malloc(2 * BENCH_LONG * sizeof(uint32_t));

    if (b.ids == NULL) {
        fprintf(stderr, "no memory\n");
        return 1;
    }

    rc = bench_run(&b, argv[1]);
    free(b.ids);

    return rc;
}


static int
bench_run(bench_t *b, const char *dir)
{
    uint64_t           start;
    hymt_error_t       err;
    hymt_tokenizer_t  *tok;

    start = hymt_now_ns();

    if (hymt_tokenizer_load(dir, &tok, &err) != HYMT_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }

    printf("load: %" PRIu32 " ids in %.1f ms\n", hymt_tokenizer_size(tok),
           (double) (hymt_now_ns() - start) / 1e6);

    if (hymt_encoder_create(tok, &b->enc, &err) != HYMT_OK) {
        fprintf(stderr, "%s\n", err.text);
        hymt_tokenizer_free(tok);
        return 1;
    }

    bench_prompts(b, "English, again", false, bench_english,
                  hymt_nelts(bench_english), " ");
    bench_prompts(b, "English, fresh", true, bench_english,
                  hymt_nelts(bench_english), " ");
    bench_prompts(b, "Chinese, again", false, bench_chinese,
                  hymt_nelts(bench_chinese), "");
    bench_prompts(b, "Chinese, fresh", true, bench_chinese,
                  hymt_nelts(bench_chinese), "");

    bench_long(b, "one letter", "a");
    bench_long(b, "spaces", " ");
    bench_long(b, "words", "one word after another, ");
    bench_long(b, "Han", "的是不");
    bench_long(b, "marks", "\xcc\x81\xcc\x96");

    hymt_encoder_free(b->enc);
    hymt_tokenizer_free(tok);

    return 0;
}


static void
bench_prompts(bench_t *b, const char *name, bool fresh,
    const char *const *words, size_t n_words, const char *space)
{
    char          text[BENCH_MAX_TEXT];
    size_t        i, n, len, tokens;
    uint64_t      start, total;
    hymt_error_t  err;

    len = bench_text(b, words, n_words, space, text);
    tokens = 0;
    total = 0;

    for (i = 0; i < BENCH_ROUNDS; i++) {

        if (fresh) {
            len = bench_text(b, words, n_words, space, text);
        }

        start = hymt_now_ns();

        if (hymt_encode(b->enc, text, len, b->ids, BENCH_MAX_TEXT, &n, &err)
            != HYMT_OK)
        {
            printf("%s: %s\n", name, err.text);
            return;
        }

        b->ns[i] = hymt_now_ns() - start;
        total += b->ns[i];
        tokens += n;
    }

    qsort(b->ns, BENCH_ROUNDS, sizeof(b->ns[0]), bench_compare);

    printf("%s: %.0f tokens, %.1f us, 99th percentile %.1f us; %.1f us for"
           " 100 tokens\n", name, (double) tokens / BENCH_ROUNDS,
           (double) b->ns[BENCH_ROUNDS / 2] / 1e3,
           (double) b->ns[BENCH_ROUNDS * 99 / 100] / 1e3,
           (double) total / 10 / (double) tokens);
}


/* Words in a random order, about BENCH_TOKENS tokens of them. */
static size_t
bench_text(bench_t *b, const char *const *words, size_t n_words,
    const char *space, char *text)
{
    size_t        n, len;
    hymt_error_t  err;

    len = 0;
    n = 0;

    while (n < BENCH_TOKENS && len < BENCH_MAX_TEXT - 64) {
        b->random = b->random * 1664525 + 1013904223;
        len += (size_t) sprintf(text + len, "%s%s", len == 0 ? "" : space,
                                words[(b->random >> 8) % n_words]);

        /* asked every few words: what makes texts is not what is measured */

        if ((b->random >> 29) == 0
            && hymt_encode(b->enc, text, len, b->ids, BENCH_MAX_TEXT, &n,
                           &err)
               != HYMT_OK)
        {
            break;
        }
    }

    return len;
}


static void
bench_long(bench_t *b, const char *name, const char *unit)
{
    char          *text;
    size_t         i, n, len, unit_len;
    uint64_t       start;
    hymt_error_t   err;

    unit_len = strlen(unit);
    len = BENCH_LONG - BENCH_LONG % unit_len;
    text = malloc(len);

    if (text == NULL) {
        return;
    }

    for (i = 0; i < len; i += unit_len) {
        memcpy(text + i, unit, unit_len);
    }

    start = hymt_now_ns();

    if (hymt_encode(b->enc, text, len, b->ids, 2 * BENCH_LONG, &n, &err)
        != HYMT_OK)
    {
        printf("1 MB of %s: %s\n", name, err.text);

    } else {
        printf("1 MB of %s: %zu tokens in %.1f ms\n", name, n,
               (double) (hymt_now_ns() - start) / 1e6);
    }

    free(text);
}


static int
bench_compare(const void *a, const void *b)
{
    uint64_t  x, y;

    x = *(const uint64_t *) a;
    y = *(const uint64_t *) b;

    return (x > y) - (x < y);
}
