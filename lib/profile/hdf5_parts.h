/* SPDX-License-Identifier: Apache-2.0 */
/* The tables and flat columns of a profile in HDF5, for both directions. */
#ifndef TMK_PROFILE_HDF5_PARTS_H
#define TMK_PROFILE_HDF5_PARTS_H

#include "profile/hdf5_table.h"
#include "profile/row.h"

/* A row of /consumers: one reader of one value. */
struct tmk_h5_consumer {
    uint32_t tensor_id;
    struct tmk_profile_consumer consumer;
};

/* The records of /tensors and of /integers are struct tmk_profile_row. */
extern const struct tmk_h5_table tmk_h5_tensors, tmk_h5_consumers, tmk_h5_integers;

/* A one-dimensional dataset next to others of the same length. */
struct tmk_h5_flat {
    const char *name;
    enum tmk_h5_type type;
    const char *units, *about;
    bool later; /* not in every version */
};
extern const struct tmk_h5_flat tmk_h5_ids, tmk_h5_histograms[4], tmk_h5_channels[2],
    tmk_h5_topk[5], tmk_h5_operands[2], tmk_h5_nonfinite[2];

#endif
