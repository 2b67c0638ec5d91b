/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of ai.onnx.ml that stand around float networks: they scale, normalise, threshold
 * and pick features. */
#include <math.h>
#include <string.h>

#include "ops/ml.h"

/* ---- Binarizer ---- */

static enum tmk_status float_infer(struct tmk_infer *infer) {
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "input 'X'", infer->diag));
    return tmk_infer_same(infer);
}

static enum tmk_status binarizer_run(struct tmk_run *run) {
    const float *x = run->in[0]->data, threshold = tmk_node_float(run->node, "threshold", 0.0f);
    struct tmk_tensor *out = tmk_run_out(run, 0);
    size_t n = tmk_tensor_count(run->in[0]);
    for (size_t i = 0; out && i < n; i++)
        ((float *)out->data)[i] = x[i] > threshold ? 1.0f : 0.0f;
    return TMK_OK;
}

/* ---- Scaler: (x - offset) * scale, each one number or one a feature ---- */

static enum tmk_status check_features(const struct tmk_infer *infer, const char *name,
                                      size_t features) {
    size_t n;
    if (!tmk_node_floats(infer->node, name, &n) || n == 1 || n == features)
        return TMK_OK;
    return tmk_fail(infer->diag, TMK_SHAPE, "attribute '%s' has %zu entries for %zu features", name,
                    n, features);
}

static enum tmk_status scaler_infer(struct tmk_infer *infer) {
    const struct tmk_shape *shape = &infer->in[0]->shape;
    size_t features = shape->rank ? (size_t)shape->dim[shape->rank - 1] : 1;
    TMK_TRY(check_features(infer, "offset", features));
    TMK_TRY(check_features(infer, "scale", features));
    return float_infer(infer);
}

static float list_entry(const float *list, size_t n, size_t i, float otherwise) {
    return !n ? otherwise : list[n == 1 ? 0 : i];
}

static enum tmk_status scaler_run(struct tmk_run *run) {
    const struct tmk_shape *shape = &run->in[0]->shape;
    struct tmk_tensor *out = tmk_run_out(run, 0);
    const float *x = run->in[0]->data;
    size_t n = tmk_tensor_count(run->in[0]), n_offset, n_scale;
    size_t features = shape->rank ? (size_t)shape->dim[shape->rank - 1] : 1;
    const float *offset = tmk_node_floats(run->node, "offset", &n_offset);
    const float *scale = tmk_node_floats(run->node, "scale", &n_scale);
    for (size_t i = 0; out && i < n; i++)
        ((float *)out->data)[i] = (x[i] - list_entry(offset, n_offset, i % features, 0.0f)) *
                                  list_entry(scale, n_scale, i % features, 1.0f);
    return TMK_OK;
}

/* ---- Normalizer: each row by its largest magnitude, sum of magnitudes, or length ---- */

enum norm { NORM_MAX, NORM_L1, NORM_L2, NORMS };

static enum norm norm_of(const struct tmk_node *node) {
    static const char *const names[] = {"MAX", "L1", "L2"};
    const char *name = tmk_node_string(node, "norm", "MAX");
    int i = 0;
    while (i < NORMS && strcmp(names[i], name) != 0)
        i++;
    return (enum norm)i;
}

static enum tmk_status normalizer_infer(struct tmk_infer *infer) {
    if (norm_of(infer->node) == NORMS)
        return tmk_fail(infer->diag, TMK_GRAPH, "attribute 'norm' is none of MAX, L1 and L2");
    if (infer->in[0]->shape.rank < 1 || infer->in[0]->shape.rank > 2)
        return tmk_fail(infer->diag, TMK_SHAPE, "input 'X' must have one or two axes, but has %d",
                        infer->in[0]->shape.rank);
    return float_infer(infer);
}

