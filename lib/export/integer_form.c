/* SPDX-License-Identifier: Apache-2.0 */
/* Values: their codes, and their float numbers where a node reads those. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "base/text.h"
#include "export/exporter.h"
#include "export/integer.h"
#include "export/qdq.h"
#include "graph/rewrite.h"

/* ---- encodings ---- */

const struct tmk_encoding *tmk_integer_encoding(const struct tmk_integer *g,
                                                const struct tmk_value *value,
                                                const struct tmk_node *node, uint32_t input) {
    if (!value || value->profile_id < 0 || value->graph != g->graph)
        return NULL;
    const struct tmk_encoding *own =
        node ? tmk_export_encoding(g->encodings, node, input)
             : tmk_encodings_find(g->encodings, (uint32_t)value->profile_id, NULL, 0);
    const struct tmk_form *form = tmk_ptrmap_get(&g->forms, value);
    /* A bias that is computed: only the product that adds it gives it a scale. */
    if (own && own->dtype == TMK_INT32 && value->kind != TMK_VALUE_INITIALIZER)
        return NULL;
    own = tmk_integer_override(g, value, node, own);
    return own || !form || !form->gone || !form->codes || form->real ? own : form->codes->encoding;
}

static uint32_t bits_of(enum tmk_dtype dtype) {
    return tmk_dtype_is_integer(dtype) ? tmk_dtype_bits(dtype) : 0;
}

enum tmk_dtype tmk_integer_carrier(const struct tmk_encoding *encoding) {
    return encoding->dtype == TMK_INT4    ? TMK_INT8
           : encoding->dtype == TMK_UINT4 ? TMK_UINT8
           : bits_of(encoding->dtype)     ? encoding->dtype
                                          : TMK_UNDEFINED;
}

const struct tmk_encoding *tmk_integer_plain(struct tmk_integer *g, const struct tmk_value *value,
                                             const struct tmk_node *node, uint32_t input,
                                             uint32_t bits, const char *what) {
    const struct tmk_encoding *e = tmk_integer_encoding(g, value, node, input);
    enum tmk_status stays = TMK_OK;
    if (!e)
        stays = tmk_integer_stays(g, "%s has no encoding", what);
    else if (!bits_of(e->dtype) || bits_of(e->dtype) > bits)
        stays = tmk_integer_stays(g, "%s is %s", what, tmk_dtype_name(e->dtype));
    else if (e->n != 1 || e->block)
        stays = tmk_integer_stays(g, "%s has a scale a %s", what, e->block ? "block" : "channel");
    else
        return e;
    (void)stays;
    return NULL;
}

bool tmk_integer_same_grid(const struct tmk_encoding *a, const struct tmk_encoding *b) {
    if (a == b)
        return true;
    bool same = a->dtype == b->dtype && a->narrow == b->narrow && a->n == b->n &&
                (a->n == 1 || a->axis == b->axis) && a->block == b->block;
    for (uint32_t i = 0; same && i < a->n; i++)
        same = a->scale[i] == b->scale[i] && a->zero_point[i] == b->zero_point[i];
    return same;
}

/* ---- forms ---- */

static struct tmk_form *form_of(struct tmk_integer *g, struct tmk_value *value) {
    struct tmk_form *form = tmk_ptrmap_get(&g->forms, value);
    if (form)
        return form;
    form = tmk_arena_alloc(&g->arena, sizeof *form);
    return form && tmk_ptrmap_put(&g->forms, value, form) ? form : NULL;
}

static enum tmk_status add_codes(struct tmk_integer *g, struct tmk_form *form,
                                 struct tmk_value *codes, const struct tmk_encoding *encoding,
                                 struct tmk_codes **out) {
    struct tmk_codes *made = tmk_arena_alloc(&g->arena, sizeof *made);
    TMK_TRY_ALLOC(made, g->diag);
    made->value = codes;
    made->encoding = encoding;
    struct tmk_codes **end = &form->codes;
    while (*end)
        end = &(*end)->next;
    *end = made;
    *out = made;
    return TMK_OK;
}

