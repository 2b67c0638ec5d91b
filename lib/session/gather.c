/* SPDX-License-Identifier: Apache-2.0 */
#include "session/gather.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"

enum tmk_status tmk_gathered_append(struct tmk_gathered *gathered, const struct tmk_tensor *tensor,
                                    bool join, struct tmk_diag *diag) {
    char was[256], is[256];
    struct tmk_shape shape = tensor->shape;
    join = join && shape.rank > 0;
    if (gathered->batches) {
        if (join)
            shape.dim[0] = gathered->shape.dim[0];
        if (gathered->dtype != tensor->dtype || !tmk_shape_equal(&shape, &gathered->shape))
            return tmk_fail(diag, TMK_SHAPE, "'%s' is %s in one batch and %s in another",
                            gathered->name, tmk_shape_text(&gathered->shape, was, sizeof was),
                            tmk_shape_text(&tensor->shape, is, sizeof is));
        if (join)
            gathered->shape.dim[0] += tensor->shape.dim[0];
    } else {
        gathered->dtype = tensor->dtype;
        gathered->shape = shape;
    }
    size_t bytes = tmk_tensor_bytes(tensor), need;
    if (!tmk_add_size(gathered->used, bytes, &need))
        return tmk_nomem(diag);
    if (need > gathered->size) {
        size_t size = gathered->size ? gathered->size : 4096;
        while (size < need && tmk_mul_size(size, 2, &size)) {
        }
        unsigned char *grown = size >= need ? realloc(gathered->bytes, size) : NULL;
        if (!grown)
            return tmk_nomem(diag);
        gathered->bytes = grown;
        gathered->size = size;
    }
    if (bytes)
        memcpy(gathered->bytes + gathered->used, tensor->data, bytes);
    gathered->used = need;
    gathered->batches++;
    return TMK_OK;
}

enum tmk_status tmk_gathered_tensor(const struct tmk_gathered *gathered, bool join,
                                    struct tmk_tensor *out, struct tmk_diag *diag) {
    struct tmk_shape shape = gathered->shape;
    if (!join || !shape.rank) {
        if (shape.rank == TMK_MAX_RANK)
            return tmk_fail(diag, TMK_SHAPE, "'%s' has too many axes to stack", gathered->name);
        memmove(shape.dim + 1, shape.dim, (size_t)shape.rank * sizeof shape.dim[0]);
        shape.dim[0] = (int64_t)gathered->batches;
        shape.rank++;
    }
    tmk_tensor_borrow(out, gathered->dtype, &shape, gathered->bytes);
    return TMK_OK;
}

void tmk_gathered_finish(struct tmk_gathered *gathered) {
    free(gathered->bytes);
    gathered->bytes = NULL;
}
