/* SPDX-License-Identifier: Apache-2.0 */
/* Calibration data from the caller's memory, record by record. */
#ifndef TIDEMARK_PULL_H
#define TIDEMARK_PULL_H

#include <stdbool.h>

#include <tidemark/status.h>
#include <tidemark/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers for one input, row-major. Of the input's own rank (or one more) it holds as many entries
 * as its first axis has; of a rank less it is a single entry. */
struct tmk_record {
    enum tmk_dtype dtype; /* float16 and float64 are copied as float32 */
    struct tmk_shape shape;
    const void *data; /* read in place, aligned for its type; NULL only without elements */
    /* Called once, by any thread, when the numbers are not needed any more. NULL: they stay until
     * the run is over. */
    void (*release)(void *owner);
    void *owner;
};

/* The records that the data source "-" reads instead of standard input. */
struct tmk_pull {
    /* Writes the next record for the input, or sets *end: there is none. Inputs take turns, in the
     * order of the model's; only before the first of a turn may it end. Called by the thread that
     * loads data, or the caller's, never by two at once. A failure ends the run; fill diag. */
    enum tmk_status (*next)(void *context, const char *input, struct tmk_record *out, bool *end,
                            struct tmk_diag *diag);
    void *context;
    const char *label; /* what messages and the profile call it; NULL: "-" */
    bool whole; /* each record is one sample: the input itself, whatever its rank and shape */
};

#ifdef __cplusplus
}
#endif
#endif
