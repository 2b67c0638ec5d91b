/* SPDX-License-Identifier: Apache-2.0 */
#include "export/codes.h"

#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "calib/encodings.h"
#include "export/exporter.h"
#include "export/qdq.h"
#include "graph/rewrite.h"
#include "ops/contrib.h"
#include "ops/quantized.h"

/* Codes pass where their numbers do. */
static bool moves(const struct tmk_node *node) {
    static const char *const ops[] = {"Transpose", "Reshape",   "Squeeze",
                                      "Flatten",   "Unsqueeze", "Identity"};
    for (size_t i = 0; node && i < TMK_COUNT(ops); i++)
        if (tmk_node_is(node, TMK_DOMAIN_ONNX, ops[i]))
            return true;
    return false;
}

bool tmk_codes_is(const struct tmk_node *node, const char *op) {
    return node &&
           (tmk_node_is(node, TMK_DOMAIN_ONNX, op) || tmk_node_is(node, TMK_DOMAIN_MICROSOFT, op));
}

const struct tmk_node *tmk_codes_origin(const struct tmk_value *value) {
    const struct tmk_node *node = value->producer;
    for (int depth = 0; depth < TMK_CODES_DEEPEST && moves(node); depth++)
        node = node->inputs[0]->producer;
    return tmk_codes_is(node, "DequantizeLinear") ? node : NULL;
}

static const struct tmk_tensor *constant_at(const struct tmk_node *node, uint32_t at) {
    return at < node->n_inputs && node->inputs[at] ? tmk_value_constant(node->inputs[at]) : NULL;
}

static bool are_constants(const struct tmk_node *node, uint32_t from) {
    for (uint32_t i = from; i < node->n_inputs; i++)
        if (node->inputs[i] && !constant_at(node, i))
            return false;
    return true;
}

static bool has_zero(const struct tmk_node *node) {
    return node->n_inputs > 2 && node->inputs[2];
}

bool tmk_codes_are_constant(const struct tmk_value *value) {
    const struct tmk_node *origin = tmk_codes_origin(value), *node = value->producer;
    for (; origin && node != origin; node = node->inputs[0]->producer)
        if (!are_constants(node, 1))
            return false;
    return origin && constant_at(origin, 0) && constant_at(origin, 1) &&
           (!has_zero(origin) || constant_at(origin, 2));
}

/* ---- what is moved ---- */

enum tmk_status tmk_codes_move(const struct tmk_node *node, const struct tmk_tensor *from,
                               struct tmk_arena *arena, struct tmk_tensor *out,
                               struct tmk_diag *diag) {
    const struct tmk_tensor **in = tmk_arena_array(arena, node->n_inputs, sizeof *in);
    TMK_TRY_ALLOC(in, diag);
    in[0] = from;
    for (uint32_t i = 1; i < node->n_inputs; i++)
        in[i] = constant_at(node, i);
    return tmk_op_run(node, in, out, diag);
}

/* What becomes of `start`, which stands in the place of what `origin` reads or computes. */
static enum tmk_status move_from(const struct tmk_value *value, const struct tmk_node *origin,
                                 const struct tmk_tensor *start, struct tmk_arena *arena,
                                 struct tmk_tensor *out, struct tmk_diag *diag) {
    struct tmk_tensor from = {0};
    if (value->producer == origin) {
        tmk_tensor_share(out, start);
        return TMK_OK;
    }
    TMK_TRY(move_from(value->producer->inputs[0], origin, start, arena, &from, diag));
    enum tmk_status status = tmk_codes_move(value->producer, &from, arena, out, diag);
    tmk_tensor_finish(&from);
    return status;
}

/* Where the axis of the operand is in the result; -1: nowhere. */
static int32_t transposed_axis(const struct tmk_node *node, int32_t axis, int32_t rank) {
    size_t n = 0;
    const int64_t *order = tmk_node_ints(node, "perm", &n);
    for (int32_t i = 0; order && i < (int32_t)n; i++)
        if (order[i] == axis)
            return i;
    return order ? -1 : rank - 1 - axis;
}

/* The same of Reshape and the like: as long, behind as many indices of the axes before it. */
static int32_t reshaped_axis(const struct tmk_shape *from, int32_t axis,
                             const struct tmk_shape *to) {
    int64_t before = 1, passed = 1;
    for (int32_t i = 0; i < axis; i++)
        before *= from->dim[i];
    for (int32_t i = 0; i < to->rank; passed *= to->dim[i++])
        if (passed == before && to->dim[i] == from->dim[axis])
            return i;
    return -1;
}

