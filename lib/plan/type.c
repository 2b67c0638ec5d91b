/* SPDX-License-Identifier: Apache-2.0 */
/* Typing: shapes of all values, constants computed, steps and taps listed. */
#include <stdio.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/memory.h"
#include "ops/cost.h"
#include "plan/build.h"
#include "tensor/elements.h"
#include "tensor/list.h"
#include "tensor/shape.h"

/* By the value's own consumers. */
static int32_t consumers_axis(const struct tmk_value *weight) {
    int32_t rank = weight->type.has_shape ? weight->type.shape.rank : 0;
    for (uint32_t i = 0; i < weight->n_uses; i++) {
        const struct tmk_node *node = weight->uses[i].node;
        const struct tmk_traits *traits = tmk_node_traits(node);
        const bool matrix = traits->product == TMK_PRODUCT_MATRIX;
        if (weight->uses[i].input == 1 && traits->class == TMK_OP_MACC &&
            (matrix ? rank == 2 : rank >= 3))
            return tmk_op_weight_axis(node);
    }
    return -1;
}

int32_t tmk_weight_axis(const struct tmk_value *weight) {
    int32_t axis = consumers_axis(weight);
    for (uint32_t i = 0; axis < 0 && i < weight->n_uses; i++) {
        const struct tmk_node *node = weight->uses[i].node;
        if (tmk_node_is_observer(node) && node->outputs[0])
            axis = consumers_axis(node->outputs[0]);
    }
    return axis;
}

static bool push_tap(struct tmk_plan_tap **taps, uint32_t *n, size_t *size,
                     struct tmk_plan_tap tap) {
    if (!TMK_GROW(*taps, *n, *size))
        return false;
    (*taps)[(*n)++] = tap;
    return true;
}

static enum tmk_status add_tap(struct tmk_planning *p, uint32_t slot, uint32_t value) {
    struct tmk_plan *plan = p->plan;
    const struct tmk_plan_tap tap = {slot, value};
    bool ok;
    if (plan->values[value].place == TMK_PLACE_CONSTANT)
        ok = push_tap(&plan->constant_taps, &plan->n_constant_taps, &p->constant_taps_size, tap);
    else if (plan->values[value].place == TMK_PLACE_INPUT)
        ok = push_tap(&plan->input_taps, &plan->n_input_taps, &p->input_taps_size, tap);
    else
        ok = push_tap(&p->taps, &p->n_taps, &p->taps_size, tap);
    return ok ? TMK_OK : tmk_nomem(p->diag);
}

static bool known_shape(const struct tmk_plan_value *value) {
    return value->kind == TMK_TYPE_TENSOR && value->place != TMK_PLACE_DYNAMIC &&
           value->place != TMK_PLACE_NOWHERE;
}

void tmk_plan_operands(const struct tmk_planning *p, const struct tmk_node *node) {
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        p->in[i] = NULL;
        if (!node->inputs[i])
            continue;
        const struct tmk_plan_value *value = &p->plan->values[node->inputs[i]->index];
        tmk_tensor_borrow(&p->tensors[i], value->dtype, &value->shape, NULL);
        if (value->place == TMK_PLACE_CONSTANT)
            p->tensors[i] = value->constant;
        p->in[i] = &p->tensors[i];
    }
}

enum tmk_status tmk_plan_open(struct tmk_plan *plan, uint32_t value, struct tmk_diag *diag) {
    struct tmk_tensor *constant = &plan->values[value].constant, opened;
    if (plan->values[value].place != TMK_PLACE_CONSTANT || !tmk_tensor_is_lazy(constant))
        return TMK_OK;
    TMK_TRY(tmk_tensor_open(constant, &opened, diag));
    tmk_tensor_finish(constant);
    *constant = opened;
    return TMK_OK;
}

/* Lazy operands are seen as those that they are once they are open: as long as a node is folded. */
static enum tmk_status open_operands(const struct tmk_node *node, struct tmk_tensor *opened,
                                     const struct tmk_tensor *const *in,
                                     const struct tmk_tensor **out, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        out[i] = in[i];
        if (!in[i] || !tmk_tensor_is_lazy(in[i]))
            continue;
        TMK_TRY(tmk_tensor_open(in[i], &opened[i], diag));
        out[i] = &opened[i];
    }
    return TMK_OK;
}

static void weigh_operands(const struct tmk_plan *plan, const struct tmk_node *node, bool *shaped,
                           bool *constant) {
    *shaped = *constant = true;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (!node->inputs[i])
            continue;
        const struct tmk_plan_value *value = &plan->values[node->inputs[i]->index];
        *shaped &= known_shape(value);
        *constant &= value->place == TMK_PLACE_CONSTANT;
    }
}

