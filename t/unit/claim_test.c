/*
 * claim_test.c - engines that take memory in turns: see claim.h.
 */

#include "claim.h"
#include "process.h"
#include "tap.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>


#define HERE       HYMT_CLAIM_HOST
#define ELSEWHERE  77

#define N_LOADERS  6
#define ROOM       100


/* Shared by all processes of the test. */
typedef struct {
    hymt_claims_t     claims;
    _Atomic int64_t   left;        /* of ROOM */
    _Atomic uint32_t  overrun;
    _Atomic uint32_t  loads;
    _Atomic uint32_t  together;    /* loads beside another one */
    _Atomic uint32_t  loading;
} shared_t;


static shared_t      *shared;
static uint64_t       room;
static hymt_error_t   err;


static hymt_status_t
room_free(void *data, uint64_t *bytes, hymt_error_t *e)
{
    (void) data;

    if (room == UINT64_MAX) {
        return hymt_fail(e, "no room is known");
    }

    *bytes = room;

    return HYMT_OK;
}


static hymt_status_t
ask(hymt_claim_t *claim, uint64_t place, uint64_t bytes, uint64_t *held)
{
    uint64_t  free_bytes;

    return hymt_claim_ask(claim, place, bytes, room_free, NULL, &free_bytes,
                          held, &err);
}


static void
test_one(void)
{
    char           text[HYMT_CLAIM_TEXT];
    uint64_t       held;
    hymt_claim_t   a;

    room = 10;

    hymt_claim_init(&a, NULL, 1);
    is_int(ask(&a, HERE, 10, &held), HYMT_OK, "alone: all there is");
    is_int(ask(&a, HERE, 11, &held), HYMT_AGAIN, "alone: not more");
    ok(!a.busy, "and nobody is in the way");
    is_int(ask(NULL, HERE, 10, &held), HYMT_OK, "without a claim: the same");
    is_int(ask(NULL, HERE, 11, &held), HYMT_AGAIN, "not more");
    hymt_claim_took(NULL, 1);
    hymt_claim_drop(&a);

    hymt_claim_init(&a, &shared->claims, 1);
    is_int(ask(&a, HERE, 10, &held), HYMT_OK, "in a table: all there is");
    is_int(ask(&a, HERE, 11, &held), HYMT_AGAIN, "not more");
    is_int(ask(&a, HERE, 10, &held), HYMT_OK,
           "its own claim is not in its way");

    room = UINT64_MAX;
    is_int(ask(&a, HERE, 1, &held), HYMT_ERROR, "what is free is not known");
    is_str(err.text, "no room is known", "an error");
    is_int(a.own, HYMT_CLAIMS, "it claims nothing");

    is_str(hymt_claim_text(0, text), "", "nothing is held: nothing is said");
    is_str(hymt_claim_text(7900000, text),
           ", 7 MB of them for engines that load", "else how much");
}


static void
test_two(void)
{
    uint64_t      held;
    hymt_claim_t  a, b;

    room = 10;
    hymt_claim_init(&a, &shared->claims, 1);
    hymt_claim_init(&b, &shared->claims, 1);

    is_int(ask(&a, HERE, 6, &held), HYMT_OK, "six of ten");
    is_int(ask(&b, HERE, 6, &held), HYMT_AGAIN, "then not six more");
    ok(b.busy, "which would be there but for one that loads");
    is_int(held, 6, "of six");
    is_int(ask(&b, HERE, 11, &held), HYMT_AGAIN, "eleven are not there");
    ok(b.busy, "what one that loads gives back may be part of them");
    is_int(ask(&b, ELSEWHERE, 6, &held), HYMT_OK, "six of another place");
    is_int(ask(&b, HERE, 4, &held), HYMT_OK, "four more");

    /* it has loaded: that is seen in what is free */

    room = 4;
    hymt_claim_drop(&a);
    hymt_claim_drop(&b);
    is_int(ask(&b, HERE, 6, &held), HYMT_AGAIN, "when it has loaded");
    ok(!b.busy, "nothing comes back");
    is_int(held, 0, "and nothing is held");
    is_int(ask(&b, HERE, 4, &held), HYMT_OK, "four are left");
    hymt_claim_drop(&b);

    room = 10;
    is_int(ask(&a, HERE, 6, &held), HYMT_OK, "six of ten");
    room = 5;
    hymt_claim_took(&a, 1);
    is_int(ask(&b, HERE, 5, &held), HYMT_AGAIN, "of which five were taken");
    is_int(held, 1, "one is still held");
    is_int(ask(&b, HERE, 4, &held), HYMT_OK, "beside it are four");

    hymt_claim_wait(&a);
    is_int(ask(&b, HERE, 5, &held), HYMT_OK,
           "what could not be taken is for others");
    hymt_claim_drop(&a);
    hymt_claim_drop(&b);

    /* who waits is not in the way of those beside it */

    is_int(ask(&a, HERE, 8, &held), HYMT_AGAIN, "eight of five");
    is_int(ask(&b, HERE, 4, &held), HYMT_OK, "another one's four");
    hymt_claim_drop(&a);
    hymt_claim_drop(&b);
}


