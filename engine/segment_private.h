/*
 * segment_private.h - rules of sentences that ICU does not have.
 */

#ifndef HYMT_SEGMENT_PRIVATE_H
#define HYMT_SEGMENT_PRIVATE_H

#include "segment.h"


/*
 * The end of the first sentence in text [len], which is one by ICU's rules, at
 * a terminator ICU does not know; len where there is none.
 */
size_t hymt_sentence_inner(const char *text, size_t len);

/* whether ICU's sentence end at `at` of text [len] is none */
bool hymt_sentence_no_end(int lang, const char *text, size_t at, size_t len);

/*
 * Where the sentence really ends that ICU ends at `at` > 0: an opening quote
 * or bracket right behind a full stop begins the next one.
 */
size_t hymt_sentence_end(int lang, const char *text, size_t at);

/* a comma, semicolon, colon, dash of any script */
bool hymt_clause_end(int32_t c);


#endif /* HYMT_SEGMENT_PRIVATE_H */
