/*
 * document.h - one text of a request: cut into units the model can take, and
 * put together again with every byte between them where it was.
 *
 * A document is plain text, an HTML or an XML fragment (or page).  It hands out
 * units to translate, takes their translations in any order, checks each, and
 * may hand out further ones: a unit whose tags or placeholders did not come
 * back exactly once and in a legal place is cut at them and its runs are
 * translated one by one.  What is never translated (tags, attributes, comments,
 * script, style, translate="no", white space, list markers, indentation)
 * stays byte by byte.  The output is as well-formed as the input was.
 *
 * Text: a line is a unit of its own, behind its indentation and list marker,
 * so that there are as many lines and paragraphs behind as before, whatever
 * the model says; a line end in an answer becomes a blank.  With
 * HYMT_SPLIT_NONE the lines go as one unit, whose line ends are held like
 * placeholders; where they do not come back, it is cut at them after all.
 * HTML, XML: a unit is what lies between two tags that are not inline, a line
 * of <pre>; white space within is shown collapsed (see markup.h for the tags).
 *
 * A unit that fits is not split.  A longer one is cut at sentence ends (ICU's,
 * and rules of our own: see segment.h), then at clauses, between words, never
 * inside a code point, grapheme or placeholder.  What was between the parts
 * stays, but: one space between sentences goes where the target is Chinese,
 * Cantonese or Japanese and the source is not; one comes where the source is
 * one of these, Thai, Khmer, Burmese or Tibetan, and has none, and the target
 * is any other language.  (Thai sentences are parted by spaces: those stay.)
 * Without a source language the character before the gap tells.
 *
 * A unit without letters (numbers, signs, emoji) is not handed out.
 * Placeholders (see placeholder.h), `keep` terms and inline elements that are
 * not translated and hold a short text (<code>make</code>) are sent as they
 * read.  Tags inside a unit are sent as <sN></sN> (tags_by_model), else the
 * runs between them go one by one; tags at both ends of a unit are never sent.
 *
 * An answer is cleaned of control-token text the unit does not hold itself, of
 * <target></target>, control characters, white space at its ends, and, to a
 * unit without placeholders, of placeholders.  An empty one, or where those
 * leave no letter, is asked for once more (attempt 1); then the unit stays in
 * the source's words.  In HTML and XML & < > of an answer are written as
 * references, U+00A0 as &nbsp; where the source does so, and an answer that
 * equals what was sent leaves the source's bytes.
 *
 * Memory is malloc'ed and proportional to the text.  Thread: one at a time; a
 * document may move between threads.
 */

#ifndef HYMT_DOCUMENT_H
#define HYMT_DOCUMENT_H

#include "lang.h"


typedef enum {
    HYMT_FORMAT_TEXT = 0,
    HYMT_FORMAT_HTML,
    HYMT_FORMAT_XML,
} hymt_format_t;


typedef enum {
    HYMT_SPLIT_AUTO = 0,   /* a line or block where it exceeds unit_bytes */
    HYMT_SPLIT_NONE,       /* never: what does not fit is the caller's error */
    HYMT_SPLIT_SENTENCE,   /* every sentence a unit */
    HYMT_SPLIT_PARAGRAPH,  /* as AUTO */
} hymt_split_t;


/* A list of names or terms; the strings are read during create() only. */
typedef struct {
    const char  **item;    /* UTF-8, terminated */
    uint32_t      n;
} hymt_list_t;


typedef struct {
    hymt_format_t  format;
    hymt_split_t   split;
    int            src;           /* language index, or HYMT_LANG_NONE */
    int            tgt;
    uint32_t       unit_bytes;    /* most bytes of a unit; 0: 600 */
    uint32_t       max_units;     /* more is an error; 0: 100000 */

    /* tags (HTML, XML); names compare without case in HTML */
    hymt_list_t    ignore_tags;         /* content is not translated */
    hymt_list_t    splitting_tags;      /* end a unit, as block tags do */
    hymt_list_t    non_splitting_tags;  /* never end one */
    bool           inline_tags_split;   /* XML: every tag ends a unit unless
                                           named in non_splitting_tags */
    bool           listed_tags_split;   /* XML: no tag ends one but those named
                                           in splitting_tags */

    /* terms that come back as they are */
    hymt_list_t    keep;

    /* the family has a prompt for text with <sN></sN> tags */
    bool           tags_by_model;

    /* give each unit the one before it as context */
    bool           neighbours;

    /*
     * false: the full stop a model puts behind a run that is no sentence goes;
     * true: all as the model gave it
     */
    bool           preserve_formatting;
} hymt_document_params_t;


