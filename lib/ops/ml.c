/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of ai.onnx.ml that stand around float networks: they scale, normalise, threshold
 * and pick features. */
#include "ops/ml.h"
#include "ops/functions.h"

#include <float.h>
#include <math.h>
#include <string.h>

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

/* Float32, or integers, which become float32. */
static enum tmk_status number_infer(struct tmk_infer *infer) {
    const enum tmk_dtype type = infer->in[0]->dtype;
    if (type != TMK_INT32 && type != TMK_INT64)
        return float_infer(infer);
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &infer->in[0]->shape);
}

/* n elements from `first` on; integers as floats, in `space`. */
static const float *row_floats(const struct tmk_tensor *x, size_t first, size_t n, float *space) {
    if (x->dtype == TMK_FLOAT32)
        return (const float *)x->data + first;
    for (size_t i = 0; i < n; i++)
        space[i] = x->dtype == TMK_INT32 ? (float)((const int32_t *)x->data)[first + i]
                                         : (float)((const int64_t *)x->data)[first + i];
    return space;
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
    return number_infer(infer);
}

static float list_entry(const float *list, size_t n, size_t i, float otherwise) {
    return !n ? otherwise : list[n == 1 ? 0 : i];
}

static enum tmk_status scaler_run(struct tmk_run *run) {
    const struct tmk_shape *shape = &run->in[0]->shape;
    struct tmk_tensor *out = tmk_run_out(run, 0);
    size_t n = tmk_tensor_count(run->in[0]), n_offset, n_scale;
    size_t features = shape->rank ? (size_t)shape->dim[shape->rank - 1] : 1;
    const float *offset = tmk_node_floats(run->node, "offset", &n_offset);
    const float *scale = tmk_node_floats(run->node, "scale", &n_scale);
    const float *x = out ? row_floats(run->in[0], 0, n, out->data) : NULL;
    for (size_t i = 0; out && i < n; i++)
        ((float *)out->data)[i] = (x[i] - list_entry(offset, n_offset, i % features, 0.0f)) *
                                  list_entry(scale, n_scale, i % features, 1.0f);
    return TMK_OK;
}

/* ---- Normalizer: each row by its largest magnitude, sum of magnitudes, or length ---- */

enum { NORM_MAX, NORM_L1, NORM_L2 };
static const char norms[] = "MAX L1 L2";

static enum tmk_status normalizer_infer(struct tmk_infer *infer) {
    int norm;
    TMK_TRY(tmk_choice(infer->node, "norm", norms, &norm, infer->diag));
    if (infer->in[0]->shape.rank < 1 || infer->in[0]->shape.rank > 2)
        return tmk_fail(infer->diag, TMK_SHAPE, "input 'X' must have one or two axes, but has %d",
                        infer->in[0]->shape.rank);
    return number_infer(infer);
}

