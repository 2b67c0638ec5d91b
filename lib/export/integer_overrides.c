/* SPDX-License-Identifier: Apache-2.0 */
/* Values whose encoding does not count, or not for all readers, so that both forms compute alike
 * (qdq_mark.c has the same of the QDQ form).
 *
 * Between QuantizeLinear and DequantizeLinear of the model the codes are the model's: under an
 * encoding beside theirs they would be rounded twice. What an operator computes from float numbers
 * alone is quantized where a product and the like reads it, and nowhere else. */
#include <math.h>

#include "base/diag.h"
#include "export/codes.h"
#include "export/integer.h"
#include "export/qdq.h"
#include "ops/ops.h"

/* In the place of an encoding: the value has none; it has one for readers other than
 * QuantizeLinear; it has one for operators that the QDQ form quantizes the operands of. */
static const struct tmk_encoding none, for_others, for_products;

const struct tmk_encoding *tmk_integer_override(const struct tmk_integer *g,
                                                const struct tmk_value *value,
                                                const struct tmk_node *reader,
                                                const struct tmk_encoding *own) {
    const struct tmk_encoding *override = tmk_ptrmap_get(&g->overrides, value);
    if (!override)
        return own;
    if (override == &for_others)
        return reader && reader->graph == g->graph && !tmk_codes_is(reader, "QuantizeLinear")
                   ? own
                   : NULL;
    if (override == &for_products)
        return reader && tmk_qdq_knows(reader) && !tmk_qdq_moves(reader) ? own : NULL;
    return override == &none ? NULL : override;
}

static enum tmk_status override_encoding(struct tmk_integer *g, const struct tmk_value *value,
                                         const struct tmk_encoding *e) {
    return tmk_ptrmap_put(&g->overrides, value, (void *)(uintptr_t)e) ? TMK_OK : tmk_nomem(g->diag);
}

static bool is_usable(const struct tmk_encoding *e) {
    bool usable =
        e->n && !e->block && e->dtype != TMK_INT32 && tmk_integer_carrier(e) != TMK_UNDEFINED;
    for (uint32_t i = 0; usable && i < e->n; i++)
        usable = e->scale[i] > 0 && isfinite(e->scale[i]);
    return usable;
}

/* ---- what is quantized, and dequantized: encodings live as long as the graph ---- */

static bool has_encoding(const struct tmk_integer *g, const struct tmk_value *value) {
    bool found = tmk_integer_encoding(g, value, NULL, 0) != NULL;
    for (uint32_t i = 0; !found && i < value->n_uses; i++)
        found = tmk_integer_encoding(g, value, value->uses[i].node, value->uses[i].input) != NULL;
    return found;
}

static enum tmk_status override_result(struct tmk_integer *g, const struct tmk_node *dequantize) {
    const struct tmk_value *value = dequantize->outputs[0];
    struct tmk_encoding *e = tmk_arena_alloc(g->graph->arena, sizeof *e);
    TMK_TRY_ALLOC(e, g->diag);
    if (!has_encoding(g, value))
        return TMK_OK;
    TMK_TRY(tmk_codes_encoding(value, g->graph->arena, e, g->diag));
    return override_encoding(g, value, is_usable(e) ? e : &none);
}

/* Codes of codes. */
static enum tmk_status override_passed(struct tmk_integer *g, const struct tmk_node *node) {
    const struct tmk_encoding *e = tmk_ptrmap_get(&g->overrides, node->inputs[0]);
    for (uint32_t i = 0; e && e->n == 1 && i < node->n_outputs; i++)
        if (node->outputs[i] && has_encoding(g, node->outputs[i]))
            TMK_TRY(override_encoding(g, node->outputs[i], e));
    return TMK_OK;
}

static bool is_read_inside(const struct tmk_value *value) {
    for (uint32_t i = 0; i < value->n_uses; i++)
        if (value->uses[i].node->graph != value->graph)
            return true;
    return false;
}

static enum tmk_status override_operand(struct tmk_integer *g, const struct tmk_value *value,
                                        const struct tmk_encoding *e) {
    const struct tmk_encoding *other = tmk_ptrmap_get(&g->overrides, value);
    if (is_read_inside(value) || !tmk_codes_quantized_only(value))
        return override_encoding(g, value, &for_others);
    const bool same = !other || (other->n && tmk_integer_same_grid(other, e));
    return override_encoding(g, value, is_usable(e) && same ? e : &none);
}

/* Of an operand of QuantizeLinear, and of what is in front of it: an operator of integers makes
 * these codes, and moves them; what else there is stays a number. */
