/* SPDX-License-Identifier: Apache-2.0 */
/* New nodes and initializers. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "export/integer.h"
#include "export/qdq.h"
#include "tensor/fixed.h"

enum { NAME = 256 };

/* Joins names; longer ones are cut. */
static const char *join_name(char out[NAME], const char *name, const char *suffix) {
    const int room = NAME - 1 - (int)strlen(suffix);
    snprintf(out, NAME, "%.*s%s", room, name, suffix);
    return out;
}

enum tmk_status tmk_integer_node(struct tmk_integer *g, const char *domain, const char *op,
                                 int64_t version, struct tmk_value *const *inputs,
                                 uint32_t n_inputs, const char *name, const char *suffix,
                                 struct tmk_node **out) {
    char text[NAME];
    const char *const outputs[] = {join_name(text, name, suffix)};
    TMK_TRY(tmk_graph_add_node(
        g->graph, g->at,
        &(struct tmk_node_spec){domain, op, text, version, inputs, n_inputs, outputs, 1}, out,
        g->diag));
    return tmk_ptrmap_put(&g->rewritten, *out, *out) ? TMK_OK : tmk_nomem(g->diag);
}

enum tmk_status tmk_integer_plain_node(struct tmk_integer *g, const char *op, int64_t version,
                                       struct tmk_value *a, struct tmk_value *b, const char *name,
                                       const char *suffix, struct tmk_value **out) {
    struct tmk_value *const inputs[] = {a, b};
    struct tmk_node *node = NULL;
    TMK_TRY(
        tmk_integer_node(g, TMK_DOMAIN_ONNX, op, version, inputs, b ? 2 : 1, name, suffix, &node));
    *out = node->outputs[0];
    return TMK_OK;
}

enum tmk_status tmk_integer_set_int(struct tmk_integer *g, struct tmk_node *node, const char *name,
                                    int64_t value) {
    const struct tmk_attr attr = {.name = name, .kind = TMK_ATTR_INT, .i = value};
    return tmk_node_set_attr(node, &attr, g->diag);
}

enum tmk_status tmk_integer_set_ints(struct tmk_integer *g, struct tmk_node *node, const char *name,
                                     const int64_t *values, size_t n) {
    const struct tmk_attr attr = {.name = name, .kind = TMK_ATTR_INTS, .n = n, .ints = values};
    return tmk_node_set_attr(node, &attr, g->diag);
}

/* ---- initializers ---- */

static enum tmk_status add_initializer(struct tmk_integer *g, struct tmk_tensor *tensor,
                                       const char *name, const char *suffix,
                                       struct tmk_value **out) {
    char text[NAME];
    enum tmk_status status =
        tmk_graph_add_initializer(g->graph, join_name(text, name, suffix), tensor, out, g->diag);
    tmk_tensor_finish(tensor);
    return status;
}

enum tmk_status tmk_integer_constant(struct tmk_integer *g, enum tmk_dtype dtype,
                                     const struct tmk_shape *shape, const int32_t *codes,
                                     const char *name, const char *suffix, struct tmk_value **out) {
    static const struct tmk_shape scalar;
    struct tmk_tensor tensor = {0};
    TMK_TRY(tmk_tensor_init(&tensor, dtype, shape ? shape : &scalar, g->diag));
    for (size_t i = 0; i < tmk_tensor_count(&tensor); i++)
        tmk_qdq_put(&tensor, i, codes[i]);
    return add_initializer(g, &tensor, name, suffix, out);
}

static struct tmk_shape line_shape(uint32_t n) {
    return (struct tmk_shape){.rank = n > 1, .dim = {n}};
}

enum tmk_status tmk_integer_floats(struct tmk_integer *g, uint32_t n, const float *values,
                                   const char *name, const char *suffix, struct tmk_value **out) {
    const struct tmk_shape shape = line_shape(n);
    struct tmk_tensor tensor = {0};
    TMK_TRY(tmk_tensor_init(&tensor, TMK_FLOAT32, &shape, g->diag));
    memcpy(tensor.data, values, n * sizeof *values);
    return add_initializer(g, &tensor, name, suffix, out);
}

enum tmk_status tmk_integer_zero(struct tmk_integer *g, const struct tmk_encoding *encoding,
                                 const char *name, struct tmk_value **out) {
    const struct tmk_shape shape = line_shape(encoding->n);
    return tmk_integer_constant(g, tmk_integer_carrier(encoding), &shape, encoding->zero_point,
                                name, "_zero_point", out);
}

/* ---- patterns ---- */

