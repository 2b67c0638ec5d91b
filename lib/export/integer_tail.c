/* SPDX-License-Identifier: Apache-2.0 */
/* A Relu or Clip behind a result costs nothing: the clamp to codes does it, since clamping and
 * rounding to a grid may change places. */
#include <math.h>

#include "base/diag.h"
#include "calib/grid.h"
#include "export/integer.h"
#include "graph/rewrite.h"

struct tmk_node *tmk_integer_only_reader(const struct tmk_value *value) {
    if (value->n_uses != 1 || value->n_graph_outputs || value->uses[0].node->graph != value->graph)
        return NULL;
    return value->uses[0].node;
}

/* Input `at` of a Clip; false: it depends on the data. */
static bool clip_bound(const struct tmk_node *node, uint32_t at, float *bound) {
    if (at >= node->n_inputs || !node->inputs[at])
        return true;
    const struct tmk_tensor *value = tmk_value_constant(node->inputs[at]);
    if (!value || value->dtype != TMK_FLOAT32 || tmk_tensor_count(value) != 1)
        return false;
    *bound = *(const float *)value->data;
    return true;
}

bool tmk_integer_bounds(const struct tmk_node *node, float *least, float *most) {
    *least = -INFINITY;
    *most = INFINITY;
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Relu")) {
        *least = 0;
        return true;
    }
    if (!tmk_node_is(node, TMK_DOMAIN_ONNX, "Clip"))
        return false;
    if (node->version < 11) {
        *least = tmk_node_float(node, "min", *least);
        *most = tmk_node_float(node, "max", *most);
        return true;
    }
    return clip_bound(node, 1, least) && clip_bound(node, 2, most);
}

void tmk_integer_clamp(const struct tmk_encoding *e, float least, float most, int32_t *lowest,
                       int32_t *highest) {
    if (!isnan(least) && least != -INFINITY)
        *lowest = tmk_grid_code(least, e->scale[0], e->zero_point[0], *lowest, *highest);
    if (!isnan(most) && most != INFINITY)
        *highest = tmk_grid_code(most, e->scale[0], e->zero_point[0], *lowest, *highest);
}

static const struct tmk_encoding *integer_encoding(const struct tmk_integer *g,
                                                   const struct tmk_value *value) {
    const struct tmk_encoding *e = tmk_integer_encoding(g, value, NULL, 0);
    return e && tmk_integer_carrier(e) != TMK_UNDEFINED ? e : NULL;
}

enum tmk_status tmk_integer_tail(struct tmk_integer *g, struct tmk_value *result,
                                 struct tmk_tail *out) {
    struct tmk_tail tail = {.result = result, .encoding = integer_encoding(g, result)};
    struct tmk_node *next = tmk_integer_only_reader(result);
    const struct tmk_encoding *behind = next ? integer_encoding(g, next->outputs[0]) : NULL;
    float least, most;
    if (tail.encoding)
        tmk_encoding_codes(tail.encoding, &tail.lowest, &tail.highest);
    if (behind && behind->n == 1 && tmk_integer_bounds(next, &least, &most) &&
        next->inputs[0] == result &&
        (!tail.encoding || tmk_integer_same_grid(tail.encoding, behind))) {
        tail.result = next->outputs[0];
        tail.encoding = behind;
        tmk_encoding_codes(behind, &tail.lowest, &tail.highest);
        tmk_integer_clamp(behind, least, most, &tail.lowest, &tail.highest);
        TMK_TRY(tmk_integer_replaced(g, next));
    }
    *out = tail;
    return TMK_OK;
}
