/*
 * translation_cache.h - translations by key, in memory that processes share.
 *
 * A table of fixed size, set-associative: a key names one set of places in each
 * class of places, and a text goes to the smallest class that holds it.  The
 * places of a class are of one size; each class is about four times the one
 * before and all have the same memory.  In a set the place that was longest
 * unused makes room for a new one.
 *
 * No lock: a place has a sequence number, odd while somebody writes, and a
 * checksum over everything else.  A reader copies, then looks whether the
 * number is as it was, the sum is right and all of the key is the one it wants;
 * else it has found nothing.  So a process that dies in the middle of a write
 * costs one place, and that only until somebody needs it HYMT_TRANSLATION_STALE
 * seconds later.  Nobody ever waits, and two that write to one place leave it
 * with one text or with none.
 *
 * Memory is never trusted: sizes and places come from the caller's view, what
 * is read is copied once and the copy is checked.  (Who can write to it can
 * put any text under any key: it is for processes of one trust.)
 *
 * Thread: any, each with a view and buffer of its own.
 */

#ifndef HYMT_TRANSLATION_CACHE_H
#define HYMT_TRANSLATION_CACHE_H

#include "sha256.h"


#define HYMT_TRANSLATION_KEY          HYMT_SHA256_SIZE
#define HYMT_TRANSLATION_WAYS         8
#define HYMT_TRANSLATION_CLASSES      6
#define HYMT_TRANSLATION_SMALLEST     256      /* bytes of a place */
#define HYMT_TRANSLATION_STALE        10       /* s: such a write is dead */

/* longest text of a cache may be from 1 to this many bytes */
#define HYMT_TRANSLATION_MAX          (192 * 1024)


typedef struct {
    size_t  at;            /* offset in memory */
    size_t  place;         /* bytes of one, a multiple of 8 */
    size_t  n_sets;
} hymt_translation_class_t;


/* A process's view. */
typedef struct {
    char                      *mem;
    uint32_t                   longest;   /* text that is kept */
    uint32_t                   n_classes;
    hymt_translation_class_t   class[HYMT_TRANSLATION_CLASSES];
} hymt_translation_cache_t;


typedef struct {
    uint32_t  len;
    uint32_t  prompt_tokens;
    uint32_t  completion_tokens;
} hymt_translation_t;


/*
 * The view of a table in mem [size], 8-byte aligned, for texts of at most
 * `longest` bytes.  Writes nothing: fresh memory is zero, or holds whatever it
 * holds, which is no entry.  Every process must give the same size and longest.
 *
 * HYMT_ERROR: too small for one set of each class, or longest out of range.
 */
hymt_status_t hymt_translation_cache_view(hymt_translation_cache_t *cache,
    void *mem, size_t size, uint32_t longest, hymt_error_t *err);

/*
 * The text of a key, not older than ttl seconds at `now` (seconds of
 * hymt_now_ns(), not 0), into buf [cache->longest].  HYMT_OK or HYMT_DECLINED.
 * Its bytes are somebody else's word: check what must be UTF-8.
 */
hymt_status_t hymt_translation_cache_find(const hymt_translation_cache_t *cache,
    const unsigned char key[HYMT_TRANSLATION_KEY], uint32_t now, uint32_t ttl,
    char *buf, hymt_translation_t *found);

/*
 * Keeps a text [t->len]; any other of that key goes.  HYMT_OK; HYMT_AGAIN: kept
 * in the place of another key's text that was not older than ttl;
 * HYMT_DECLINED: not kept, too long or somebody is writing there.
 */
hymt_status_t hymt_translation_cache_store(hymt_translation_cache_t *cache,
    const unsigned char key[HYMT_TRANSLATION_KEY], uint32_t now, uint32_t ttl,
    const char *text, const hymt_translation_t *t);


#endif /* HYMT_TRANSLATION_CACHE_H */
