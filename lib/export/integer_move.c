/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that do to codes what they do to numbers: they move or compare them. A result that has
 * another encoding than its operand is requantized behind; one that has none keeps its operand's.
 */
#include <math.h>

#include "base/diag.h"
#include "calib/grid.h"
#include "export/integer.h"
#include "graph/rewrite.h"

/* Codes under `from` become the value's: clamped to [least, most], and under its own encoding if it
 * has one. */
static enum tmk_status set_codes(struct tmk_integer *g, struct tmk_value *result,
                                 struct tmk_value *codes, const struct tmk_encoding *from,
                                 float least, float most) {
    const struct tmk_encoding *own = tmk_integer_encoding(g, result, NULL, 0);
    const struct tmk_encoding *to = own && tmk_integer_carrier(own) != TMK_UNDEFINED ? own : from;
    const bool same = tmk_integer_same_grid(from, to);
    const double real = (double)from->scale[0] / (double)to->scale[0];
    struct tmk_rescale rescale = {.n = 1, .real = &real};
    int32_t lowest, highest, ends[2];
    tmk_encoding_codes(to, &lowest, &highest);
    ends[0] = lowest;
    ends[1] = highest;
    tmk_integer_clamp(to, least, most, &lowest, &highest);
    if (!same || lowest != ends[0] || highest != ends[1]) {
        TMK_TRY(tmk_integer_zero(g, from, result->name, &rescale.x_zero));
        TMK_TRY(tmk_integer_requantize(g, codes, &rescale, to, lowest, highest, result->name,
                                       "_quantized", &codes));
    }
    return tmk_integer_made(g, result, codes, to);
}

/* The encoding of the first operand, and of the result if it has one, are supported by integer
 * arithmetic. */
static const struct tmk_encoding *plain_encoding(struct tmk_integer *g, const struct tmk_node *node,
                                                 uint32_t bits) {
    const struct tmk_encoding *x =
        tmk_integer_plain(g, node->inputs[0], node, 0, bits, "its input");
    if (x && tmk_integer_encoding(g, node->outputs[0], NULL, 0) &&
        !tmk_integer_plain(g, node->outputs[0], NULL, 0, bits, "its result"))
        return NULL;
    return x;
}

/* ---- Relu, Clip ---- */

enum tmk_status tmk_integer_clip(struct tmk_integer *g, struct tmk_node *node) {
    const struct tmk_encoding *x = plain_encoding(g, node, 16);
    struct tmk_value *codes = NULL;
    float least, most;
    if (!x)
        return TMK_OK;
    if (!tmk_integer_bounds(node, &least, &most))
        return tmk_integer_stays(g, "its bounds depend on the data");
    TMK_TRY(tmk_integer_codes_of(g, node->inputs[0], x, &codes));
    TMK_TRY(set_codes(g, node->outputs[0], codes, x, least, most));
    return tmk_integer_replaced(g, node);
}

/* ---- operators of one operand ---- */

/* The same operator on codes; all operands but the first are as they were. */
static enum tmk_status same_of_codes(struct tmk_integer *g, struct tmk_node *node,
                                     const struct tmk_encoding *x, struct tmk_node **out) {
    struct tmk_value **inputs = tmk_arena_array(&g->arena, node->n_inputs, sizeof(void *));
    const char **names = tmk_arena_array(&g->arena, node->n_outputs, sizeof *names);
    TMK_TRY_ALLOC(inputs && names, g->diag);
    TMK_TRY(tmk_integer_codes_of(g, node->inputs[0], x, &inputs[0]));
    for (uint32_t i = 1; i < node->n_inputs; i++)
        inputs[i] = node->inputs[i];
    for (uint32_t i = 0; i < node->n_outputs; i++)
        names[i] = node->outputs[i] ? node->outputs[i]->name : NULL;
    TMK_TRY(tmk_graph_add_node(g->graph, g->at,
                               &(struct tmk_node_spec){node->domain, node->op, node->name,
                                                       node->version, inputs, node->n_inputs, names,
                                                       node->n_outputs},
                               out, g->diag));
    TMK_TRY(tmk_node_copy_attrs(*out, node, NULL, g->diag));
    return tmk_ptrmap_put(&g->rewritten, *out, *out) ? TMK_OK : tmk_nomem(g->diag);
}

static enum tmk_status move_codes(struct tmk_integer *g, struct tmk_node *node, uint32_t bits) {
    const struct tmk_encoding *x = plain_encoding(g, node, bits);
    struct tmk_node *made = NULL;
    if (!x)
        return TMK_OK;
    TMK_TRY(same_of_codes(g, node, x, &made));
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i])
            TMK_TRY(set_codes(g, node->outputs[i], made->outputs[i], x, -INFINITY, INFINITY));
    return tmk_integer_replaced(g, node);
}

static bool wants_more_than_one(const struct tmk_node *node) {
    return node->n_outputs > 1 && node->outputs[1] && tmk_value_alive(node->outputs[1]) &&
           (node->outputs[1]->n_uses || node->outputs[1]->n_graph_outputs);
}

