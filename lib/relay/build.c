/* SPDX-License-Identifier: Apache-2.0 */
/* Making nodes, constants and types for Relay's operators. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "relay/lower.h"

enum { MAX_NODES = 4 << 20 }; /* functions may be inlined so often */

static const char tidemark_prefix[] = TMK_DOMAIN_TIDEMARK "::";

/* ---- texts and names ---- */

const char *tmk_rl_unique(struct tmk_relay_lowering *l, const char *want) {
    const char *name = tmk_rl_text(l, "%s", want);
    for (uint32_t i = 2; name && tmk_map_get(&l->names, name); i++)
        name = tmk_rl_text(l, "%s~%u", want, i);
    return name && tmk_map_put(&l->names, name, l) ? name : NULL;
}

enum tmk_status tmk_rl_result_names(struct tmk_relay_lowering *l, const char *name, bool tuple,
                                    uint32_t n, const char **names) {
    for (uint32_t i = 0; i < n; i++) {
        const char *want = tuple ? tmk_rl_text(l, "%s.%u", name, i) : name;
        names[i] = want ? tmk_rl_unique(l, want) : NULL;
        TMK_TRY_ALLOC(names[i], l->diag);
    }
    return TMK_OK;
}

/* ---- types ---- */

static enum tmk_dtype widen_dtype(enum tmk_dtype dtype) {
    return dtype == TMK_FLOAT16 || dtype == TMK_BFLOAT16 || dtype == TMK_FLOAT64 ? TMK_FLOAT32
                                                                                 : dtype;
}

enum tmk_status tmk_rl_type(const struct tmk_relay_type *from, struct tmk_type *out,
                            struct tmk_diag *diag) {
    struct tmk_type type = {0};
    size_t count;
    if (!from || from->kind != TMK_RELAY_TENSOR) {
        *out = type;
        return TMK_OK;
    }
    if (from->n > TMK_MAX_RANK)
        return tmk_fail(diag, TMK_UNSUPPORTED, "a tensor of rank %u; at most %d", from->n,
                        TMK_MAX_RANK);
    type.origin = tmk_relay_dtype(from->dtype);
    if (!type.origin)
        return tmk_fail(diag, TMK_UNSUPPORTED, "tensors of type '%s' are not supported",
                        from->dtype);
    type.dtype = widen_dtype(type.origin);
    type.has_shape = true;
    type.shape.rank = (int32_t)from->n;
    bool whole = true;
    for (uint32_t i = 0; i < from->n; i++) {
        type.shape.dim[i] = from->dims[i];
        whole &= from->dims[i] >= 0;
    }
    if (whole && !tmk_shape_count(&type.shape, &count))
        return tmk_fail(diag, TMK_RANGE, "a tensor with too many elements");
    *out = type;
    return TMK_OK;
}

/* An operand with sizes for its free dimensions; false: not even its rank is known. */
static bool assume_shape(const struct tmk_value *value, int64_t size, bool *guessed,
                         struct tmk_tensor *out) {
    size_t count;
    *out = (struct tmk_tensor){.dtype = value->type.dtype, .shape = value->type.shape};
    out->data = value->kind == TMK_VALUE_INITIALIZER ? value->data.data : NULL;
    for (int32_t i = 0; i < out->shape.rank; i++)
        if (out->shape.dim[i] < 0) {
            out->shape.dim[i] = size;
            *guessed = true;
        }
    return value->type.dtype && value->type.has_shape && tmk_shape_count(&out->shape, &count);
}

struct inferring {
    struct tmk_node *node;
    struct tmk_tensor *tensors;
    const struct tmk_tensor **in;
    struct tmk_infer_result *out[2]; /* by size */
    bool guessed;
};

/* *known: false where an operand is not, or where the operator refuses a size that was made up. */
static enum tmk_status infer_with(struct inferring *i, int64_t size, struct tmk_infer_result *out,
                                  bool *known, struct tmk_diag *diag) {
    *known = true;
    for (uint32_t k = 0; k < i->node->n_inputs; k++) {
        const struct tmk_value *value = i->node->inputs[k];
        i->in[k] = value ? &i->tensors[k] : NULL;
        if (value)
            *known &= assume_shape(value, size, &i->guessed, &i->tensors[k]);
    }
    if (!*known)
        return TMK_OK;
    const enum tmk_status status = tmk_op_infer(i->node, i->in, out, i->guessed ? NULL : diag);
    *known = status == TMK_OK;
    return i->guessed ? TMK_OK : status;
}

