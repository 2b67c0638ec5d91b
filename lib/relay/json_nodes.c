/* SPDX-License-Identifier: Apache-2.0 */
/* What the nodes of tvm.ir.save_json hold: names, types, attributes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "relay/json.h"
#include "relay/lower.h"

enum tmk_status tmk_relay_json_string(struct tmk_relay_json *from, const char *text,
                                      const char **out) {
    *out = tmk_arena_strdup(&from->nodes.in->module->arena, text);
    return *out ? TMK_OK : tmk_nomem(from->nodes.in->diag);
}

enum tmk_status tmk_relay_json_name(struct tmk_relay_json *from, const struct tmk_relay_node *node,
                                    const char *key, const char **out) {
    const char *text = tmk_relay_node_attr(node, key);
    const struct tmk_relay_node *named;
    if (text && tmk_relay_is_digits(text)) {
        TMK_TRY(tmk_relay_node(&from->nodes, strtoll(text, NULL, 10), &named));
        text = named->text;
    }
    return tmk_relay_json_string(from, text ? text : "", out);
}

enum tmk_status tmk_relay_json_span(struct tmk_relay_json *from, const struct tmk_relay_node *node,
                                    const char **out) {
    const struct tmk_relay_node *span;
    const char *source;
    const int64_t index = tmk_relay_node_ref(node, "span");
    if (!index)
        return TMK_OK;
    TMK_TRY(tmk_relay_node(&from->nodes, index, &span));
    TMK_TRY(tmk_relay_json_name(from, span, "source_name", &source));
    if (!source[0])
        return TMK_OK;
    *out = tmk_arena_printf(&from->nodes.in->module->arena, "%s:%" PRId64 ":%" PRId64, source,
                            tmk_relay_node_ref(span, "line"), tmk_relay_node_ref(span, "column"));
    return *out ? TMK_OK : tmk_nomem(from->nodes.in->diag);
}

/* ---- types ---- */

/* The types of a list, and one behind them (0: none). */
static enum tmk_status read_types(struct tmk_relay_json *from, int64_t list, int64_t last,
                                  struct tmk_relay_type *type) {
    struct tmk_relay_reader *in = from->nodes.in;
    const struct tmk_relay_node *node;
    TMK_TRY(tmk_relay_node(&from->nodes, list, &node));
    type->n = node->n_data + (last != 0);
    type->items = tmk_arena_array(&in->module->arena, type->n, sizeof(struct tmk_relay_type *));
    TMK_TRY_ALLOC(type->items, in->diag);
    for (uint32_t i = 0; i < type->n; i++) {
        TMK_TRY(tmk_relay_part(in));
        TMK_TRY(
            tmk_relay_json_type(from, i < node->n_data ? node->data[i] : last, &type->items[i]));
        if (!type->items[i])
            return tmk_relay_fail(in, tmk_relay_nodes_place(&from->nodes, from->nodes.json),
                                  "a tuple's or function's type lacks a part");
    }
    return TMK_OK;
}

static enum tmk_status read_tensor_type(struct tmk_relay_json *from,
                                        const struct tmk_relay_node *node,
                                        struct tmk_relay_type *type) {
    struct tmk_relay_reader *in = from->nodes.in;
    const char *dtype = tmk_relay_node_attr(node, "dtype");
    const struct tmk_relay_node *shape, *dim;
    TMK_TRY(tmk_relay_json_string(from, dtype ? dtype : "", &type->dtype));
    TMK_TRY(tmk_relay_node(&from->nodes, tmk_relay_node_ref(node, "shape"), &shape));
    int64_t *dims = tmk_arena_array(&in->module->arena, shape->n_data, sizeof *dims);
    TMK_TRY_ALLOC(dims, in->diag);
    for (uint32_t i = 0; i < shape->n_data; i++) {
        TMK_TRY(tmk_relay_part(in));
        TMK_TRY(tmk_relay_node(&from->nodes, shape->data[i], &dim));
        const char *value = tmk_relay_node_attr(dim, "value");
        dims[i] = value ? strtoll(value, NULL, 10) : -1;
        dims[i] = dims[i] < 0 ? -1 : dims[i];
    }
    type->dims = dims;
    type->n = shape->n_data;
    return TMK_OK;
}