static enum tmk_status constant_codes(struct tmk_integer *g, const struct tmk_value *value,
                                      const struct tmk_tensor *real,
                                      const struct tmk_encoding *encoding, struct tmk_value **out) {
    struct tmk_tensor codes = {0};
    char name[256];
    if (encoding->n > 1 && !encoding->block &&
        (encoding->axis < 0 || encoding->axis >= real->shape.rank ||
         real->shape.dim[encoding->axis] != (int64_t)encoding->n))
        return tmk_fail(g->diag, TMK_MISMATCH,
                        "p%u '%s' has %u scales along axis %d, which do not "
                        "fit it",
                        encoding->id, encoding->name, encoding->n, encoding->axis);
    TMK_TRY(tmk_quantize_goes_on(g->options, g->diag));
    TMK_TRY(encoding->dtype == TMK_INT32
                ? tmk_qdq_bias_codes(real, 1, encoding->scale, encoding->n, &codes, g->diag)
                : tmk_qdq_codes(real, encoding, encoding->scale, &codes, g->diag));
    codes.dtype = codes.origin = tmk_integer_carrier(encoding);
    snprintf(name, sizeof name, "%s_quantized", value->name);
    enum tmk_status status = tmk_graph_add_initializer(g->graph, name, &codes, out, g->diag);
    tmk_tensor_finish(&codes);
    return status;
}

/* From float numbers, as the graph runs. */
static enum tmk_status quantize_value(struct tmk_integer *g, struct tmk_value *real,
                                      const char *name, const struct tmk_encoding *encoding,
                                      struct tmk_value **out) {
    const enum tmk_dtype dtype = tmk_integer_carrier(encoding);
    struct tmk_value *inputs[3] = {real};
    struct tmk_node *node = NULL;
    int32_t lowest, highest, least, most;
    TMK_TRY(tmk_integer_floats(g, encoding->n, encoding->scale, name, "_scale", &inputs[1]));
    TMK_TRY(tmk_integer_zero(g, encoding, name, &inputs[2]));
    TMK_TRY(tmk_integer_node(g, TMK_DOMAIN_ONNX, "QuantizeLinear", 21, inputs, 3, name,
                             "_quantized", &node));
    if (encoding->n > 1)
        TMK_TRY(tmk_node_set_int(node, "axis", encoding->axis, g->diag));
    tmk_encoding_codes(encoding, &lowest, &highest);
    const struct tmk_encoding whole = {.dtype = dtype};
    tmk_encoding_codes(&whole, &least, &most);
    *out = node->outputs[0];
    if (lowest == least && highest == most)
        return TMK_OK;
    struct tmk_value *bounds[3] = {*out};
    TMK_TRY(tmk_integer_constant(g, dtype, NULL, &lowest, name, "_lowest", &bounds[1]));
    TMK_TRY(tmk_integer_constant(g, dtype, NULL, &highest, name, "_highest", &bounds[2]));
    TMK_TRY(tmk_integer_node(g, TMK_DOMAIN_ONNX, "Clip", 13, bounds, 3, name, "_clamped", &node));
    *out = node->outputs[0];
    return TMK_OK;
}

/* From codes under another encoding, of one scale each. */
static enum tmk_status requantize_codes(struct tmk_integer *g, const struct tmk_codes *from,
                                        const char *name, const struct tmk_encoding *to,
                                        struct tmk_value **out) {
    const double real = (double)from->encoding->scale[0] / (double)to->scale[0];
    struct tmk_rescale rescale = {.n = 1, .real = &real};
    int32_t lowest, highest;
    tmk_encoding_codes(to, &lowest, &highest);
    TMK_TRY(tmk_integer_zero(g, from->encoding, name, &rescale.x_zero));
    return tmk_integer_requantize(g, from->value, &rescale, to, lowest, highest, name,
                                  "_requantized", out);
}

/* Of a constant, for readers of float: no product of integers has several scales in one sum. */
static enum tmk_status dequantize_blocks(struct tmk_integer *g, struct tmk_codes *codes,
                                         const char *label) {
    const struct tmk_encoding *e = codes->encoding;
    struct tmk_value *inputs[3] = {codes->value};
    struct tmk_shape shape = codes->value->data.shape;
    struct tmk_tensor scale = {0};
    struct tmk_node *node = NULL;
    char name[256];
    shape.dim[e->axis] = (shape.dim[e->axis] + e->block - 1) / e->block;
    TMK_TRY(tmk_tensor_init(&scale, TMK_FLOAT32, &shape, g->diag));
    memcpy(scale.data, e->scale, e->n * sizeof *e->scale);
    snprintf(name, sizeof name, "%s_scale", label);
    enum tmk_status status = tmk_graph_add_initializer(g->graph, name, &scale, &inputs[1], g->diag);
    tmk_tensor_finish(&scale);
    TMK_TRY(status);
    TMK_TRY(tmk_integer_constant(g, tmk_integer_carrier(e), &shape, e->zero_point, label,
                                 "_zero_point", &inputs[2]));
    TMK_TRY(tmk_integer_node(g, TMK_DOMAIN_ONNX, "DequantizeLinear", 21, inputs, 3, label,
                             "_dequantized", &node));
    TMK_TRY(tmk_node_set_int(node, "axis", e->axis, g->diag));
    codes->real = node->outputs[0];
    return tmk_node_set_int(node, "block_size", e->block, g->diag);
}

