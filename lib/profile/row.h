/* SPDX-License-Identifier: Apache-2.0 */
/* A value of a profile as its fields see it: what JSON writes as one object, HDF5 as one row. */
#ifndef TMK_PROFILE_ROW_H
#define TMK_PROFILE_ROW_H

#include "profile/format.h"

/* How the numbers are kept, as files spell it. */
enum tmk_profile_level {
    TMK_PROFILE_NO_NUMBERS,
    TMK_PROFILE_INTEGERS,
    TMK_PROFILE_MINMAX,
    TMK_PROFILE_RANGE,
    TMK_PROFILE_HISTOGRAM,
    TMK_PROFILE_LEVELS,
};

struct tmk_profile_row {
    struct tmk_profile_tensor t;
    struct tmk_summary is;   /* of floats; of integers, what floats have too */
    int64_t producer_output; /* -1: none */
    enum tmk_profile_level level;
    const struct tmk_nonfinite *nonfinite; /* to be written: NULL where it was always finite, or
                                              where it is not known where it began */
    struct tmk_profile_bins *bins;         /* space for the histogram */
    float *channels;                       /* malloc'ed: what was read of minima, then maxima */
};

/* What each value has, by its level. Columns of /tensors are those of floats; values of integers
 * have some in /integers. */
extern const struct tmk_fields *const tmk_profile_row_fields[TMK_PROFILE_LEVELS];
extern const struct tmk_fields tmk_profile_value_fields, tmk_profile_float_fields,
    tmk_profile_integer_fields, tmk_profile_integer_columns, tmk_profile_none_fields,
    tmk_profile_consumer_fields;

enum tmk_profile_level tmk_profile_level_of(const struct tmk_profile_tensor *t);
/* Borrows the value's memory. */
void tmk_profile_row_of(const struct tmk_profile_tensor *t, struct tmk_profile_bins *bins,
                        struct tmk_profile_row *out);
/* The value's statistics from what was read of them; frees `channels`. */
TMK_NODISCARD enum tmk_status tmk_profile_row_restore(struct tmk_profile_row *row,
                                                      struct tmk_diag *diag);

#endif
