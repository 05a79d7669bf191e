/*
 * translation_cache_test.c - translation_cache.h and fingerprint.h: what is
 * kept and what goes, entries torn at every word, hostile memory, writers that
 * die, several processes at once.
 */

#include "fingerprint.h"
#include "translation_cache.h"
#include "tap.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>


#define LONGEST  4000
#define TTL      100
#define SIZE     (3 * 8 * 4080 * 4)


typedef struct {
    hymt_translation_cache_t   cache;
    uint64_t                  *mem;
    size_t                     size;
    uint32_t                   longest;
} table_t;


static uint64_t  seed;


static uint64_t
rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;

    return seed;
}


/* Exactly as large as it says, so that sanitizers see what goes beyond. */
static void
table_open(table_t *t, size_t size, uint32_t longest)
{
    hymt_error_t  err;

    t->size = size;
    t->longest = longest;
    t->mem = calloc(1, size);

    if (hymt_translation_cache_view(&t->cache, t->mem, size, longest, &err)
        != HYMT_OK)
    {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
}


static void
table_close(table_t *t)
{
    free(t->mem);
}


static void
key_of(uint64_t n, unsigned char key[HYMT_TRANSLATION_KEY])
{
    hymt_sha256_t  sha;

    hymt_sha256_init(&sha);
    hymt_sha256_update(&sha, &n, sizeof(n));
    hymt_sha256_final(&sha, key);
}


/* A text that is the key's alone. */
static uint32_t
text_of(uint64_t n, char *text)
{
    uint32_t  i, len;

    len = (uint32_t) (n * 2654435761u % LONGEST);

    for (i = 0; i < len; i++) {
        text[i] = (char) ('a' + (n + i * 7) % 26);
    }

    return len;
}


static hymt_status_t
put(table_t *t, uint64_t n, uint32_t now)
{
    char                text[LONGEST];
    unsigned char       key[HYMT_TRANSLATION_KEY];
    hymt_translation_t  e;

    key_of(n, key);

    e.len = text_of(n, text);
    e.prompt_tokens = (uint32_t) n + 1;
    e.completion_tokens = (uint32_t) n + 2;

    return hymt_translation_cache_store(&t->cache, key, now, TTL, text, &e);
}


/* 1: found and right; 0: not found; -1: found and wrong. */
static int
get(table_t *t, uint64_t n, uint32_t now)
{
    int                 rc;
    char                want[LONGEST], *buf;
    uint32_t            len;
    unsigned char       key[HYMT_TRANSLATION_KEY];
    hymt_translation_t  e;

    key_of(n, key);
    buf = malloc(t->longest);
    rc = 0;

    if (hymt_translation_cache_find(&t->cache, key, now, TTL, buf, &e)
        == HYMT_OK)
    {
        len = text_of(n, want);
        rc = (e.len == len && memcmp(buf, want, len) == 0
              && e.prompt_tokens == n + 1 && e.completion_tokens == n + 2)
             ? 1 : -1;
    }

    free(buf);

    return rc;
}


static void
test_keeps(void)
{
    int                 found, wrong;
    table_t             t;
    uint64_t            i;
    unsigned char       key[HYMT_TRANSLATION_KEY];
    hymt_translation_t  e = { 0, 1, 2 };

    table_open(&t, SIZE, LONGEST);

    is_int(get(&t, 1, 10), 0, "empty: nothing is found");
    is_int(put(&t, 1, 10), HYMT_OK, "stored");
    is_int(get(&t, 1, 10), 1, "found");
    is_int(get(&t, 2, 10), 0, "another key is not");

    for (i = 0; i < 16; i++) {
        put(&t, i, 10);
    }

    for (found = 0, i = 0; i < 16; i++) {
        found += get(&t, i, 11) == 1;
    }

    is_int(found, 16, "all of a few are found");

    /* time */

    is_int(get(&t, 1, 10 + TTL), 1, "ttl: at its end");
    is_int(get(&t, 1, 10 + TTL + 1), 0, "ttl: past it");
    is_int(get(&t, 1, 9), 0, "one from the future is none");
    is_int(put(&t, 1, 500), HYMT_OK, "ttl: stored anew");
    is_int(get(&t, 1, 500), 1, "ttl: and found");

    /* the ends of lengths */

    key_of(77, key);
    is_int(hymt_translation_cache_store(&t.cache, key, 10, TTL, "", &e),
           HYMT_OK, "an empty text");

    e.len = LONGEST + 1;
    is_int(hymt_translation_cache_store(&t.cache, key, 10, TTL, "", &e),
           HYMT_DECLINED, "one that is too long");

    /* more than fits: nothing wrong, the newest are there */

    for (found = 0, i = 1000; i < 3000; i++) {
        found += put(&t, i, 600) != HYMT_DECLINED;
    }

    is_int(found, 2000, "overfull: all are taken");

    for (found = 0, wrong = 0, i = 1000; i < 3000; i++) {
        found += get(&t, i, 600) == 1;
        wrong += get(&t, i, 600) == -1;
    }

    is_int(wrong, 0, "overfull: none is wrong");
    ok(found > 50 && found < 2000, "overfull: %d of 2000 are there", found);
    is_int(get(&t, 2999, 600), 1, "overfull: the last one is");

    table_close(&t);
}


/* What is used stays, what is not goes: one set, so all compete. */
static void
test_least_recently_used(void)
{
    int                 i, kept;
    char                buf[64];
    table_t             t;
    unsigned char       key[HYMT_TRANSLATION_KEY];
    hymt_translation_t  e = { 3, 0, 0 };
    hymt_status_t       rc;

    table_open(&t, 8 * 136, 64);

    is_int(t.cache.n_classes, 1, "lru: one class");
    is_int(t.cache.class[0].n_sets, 1, "lru: one set");

    for (i = 0; i < 8; i++) {
        key_of((uint64_t) i, key);
        hymt_translation_cache_store(&t.cache, key, 10, TTL, "abc", &e);
    }

    for (i = 1; i < 8; i++) {
        key_of((uint64_t) i, key);
        hymt_translation_cache_find(&t.cache, key, 20, TTL, buf, &e);
    }

    key_of(100, key);
    rc = hymt_translation_cache_store(&t.cache, key, 20, TTL, "abc", &e);

    is_int(rc, HYMT_AGAIN, "lru: another one has to go");

    for (kept = 0, i = 1; i < 8; i++) {
        key_of((uint64_t) i, key);
        kept += hymt_translation_cache_find(&t.cache, key, 20, TTL, buf, &e)
                == HYMT_OK;
    }

    is_int(kept, 7, "lru: not what was used");

    key_of(0, key);
    is_int(hymt_translation_cache_find(&t.cache, key, 20, TTL, buf, &e),
           HYMT_DECLINED, "lru: but what was not");

    key_of(101, key);
    rc = hymt_translation_cache_store(&t.cache, key, 21 + TTL, TTL, "abc", &e);
    is_int(rc, HYMT_OK, "lru: one that is too old is not missed");

    table_close(&t);
}


/* A text that grows moves to another class and leaves nothing behind. */
static void
test_moves(void)
{
    int                 i;
    char                text[LONGEST], buf[LONGEST];
    table_t             t;
    uint32_t            lens[] = { 10, 300, 3900, 5, 950, 184, 185, 0 };
    unsigned char       key[HYMT_TRANSLATION_KEY];
    hymt_translation_t  e;

    table_open(&t, SIZE, LONGEST);
    key_of(5, key);

    for (i = 0; i < (int) hymt_nelts(lens); i++) {
        memset(text, 'a' + i, sizeof(text));
        e = (hymt_translation_t) { lens[i], 1, 1 };

        is_int(hymt_translation_cache_store(&t.cache, key, 10, TTL, text, &e),
               HYMT_OK, "moves: %u bytes", lens[i]);
        is_int(hymt_translation_cache_find(&t.cache, key, 10, TTL, buf, &e),
               HYMT_OK, "moves: found");
        ok(e.len == lens[i] && memcmp(buf, text, e.len) == 0,
           "moves: the newest");
    }

    table_close(&t);
}


/* A write that ended after any of its words: never a wrong text. */
static void
test_torn(void)
{
    int        wrong, found;
    size_t     i, cut, words, changed, at[2 * LONGEST];
    table_t    t;
    uint64_t  *before, *after;

    table_open(&t, SIZE, LONGEST);
    words = SIZE / 8;
    before = malloc(SIZE);
    after = malloc(SIZE);

    /* two keys of one place: the second is written over the first */

    for (i = 0; i < 100; i++) {
        put(&t, i, 10);
    }

    memcpy(before, t.mem, SIZE);
    put(&t, 1000003, 20);
    memcpy(after, t.mem, SIZE);

    for (changed = 0, i = 0; i < words; i++) {
        if (before[i] != after[i]) {
            at[changed++] = i;
        }
    }

    ok(changed > 10, "torn: %zu words are written", changed);

    for (wrong = 0, found = 0, cut = 0; cut <= changed; cut++) {

        /* in order, in reverse order, and any of them */

        for (i = 0; i < 3; i++) {
            size_t  k;

            memcpy(t.mem, before, SIZE);

            for (k = 0; k < changed; k++) {
                if (i == 0 ? k < cut : i == 1 ? k >= cut : rnd() & 1) {
                    t.mem[at[k]] = after[at[k]];
                }
            }

            found += get(&t, 1000003, 20) == 1;
            wrong += get(&t, 1000003, 20) == -1;

            for (k = 0; k < 100; k++) {
                wrong += get(&t, k, 20) == -1;
            }
        }
    }

    is_int(wrong, 0, "torn: no wrong text");
    ok(found >= 2, "torn: whole ones are found (%d)", found);

    free(before);
    free(after);
    table_close(&t);
}


/* The one who wrote is dead: the place serves again, ten seconds later. */
static void
test_dead_writer(void)
{
    size_t    i;
    table_t   t;
    uint64_t  mine;

    table_open(&t, SIZE, LONGEST);

    put(&t, 1, 10);

    /* its sequence number is the word that an odd one belongs in */

    for (i = 0; t.mem[i] == 0; i++) { /* void */ }

    mine = t.mem[i];
    t.mem[i] = (mine | (uint64_t) 1 << 32) >> 32 << 32 | 10;

    is_int(get(&t, 1, 11), 0, "dead writer: its entry is not found");
    is_int(put(&t, 1, 12), HYMT_DECLINED,
           "dead writer: for a while it may be alive");
    is_int(put(&t, 1, 10 + HYMT_TRANSLATION_STALE + 1), HYMT_OK,
           "dead writer: then not any more");
    is_int(get(&t, 1, 30), 1, "dead writer: the place serves again");

    table_close(&t);
}


/* Memory full of nonsense, and of right entries with a bit turned. */
static void
test_hostile(void)
{
    int       round, wrong, found;
    size_t    i, word;
    table_t   t;
    uint64_t  key[HYMT_TRANSLATION_KEY / 8], k;

    table_open(&t, SIZE, LONGEST);

    for (wrong = 0, round = 0; round < 20; round++) {

        for (i = 0; i < SIZE / 8; i++) {
            t.mem[i] = round % 2 ? rnd() : UINT64_MAX;
        }

        /* every key is everywhere */

        for (k = 0; k < 50; k++) {
            key_of(k, (unsigned char *) key);

            for (i = 3 + (rnd() % 64) * 32; i + 4 < SIZE / 8; i += 34) {
                memcpy(&t.mem[i], key, sizeof(key));
            }

            wrong += get(&t, k, 50) == -1;
            (void) put(&t, k, 50);
            wrong += get(&t, k, 50) == -1;
        }
    }

    is_int(wrong, 0, "nonsense: nothing is found in it");

    table_close(&t);
    table_open(&t, SIZE, LONGEST);

    for (k = 0; k < 64; k++) {
        put(&t, k, 10);
    }

    for (wrong = 0, found = 0, round = 0; round < 20000; round++) {
        word = rnd() % (SIZE / 8);
        t.mem[word] ^= (uint64_t) 1 << rnd() % 64;

        k = rnd() % 64;
        i = (size_t) get(&t, k, 10);
        wrong += (int) i == -1;
        found += (int) i == 1;
    }

    is_int(wrong, 0, "turned bits: no wrong text (%d right ones)", found);

    table_close(&t);
}


/* Writers that are killed at any time, readers beside them. */
static void
test_processes(void)
{
    int              status, i;
    pid_t            pid[3];
    table_t          t, own;
    uint64_t        *wrong, *found, k;
    struct timespec  pause = { 0, 0 };

    table_open(&own, SIZE, LONGEST);
    t = own;

    t.mem = mmap(NULL, SIZE + 4096, PROT_READ|PROT_WRITE,
                 MAP_SHARED|MAP_ANONYMOUS, -1, 0);
    t.cache.mem = (char *) t.mem;
    wrong = t.mem + SIZE / 8;
    found = wrong + 1;

    for (i = 0; i < 3; i++) {
        pid[i] = 0;
    }

    for (k = 0; k < 60; k++) {
        i = (int) (k % 3);

        if (pid[i]) {
            kill(pid[i], SIGKILL);
            waitpid(pid[i], &status, 0);
        }

        seed += k + 1;
        pid[i] = fork();

        if (pid[i] == 0) {
            uint32_t  now;

            seed += (uint64_t) getpid();

            /* its clock goes fast, so that dead writers are found dead */

            for (now = (uint32_t) (k * 7 + 1); /* void */ ; now++) {
                uint32_t  n;

                for (n = 0; n < 50; n++) {
                    int  rc;

                    (void) put(&t, rnd() % 300, now);
                    rc = get(&t, rnd() % 300, now);

                    if (rc == -1) {
                        __atomic_fetch_add(wrong, 1, __ATOMIC_RELAXED);
                    }

                    if (rc == 1) {
                        __atomic_fetch_add(found, 1, __ATOMIC_RELAXED);
                    }
                }
            }
        }

        pause.tv_nsec = (long) (rnd() % 20000000);
        nanosleep(&pause, NULL);
    }

    for (i = 0; i < 3; i++) {
        kill(pid[i], SIGKILL);
        waitpid(pid[i], &status, 0);
    }

    is_int(*wrong, 0, "processes: no wrong text in %" PRIu64, *found);
    ok(*found > 100, "processes: but right ones");

    /* what they left can all be written again */

    for (i = 0, k = 0; k < 300; k++) {
        i += put(&t, k, 1000000) != HYMT_DECLINED
             && get(&t, k, 1000000) == 1;
    }

    is_int(i, 300, "processes: no place is lost");

    munmap(t.mem, SIZE + 4096);
    table_close(&own);
}


static void
test_view(void)
{
    hymt_error_t              err;
    hymt_translation_cache_t  cache;
    char                      mem[64];
    uint32_t                  i, longest;
    size_t                    size, end;
    int                       bad;

    is_int(hymt_translation_cache_view(&cache, mem, sizeof(mem), 4000, &err),
           HYMT_ERROR, "view: too small");
    has_str(err.text, "are needed", "view: says how much");
    is_int(hymt_translation_cache_view(&cache, mem, 1 << 20, 0, &err),
           HYMT_ERROR, "view: no text at all");
    is_int(hymt_translation_cache_view(&cache, mem, 1 << 20,
                                       HYMT_TRANSLATION_MAX + 1, &err),
           HYMT_ERROR, "view: texts that are too long");

    for (bad = 0, i = 0; i < 20000; i++) {
        longest = 1 + (uint32_t) (rnd() % HYMT_TRANSLATION_MAX);
        size = rnd() % (64 << 20);

        if (hymt_translation_cache_view(&cache, NULL, size, longest, NULL)
            != HYMT_OK)
        {
            continue;
        }

        end = cache.class[cache.n_classes - 1].at
              + cache.class[cache.n_classes - 1].n_sets
                * HYMT_TRANSLATION_WAYS
                * cache.class[cache.n_classes - 1].place;

        bad += end > size || cache.n_classes > HYMT_TRANSLATION_CLASSES;
    }

    is_int(bad, 0, "view: never larger than its memory");
}


static void
write_file(const char *dir, const char *name, const void *data, size_t len)
{
    FILE  *f;
    char   path[512];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "w");

    if (f != NULL) {
        fwrite(data, 1, len, f);
        fclose(f);
    }
}


