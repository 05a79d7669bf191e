/*
 * glossary.h - named lists of terms, kept in a directory and looked up by
 * owner.
 *
 * A glossary says how terms of one language are put in another.  It is made
 * once and never changed, only deleted.  Everything here names an owner, a
 * string of the caller's (an API key, say): nobody sees, counts or deletes what
 * another one owns.
 *
 * On disk: DIRECTORY/<SHA-256 of the owner>/<id>, a text file: some lines of
 * "field<tab>value", an empty line, then a line "source<tab>target" per entry.
 * Files are written whole under another name, synced and renamed, so that a
 * reader or a crash meets a glossary or none.  Several processes may share the
 * directory.  It need not be trusted: a file that is no glossary, a link, a
 * FIFO or a file too large is an error that names it.
 *
 * All functions but hymt_glossary_match() and _unref() may wait for the disk:
 * not for an event loop.  Thread: any.
 */

#ifndef HYMT_GLOSSARY_H
#define HYMT_GLOSSARY_H

#include "lang.h"


#define HYMT_GLOSSARY_ID       36    /* a UUID: lower case, version 4 */
#define HYMT_GLOSSARY_CREATED  24    /* "2021-08-03T14:16:18.329Z" */
#define HYMT_GLOSSARY_NAME     1024  /* most bytes of a name */
#define HYMT_GLOSSARY_OWNER    4096  /* most bytes of an owner */


typedef enum {
    HYMT_GLOSSARY_TSV = 0,   /* source<tab>target, a line each */
    HYMT_GLOSSARY_CSV,       /* RFC 4180: source,target[,source language,target
                                language] */
} hymt_glossary_format_t;


/* 0: the default. */
typedef struct {
    uint32_t  count;         /* glossaries of one owner: 1000 */
    uint32_t  entries;       /* of one glossary: 10000 */
    uint32_t  term_bytes;    /* of one term: 1024 */
    uint64_t  bytes;         /* of one glossary's entries as text: 1 MiB */
    uint64_t  cache_bytes;   /* of memory for glossaries in use: 16 MiB */
} hymt_glossary_limits_t;


/* Terminated UTF-8 without control characters or blanks at the ends. */
typedef struct {
    const char  *src;
    const char  *tgt;
    uint32_t     src_len;
    uint32_t     tgt_len;
} hymt_glossary_entry_t;


typedef struct {
    char      id[HYMT_GLOSSARY_ID + 1];
    char      name[HYMT_GLOSSARY_NAME + 1];
    char      created[HYMT_GLOSSARY_CREATED + 1];  /* RFC 3339, UTC */
    int       src;                                 /* languages */
    int       tgt;
    uint32_t  n;                                   /* entries */
} hymt_glossary_info_t;


/* What a caller asks to be made. */
typedef struct {
    const char              *name;
    size_t                   name_len;
    int                      src;
    int                      tgt;
    hymt_glossary_format_t   format;
    const char              *entries;
    size_t                   entries_len;
} hymt_glossary_request_t;


/* Entries in the order of their text; read-only once made. */
typedef struct hymt_glossary_s  hymt_glossary_t;

typedef struct hymt_glossary_store_s  hymt_glossary_store_t;


/* -- entries -- */


/*
 * Entries from text [len]; LF or CRLF ends a line, empty lines and a byte order
 * mark are skipped, blanks around a term too.  limits may be NULL.
 *
 * The caller gives *g back to hymt_glossary_unref().
 *
 * HYMT_DECLINED: the text is at fault (not UTF-8, no entry, an empty term, a
 * control character, the same source term twice, columns too few or too many,
 * another language than src and tgt): the error names the line, from 1.
 * HYMT_TOO_LONG: over a limit.  HYMT_ERROR: no memory.
 */
hymt_status_t hymt_glossary_parse(const char *text, size_t len,
    hymt_glossary_format_t format, int src, int tgt,
    const hymt_glossary_limits_t *limits, hymt_glossary_t **g,
    hymt_error_t *err);

const hymt_glossary_entry_t *hymt_glossary_entries(const hymt_glossary_t *g,
    uint32_t *n);

/* Of a glossary from a store, all; of a parsed one, languages and n. */
const hymt_glossary_info_t *hymt_glossary_info(const hymt_glossary_t *g);

/* All entries as TSV, each line ended by LF; the caller frees *text. */
hymt_status_t hymt_glossary_tsv(const hymt_glossary_t *g, char **text,
    size_t *len, hymt_error_t *err);

void hymt_glossary_unref(hymt_glossary_t *g);


/*
 * The entries whose source term occurs in text [len] (whole UTF-8), the longest
 * first, at most max of them, each once: *n entries in out, the glossary's.
 *
 * A term that begins or ends in a letter or digit matches whole words only;
 * scripts written without blanks (Chinese, Japanese, Thai, Lao, Khmer, Burmese,
 * Tibetan) and Korean, whose particles adhere, match anywhere.  icase: "Train"
 * matches "TRAIN"; of terms that differ only so, the first is given.
 *
 * Time: about the text's length, times the length of terms that overlap.
 * HYMT_ERROR: no memory, or text is not UTF-8.
 */
hymt_status_t hymt_glossary_match(const hymt_glossary_t *g, const char *text,
    size_t len, bool icase, const hymt_glossary_entry_t **out, uint32_t max,
    uint32_t *n, hymt_error_t *err);


/* -- the directory -- */


/*
 * dir must be there and be a directory; limits may be NULL.  The store outlives
 * no glossary's use: a glossary may be unref'ed after close().
 */
hymt_status_t hymt_glossary_store_open(const char *dir,
    const hymt_glossary_limits_t *limits, hymt_glossary_store_t **store,
    hymt_error_t *err);

void hymt_glossary_store_close(hymt_glossary_store_t *store);


/*
 * Makes a glossary; it is on the disk when this returns.
 *
 * HYMT_DECLINED: the request is at fault, the error says where.  HYMT_TOO_LONG:
 * over a limit, of the owner's glossaries too.  HYMT_ERROR: the directory's.
 */
hymt_status_t hymt_glossary_create(hymt_glossary_store_t *store,
    const char *owner, size_t owner_len, const hymt_glossary_request_t *request,
    hymt_glossary_info_t *info, hymt_error_t *err);


/*
 * All of an owner's, oldest first; the caller frees *list (NULL where *n is 0).
 * Files that are no glossaries are left out and counted in *bad; err then has
 * the first one's fault.
 */
hymt_status_t hymt_glossary_list(hymt_glossary_store_t *store,
    const char *owner, size_t owner_len, hymt_glossary_info_t **list,
    uint32_t *n, uint32_t *bad, hymt_error_t *err);


/*
 * One of an owner's, from memory where that is still what the disk has; id
 * comes from a client, as it is.  Given back to hymt_glossary_unref().
 *
 * HYMT_DECLINED: this owner has none of that id.  HYMT_ERROR: the file's fault.
 */
hymt_status_t hymt_glossary_get(hymt_glossary_store_t *store,
    const char *owner, size_t owner_len, const char *id, size_t id_len,
    hymt_glossary_t **g, hymt_error_t *err);


/* HYMT_DECLINED as hymt_glossary_get(). */
hymt_status_t hymt_glossary_delete(hymt_glossary_store_t *store,
    const char *owner, size_t owner_len, const char *id, size_t id_len,
    hymt_error_t *err);


#endif /* HYMT_GLOSSARY_H */
