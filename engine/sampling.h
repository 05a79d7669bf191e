/*
 * sampling.h - how the next token of one sequence is drawn, and the random
 * numbers behind it.
 *
 * Order, as Hugging Face's logits processors: fp32 logits -> repetition
 * penalty over the SET of ids in prompt and output (score < 0 ? s * p : s / p)
 * -> temperature -> top-k (drop what is below the k-th value) -> top-p (keep
 * the smallest set whose probability reaches p, at least one) -> softmax ->
 * draw.  Ties are broken by the smaller id everywhere, so the result is a
 * function of the logits alone.
 */

#ifndef HYMT_SAMPLING_H
#define HYMT_SAMPLING_H

#include "base.h"


typedef struct {
    float     temperature;         /* 0: greedy (argmax after the penalty) */
    float     top_p;               /* (0, 1]; 1: off */
    float     repetition_penalty;  /* > 0; 1: off */
    uint32_t  top_k;               /* 0: off */
    uint64_t  seed;
    uint32_t  index;               /* of the sequence in its request */
} hymt_sampling_t;


/*
 * The uniform number in [0, 1) for output token n (0 = first generated) of a
 * sequence: Philox4x32-10 (Salmon et al., SC 2011) with key = seed and counter
 * = (n, index, 0, 0); the first word's upper 24 bits times 2^-24.  Counter
 * based, so it depends neither on the batch nor on the steps taken.
 */
float hymt_uniform(const hymt_sampling_t *s, uint32_t n);


/*
 * For a sequence that is asked for once more, since nobody can use the first
 * answer (attempt 1): other random numbers, the same ones each time.
 */
void hymt_sampling_again(hymt_sampling_t *s, uint32_t attempt);


/*
 * Checks ranges: temperature in [0, 10], top_p in (0, 1], repetition_penalty
 * in [0.1, 10], finite all.  The error names the field.
 */
hymt_status_t hymt_sampling_check(const hymt_sampling_t *s, hymt_error_t *err);


#endif /* HYMT_SAMPLING_H */