/* A dimension that hangs on the size is free. */
static enum tmk_status set_types(const struct inferring *i, struct tmk_diag *diag) {
    for (uint32_t k = 0; k < i->node->n_outputs; k++) {
        const struct tmk_infer_result *a = &i->out[0][k], *b = &i->out[i->guessed][k];
        if (!i->node->outputs[k] || !a->known || !b->known || a->dtype != b->dtype ||
            a->shape.rank != b->shape.rank)
            continue;
        struct tmk_type type = {
            .dtype = a->dtype, .origin = a->dtype, .has_shape = true, .shape = a->shape};
        for (int32_t d = 0; d < type.shape.rank; d++)
            if (a->shape.dim[d] != b->shape.dim[d])
                type.shape.dim[d] = -1;
        TMK_TRY(tmk_value_set_type(i->node->outputs[k], &type, diag));
    }
    return TMK_OK;
}

/* Types of the node's results, as far as those of its operands are known. */
static enum tmk_status infer_types(struct tmk_node *node, struct tmk_diag *diag) {
    struct inferring i = {.node = node};
    bool known = false;
    i.tensors = calloc(node->n_inputs + 1u, sizeof *i.tensors);
    i.in = calloc(node->n_inputs + 1u, sizeof(struct tmk_tensor *));
    i.out[0] = calloc(2u * node->n_outputs + 1u, sizeof *i.out[0]);
    enum tmk_status status = i.tensors && i.in && i.out[0] ? TMK_OK : tmk_nomem(diag);
    if (status == TMK_OK) {
        i.out[1] = i.out[0] + node->n_outputs;
        status = infer_with(&i, 64, i.out[0], &known, diag);
    }
    if (status == TMK_OK && known && i.guessed)
        status = infer_with(&i, 96, i.out[1], &known, diag);
    if (status == TMK_OK && known)
        status = set_types(&i, diag);
    free(i.tensors);
    free(i.in);
    free(i.out[0]);
    return status;
}

enum tmk_status tmk_rl_initializer(struct tmk_relay_lowering *l, const char *name,
                                   const struct tmk_tensor *data, struct tmk_value **out) {
    struct tmk_tensor wide;
    TMK_TRY(tmk_tensor_widen(data, &wide, l->diag));
    enum tmk_status status = tmk_graph_add_initializer(l->root, name, &wide, out, l->diag);
    tmk_tensor_finish(&wide);
    return status;
}

/* ---- failures ---- */

void *tmk_rl_fail(struct tmk_relay_call *call, enum tmk_status status, const char *fmt, ...) {
    if (call->status == TMK_OK) {
        char text[512];
        va_list args;
        va_start(args, fmt);
        vsnprintf(text, sizeof text, fmt, args);
        va_end(args);
        call->status = tmk_fail(call->to->diag, status, "%s", text);
    }
    return NULL;
}

void *tmk_rl_nomem(struct tmk_relay_call *call) {
    if (call->status == TMK_OK)
        call->status = tmk_nomem(call->to->diag);
    return NULL;
}

/* ---- nodes ---- */

static struct tmk_attr *next_attr(struct tmk_relay_call *call, const char *name) {
    struct tmk_attr *attr = &call->pending[call->n_pending++];
    *attr = (struct tmk_attr){.name = name};
    return attr;
}

void tmk_rl_set_int(struct tmk_relay_call *call, const char *name, int64_t value) {
    *next_attr(call, name) = tmk_attr_int(name, value);
}

void tmk_rl_set_ints(struct tmk_relay_call *call, const char *name, const int64_t *values,
                     size_t n) {
    struct tmk_attr *attr = next_attr(call, name);
    int64_t *copy = tmk_arena_array(&call->to->scratch, n ? n : 1, sizeof *copy);
    if (!copy) {
        tmk_rl_nomem(call);
        n = 0;
    }
    for (size_t i = 0; i < n; i++)
        copy[i] = values[i];
    attr->kind = TMK_ATTR_INTS;
    attr->ints = copy;
    attr->n = n;
}

