/* SPDX-License-Identifier: Apache-2.0 */
/* simplify-inference: operators that are there for training, or do nothing, go.
 *
 *   - BatchNormalization with constant moments becomes Mul and Add: y = x * a + b, with
 *     a = scale / sqrt(variance + epsilon) rounded to float32 once, and b = bias - mean * a of that
 *     rounded a, so that the mean still becomes the bias where it is large against the deviation.
 *     Where a or b would not be finite it stays. It trains only where training_mode is set.
 *   - Identity, Dropout (unless it trains, or its mask is used), Cast to the type that is
 *     there, Transpose that moves nothing, and Reshape, Flatten, Squeeze to the shape that is
 *     there, whatever the free dimensions are.
 *
 * A result that is the graph's output under its own name goes only where another node's result can
 * take the name: Identity of an input stays. */
#include <math.h>

#include "base/diag.h"
#include "ops/ops.h"
#include "ops/shapes.h"
#include "pass/pass.h"

struct simplifying {
    struct tmk_rewrite *rw;
    struct tmk_inferred certain;
    bool changed;
};

/* ---- what does nothing ---- */

static bool drops_nothing(const struct tmk_rewrite *rw, const struct tmk_node *node) {
    if (!tmk_node_is(node, TMK_DOMAIN_ONNX, "Dropout") ||
        (node->n_outputs > 1 && node->outputs[1] && tmk_rewrite_is_needed(rw, node->outputs[1])))
        return false;
    if (node->n_inputs < 3 || !node->inputs[2])
        return true;
    const struct tmk_tensor *training = tmk_value_constant(node->inputs[2]);
    return training && training->dtype == TMK_BOOL && tmk_tensor_count(training) == 1 &&
           *(const uint8_t *)training->data == 0;
}

static bool casts_nothing(const struct tmk_node *node) {
    const struct tmk_type *type = &node->inputs[0]->type;
    const enum tmk_dtype origin = node->outputs[0]->type.origin;
    const bool rounds = (origin == TMK_FLOAT16 || origin == TMK_BFLOAT16) && origin != type->origin;
    return tmk_node_is(node, TMK_DOMAIN_ONNX, "Cast") && type->dtype != TMK_UNDEFINED &&
           type->kind == TMK_TYPE_TENSOR && !rounds &&
           tmk_node_int(node, "to", TMK_UNDEFINED) == type->dtype;
}

static bool moves_nothing(const struct tmk_node *node) {
    size_t n;
    const int64_t *perm = tmk_node_ints(node, "perm", &n);
    if (!tmk_node_is(node, TMK_DOMAIN_ONNX, "Transpose") || !perm)
        return false;
    for (size_t i = 0; i < n; i++)
        if (perm[i] != (int64_t)i)
            return false;
    return true;
}

/* [0, 0, -1] and the like: each dimension is copied, and one is what remains. */
static bool copies_dimensions(const struct tmk_node *node, int32_t rank) {
    const struct tmk_tensor *to = node->n_inputs > 1 ? tmk_value_constant(node->inputs[1]) : NULL;
    if (!tmk_node_is(node, TMK_DOMAIN_ONNX, "Reshape") || !to || to->dtype != TMK_INT64 ||
        to->shape.rank != 1 || to->shape.dim[0] != rank || tmk_node_int(node, "allowzero", 0))
        return false;
    int32_t others = 0;
    for (int32_t i = 0; i < rank; i++) {
        const int64_t dim = ((const int64_t *)to->data)[i];
        if (dim != 0 && dim != -1)
            return false;
        others += dim == -1;
    }
    return others <= 1;
}