static enum tmk_status override_operands(struct tmk_integer *g, const struct tmk_value *value,
                                         const struct tmk_encoding *e, int depth) {
    const struct tmk_node *node = value->producer;
    TMK_TRY(override_operand(g, value, e));
    if (!node || !tmk_qdq_moves(node) || depth == TMK_CODES_DEEPEST)
        return TMK_OK;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] && tmk_codes_quantized_only(node->inputs[i]))
            TMK_TRY(override_operands(g, node->inputs[i],
                                      i == 0 && tmk_node_has(node, TMK_TRAIT_CODES) ? e : &none,
                                      depth + 1));
    return TMK_OK;
}

static enum tmk_status override_quantized(struct tmk_integer *g, const struct tmk_node *quantize) {
    struct tmk_encoding *e = tmk_arena_alloc(g->graph->arena, sizeof *e);
    TMK_TRY_ALLOC(e, g->diag);
    TMK_TRY(tmk_codes_made(quantize, g->graph->arena, e, g->diag));
    return override_operands(g, quantize->inputs[0], e, 0);
}

enum tmk_status tmk_integer_find_overrides(struct tmk_integer *g) {
    for (const struct tmk_node *node = g->graph->first; node; node = node->next) {
        if (!node->n_inputs || !node->inputs[0] || !node->n_outputs || !node->outputs[0])
            continue;
        if (tmk_codes_is(node, "QuantizeLinear"))
            TMK_TRY(override_quantized(g, node));
        else if (tmk_codes_is(node, "DequantizeLinear"))
            TMK_TRY(override_result(g, node));
        else if (tmk_codes_pass(node))
            TMK_TRY(override_passed(g, node));
    }
    return TMK_OK;
}

/* ---- what is computed in float ---- */

/* The node has float operands, none of which has an encoding for it or is a sum of codes. */
static bool is_left_float(const struct tmk_integer *g, const struct tmk_node *node) {
    bool reads = false;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct tmk_value *value = node->inputs[i];
        if (!value || value->profile_id < 0 || value->type.kind != TMK_TYPE_TENSOR ||
            (value->type.dtype != TMK_FLOAT32 && value->type.dtype != TMK_UNDEFINED))
            continue;
        const struct tmk_form *form = tmk_ptrmap_get(&g->forms, value);
        if (tmk_integer_encoding(g, value, node, i) || (form && form->gone))
            return false;
        reads = true;
    }
    return reads;
}

enum tmk_status tmk_integer_left_float(struct tmk_integer *g, const struct tmk_node *node) {
    if (!is_left_float(g, node))
        return TMK_OK;
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i] && !tmk_ptrmap_get(&g->overrides, node->outputs[i]))
            TMK_TRY(override_encoding(g, node->outputs[i], &for_products));
    return TMK_OK;
}

/* ---- nodes ---- */

/* The node stays, for readers of what it computes in float. */
static enum tmk_status keep_node(struct tmk_integer *g, struct tmk_node *node) {
    return tmk_ptrmap_put(&g->rewritten, node, node) ? TMK_OK : tmk_nomem(g->diag);
}

/* Its codes are those that its operand became. */
enum tmk_status tmk_integer_quantize(struct tmk_integer *g, struct tmk_node *node) {
    struct tmk_value *from = node->inputs[0], *to = node->outputs[0], *codes = NULL;
    const struct tmk_encoding *e = tmk_ptrmap_get(&g->overrides, from);
    const struct tmk_form *form = tmk_ptrmap_get(&g->forms, from);
    if (!form || !form->gone)
        return keep_node(g, node);
    if (!e || !e->n || !form->codes || tmk_integer_carrier(e) != to->type.dtype ||
        to->n_graph_outputs)
        return tmk_integer_stays(g, "its operand stays float");
    TMK_TRY(tmk_integer_codes_of(g, from, e, &codes));
    TMK_TRY(tmk_value_replace(to, codes, NULL, false, g->diag));
    return tmk_integer_replaced(g, node);
}

enum tmk_status tmk_integer_dequantized(struct tmk_integer *g, struct tmk_node *node) {
    struct tmk_value *codes = node->inputs[0], *real = node->outputs[0];
    const struct tmk_encoding *e = tmk_ptrmap_get(&g->overrides, real);
    if (e && e->n && tmk_integer_carrier(e) == e->dtype)
        TMK_TRY(tmk_integer_made_both(g, real, codes, e));
    return keep_node(g, node);
}