void tmk_rl_set_float(struct tmk_relay_call *call, const char *name, double value) {
    struct tmk_attr *attr = next_attr(call, name);
    attr->kind = TMK_ATTR_FLOAT;
    attr->f = (float)value;
}

void tmk_rl_set_text(struct tmk_relay_call *call, const char *name, const char *value) {
    *next_attr(call, name) = tmk_attr_text(name, value);
}

static const char *part_name(struct tmk_relay_call *call, const char *part) {
    const char *want =
        part ? tmk_rl_text(call->to, *part == '.' ? "%s%s" : "%s/%s", call->name, part)
             : call->name;
    return want ? tmk_rl_unique(call->to, want) : NULL;
}

static enum tmk_status add_node(struct tmk_relay_call *call, const char *op,
                                struct tmk_value *const *in, uint32_t n_in,
                                const char *const *names, uint32_t n_out, const char *label,
                                struct tmk_node **out) {
    struct tmk_relay_lowering *l = call->to;
    size_t prefix = sizeof tidemark_prefix - 1;
    bool own = strncmp(op, tidemark_prefix, prefix) == 0;
    const char *domain = own ? TMK_DOMAIN_TIDEMARK : TMK_DOMAIN_ONNX;
    struct tmk_node *node = NULL;
    if (++l->n_nodes > MAX_NODES)
        return tmk_fail(l->diag, TMK_UNSUPPORTED,
                        "functions call each other so often that the graph without them is too "
                        "large");
    if (own && !tmk_graph_opset(l->root, domain))
        TMK_TRY(tmk_graph_set_opset(l->root, domain, 1, l->diag));
    op += own ? prefix : 0;
    TMK_TRY(tmk_graph_add_node(l->graph, NULL,
                               &(struct tmk_node_spec){domain, op, label,
                                                       tmk_graph_opset(l->root, domain), in, n_in,
                                                       names, n_out},
                               &node, l->diag));
    for (uint32_t i = 0; i < call->n_pending; i++)
        TMK_TRY(tmk_node_set_attr(node, &call->pending[i], l->diag));
    node->row = tmk_op_find(domain, op, node->version);
    if (!node->row)
        return tmk_fail(l->diag, TMK_UNSUPPORTED, "needs the operator %s, which there is not", op);
    TMK_TRY(infer_types(node, l->diag));
    *out = node;
    return TMK_OK;
}

struct tmk_value *tmk_rl_n(struct tmk_relay_call *call, const char *part, const char *op,
                           struct tmk_value *const *in, uint32_t n) {
    struct tmk_node *node = NULL;
    if (call->status != TMK_OK)
        return NULL;
    const char *name = part_name(call, part);
    const char *label = name ? tmk_rl_text(call->to, "%s %s", call->op->name, name) : NULL;
    if (!label)
        return tmk_rl_nomem(call);
    call->status = add_node(call, op, in, n, &name, 1, label, &node);
    call->n_pending = 0;
    return node ? node->outputs[0] : NULL;
}

struct tmk_value *tmk_rl_1(struct tmk_relay_call *call, const char *part, const char *op,
                           struct tmk_value *a) {
    return tmk_rl_n(call, part, op, (struct tmk_value *[]){a}, 1);
}

struct tmk_value *tmk_rl_2(struct tmk_relay_call *call, const char *part, const char *op,
                           struct tmk_value *a, struct tmk_value *b) {
    return tmk_rl_n(call, part, op, (struct tmk_value *[]){a, b}, b ? 2 : 1);
}

struct tmk_value *tmk_rl_3(struct tmk_relay_call *call, const char *part, const char *op,
                           struct tmk_value *a, struct tmk_value *b, struct tmk_value *c) {
    return tmk_rl_n(call, part, op, (struct tmk_value *[]){a, b, c}, c ? 3 : b ? 2 : 1);
}

struct tmk_value *tmk_rl_tuple(struct tmk_relay_call *call, struct tmk_value *const *values,
                               uint32_t n) {
    if (call->status != TMK_OK)
        return NULL;
    struct tmk_relay_item *items = tmk_arena_array(&call->to->scratch, n + 1, sizeof *items);
    if (!items)
        return tmk_rl_nomem(call);
    for (uint32_t i = 0; i < n; i++) {
        items[i].value = values[i];
        size_t len = strlen(call->name);
        bool ours = values[i] && strncmp(values[i]->name, call->name, len) == 0 &&
                    values[i]->name[len] == '.';
        if (ours && !tmk_ptrmap_put(&call->to->parts, values[i], values[i]))
            return tmk_rl_nomem(call);
    }
    call->result = (struct tmk_relay_item){.items = items, .n = n};
    return NULL;
}

