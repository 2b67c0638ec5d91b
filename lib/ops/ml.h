/* SPDX-License-Identifier: Apache-2.0 */
/* What the classifiers and regressors of ai.onnx.ml share. Their meaning is that of
 * https://onnx.ai/onnx/operators and, where it is silent, of ONNX Runtime's kernels. */
#pragma once

#include "ops/cost.h"
#include "ops/kernel.h"

#define TMK_DOMAIN_ML "ai.onnx.ml"

/* What becomes of scores. In the order of TreeEnsemble's numbers. */
enum tmk_ml_transform {
    TMK_ML_NONE,
    TMK_ML_SOFTMAX,
    TMK_ML_LOGISTIC,
    TMK_ML_SOFTMAX_ZERO,
    TMK_ML_PROBIT,
    TMK_ML_TRANSFORMS
};
enum tmk_status tmk_ml_transform_of(const struct tmk_node *node, enum tmk_ml_transform *out,
                                    struct tmk_diag *diag);
/* The score of the other class, which one score of two classes leaves out. */
enum tmk_ml_other { TMK_ML_NO_OTHER, TMK_ML_COMPLEMENT, TMK_ML_NEGATION };
/* Transforms n scores in place; a single one becomes two, the other class first. */
void tmk_ml_scores(float *scores, size_t n, enum tmk_ml_transform transform,
                   enum tmk_ml_other other);
float tmk_ml_logistic(float x);

/* X as rows of features: [N,F], [F]; numbers of any type. */
struct tmk_ml_rows {
    int64_t n, features;
    const float *x; /* by tmk_ml_read */
};
enum tmk_status tmk_ml_rows_of(const struct tmk_tensor *x, struct tmk_ml_rows *out,
                               struct tmk_diag *diag);
enum tmk_status tmk_ml_read(struct tmk_run *run, struct tmk_ml_rows *out);

/* A classifier's classes. */
struct tmk_ml_labels {
    size_t n;
    const int64_t *ints; /* NULL: they are strings */
};
struct tmk_ml_labels tmk_ml_labels_of(const struct tmk_node *node, const char *ints);
/* Y [N], int64, and Z [N,scores]. TMK_UNSUPPORTED when Y is wanted and labels are strings. */
enum tmk_status tmk_ml_infer_classes(struct tmk_infer *infer, const struct tmk_ml_labels *labels,
                                     int64_t rows, int64_t scores);
