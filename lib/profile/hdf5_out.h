/* SPDX-License-Identifier: Apache-2.0 */
/* Making attributes, datasets and groups of an HDF5 file: without times, so that equal contents are
 * equal bytes. */
#ifndef TMK_PROFILE_HDF5_OUT_H
#define TMK_PROFILE_HDF5_OUT_H

#include "profile/hdf5.h"

enum { TMK_H5_CHUNK_ELEMENTS = 16384 };

void tmk_h5_put_attribute(struct tmk_h5 *h, hid_t at, const char *name, hid_t in_file,
                          hid_t in_memory, hid_t space, const void *value);
/* Of variable length: h5py gives a str. We never read attributes. */
void tmk_h5_put_text(struct tmk_h5 *h, hid_t at, const char *name, const char *text);
void tmk_h5_put_u64(struct tmk_h5 *h, hid_t at, const char *name, uint64_t value);
/* The attributes "units" and "long_name". */
void tmk_h5_describe(struct tmk_h5 *h, hid_t dataset, const char *units, const char *about);

/* How a dataset of this size is to be stored: in chunks, shuffled and deflated, unless it is empty
 * or a scalar. Kept. */
hid_t tmk_h5_creation(struct tmk_h5 *h, int rank, const hsize_t *size, const hsize_t *chunk);

/* A one-dimensional dataset that is filled from its start. Kept by the session. */
struct tmk_h5_out {
    hid_t dataset, type; /* in memory */
    hsize_t at;
};
struct tmk_h5_out tmk_h5_new_column(struct tmk_h5 *h, hid_t parent, const char *name, hid_t in_file,
                                    hid_t in_memory, hsize_t size, hsize_t chunk);
void tmk_h5_append(struct tmk_h5 *h, struct tmk_h5_out *to, const void *values, hsize_t n);

/* Kept. */
hid_t tmk_h5_new_group(struct tmk_h5 *h, hid_t parent, const char *name, const char *about);

#endif
