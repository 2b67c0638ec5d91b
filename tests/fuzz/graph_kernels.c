/* SPDX-License-Identifier: Apache-2.0 */
/* How near an accelerated kernel has to come to the plain one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "graph_run.h"

static bool is_one_of(const char *op, const char *const *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(op, list[i]) == 0)
            return true;
    return false;
}

/* By vector arithmetic of chains: near. */
static bool is_near(const struct tmk_node *node) {
    static const char *const list[] = {"Erf",      "Exp",       "Gelu",    "Elu",  "Log",
                                       "Pow",      "Sigmoid",   "Swish",   "Tanh", "BiasGelu",
                                       "FastGelu", "QuickGelu", "Softplus"};
    return is_one_of(node->op, list, TMK_COUNT(list));
}

/* Sums of products, in another order. */
static bool is_sum(const struct tmk_node *node) {
    static const char *const list[] = {"Conv",       "ConvTranspose", "MatMul",
                                       "Gemm",       "AveragePool",   "GlobalAveragePool",
                                       "ReduceMean", "FusedMatMul"};
    return is_one_of(node->op, list, TMK_COUNT(list));
}

static bool is_fused(const struct tmk_node *node) {
    static const char *const list[] = {"FusedConv", "FusedGemm"};
    return is_one_of(node->op, list, TMK_COUNT(list));
}

bool same_bits(const struct tmk_tensor *a, const struct tmk_tensor *b) {
    if (a->dtype != b->dtype || !tmk_shape_equal(&a->shape, &b->shape))
        return false;
    const size_t n = tmk_tensor_count(a);
    if (a->dtype != TMK_FLOAT32)
        return !n || memcmp(a->data, b->data, tmk_tensor_bytes(a)) == 0;
    const float *x = a->data, *y = b->data;
    for (size_t i = 0; i < n; i++)
        if (memcmp(&x[i], &y[i], sizeof *x) != 0 && !(isnan(x[i]) && isnan(y[i])))
            return false;
    return true;
}

static float largest(const struct tmk_tensor *t) {
    float most = 0;
    for (size_t i = 0; t && t->dtype == TMK_FLOAT32 && i < tmk_tensor_count(t); i++) {
        const float x = fabsf(((const float *)t->data)[i]);
        most = x > most || isnan(x) ? x : most;
    }
    return most;
}

/* The same node on magnitudes: what its sums can be at most, element by element. */
static bool magnitudes(const struct tmk_node *node, const struct tmk_tensor *const *in,
                       struct tmk_tensor *out) {
    struct tmk_tensor copies[8] = {0}, outputs[8] = {0};
    const struct tmk_tensor *given[8] = {NULL};
    const float sign =
        tmk_node_float(node, "alpha", 1) * tmk_node_float(node, "beta", 1) < 0 ? -1 : 1;
    bool good = node->n_inputs <= TMK_COUNT(copies) && node->n_outputs <= TMK_COUNT(outputs);
    for (uint32_t i = 0; good && i < node->n_inputs; i++) {
        if (!in[i])
            continue;
        given[i] = in[i];
        if (in[i]->dtype != TMK_FLOAT32)
            continue;
        good = tmk_tensor_init(&copies[i], TMK_FLOAT32, &in[i]->shape, NULL) == TMK_OK;
        for (size_t k = 0; good && k < tmk_tensor_count(in[i]); k++)
            ((float *)copies[i].data)[k] = fabsf(((const float *)in[i]->data)[k]) *
                                           (i == 2 && strcmp(node->op, "Gemm") == 0 ? sign : 1);
        given[i] = &copies[i];
    }
    good = good && tmk_op_run(node, given, outputs, NULL) == TMK_OK;
    for (uint32_t i = 0; i < node->n_inputs && i < TMK_COUNT(copies); i++)
        tmk_tensor_finish(&copies[i]);
    for (uint32_t i = 1; good && i < node->n_outputs; i++)
        tmk_tensor_finish(&outputs[i]);
    *out = outputs[0];
    return good;
}

static bool tell(struct check *c, const struct tmk_node *node, size_t i, float got, float want,
                 double most) {
    char label[256];
    return says(c, "%s: element %zu is %.9g, the plain kernel says %.9g (within %.3g)",
                tmk_node_label(node, label, sizeof label), i, (double)got, (double)want, most);
}