static void
test_fingerprint(void)
{
    char              dir[] = "/tmp/hymt-fingerprint-XXXXXX", path[512];
    hymt_error_t      err;
    unsigned char     a[HYMT_SHA256_SIZE], b[HYMT_SHA256_SIZE];
    const char       *names[] = { "config.json", "tokenizer.json", "README",
                                  "model.safetensors" };
    size_t            i;
    struct timespec   times[2] = { { 1000, 1 }, { 1000, 1 } };

    char  tensors[] = "\x08\0\0\0\0\0\0\0{\"a\":11}data";

    is_int(hymt_fingerprint("/nowhere", a, &err), HYMT_ERROR,
           "fingerprint: no directory");
    has_str(err.text, "/nowhere", "fingerprint: says which");

    if (mkdtemp(dir) == NULL) {
        ok(0, "fingerprint: a folder");
        return;
    }

    write_file(dir, "config.json", "{}", 2);
    write_file(dir, "tokenizer.json", "{}", 2);
    write_file(dir, "README", "x", 1);
    write_file(dir, "model.safetensors", tensors, sizeof(tensors) - 1);

    snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    utimensat(AT_FDCWD, path, times, 0);

    is_int(hymt_fingerprint(dir, a, &err), HYMT_OK, "fingerprint: made");
    is_int(hymt_fingerprint(dir, b, &err), HYMT_OK, "fingerprint: again");
    ok(memcmp(a, b, sizeof(a)) == 0, "fingerprint: the same");

    write_file(dir, "README", "xy", 2);
    hymt_fingerprint(dir, b, &err);
    ok(memcmp(a, b, sizeof(a)) == 0, "fingerprint: of what matters");

    write_file(dir, "config.json", "[]", 2);
    hymt_fingerprint(dir, b, &err);
    ok(memcmp(a, b, sizeof(a)) != 0, "fingerprint: another config");

    write_file(dir, "config.json", "{}", 2);
    write_file(dir, "tokenizer.json", "{}\n", 3);
    hymt_fingerprint(dir, b, &err);
    ok(memcmp(a, b, sizeof(a)) != 0, "fingerprint: another tokenizer");

    write_file(dir, "tokenizer.json", "{}", 2);
    tensors[11] = 'b';
    write_file(dir, "model.safetensors", tensors, sizeof(tensors) - 1);
    utimensat(AT_FDCWD, path, times, 0);
    hymt_fingerprint(dir, b, &err);
    ok(memcmp(a, b, sizeof(a)) != 0, "fingerprint: another header");

    tensors[11] = 'a';
    write_file(dir, "model.safetensors", tensors, sizeof(tensors) - 1);
    times[1].tv_nsec = 2;
    utimensat(AT_FDCWD, path, times, 0);
    hymt_fingerprint(dir, b, &err);
    ok(memcmp(a, b, sizeof(a)) != 0, "fingerprint: written at another time");

    /* a header that claims to be longer than the file */

    memset(tensors, 0xff, 8);
    write_file(dir, "model.safetensors", tensors, sizeof(tensors) - 1);
    is_int(hymt_fingerprint(dir, b, &err), HYMT_OK,
           "fingerprint: of a broken file, too");

    for (i = 0; i < hymt_nelts(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        unlink(path);
    }

    rmdir(dir);
}


/* Pieces of any length give what the whole gives. */
static void
test_sha256(void)
{
    int            round, wrong;
    char           text[300];
    size_t         i, n, at;
    hymt_sha256_t  s;
    unsigned char  a[HYMT_SHA256_SIZE], b[HYMT_SHA256_SIZE];

    for (wrong = 0, round = 0; round < 2000; round++) {
        n = rnd() % sizeof(text);

        for (i = 0; i < n; i++) {
            text[i] = (char) rnd();
        }

        hymt_sha256_init(&s);
        hymt_sha256_update(&s, text, n);
        hymt_sha256_final(&s, a);

        hymt_sha256_init(&s);

        for (at = 0; at < n; at += i) {
            i = rnd() % 80;
            i = hymt_min(i, n - at);
            hymt_sha256_update(&s, text + at, i);
        }

        hymt_sha256_final(&s, b);
        wrong += memcmp(a, b, sizeof(a)) != 0;
    }

    is_int(wrong, 0, "sha256: in pieces");
}


int
main(void)
{
    seed = (uint64_t) time(NULL) * 2654435761u + 1;
    printf("# seed %" PRIu64 "\n", seed);

    test_sha256();
    test_view();
    test_keeps();
    test_least_recently_used();
    test_moves();
    test_torn();
    test_dead_writer();
    test_hostile();
    test_processes();
    test_fingerprint();

    return tap_done();
}