static bool reshapes_nothing(const struct simplifying *s, const struct tmk_node *node) {
    if (node->domain[0] || !(node->row->flags & TMK_OP_VIEW) ||
        tmk_node_is(node, TMK_DOMAIN_ONNX, "Dropout"))
        return false;
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Identity"))
        return true;
    const struct tmk_value *x = node->inputs[0];
    const struct tmk_tensor *in = &s->certain.tensors[x->index],
                            *out = &s->certain.tensors[node->outputs[0]->index];
    if (in->dtype != TMK_UNDEFINED && in->dtype == out->dtype &&
        tmk_shape_equal(&in->shape, &out->shape))
        return true;
    if (!x->type.has_shape)
        return false;
    const int32_t rank = x->type.shape.rank;
    const int64_t axis = tmk_node_int(node, "axis", 1);
    return copies_dimensions(node, rank) || (tmk_node_is(node, TMK_DOMAIN_ONNX, "Flatten") &&
                                             rank == 2 && (axis == 1 || axis == -1));
}

static enum tmk_status skip_node(struct simplifying *s, struct tmk_node *node) {
    if (!node->n_inputs || !node->inputs[0] || !node->outputs[0] ||
        !tmk_rewrite_is_needed(s->rw, node->outputs[0]) ||
        !tmk_rewrite_can_replace(s->rw, node->outputs[0], node->inputs[0], true) ||
        !(drops_nothing(s->rw, node) || casts_nothing(node) || moves_nothing(node) ||
          reshapes_nothing(s, node)))
        return TMK_OK;
    TMK_TRY(tmk_rewrite_replace(s->rw, node->outputs[0], node->inputs[0], NULL));
    tmk_rewrite_remove(s->rw, node);
    s->changed = true;
    return TMK_OK;
}

/* ---- BatchNormalization ---- */

/* The four constants, alike; and the input's rank. */
struct norm {
    const float *scale, *bias, *mean, *variance;
    const struct tmk_shape *shape; /* of each: [C], or that of a sample where it is not spatial */
    int32_t rank;
};

static bool is_for_inference(const struct tmk_rewrite *rw, const struct tmk_node *node) {
    if (!tmk_node_is(node, TMK_DOMAIN_ONNX, "BatchNormalization") || !node->outputs[0] ||
        !tmk_rewrite_is_needed(rw, node->outputs[0]) || tmk_node_int(node, "training_mode", 0))
        return false;
    for (uint32_t i = 1; i < node->n_outputs; i++)
        if (node->outputs[i])
            return false;
    return true;
}

static bool read_norm(const struct tmk_node *node, struct norm *norm) {
    const struct tmk_tensor *moments[4];
    for (uint32_t i = 0; i < 4; i++) {
        moments[i] = tmk_value_constant(node->inputs[i + 1]);
        if (!moments[i] || moments[i]->dtype != TMK_FLOAT32 ||
            !tmk_shape_equal(&moments[i]->shape, &moments[0]->shape))
            return false;
    }
    const struct tmk_type *x = &node->inputs[0]->type;
    if (!x->has_shape || x->shape.rank < 1)
        return false;
    *norm = (struct norm){moments[0]->data, moments[1]->data,   moments[2]->data,
                          moments[3]->data, &moments[0]->shape, x->shape.rank};
    if (norm->shape->rank > 1)
        return norm->shape->rank == norm->rank - 1;
    if (norm->rank == 1)
        return norm->shape->dim[0] == 1;
    return x->shape.dim[1] < 0 || norm->shape->dim[0] == x->shape.dim[1];
}

/* As it broadcasts to the input: [C,1,1]. Before operator set 7 the axis is an attribute. */
static struct tmk_shape factor_shape(const struct norm *norm, bool legacy) {
    struct tmk_shape shape = *norm->shape;
    if (shape.rank > 1 || legacy)
        return shape;
    while (shape.rank < norm->rank - 1)
        shape.dim[shape.rank++] = 1;
    return shape;
}

/* False: they are not finite. */
static bool compute_factors(const struct norm *norm, double epsilon, float *a, float *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        a[i] = (float)((double)norm->scale[i] / sqrt((double)norm->variance[i] + epsilon));
        b[i] = (float)((double)norm->bias[i] - (double)norm->mean[i] * (double)a[i]);
        if (!isfinite(a[i]) || !isfinite(b[i]))
            return false;
    }
    return true;
}

