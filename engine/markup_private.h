/*
 * markup_private.h - from tags in order to spans: what both parsers share.
 */

#ifndef HYMT_MARKUP_PRIVATE_H
#define HYMT_MARKUP_PRIVATE_H

#include "markup.h"


/* An element that is open. */
typedef struct {
    uint32_t   name;        /* offset in the text */
    uint32_t   name_len;
    uint32_t   span;        /* of its start tag */
    uint32_t   root;        /* of the skipped region outside, to go back to */
    uint32_t   class;       /* the format's own */
    bool       block;
    bool       skip;        /* not translated */
    bool       pre;
    bool       kept;        /* root of a skipped region: something in it is
                               translated after all */
} hymt_open_t;


/* A tag as its parser saw it. */
typedef struct {
    uint32_t   at;
    uint32_t   len;
    uint32_t   name;
    uint32_t   name_len;
    uint32_t   class;
    int        translate;   /* 1 yes, 0 no, -1 not said */
    bool       empty;       /* has no end tag */
    bool       block;
    bool       ignored;     /* by the format's own list */
    bool       pre;
} hymt_tag_t;


typedef struct {
    const char                    *text;
    const hymt_document_params_t  *params;
    hymt_markup_t                 *markup;
    hymt_open_t                   *open;     /* malloc'ed */
    uint32_t                       n_open;
    uint32_t                       capacity;
    uint32_t                       root;     /* in open, or NONE */
    bool                           html;
    bool                           mixed;    /* text outside all elements */
    bool                           no_memory;
} hymt_builder_t;


void hymt_build_open(hymt_builder_t *b, const hymt_tag_t *tag);

/* the element at open[i] ends with the tag at [at, at + len) */
void hymt_build_close(hymt_builder_t *b, uint32_t i, uint32_t at, uint32_t len);

/* the elements from open[i] on end without tags */
void hymt_build_pop(hymt_builder_t *b, uint32_t i);

/* text, a comment, something outside of any unit */
void hymt_build_span(hymt_builder_t *b, hymt_span_kind_t kind, uint32_t at,
    uint32_t len);

/* whether a tag's name is in a list of names */
bool hymt_build_named(const hymt_builder_t *b, const hymt_list_t *list,
    uint32_t name, uint32_t len);

/* translate="VALUE", class="VALUE" */
int hymt_build_translate(const char *value, size_t len);
bool hymt_build_notranslate(const char *value, size_t len);


#endif /* HYMT_MARKUP_PRIVATE_H */
