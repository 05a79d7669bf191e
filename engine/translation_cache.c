/*
 * translation_cache.c - see translation_cache.h.
 */

#include "translation_cache.h"

#include <stdatomic.h>
#include <string.h>


#define HYMT_WORDS  (HYMT_TRANSLATION_KEY / 8)


/*
 * `seq` is (number << 32 | seconds of its last change).  `used` is a hint and
 * not part of the sum.  All of it is read while others may write: by words,
 * each of them atomic.
 */
typedef struct {
    _Atomic uint64_t  seq;
    _Atomic uint64_t  used;
    _Atomic uint64_t  sum;
    _Atomic uint64_t  key[HYMT_WORDS];
    _Atomic uint64_t  made_len;      /* made << 32 | len */
    _Atomic uint64_t  tokens;        /* prompt << 32 | completion */
    _Atomic uint64_t  text[];
} hymt_place_t;


#define HYMT_PLACE_HEAD  offsetof(hymt_place_t, text)


/* A private copy of what tells a place from another. */
typedef struct {
    uint64_t  seq;
    uint64_t  used;
    uint64_t  sum;
    uint64_t  key[HYMT_WORDS];
    uint64_t  made_len;
    uint64_t  tokens;
} hymt_head_t;


#define hymt_high(word)  ((uint32_t) ((word) >> 32))
#define hymt_low(word)   ((uint32_t) (word))
#define hymt_word(h, l)  ((uint64_t) (h) << 32 | (l))


static void hymt_translation_key(uint64_t words[HYMT_WORDS],
    const unsigned char *key);
static hymt_place_t *hymt_translation_set(const hymt_translation_cache_t *cache,
    uint32_t class, const uint64_t *key);
static hymt_place_t *hymt_translation_way(const hymt_translation_cache_t *cache,
    uint32_t class, hymt_place_t *set, uint32_t way);
static void hymt_translation_head(hymt_place_t *place, hymt_head_t *head);
static bool hymt_translation_fresh(uint64_t made_len, uint32_t now,
    uint32_t ttl);
static hymt_status_t hymt_translation_read(
    const hymt_translation_cache_t *cache, uint32_t class, hymt_place_t *place,
    const hymt_head_t *head, char *buf);
static hymt_place_t *hymt_translation_room(
    const hymt_translation_cache_t *cache, uint32_t class, const uint64_t *key,
    uint32_t now, uint32_t ttl, bool *evicted);
static void hymt_translation_forget(hymt_place_t *place, uint32_t now);
static bool hymt_translation_claim(hymt_place_t *place, uint32_t now,
    uint64_t *seq);
static void hymt_translation_release(hymt_place_t *place, uint64_t seq,
    uint32_t now);
static uint64_t hymt_translation_mix(uint64_t sum, uint64_t word);
static uint64_t hymt_translation_sum(const hymt_head_t *head);


hymt_status_t
hymt_translation_cache_view(hymt_translation_cache_t *cache, void *mem,
    size_t size, uint32_t longest, hymt_error_t *err)
{
    size_t                     share, place, at;
    uint32_t                   i, n;
    hymt_translation_class_t  *class;

    if (longest == 0 || longest > HYMT_TRANSLATION_MAX) {
        return hymt_fail(err, "texts of at most %u bytes: 1 to %d are"
                         " accepted", longest, HYMT_TRANSLATION_MAX);
    }

    cache->mem = mem;
    cache->longest = longest;

    /* the last class has what the longest text takes, no more */

    place = HYMT_TRANSLATION_SMALLEST;
    n = 0;

    while (place * 2 < HYMT_PLACE_HEAD + longest) {
        cache->class[n++].place = place;
        place *= 4;
    }

    place = (HYMT_PLACE_HEAD + longest + 7) / 8 * 8;
    cache->class[n++].place = place;
    cache->n_classes = n;

    share = size / n;
    at = 0;

    if (share < place * HYMT_TRANSLATION_WAYS) {
        return hymt_fail(err, "%zu bytes are too few for texts of up to %u"
                         " bytes: %zu are needed", size, longest,
                         n * place * HYMT_TRANSLATION_WAYS);
    }

    for (i = 0; i < n; i++) {
        class = &cache->class[i];

        class->at = at;
        class->n_sets = share / (class->place * HYMT_TRANSLATION_WAYS);

        at += class->n_sets * HYMT_TRANSLATION_WAYS * class->place;
    }

    return HYMT_OK;
}


