/*
 * glossary_private.h - a glossary in memory, and its file.  Private to
 * glossary*.c.
 *
 * Thread: any; a glossary does not change once it is made.
 */

#ifndef HYMT_GLOSSARY_PRIVATE_H
#define HYMT_GLOSSARY_PRIVATE_H

#include "glossary.h"

#include <stdatomic.h>


/* A source term as it is looked for: as it is, or in lower case. */
typedef struct {
    const char  *text;
    uint32_t     len;
    uint32_t     entry;
} hymt_glossary_key_t;


struct hymt_glossary_s {
    atomic_uint             refs;
    hymt_glossary_info_t    info;
    uint64_t                bytes;     /* of memory, all */

    hymt_glossary_entry_t  *entries;   /* owned, [info.n] */
    hymt_glossary_key_t    *exact;     /* owned, [info.n], sorted by text */
    hymt_glossary_key_t    *lower;     /* owned, [info.n], the same */
    char                   *terms;     /* owned: what entries point into */
    char                   *lowered;   /* owned: what lower points into */
};


/* The limits with defaults filled in. */
hymt_glossary_limits_t hymt_glossary_limits(
    const hymt_glossary_limits_t *limits);

/* Sorts keys by text, shorter first, then by entry. */
void hymt_glossary_sort(hymt_glossary_key_t *keys, uint32_t n);

/* Fills g->lower and g->lowered; HYMT_ERROR: no memory. */
hymt_status_t hymt_glossary_lower(hymt_glossary_t *g, hymt_error_t *err);

/* False for C0, DEL, C1, line and paragraph separators, byte order marks. */
bool hymt_glossary_printable(const char *text, size_t len);


/* glossary_file.c: one file, by its directory's descriptor. */

/* The file's text, "fields, empty line, entries"; the caller frees it. */
hymt_status_t hymt_glossary_file_text(const hymt_glossary_t *g, char **text,
    size_t *len, hymt_error_t *err);

/*
 * Reads the fields of the file open at fd into info, and its entries into *g
 * unless g is NULL.  Messages name the id.
 */
hymt_status_t hymt_glossary_file_read(int fd, const char *id,
    const hymt_glossary_limits_t *limits, hymt_glossary_info_t *info,
    hymt_glossary_t **g, hymt_error_t *err);

/* Writes all of text into a new file, mode 0600, synced. */
hymt_status_t hymt_glossary_file_write(int dir, const char *name,
    const char *text, size_t len, hymt_error_t *err);


#endif /* HYMT_GLOSSARY_PRIVATE_H */