/* What a file declares of a value must be what its node makes; consumers elsewhere rely on it. */
static enum tmk_status check_declared(const struct tmk_value *value, enum tmk_dtype dtype,
                                      struct tmk_diag *diag) {
    if (value->type.dtype == TMK_UNDEFINED || value->type.dtype == dtype)
        return TMK_OK;
    return tmk_fail(diag, TMK_TYPE, "'%s' is declared as %s, but is %s", tmk_value_label(value),
                    tmk_dtype_name(value->type.dtype), tmk_dtype_name(dtype));
}

static enum tmk_status keep_constant(struct tmk_planning *p, const struct tmk_node *node,
                                     uint32_t i, const struct tmk_tensor *tensor) {
    struct tmk_plan_value *value = &p->plan->values[node->outputs[i]->index];
    TMK_TRY(check_declared(node->outputs[i], tensor->dtype, p->diag));
    value->place = TMK_PLACE_CONSTANT;
    value->dtype = tensor->dtype;
    value->shape = tensor->shape;
    value->channel_axis =
        tmk_node_is(node, TMK_DOMAIN_ONNX, "Constant") ? tmk_weight_axis(node->outputs[i]) : -1;
    tmk_tensor_share(&value->constant, tensor);
    return TMK_OK;
}

/* A constant seen in another shape is not copied. */
static enum tmk_status fold_view(struct tmk_planning *p, const struct tmk_node *node,
                                 const struct tmk_tensor *const *in,
                                 const struct tmk_infer_result *result) {
    struct tmk_tensor tensor = *in[0];
    tensor.shape = result->shape;
    return keep_constant(p, node, 0, &tensor);
}

static enum tmk_status fold_node(struct tmk_planning *p, const struct tmk_node *node,
                                 const struct tmk_tensor *const *in) {
    struct tmk_tensor *out = calloc(node->n_outputs + 1u, sizeof *out),
                      *opened = calloc(node->n_inputs + 1u, sizeof *opened);
    const struct tmk_tensor **known = calloc(node->n_inputs + 1u, sizeof(struct tmk_tensor *));
    enum tmk_status status = out && opened && known
                                 ? open_operands(node, opened, in, known, p->diag)
                                 : tmk_nomem(p->diag);
    TMK_THEN(status, tmk_op_run(node, known, out, p->diag));
    for (uint32_t i = 0; status == TMK_OK && i < node->n_outputs; i++)
        if (node->outputs[i])
            status = keep_constant(p, node, i, &out[i]);
    for (uint32_t i = 0; out && i < node->n_outputs; i++)
        tmk_tensor_finish(&out[i]);
    for (uint32_t i = 0; opened && i < node->n_inputs; i++)
        tmk_tensor_finish(&opened[i]);
    free(known);
    free(opened);
    free(out);
    return status;
}

/* A cast of a lazy constant to the type that it has here. */
static bool is_idle_cast(const struct tmk_node *node, const struct tmk_tensor *const *in,
                         const struct tmk_infer_result *result) {
    return tmk_node_is(node, TMK_DOMAIN_ONNX, "Cast") && in[0] && tmk_tensor_is_lazy(in[0]) &&
           result->known && result->dtype == in[0]->dtype;
}

static enum tmk_status add_raw_step(struct tmk_planning *p, const struct tmk_node *node,
                                    bool dynamic, const struct tmk_infer_result *results) {
    struct tmk_plan *plan = p->plan;
    TMK_TRY_ALLOC(TMK_GROW(p->raw, p->n_raw, p->raw_size), p->diag);
    p->raw[p->n_raw++] = (struct tmk_raw_step){node, dynamic};
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        if (!node->outputs[i])
            continue;
        struct tmk_plan_value *value = &plan->values[node->outputs[i]->index];
        const struct tmk_value *operand = tmk_node_input(node, 0);
        const struct tmk_plan_value *first = operand ? &plan->values[operand->index] : NULL;
        bool known = !dynamic && results[i].known;
        p->made_by[node->outputs[i]->index] = p->n_raw - 1;
        value->place = known ? TMK_PLACE_ARENA : TMK_PLACE_DYNAMIC;
        value->channel_axis = -1;
        if (!known)
            continue;
        TMK_TRY(check_declared(node->outputs[i], results[i].dtype, p->diag));
        value->dtype = results[i].dtype;
        value->shape = results[i].shape;
        if (i == 0)
            value->channel_axis = tmk_op_channel_axis(node, first ? first->channel_axis : -1,
                                                      first ? &first->shape : NULL, &value->shape);
    }
    return TMK_OK;
}

