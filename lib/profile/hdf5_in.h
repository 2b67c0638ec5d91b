/* SPDX-License-Identifier: Apache-2.0 */
/* Reading datasets of an HDF5 file that is not trusted: what it declares is checked before memory
 * is taken for it, and nothing outside the file is followed. Failures are TMK_FORMAT and name the
 * object. Paths are those of hdf5/file.h. */
#pragma once

#include "base/arena.h"
#include "hdf5/file.h"
#include "profile/format.h"
#include "profile/hdf5_table.h"

struct tmk_h5_reader {
    struct tmk_profile *profile; /* that is being read; NULL: something else is */
    struct tmk_hdf5 *file;
    struct tmk_field_reader fields; /* where the fields of rows go */
    struct tmk_arena arena;         /* what columns have read ahead */
    struct tmk_profile_bins bins;
    struct tmk_diag *diag;
};

/* Opens the file of a reader with nothing but a diag. */
enum tmk_status tmk_h5_begin_file(struct tmk_h5_reader *r, const char *path);
void tmk_h5_end_file(struct tmk_h5_reader *r);

enum tmk_status tmk_h5_has(struct tmk_h5_reader *r, const char *path, bool *out);
/* The JSON that the scalar dataset of text holds. End with cJSON_Delete. */
enum tmk_status tmk_h5_read_header(struct tmk_h5_reader *r, cJSON **out);
/* A dataset of the rank asked for, whose declared size its stored bytes can have. */
enum tmk_status tmk_h5_open_dataset(struct tmk_h5_reader *r, const char *path, int rank,
                                    struct tmk_hdf5_dataset *out);
/* The same, of numbers, with the type that they are read as. */
enum tmk_status tmk_h5_open_numbers(struct tmk_h5_reader *r, const char *path, int rank,
                                    enum tmk_hdf5_as as, struct tmk_hdf5_dataset *out);

/* A one-dimensional dataset that is read front to back in parts. */
struct tmk_h5_in {
    struct tmk_hdf5_dataset set;
    uint64_t at, size;
    const char *name;
    unsigned char *block; /* entries [start, end), read ahead */
    uint64_t start, end;
};
enum tmk_status tmk_h5_open_column(struct tmk_h5_reader *r, const char *path, enum tmk_hdf5_as as,
                                   struct tmk_h5_in *out);
/* Those of a group, which are of one size. What a file of an earlier version lacks has no block.
 * out [n]. */
enum tmk_status tmk_h5_open_columns(struct tmk_h5_reader *r, const char *group,
                                    const struct tmk_h5_flat *flat, size_t n,
                                    struct tmk_h5_in *out);
/* The next n elements. */
enum tmk_status tmk_h5_take(struct tmk_h5_reader *r, struct tmk_h5_in *from, void *values,
                            uint64_t n);

/* What reads the rows of a table: `loaded` returns whether all of the record could be filled, and
 * is then OK; else its error is to be returned, once what the record owns has an owner. */
typedef enum tmk_status tmk_h5_row_reader(struct tmk_h5_reader *r, enum tmk_status loaded,
                                          void *record, void *context);
/* Calls fn with the record of each row of a table of the root, in order, until one fails. The
 * record is valid until fn returns; texts, lists and so on are by the reader's `fields`. */
enum tmk_status tmk_h5_each_row(struct tmk_h5_reader *r, const char *name,
                                const struct tmk_h5_table *table, tmk_h5_row_reader *fn,
                                void *context);
