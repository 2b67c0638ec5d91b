/* SPDX-License-Identifier: Apache-2.0 */
/* Col2Im: columns of blocks [N, C * block, L] are added up where they lie in the image [N, C,
 * image]. */
#include <string.h>

#include "ops/elementwise.h"
#include "ops/move.h"

/* The spatial axes: sizes of image and block, where blocks start and how they spread. */
struct columns {
    bool known;
    int32_t rank;
    int64_t image[TMK_MAX_RANK], block[TMK_MAX_RANK];
    int64_t stride[TMK_MAX_RANK], dilation[TMK_MAX_RANK], pad[TMK_MAX_RANK];
    int64_t steps[TMK_MAX_RANK]; /* blocks along the axis */
};

/* An attribute of `n` entries, each at least `min`, which is also the default. */
static enum tmk_status read_entries(const struct tmk_node *node, const char *name, size_t n,
                                    int64_t min, int64_t *out, struct tmk_diag *diag) {
    size_t given;
    const int64_t *values = tmk_node_ints(node, name, &given);
    if (tmk_node_attr(node, name) && given != n)
        return tmk_fail(diag, TMK_SHAPE, "%s has %zu entries instead of %zu", name, given, n);
    for (size_t i = 0; i < n; i++) {
        out[i] = values ? values[i] : min;
        if (out[i] < min)
            return tmk_fail(diag, TMK_RANGE, "%s has %lld", name, (long long)out[i]);
    }
    return TMK_OK;
}

static enum tmk_status read_columns(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                    struct columns *c, struct tmk_diag *diag) {
    int64_t pads[2 * TMK_MAX_RANK];
    size_t n, n_block;
    TMK_TRY(tmk_want_dtype(in[1], TMK_INT64, "the image's shape", diag));
    TMK_TRY(tmk_want_dtype(in[2], TMK_INT64, "the block's shape", diag));
    c->known = in[1]->data && in[2]->data;
    if (!c->known)
        return TMK_OK;
    TMK_TRY(tmk_read_ints(in[1], "the image's shape", TMK_MAX_RANK - 2, c->image, &n, diag));
    TMK_TRY(tmk_read_ints(in[2], "the block's shape", TMK_MAX_RANK - 2, c->block, &n_block, diag));
    if (n != n_block || n == 0)
        return tmk_fail(diag, TMK_SHAPE, "the image has %zu axes, but the block %zu", n, n_block);
    c->rank = (int32_t)n;
    TMK_TRY(read_entries(node, "strides", n, 1, c->stride, diag));
    TMK_TRY(read_entries(node, "dilations", n, 1, c->dilation, diag));
    TMK_TRY(read_entries(node, "pads", 2 * n, 0, pads, diag));
    for (size_t i = 0; i < n; i++) {
        int64_t padded = c->image[i], reach;
        c->pad[i] = pads[i];
        if (c->image[i] < 0 || c->block[i] < 1)
            return tmk_fail(diag, TMK_RANGE, "an image of %lld and a block of %lld on axis %zu",
                            (long long)c->image[i], (long long)c->block[i], i);
        if (!tmk_add_i64(padded, pads[i], &padded) || !tmk_add_i64(padded, pads[n + i], &padded) ||
            !tmk_mul_i64(c->dilation[i], c->block[i] - 1, &reach) || reach >= padded)
            return tmk_fail(diag, TMK_SHAPE, "the block does not fit the image on axis %zu", i);
        c->steps[i] = (padded - reach - 1) / c->stride[i] + 1;
    }
    return TMK_OK;
}