/* Dropout takes float numbers only; outside of training it does nothing. */
enum tmk_status tmk_integer_dropout(struct tmk_integer *g, struct tmk_node *node) {
    const struct tmk_encoding *x = plain_encoding(g, node, 16);
    struct tmk_value *codes = NULL;
    if (!x || wants_more_than_one(node))
        return x ? tmk_integer_stays(g, "its mask is wanted") : TMK_OK;
    TMK_TRY(tmk_integer_codes_of(g, node->inputs[0], x, &codes));
    TMK_TRY(set_codes(g, node->outputs[0], codes, x, -INFINITY, INFINITY));
    return tmk_integer_replaced(g, node);
}

enum tmk_status tmk_integer_move(struct tmk_integer *g, struct tmk_node *node) {
    return wants_more_than_one(node) ? tmk_integer_stays(g, "its second result is wanted")
                                     : move_codes(g, node, 16);
}

enum tmk_status tmk_integer_split(struct tmk_integer *g, struct tmk_node *node) {
    for (uint32_t i = 1; i < node->n_outputs; i++)
        if (tmk_integer_encoding(g, node->outputs[i], NULL, 0) &&
            !tmk_integer_plain(g, node->outputs[i], NULL, 0, 16, "a result"))
            return TMK_OK;
    return move_codes(g, node, 16);
}

enum tmk_status tmk_integer_max_pool(struct tmk_integer *g, struct tmk_node *node) {
    return wants_more_than_one(node) ? tmk_integer_stays(g, "its indices are wanted")
                                     : move_codes(g, node, 8);
}

/* ---- Concat ---- */

enum tmk_status tmk_integer_concat(struct tmk_integer *g, struct tmk_node *node) {
    const struct tmk_encoding *y =
        tmk_integer_plain(g, node->outputs[0], NULL, 0, 16, "its result");
    struct tmk_value **inputs = tmk_arena_array(&g->arena, node->n_inputs, sizeof(void *));
    const char *name = node->outputs[0]->name;
    struct tmk_node *made = NULL;
    TMK_TRY_ALLOC(inputs, g->diag);
    for (uint32_t i = 0; y && i < node->n_inputs; i++)
        if (!tmk_integer_plain(g, node->inputs[i], node, i, 16, "an operand"))
            return TMK_OK;
    if (!y)
        return TMK_OK;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        struct tmk_value *own = NULL;
        TMK_TRY(tmk_integer_codes_of(g, node->inputs[i],
                                     tmk_integer_encoding(g, node->inputs[i], node, i), &own));
        TMK_TRY(tmk_integer_codes_of(g, node->inputs[i], y, &inputs[i]));
    }
    TMK_TRY(tmk_integer_node(g, node->domain, node->op, node->version, inputs, node->n_inputs, name,
                             "_quantized", &made));
    TMK_TRY(tmk_node_copy_attrs(made, node, NULL, g->diag));
    TMK_TRY(tmk_integer_replaced(g, node));
    return tmk_integer_made(g, node->outputs[0], made->outputs[0], y);
}

/* ---- Pad ---- */

/* The constant that pads, as a number; false: it depends on the data. */
static bool pad_value(const struct tmk_node *node, float *out) {
    *out = node->version < 11 ? tmk_node_float(node, "value", 0) : 0;
    if (node->version < 11 || node->n_inputs < 3 || !node->inputs[2])
        return true;
    const struct tmk_tensor *t = tmk_value_constant(node->inputs[2]);
    if (!t || t->dtype != TMK_FLOAT32 || tmk_tensor_count(t) != 1)
        return false;
    *out = *(const float *)t->data;
    return true;
}

/* Modes other than constant repeat what is there; a constant becomes its code. */
enum tmk_status tmk_integer_pad(struct tmk_integer *g, struct tmk_node *node) {
    const struct tmk_encoding *x = plain_encoding(g, node, 16);
    struct tmk_node *made = NULL;
    int32_t lowest, highest;
    float value;
    if (!x)
        return TMK_OK;
    if (node->version < 11 || !pad_value(node, &value))
        return tmk_integer_stays(g, "what it pads with is no constant operand");
    tmk_encoding_codes(x, &lowest, &highest);
    const int32_t code = tmk_grid_code(value, x->scale[0], x->zero_point[0], lowest, highest);
    struct tmk_value *inputs[4] = {NULL, node->inputs[1], NULL,
                                   node->n_inputs > 3 ? node->inputs[3] : NULL};
    const char *name = node->outputs[0]->name;
    TMK_TRY(tmk_integer_codes_of(g, node->inputs[0], x, &inputs[0]));
    TMK_TRY(
        tmk_integer_constant(g, tmk_integer_carrier(x), NULL, &code, name, "_padding", &inputs[2]));
    TMK_TRY(tmk_integer_node(g, node->domain, node->op, node->version, inputs,
                             node->n_inputs > 3 ? 4 : 3, name, "_moved", &made));
    TMK_TRY(tmk_node_copy_attrs(made, node, NULL, g->diag));
    TMK_TRY(set_codes(g, node->outputs[0], made->outputs[0], x, -INFINITY, INFINITY));
    return tmk_integer_replaced(g, node);
}