static void
test_ranks(void)
{
    uint64_t      held;
    hymt_claim_t  old, young;

    room = 5;
    hymt_claim_init(&old, &shared->claims, 2);
    hymt_claim_init(&young, &shared->claims, 3);

    is_int(ask(&old, HERE, 8, &held), HYMT_AGAIN, "the older one waits");
    is_int(ask(&young, HERE, 8, &held), HYMT_AGAIN, "the newer one, too");

    room = 10;
    is_int(ask(&old, HERE, 8, &held), HYMT_AGAIN,
           "there is enough for one: not for the older");
    ok(!old.busy, "for whom nothing loads");
    is_int(held, 8, "but is kept");
    is_int(ask(&young, HERE, 8, &held), HYMT_OK, "it is the newer one's");
    is_int(ask(&old, HERE, 8, &held), HYMT_AGAIN, "the older one");
    ok(old.busy, "waits for what it comes to");
    hymt_claim_drop(&young);
    is_int(ask(&old, HERE, 8, &held), HYMT_OK, "which may be nothing");

    is_int(ask(&young, HERE, 8, &held), HYMT_AGAIN,
           "an older one that loads is waited for");
    ok(young.busy, "until it has");
    hymt_claim_drop(&old);

    /* what has been taken in part and given back is asked for whole */

    is_int(ask(&young, HERE, 8, &held), HYMT_OK, "the newer one maps");
    hymt_claim_took(&young, 1);
    hymt_claim_wait(&young);
    is_int(ask(&old, HERE, 8, &held), HYMT_AGAIN, "and can't go on: its place");
    is_int(held, 8, "is kept whole");
    hymt_claim_drop(&young);
    hymt_claim_drop(&old);

    /* a small newer one does not wait for a large older one */

    is_int(ask(&old, HERE, 11, &held), HYMT_AGAIN, "a large one waits");
    is_int(ask(&young, HERE, 3, &held), HYMT_OK, "a small newer one does not");

    hymt_claim_drop(&old);
    hymt_claim_drop(&young);
}


/* At each look another one takes its three and lets go of them, just after. */
static hymt_status_t
room_shrinks(void *data, uint64_t *bytes, hymt_error_t *e)
{
    hymt_claim_t  **next = data;

    (void) e;

    *bytes = room;

    if ((*next)->own != HYMT_CLAIMS) {
        room -= 3;
        hymt_claim_drop((*next)++);
    }

    return HYMT_OK;
}


static void
test_between(void)
{
    uint64_t       held, free_bytes;
    hymt_claim_t   a, others[3], *next;

    room = 10;
    hymt_claim_init(&a, &shared->claims, 1);
    hymt_claim_init(&others[0], &shared->claims, 1);
    hymt_claim_init(&others[1], &shared->claims, 1);
    hymt_claim_init(&others[2], NULL, 1);

    is_int(ask(&others[0], HERE, 3, &held), HYMT_OK, "three");
    is_int(ask(&others[1], HERE, 3, &held), HYMT_OK, "three more");

    next = others;
    is_int(hymt_claim_ask(&a, HERE, 6, room_shrinks, &next, &free_bytes, &held,
                          &err),
           HYMT_AGAIN, "six are not left while they are taken");
    ok(room < 10, "as they were");

    hymt_claim_drop(&a);
    hymt_claim_drop(&others[0]);
    hymt_claim_drop(&others[1]);
}


/* One that has ten of ten and will not give them back by itself. */
static pid_t
hold(void)
{
    int           fds[2];
    char          c;
    pid_t         pid;
    uint64_t      held;
    hymt_claim_t  claim;

    if (pipe(fds) == -1) {
        return -1;
    }

    pid = fork();

    if (pid == 0) {
        room = 10;
        hymt_claim_init(&claim, &shared->claims, 9);

        if (ask(&claim, HERE, 10, &held) == HYMT_OK
            && write(fds[1], "", 1) == 1)
        {
            for ( ;; ) {
                pause();
            }
        }

        _exit(1);
    }

    close(fds[1]);

    if (read(fds[0], &c, 1) != 1) {
        pid = -1;
    }

    close(fds[0]);

    return pid;
}


static void
test_killed(void)
{
    int           i;
    pid_t         pid;
    uint64_t      held;
    hymt_claim_t  a;

    room = 10;
    hymt_claim_init(&a, &shared->claims, 1);

    /* again and again: the entry of one that was killed is used again */

    for (i = 0; i < 3; i++) {
        pid = hold();
        ok(pid > 0, "another process holds all");
        is_int(ask(&a, HERE, 1, &held), HYMT_AGAIN, "nothing is left");
        ok(a.busy, "as long as it loads");

        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);

        is_int(ask(&a, HERE, 10, &held), HYMT_OK, "killed: it holds nothing");
        hymt_claim_drop(&a);
    }
}


