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


#endif /* HYMT_JSON_QUICK_H */
