/* SPDX-License-Identifier: Apache-2.0 */
/* What ONNX Runtime fuses around linear attention and several residual streams: RMS norms over
 * parts of rows, and gates. Squares are summed in double, all else is float32. */
#include <math.h>

#include "ops/contrib.h"
#include "ops/functions.h"
#include "ops/vmath.h"

/* y = x / sqrt(mean of x^2 + epsilon) * scale over parts of n elements; part i takes row
 * i % rows of `scale`, NULL: 1. */
struct parts {
    const float *x, *scale;
    size_t count, n, rows;
    double epsilon;
};

static void normalize_parts(const struct parts *p, float *y) {
    for (size_t i = 0; i < p->count; i++) {
        const float *x = p->x + i * p->n;
        const double squares = tmk_vsum_deviations(x, 0, p->n) / (double)p->n;
        const float factor = (float)(1 / sqrt(squares + p->epsilon));
        float *to = y + i * p->n;
        if (p->scale)
            tmk_vnormalize(x, 0, factor, p->scale + i % p->rows * p->n, NULL, to, p->n);
        else
            tmk_vscale(x, factor, to, p->n);
    }
}

/* ---- GatedRMSNorm ---- */

enum { GATED_X, GATED_SCALE, GATED_GATE };

enum { SILU, SWISH, SIGMOID };
static const char gate_names[] = "silu swish sigmoid";

static enum tmk_status infer_gated_norm(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[GATED_X], *scale = infer->in[GATED_SCALE];
    int kind;
    TMK_TRY(tmk_choice(infer->node, "activation", gate_names, &kind, infer->diag));
    TMK_TRY(tmk_want_dtype(x, TMK_FLOAT32, "X", infer->diag));
    TMK_TRY(tmk_want_dtype(scale, TMK_FLOAT32, "scale", infer->diag));
    TMK_TRY(tmk_want_shape(infer->in[GATED_GATE], TMK_FLOAT32, "gate", &x->shape, infer->diag));
    if (x->shape.rank < 1 || scale->shape.rank != 1 || scale->shape.dim[0] < 1 ||
        x->shape.dim[x->shape.rank - 1] % scale->shape.dim[0] != 0)
        return tmk_fail(infer->diag, TMK_SHAPE, "a scale of shape %s does not divide rows of %s",
                        TMK_SHAPE_TEXT(&scale->shape), TMK_SHAPE_TEXT(&x->shape));
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &x->shape);
}

static enum tmk_status run_gated_norm(struct tmk_run *run) {
    const size_t count = tmk_tensor_count(run->in[GATED_X]),
                 n = (size_t)run->in[GATED_SCALE]->shape.dim[0];
    const struct parts parts = {.x = run->in[GATED_X]->data,
                                .scale = run->in[GATED_SCALE]->data,
                                .count = count / n,
                                .n = n,
                                .rows = 1,
                                .epsilon = (double)tmk_node_float(run->node, "epsilon", 1e-5f)};
    const float *gate = run->in[GATED_GATE]->data;
    float *y = run->out[0]->data;
    int kind;
    TMK_TRY(tmk_choice(run->node, "activation", gate_names, &kind, run->diag));
    normalize_parts(&parts, y);
    for (size_t i = 0; i < count; i++)
        y[i] *= (kind == SIGMOID ? 1.0f : gate[i]) * tmk_sigmoidf(gate[i]);
    return TMK_OK;
}

/* ---- BranchwiseRMSNorm ---- */

/* The elements of a branch, and how many branches the scale has. */
static enum tmk_status read_branches(const struct tmk_node *node, const struct tmk_shape *x,
                                     const struct tmk_tensor *scale, size_t *n, size_t *rows,
                                     struct tmk_diag *diag) {
    const int64_t branches = tmk_node_int(node, "num_branches", 0);
    if (x->rank < 1 + (branches == 0) || branches < 0 ||
        (branches && x->dim[x->rank - 1] % branches != 0))
        return tmk_fail(diag, TMK_SHAPE, "%s does not end in %lld branches", TMK_SHAPE_TEXT(x),
                        (long long)branches);
    const int64_t hidden = x->dim[x->rank - 1] / (branches ? branches : 1),
                  all = branches ? branches : x->dim[x->rank - 2];
    *n = (size_t)hidden;
    *rows = 1;
    if (!scale)
        return TMK_OK;
    const struct tmk_shape *s = &scale->shape;
    const bool flat = s->rank == 1 && s->dim[0] == all * hidden,
               grouped = s->rank == 2 && s->dim[0] == all && s->dim[1] == hidden,
               shared = s->rank == 1 && s->dim[0] == hidden;
    TMK_TRY(tmk_want_dtype(scale, TMK_FLOAT32, "scale", diag));
    if (!flat && !grouped && !shared)
        return tmk_fail(diag, TMK_SHAPE, "a scale of shape %s does not fit %lld branches of %s",
                        TMK_SHAPE_TEXT(s), (long long)all, TMK_SHAPE_TEXT(x));
    *rows = shared ? 1 : (size_t)all;
    return TMK_OK;
}