void tmk_rl_outputs(struct tmk_relay_call *call, const char *op, struct tmk_value *const *in,
                    uint32_t n_in, uint32_t n_out) {
    struct tmk_node *node = NULL;
    if (call->status != TMK_OK)
        return;
    if (n_out < 1 || n_out > TMK_MAX_OUTPUTS) {
        tmk_rl_fail(call, TMK_UNSUPPORTED, "has %u results; at most %d", n_out, TMK_MAX_OUTPUTS);
        return;
    }
    const char *names[TMK_MAX_OUTPUTS],
        *label = tmk_rl_text(call->to, "%s %s", call->op->name, call->name);
    if (!label) {
        tmk_rl_nomem(call);
        return;
    }
    call->status = tmk_rl_result_names(call->to, call->name, true, n_out, names);
    if (call->status == TMK_OK)
        call->status = add_node(call, op, in, n_in, names, n_out, label, &node);
    call->n_pending = 0;
    if (node && call->status == TMK_OK)
        tmk_rl_tuple(call, node->outputs, n_out);
}

/* ---- constants ---- */

static struct tmk_value *add_constant(struct tmk_relay_call *call, const char *part,
                                      struct tmk_tensor *tensor) {
    struct tmk_value *value = NULL;
    const char *name = part_name(call, part);
    if (name)
        call->status = tmk_rl_initializer(call->to, name, tensor, &value);
    else
        tmk_rl_nomem(call);
    tmk_tensor_finish(tensor);
    return value;
}

struct tmk_value *tmk_rl_list(struct tmk_relay_call *call, const char *part, const int64_t *values,
                              size_t n) {
    struct tmk_tensor tensor;
    struct tmk_shape shape = {1, {(int64_t)n}};
    if (call->status != TMK_OK)
        return NULL;
    call->status = tmk_tensor_init(&tensor, TMK_INT64, &shape, call->to->diag);
    if (call->status != TMK_OK)
        return NULL;
    for (size_t i = 0; i < n; i++)
        ((int64_t *)tensor.data)[i] = values[i];
    return add_constant(call, part, &tensor);
}

bool tmk_rl_is_code(enum tmk_dtype dtype) {
    return dtype == TMK_INT8 || dtype == TMK_UINT8 || dtype == TMK_INT16 || dtype == TMK_UINT16 ||
           dtype == TMK_INT32;
}

bool tmk_rl_limits(enum tmk_dtype dtype, double *low, double *high) {
    const unsigned bits = tmk_dtype_bits(dtype);
    const bool is_signed = tmk_dtype_name(dtype)[0] == 'i';
    if (dtype != TMK_BOOL && (!tmk_dtype_is_integer(dtype) || bits < 8))
        return false;
    const double end = dtype == TMK_BOOL ? 2 : ldexp(1, (int)bits - is_signed);
    *low = is_signed ? -end : 0;
    *high = bits == 64 ? nextafter(end, 0) : end - 1;
    return true;
}

struct tmk_value *tmk_rl_array(struct tmk_relay_call *call, const char *part, enum tmk_dtype dtype,
                               const struct tmk_shape *shape, const double *values) {
    struct tmk_tensor tensor;
    double low = 0, high = 0;
    if (call->status != TMK_OK)
        return NULL;
    dtype = widen_dtype(dtype);
    bool integer = tmk_rl_limits(dtype, &low, &high);
    if (!integer && dtype != TMK_FLOAT32)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "constants of type %s are not supported",
                           tmk_dtype_name(dtype));
    call->status = tmk_tensor_init(&tensor, dtype, shape, call->to->diag);
    if (call->status != TMK_OK)
        return NULL;
    const size_t size = tmk_dtype_size(dtype);
    for (size_t i = 0, n = tmk_tensor_count(&tensor); i < n; i++) {
        double v = values[i];
        if (integer) /* towards zero, into the type's range; NaN is 0 */
            v = isnan(v) ? 0 : v < low ? low : v > high ? high : trunc(v);
        const float real = (float)v;
        const uint64_t whole = !integer ? 0 : v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
        /* the low bytes: machines here are little-endian */
        memcpy((char *)tensor.data + i * size, integer ? (const void *)&whole : &real, size);
    }
    return add_constant(call, part, &tensor);
}