/* A pid that is another process's now, and a table that lies. */
static void
test_lies(void)
{
    uint32_t             i;
    uint64_t             held, self;
    hymt_claim_t         a, b;
    hymt_claim_entry_t  *entry;

    room = 10;
    self = hymt_process(getpid());
    hymt_claim_init(&a, &shared->claims, 1);
    entry = shared->claims.entry;

    for (i = 0; i < HYMT_CLAIMS; i++) {
        entry[i].owner = self - 1;
        entry[i].rank = UINT64_MAX;
        entry[i].place = HERE;
        entry[i].bytes = UINT64_MAX / 2;
        entry[i].state = 1 + i % 4;
    }

    is_int(ask(&a, HERE, 10, &held), HYMT_OK, "claims of nobody are none");
    is_int(held, 0, "nothing is held");
    hymt_claim_drop(&a);

    for (i = 0; i < HYMT_CLAIMS; i++) {
        entry[i].owner = self;
    }

    is_int(ask(&a, HERE, 10, &held), HYMT_AGAIN, "a table full of claims");
    ok(a.busy, "is waited for");
    is_int(a.own, HYMT_CLAIMS, "outside of it");

    entry[5].owner = 0;
    is_int(ask(&a, HERE, 1, &held), HYMT_AGAIN, "claims of more than there is");
    ok(held == UINT64_MAX, "are no small number for that");
    hymt_claim_drop(&a);

    memset(&shared->claims, 0xff, sizeof(shared->claims));
    hymt_claim_init(&b, &shared->claims, 1);
    is_int(ask(&a, HERE, 6, &held), HYMT_OK, "nonsense all over it");
    is_int(ask(&b, HERE, 6, &held), HYMT_AGAIN, "is a table like another");
    hymt_claim_drop(&a);
    hymt_claim_drop(&b);

    memset(&shared->claims, 0, sizeof(shared->claims));
}


/* What it says may be old by then. */
static hymt_status_t
shared_free(void *data, uint64_t *bytes, hymt_error_t *e)
{
    int64_t          left;
    struct timespec  ts;

    (void) data;
    (void) e;

    left = shared->left;
    *bytes = left > 0 ? (uint64_t) left : 0;

    if (random() % 8 == 0) {
        ts.tv_sec = 0;
        ts.tv_nsec = random() % 4000000;
        nanosleep(&ts, NULL);
    }

    return HYMT_OK;
}


/*
 * Loads again and again, each time so much; what it was let to it takes later,
 * and gives back when it has been seen for a while.
 */
static void
load(uint32_t me, uint64_t end)
{
    uint64_t         bytes, free_bytes, held;
    hymt_claim_t     claim;
    hymt_error_t     e;
    struct timespec  ts;

    srandom(me + 1);
    hymt_claim_init(&claim, &shared->claims, me / 2);

    while (hymt_now_ns() < end) {
        bytes = 20 + (uint64_t) random() % 60;

        if (hymt_claim_ask(&claim, HERE, bytes, shared_free, NULL,
                           &free_bytes, &held, &e) != HYMT_OK)
        {
            if (random() % 4 == 0) {
                hymt_claim_drop(&claim);
            }

            ts.tv_sec = 0;
            ts.tv_nsec = random() % 200000;
            nanosleep(&ts, NULL);
            continue;
        }

        if (shared->loading++ > 0) {
            shared->together++;
        }

        ts.tv_sec = 0;
        ts.tv_nsec = random() % 2000000;
        nanosleep(&ts, NULL);

        if (atomic_fetch_sub(&shared->left, (int64_t) bytes)
            < (int64_t) bytes)
        {
            shared->overrun++;
        }

        shared->loading--;
        shared->loads++;
        hymt_claim_drop(&claim);

        ts.tv_nsec = random() % 500000;
        nanosleep(&ts, NULL);
        shared->left += (int64_t) bytes;
    }

    hymt_claim_drop(&claim);
}


static void
test_many(void)
{
    int       status;
    pid_t     pid[N_LOADERS];
    uint32_t  i, ended;
    uint64_t  end;

    shared->left = ROOM;
    end = hymt_now_ns() + UINT64_C(1500000000);

    for (i = 0; i < N_LOADERS; i++) {
        pid[i] = fork();

        if (pid[i] == 0) {
            load(i, end);
            _exit(0);
        }
    }

    for (i = 0, ended = 0; i < N_LOADERS; i++) {
        ended += waitpid(pid[i], &status, 0) == pid[i] && status == 0;
    }

    is_int(ended, N_LOADERS, "so many processes load as fast as they can");
    is_int(shared->overrun, 0, "none takes what is not there");
    ok(shared->loads > 100, "%u loads", shared->loads);
    ok(shared->together > 0, "%u of them beside another one",
       shared->together);
    is_int(shared->left, ROOM, "all is given back");

    for (i = 0, ended = 0; i < HYMT_CLAIMS; i++) {
        ended += shared->claims.entry[i].owner == 0;
    }

    is_int(ended, HYMT_CLAIMS, "no claim is left");
}


int
main(void)
{
    shared = mmap(NULL, sizeof(shared_t), PROT_READ|PROT_WRITE,
                  MAP_SHARED|MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED) {
        printf("Bail out! no shared memory\n");
        return 1;
    }

    test_one();
    test_two();
    test_ranks();
    test_between();
    test_killed();
    test_lies();
    test_many();

    return tap_done();
}