static enum tmk_status dequantize_codes(struct tmk_integer *g, struct tmk_codes *codes,
                                        const char *name, struct tmk_value **out) {
    const struct tmk_encoding *e = codes->encoding;
    struct tmk_value *zero = NULL;
    if (!codes->real && e->block) {
        TMK_TRY(dequantize_blocks(g, codes, name));
    } else if (!codes->real) {
        TMK_TRY(tmk_integer_zero(g, e, name, &zero));
        TMK_TRY(tmk_integer_dequantize(g, codes->value, e->n, e->scale, e->axis, zero, name,
                                       &codes->real));
    }
    *out = codes->real;
    return TMK_OK;
}

static enum tmk_status find_codes(struct tmk_integer *g, struct tmk_value *value,
                                  const struct tmk_encoding *encoding, struct tmk_codes **out) {
    struct tmk_form *form = form_of(g, value);
    const struct tmk_tensor *real = tmk_value_constant(value);
    struct tmk_value *made = NULL, *from = value;
    TMK_TRY_ALLOC(form, g->diag);
    struct tmk_codes *first = form->codes;
    for (struct tmk_codes *codes = first; codes; codes = codes->next)
        if (tmk_integer_same_grid(codes->encoding, encoding)) {
            *out = codes;
            return TMK_OK;
        }
    if (real && real->dtype == TMK_FLOAT32) {
        TMK_TRY(constant_codes(g, value, real, encoding, &made));
    } else if (encoding->block) {
        return tmk_fail(g->diag, TMK_MISMATCH,
                        "the encoding of '%s' has blocks, which only constants have", value->name);
    } else if (first && first->encoding->n == 1 && encoding->n == 1) {
        TMK_TRY(requantize_codes(g, first, value->name, encoding, &made));
    } else {
        if (first)
            TMK_TRY(dequantize_codes(g, first, value->name, &from));
        else if (form->real)
            from = form->real;
        TMK_TRY(quantize_value(g, from, value->name, encoding, &made));
    }
    return add_codes(g, form, made, encoding, out);
}

enum tmk_status tmk_integer_codes_of(struct tmk_integer *g, struct tmk_value *value,
                                     const struct tmk_encoding *encoding, struct tmk_value **out) {
    struct tmk_codes *codes = NULL;
    TMK_TRY(find_codes(g, value, encoding, &codes));
    *out = codes->value;
    return TMK_OK;
}

enum tmk_status tmk_integer_real_of(struct tmk_integer *g, struct tmk_value *value,
                                    const struct tmk_encoding *encoding, struct tmk_value **out) {
    struct tmk_codes *codes = NULL;
    TMK_TRY(find_codes(g, value, encoding, &codes));
    return dequantize_codes(g, codes, value->name, out);
}

enum tmk_status tmk_integer_made(struct tmk_integer *g, struct tmk_value *result,
                                 struct tmk_value *codes, const struct tmk_encoding *encoding) {
    struct tmk_form *form = form_of(g, result);
    struct tmk_codes *made = NULL;
    TMK_TRY_ALLOC(form, g->diag);
    return add_codes(g, form, codes, encoding, &made);
}

enum tmk_status tmk_integer_made_both(struct tmk_integer *g, struct tmk_value *real,
                                      struct tmk_value *codes,
                                      const struct tmk_encoding *encoding) {
    struct tmk_form *form = form_of(g, real);
    struct tmk_codes *made = NULL;
    TMK_TRY_ALLOC(form, g->diag);
    TMK_TRY(add_codes(g, form, codes, encoding, &made));
    made->real = real;
    return TMK_OK;
}

enum tmk_status tmk_integer_made_real(struct tmk_integer *g, struct tmk_value *result,
                                      struct tmk_value *real) {
    struct tmk_form *form = form_of(g, result);
    TMK_TRY_ALLOC(form, g->diag);
    form->real = real;
    return TMK_OK;
}

enum tmk_status tmk_integer_replaced(struct tmk_integer *g, struct tmk_node *node) {
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        struct tmk_form *form = node->outputs[i] ? form_of(g, node->outputs[i]) : NULL;
        if (node->outputs[i] && !form)
            return tmk_nomem(g->diag);
        if (form)
            form->gone = true;
    }
    return tmk_ptrmap_put(&g->rewritten, node, node) ? TMK_OK : tmk_nomem(g->diag);
}

enum tmk_status tmk_integer_stays(struct tmk_integer *g, const char *format, ...) {
    va_list args;
    va_start(args, format);
    tmk_vprint_cut(g->why, sizeof g->why, format, args);
    va_end(args);
    return TMK_OK;
}
