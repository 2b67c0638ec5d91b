/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of one value from all batches, one behind the other. */
#ifndef TMK_SESSION_GATHER_H
#define TMK_SESSION_GATHER_H

#include <tidemark/tensor.h>

/* Zero-initialised but for the name. */
struct tmk_gathered {
    const char *name; /* for errors */
    enum tmk_dtype dtype;
    struct tmk_shape shape; /* of a batch; dim[0] of all batches when joined */
    uint64_t batches;
    unsigned char *bytes;
    size_t used, size;
};
/* Appends a copy. join: batches are slices of the data, and are joined along their first axis.
 * TMK_SHAPE: the batches differ in more than that. */
TMK_NODISCARD enum tmk_status tmk_gathered_append(struct tmk_gathered *gathered,
                                                  const struct tmk_tensor *tensor, bool join,
                                                  struct tmk_diag *diag);
/* All of them, borrowed; without join a new first axis counts the batches. */
TMK_NODISCARD enum tmk_status tmk_gathered_tensor(const struct tmk_gathered *gathered, bool join,
                                                  struct tmk_tensor *out, struct tmk_diag *diag);
void tmk_gathered_finish(struct tmk_gathered *gathered);

#endif
