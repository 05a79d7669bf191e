/*
 * document_private.h - what the parts of a document share.
 *
 * The output is a list of parts: bytes of the source, bytes of ours, and units.
 * A unit that is done becomes bytes; one whose translation can't be used is
 * replaced, in place, by parts of its own.
 *
 *     document.c         the public functions: queue, output
 *     document_cut.c     from the source to blocks
 *     document_block.c   from blocks to atoms
 *     document_unit.c    from atoms to units and parts
 *     document_answer.c  from a translation to bytes, or to further parts
 *     document_guard.c   what a model lets slip is taken out
 *     document_stream.c  what of an answer in the making is final
 */

#ifndef HYMT_DOCUMENT_PRIVATE_H
#define HYMT_DOCUMENT_PRIVATE_H

#include "arena.h"
#include "document.h"
#include "markup.h"
#include "placeholder.h"


#define HYMT_UNIT_BYTES  600
#define HYMT_MAX_UNITS   100000


/* What a unit is made of; atoms tile the unit's bytes in the source. */
typedef enum {
    HYMT_ATOM_TEXT = 0,    /* holds letters */
    HYMT_ATOM_SIGNS,       /* punctuation, digits: alone they are not sent */
    HYMT_ATOM_BLANK,       /* white space */
    HYMT_ATOM_HOLD,        /* placeholder, term, line end: must come back */
    HYMT_ATOM_OPEN,        /* tags: `pair` is the atom at the other end */
    HYMT_ATOM_CLOSE,
    HYMT_ATOM_VOID,
} hymt_atom_kind_t;


typedef struct {
    hymt_atom_kind_t  kind;
    uint32_t          at;        /* in the unit's plain text */
    uint32_t          len;       /* 0 for tags */
    uint32_t          src;       /* in the source */
    uint32_t          src_len;
    uint32_t          pair;      /* OPEN, CLOSE; or HYMT_SPAN_NONE */
    uint32_t          number;    /* OPEN, CLOSE, VOID: N of <sN> */
} hymt_atom_t;


typedef struct hymt_part_s  hymt_part_t;
typedef struct hymt_work_s  hymt_work_t;

struct hymt_part_s {
    hymt_part_t  *next;
    const char   *text;          /* ours; NULL: the source's */
    uint32_t      at;            /* in the source */
    uint32_t      len;
    hymt_work_t  *work;          /* not done yet */
};


/* Where parts go, and up to where they hold the source already. */
typedef struct {
    hymt_part_t  **last;
    uint32_t       src;
} hymt_emit_t;


typedef enum {
    HYMT_WORK_WAITS = 0,
    HYMT_WORK_OUT,
    HYMT_WORK_DONE,
} hymt_work_state_t;


/* A unit. */
struct hymt_work_s {
    uint32_t            id;
    hymt_work_state_t   state;
    uint32_t            attempt;
    const char         *text;      /* plain, [len] */
    uint32_t            len;
    const char         *tagged;    /* with <sN> tags, or NULL */
    uint32_t            tagged_len;
    uint32_t            src;
    uint32_t            src_len;
    hymt_atom_t        *atom;      /* NULL: all of it is text */
    uint32_t            n_atoms;
    bool                run;       /* cut out of a sentence */
    bool                raw;       /* has text in which no tag can be */
    hymt_part_t        *part;
    hymt_work_t        *before;    /* for context, or NULL */
    hymt_work_t        *queue;     /* next in the queue */
};


struct hymt_document_s {
    hymt_document_params_t   params;
    char                    *source;      /* malloc'ed, NUL behind it */
    uint32_t                 len;
    hymt_arena_t             arena;       /* parts, units, texts */
    hymt_terms_t             keep;
    bool                     nbsp;        /* source writes "&nbsp;" */

    hymt_part_t             *first;

    hymt_work_t            **work;        /* malloc'ed, by id */
    uint32_t                 n_work;
    uint32_t                 work_capacity;
    uint32_t                 n_out;
    hymt_work_t             *queue;
    hymt_work_t            **queue_last;
    hymt_work_t            **insert;      /* where units join the queue */
    hymt_work_t             *latest;      /* while cutting: the unit before */

    hymt_part_t             *ready;       /* first part not in `out` yet */
    char                    *out;         /* malloc'ed */
    size_t                   out_len;
    size_t                   out_capacity;

    char                    *scratch;     /* malloc'ed */
    size_t                   scratch_size;

    hymt_document_stats_t    stats;
    bool                     cutting;     /* create() is at work */
    bool                     raw;         /* units made now are */
    bool                     too_many;    /* units, for max_units */
    bool                     no_memory;
};


/* the whole source into parts */
hymt_status_t hymt_document_cut(hymt_document_t *doc, hymt_error_t *err);

/*
 * Parts for atoms [i, j) of a text, at emit; plain is what their `at` counts
 * from, and must last as long as the document.  unit(): one unit, if it may be
 * one.  split(): cut at their tags, or at whatever is no text.
 */
void hymt_document_unit(hymt_document_t *doc, const char *plain,
    const hymt_atom_t *atom, uint32_t i, uint32_t j, bool run,
    hymt_emit_t *emit);
void hymt_document_split(hymt_document_t *doc, const char *plain,
    const hymt_atom_t *atom, uint32_t i, uint32_t j, bool tags,
    hymt_emit_t *emit);

/* the source up to `at` as it is; a text of ours; a unit at source [at, end) */
void hymt_emit_upto(hymt_document_t *doc, hymt_emit_t *emit, uint32_t at);
void hymt_emit_text(hymt_document_t *doc, hymt_emit_t *emit, const char *text,
    uint32_t len);
void hymt_emit_work(hymt_document_t *doc, hymt_emit_t *emit, hymt_work_t *work);


/* a unit joins the queue, at *doc->insert */
void hymt_document_enqueue(hymt_document_t *doc, hymt_work_t *work);


/*
 * The translation text [len], cleaned and not empty, becomes the unit's part,
 * or parts of its own units.  HYMT_DECLINED: it can't be used, and there is
 * nothing to cut at.
 */
hymt_status_t hymt_document_answer(hymt_document_t *doc, hymt_work_t *work,
    const char *text, size_t len);

/* the unit stays as it is in the source */
void hymt_document_keep(hymt_document_t *doc, hymt_work_t *work);


/*
 * Writes to out [at least 3 * len] what text [len] says without what no
 * translation holds: broken UTF-8, control characters, control tokens and
 * wrappers the unit does not have itself, line ends (lines: those stay, as
 * LF), white space at both ends.  Returns the bytes; *stripped: there was a
 * control token.
 */
size_t hymt_guard(const hymt_document_t *doc, const hymt_work_t *work,
    const char *text, size_t len, char *out, bool *stripped);

/*
 * Takes the placeholders out of text [len], an answer to a unit that has none.
 * Returns the bytes left, without white space at both ends.
 */
size_t hymt_guard_placeholders(const hymt_document_t *doc, char *text,
    size_t len);

/* whether a unit's line ends count */
bool hymt_work_lines(const hymt_work_t *work);


#endif /* HYMT_DOCUMENT_PRIVATE_H */
