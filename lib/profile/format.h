/* SPDX-License-Identifier: Apache-2.0 */
/* What the two file formats share. docs/profile-format.md defines the fields. */
#pragma once

#include <tidemark/profile.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "profile/fields.h"

/* The most rows a value's histogram can have. */
enum { TMK_PROFILE_MAX_BINS = 65536 };

/* Space for one histogram at a time. */
struct tmk_profile_bins {
    uint16_t *bin; /* [TMK_PROFILE_MAX_BINS], as the others */
    uint64_t *count, *low, *squares;
};
enum tmk_status tmk_profile_bins_init(struct tmk_profile_bins *bins, struct tmk_diag *diag);
void tmk_profile_bins_finish(struct tmk_profile_bins *bins);

/* How a value's numbers are kept, as files spell it: "none", "integer", "range" or "histogram". */
const char *tmk_profile_level_name(const struct tmk_profile_tensor *tensor);

extern const struct tmk_field_names tmk_profile_kinds;

/* The header; its values ("tensors") are written and read by each format. */
extern const struct tmk_fields tmk_profile_header_fields;
extern const struct tmk_field_codec tmk_profile_coverage_codec, tmk_profile_topk_codec;
/* What reads parts of a profile. Unknown keys are errors in files that this library should know
 * all of. */
struct tmk_field_reader tmk_profile_reader(struct tmk_profile *profile, struct tmk_diag *diag);
/* Appends the header's members, `"format":"...","version":...`, with `separator` between them. */
enum tmk_status tmk_profile_header_text(const struct tmk_profile *profile, const char *separator,
                                        struct tmk_text *out, struct tmk_diag *diag);
/* Fills the profile's header from an object with these members; "tensors" may be there too.
 * TMK_UNSUPPORTED for a newer major version. */
enum tmk_status tmk_profile_get_header(struct tmk_profile *profile, const cJSON *header,
                                       struct tmk_diag *diag);

/* A shape: names where `symbol` has them; null for a dimension that is not known. */
void tmk_profile_put_dims(struct tmk_json_out *to, const char *key, const struct tmk_shape *shape,
                          const char *const *symbol); /* [rank], or NULL */
/* unknown: null is a dimension that is not known. symbol (may be NULL; then no names are taken):
 * [TMK_MAX_RANK]. */
enum tmk_status tmk_profile_get_dims(struct tmk_field_reader *r, const cJSON *item, bool unknown,
                                     struct tmk_shape *shape, const char **symbol);

/* Are the sample ranges consistent with the sample counts? TMK_MISMATCH. */
enum tmk_status tmk_profile_validate_coverage(const struct tmk_profile *profile,
                                              struct tmk_diag *diag);
/* What both cover together, into an array to free. TMK_MISMATCH names samples that are in both. */
enum tmk_status tmk_profile_join_ranges(const struct tmk_profile *a, const struct tmk_profile *b,
                                        struct tmk_profile_range **out, uint32_t *n,
                                        struct tmk_diag *diag);
/* Are the headers of one run: producer, model, data, settings, samples in all? TMK_MISMATCH names
 * what differs, "in the first" and "in the second". */
enum tmk_status tmk_profile_same_run(const struct tmk_profile *a, const struct tmk_profile *b,
                                     struct tmk_diag *diag);

/* tmk_profile_add_tensor for those who read a file: an ID out of place is TMK_FORMAT. */
enum tmk_status tmk_profile_add_read(struct tmk_profile *profile, uint32_t id,
                                     struct tmk_profile_tensor **out, struct tmk_diag *diag);

/* Makes space for one more of n elements in an array that only grows through here: it doubles at
 * powers of two. False when memory ran out; the array is then as it was. */
#define TMK_PROFILE_GROW(array, n) tmk_profile_grow(&(array), (n), sizeof *(array))
bool tmk_profile_grow(void *array, uint32_t n, size_t size); /* array: its address */

/* TMK_UNSUPPORTED in a build without HDF5. */
enum tmk_status tmk_profile_write_hdf5(const struct tmk_profile *profile, struct tmk_outfile *out,
                                       struct tmk_diag *diag);
/* Before the first of the calls that write HDF5. TMK_UNSUPPORTED in a build without it, or where
 * the library is gone; `path` is for the message. May be called by any thread, any number of times.
 */
enum tmk_status tmk_profile_load_hdf5(const char *path, struct tmk_diag *diag);
/* Has that been called, so that such a file is likely to be written? */
bool tmk_profile_hdf5_is_loaded(void);
enum tmk_status tmk_profile_read_hdf5(const char *path, struct tmk_profile *profile,
                                      struct tmk_diag *diag);

/* The setting that names the stratum that all samples of a profile are of. Profiles of different
 * strata may be merged; what comes out has no such setting. */
#define TMK_PROFILE_STRATUM "stratum"
/* The value of a setting; NULL where it is not set. */
const char *tmk_profile_setting_text(const struct tmk_profile *profile, const char *key);
void tmk_profile_drop_setting(struct tmk_profile *profile, const char *key);
/* The value of a numeric setting; `otherwise` where it is not set. */
uint64_t tmk_profile_setting_number(const struct tmk_profile *profile, const char *key,
                                    uint64_t otherwise);

/* A value of a profile as its fields see it: what JSON writes as one object, HDF5 as one row. */

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
enum tmk_status tmk_profile_row_restore(struct tmk_profile_row *row, struct tmk_diag *diag);