hymt_status_t
hymt_translation_cache_find(const hymt_translation_cache_t *cache,
    const unsigned char key[HYMT_TRANSLATION_KEY], uint32_t now, uint32_t ttl,
    char *buf, hymt_translation_t *found)
{
    uint32_t       i, way;
    uint64_t       words[HYMT_WORDS];
    hymt_head_t    head;
    hymt_place_t  *set, *place;

    hymt_translation_key(words, key);

    for (i = 0; i < cache->n_classes; i++) {
        set = hymt_translation_set(cache, i, words);

        for (way = 0; way < HYMT_TRANSLATION_WAYS; way++) {
            place = hymt_translation_way(cache, i, set, way);

            if (atomic_load_explicit(&place->key[0], memory_order_relaxed)
                != words[0])
            {
                continue;
            }

            hymt_translation_head(place, &head);

            if (memcmp(head.key, words, sizeof(words)) != 0
                || !hymt_translation_fresh(head.made_len, now, ttl)
                || hymt_translation_read(cache, i, place, &head, buf)
                   != HYMT_OK)
            {
                continue;
            }

            /* a line that many read is not to be written by each */

            if (head.used != now) {
                atomic_store_explicit(&place->used, now, memory_order_relaxed);
            }

            found->len = hymt_low(head.made_len);
            found->prompt_tokens = hymt_high(head.tokens);
            found->completion_tokens = hymt_low(head.tokens);

            return HYMT_OK;
        }
    }

    return HYMT_DECLINED;
}


hymt_status_t
hymt_translation_cache_store(hymt_translation_cache_t *cache,
    const unsigned char key[HYMT_TRANSLATION_KEY], uint32_t now, uint32_t ttl,
    const char *text, const hymt_translation_t *t)
{
    bool           evicted;
    size_t         i, n;
    uint32_t       class;
    uint64_t       seq, sum, word;
    hymt_head_t    head;
    hymt_place_t  *place;

    if (t->len > cache->longest) {
        return HYMT_DECLINED;
    }

    class = 0;

    while (cache->class[class].place - HYMT_PLACE_HEAD < t->len) {
        class++;
    }

    hymt_translation_key(head.key, key);

    place = hymt_translation_room(cache, class, head.key, now, ttl, &evicted);

    if (place == NULL || !hymt_translation_claim(place, now, &seq)) {
        return HYMT_DECLINED;
    }

    head.made_len = hymt_word(now, t->len);
    head.tokens = hymt_word(t->prompt_tokens, t->completion_tokens);

    for (i = 0; i < HYMT_WORDS; i++) {
        atomic_store_explicit(&place->key[i], head.key[i],
                              memory_order_relaxed);
    }

    atomic_store_explicit(&place->made_len, head.made_len,
                          memory_order_relaxed);
    atomic_store_explicit(&place->tokens, head.tokens, memory_order_relaxed);
    atomic_store_explicit(&place->used, now, memory_order_relaxed);

    sum = hymt_translation_sum(&head);

    for (i = 0; i < t->len; i += 8) {
        n = hymt_min(t->len - i, 8);
        word = 0;
        memcpy(&word, text + i, n);

        atomic_store_explicit(&place->text[i / 8], word, memory_order_relaxed);
        sum = hymt_translation_mix(sum, word);
    }

    atomic_store_explicit(&place->sum, sum, memory_order_relaxed);

    hymt_translation_release(place, seq, now);

    return evicted ? HYMT_AGAIN : HYMT_OK;
}


static void
hymt_translation_key(uint64_t words[HYMT_WORDS], const unsigned char *key)
{
    memcpy(words, key, HYMT_TRANSLATION_KEY);
}


/* The key is a digest: any part of it is as good as a hash. */
static hymt_place_t *
hymt_translation_set(const hymt_translation_cache_t *cache, uint32_t class,
    const uint64_t *key)
{
    const hymt_translation_class_t  *c;

    c = &cache->class[class];

    return (hymt_place_t *) (cache->mem + c->at
                             + key[1] % c->n_sets * HYMT_TRANSLATION_WAYS
                               * c->place);
}


static hymt_place_t *
hymt_translation_way(const hymt_translation_cache_t *cache, uint32_t class,
    hymt_place_t *set, uint32_t way)
{
    return (hymt_place_t *) ((char *) set + way * cache->class[class].place);
}


static void
hymt_translation_head(hymt_place_t *place, hymt_head_t *head)
{
    size_t  i;

    head->seq = atomic_load_explicit(&place->seq, memory_order_acquire);
    head->used = atomic_load_explicit(&place->used, memory_order_relaxed);
    head->sum = atomic_load_explicit(&place->sum, memory_order_relaxed);

    for (i = 0; i < HYMT_WORDS; i++) {
        head->key[i] = atomic_load_explicit(&place->key[i],
                                            memory_order_relaxed);
    }

    head->made_len = atomic_load_explicit(&place->made_len,
                                          memory_order_relaxed);
    head->tokens = atomic_load_explicit(&place->tokens, memory_order_relaxed);
}


/* At second 0 nothing was made; one from the future is somebody's nonsense. */
static bool
hymt_translation_fresh(uint64_t made_len, uint32_t now, uint32_t ttl)
{
    uint32_t  made;

    made = hymt_high(made_len);

    return made != 0 && made <= now && now - made <= ttl;
}


