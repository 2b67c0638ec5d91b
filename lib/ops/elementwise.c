/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/elementwise.h"

const char tmk_attrs_consumed[] = "consumed_inputs:ints";
const char tmk_attrs_legacy[] = "axis:int broadcast:int consumed_inputs:ints";

void tmk_walk_init(struct tmk_walk *walk, const struct tmk_shape *out, uint32_t operands,
                   const struct tmk_shape *const *in) {
    int64_t stride[TMK_WALK_OPERANDS][TMK_MAX_RANK];
    *walk = (struct tmk_walk){.rows = 1, .n = 1, .operands = operands};
    for (uint32_t k = 0; k < operands; k++)
        tmk_broadcast_strides(in[k], out, stride[k]);
    /* outermost first; a dimension joins the one before when all operands step over both alike */
    int32_t rank = 0;
    for (int32_t i = 0; i < out->rank; i++) {
        if (out->dim[i] == 0)
            walk->rows = 0;
        if (out->dim[i] == 1)
            continue;
        bool joins = rank > 0;
        for (uint32_t k = 0; k < operands && joins; k++)
            joins = walk->stride[k][rank - 1] == stride[k][i] * out->dim[i];
        if (joins)
            walk->dim[rank - 1] *= out->dim[i];
        else
            walk->dim[rank++] = out->dim[i];
        for (uint32_t k = 0; k < operands; k++)
            walk->stride[k][rank - 1] = stride[k][i];
    }
    if (walk->rows == 0)
        return;
    if (rank > 0) {
        rank--;
        walk->n = (size_t)walk->dim[rank];
        for (uint32_t k = 0; k < operands; k++)
            walk->vary[k] = walk->stride[k][rank] != 0;
    }
    walk->rank = rank;
    for (int32_t i = 0; i < rank; i++)
        walk->rows *= (size_t)walk->dim[i];
}

void tmk_walk_next(struct tmk_walk *walk) {
    walk->rows--;
    walk->start += walk->n;
    for (int32_t i = walk->rank - 1; i >= 0; i--) {
        bool wraps = ++walk->at[i] == walk->dim[i];
        for (uint32_t k = 0; k < walk->operands; k++) {
            size_t stride = (size_t)walk->stride[k][i];
            if (wraps)
                walk->offset[k] -= stride * (size_t)(walk->dim[i] - 1);
            else
                walk->offset[k] += stride;
        }
        if (!wraps)
            return;
        walk->at[i] = 0;
    }
}

void tmk_walk2(tmk_row2 row, const struct tmk_tensor *a, const struct tmk_shape *shape_a,
               const struct tmk_tensor *b, const struct tmk_shape *shape_b,
               struct tmk_tensor *out) {
    const char *pa = a->data, *pb = b->data;
    char *pr = out->data;
    size_t size_a = tmk_dtype_size(a->dtype), size_b = tmk_dtype_size(b->dtype),
           size_r = tmk_dtype_size(out->dtype);
    struct tmk_walk walk;
    tmk_walk_init(&walk, &out->shape, 2, (const struct tmk_shape *const[]){shape_a, shape_b});
    for (; walk.rows; tmk_walk_next(&walk))
        row(walk.n, pa + walk.offset[0] * size_a, walk.vary[0], pb + walk.offset[1] * size_b,
            walk.vary[1], pr + walk.start * size_r);
}

static enum tmk_status want_types(const struct tmk_infer *infer, const struct tmk_binary *op) {
    const struct tmk_tensor *a = infer->in[0], *b = infer->in[1];
    TMK_WANT_ENTRY(op->row, a, "input 0", infer->diag);
    return tmk_want_dtype(b, a->dtype, "input 1", infer->diag);
}

static enum tmk_dtype result_type(const struct tmk_infer *infer, const struct tmk_binary *op) {
    return op->result == TMK_UNDEFINED ? infer->in[0]->dtype : op->result;
}

