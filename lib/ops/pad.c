/* SPDX-License-Identifier: Apache-2.0 */
/* Pad and CenterCropPad. Both crop what is too much and then fill up, one axis at a time: output
 * index i of an axis shows input index map[i], or the fill value where map[i] is OUTSIDE. */
#include <string.h>

#include "ops/contrib.h"
#include "ops/move.h"

enum { OUTSIDE = -1 };

enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP };

struct padding {
    bool known;
    enum pad_mode mode;
    int64_t before[TMK_MAX_RANK], after[TMK_MAX_RANK]; /* negative: cut off */
};

/* Checks the amounts against the input and computes the output's shape. */
static enum tmk_status padded_shape(const struct padding *p, const struct tmk_shape *in,
                                    struct tmk_shape *out, struct tmk_diag *diag) {
    struct tmk_shape shape = *in;
    for (int32_t i = 0; i < in->rank; i++) {
        int64_t kept = in->dim[i];
        for (int side = 0; side < 2; side++) {
            int64_t amount = side ? p->after[i] : p->before[i];
            if (amount < -in->dim[i] || !tmk_add_i64(shape.dim[i], amount, &shape.dim[i]))
                return tmk_fail(diag, TMK_RANGE, "axis %d of %lld cannot be padded by %lld", i,
                                (long long)in->dim[i], (long long)amount);
            kept += amount < 0 ? amount : 0;
        }
        if (kept < 0)
            return tmk_fail(diag, TMK_RANGE, "more is cut off axis %d than its %lld", i,
                            (long long)in->dim[i]);
        if (p->mode != PAD_CONSTANT && kept == 0 && shape.dim[i] > 0)
            return tmk_fail(diag, TMK_SHAPE, "axis %d has no elements to pad with", i);
    }
    *out = shape;
    return TMK_OK;
}

/* Where position i, counted from the first kept of n > 0 elements, finds its element. */
static int64_t source_position(enum pad_mode mode, int64_t i, int64_t n) {
    if (i >= 0 && i < n)
        return i;
    switch (mode) {
    case PAD_CONSTANT:
        break;
    case PAD_EDGE:
        return i < 0 ? 0 : n - 1;
    case PAD_WRAP:
        i %= n;
        return i < 0 ? i + n : i;
    case PAD_REFLECT:
        if (n == 1)
            return 0;
        i %= 2 * (n - 1);
        i = i < 0 ? -i : i;
        return i < n ? i : 2 * (n - 1) - i;
    }
    return OUTSIDE;
}

/* Fills `out` through maps, one an axis; the maps' middle runs are copied whole. */
static void fill_mapped(const struct tmk_tensor *in, struct tmk_tensor *out,
                        int64_t *const map[TMK_MAX_RANK], const void *value) {
    size_t element = tmk_dtype_size(in->dtype), size = element;
    int32_t last = out->shape.rank - 1;
    int64_t stride[TMK_MAX_RANK], at[TMK_MAX_RANK] = {0}, line = out->shape.dim[last];
    tmk_strides(&in->shape, stride);
    char *to = out->data, *end = to + tmk_tensor_bytes(out);
    while (to < end) {
        int64_t base = 0;
        bool outside = false;
        for (int32_t k = 0; k < last; k++) {
            outside |= map[k][at[k]] == OUTSIDE;
            base += map[k][at[k]] * stride[k];
        }
        const char *from = outside ? NULL : (const char *)in->data + base * (int64_t)size;
        for (int64_t i = 0, run; i < line; i += run) {
            int64_t first = outside ? OUTSIDE : map[last][i];
            run = 1;
            if (first == OUTSIDE) {
                while (i + run < line && (outside || map[last][i + run] == OUTSIDE))
                    run++;
                tmk_fill(to + (size_t)i * size, value, element, (size_t)run);
            } else {
                while (i + run < line && map[last][i + run] == first + run)
                    run++;
                memcpy(to + (size_t)i * size, from + (size_t)first * size, (size_t)run * size);
            }
        }
        to += (size_t)line * size;
        for (int32_t k = last - 1; k >= 0; k--) {
            if (++at[k] < out->shape.dim[k])
                break;
            at[k] = 0;
        }
    }
}

