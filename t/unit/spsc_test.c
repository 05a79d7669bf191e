/*
 * spsc_test.c - the ring of spsc.h, alone and between two threads.
 */

#include "spsc.h"
#include "tap.h"

#include <pthread.h>
#include <sched.h>


#define N_ITEMS  300000
#define SECONDS  3           /* or fewer items, where others want processors */


typedef struct {
    uint64_t  number;
    uint64_t  check;
} item_t;


static item_t            items[N_ITEMS];
static hymt_spsc_t       ring;
static _Atomic uint64_t  made;      /* by the producer, once it has ended */


static void
test_alone(void)
{
    int           i, v[8];
    bool          order;
    uint32_t      round;
    hymt_error_t  err;

    is_int(hymt_spsc_init(&ring, 0, &err), HYMT_ERROR, "no ring of 0");
    has_str(err.text, "a ring of 0 entries", "the error says so");
    is_int(hymt_spsc_init(&ring, UINT32_MAX, &err), HYMT_ERROR,
           "no ring of 2^32");

    is_int(hymt_spsc_init(&ring, 5, &err), HYMT_OK, "a ring for 5");
    is_int(ring.mask, 7, "is one of 8");
    ok(hymt_spsc_empty(&ring), "empty at first");
    ok(hymt_spsc_pop(&ring) == NULL, "nothing to pop");

    for (i = 0; i < 8; i++) {
        hymt_spsc_push(&ring, &v[i]);
    }

    ok(!hymt_spsc_push(&ring, &v[0]), "the ninth does not fit");
    ok(!hymt_spsc_empty(&ring), "not empty");

    for (i = 0, order = true; i < 8; i++) {
        order = order && hymt_spsc_pop(&ring) == &v[i];
    }

    ok(order, "first in, first out");
    ok(hymt_spsc_empty(&ring), "empty again");

    /* indexes wrap */

    atomic_store(&ring.head, UINT32_MAX - 2);
    atomic_store(&ring.tail, UINT32_MAX - 2);
    ring.head_seen = ring.tail_seen = UINT32_MAX - 2;

    for (round = 0, order = true; round < 3; round++) {
        for (i = 0; i < 8; i++) {
            order = order && hymt_spsc_push(&ring, &v[i]);
        }

        order = order && !hymt_spsc_push(&ring, &v[0]);

        for (i = 0; i < 8; i++) {
            order = order && hymt_spsc_pop(&ring) == &v[i];
        }

        order = order && hymt_spsc_pop(&ring) == NULL;
    }

    ok(order, "the same where the indexes wrap");

    hymt_spsc_free(&ring);
}


static void *
produce(void *data)
{
    uint64_t  i, end;

    (void) data;

    end = hymt_now_ns() + SECONDS * 1000000000ull;

    for (i = 0; i < N_ITEMS; i++) {

        if (i % 64 == 63 && hymt_now_ns() >= end) {
            break;
        }

        items[i].number = i;
        items[i].check = ~i;

        while (!hymt_spsc_push(&ring, &items[i])) {
            sched_yield();
        }
    }

    atomic_store(&made, i);

    return NULL;
}


static void
test_two_threads(uint32_t size)
{
    bool        good, ended;
    item_t     *item;
    uint64_t    n;
    pthread_t   thread;

    good = true;
    memset(items, 0, sizeof(items));
    atomic_store(&made, 0);
    hymt_spsc_init(&ring, size, NULL);
    pthread_create(&thread, NULL, produce, NULL);

    for (n = 0; /* void */ ; n++) {

        do {
            ended = atomic_load(&made) != 0;
            item = hymt_spsc_pop(&ring);
        } while (item == NULL && !ended && sched_yield() == 0);

        if (item == NULL) {
            break;
        }

        good = good && item->number == n && item->check == ~n;
    }

    ok(good, "%" PRIu64 " items through a ring of %u: in order, whole", n,
       size);
    is_int(n, atomic_load(&made), "all");
    ok(hymt_spsc_empty(&ring), "and no more");

    pthread_join(thread, NULL);
    hymt_spsc_free(&ring);
}


int
main(void)
{
    test_alone();
    test_two_threads(1);
    test_two_threads(64);
    test_two_threads(1024);

    return tap_done();
}