/* *axis, which the scales have in what `origin` reads, as `value` has it, or -1; *moved: the codes
 * there, as long as there is an axis. */
static enum tmk_status move_axis(const struct tmk_value *value, const struct tmk_node *origin,
                                 const struct tmk_tensor *codes, struct tmk_arena *arena,
                                 int32_t *axis, struct tmk_tensor *moved, struct tmk_diag *diag) {
    const struct tmk_node *node = value->producer;
    struct tmk_tensor from = {0};
    if (node == origin) {
        tmk_tensor_share(moved, codes);
        return TMK_OK;
    }
    TMK_TRY(move_axis(node->inputs[0], origin, codes, arena, axis, &from, diag));
    enum tmk_status status = *axis >= 0 ? tmk_codes_move(node, &from, arena, moved, diag) : TMK_OK;
    if (status == TMK_OK && *axis >= 0)
        *axis = tmk_node_is(node, TMK_DOMAIN_ONNX, "Transpose")
                    ? transposed_axis(node, *axis, from.shape.rank)
                    : reshaped_axis(&from.shape, *axis, &moved->shape);
    tmk_tensor_finish(&from);
    return status;
}

/* Of the scales in `value`; -1: there is none. codes NULL: they are no constant. */
static enum tmk_status find_axis(const struct tmk_value *value, const struct tmk_node *origin,
                                 const struct tmk_tensor *codes, struct tmk_arena *arena,
                                 int32_t *out, struct tmk_diag *diag) {
    const struct tmk_type *type = &origin->inputs[0]->type;
    const int32_t rank = codes ? codes->shape.rank : type->has_shape ? type->shape.rank : 0;
    const int64_t axis = tmk_node_int(origin, "axis", 1), at = axis < 0 ? axis + rank : axis;
    struct tmk_tensor moved = {0};
    *out = at >= 0 && at < rank && (codes || value->producer == origin) ? (int32_t)at : -1;
    if (*out < 0 || value->producer == origin)
        return TMK_OK;
    enum tmk_status status = move_axis(value, origin, codes, arena, out, &moved, diag);
    tmk_tensor_finish(&moved);
    return status;
}

/* Blocks stay such where whole axes move. */
static bool keeps_blocks(const struct tmk_value *value, const struct tmk_node *origin) {
    const struct tmk_node *node = value->producer;
    while (node != origin && (tmk_node_is(node, TMK_DOMAIN_ONNX, "Transpose") ||
                              tmk_node_is(node, TMK_DOMAIN_ONNX, "Identity")))
        node = node->inputs[0]->producer;
    return node == origin;
}

/* ---- encodings ---- */

static enum tmk_status take_parameters(const struct tmk_tensor *scale,
                                       const struct tmk_tensor *zero, enum tmk_dtype dtype,
                                       const struct tmk_value *value, struct tmk_arena *arena,
                                       struct tmk_encoding *out, struct tmk_diag *diag) {
    const size_t n = tmk_tensor_count(scale);
    float *steps = tmk_arena_array(arena, n, sizeof *steps);
    int32_t *zeros = tmk_arena_array(arena, n, sizeof *zeros);
    float *least = tmk_arena_array(arena, n, sizeof *least),
          *most = tmk_arena_array(arena, n, sizeof *most);
    TMK_TRY_ALLOC(steps && zeros && least && most, diag);
    memcpy(steps, scale->data, n * sizeof *steps);
    for (size_t i = 0; i < n; i++)
        zeros[i] = tmk_quantized_at(zero, i);
    *out = (struct tmk_encoding){.id = (uint32_t)value->profile_id,
                                 .fingerprint = value->fingerprint,
                                 .name = value->name,
                                 .dtype = dtype,
                                 .axis = -1,
                                 .n = (uint32_t)n,
                                 .scale = steps,
                                 .zero_point = zeros,
                                 .clip_min = least,
                                 .clip_max = most};
    tmk_encoding_set_clip(out);
    return TMK_OK;
}

/* Scales and zero points that `node` reads, as `value` has them, and the type of its codes; out->n
 * stays 0: they are no constants. Axis and block are the caller's. */
