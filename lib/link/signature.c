/* SPDX-License-Identifier: Apache-2.0 */
#include "link/signature.h"

#include <stdlib.h>

#include "base/diag.h"
#include "base/hash.h"
#include "base/size.h"
#include "tensor/shape.h"

enum {
    FLAT_ELEMENTS = 512,  /* elements a batch */
    POINTS = 128,         /* a channel, all batches together; fewer where that takes too much */
    MOST_FLOATS = 24576,  /* of a matrix, all batches together, but one row a batch at least */
    MOST_CHANNELS = 16384 /* more are no channels */
};

enum tmk_status tmk_signatures_init(struct tmk_signatures *s, uint32_t n, uint32_t most_batches,
                                    struct tmk_diag *diag) {
    *s = (struct tmk_signatures){.n = n, .most = most_batches};
    s->all = calloc((size_t)n + 1, sizeof *s->all);
    return s->all ? TMK_OK : tmk_nomem(diag);
}

static void drop_signature(struct tmk_signature *signature) {
    free(signature->flat);
    signature->flat = NULL;
    signature->n_flat = 0;
    for (int i = 0; i < TMK_LINK_LAYOUTS; i++) {
        free(signature->by[i].x);
        signature->by[i] = (struct tmk_link_matrix){0};
    }
}

void tmk_signatures_finish(struct tmk_signatures *s) {
    for (uint32_t i = 0; s->all && i < s->n; i++)
        drop_signature(&s->all[i]);
    free(s->all);
    *s = (struct tmk_signatures){0};
}

/* ---- positions ---- */

/* The i-th of `taken` positions among `of`: all of them in order where that many are taken, else
 * scattered by splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
 * 2014). */
static size_t sample_position(size_t of, uint32_t batch, uint32_t i, uint32_t taken) {
    if (taken >= of)
        return i;
    uint64_t z = of + (uint64_t)batch * UINT64_C(0x9e3779b97f4a7c15) +
                 (uint64_t)i * UINT64_C(0xd1b54a32d192ed03);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (size_t)((z ^ (z >> 31)) % of);
}

static uint32_t min_count(uint64_t a, uint64_t b) {
    return (uint32_t)(a < b ? a : b);
}

static enum tmk_status make_matrix(struct tmk_link_matrix *matrix, const struct tmk_shape *shape,
                                   int32_t axis, uint32_t batches, struct tmk_diag *diag) {
    size_t channels = (size_t)shape->dim[axis], floats;
    if (channels > MOST_CHANNELS)
        return TMK_OK;
    size_t rows =
        tmk_shape_product(shape, 0, axis) * tmk_shape_product(shape, axis + 1, shape->rank);
    uint64_t kept = min_count((POINTS + batches - 1) / batches, MOST_FLOATS / (channels * batches));
    matrix->kept = min_count(kept ? kept : 1, rows);
    TMK_TRY_ALLOC(tmk_mul_size((size_t)matrix->kept * batches, channels, &floats), diag);
    matrix->x = malloc(floats * sizeof *matrix->x);
    TMK_TRY_ALLOC(matrix->x, diag);
    matrix->rows = rows;
    matrix->channels = channels;
    return TMK_OK;
}

static enum tmk_status begin_signature(struct tmk_signature *s, const struct tmk_tensor *tensor,
                                       uint32_t batches, struct tmk_diag *diag) {
    s->dtype = tensor->dtype;
    s->shape = tensor->shape;
    s->count = tmk_tensor_count(tensor);
    if (s->dtype != TMK_FLOAT32 || !s->count)
        return TMK_OK;
    s->n_flat = min_count(s->count, FLAT_ELEMENTS);
    s->flat = malloc((size_t)s->n_flat * batches * sizeof *s->flat);
    TMK_TRY_ALLOC(s->flat, diag);
    if (s->shape.rank >= 2)
        TMK_TRY(make_matrix(&s->by[TMK_LINK_CHANNELS_LAST], &s->shape, s->shape.rank - 1, batches,
                            diag));
    if (s->shape.rank >= 3)
        TMK_TRY(make_matrix(&s->by[TMK_LINK_CHANNELS_FIRST], &s->shape, 1, batches, diag));
    return TMK_OK;
}

static void keep_rows(struct tmk_link_matrix *matrix, const float *x, size_t inner,
                      uint32_t batch) {
    float *to = matrix->x + (size_t)batch * matrix->kept * matrix->channels;
    for (uint32_t i = 0; matrix->channels && i < matrix->kept; i++) {
        size_t row = sample_position(matrix->rows, batch, i, matrix->kept);
        const float *from = x + row / inner * inner * matrix->channels + row % inner;
        for (size_t c = 0; c < matrix->channels; c++)
            *to++ = from[c * inner];
    }
}

enum tmk_status tmk_signature_add(struct tmk_signatures *all, uint32_t id, uint32_t batch,
                                  const struct tmk_tensor *tensor, struct tmk_diag *diag) {
    struct tmk_signature *s = &all->all[id];
    if (s->uneven || batch >= all->most || tensor->kind != TMK_TYPE_TENSOR)
        return TMK_OK;
    if (!s->batches)
        TMK_TRY(begin_signature(s, tensor, all->most, diag));
    if (batch != s->batches || tensor->dtype != s->dtype ||
        !tmk_shape_equal(&tensor->shape, &s->shape)) {
        s->uneven = true;
        drop_signature(s);
        return TMK_OK;
    }
    s->batches = batch + 1;
    if (!s->count)
        return TMK_OK;
    s->hash = tmk_hash64(tensor->data, tmk_tensor_bytes(tensor), s->hash);
    if (!s->flat)
        return TMK_OK;
    const float *x = tensor->data;
    for (uint32_t i = 0; i < s->n_flat; i++)
        s->flat[(size_t)batch * s->n_flat + i] = x[sample_position(s->count, batch, i, s->n_flat)];
    keep_rows(&s->by[TMK_LINK_CHANNELS_LAST], x, 1, batch);
    if (s->by[TMK_LINK_CHANNELS_FIRST].channels)
        keep_rows(&s->by[TMK_LINK_CHANNELS_FIRST], x,
                  tmk_shape_product(&s->shape, 2, s->shape.rank), batch);
    return TMK_OK;
}