enum tmk_status tmk_integer_centred(struct tmk_integer *g, struct tmk_value *codes,
                                    const struct tmk_encoding *encoding, const char *name,
                                    struct tmk_value **out) {
    struct tmk_node *cast = NULL;
    struct tmk_value *zero = NULL;
    TMK_TRY(tmk_integer_node(g, TMK_DOMAIN_ONNX, "Cast", 13, &codes, 1, name, "_int32", &cast));
    TMK_TRY(tmk_integer_set_int(g, cast, "to", TMK_INT32));
    *out = cast->outputs[0];
    if (!encoding->zero_point[0])
        return TMK_OK;
    TMK_TRY(
        tmk_integer_constant(g, TMK_INT32, NULL, encoding->zero_point, name, "_zero_int32", &zero));
    return tmk_integer_plain_node(g, "Sub", 13, *out, zero, name, "_centred", out);
}

/* Multipliers, shifts and float numbers as inputs 1 to 3 of a Requantize. */
static enum tmk_status add_multipliers(struct tmk_integer *g, const struct tmk_rescale *rescale,
                                       const char *name, struct tmk_value **inputs) {
    const uint32_t n = rescale->n;
    const struct tmk_shape shape = line_shape(n);
    int32_t *q = tmk_arena_array(&g->arena, n, sizeof *q),
            *shift = tmk_arena_array(&g->arena, n, sizeof *shift);
    float *real = tmk_arena_array(&g->arena, n, sizeof *real);
    if (!q || !shift || !real)
        return tmk_nomem(g->diag);
    for (uint32_t i = 0; i < n; i++) {
        TMK_TRY(tmk_in(g->diag,
                       (g->options->pow2 ? tmk_fixed_from_real_pow2 : tmk_fixed_from_real)(
                           rescale->real[i], &q[i], &shift[i], g->diag),
                       "'%s'", name));
        real[i] = rescale->rne ? rescale->rne[i] : (float)rescale->real[i];
        if (g->options->pow2 && g->options->rounding == TMK_ROUNDING_FLOAT_RNE)
            real[i] = (float)tmk_fixed_to_real(q[i], shift[i]);
    }
    TMK_TRY(tmk_integer_constant(g, TMK_INT32, &shape, q, name, "_multiplier", &inputs[1]));
    TMK_TRY(tmk_integer_constant(g, TMK_INT32, &shape, shift, name, "_shift", &inputs[2]));
    return tmk_integer_floats(g, n, real, name, "_real_multiplier", &inputs[3]);
}

enum tmk_status tmk_integer_requantize(struct tmk_integer *g, struct tmk_value *x,
                                       const struct tmk_rescale *rescale,
                                       const struct tmk_encoding *to, int32_t lowest,
                                       int32_t highest, const char *name, const char *suffix,
                                       struct tmk_value **out) {
    static const int32_t none;
    const char *rounding = tmk_rounding_name(g->options->rounding);
    const struct tmk_attr attr = {
        .name = "rounding", .kind = TMK_ATTR_STRING, .n = strlen(rounding), .s = rounding};
    struct tmk_value *inputs[6] = {x, [5] = rescale->x_zero};
    struct tmk_node *node = NULL;
    TMK_TRY(add_multipliers(g, rescale, name, inputs));
    TMK_TRY(
        to ? tmk_integer_zero(g, to, name, &inputs[4])
           : tmk_integer_constant(g, TMK_INT32, NULL, &none, name, "_no_zero_point", &inputs[4]));
    TMK_TRY(tmk_integer_node(g, TMK_DOMAIN_TIDEMARK, TMK_OP_REQUANTIZE, 1, inputs,
                             rescale->x_zero ? 6 : 5, name, suffix, &node));
    TMK_TRY(tmk_node_set_attr(node, &attr, g->diag));
    if (rescale->n > 1 || (to && to->n > 1))
        TMK_TRY(tmk_integer_set_int(g, node, "axis", rescale->n > 1 ? rescale->axis : to->axis));
    if (to) {
        TMK_TRY(tmk_integer_set_int(g, node, "lowest", lowest));
        TMK_TRY(tmk_integer_set_int(g, node, "highest", highest));
    }
    *out = node->outputs[0];
    return TMK_OK;
}

enum tmk_status tmk_integer_dequantize(struct tmk_integer *g, struct tmk_value *x, uint32_t n,
                                       const float *scale, int32_t axis, struct tmk_value *zero,
                                       const char *name, const char *suffix,
                                       struct tmk_value **out) {
    struct tmk_value *inputs[3] = {x, NULL, zero};
    struct tmk_node *node = NULL;
    TMK_TRY(tmk_integer_floats(g, n, scale, name, "_scale", &inputs[1]));
    TMK_TRY(tmk_integer_node(g, TMK_DOMAIN_ONNX, "DequantizeLinear", 21, inputs, zero ? 3 : 2, name,
                             suffix, &node));
    if (n > 1)
        TMK_TRY(tmk_integer_set_int(g, node, "axis", axis));
    *out = node->outputs[0];
    return TMK_OK;
}
