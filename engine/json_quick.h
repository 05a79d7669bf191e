/*
 * json_quick.h - JSON read at once, where there is nothing odd about it.
 *
 * jansson reads a body byte by byte by way of several functions, some 150
 * instructions each.  hymt_json_quick() reads what clients usually send, and
 * gives what json_loadb() would have given with JSON_REJECT_DUPLICATES and
 * JSON_ALLOW_NUL.  Of anything else, what is wrong included, it knows nothing:
 * NULL, and the caller asks jansson, which says where an error is.
 *
 * Thread: any.
 */

#ifndef HYMT_JSON_QUICK_H
#define HYMT_JSON_QUICK_H

#include "base.h"

#include <jansson.h>


/*
 * The caller's to json_decref(); NULL: json_loadb() is to read it, as it is
 * where there are more than `most` values: a tree of them may take a hundred
 * times the bytes of the text.
 */
json_t *hymt_json_quick(const char *data, size_t len, size_t most);


/* A member of an object.  Text is in the data, without an end of its own. */

typedef struct {
    const char  *name;
    size_t       name_len;
    json_type    type;
    const char  *text;      /* of JSON_STRING */
    size_t       len;
    int64_t      integer;   /* of JSON_INTEGER */
    double       real;      /* of JSON_REAL and JSON_INTEGER */
    json_t      *tree;      /* NULL; for callers that have one */
} hymt_json_member_t;


/*
 * The members of an object of strings without escapes, numbers and booleans,
 * read without allocating anything: what small requests mostly are.  Returns
 * how many there are; 0 where the object is of another kind, has none or more
 * than `cap`, or hymt_json_quick() would give NULL.
 */
size_t hymt_json_flat(const char *data, size_t len, hymt_json_member_t *member,
    size_t cap);


#endif /* HYMT_JSON_QUICK_H */
