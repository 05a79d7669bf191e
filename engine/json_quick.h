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


/* The caller's to json_decref(); NULL: json_loadb() is to read it. */
json_t *hymt_json_quick(const char *data, size_t len);


#endif /* HYMT_JSON_QUICK_H */