/* MAX divides by the largest value, not magnitude, as ONNX Runtime does. */
static double row_norm(int norm, const float *x, size_t n) {
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
    int norm;
    TMK_TRY(tmk_choice(run->node, "norm", norms, &norm, run->diag));
    for (size_t r = 0; out && r < rows; r++) {
        float *y = (float *)out->data + r * n;
        const float *x = row_floats(run->in[0], r * n, n, y);
        double by = row_norm(norm, x, n);
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

enum tmk_status tmk_ml_transform_of(const struct tmk_node *node, enum tmk_ml_transform *out,
                                    struct tmk_diag *diag) {
    int i;
    TMK_TRY(
        tmk_choice(node, "post_transform", "NONE SOFTMAX LOGISTIC SOFTMAX_ZERO PROBIT", &i, diag));
    *out = (enum tmk_ml_transform)i;
    return TMK_OK;
}

float tmk_ml_logistic(float x) {
    const float v = 1 / (1 + tmk_expf(-fabsf(x)));
    return x < 0 ? 1 - v : v;
}

/* By Winitzki's approximation of the inverse of erf, with ONNX Runtime's digits. */
static float probit(float p) {
    const float x = 2 * p - 1, a = 0.147f, log = tmk_logf((1 - x) * (1 + x)),
                v = 2 / (3.14159f * a) + 0.5f * log;
    return 1.41421356f * copysignf(sqrtf(sqrtf(v * v - log / a) - v), x);
}

/* With `skip`, scores of next to nothing take no part: they stay that. */
static void softmax(float *x, size_t n, bool skip) {
    float most = -FLT_MAX, sum = 0;
    for (size_t i = 0; i < n; i++)
        most = x[i] > most ? x[i] : most;
    for (size_t i = 0; i < n; i++) {
        if (skip && fabsf(x[i]) <= 1e-7f) {
            x[i] *= tmk_expf(-most);
            continue;
        }
        x[i] = tmk_expf(x[i] - most);
        sum += x[i];
    }
    for (size_t i = 0; i < n; i++)
        x[i] /= sum;
}

void tmk_ml_scores(float *scores, size_t n, enum tmk_ml_transform transform,
                   enum tmk_ml_other other) {
    if (n == 1 && transform != TMK_ML_PROBIT) {
        const float s = scores[0];
        const bool logistic = transform == TMK_ML_LOGISTIC;
        if (other == TMK_ML_NO_OTHER)
            return;
        scores[0] = logistic ? tmk_ml_logistic(-s) : other == TMK_ML_COMPLEMENT ? 1 - s : -s;
        scores[1] = logistic ? tmk_ml_logistic(s) : s;
        return;
    }
    if (n == 1 && other != TMK_ML_NO_OTHER)
        scores[1] = 0;
    if (transform == TMK_ML_SOFTMAX || transform == TMK_ML_SOFTMAX_ZERO)
        softmax(scores, n, transform == TMK_ML_SOFTMAX_ZERO);
    for (size_t i = 0; i < n && transform == TMK_ML_LOGISTIC; i++)
        scores[i] = tmk_ml_logistic(scores[i]);
    for (size_t i = 0; i < n && transform == TMK_ML_PROBIT; i++)
        scores[i] = probit(scores[i]);
}

enum tmk_status tmk_ml_rows_of(const struct tmk_tensor *x, struct tmk_ml_rows *out,
                               struct tmk_diag *diag) {
    const struct tmk_shape *shape = &x->shape;
    if (x->dtype != TMK_FLOAT32 && x->dtype != TMK_INT64 && x->dtype != TMK_INT32)
        return tmk_fail(diag, TMK_TYPE, "input 'X' of type %s is not supported",
                        tmk_dtype_name(x->dtype));
    if (shape->rank < 1 || shape->rank > 2)
        return tmk_fail(diag, TMK_SHAPE, "input 'X' must have one or two axes, but has %d",
                        shape->rank);
    *out = (struct tmk_ml_rows){shape->rank == 2 ? shape->dim[0] : 1, shape->dim[shape->rank - 1],
                                x->dtype == TMK_FLOAT32 ? x->data : NULL};
    return TMK_OK;
}

enum tmk_status tmk_ml_read(struct tmk_run *run, struct tmk_ml_rows *out) {
    const struct tmk_tensor *x = run->in[0];
    const size_t n = tmk_tensor_count(x);
    TMK_TRY(tmk_ml_rows_of(x, out, run->diag));
    if (x->dtype == TMK_FLOAT32)
        return TMK_OK;
    float *floats;
    TMK_TRY(tmk_scratch_floats(run, n, 1, 1, &floats));
    out->x = row_floats(x, 0, n, floats);
    return TMK_OK;
}

struct tmk_ml_labels tmk_ml_labels_of(const struct tmk_node *node, const char *ints) {
    const struct tmk_attr *strings = tmk_node_attr(node, "classlabels_strings");
    struct tmk_ml_labels labels = {0};
    if (strings && strings->kind == TMK_ATTR_STRINGS && strings->n)
        labels.n = strings->n;
    else
        labels.ints = tmk_node_ints(node, ints, &labels.n);
    return labels;
}

enum tmk_status tmk_ml_infer_classes(struct tmk_infer *infer, const struct tmk_ml_labels *labels,
                                     int64_t rows, int64_t scores) {
    const struct tmk_shape y = {1, {rows}}, z = {2, {rows, scores}};
    if (infer->node->outputs[0] && labels->n && !labels->ints)
        return tmk_fail(
            infer->diag, TMK_UNSUPPORTED,
            "classes are strings, which are not supported; with integers as classes, or "
            "without the output of the class, the model runs");
    tmk_infer_put(infer, 0, TMK_INT64, &y);
    return tmk_infer_set(infer, 1, TMK_FLOAT32, &z);
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
