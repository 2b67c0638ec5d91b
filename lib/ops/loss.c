/* SPDX-License-Identifier: Apache-2.0 */
/* NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: what each place's right class costs, -log
 * p times the class's weight, and optionally the sum over all places, or that sum divided by the
 * sum of the weights (1 without weights). Places of class `ignore_index` cost and weigh nothing.
 * All sums are in double. */
#include <math.h>
#include <string.h>

#include "ops/move.h"
#include "ops/rows.h"

enum reduction { REDUCE_NONE, REDUCE_SUM, REDUCE_MEAN };

static enum tmk_status read_reduction(const struct tmk_node *node, enum reduction *out,
                                      struct tmk_diag *diag) {
    const char *text = tmk_node_string(node, "reduction", "mean");
    if (strcmp(text, "none") == 0)
        *out = REDUCE_NONE;
    else if (strcmp(text, "sum") == 0)
        *out = REDUCE_SUM;
    else if (strcmp(text, "mean") == 0)
        *out = REDUCE_MEAN;
    else
        return tmk_fail(diag, TMK_RANGE, "attribute 'reduction' is '%s', not none, sum or mean",
                        text);
    return TMK_OK;
}

static enum tmk_status infer_loss(struct tmk_infer *infer) {
    char a[128], b[128];
    const struct tmk_tensor *x = infer->in[0], *target = infer->in[1],
                            *weight = tmk_infer_in(infer, 2);
    struct tmk_diag *diag = infer->diag;
    enum reduction reduction;
    TMK_TRY(read_reduction(infer->node, &reduction, diag));
    TMK_TRY(tmk_want_dtype(x, TMK_FLOAT32, "input 0", diag));
    TMK_TRY(tmk_want_indices(target, "input 1, the classes,", diag));
    bool fits = x->shape.rank >= 2 && target->shape.rank == x->shape.rank - 1 &&
                target->shape.dim[0] == x->shape.dim[0];
    for (int32_t i = 2; i < x->shape.rank && fits; i++)
        fits = target->shape.dim[i - 1] == x->shape.dim[i];
    if (!fits)
        return tmk_fail(diag, TMK_SHAPE, "classes of shape %s do not fit an input of shape %s",
                        tmk_shape_text(&target->shape, a, sizeof a),
                        tmk_shape_text(&x->shape, b, sizeof b));
    if (weight) {
        TMK_TRY(tmk_want_dtype(weight, TMK_FLOAT32, "input 2, the weights,", diag));
        if (weight->shape.rank != 1 || weight->shape.dim[0] != x->shape.dim[1])
            return tmk_fail(diag, TMK_SHAPE, "weights of shape %s are not one a class of %s",
                            tmk_shape_text(&weight->shape, a, sizeof a),
                            tmk_shape_text(&x->shape, b, sizeof b));
    }
    tmk_infer_set(infer, 0, TMK_FLOAT32,
                  reduction == REDUCE_NONE ? &target->shape : &(struct tmk_shape){0});
    return tmk_infer_set(infer, 1, TMK_FLOAT32, &x->shape);
}

/* x[c] along the classes of one place, `step` elements apart: the logarithm of the sum of e^x. */
static double log_sum(const float *x, size_t classes, size_t step) {
    double most = -INFINITY, sum = 0;
    for (size_t c = 0; c < classes; c++)
        most = (double)x[c * step] > most ? (double)x[c * step] : most;
    if (!isfinite(most))
        most = 0;
    for (size_t c = 0; c < classes; c++)
        sum += exp((double)x[c * step] - most);
    return most + log(sum);
}

static enum tmk_status run_loss(struct tmk_run *run, bool softmax) {
    const struct tmk_tensor *x = run->in[0], *target = run->in[1], *weight = tmk_run_in(run, 2);
    struct tmk_tensor *loss = tmk_run_out(run, 0), *log_prob = tmk_run_out(run, 1);
    size_t batch = (size_t)x->shape.dim[0], classes = (size_t)x->shape.dim[1],
           inner = tmk_shape_product(&x->shape, 2, x->shape.rank),
           places = tmk_tensor_count(target);
    bool ignores = tmk_node_attr(run->node, "ignore_index") != NULL;
    int64_t ignored = tmk_node_int(run->node, "ignore_index", 0);
    enum reduction reduction;
    double sum = 0, weights = 0;
    TMK_TRY(read_reduction(run->node, &reduction, run->diag));
    for (size_t n = 0, at = 0; n < batch && places; n++)
        for (size_t j = 0; j < inner; j++, at++) {
            int64_t class = tmk_index_at(target, at);
            size_t first = n * classes * inner + j;
            const float *from = (const float *)x->data + first;
            double base = softmax ? log_sum(from, classes, inner) : 0, cost = 0;
            for (size_t c = 0; c < classes && log_prob; c++)
                ((float *)log_prob->data)[first + c * inner] =
                    (float)((double)from[c * inner] - base);
            if (!ignores || class != ignored) {
                if (class < 0 || (uint64_t) class >= classes)
                    return tmk_fail(run->diag, TMK_RANGE,
                                    "element %zu of input 1 is class %lld of %zu", at,
                                    (long long)class, classes);
                double w = weight ? (double)((const float *)weight->data)[class] : 1;
                cost = (base - (double)from[(size_t) class * inner]) * w;
                weights += w;
            }
            sum += cost;
            if (loss && reduction == REDUCE_NONE)
                ((float *)loss->data)[at] = (float)cost;
        }
    if (loss && reduction != REDUCE_NONE)
        *(float *)loss->data = (float)(reduction == REDUCE_MEAN ? sum / weights : sum);
    return TMK_OK;
}

static enum tmk_status run_likelihood(struct tmk_run *run) {
    return run_loss(run, false);
}

static enum tmk_status run_cross_entropy(struct tmk_run *run) {
    return run_loss(run, true);
}

static const char attrs[] = "ignore_index:int reduction:string";

const struct tmk_op tmk_ops_loss[] = {
    {TMK_OP_ONNX("NegativeLogLikelihoodLoss", 12, INT32_MAX), TMK_OP_COUNTS(2, 3, 1, 1),
     .attrs = attrs, .infer = infer_loss, .run = run_likelihood},
    {TMK_OP_ONNX("SoftmaxCrossEntropyLoss", 12, INT32_MAX), TMK_OP_COUNTS(2, 3, 1, 2),
     .attrs = attrs, .infer = infer_loss, .run = run_cross_entropy},
    {NULL}};
