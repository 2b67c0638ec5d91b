/* SPDX-License-Identifier: Apache-2.0 */
/* Reading datasets of an HDF5 file that is not trusted: what it declares is checked before memory
 * is taken for it, and nothing outside the file is followed. Failures are TMK_FORMAT and name the
 * object. */
#ifndef TMK_PROFILE_HDF5_IN_H
#define TMK_PROFILE_HDF5_IN_H

#include "profile/format.h"
#include "profile/hdf5.h"

struct tmk_h5_reader {
    struct tmk_profile *profile; /* that is being read; NULL: something else is */
    struct tmk_h5 h5;
    hid_t file;
    struct tmk_profile_bins bins;
    struct tmk_diag *diag;
};

/* The first failure of HDF5, if there was one, as a status. */
TMK_NODISCARD enum tmk_status tmk_h5_check(struct tmk_h5_reader *r, const char *what);

/* Opens the file in the reader's session, which has begun. */
TMK_NODISCARD enum tmk_status tmk_h5_open_file(struct tmk_h5_reader *r, const char *path);
/* The JSON that a scalar dataset of text holds. End with cJSON_Delete. */
TMK_NODISCARD enum tmk_status tmk_h5_read_json(struct tmk_h5_reader *r, const char *name,
                                               cJSON **out);
TMK_NODISCARD enum tmk_status tmk_h5_open_group(struct tmk_h5_reader *r, const char *name,
                                                hid_t *out);
/* A dataset of the rank asked for, whose declared size its stored bytes can have. `size` [rank].
 * Kept. */
TMK_NODISCARD enum tmk_status tmk_h5_open_dataset(struct tmk_h5_reader *r, hid_t parent,
                                                  const char *name, int rank, hid_t *out,
                                                  hsize_t *size);
/* Whether a type in the file is one that the column's type in memory is made from. */
bool tmk_h5_holds(hid_t type, enum tmk_h5_type wanted);

/* A one-dimensional dataset that is read front to back in parts. Kept. */
struct tmk_h5_in {
    hid_t dataset, type; /* in memory */
    hsize_t at, size;
    const char *name;
};
TMK_NODISCARD enum tmk_status tmk_h5_open_column(struct tmk_h5_reader *r, hid_t parent,
                                                 const char *name, enum tmk_h5_type wanted,
                                                 hid_t in_memory, struct tmk_h5_in *out);
/* The next n elements. */
TMK_NODISCARD enum tmk_status tmk_h5_take(struct tmk_h5_reader *r, struct tmk_h5_in *from,
                                          void *values, hsize_t n);

/* Calls fn with the C struct of each row of a table of the root, in order, until one fails. Its
 * texts are terminated, good until fn returns, and not known to be UTF-8. */
TMK_NODISCARD enum tmk_status
tmk_h5_each_row(struct tmk_h5_reader *r, const char *name, const struct tmk_h5_table *table,
                enum tmk_status (*fn)(struct tmk_h5_reader *r, void *row, void *context),
                void *context);

#endif
