/*
 * claim.c - see claim.h.
 */

#include "claim.h"
#include "process.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>


/* of those that had been let in at the same moment as another one */
#define HYMT_CLAIM_TRIES  20


typedef enum {
    HYMT_CLAIM_NONE = 0,
    HYMT_CLAIM_WAITS,       /* there was too little */
    HYMT_CLAIM_LOOKS,       /* whether there is enough */
    HYMT_CLAIM_HOLDS,       /* it was let to */
} hymt_claim_state_t;


static bool hymt_claim_enter(hymt_claim_t *claim, uint64_t place,
    uint64_t bytes);
static hymt_status_t hymt_claim_look(hymt_claim_t *claim, uint64_t place,
    uint64_t bytes, hymt_claim_free_fn_t fn, void *data, uint64_t *free_bytes,
    uint64_t *held, hymt_error_t *err);
static uint64_t hymt_claim_held(hymt_claim_t *claim, uint64_t place,
    bool *busy);
static void hymt_claim_state(hymt_claim_t *claim, hymt_claim_state_t state);


void
hymt_claim_init(hymt_claim_t *claim, hymt_claims_t *table, uint64_t rank)
{
    claim->table = table;
    claim->rank = rank;
    claim->process = table != NULL ? hymt_process(getpid()) : 0;
    claim->own = HYMT_CLAIMS;
    claim->busy = false;
}


hymt_status_t
hymt_claim_ask(hymt_claim_t *claim, uint64_t place, uint64_t bytes,
    hymt_claim_free_fn_t fn, void *data, uint64_t *free_bytes, uint64_t *held,
    hymt_error_t *err)
{
    uint32_t         i;
    hymt_claim_t     alone;
    hymt_status_t    rc;
    struct timespec  ms;

    if (claim == NULL) {
        hymt_claim_init(&alone, NULL, 0);
        claim = &alone;
    }

    *held = 0;
    claim->busy = false;

    /* a table that is full is full of engines that load */

    if (!hymt_claim_enter(claim, place, bytes)) {
        claim->busy = true;
        rc = fn(data, free_bytes, err);

        return rc == HYMT_OK ? HYMT_AGAIN : rc;
    }

    ms.tv_sec = 0;
    ms.tv_nsec = 1000000;

    for (i = 0; /* void */ ; i++) {
        hymt_claim_state(claim, HYMT_CLAIM_LOOKS);

        rc = hymt_claim_look(claim, place, bytes, fn, data, free_bytes, held,
                             err);
        if (rc != HYMT_OK) {
            break;
        }

        hymt_claim_state(claim, HYMT_CLAIM_HOLDS);

        rc = hymt_claim_look(claim, place, bytes, fn, data, free_bytes, held,
                             err);

        if (rc != HYMT_AGAIN || i == HYMT_CLAIM_TRIES) {
            break;
        }

        /* another one was let in meanwhile; it may have to give way, too */

        hymt_claim_state(claim, HYMT_CLAIM_LOOKS);
        (void) nanosleep(&ms, NULL);
    }

    if (rc == HYMT_AGAIN) {
        hymt_claim_wait(claim);

    } else if (rc != HYMT_OK) {
        hymt_claim_drop(claim);
    }

    return rc;
}


/* An entry of its own, with what is wanted; false: there is none. */
static bool
hymt_claim_enter(hymt_claim_t *claim, uint64_t place, uint64_t bytes)
{
    uint32_t             i;
    uint64_t             owner;
    hymt_claim_entry_t  *entry;

    if (claim->table == NULL) {
        return true;
    }

    for (i = 0; claim->own == HYMT_CLAIMS && i < HYMT_CLAIMS; i++) {
        entry = &claim->table->entry[i];
        owner = atomic_load(&entry->owner);

        if (!hymt_process_alive(owner)
            && atomic_compare_exchange_strong(&entry->owner, &owner,
                                              claim->process))
        {
            claim->own = i;
            hymt_claim_state(claim, HYMT_CLAIM_NONE);
        }
    }

    if (claim->own == HYMT_CLAIMS) {
        return false;
    }

    entry = &claim->table->entry[claim->own];

    claim->asked = bytes;

    atomic_store(&entry->rank, claim->rank);
    atomic_store(&entry->place, place);
    atomic_store(&entry->bytes, bytes);

    return true;
}