enum tmk_status tmk_infer_binary_as(struct tmk_infer *infer, const struct tmk_binary *op) {
    struct tmk_shape shape;
    TMK_TRY(want_types(infer, op));
    TMK_TRY(tmk_broadcast(&infer->in[0]->shape, &infer->in[1]->shape, &shape, infer->diag));
    return tmk_infer_set(infer, 0, result_type(infer, op), &shape);
}

enum tmk_status tmk_infer_binary(struct tmk_infer *infer) {
    return tmk_infer_binary_as(infer, infer->node->row->table);
}

enum tmk_status tmk_run_binary_as(struct tmk_run *run, const struct tmk_binary *op) {
    const struct tmk_tensor *a = run->in[0], *b = run->in[1];
    if (tmk_run_out(run, 0))
        tmk_walk2(op->row[a->dtype], a, &a->shape, b, &b->shape, run->out[0]);
    return TMK_OK;
}

enum tmk_status tmk_run_binary(struct tmk_run *run) {
    return tmk_run_binary_as(run, run->node->row->table);
}

enum tmk_status tmk_align_legacy(const struct tmk_node *node, const struct tmk_shape *a,
                                 const struct tmk_shape *b, struct tmk_shape *shape_b,
                                 struct tmk_diag *diag) {
    size_t count;
    if (tmk_shape_equal(a, b)) {
        *shape_b = *b;
        return TMK_OK;
    }
    if (!tmk_node_int(node, "broadcast", 0))
        return tmk_fail(diag, TMK_SHAPE, "shapes %s and %s differ, and broadcast is not 1",
                        TMK_SHAPE_TEXT(a), TMK_SHAPE_TEXT(b));
    if (b->rank > a->rank || !tmk_shape_count(b, &count))
        return tmk_fail(diag, TMK_SHAPE, "%s does not broadcast to %s", TMK_SHAPE_TEXT(b),
                        TMK_SHAPE_TEXT(a));
    if (count == 1) {
        *shape_b = (struct tmk_shape){0};
        return TMK_OK;
    }
    int64_t axis = tmk_node_int(node, "axis", a->rank - b->rank);
    if (axis < 0)
        axis += a->rank;
    if (axis < 0 || axis > a->rank - b->rank)
        return tmk_fail(diag, TMK_RANGE, "axis %lld: %s does not fit into %s",
                        (long long)tmk_node_int(node, "axis", 0), TMK_SHAPE_TEXT(b),
                        TMK_SHAPE_TEXT(a));
    struct tmk_shape fit = {.rank = a->rank};
    for (int32_t i = 0; i < a->rank; i++)
        fit.dim[i] = 1;
    for (int32_t i = 0; i < b->rank; i++) {
        if (b->dim[i] != 1 && b->dim[i] != a->dim[axis + i])
            return tmk_fail(diag, TMK_SHAPE, "%s does not stand in %s at axis %lld",
                            TMK_SHAPE_TEXT(b), TMK_SHAPE_TEXT(a), (long long)axis);
        fit.dim[axis + i] = b->dim[i];
    }
    *shape_b = fit;
    return TMK_OK;
}

enum tmk_status tmk_infer_binary_legacy(struct tmk_infer *infer) {
    const struct tmk_binary *op = infer->node->row->table;
    struct tmk_shape shape_b;
    TMK_TRY(want_types(infer, op));
    TMK_TRY(tmk_align_legacy(infer->node, &infer->in[0]->shape, &infer->in[1]->shape, &shape_b,
                             infer->diag));
    return tmk_infer_set(infer, 0, result_type(infer, op), &infer->in[0]->shape);
}

enum tmk_status tmk_run_binary_legacy(struct tmk_run *run) {
    const struct tmk_binary *op = run->node->row->table;
    const struct tmk_tensor *a = run->in[0], *b = run->in[1];
    struct tmk_shape shape_b;
    TMK_TRY(tmk_align_legacy(run->node, &a->shape, &b->shape, &shape_b, run->diag));
    if (tmk_run_out(run, 0))
        tmk_walk2(op->row[a->dtype], a, &a->shape, b, &shape_b, run->out[0]);
    return TMK_OK;
}