static enum tmk_status run_padding(struct tmk_run *run, const struct padding *p,
                                   const void *value) {
    const struct tmk_tensor *in = run->in[0];
    struct tmk_tensor *out = tmk_run_out(run, 0);
    if (!out || tmk_tensor_count(out) == 0)
        return TMK_OK;
    int32_t rank = out->shape.rank;
    if (rank == 0) {
        memcpy(out->data, in->data, tmk_dtype_size(in->dtype));
        return TMK_OK;
    }
    size_t total = 0;
    for (int32_t i = 0; i < rank; i++)
        TMK_TRY_ALLOC(tmk_add_size(total, (size_t)out->shape.dim[i], &total), run->diag);
    int64_t *maps = tmk_scratch(run, total, sizeof *maps);
    TMK_TRY_ALLOC(maps, run->diag);
    int64_t *map[TMK_MAX_RANK];
    for (int32_t i = 0; i < rank; i++) {
        map[i] = maps;
        maps += out->shape.dim[i];
        int64_t cut = p->before[i] < 0 ? -p->before[i] : 0;
        int64_t kept = in->shape.dim[i] - cut + (p->after[i] < 0 ? p->after[i] : 0);
        int64_t shift = p->before[i] > 0 ? p->before[i] : 0;
        for (int64_t k = 0; k < out->shape.dim[i]; k++) {
            int64_t from = source_position(p->mode, k - shift, kept);
            map[i][k] = from == OUTSIDE ? OUTSIDE : from + cut;
        }
    }
    fill_mapped(in, out, map, value);
    return TMK_OK;
}

/* ---- Pad ---- */

static enum tmk_status mode_of(const struct tmk_node *node, enum pad_mode *mode,
                               struct tmk_diag *diag) {
    int i;
    TMK_TRY(tmk_choice(node, "mode", "constant reflect edge wrap", &i, diag));
    *mode = (enum pad_mode)i;
    return TMK_OK;
}

/* `amounts`: all the befores, then all the afters, of `n_axes` axes. */
static enum tmk_status set_amounts(struct padding *p, const int64_t *amounts, size_t n,
                                   const int64_t *axes, size_t n_axes, int32_t rank,
                                   struct tmk_diag *diag) {
    bool seen[TMK_MAX_RANK] = {false};
    if (n_axes > TMK_MAX_RANK || n != 2 * n_axes)
        return tmk_fail(diag, TMK_SHAPE, "%zu amounts do not make two for each of %zu axes", n,
                        n_axes);
    for (int32_t i = 0; i < TMK_MAX_RANK; i++)
        p->before[i] = p->after[i] = 0;
    for (size_t i = 0; i < n_axes; i++) {
        int32_t axis;
        TMK_TRY(tmk_axis(axes ? axes[i] : (int64_t)i, rank, &axis, diag));
        if (seen[axis])
            return tmk_fail(diag, TMK_RANGE, "axis %d is named twice", axis);
        seen[axis] = true;
        p->before[axis] = amounts[i];
        p->after[axis] = amounts[n_axes + i];
    }
    p->known = true;
    return TMK_OK;
}

/* Versions 1 and 2: attributes `paddings`, then `pads`. */
static enum tmk_status padding_1(const struct tmk_node *node, const struct tmk_tensor *in,
                                 struct padding *p, struct tmk_diag *diag) {
    size_t n;
    const int64_t *amounts = tmk_node_ints(node, "paddings", &n);
    if (!amounts)
        amounts = tmk_node_ints(node, "pads", &n);
    TMK_TRY(mode_of(node, &p->mode, diag));
    TMK_TRY(tmk_want_dtype(in, TMK_FLOAT32, "the input", diag));
    return set_amounts(p, amounts, n, NULL, (size_t)in->shape.rank, in->shape.rank, diag);
}

/* in: data, pads, constant_value or NULL, axes or NULL. */
static enum tmk_status padding_11(const struct tmk_node *node, const struct tmk_tensor *const in[4],
                                  struct padding *p, struct tmk_diag *diag) {
    int64_t amounts[2 * TMK_MAX_RANK], axes[TMK_MAX_RANK];
    size_t n, n_axes = (size_t)in[0]->shape.rank;
    p->known = false;
    TMK_TRY(mode_of(node, &p->mode, diag));
    TMK_TRY(tmk_want_dtype(in[1], TMK_INT64, "the amounts", diag));
    TMK_TRY(tmk_want_scalar(in[2], in[0]->dtype, "constant_value", diag));
    if (in[3])
        TMK_TRY(tmk_want_indices(in[3], "the axes", diag));
    if (!in[1]->data || (in[3] && !in[3]->data))
        return TMK_OK;
    if (in[3])
        TMK_TRY(tmk_read_ints(in[3], "the axes", TMK_MAX_RANK, axes, &n_axes, diag));
    TMK_TRY(tmk_read_ints(in[1], "the amounts", TMK_COUNT(amounts), amounts, &n, diag));
    return set_amounts(p, amounts, n, in[3] ? axes : NULL, n_axes, in[0]->shape.rank, diag);
}

static enum tmk_status infer_padding(struct tmk_infer *infer, const struct padding *p) {
    struct tmk_shape shape = {0};
    if (!p->known)
        return TMK_OK;
    TMK_TRY(padded_shape(p, &infer->in[0]->shape, &shape, infer->diag));
    return tmk_infer_set(infer, 0, infer->in[0]->dtype, &shape);
}