static enum tmk_status read_type_node(struct tmk_relay_json *from,
                                      const struct tmk_relay_node *node,
                                      struct tmk_relay_type **out) {
    struct tmk_relay_type *type = tmk_arena_alloc(&from->nodes.in->module->arena, sizeof *type);
    TMK_TRY_ALLOC(type, from->nodes.in->diag);
    const char *key = node->type + (strncmp(node->type, "relay.", 6) ? 0 : 6);
    if (!strcmp(node->type, "relay.TensorType")) {
        TMK_TRY(read_tensor_type(from, node, type));
    } else if (!strcmp(key, "TupleType")) {
        type->kind = TMK_RELAY_TUPLE;
        TMK_TRY(read_types(from, tmk_relay_node_ref(node, "fields"), 0, type));
    } else if (!strcmp(key, "FuncType")) {
        type->kind = TMK_RELAY_FUNCTION;
        TMK_TRY(read_types(from, tmk_relay_node_ref(node, "arg_types"),
                           tmk_relay_node_ref(node, "ret_type"), type));
        type = type->n ? type : NULL;
    } else {
        type = NULL; /* not inferred yet, or none of tensors */
    }
    *out = type;
    return TMK_OK;
}

enum tmk_status tmk_relay_json_type(struct tmk_relay_json *from, int64_t index,
                                    struct tmk_relay_type **out) {
    const struct tmk_relay_node *node;
    *out = NULL;
    if (!index)
        return TMK_OK;
    TMK_TRY(tmk_relay_enter(from->nodes.in));
    TMK_TRY(tmk_relay_node(&from->nodes, index, &node));
    if (!from->types[index])
        TMK_TRY(read_type_node(from, node, &from->types[index]));
    *out = from->types[index];
    from->nodes.in->depth--;
    return TMK_OK;
}

/* ---- attributes ---- */

static enum tmk_status read_object(struct tmk_relay_json *from, int64_t index,
                                   struct tmk_relay_value *out);

static enum tmk_status read_objects(struct tmk_relay_json *from, const struct tmk_relay_node *list,
                                    struct tmk_relay_value *out) {
    struct tmk_relay_reader *in = from->nodes.in;
    out->kind = TMK_RELAY_LIST;
    out->n = list->n_data;
    out->items = tmk_arena_array(&in->module->arena, out->n, sizeof *out->items);
    TMK_TRY_ALLOC(out->items, in->diag);
    for (uint32_t i = 0; i < out->n; i++) {
        TMK_TRY(tmk_relay_part(in));
        TMK_TRY(read_object(from, list->data[i], &out->items[i]));
    }
    return TMK_OK;
}

/* An object as the value of an attribute. */
static enum tmk_status read_object(struct tmk_relay_json *from, int64_t index,
                                   struct tmk_relay_value *out) {
    const struct tmk_relay_node *node;
    TMK_TRY(tmk_relay_enter(from->nodes.in));
    TMK_TRY(tmk_relay_node(&from->nodes, index, &node));
    const char *value = tmk_relay_node_attr(node, "value"),
               *dtype = tmk_relay_node_attr(node, "dtype");
    if (!node->type[0]) {
        out->kind = TMK_RELAY_NONE;
    } else if (!strcmp(node->type, "Array")) {
        TMK_TRY(read_objects(from, node, out));
    } else if (!strcmp(node->type, "runtime.String")) {
        out->kind = TMK_RELAY_STRING;
        TMK_TRY(tmk_relay_json_string(from, node->text, &out->s));
    } else if (!strcmp(node->type, "IntImm")) {
        out->kind = dtype && !strcmp(dtype, "bool") ? TMK_RELAY_BOOL : TMK_RELAY_INT;
        out->i = value ? strtoll(value, NULL, 10) : 0;
    } else if (!strcmp(node->type, "FloatImm")) {
        out->kind = TMK_RELAY_REAL;
        out->real = value ? strtod(value, NULL) : 0;
    } else {
        return tmk_relay_node_fail(&from->nodes, index, "%s as an attribute is not read",
                                   node->type);
    }
    from->nodes.in->depth--;
    return TMK_OK;
}

/* Whether "3" is a number or the number of a node depends on the field's type in C++, which the
 * operator's row has. */