static enum tmk_status read_parameters(const struct tmk_node *node, enum tmk_dtype codes,
                                       const struct tmk_value *value, bool moved,
                                       struct tmk_arena *arena, struct tmk_encoding *out,
                                       struct tmk_diag *diag) {
    const struct tmk_tensor *scale = constant_at(node, 1), *zero = constant_at(node, 2);
    const enum tmk_dtype dtype = zero ? zero->dtype : codes;
    const size_t n = scale ? tmk_tensor_count(scale) : 0;
    *out = (struct tmk_encoding){.n = 0};
    if (!n || n > UINT32_MAX || scale->dtype != TMK_FLOAT32 || (has_zero(node) && !zero) ||
        (zero && tmk_tensor_count(zero) != n) || !tmk_is_quantized(dtype))
        return TMK_OK;
    if (!moved)
        return take_parameters(scale, zero, dtype, value, arena, out, diag);
    struct tmk_tensor steps = {0}, zeros = {0};
    enum tmk_status status = move_from(value, node, scale, arena, &steps, diag);
    if (status == TMK_OK && zero)
        status = move_from(value, node, zero, arena, &zeros, diag);
    TMK_THEN(status, take_parameters(&steps, zero ? &zeros : NULL, dtype, value, arena, out, diag));
    tmk_tensor_finish(&steps);
    tmk_tensor_finish(&zeros);
    return status;
}

enum tmk_status tmk_codes_encoding(const struct tmk_value *value, struct tmk_arena *arena,
                                   struct tmk_encoding *out, struct tmk_diag *diag) {
    const struct tmk_node *node = tmk_codes_origin(value);
    struct tmk_encoding made;
    *out = (struct tmk_encoding){.n = 0};
    if (!node)
        return TMK_OK;
    const struct tmk_tensor *codes = tmk_codes_are_constant(value) ? constant_at(node, 0) : NULL;
    const int64_t block = tmk_node_int(node, "block_size", 0);
    if (block < 0 || block > UINT32_MAX || (block && !keeps_blocks(value, node)) ||
        (block && !codes && value->producer != node))
        return TMK_OK;
    TMK_TRY(
        read_parameters(node, node->inputs[0]->type.dtype, value, block > 0, arena, &made, diag));
    made.block = (uint32_t)block;
    if (made.n > 1 || block)
        TMK_TRY(find_axis(value, node, codes, arena, &made.axis, diag));
    if (made.n && (made.axis >= 0 || (made.n == 1 && !block)))
        *out = made;
    return TMK_OK;
}

enum tmk_status tmk_codes_made(const struct tmk_node *node, struct tmk_arena *arena,
                               struct tmk_encoding *out, struct tmk_diag *diag) {
    struct tmk_encoding made;
    *out = (struct tmk_encoding){.n = 0};
    TMK_TRY(read_parameters(node, node->outputs[0]->type.dtype, node->inputs[0], false, arena,
                            &made, diag));
    if (made.n == 1 && !tmk_node_int(node, "block_size", 0))
        *out = made;
    return TMK_OK;
}

static bool quantizes_only(const struct tmk_value *value, int depth) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < value->n_uses; i++) {
        const struct tmk_node *node = value->uses[i].node;
        if (node->graph != value->graph)
            continue;
        n++;
        if (!tmk_codes_is(node, "QuantizeLinear") &&
            (!depth || !tmk_qdq_moves(node) || !node->outputs[0] ||
             !quantizes_only(node->outputs[0], depth - 1)))
            return false;
    }
    return n && !value->n_graph_outputs;
}

bool tmk_codes_quantized_only(const struct tmk_value *value) {
    return quantizes_only(value, TMK_CODES_DEEPEST);
}

bool tmk_codes_pass(const struct tmk_node *node) {
    return tmk_node_has(node, TMK_TRAIT_CODES) || tmk_node_is(node, TMK_DOMAIN_ONNX, "Relu") ||
           tmk_node_is(node, TMK_DOMAIN_ONNX, "MaxPool");
}