static enum tmk_status note_observer(struct tmk_planning *p, const struct tmk_node *node) {
    struct tmk_plan *plan = p->plan;
    uint32_t in = node->inputs[0]->index, out = node->outputs[0]->index;
    plan->values[out] = plan->values[in];
    if (plan->values[in].place == TMK_PLACE_CONSTANT)
        tmk_tensor_share(&plan->values[out].constant, &plan->values[in].constant);
    p->alias[out] = p->alias[in];
    p->made_by[out] = p->made_by[in];
    size_t slot = (size_t)tmk_ptrmap_get(&plan->slots, node);
    return slot ? add_tap(p, (uint32_t)slot - 1, p->alias[in]) : TMK_OK;
}

static enum tmk_status count_operations(struct tmk_planning *p, const struct tmk_node *node,
                                        const struct tmk_tensor *const *in,
                                        const struct tmk_infer_result *results) {
    const double cost = tmk_op_cost(node, in, results);
    p->plan->operations += cost;
    return tmk_cost_check(cost, p->plan->operations, p->diag);
}

static enum tmk_status type_node(struct tmk_planning *p, const struct tmk_node *node) {
    const struct tmk_tensor *const *in = p->in;
    struct tmk_infer_result *results = p->results;
    bool shaped, constant, known = true;
    const struct tmk_op *row = node->row;
    const bool pure = !(row->flags & TMK_OP_IMPURE);
    tmk_plan_operands(p, node);
    weigh_operands(p->plan, node, &shaped, &constant);
    if (!shaped)
        return add_raw_step(p, node, true, results);
    const struct tmk_attr *held = tmk_node_attr(node, "value");
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Constant") && held && held->kind == TMK_ATTR_TENSOR &&
        node->n_outputs == 1 && node->outputs[0] && tmk_dtype_size(held->tensors->dtype))
        return keep_constant(p, node, 0, held->tensors);
    if (tmk_node_has(node, TMK_TRAIT_SHAPE_ONLY) ||
        (pure && constant && !(row->flags & TMK_OP_VIEW) &&
         !(node->n_inputs == 1 && in[0] && tmk_tensor_is_lazy(in[0]))))
        return fold_node(p, node, in);
    TMK_TRY(tmk_op_infer(node, in, results, p->diag));
    for (uint32_t i = 0; i < node->n_outputs; i++)
        known &= !node->outputs[i] || results[i].known;
    if (((row->flags & TMK_OP_VIEW) || is_idle_cast(node, in, &results[0])) && pure && constant &&
        known && node->n_outputs == 1)
        return fold_view(p, node, in, &results[0]);
    if (pure && constant)
        return fold_node(p, node, in);
    if (known)
        TMK_TRY(count_operations(p, node, in, results));
    return add_raw_step(p, node, !known, results);
}

static bool kind_fits(enum tmk_type_kind declared, enum tmk_type_kind given) {
    if (declared == TMK_TYPE_OPTIONAL)
        return given != TMK_TYPE_SEQUENCE;
    if (declared == TMK_TYPE_OPTIONAL_SEQUENCE)
        return given != TMK_TYPE_TENSOR;
    return given == declared;
}

static bool may_be(int64_t wanted, int64_t size) {
    return wanted < 0 || wanted == size;
}

/* Would it fit with its channels, the axis `from`, moved to `to`? */
static bool fits_moved(const struct tmk_shape *want, const struct tmk_shape *have, int from,
                       int to) {
    for (int i = 1, at = 1; i < want->rank; i++) {
        at += at == from;
        if (!may_be(want->dim[i], have->dim[i == to ? from : at]))
            return false;
        at += i != to;
    }
    return true;
}

/* What images mostly have wrong: the place of their channels, or their size. */
static const char *shape_hint(const struct tmk_shape *want, const struct tmk_shape *have,
                              char out[128]) {
    const int last = want->rank - 1;
    out[0] = '\0';
    if (want->rank != 4 || have->rank != 4)
        return out;
    const bool first = want->dim[1] > 0 && want->dim[1] <= 4;
    const int64_t channels = want->dim[first ? 1 : 3], given = have->dim[first ? 1 : 3];
    const int64_t height = want->dim[first ? 2 : 1], width = want->dim[first ? 3 : 2];
    if (fits_moved(want, have, last, 1))
        snprintf(out, 128, "; its channels are last: transpose it, or for images say layout=nchw");
    else if (fits_moved(want, have, 1, last))
        snprintf(out, 128, "; its channels are first: transpose it, or for images say layout=nhwc");
    else if (height > 0 && width > 0 && (may_be(channels, given) || (channels == 1 && given == 3)))
        snprintf(out, 128, "; images are made so by --image %sresize=%lldx%lld",
                 may_be(channels, given) ? "" : "color=grey,", (long long)width, (long long)height);
    return out;
}