static enum tmk_status read_field(struct tmk_relay_json *from, const struct tmk_relay_op *op,
                                  const struct tmk_relay_member *field,
                                  struct tmk_relay_value *out) {
    const bool is_bool = tmk_relay_op_attr_is(op, field->name, TMK_RELAY_BOOL);
    if (is_bool || tmk_relay_op_attr_is(op, field->name, TMK_RELAY_INT)) {
        *out = (struct tmk_relay_value){.kind = is_bool ? TMK_RELAY_BOOL : TMK_RELAY_INT,
                                        .i = strtoll(field->text, NULL, 10)};
        return TMK_OK;
    }
    if (tmk_relay_op_attr_is(op, field->name, TMK_RELAY_REAL)) {
        *out = (struct tmk_relay_value){.kind = TMK_RELAY_REAL, .real = strtod(field->text, NULL)};
        return TMK_OK;
    }
    if (tmk_relay_is_digits(field->text))
        return read_object(from, strtoll(field->text, NULL, 10), out);
    out->kind = TMK_RELAY_STRING;
    return tmk_relay_json_string(from, field->text, &out->s);
}

/* Fields that are caches of the tuner, or empty. */
static bool is_idle(const struct tmk_relay_attr *attr) {
    static const char *const names[] = {"auto_scheduler_rewritten_layout",
                                        "meta_schedule_original_shape"};
    const struct tmk_relay_value *value = &attr->value;
    for (size_t i = 0; i < TMK_COUNT(names); i++)
        if (!strcmp(attr->name, names[i]))
            return value->kind == TMK_RELAY_NONE || (value->kind == TMK_RELAY_LIST && !value->n) ||
                   (value->kind == TMK_RELAY_STRING && !value->s[0]);
    return false;
}

enum tmk_status tmk_relay_json_attrs(struct tmk_relay_json *from, int64_t index, const char *op,
                                     struct tmk_relay_attr **out, uint32_t *n) {
    struct tmk_relay_reader *in = from->nodes.in;
    const struct tmk_relay_op *row = tmk_relay_op_find(op);
    const struct tmk_relay_node *node;
    size_t base = in->attrs.used;
    TMK_TRY(tmk_relay_node(&from->nodes, index, &node));
    if (!node->type[0])
        return TMK_OK;
    if (!row)
        return tmk_relay_node_fail(&from->nodes, index, "the fields of %s are not known",
                                   node->type);
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        struct tmk_relay_attr attr = {0};
        const struct tmk_relay_member *field = &node->attrs[i];
        if (!field->text || !field->name)
            return tmk_relay_node_fail(&from->nodes, index, "a field that is no string");
        TMK_TRY(tmk_relay_name(in, field->name, strlen(field->name), &attr.name));
        TMK_TRY(read_field(from, row, field, &attr.value));
        if (!is_idle(&attr))
            TMK_TRY(tmk_relay_push(in, &in->attrs, &attr));
    }
    return tmk_relay_pop(in, &in->attrs, base, out, n);
}

/* A map of names to objects, in the field "__dict__". */
enum tmk_status tmk_relay_json_dict(struct tmk_relay_json *from, int64_t index,
                                    struct tmk_relay_attr **out, uint32_t *n) {
    struct tmk_relay_reader *in = from->nodes.in;
    const struct tmk_relay_node *node, *map;
    size_t base = in->attrs.used;
    if (!index)
        return TMK_OK;
    TMK_TRY(tmk_relay_node(&from->nodes, index, &node));
    const int64_t dict = tmk_relay_node_ref(node, "__dict__");
    if (!dict)
        return TMK_OK;
    TMK_TRY(tmk_relay_node(&from->nodes, dict, &map));
    for (uint32_t i = 0; i < map->n_keys && i < map->n_data; i++) {
        struct tmk_relay_attr attr = {0};
        if (!map->keys[i])
            continue;
        TMK_TRY(tmk_relay_name(in, map->keys[i], strlen(map->keys[i]), &attr.name));
        TMK_TRY(read_object(from, map->data[i], &attr.value));
        TMK_TRY(tmk_relay_push(in, &in->attrs, &attr));
    }
    return tmk_relay_pop(in, &in->attrs, base, out, n);
}
