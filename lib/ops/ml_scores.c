/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/ml.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum tmk_status tmk_ml_choice(const struct tmk_node *node, const char *attr,
                              const char *const *names, size_t n, size_t *out,
                              struct tmk_diag *diag) {
    const char *name = tmk_node_string(node, attr, names[0]);
    for (*out = 0; *out < n; ++*out)
        if (strcmp(names[*out], name) == 0)
            return TMK_OK;
    return tmk_fail(diag, TMK_GRAPH, "attribute '%s' is '%s', which is not known", attr, name);
}

enum tmk_status tmk_ml_transform_of(const struct tmk_node *node, enum tmk_ml_transform *out,
                                    struct tmk_diag *diag) {
    static const char *const names[TMK_ML_TRANSFORMS] = {"NONE", "SOFTMAX", "LOGISTIC",
                                                         "SOFTMAX_ZERO", "PROBIT"};
    size_t i;
    TMK_TRY(tmk_ml_choice(node, "post_transform", names, TMK_ML_TRANSFORMS, &i, diag));
    *out = (enum tmk_ml_transform)i;
    return TMK_OK;
}

float tmk_ml_logistic(float x) {
    const float v = 1 / (1 + expf(-fabsf(x)));
    return x < 0 ? 1 - v : v;
}

/* By Winitzki's approximation of the inverse of erf, with ONNX Runtime's digits. */
static float probit(float p) {
    const float x = 2 * p - 1, a = 0.147f, log = logf((1 - x) * (1 + x)),
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
            x[i] *= expf(-most);
            continue;
        }
        x[i] = expf(x[i] - most);
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
    for (size_t i = 0; i < n; i++)
        floats[i] = x->dtype == TMK_INT64 ? (float)((const int64_t *)x->data)[i]
                                          : (float)((const int32_t *)x->data)[i];
    out->x = floats;
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
    tmk_infer_set(infer, 0, TMK_INT64, &y);
    return tmk_infer_set(infer, 1, TMK_FLOAT32, &z);
}
