/* SPDX-License-Identifier: Apache-2.0 */
/* Writing NumPy archives, for outputs of `run`. */
#pragma once

#include <tidemark/tensor.h>

struct tmk_npz_entry {
    const char *name;
    const struct tmk_tensor *tensor; /* bool, integer or float32 */
};

/* Writes NAME.npy members, stored, in the order given, readable by numpy.load; whole or not at all.
 * A path ending in .npy takes exactly one entry and becomes a plain .npy file: tmk_npz_check asks
 * no more than that. Names that would collide or escape are refused. */
enum tmk_status tmk_npz_check(const char *path, size_t n, struct tmk_diag *diag);
enum tmk_status tmk_npz_write(const char *path, const struct tmk_npz_entry *entries, size_t n,
                              struct tmk_diag *diag);
