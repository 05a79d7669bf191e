/*
 * document_block.h - from blocks to atoms.
 *
 * A block is what may become one unit: a line of text, the content between two
 * block tags.  Its plain text is what the model may see: references decoded,
 * white space collapsed, tags gone.  Items are what lies in it beside text.
 * Both, and where the block is too long the places to cut, become atoms.
 */

#ifndef HYMT_DOCUMENT_BLOCK_H
#define HYMT_DOCUMENT_BLOCK_H

#include "document_private.h"


typedef struct {
    hymt_atom_kind_t  kind;      /* HOLD or a tag */
    uint32_t          at;        /* in plain */
    uint32_t          len;
    uint32_t          src;
    uint32_t          src_len;
    uint32_t          span;      /* tags: theirs, and their match's */
    uint32_t          match;
} hymt_item_t;


typedef struct {
    hymt_document_t   *doc;
    hymt_segmenter_t  *seg;
    hymt_emit_t        emit;
    bool               html;

    char              *plain;         /* in the arena, or the source itself */
    uint32_t           len;
    uint32_t          *map;           /* where a byte of plain comes from; or */
    uint32_t           map_capacity;
    bool               mapped;
    uint32_t           base;          /* ... plain[i] is source[base + i] */
    uint32_t           end;           /* of the block in the source */

    hymt_item_t       *item;
    uint32_t           n_items;
    uint32_t           item_capacity;

    hymt_atom_t       *atom;
    uint32_t           n_atoms;
    uint32_t           atom_capacity;
    uint32_t          *of_span;       /* atom of a span, from first_span on */
    uint32_t           of_span_capacity;
    uint32_t           first_span;
    uint32_t           n_spans;

    hymt_ranges_t      whole;         /* of plain: not to be cut */
    hymt_cuts_t        cuts;
} hymt_block_t;


/* adds an item at the end of the block's items */
void hymt_block_item(hymt_block_t *b, hymt_atom_kind_t kind, uint32_t at,
    uint32_t len, uint32_t src, uint32_t src_len);

/* the block is whole: its units, as parts at b->emit */
hymt_status_t hymt_block_parts(hymt_block_t *b, hymt_error_t *err);


#endif /* HYMT_DOCUMENT_BLOCK_H */