/* The numbers. */
static enum tmk_status compute(const struct tmk_value *value, struct tmk_arena *arena,
                               struct tmk_tensor *out, struct tmk_diag *diag) {
    const struct tmk_node *node = value->producer;
    const struct tmk_tensor *held = constant_at(node, 0);
    struct tmk_tensor from = {0};
    if (!held)
        TMK_TRY(compute(node->inputs[0], arena, &from, diag));
    enum tmk_status status = tmk_codes_move(node, held ? held : &from, arena, out, diag);
    tmk_tensor_finish(&from);
    return status;
}

/* Ends `made`. */
static enum tmk_status put_constant(struct tmk_graph *graph, struct tmk_value *value,
                                    struct tmk_tensor *made, struct tmk_diag *diag) {
    struct tmk_value *constant;
    enum tmk_status status = tmk_graph_add_initializer(graph, value->name, made, &constant, diag);
    tmk_tensor_finish(made);
    TMK_TRY(status);
    TMK_TRY(tmk_value_replace(value, constant, NULL, false, diag));
    tmk_value_take_identity(constant, value);
    return TMK_OK;
}

static bool is_moved_constant(const struct tmk_value *value) {
    const struct tmk_node *node = value->producer;
    for (int depth = 0; depth < TMK_CODES_DEEPEST && moves(node) && are_constants(node, 1);
         depth++, node = node->inputs[0]->producer)
        if (constant_at(node, 0))
            return true;
    return false;
}

static bool quantizes_constant(const struct tmk_node *node) {
    return tmk_codes_is(node, "QuantizeLinear") && !node->outputs[0]->n_graph_outputs &&
           are_constants(node, 1) &&
           (constant_at(node, 0) || tmk_codes_are_constant(node->inputs[0]) ||
            is_moved_constant(node->inputs[0]));
}

/* And what it was computed from. */
static void drop_unread(struct tmk_value *value) {
    while (!value->n_uses && !value->n_graph_outputs &&
           (moves(value->producer) || tmk_codes_is(value->producer, "DequantizeLinear"))) {
        struct tmk_node *node = value->producer;
        value = node->inputs[0];
        tmk_node_remove(node);
    }
    tmk_graph_drop_if_unused(value);
}

enum tmk_status tmk_codes_fold(struct tmk_graph *graph, bool drop, struct tmk_diag *diag) {
    for (struct tmk_node *node = graph->first, *next; node; node = next) {
        struct tmk_tensor codes = {0};
        next = node->next;
        if (!quantizes_constant(node))
            continue;
        TMK_TRY(compute(node->outputs[0], graph->arena, &codes, diag));
        TMK_TRY(put_constant(graph, node->outputs[0], &codes, diag));
        struct tmk_value *from = node->inputs[0];
        tmk_node_remove(node);
        if (drop)
            drop_unread(from);
    }
    return TMK_OK;
}

/* Codes of 32 bits are those of a bias, which has an encoding with its product alone. */
static bool is_wanted(const struct tmk_node *node, uint32_t at, bool has_encoding) {
    const struct tmk_value *value = node->inputs[at];
    return value && value->graph == node->graph && !value->n_graph_outputs &&
           value->profile_id >= 0 && tmk_codes_are_constant(value) &&
           (has_encoding || constant_at(tmk_codes_origin(value), 0)->dtype == TMK_INT32);
}

enum tmk_status tmk_codes_to_constants(struct tmk_graph *graph,
                                       const struct tmk_encodings *encodings,
                                       struct tmk_ptrmap *kept, struct tmk_diag *diag) {
    TMK_TRY(tmk_codes_fold(graph, true, diag));
    for (struct tmk_node *node = graph->first; node; node = node->next)
        for (uint32_t i = 0; i < node->n_inputs && !moves(node); i++) {
            const bool has_encoding = tmk_export_encoding(encodings, node, i) != NULL;
            struct tmk_tensor real = {0};
            if (!is_wanted(node, i, has_encoding))
                continue;
            struct tmk_encoding *e = tmk_arena_alloc(graph->arena, sizeof *e);
            TMK_TRY_ALLOC(e, diag);
            TMK_TRY(tmk_codes_encoding(node->inputs[i], graph->arena, e, diag));
            struct tmk_value *value = node->inputs[i];
            TMK_TRY(compute(value, graph->arena, &real, diag));
            TMK_TRY(put_constant(graph, value, &real, diag));
            drop_unread(value);
            if (has_encoding && e->n && !tmk_ptrmap_put(kept, node->inputs[i], e))
                return tmk_nomem(diag);
        }
    return TMK_OK;
}