static enum tmk_status pad_1_infer(struct tmk_infer *infer) {
    struct padding p;
    TMK_TRY(padding_1(infer->node, infer->in[0], &p, infer->diag));
    return infer_padding(infer, &p);
}

static enum tmk_status pad_1_run(struct tmk_run *run) {
    struct padding p;
    float value = tmk_node_float(run->node, "value", 0.0f);
    TMK_TRY(padding_1(run->node, run->in[0], &p, run->diag));
    return run_padding(run, &p, &value);
}

static enum tmk_status pad_11_infer(struct tmk_infer *infer) {
    struct padding p;
    const struct tmk_tensor *in[4];
    for (uint32_t i = 0; i < 4; i++)
        in[i] = tmk_infer_in(infer, i);
    TMK_TRY(padding_11(infer->node, in, &p, infer->diag));
    return infer_padding(infer, &p);
}

static const char zeros[16]; /* the fill value of any type that has none given */

static enum tmk_status pad_11_run(struct tmk_run *run) {
    struct padding p;
    const struct tmk_tensor *in[4];
    for (uint32_t i = 0; i < 4; i++)
        in[i] = tmk_run_in(run, i);
    TMK_TRY(padding_11(run->node, in, &p, run->diag));
    return run_padding(run, &p, in[2] ? in[2]->data : zeros);
}

/* ---- CenterCropPad ---- */

static enum tmk_status center_padding(const struct tmk_node *node, const struct tmk_tensor *in,
                                      const struct tmk_tensor *target, struct padding *p,
                                      struct tmk_diag *diag) {
    int64_t asked[TMK_MAX_RANK];
    size_t n_axes, n;
    const int64_t *axes = tmk_node_ints(node, "axes", &n_axes);
    if (!tmk_node_attr(node, "axes"))
        n_axes = (size_t)in->shape.rank;
    TMK_TRY(tmk_want_indices(target, "the target sizes", diag));
    *p = (struct padding){.known = target->data != NULL, .mode = PAD_CONSTANT};
    if (!p->known)
        return TMK_OK;
    TMK_TRY(tmk_read_ints(target, "the target sizes", TMK_MAX_RANK, asked, &n, diag));
    if (n != n_axes)
        return tmk_fail(diag, TMK_SHAPE, "%zu target sizes are given for %zu axes", n, n_axes);
    bool seen[TMK_MAX_RANK] = {false};
    for (size_t i = 0; i < n; i++) {
        int32_t axis;
        TMK_TRY(tmk_axis(axes ? axes[i] : (int64_t)i, in->shape.rank, &axis, diag));
        if (seen[axis] || asked[i] < 0)
            return tmk_fail(diag, TMK_RANGE, "axis %d is named twice or to be %lld long", axis,
                            (long long)asked[i]);
        seen[axis] = true;
        /* the odd one goes to the end: C's division rounds towards zero for both signs */
        int64_t grow = asked[i] - in->shape.dim[axis];
        p->before[axis] = grow / 2;
        p->after[axis] = grow - grow / 2;
    }
    return TMK_OK;
}

static enum tmk_status crop_infer(struct tmk_infer *infer) {
    struct padding p;
    TMK_TRY(center_padding(infer->node, infer->in[0], infer->in[1], &p, infer->diag));
    return infer_padding(infer, &p);
}

static enum tmk_status crop_run(struct tmk_run *run) {
    struct padding p;
    TMK_TRY(center_padding(run->node, run->in[0], run->in[1], &p, run->diag));
    return run_padding(run, &p, zeros);
}

static const char pad_11_attrs[] = "mode:string";

const struct tmk_op tmk_ops_pad[] = {
    {TMK_OP_ONNX("Pad", 1, 1), TMK_OP_COUNTS(1, 1, 1, 1),
     .attrs = "mode:string paddings:ints! value:float", .infer = pad_1_infer, .run = pad_1_run},
    {TMK_OP_ONNX("Pad", 2, 10), TMK_OP_COUNTS(1, 1, 1, 1),
     .attrs = "mode:string pads:ints! value:float", .infer = pad_1_infer, .run = pad_1_run},
    {TMK_OP_ONNX("Pad", 11, 17), TMK_OP_COUNTS(2, 3, 1, 1), .attrs = pad_11_attrs,
     .infer = pad_11_infer, .run = pad_11_run},
    {TMK_OP_ONNX("Pad", 18, INT32_MAX), TMK_OP_COUNTS(2, 4, 1, 1), .attrs = pad_11_attrs,
     .infer = pad_11_infer, .run = pad_11_run},
    {TMK_OP_CONTRIB("Pad"), TMK_OP_COUNTS(2, 3, 1, 1), .attrs = pad_11_attrs, .infer = pad_11_infer,
     .run = pad_11_run},
    {TMK_OP_ONNX("CenterCropPad", 18, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1), .attrs = "axes:ints",
     .infer = crop_infer, .run = crop_run},
    {NULL}};