static enum tmk_status infer_branches(struct tmk_infer *infer) {
    size_t n, rows, count;
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "X", infer->diag));
    if (!tmk_shape_count(&infer->in[0]->shape, &count))
        return tmk_fail(infer->diag, TMK_RANGE, "the input is too large");
    TMK_TRY(read_branches(infer->node, &infer->in[0]->shape, tmk_infer_in(infer, 1), &n, &rows,
                          infer->diag));
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &infer->in[0]->shape);
}

static enum tmk_status run_branches(struct tmk_run *run) {
    const struct tmk_tensor *scale = tmk_run_in(run, 1);
    struct parts parts = {.x = run->in[0]->data,
                          .scale = scale ? scale->data : NULL,
                          .epsilon = (double)tmk_node_float(run->node, "epsilon", 1e-5f)};
    TMK_TRY(read_branches(run->node, &run->in[0]->shape, scale, &parts.n, &parts.rows, run->diag));
    parts.count = tmk_tensor_count(run->in[0]) / parts.n;
    normalize_parts(&parts, run->out[0]->data);
    return TMK_OK;
}

/* ---- ScaledSiLU ---- */

static enum tmk_status infer_scaled(struct tmk_infer *infer) {
    const struct tmk_tensor *scale = tmk_infer_in(infer, 1);
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "X", infer->diag));
    if (scale) {
        TMK_TRY(tmk_want_dtype(scale, TMK_FLOAT32, "scale", infer->diag));
        if (tmk_tensor_count(scale) != 1)
            return tmk_fail(infer->diag, TMK_SHAPE, "input 'scale' is no scalar");
    }
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &infer->in[0]->shape);
}

static enum tmk_status run_scaled(struct tmk_run *run) {
    const struct tmk_tensor *scale = tmk_run_in(run, 1);
    const float factor =
        scale ? *(const float *)scale->data : tmk_node_float(run->node, "alpha", 1.0f);
    const float *x = run->in[0]->data;
    float *y = run->out[0]->data;
    for (size_t i = 0, n = tmk_tensor_count(run->in[0]); i < n; i++) {
        const float z = factor * x[i];
        y[i] = z * tmk_sigmoidf(z);
    }
    return TMK_OK;
}

/* ---- GatedAdd: x + y * gate, one gate a row ---- */

static enum tmk_status infer_gated_add(struct tmk_infer *infer) {
    const struct tmk_shape *x = &infer->in[0]->shape;
    struct tmk_shape gate = *x;
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "X", infer->diag));
    TMK_TRY(tmk_want_shape(infer->in[1], TMK_FLOAT32, "Y", x, infer->diag));
    if (tmk_infer_in(infer, 3))
        return tmk_fail(infer->diag, TMK_UNSUPPORTED, "input 'gate_weight' is not supported");
    if (x->rank < 1)
        return tmk_fail(infer->diag, TMK_SHAPE, "input 'X' is a scalar");
    gate.dim[gate.rank - 1] = 1;
    TMK_TRY(tmk_want_shape(infer->in[2], TMK_FLOAT32, "gate", &gate, infer->diag));
    return tmk_infer_set(infer, 0, TMK_FLOAT32, x);
}

static enum tmk_status run_gated_add(struct tmk_run *run) {
    const struct tmk_shape *shape = &run->in[0]->shape;
    const float *x = run->in[0]->data, *y = run->in[1]->data, *gate = run->in[2]->data;
    const size_t width = (size_t)shape->dim[shape->rank - 1];
    float *out = run->out[0]->data;
    for (size_t i = 0, n = tmk_tensor_count(run->in[0]); i < n; i++)
        out[i] = x[i] + y[i] * gate[i / width];
    return TMK_OK;
}

const struct tmk_op tmk_ops_contrib_gate[] = {
    {TMK_OP_CONTRIB("GatedRMSNorm"), TMK_OP_COUNTS(3, 3, 1, 1), .channel = TMK_CHANNEL_LAST,
     .attrs = "activation:string epsilon:float", .infer = infer_gated_norm, .run = run_gated_norm},
    {TMK_OP_CONTRIB("BranchwiseRMSNorm"), TMK_OP_COUNTS(1, 2, 1, 1), .channel = TMK_CHANNEL_LAST,
     .attrs = "epsilon:float num_branches:int", .infer = infer_branches, .run = run_branches},
    {TMK_OP_CONTRIB("ScaledSiLU"), TMK_OP_COUNTS(1, 2, 1, 1), .channel = TMK_CHANNEL_INHERIT,
     .attrs = "alpha:float", .infer = infer_scaled, .run = run_scaled},
    {TMK_OP_CONTRIB("GatedAdd"), TMK_OP_COUNTS(3, 4, 1, 1), .channel = TMK_CHANNEL_INHERIT,
     .infer = infer_gated_add, .run = run_gated_add},
    {NULL}};
