/*
 * entity.h - character references of HTML and XML.
 *
 * Thread: any.
 */

#ifndef HYMT_ENTITY_H
#define HYMT_ENTITY_H

#include "base.h"


#define HYMT_ENTITY_OPAQUE  (-1)


/*
 * The reference at text [len], which begins with "&".  Returns its bytes and
 * sets *c to its code point, or to HYMT_ENTITY_OPAQUE where it is one that is
 * left as it stands (a name not in our table, a control character).  0: a bare
 * "&".  html: HTML's names, some of which need no semicolon.
 */
size_t hymt_entity(const char *text, size_t len, bool html, int32_t *c);


#endif /* HYMT_ENTITY_H */