typedef struct {
    uint32_t     id;
    const char  *text;         /* plain text for the model; the document's */
    size_t       len;
    bool         tagged;       /* holds <sN></sN> tags: formatted-text prompt */
    const char  *context;      /* the unit before, or NULL */
    size_t       context_len;
    uint32_t     attempt;      /* 0; 1: again after an answer of no use */
} hymt_unit_t;


typedef struct {
    uint32_t  units;           /* handed out, all rounds */
    uint32_t  retries;         /* for answers of no use */
    uint32_t  fallbacks;       /* units cut at tags or placeholders */
    uint32_t  refused;         /* answers with other elements: see
                                  markup_judge.h */
    uint32_t  stripped;        /* answers with control-token text, or with
                                  placeholders from nowhere */
} hymt_document_stats_t;


typedef struct hymt_document_s  hymt_document_t;


/*
 * text [len] must be whole UTF-8 and is copied.  HYMT_ERROR: malformed XML
 * (line and column), XML that declares entities, more than max_units, 2 GB or
 * more, no memory.  HTML is never malformed.
 */
hymt_status_t hymt_document_create(const char *text, size_t len,
    const hymt_document_params_t *params, hymt_document_t **doc,
    hymt_error_t *err);

void hymt_document_free(hymt_document_t *doc);


/*
 * The next unit to translate; it points into the document until its result is
 * in.  HYMT_AGAIN: none until more results are in; HYMT_DECLINED: none any
 * more, and none is out: see output().
 */
hymt_status_t hymt_document_next(hymt_document_t *doc, hymt_unit_t *unit);


/* Shows the units that next() has yet to hand out, in order. */
typedef void (*hymt_unit_pt)(const hymt_unit_t *unit, void *data);

void hymt_document_waiting(const hymt_document_t *doc, hymt_unit_pt each,
    void *data);


/*
 * The translation of a unit that is out; cut: the model was stopped by length
 * or loop, so the end is missing (what there is, is taken, unless it lacks tags
 * or placeholders).
 */
void hymt_document_result(hymt_document_t *doc, uint32_t id, const char *text,
    size_t len, bool cut);

/* Hands a unit that is out back untranslated: it will be handed out again. */
void hymt_document_return(hymt_document_t *doc, uint32_t id);


/*
 * The longest part of the output that is final, from byte `from` on: grows as
 * results come in, for streaming.  Points into the document until the next
 * call.  HYMT_ERROR: no memory.
 */
hymt_status_t hymt_document_ready(hymt_document_t *doc, size_t from,
    const char **text, size_t *len);

/*
 * The whole output, once next() has said HYMT_DECLINED.  The document's.
 * HYMT_AGAIN: units are missing yet; HYMT_ERROR: no memory.
 */
hymt_status_t hymt_document_output(hymt_document_t *doc, const char **text,
    size_t *len);

/* bytes that it holds now */
size_t hymt_document_memory(const hymt_document_t *doc);

const hymt_document_stats_t *hymt_document_stats(const hymt_document_t *doc);

/*
 * True where everything but what surrounds it (what ready() gives before the
 * result, and after it) is one plain unit: its tokens may be streamed, as far
 * as final() says.
 */
bool hymt_document_plain(const hymt_document_t *doc);

/*
 * What of text [len], a plain unit's answer so far, can be sent: text[from,
 * result) is in the output as it is, whatever follows.  from: where the last
 * part ended; at first the white space at the beginning, hymt_blank_before().
 * Nothing of an answer that might be refused is final.
 */
size_t hymt_document_final(const char *text, size_t len, size_t from);


#endif /* HYMT_DOCUMENT_H */
