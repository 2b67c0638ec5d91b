/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of training: losses and optimizers. */
#include <math.h>
#include <string.h>

#include "ops/move.h"

/* NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: what each place's right class costs, -log
 * p times the class's weight, and optionally the sum over all places, or that sum divided by the
 * sum of the weights (1 without weights). Places of class `ignore_index` cost and weigh nothing.
 * All sums are in double. */

enum { REDUCE_MEAN, REDUCE_SUM, REDUCE_NONE };
static const char reductions[] = "mean sum none";

static enum tmk_status infer_loss(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0], *target = infer->in[1],
                            *weight = tmk_infer_in(infer, 2);
    struct tmk_diag *diag = infer->diag;
    int reduction;
    TMK_TRY(tmk_choice(infer->node, "reduction", reductions, &reduction, diag));
    TMK_TRY(tmk_want_dtype(x, TMK_FLOAT32, "input 0", diag));
    TMK_TRY(tmk_want_indices(target, "input 1, the classes,", diag));
    bool fits = x->shape.rank >= 2 && target->shape.rank == x->shape.rank - 1 &&
                target->shape.dim[0] == x->shape.dim[0];
    for (int32_t i = 2; i < x->shape.rank && fits; i++)
        fits = target->shape.dim[i - 1] == x->shape.dim[i];
    if (!fits)
        return tmk_fail(diag, TMK_SHAPE, "classes of shape %s do not fit an input of shape %s",
                        TMK_SHAPE_TEXT(&target->shape), TMK_SHAPE_TEXT(&x->shape));
    if (weight) {
        TMK_TRY(tmk_want_dtype(weight, TMK_FLOAT32, "input 2, the weights,", diag));
        if (weight->shape.rank != 1 || weight->shape.dim[0] != x->shape.dim[1])
            return tmk_fail(diag, TMK_SHAPE, "weights of shape %s are not one a class of %s",
                            TMK_SHAPE_TEXT(&weight->shape), TMK_SHAPE_TEXT(&x->shape));
    }
    tmk_infer_put(infer, 0, TMK_FLOAT32,
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

static enum tmk_status run_loss(struct tmk_run *run) {
    const bool softmax = run->node->row->variant;
    const struct tmk_tensor *x = run->in[0], *target = run->in[1], *weight = tmk_run_in(run, 2);
    struct tmk_tensor *loss = tmk_run_out(run, 0), *log_prob = tmk_run_out(run, 1);
    size_t batch = (size_t)x->shape.dim[0], classes = (size_t)x->shape.dim[1],
           inner = tmk_shape_product(&x->shape, 2, x->shape.rank),
           places = tmk_tensor_count(target);
    bool ignores = tmk_node_attr(run->node, "ignore_index") != NULL;
    int64_t ignored = tmk_node_int(run->node, "ignore_index", 0);
    int reduction;
    double sum = 0, weights = 0;
    TMK_TRY(tmk_choice(run->node, "reduction", reductions, &reduction, run->diag));
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

static const char loss_attrs[] = "ignore_index:int reduction:string";

/* One step of Adagrad, Adam and Momentum (ai.onnx.preview.training). Inputs: R, T, then X of all
 * tensors, G of all, and one or two groups of states; outputs: X of all, then the states. The
 * formulas are those of the operators' specifications, here in double. */

#define DOMAIN_TRAINING "ai.onnx.preview.training"

/* One element: its value, gradient and states. */
struct step {
    double x, g, first, second;
};

/* Attributes, and the learning rate as the update count leaves it. */
struct rates {
    double rate, alpha, beta, epsilon, norm, norm_post;
    bool nesterov;
};

typedef void step_fn(struct step *s, const struct rates *r);

static void adagrad_step(struct step *s, const struct rates *r) {
    double g = r->norm * s->x + s->g;
    s->first += g * g;
    s->x -= r->rate * g / (sqrt(s->first) + r->epsilon);
}

static void adam_step(struct step *s, const struct rates *r) {
    double g = r->norm * s->x + s->g;
    s->first = r->alpha * s->first + (1 - r->alpha) * g;
    s->second = r->beta * s->second + (1 - r->beta) * g * g;
    s->x -= r->rate * s->first / (sqrt(s->second) + r->epsilon);
    s->x *= 1 - r->norm_post;
}

static void momentum_step(struct step *s, const struct rates *r) {
    double g = r->norm * s->x + s->g;
    s->first = r->alpha * s->first + r->beta * g;
    s->x -= r->rate * (r->nesterov ? g + r->alpha * s->first : s->first);
}

/* Tensors that are optimized: all groups have as many. `states` is 1 or 2. */
static enum tmk_status count_tensors(uint32_t n_in, uint32_t n_out, uint32_t states, uint32_t *n,
                                     struct tmk_diag *diag) {
    *n = (n_in - 2) / (2 + states);
    if (*n == 0 || *n * (2 + states) != n_in - 2 || *n * (1 + states) != n_out)
        return tmk_fail(diag, TMK_GRAPH, "%u inputs and %u outputs are not possible", n_in, n_out);
    return TMK_OK;
}

static enum tmk_status infer_step(struct tmk_infer *infer) {
    /* The fewest outputs are those of one tensor: it and its states. */
    const uint32_t states = infer->node->row->min_out - 1;
    struct tmk_diag *diag = infer->diag;
    uint32_t n;
    TMK_TRY(count_tensors(infer->n_in, infer->n_out, states, &n, diag));
    TMK_TRY(tmk_want_dtype(infer->in[0], TMK_FLOAT32, "R", diag));
    TMK_TRY(tmk_want_dtype(infer->in[1], TMK_INT64, "T", diag));
    for (uint32_t i = 0; i < 2; i++)
        if (tmk_tensor_count(infer->in[i]) != 1)
            return tmk_fail(diag, TMK_SHAPE, "input %u is no scalar", i);
    for (uint32_t i = 2; i < infer->n_in; i++) {
        const struct tmk_tensor *in = infer->in[i], *x = infer->in[2 + (i - 2) % n];
        if (!in || !x)
            return tmk_fail(diag, TMK_GRAPH, "input %u is missing", i);
        TMK_TRY(tmk_want_dtype(in, TMK_FLOAT32, "an input", diag));
        if (!tmk_shape_equal(&in->shape, &x->shape))
            return tmk_fail(diag, TMK_SHAPE, "input %u has another shape than what it optimizes",
                            i);
    }
    for (uint32_t i = 0; i < infer->n_out; i++)
        tmk_infer_put(infer, i, TMK_FLOAT32, &infer->in[2 + i % n]->shape);
    return TMK_OK;
}

static void run_steps(struct tmk_run *run, uint32_t states, step_fn *fn, const struct rates *r) {
    uint32_t n = run->n_out / (1 + states);
    for (uint32_t k = 0; k < n; k++) {
        const float *in[4] = {0}; /* X, G, states */
        float *out[3] = {0};      /* X, states */
        for (uint32_t i = 0; i < 2 + states; i++)
            in[i] = run->in[2 + i * n + k]->data;
        for (uint32_t i = 0; i < 1 + states; i++)
            out[i] = run->out[i * n + k] ? run->out[i * n + k]->data : NULL;
        for (size_t i = 0, count = tmk_tensor_count(run->in[2 + k]); i < count; i++) {
            struct step s = {.x = in[0][i], .g = in[1][i], .first = in[2][i]};
            s.second = states > 1 ? in[3][i] : 0;
            fn(&s, r);
            const double made[] = {s.x, s.first, s.second};
            for (uint32_t o = 0; o < 1 + states; o++)
                if (out[o])
                    out[o][i] = (float)made[o];
        }
    }
}

/* Rate and update count; attributes that an operator lacks stay at their defaults. */
static struct rates read_rates(const struct tmk_run *run, int64_t *count) {
    const struct tmk_node *node = run->node;
    *count = tmk_index_at(run->in[1], 0);
    return (struct rates){
        .rate = *(const float *)run->in[0]->data,
        .alpha = tmk_node_float(node, "alpha", 0.9F),
        .beta = tmk_node_float(node, "beta", 0.999F),
        .epsilon = tmk_node_float(node, "epsilon", 1e-6F),
        .norm = tmk_node_float(node, "norm_coefficient", 0),
        .norm_post = tmk_node_float(node, "norm_coefficient_post", 0),
        .nesterov = strcmp(tmk_node_string(node, "mode", "standard"), "nesterov") == 0,
    };
}

static enum tmk_status run_adagrad(struct tmk_run *run) {
    int64_t count;
    struct rates r = read_rates(run, &count);
    r.rate /= 1 + (double)count * tmk_node_float(run->node, "decay_factor", 0);
    run_steps(run, 1, adagrad_step, &r);
    return TMK_OK;
}

static enum tmk_status run_adam(struct tmk_run *run) {
    int64_t count;
    struct rates r = read_rates(run, &count);
    if (count > 0)
        r.rate *= sqrt(1 - pow(r.beta, (double)count)) / (1 - pow(r.alpha, (double)count));
    run_steps(run, 2, adam_step, &r);
    return TMK_OK;
}

static enum tmk_status run_momentum(struct tmk_run *run) {
    int64_t count;
    struct rates r = read_rates(run, &count);
    if (count <= 0)
        r.beta = 1;
    run_steps(run, 1, momentum_step, &r);
    return TMK_OK;
}

const struct tmk_op tmk_ops_training[] = {
    {TMK_OP_ONNX("NegativeLogLikelihoodLoss", 12, INT32_MAX), TMK_OP_COUNTS(2, 3, 1, 1),
     .attrs = loss_attrs, .infer = infer_loss, .run = run_loss},
    {TMK_OP_ONNX("SoftmaxCrossEntropyLoss", 12, INT32_MAX), TMK_OP_COUNTS(2, 3, 1, 2),
     .variant = true /* softmax */, .attrs = loss_attrs, .infer = infer_loss, .run = run_loss},
    {TMK_OP_KEY(DOMAIN_TRAINING, "Adagrad", 1, INT32_MAX),
     TMK_OP_COUNTS(4 + (1), TMK_VARIADIC, 1 + (1), TMK_VARIADIC),
     .attrs = "decay_factor:float epsilon:float norm_coefficient:float", .infer = infer_step,
     .run = run_adagrad},
    {TMK_OP_KEY(DOMAIN_TRAINING, "Adam", 1, INT32_MAX),
     TMK_OP_COUNTS(4 + (2), TMK_VARIADIC, 1 + (2), TMK_VARIADIC),
     .attrs =
         "alpha:float beta:float epsilon:float norm_coefficient:float norm_coefficient_post:float",
     .infer = infer_step, .run = run_adam},
    {TMK_OP_KEY(DOMAIN_TRAINING, "Momentum", 1, INT32_MAX),
     TMK_OP_COUNTS(4 + (1), TMK_VARIADIC, 1 + (1), TMK_VARIADIC),
     .attrs = "alpha:float! beta:float! mode:string! norm_coefficient:float!", .infer = infer_step,
     .run = run_momentum},
    {NULL}};