static hymt_status_t
hymt_claim_look(hymt_claim_t *claim, uint64_t place, uint64_t bytes,
    hymt_claim_free_fn_t fn, void *data, uint64_t *free_bytes, uint64_t *held,
    hymt_error_t *err)
{
    bool           busy;
    uint64_t       sum;
    hymt_status_t  rc;

    /* in this order: what is held no more was taken before */

    *held = hymt_claim_held(claim, place, &busy);

    rc = fn(data, free_bytes, err);
    if (rc != HYMT_OK) {
        return rc;
    }

    if (hymt_add_overflow(bytes, *held, &sum) || sum > *free_bytes) {
        claim->busy = busy;
        return HYMT_AGAIN;
    }

    claim->busy = false;

    return HYMT_OK;
}


/* What goes before this claim; busy: some of it is of engines that load. */
static uint64_t
hymt_claim_held(hymt_claim_t *claim, uint64_t place, bool *busy)
{
    bool                 first;
    uint32_t             i, state;
    uint64_t             sum, rank;
    hymt_claim_entry_t  *entry;

    *busy = false;
    sum = 0;

    for (i = 0; claim->table != NULL && i < HYMT_CLAIMS; i++) {
        entry = &claim->table->entry[i];
        state = atomic_load(&entry->state);

        if (state == HYMT_CLAIM_NONE || i == claim->own
            || atomic_load(&entry->place) != place)
        {
            continue;
        }

        rank = atomic_load(&entry->rank);
        first = rank > claim->rank;

        /* one that waits is not in the way of those beside it */

        if (state == HYMT_CLAIM_LOOKS) {
            first = first || (rank == claim->rank && i < claim->own);

        } else if (state == HYMT_CLAIM_HOLDS) {
            first = true;
        }

        if (!first || !hymt_process_alive(atomic_load(&entry->owner))) {
            continue;
        }

        if (hymt_add_overflow(sum, atomic_load(&entry->bytes), &sum)) {
            sum = UINT64_MAX;
        }

        *busy = *busy || state != HYMT_CLAIM_WAITS;
    }

    return sum;
}


const char *
hymt_claim_text(uint64_t held, char text[HYMT_CLAIM_TEXT])
{
    text[0] = '\0';

    if (held > 0) {
        snprintf(text, HYMT_CLAIM_TEXT, ", %" PRIu64 " MB of them for engines"
                 " that load", held / 1000000);
    }

    return text;
}


void
hymt_claim_took(hymt_claim_t *claim, uint64_t left)
{
    if (claim != NULL && claim->own != HYMT_CLAIMS) {
        atomic_store(&claim->table->entry[claim->own].bytes, left);
    }
}


void
hymt_claim_wait(hymt_claim_t *claim)
{
    /* all of it again, be it that some was taken */

    if (claim->own != HYMT_CLAIMS) {
        atomic_store(&claim->table->entry[claim->own].bytes, claim->asked);
    }

    hymt_claim_state(claim, HYMT_CLAIM_WAITS);
}


void
hymt_claim_drop(hymt_claim_t *claim)
{
    if (claim->own == HYMT_CLAIMS) {
        return;
    }

    hymt_claim_state(claim, HYMT_CLAIM_NONE);
    atomic_store(&claim->table->entry[claim->own].owner, 0);

    claim->own = HYMT_CLAIMS;
}


static void
hymt_claim_state(hymt_claim_t *claim, hymt_claim_state_t state)
{
    if (claim->own != HYMT_CLAIMS) {
        atomic_store(&claim->table->entry[claim->own].state, state);
    }
}
