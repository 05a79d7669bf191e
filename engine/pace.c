/*
 * pace.c - see pace.h.
 */

#include "pace.h"


#define HYMT_PACE_FIRST   16     /* prompt rows of the first steps */
#define HYMT_PACE_MARGIN  0.70   /* of the limit: rows differ in time */


void
hymt_pace_init(hymt_pace_t *pace, uint32_t step_ms, uint32_t max_rows)
{
    uint32_t  first;

    first = hymt_min(HYMT_PACE_FIRST, max_rows);

    pace->limit_ns = step_ms * 1e6;
    pace->max_rows = max_rows;
    pace->row_ns[HYMT_PACE_MIXED] = 0;
    pace->row_ns[HYMT_PACE_PREFILL] = 0;
    pace->budget[HYMT_PACE_MIXED] = first;
    pace->budget[HYMT_PACE_PREFILL] = first;
}


void
hymt_pace_step(hymt_pace_t *pace, uint32_t n_decode, uint32_t n_prompt,
    uint64_t ns)
{
    double            row, *mean, rows;
    uint32_t          most;
    hymt_pace_kind_t  kind;

    if (n_prompt == 0) {
        return;
    }

    kind = n_decode ? HYMT_PACE_MIXED : HYMT_PACE_PREFILL;
    mean = &pace->row_ns[kind];
    row = (double) ns / ((double) n_decode + n_prompt);

    if (*mean == 0) {
        *mean = row;

    } else {
        *mean = row > *mean ? hymt_min(row, *mean * 2)
                            : *mean + (row - *mean) * 0.25;
    }

    most = hymt_min(pace->budget[kind], pace->max_rows / 2) * 2;
    most = hymt_max(most, 1);

    rows = pace->limit_ns * HYMT_PACE_MARGIN / hymt_max(*mean, 1) - n_decode;
    rows = hymt_min(rows, most);

    pace->budget[kind] = rows < 1 ? 1 : (uint32_t) rows;
}