/* MAX divides by the largest value, not magnitude, as ONNX Runtime does. */
static double row_norm(enum norm norm, const float *x, size_t n) {
    double sum = 0, most = n ? (double)x[0] : 0;
    for (size_t i = 0; i < n; i++) {
        double v = (double)x[i];
        most = v > most ? v : most;
        sum += norm == NORM_L2 ? v * v : fabs(v);
    }
    return norm == NORM_MAX ? most : norm == NORM_L2 ? sqrt(sum) : sum;
}

static enum tmk_status normalizer_run(struct tmk_run *run) {
    const struct tmk_shape *shape = &run->in[0]->shape;
    struct tmk_tensor *out = tmk_run_out(run, 0);
    size_t n = (size_t)shape->dim[shape->rank - 1],
           rows = tmk_shape_product(shape, 0, shape->rank - 1);
    for (size_t r = 0; out && r < rows; r++) {
        const float *x = (const float *)run->in[0]->data + r * n;
        float *y = (float *)out->data + r * n;
        double by = row_norm(norm_of(run->node), x, n);
        for (size_t i = 0; i < n; i++)
            y[i] = by != 0 ? (float)((double)x[i] / by) : x[i];
    }
    return TMK_OK;
}

/* ---- ArrayFeatureExtractor: elements of the last axis by index ---- */

static enum tmk_status extractor_infer(struct tmk_infer *infer) {
    struct tmk_shape shape = infer->in[0]->shape;
    size_t n = tmk_tensor_count(infer->in[1]);
    TMK_TRY(tmk_want_dtype(infer->in[1], TMK_INT64, "input 'Y'", infer->diag));
    if (!shape.rank || !n)
        return tmk_fail(infer->diag, TMK_SHAPE, "input 'X' needs an axis, and 'Y' an element");
    if (shape.rank == 1) { /* one row */
        shape.rank = 2;
        shape.dim[0] = 1;
    }
    shape.dim[shape.rank - 1] = (int64_t)n;
    return tmk_infer_set(infer, 0, infer->in[0]->dtype, &shape);
}

static enum tmk_status extractor_run(struct tmk_run *run) {
    const struct tmk_shape *shape = &run->in[0]->shape;
    struct tmk_tensor *out = tmk_run_out(run, 0);
    const int64_t *index = run->in[1]->data;
    int64_t features = shape->dim[shape->rank - 1];
    size_t n = tmk_tensor_count(run->in[1]), rows = tmk_shape_product(shape, 0, shape->rank - 1),
           size = tmk_dtype_size(run->in[0]->dtype);
    for (size_t i = 0; i < n; i++)
        if (index[i] < 0 || index[i] >= features)
            return tmk_fail(run->diag, TMK_RANGE, "index %lld is outside [0, %lld)",
                            (long long)index[i], (long long)features);
    for (size_t r = 0; out && r < rows; r++)
        for (size_t i = 0; i < n; i++)
            memcpy((char *)out->data + (r * n + i) * size,
                   (const char *)run->in[0]->data +
                       (r * (size_t)features + (size_t)index[i]) * size,
                   size);
    return TMK_OK;
}

const struct tmk_op tmk_ops_ml[] = {
    {TMK_OP_KEY(TMK_DOMAIN_ML, "Binarizer", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_INPLACE, .channel = TMK_CHANNEL_INHERIT, .attrs = "threshold:float",
     .infer = float_infer, .run = binarizer_run},
    {TMK_OP_KEY(TMK_DOMAIN_ML, "Scaler", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_INPLACE, .channel = TMK_CHANNEL_INHERIT, .attrs = "offset:floats scale:floats",
     .infer = scaler_infer, .run = scaler_run},
    {TMK_OP_KEY(TMK_DOMAIN_ML, "Normalizer", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .channel = TMK_CHANNEL_INHERIT, .attrs = "norm:string", .infer = normalizer_infer,
     .run = normalizer_run},
    {TMK_OP_KEY(TMK_DOMAIN_ML, "ArrayFeatureExtractor", 1, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1),
     .flags = TMK_OP_CHECKS, .infer = extractor_infer, .run = extractor_run},
    {NULL}};
