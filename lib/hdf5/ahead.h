/* SPDX-License-Identifier: Apache-2.0 */
/* An open file from inside: at most one read ahead of the caller is under way. */
#pragma once

#include "hdf5/wire.h"
#include "sandbox/helper.h"

extern const struct tmk_helper_kind tmk_hdf5_helper;

struct tmk_hdf5 {
    struct tmk_infile bytes;
    struct tmk_helper process;
    struct tmk_hdf5_ask ahead; /* the read under way; op OPEN: none is */
    uint32_t last;             /* the dataset that was read last, + 1 */
};