/* The text, where what `head` says of it is whole. */
static hymt_status_t
hymt_translation_read(const hymt_translation_cache_t *cache, uint32_t class,
    hymt_place_t *place, const hymt_head_t *head, char *buf)
{
    size_t    i, len;
    uint64_t  sum, word;

    len = hymt_low(head->made_len);

    if ((hymt_high(head->seq) & 1) || len > cache->longest
        || len > cache->class[class].place - HYMT_PLACE_HEAD)
    {
        return HYMT_DECLINED;
    }

    sum = hymt_translation_sum(head);

    for (i = 0; i < len; i += 8) {
        word = atomic_load_explicit(&place->text[i / 8], memory_order_relaxed);

        memcpy(buf + i, &word, hymt_min(len - i, 8));
        sum = hymt_translation_mix(sum, word);
    }

    atomic_thread_fence(memory_order_acquire);

    if (atomic_load_explicit(&place->seq, memory_order_relaxed) != head->seq
        || sum != head->sum)
    {
        return HYMT_DECLINED;
    }

    return HYMT_OK;
}


/*
 * The place for a key: its own, a free one, one that is too old, or that which
 * was not used for longest.  NULL: somebody writes to it.  The key's texts in
 * other classes go.
 */
static hymt_place_t *
hymt_translation_room(const hymt_translation_cache_t *cache, uint32_t class,
    const uint64_t *key, uint32_t now, uint32_t ttl, bool *evicted)
{
    bool           own;
    uint32_t       i, way;
    uint64_t       used, best;
    hymt_head_t    head;
    hymt_place_t  *set, *place, *room;

    room = NULL;
    own = false;
    best = 0;

    for (i = 0; i < cache->n_classes; i++) {
        set = hymt_translation_set(cache, i, key);

        for (way = 0; way < HYMT_TRANSLATION_WAYS; way++) {
            place = hymt_translation_way(cache, i, set, way);

            hymt_translation_head(place, &head);

            if (memcmp(head.key, key, sizeof(head.key)) == 0) {

                if (i != class || own) {
                    hymt_translation_forget(place, now);

                } else {
                    room = place;
                    own = true;
                }

                continue;
            }

            if (i != class || own) {
                continue;
            }

            /* 0: of no use to anybody */

            used = hymt_translation_fresh(head.made_len, now, ttl)
                   ? head.used + 1 : 0;

            if (room == NULL || used < best) {
                room = place;
                best = used;
            }
        }
    }

    *evicted = !own && best != 0;

    return room;
}


static void
hymt_translation_forget(hymt_place_t *place, uint32_t now)
{
    uint64_t  seq;

    if (hymt_translation_claim(place, now, &seq)) {
        atomic_store_explicit(&place->made_len, 0, memory_order_relaxed);
        atomic_store_explicit(&place->key[0], 0, memory_order_relaxed);

        hymt_translation_release(place, seq, now);
    }
}


/* Makes the number odd; one that has been so for long has lost its writer. */
static bool
hymt_translation_claim(hymt_place_t *place, uint32_t now, uint64_t *seq)
{
    uint32_t  number;
    uint64_t  old;

    old = atomic_load_explicit(&place->seq, memory_order_relaxed);
    number = hymt_high(old);

    if ((number & 1) && now - hymt_low(old) <= HYMT_TRANSLATION_STALE) {
        return false;
    }

    *seq = hymt_word((number + 1) | 1, now);

    if (!atomic_compare_exchange_strong_explicit(&place->seq, &old, *seq,
                                                 memory_order_relaxed,
                                                 memory_order_relaxed))
    {
        return false;
    }

    /* nobody sees what is written next with the number as it was */

    atomic_thread_fence(memory_order_release);

    return true;
}


/* Not where the place was taken away meanwhile. */
static void
hymt_translation_release(hymt_place_t *place, uint64_t seq, uint32_t now)
{
    (void) atomic_compare_exchange_strong_explicit(&place->seq, &seq,
                                           hymt_word(hymt_high(seq) + 1, now),
                                           memory_order_release,
                                           memory_order_relaxed);
}


/* Not for secrets: for what a torn write leaves. */
static uint64_t
hymt_translation_mix(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * 0x9e3779b97f4a7c15;

    return sum ^ sum >> 29;
}


/* Never 0 for zeros. */
static uint64_t
hymt_translation_sum(const hymt_head_t *head)
{
    size_t    i;
    uint64_t  sum;

    sum = 0x243f6a8885a308d3;

    for (i = 0; i < HYMT_WORDS; i++) {
        sum = hymt_translation_mix(sum, head->key[i]);
    }

    sum = hymt_translation_mix(sum, head->made_len);

    return hymt_translation_mix(sum, head->tokens);
}