/* NaN and infinities where the plain kernel has them; but huge numbers may overflow on the way. */
static bool sums_agree(struct check *c, const struct tmk_node *node,
                       const struct tmk_tensor *const *in, const struct tmk_tensor *want,
                       const struct tmk_tensor *got) {
    const float *w = want->data, *g = got->data, *m = NULL;
    struct tmk_tensor magnitude = {0};
    float bound = 0;
    bool huge = false, good = true;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        for (size_t k = 0; in[i] && in[i]->dtype == TMK_FLOAT32 && k < tmk_tensor_count(in[i]);
             k++) {
            const float x = fabsf(((const float *)in[i]->data)[k]);
            huge |= isfinite(x) && x > 1e15f;
        }
    /* weights that are known only while running: padding may be left out or be zeros */
    if (strcmp(node->op, "Conv") == 0 &&
        tmk_value_source(node->inputs[1])->kind != TMK_VALUE_INITIALIZER)
        huge |= !isfinite(largest(in[1]));
    if (is_fused(node)) {
        bound = largest(in[0]) * largest(in[1]) * (float)(tmk_tensor_count(in[1]) + 1) +
                (node->n_inputs > 2 ? largest(in[2]) : 0);
        if (!isfinite(bound))
            return true;
    } else {
        if (!magnitudes(node, in, &magnitude))
            return says(c, "%s does not run on magnitudes", node->op);
        m = magnitude.data;
    }
    for (size_t i = 0; good && i < tmk_tensor_count(want); i++) {
        const float of = m ? fabsf(m[i]) : bound;
        const double most = 1e-5 * (double)of + 1e-42;
        if (!isfinite(of) || of > 1e37f) {
            const bool alike = isnan(w[i])   ? isnan(g[i])
                               : isinf(w[i]) ? w[i] == g[i]
                                             : isfinite(g[i]);
            if (!alike && !huge)
                good = tell(c, node, i, g[i], w[i], 0);
        } else if (!(fabs((double)w[i] - (double)g[i]) <= most)) {
            good = tell(c, node, i, g[i], w[i], most);
        }
    }
    tmk_tensor_finish(&magnitude);
    return good;
}

bool node_agrees(struct check *c, const struct tmk_node *node, const struct tmk_tensor *const *in,
                 uint32_t output, const struct tmk_tensor *want, const struct tmk_tensor *got,
                 bool exact) {
    char label[256], a[128], b[128];
    c->tally->elements += tmk_tensor_count(got);
    if (want->dtype != got->dtype || !tmk_shape_equal(&want->shape, &got->shape))
        return says(c, "%s: output %u is %s%s, the plain kernel says %s%s",
                    tmk_node_label(node, label, sizeof label), output, tmk_dtype_name(got->dtype),
                    tmk_shape_text(&got->shape, a, sizeof a), tmk_dtype_name(want->dtype),
                    tmk_shape_text(&want->shape, b, sizeof b));
    if (same_bits(want, got))
        return true;
    c->tally->near++;
    if (want->dtype == TMK_FLOAT32 && !exact && output == 0) {
        if (is_sum(node) || is_fused(node))
            return sums_agree(c, node, in, want, got);
        const float *w = want->data, *g = got->data;
        for (size_t i = 0; i < tmk_tensor_count(want); i++) {
            const double most =
                is_near(node) && isfinite(w[i]) ? 1e-5 * fabs((double)w[i]) + 1e-6 : 0;
            if (memcmp(&w[i], &g[i], sizeof *w) != 0 && !(isnan(w[i]) && isnan(g[i])) &&
                !(fabs((double)w[i] - (double)g[i]) <= most && most > 0))
                return tell(c, node, i, g[i], w[i], most);
        }
        return true;
    }
    const size_t size = tmk_dtype_size(want->dtype);
    for (size_t i = 0; i < tmk_tensor_count(want); i++) {
        const char *w = (const char *)want->data + i * size,
                   *g = (const char *)got->data + i * size;
        float x = 0, y = 0;
        if (memcmp(w, g, size) == 0)
            continue;
        if (want->dtype == TMK_FLOAT32) {
            memcpy(&x, g, sizeof x);
            memcpy(&y, w, sizeof y);
            if (isnan(x) && isnan(y))
                continue;
        }
        return says(c,
                    "%s: output %u (%s), element %zu differs from the plain kernel's: %.9g, %.9g",
                    tmk_node_label(node, label, sizeof label), output, tmk_dtype_name(want->dtype),
                    i, (double)x, (double)y);
    }
    return true;
}
