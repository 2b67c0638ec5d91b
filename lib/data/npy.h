/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's array format, versions 1.0, 2.0 and 3.0: numpy/lib/format.py describes it. Shared by .npy
 * files and the members of .npz files. Bytes come from files and are not trusted. Pure: distinct
 * calls are thread-safe. */
#pragma once

#include <tidemark/tensor.h>

#include "base/buf.h"
#include "base/text.h"

enum {
    TMK_NPY_PREAMBLE = 12,       /* bytes that are enough to know the header's size */
    TMK_NPY_MAX_HEADER = 1 << 20 /* NumPy itself warns from 10,000 bytes on */
};

/* What a header states. Plain data. */
struct tmk_npy {
    const char *refusal;    /* why the elements cannot be read (static text); NULL: they can */
    char descr[32];         /* the element type as written, cut to fit; "" for a structured one */
    enum tmk_dtype stored;  /* TMK_UNDEFINED when refused */
    enum tmk_dtype dtype;   /* as returned: float16 and float64 become float32 */
    bool swapped, fortran;  /* of the other byte order; first axis fastest */
    struct tmk_shape shape; /* rank 0 when refused for its rank */
    size_t offset, bytes;   /* of the elements; bytes is 0 when refused */
};

/* How many bytes the header takes, which is where the elements start. `len` bytes are there:
 * TMK_NPY_PREAMBLE are enough, fewer may be. TMK_FORMAT. */
enum tmk_status tmk_npy_header_size(const void *bytes, size_t len, size_t *out,
                                    struct tmk_diag *diag);

/* Reads the header; `len` covers it, and may be longer. TMK_FORMAT with the byte. A type that is
 * well-formed but not readable is no failure, but a refusal. */
enum tmk_status tmk_npy_parse(const void *bytes, size_t len, struct tmk_npy *out,
                              struct tmk_diag *diag);

/* TMK_FORMAT when a file of `size` bytes is not exactly the header and the elements it announces.
 * Refused ones always fit. */
enum tmk_status tmk_npy_check_size(const struct tmk_npy *npy, uint64_t size, struct tmk_diag *diag);

/* How many entries the first axis has; 0 for a scalar. */
uint64_t tmk_npy_entries(const struct tmk_npy *npy);

/* Entries [first, first + count) of the first axis, which has them, as [count, ...], of type
 * npy->dtype. `file` is the whole file, its size checked; *out shares its bytes where they can be
 * used as they are. TMK_UNSUPPORTED: refused. */
enum tmk_status tmk_npy_slice(const struct tmk_npy *npy, struct tmk_buf *file, uint64_t first,
                              uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag);

/* Appends the header (version 1.0, padded to 64 bytes) that goes before the tensor's bytes.
 * TMK_TYPE for element types that the format does not have. */
enum tmk_status tmk_npy_write_header(const struct tmk_tensor *tensor, struct tmk_text *out,
                                     struct tmk_diag *diag);