static enum tmk_status col2im_infer(struct tmk_infer *infer) {
    struct columns c;
    const struct tmk_shape *in = &infer->in[0]->shape;
    enum tmk_dtype dtype = infer->in[0]->dtype;
    if (dtype != TMK_FLOAT32 && !(tmk_dtype_is_integer(dtype) && dtype < TMK_UINT4))
        return tmk_fail(infer->diag, TMK_TYPE, "%s cannot be added up", tmk_dtype_name(dtype));
    TMK_TRY(read_columns(infer->node, infer->in, &c, infer->diag));
    TMK_TRY(tmk_want_shape(infer->in[0], dtype, "input", &(struct tmk_shape){3, {-1, -1, -1}},
                           infer->diag));
    if (!c.known)
        return TMK_OK;
    int64_t block = 1, steps = 1;
    struct tmk_shape shape = {.rank = 2 + c.rank, .dim = {in->dim[0]}};
    for (int32_t i = 0; i < c.rank; i++) {
        shape.dim[2 + i] = c.image[i];
        if (!tmk_mul_i64(block, c.block[i], &block) || !tmk_mul_i64(steps, c.steps[i], &steps))
            return tmk_fail(infer->diag, TMK_RANGE, "the blocks are too many");
    }
    if (in->dim[1] % block != 0 || in->dim[2] != steps)
        return tmk_fail(infer->diag, TMK_SHAPE,
                        "an input of %lld rows and %lld columns is not made of blocks of %lld at "
                        "%lld places",
                        (long long)in->dim[1], (long long)in->dim[2], (long long)block,
                        (long long)steps);
    shape.dim[1] = in->dim[1] / block;
    return tmk_infer_set(infer, 0, dtype, &shape);
}

static bool next_index(int64_t *at, const int64_t *dim, int32_t rank) {
    for (int32_t k = rank - 1; k >= 0; k--) {
        if (++at[k] < dim[k])
            return true;
        at[k] = 0;
    }
    return false;
}

#define ADD_CASE(op, dtype, T, U)                                                                  \
    case TMK_##dtype:                                                                              \
        for (int64_t i = first; i < end; i++) {                                                    \
            T *sum = (T *)image + base + i * spread;                                               \
            *sum = (T)((U)*sum + (U)((const T *)from)[i]);                                         \
        }                                                                                          \
        break;

/* Adds one line of places: image[base + i * spread] += from[i] for first <= i < end. */
static void add_line(enum tmk_dtype dtype, void *image, int64_t base, int64_t spread,
                     const void *from, int64_t first, int64_t end) {
    switch (dtype) {
        TMK_EACH_NUMBER(ADD_CASE, _)
    default:
        break;
    }
}

/* Adds what one position within the block contributes, for all places of the block. */
static void add_position(const struct columns *c, enum tmk_dtype dtype, const int64_t *position,
                         const int64_t *stride, void *image, const char *from, size_t element) {
    int32_t last = c->rank - 1;
    int64_t place[TMK_MAX_RANK] = {0}, line = c->steps[last];
    int64_t start = position[last] * c->dilation[last] - c->pad[last], s = c->stride[last];
    /* 0 <= start + i * s < image */
    int64_t first = start < 0 ? (-start - 1) / s + 1 : 0;
    int64_t end = start < c->image[last] ? (c->image[last] - 1 - start) / s + 1 : 0;
    if (first > line)
        first = line;
    if (end > line)
        end = line;
    do {
        int64_t base = start;
        bool inside = true;
        for (int32_t k = 0; k < last && inside; k++) {
            int64_t at = place[k] * c->stride[k] + position[k] * c->dilation[k] - c->pad[k];
            inside = at >= 0 && at < c->image[k];
            base += inside ? at * stride[k] : 0;
        }
        if (inside)
            add_line(dtype, image, base, s, from, first, end);
        from += (size_t)line * element;
    } while (next_index(place, c->steps, last));
}

static enum tmk_status col2im_run(struct tmk_run *run) {
    struct columns c;
    struct tmk_tensor *out = tmk_run_out(run, 0);
    TMK_TRY(read_columns(run->node, run->in, &c, run->diag));
    memset(out->data, 0, tmk_tensor_bytes(out));
    int64_t stride[TMK_MAX_RANK], position[TMK_MAX_RANK] = {0};
    tmk_strides(&out->shape, stride);
    size_t element = tmk_dtype_size(out->dtype), images = tmk_shape_product(&out->shape, 0, 2);
    size_t size = tmk_shape_product(&out->shape, 2, out->shape.rank) * element;
    size_t column = (size_t)run->in[0]->shape.dim[2] * element;
    const char *from = run->in[0]->data;
    for (size_t i = 0; i < images; i++)
        do {
            add_position(&c, out->dtype, position, stride + 2, (char *)out->data + i * size, from,
                         element);
            from += column;
        } while (next_index(position, c.block, c.rank));
    return TMK_OK;
}

const struct tmk_op tmk_ops_col2im[] = {
    {TMK_OP_ONNX("Col2Im", 18, INT32_MAX), TMK_OP_COUNTS(3, 3, 1, 1),
     .attrs = "dilations:ints pads:ints strides:ints", .infer = col2im_infer, .run = col2im_run},
    {NULL}};
