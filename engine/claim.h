/*
 * claim.h - memory that engines are about to take: how they take turns.
 *
 * Between the look whether there is enough memory and the moment when it has
 * been taken an engine loads, for seconds.  Two that look meanwhile would both
 * count on what is enough for one.  So each says in a table that they share how
 * much it wants, before it looks, and has it only where there is enough for it
 * beside what others have been let to.  What it was let to counts until it lets
 * go, when it has loaded; then it is gone from what is free.
 *
 * The engines of several processes share a table, and one of a process that
 * was killed claims nothing.  Of those that wait, one of a later rank (a newer
 * configuration) goes first: what it waits for is kept from the others, so
 * that those of configurations that are given up never keep it waiting.
 *
 * No lock: who asks writes first and looks then, so of two at the same moment
 * at least one sees the other; it looks once more when it has said that it was
 * let in, so that one that goes first and took no notice of it is seen.
 *
 * Thread: any, for one claim one at a time.
 */

#ifndef HYMT_CLAIM_H
#define HYMT_CLAIM_H

#include "base.h"

#include <stdatomic.h>


#define HYMT_CLAIMS      256
#define HYMT_CLAIM_TEXT  64

/* a place: what memory; those of devices are any other numbers but 0 */
#define HYMT_CLAIM_HOST  1


typedef struct {
    _Atomic uint64_t  owner;    /* see process.h; 0: free */
    _Atomic uint64_t  rank;
    _Atomic uint64_t  place;
    _Atomic uint64_t  bytes;
    _Atomic uint32_t  state;
} hymt_claim_entry_t;


/* In memory that processes share, zero at first; nothing in it is trusted. */
typedef struct {
    hymt_claim_entry_t  entry[HYMT_CLAIMS];
} hymt_claims_t;


/* One engine's. */
struct hymt_claim_s {
    hymt_claims_t  *table;      /* NULL: there are no others */
    uint64_t        process;
    uint64_t        rank;
    uint64_t        asked;      /* bytes, last */
    uint32_t        own;        /* its entry; HYMT_CLAIMS: none */

    /* after HYMT_AGAIN: engines load.  What they hold, and what they take and
       give back on the way, may be there when they have: it has to be asked
       again then */
    bool            busy;
};

typedef struct hymt_claim_s  hymt_claim_t;


/* What is free in a place, now; on HYMT_ERROR there is no asking. */
typedef hymt_status_t (*hymt_claim_free_fn_t)(void *data, uint64_t *bytes,
    hymt_error_t *err);


/* table NULL is legal: what is free is then all there is to it. */
void hymt_claim_init(hymt_claim_t *claim, hymt_claims_t *table, uint64_t rank);

/*
 * Asks for bytes of a place; claim NULL: as one without a table.
 *
 * HYMT_OK: they may be taken, and are kept from others until hymt_claim_took()
 * or hymt_claim_drop().  HYMT_AGAIN: there are too few; it waits now, until it
 * asks again or drops.  *free_bytes is what was free, *held what others were
 * let to of that.
 */
hymt_status_t hymt_claim_ask(hymt_claim_t *claim, uint64_t place,
    uint64_t bytes, hymt_claim_free_fn_t fn, void *data, uint64_t *free_bytes,
    uint64_t *held, hymt_error_t *err);

/* For messages: how much of what is free is held; "" for nothing. */
const char *hymt_claim_text(uint64_t held, char text[HYMT_CLAIM_TEXT]);

/* All but so much has been taken: others see it in what is free.  NULL is
   legal. */
void hymt_claim_took(hymt_claim_t *claim, uint64_t left);

/* What it was let to could not be taken: it waits, as if it had too little. */
void hymt_claim_wait(hymt_claim_t *claim);

/* It claims nothing any more. */
void hymt_claim_drop(hymt_claim_t *claim);


#endif /* HYMT_CLAIM_H */
