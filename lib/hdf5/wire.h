/* SPDX-License-Identifier: Apache-2.0 */
/* What passes between the process that wants an HDF5 file and the one that reads it
 * (sandbox/wire.h). The shared memory has two halves: while one is emptied, the other is filled. */
#pragma once

#include "hdf5/file.h"
#include "sandbox/wire.h"

enum tmk_hdf5_op {
    TMK_HDF5_OPEN,    /* the file */
    TMK_HDF5_LOOK,    /* path -> look */
    TMK_HDF5_LIST,    /* path -> count; half 0: of each its kind, 1 if linked, its name, 0 */
    TMK_HDF5_TEXT,    /* path, 0, attribute -> count, the bytes at half 0; or none */
    TMK_HDF5_SET,     /* path -> set */
    TMK_HDF5_SHUT,    /* dataset */
    TMK_HDF5_COLUMNS, /* dataset, n names each with a 0 -> n elements */
    TMK_HDF5_READ_AS, /* dataset, one field without a name -> direct */
    TMK_HDF5_ROWS_AS, /* dataset, n fields, n names each with a 0, size */
    TMK_HDF5_READ,    /* dataset, start, extent, size -> the elements at the half */
    TMK_HDF5_N_OPS,
};

enum {
    TMK_HDF5_HALF = TMK_HDF5_MAX_ELEMENT, /* only pages that are used take memory */
    TMK_HDF5_LARGEST_CACHE = 1 << 28,     /* of a chunk */
};

struct tmk_hdf5_ask {
    uint32_t op, dataset, half, n;
    uint64_t size;
    uint64_t start[TMK_HDF5_MAX_RANK], extent[TMK_HDF5_MAX_RANK];
};

enum tmk_hdf5_outcome {
    TMK_HDF5_DONE,
    TMK_HDF5_FAILED,
    TMK_HDF5_LACKED, /* failed for lack of memory, as HDF5 reports */
};

struct tmk_hdf5_look {
    uint32_t kind, linked;
};

struct tmk_hdf5_count {
    uint64_t n, bytes;
};

struct tmk_hdf5_type {
    uint32_t is, is_signed, exponent_bits;
    uint64_t size;
};

struct tmk_hdf5_set {
    uint32_t number, rank, compact, filtered;
    struct tmk_hdf5_type type;
    uint64_t dim[TMK_HDF5_MAX_RANK], chunk[TMK_HDF5_MAX_RANK];
    uint64_t stored, address;
};

/* Without padding, which would carry what was on the stack. */
struct tmk_hdf5_spec {
    uint64_t as, chars, at;
};

struct tmk_hdf5_direct {
    uint32_t direct;
};