static enum tmk_status check_input(const struct tmk_value *input, const struct tmk_tensor *given,
                                   struct tmk_diag *diag) {
    char hint[128];
    const struct tmk_type *type = &input->type;
    if (!kind_fits(type->kind, given->kind))
        return tmk_fail(diag, TMK_TYPE, "input '%s' wants %s, but the data is %s", input->name,
                        tmk_type_kind_text(type->kind), tmk_tensor_what(given));
    if (given->kind != TMK_TYPE_TENSOR && given->dtype == TMK_UNDEFINED)
        return TMK_OK;
    if (type->dtype != TMK_UNDEFINED && type->dtype != given->dtype)
        return tmk_fail(diag, TMK_TYPE, "input '%s' wants %s, but the data is %s", input->name,
                        tmk_dtype_name(type->dtype), tmk_dtype_name(given->dtype));
    if (!type->has_shape || given->kind != TMK_TYPE_TENSOR)
        return TMK_OK;
    /* as ONNX Runtime: for a number, an array that holds one */
    bool fits = type->shape.rank == given->shape.rank ||
                (type->shape.rank == 0 && tmk_tensor_count(given) == 1);
    for (int32_t i = 0; fits && i < type->shape.rank; i++)
        fits = type->shape.dim[i] < 0 || type->shape.dim[i] == given->shape.dim[i];
    if (fits)
        return TMK_OK;
    return tmk_fail(diag, TMK_SHAPE, "input '%s' has shape %s, but the data has %s%s", input->name,
                    TMK_SHAPE_TEXT(&type->shape), TMK_SHAPE_TEXT(&given->shape),
                    shape_hint(&type->shape, &given->shape, hint));
}

static enum tmk_status type_sources(struct tmk_planning *p, const struct tmk_tensor *inputs) {
    struct tmk_plan *plan = p->plan;
    const struct tmk_graph *graph = plan->graph;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        TMK_TRY(check_input(graph->inputs[i], &inputs[i], p->diag));
        struct tmk_plan_value *value = &plan->values[graph->inputs[i]->index];
        *value = (struct tmk_plan_value){.place = TMK_PLACE_INPUT,
                                         .kind = inputs[i].kind,
                                         .offset = i,
                                         .dtype = inputs[i].dtype,
                                         .shape = inputs[i].shape,
                                         .channel_axis = -1};
    }
    return TMK_OK;
}

static void type_weights(struct tmk_planning *p, const struct tmk_graph *graph) {
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const struct tmk_value *weight = graph->values[i];
        if (weight->kind != TMK_VALUE_INITIALIZER)
            continue;
        struct tmk_plan_value *value = &p->plan->values[weight->index];
        value->place = TMK_PLACE_CONSTANT;
        value->dtype = weight->data.dtype;
        value->shape = weight->data.shape;
        value->initializer = true;
        value->channel_axis = tmk_weight_axis(weight);
        tmk_tensor_share(&value->constant, &weight->data);
    }
}

/* In graphs inside nodes only weights are known now; what else is observed there is seen as it
 * runs. */
static enum tmk_status tap_inner_weights(struct tmk_planning *p, const struct tmk_graph *graph) {
    for (const struct tmk_node *node = graph->first; graph->parent && node; node = node->next) {
        if (!tmk_node_is_observer(node))
            continue;
        uint32_t in = node->inputs[0]->index;
        size_t slot = (size_t)tmk_ptrmap_get(&p->plan->slots, node);
        if (slot && p->plan->values[in].initializer)
            TMK_TRY(add_tap(p, (uint32_t)slot - 1, in));
    }
    return TMK_OK;
}

enum tmk_status tmk_plan_type(struct tmk_planning *p, const struct tmk_tensor *inputs) {
    enum tmk_status status = type_sources(p, inputs);
    const struct tmk_graph *root = tmk_graph_root(p->plan->graph);
    for (const struct tmk_graph *g = root; g; g = tmk_graph_next(root, g))
        type_weights(p, g);
    for (const struct tmk_graph *g = root; g && status == TMK_OK; g = tmk_graph_next(root, g))
        status = tap_inner_weights(p, g);
    for (const struct tmk_node *node = p->plan->graph->first; status == TMK_OK && node;
         node = node->next) {
        status = tmk_node_is_observer(node) ? note_observer(p, node) : type_node(p, node);
        if (status != TMK_OK)
            status = tmk_in(p->diag, status, "node %s", TMK_NODE_LABEL(node));
    }
    return status;
}