struct tmk_value *tmk_rl_scalar(struct tmk_relay_call *call, const char *part, enum tmk_dtype dtype,
                                double value) {
    struct tmk_shape scalar = {0};
    return tmk_rl_array(call, part, dtype, &scalar, &value);
}

/* ---- formulas ---- */

struct tmk_value *tmk_rl_same(struct tmk_relay_call *call) {
    struct tmk_value *in[TMK_MAX_INPUTS];
    if (call->n_args > TMK_MAX_INPUTS)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "has %u operands", call->n_args);
    for (uint32_t i = 0; i < call->n_args; i++)
        in[i] = tmk_rl_in(call, i);
    for (const struct tmk_relay_same_attr *a = call->op->same_attrs; a && a->name; a++) {
        const char *onnx = a->onnx ? a->onnx : a->name;
        if (a->write_only)
            continue;
        else if (a->kind == TMK_RELAY_INT)
            tmk_rl_set_int(call, onnx, tmk_rl_int(call, a->name));
        else if (a->kind == TMK_RELAY_REAL)
            tmk_rl_set_float(call, onnx, tmk_rl_real(call, a->name));
        else
            tmk_rl_set_text(call, onnx, tmk_rl_string(call, a->name));
    }
    return tmk_rl_n(call, NULL, call->op->onnx, in, call->n_args);
}

struct tmk_value *tmk_rl_cast(struct tmk_relay_call *call, const char *part, struct tmk_value *v,
                              enum tmk_dtype to) {
    if (part && tmk_rl_type_of(call, v) == widen_dtype(to))
        return v;
    tmk_rl_set_int(call, "to", widen_dtype(to));
    return tmk_rl_1(call, part, "Cast", v);
}

struct tmk_value *tmk_rl_transpose(struct tmk_relay_call *call, const char *part,
                                   struct tmk_value *v, const int64_t *perm, int32_t n) {
    bool moves = false;
    for (int32_t i = 0; i < n; i++)
        moves |= perm[i] != i;
    if (part && !moves)
        return v;
    tmk_rl_set_ints(call, "perm", perm, (size_t)n);
    return tmk_rl_1(call, part, "Transpose", v);
}

struct tmk_value *tmk_rl_reshape(struct tmk_relay_call *call, const char *part, struct tmk_value *v,
                                 const int64_t *dims, size_t n) {
    return tmk_rl_2(
        call, part, "Reshape", v,
        tmk_rl_list(call, part ? tmk_rl_text(call->to, "%s_shape", part) : "shape", dims, n));
}

struct tmk_value *tmk_rl_along(struct tmk_relay_call *call, const char *part, struct tmk_value *v,
                               int32_t axis, int32_t rank) {
    int64_t axes[TMK_MAX_RANK];
    int32_t behind = rank - 1 - axis;
    if (tmk_rl_rank(call, v) != 1 || behind <= 0)
        return v;
    for (int32_t i = 0; i < behind; i++)
        axes[i] = i + 1;
    return tmk_rl_2(
        call, part, "Unsqueeze", v,
        tmk_rl_list(call, tmk_rl_text(call->to, "%s_axes", part), axes, (size_t)behind));
}

struct tmk_value *tmk_rl_clip(struct tmk_relay_call *call, const char *part, struct tmk_value *v,
                              double low, double high) {
    enum tmk_dtype dtype = tmk_rl_type_of(call, v);
    const char *prefix = part ? tmk_rl_text(call->to, "%s_", part) : "";
    struct tmk_value *max =
        tmk_rl_scalar(call, tmk_rl_text(call->to, "%smax", prefix ? prefix : ""), dtype, high);
    struct tmk_value *min =
        tmk_rl_scalar(call, tmk_rl_text(call->to, "%smin", prefix ? prefix : ""), dtype, low);
    return tmk_rl_3(call, part, "Clip", v, min, max);
}