/* *x becomes op(*x, factor), in front of the norm; `like`: what the factor is called after. */
static enum tmk_status add_step(struct tmk_rewrite *rw, struct tmk_node *norm, const char *op,
                                const struct tmk_tensor *factor, const char *like, bool legacy,
                                struct tmk_value **x) {
    struct tmk_value *operands[] = {*x, NULL};
    struct tmk_node *node;
    TMK_TRY(tmk_rewrite_initializer(rw, norm->graph, like, factor, &operands[1]));
    TMK_TRY(tmk_rewrite_node(rw, norm, TMK_DOMAIN_ONNX, op, norm->outputs[0]->name, 0, operands, 2,
                             &node));
    if (legacy) {
        TMK_TRY(tmk_node_set_int(node, "axis", 1, rw->diag));
        TMK_TRY(tmk_node_set_int(node, "broadcast", 1, rw->diag));
    }
    *x = node->outputs[0];
    return TMK_OK;
}

static enum tmk_status expand_norm(struct tmk_rewrite *rw, struct tmk_node *node,
                                   const struct tmk_tensor *a, const struct tmk_tensor *b,
                                   bool legacy) {
    struct tmk_value *y = node->inputs[0];
    TMK_TRY(add_step(rw, node, "Mul", a, node->inputs[1]->name, legacy, &y));
    TMK_TRY(tmk_value_set_type(y, &node->outputs[0]->type, rw->diag));
    TMK_TRY(add_step(rw, node, "Add", b, node->inputs[2]->name, legacy, &y));
    TMK_TRY(tmk_rewrite_replace(rw, node->outputs[0], y, NULL));
    tmk_rewrite_remove(rw, node);
    return TMK_OK;
}

static enum tmk_status unfold_norm(struct tmk_rewrite *rw, struct tmk_node *node) {
    struct norm norm;
    const bool legacy = tmk_graph_opset(rw->graph, TMK_DOMAIN_ONNX) < 7;
    if (!is_for_inference(rw, node) || !read_norm(node, &norm) || (legacy && norm.rank < 2))
        return TMK_OK;
    struct tmk_tensor a = {0}, b = {0};
    const struct tmk_shape shape = factor_shape(&norm, legacy);
    enum tmk_status status = tmk_tensor_init(&a, TMK_FLOAT32, &shape, rw->diag);
    TMK_THEN(status, tmk_tensor_init(&b, TMK_FLOAT32, &shape, rw->diag));
    if (status == TMK_OK && compute_factors(&norm, (double)tmk_node_float(node, "epsilon", 1e-5f),
                                            a.data, b.data, tmk_tensor_count(&a)))
        status = expand_norm(rw, node, &a, &b, legacy);
    tmk_tensor_finish(&a);
    tmk_tensor_finish(&b);
    return status;
}

/* ---- the walks ---- */

static enum tmk_status skip_nodes(struct simplifying *s) {
    for (struct tmk_graph *g = s->rw->graph; g; g = tmk_graph_next(s->rw->graph, g))
        for (struct tmk_node *node = g->first, *next; node; node = next) {
            next = node->next;
            TMK_TRY(skip_node(s, node));
        }
    return TMK_OK;
}

/* What is certain is looked up by values' numbers, which new values do not have: they come last. */
static enum tmk_status simplify_nodes(struct tmk_rewrite *rw) {
    struct simplifying s = {.rw = rw};
    TMK_TRY(tmk_infer_certain(rw->graph, &s.certain, rw->diag));
    enum tmk_status status = TMK_OK;
    do {
        s.changed = false;
        status = skip_nodes(&s);
    } while (status == TMK_OK && s.changed);
    TMK_THEN(status, tmk_rewrite_each(rw, unfold_norm));
    tmk_inferred_finish(&s.certain);
    return status;
}

const struct tmk_pass tmk_pass_simplify_inference = {
    "simplify-inference", "makes BatchNormalization Mul and Add, drops Dropout and Identity",
    simplify_nodes};
