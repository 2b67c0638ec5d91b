/* SPDX-License-Identifier: Apache-2.0 */
/* What the nodes of tvm.ir.save_json hold: members, names, lists, types, attributes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "relay/json.h"

/* ---- nodes ---- */

const char *tmk_relay_json_text(const cJSON *node, const char *key) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(node, key));
    return text ? text : "";
}

const char *tmk_relay_json_attr(const cJSON *node, const char *key) {
    return cJSON_GetStringValue(
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(node, "attrs"), key));
}

int64_t tmk_relay_json_ref(const cJSON *node, const char *key) {
    const char *text = tmk_relay_json_attr(node, key);
    return text ? strtoll(text, NULL, 10) : 0;
}

enum tmk_status tmk_relay_json_string(struct tmk_relay_json *from, const char *text,
                                      const char **out) {
    *out = tmk_arena_strdup(&from->nodes.in->module->arena, text);
    return *out ? TMK_OK : tmk_nomem(from->nodes.in->diag);
}

enum tmk_status tmk_relay_json_name(struct tmk_relay_json *from, const cJSON *node, const char *key,
                                    const char **out) {
    const char *text = tmk_relay_json_attr(node, key);
    cJSON *named;
    if (!text || !tmk_relay_is_digits(text))
        return tmk_relay_json_string(from, text ? text : "", out);
    TMK_TRY(tmk_relay_node(&from->nodes, strtoll(text, NULL, 10), &named));
    enum tmk_status status =
        tmk_relay_json_string(from, tmk_relay_json_text(named, "repr_str"), out);
    cJSON_Delete(named);
    return status;
}

enum tmk_status tmk_relay_json_list(struct tmk_relay_json *from, int64_t index) {
    struct tmk_relay_reader *in = from->nodes.in;
    cJSON *node;
    enum tmk_status status = TMK_OK;
    TMK_TRY(tmk_relay_node(&from->nodes, index, &node));
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(node, "data");
    for (const cJSON *item = data ? data->child : NULL; item && status == TMK_OK;
         item = item->next) {
        int64_t number = tmk_relay_node_number(item);
        status = tmk_relay_push(in, &in->dims, &number);
    }
    cJSON_Delete(node);
    return status;
}

int64_t tmk_relay_json_listed(const struct tmk_relay_json *from, size_t base, size_t i) {
    int64_t number;
    memcpy(&number, from->nodes.in->dims.data + base + i * sizeof number, sizeof number);
    return number;
}

size_t tmk_relay_json_listed_count(const struct tmk_relay_json *from, size_t base) {
    return (from->nodes.in->dims.used - base) / sizeof(int64_t);
}

/* ---- types ---- */

/* The types of a list, and one behind them (0: none). */
static enum tmk_status read_types(struct tmk_relay_json *from, int64_t list, int64_t last,
                                  struct tmk_relay_type *type) {
    struct tmk_relay_reader *in = from->nodes.in;
    size_t base = in->dims.used, items = in->pointers.used;
    TMK_TRY(tmk_relay_json_list(from, list));
    if (last)
        TMK_TRY(tmk_relay_push(in, &in->dims, &last));
    for (size_t i = 0; i < tmk_relay_json_listed_count(from, base); i++) {
        struct tmk_relay_type *item;
        TMK_TRY(tmk_relay_json_type(from, tmk_relay_json_listed(from, base, i), &item));
        if (!item)
            return tmk_relay_fail(in, tmk_relay_nodes_place(&from->nodes, from->nodes.json),
                                  "a tuple's or function's type lacks a part");
        TMK_TRY(tmk_relay_push(in, &in->pointers, &item));
    }
    in->dims.used = base;
    return tmk_relay_pop(in, &in->pointers, items, &type->items, &type->n);
}

static enum tmk_status make_type(struct tmk_relay_json *from, const cJSON *node,
                                 struct tmk_relay_type **out) {
    const char *key = tmk_relay_json_text(node, "type_key");
    struct tmk_relay_type *type = tmk_arena_alloc(&from->nodes.in->module->arena, sizeof *type);
    TMK_TRY_ALLOC(type, from->nodes.in->diag);
    *out = NULL;
    if (!strcmp(key, "relay.TensorType")) {
        struct tmk_relay_reader *in = from->nodes.in;
        size_t base = in->dims.used;
        const char *dtype = tmk_relay_json_attr(node, "dtype");
        type->kind = TMK_RELAY_TENSOR;
        TMK_TRY(tmk_relay_json_string(from, dtype ? dtype : "", &type->dtype));
        TMK_TRY(tmk_relay_json_list(from, tmk_relay_json_ref(node, "shape")));
        for (size_t i = 0; i < tmk_relay_json_listed_count(from, base); i++) {
            cJSON *dim;
            TMK_TRY(tmk_relay_node(&from->nodes, tmk_relay_json_listed(from, base, i), &dim));
            const char *value = tmk_relay_json_attr(dim, "value");
            int64_t number = value ? strtoll(value, NULL, 10) : -1;
            cJSON_Delete(dim);
            if (number < 0)
                number = -1;
            memcpy(in->dims.data + base + i * sizeof number, &number, sizeof number);
        }
        TMK_TRY(tmk_relay_pop(in, &in->dims, base, &type->dims, &type->n));
    } else if (!strcmp(key, "TupleType") || !strcmp(key, "relay.TupleType")) {
        type->kind = TMK_RELAY_TUPLE;
        TMK_TRY(read_types(from, tmk_relay_json_ref(node, "fields"), 0, type));
    } else if (!strcmp(key, "FuncType") || !strcmp(key, "relay.FuncType")) {
        type->kind = TMK_RELAY_FUNCTION;
        TMK_TRY(read_types(from, tmk_relay_json_ref(node, "arg_types"),
                           tmk_relay_json_ref(node, "ret_type"), type));
        if (!type->n)
            return TMK_OK;
    } else {
        return TMK_OK; /* not inferred yet, or none of tensors */
    }
    *out = type;
    return TMK_OK;
}

enum tmk_status tmk_relay_json_type(struct tmk_relay_json *from, int64_t index,
                                    struct tmk_relay_type **out) {
    cJSON *node;
    *out = NULL;
    if (!index)
        return TMK_OK;
    TMK_TRY(tmk_relay_enter(from->nodes.in));
    TMK_TRY(tmk_relay_node(&from->nodes, index, &node));
    enum tmk_status status = TMK_OK;
    if (!from->types[index])
        status = make_type(from, node, &from->types[index]);
    cJSON_Delete(node);
    *out = from->types[index];
    from->nodes.in->depth--;
    return status;
}

enum tmk_status tmk_relay_json_span(struct tmk_relay_json *from, const cJSON *node,
                                    const char **out) {
    cJSON *span;
    const char *source;
    int64_t index = tmk_relay_json_ref(node, "span");
    if (!index)
        return TMK_OK;
    TMK_TRY(tmk_relay_node(&from->nodes, index, &span));
    enum tmk_status status = tmk_relay_json_name(from, span, "source_name", &source);
    char place[48];
    snprintf(place, sizeof place, ":%" PRId64 ":%" PRId64, tmk_relay_json_ref(span, "line"),
             tmk_relay_json_ref(span, "column"));
    cJSON_Delete(span);
    TMK_TRY(status);
    if (!source[0])
        return TMK_OK;
    char *text = tmk_arena_alloc(&from->nodes.in->module->arena, strlen(source) + sizeof place);
    TMK_TRY_ALLOC(text, from->nodes.in->diag);
    sprintf(text, "%s%s", source, place);
    *out = text;
    return TMK_OK;
}

/* ---- attribute objects ---- */

/* All their values are strings: whether "3" is a number or the number of a node depends on the
 * field's type in C++, so that must be known. Fields that are numbers themselves: i an int, b a
 * bool, d a double. What else looks like a number is a node. From TVM's headers, 0.6 to 0.18. */
static const struct {
    const char *key, *fields;
} known_fields[] = {
    {"AdaptivePool2DAttrs", ""},
    {"ArgReduceAttrs", "bkeepdims bselect_last_index bexclude"},
    {"AvgPool1DAttrs", "bceil_mode bcount_include_pad"},
    {"AvgPool2DAttrs", "bceil_mode bcount_include_pad"},
    {"AvgPool3DAttrs", "bceil_mode bcount_include_pad"},
    {"BatchMatmulAttrs", "btranspose_a btranspose_b"},
    {"BatchNormAttrs", "iaxis depsilon bcenter bscale"},
    {"BiasAddAttrs", "iaxis"},
    {"BroadcastAttrs", "ilhs_axis irhs_axis"},
    {"CastAttrs", ""},
    {"CastHintAttrs", ""},
    {"ClipAttrs", "da_min da_max"},
    {"ConcatenateAttrs", "iaxis"},
    {"Conv1DAttrs", "igroups"},
    {"Conv2DAttrs", "igroups"},
    {"Conv2DTransposeAttrs", "igroups"},
    {"Conv3DAttrs", "igroups"},
    {"DenseAttrs", ""},
    {"DequantizeAttrs", "iaxis"},
    {"DropoutAttrs", "drate"},
    {"ExpandDimsAttrs", "iaxis inum_newaxis"},
    {"FixedPointMultiplyAttrs", "imultiplier ishift"},
    {"FixedPointMultiplyPerAxisAttrs", "bis_lshift_required bis_rshift_required"},
    {"GlobalPool2DAttrs", ""},
    {"GroupNormAttrs", "inum_groups iaxis depsilon bcenter bscale"},
    {"InitOpAttrs", ""},
    {"InstanceNormAttrs", "iaxis depsilon bcenter bscale"},
    {"L2NormalizeAttrs", "deps"},
    {"LRNAttrs", "isize iaxis dbias dalpha dbeta"},
    {"LayerNormAttrs", "iaxis depsilon bcenter bscale"},
    {"LayoutTransformAttrs", ""},
    {"LeakyReluAttrs", "dalpha"},
    {"MatmulAttrs", "btranspose_a btranspose_b"},
    {"MaxPool1DAttrs", "bceil_mode"},
    {"MaxPool2DAttrs", "bceil_mode"},
    {"MaxPool3DAttrs", "bceil_mode"},
    {"OnDeviceAttrs", "bconstrain_result bconstrain_body"},
    {"OneHotAttrs", "idepth iaxis"},
    {"PReluAttrs", "iaxis"},
    {"PadAttrs", ""},
    {"QuantizeAttrs", "iaxis"},
    {"ReduceAttrs", "bkeepdims bexclude"},
    {"RequantizeAttrs", "iaxis"},
    {"ReshapeAttrs", "ballowzero"},
    {"Resize2DAttrs", "dcubic_alpha icubic_exclude dextrapolation_value"},
    {"SimulatedQuantizeAttrs", "ikind bsign"},
    {"SoftmaxAttrs", "iaxis"},
    {"SplitAttrs", "iaxis"},
    {"SqueezeAttrs", ""},
    {"StridedSliceAttrs", ""},
    {"TransposeAttrs", ""},
    {"UpSamplingAttrs", "dscale_h dscale_w balign_corners"},
    {"VarianceAttrs", "bkeepdims bexclude bunbiased"},
};

static const char *fields_of(const char *type_key) {
    static const char front[] = "relay.attrs.";
    if (!strncmp(type_key, front, sizeof front - 1))
        for (size_t i = 0; i < TMK_COUNT(known_fields); i++)
            if (!strcmp(type_key + sizeof front - 1, known_fields[i].key))
                return known_fields[i].fields;
    return NULL;
}

/* The letter of a field; 0: it is not in the list. */
static char letter_of(const char *fields, const char *name) {
    size_t n = strlen(name);
    for (const char *at = fields; *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == n + 1 && !strncmp(at + 1, name, n))
            return *at;
    return 0;
}

/* An object as the value of an attribute. */
static enum tmk_status read_object(struct tmk_relay_json *from, int64_t index,
                                   struct tmk_relay_value *out);

static enum tmk_status read_object_list(struct tmk_relay_json *from, const cJSON *data,
                                        struct tmk_relay_value *out) {
    struct tmk_relay_reader *in = from->nodes.in;
    size_t base = in->values.used;
    out->kind = TMK_RELAY_LIST;
    for (const cJSON *item = data ? data->child : NULL; item; item = item->next) {
        struct tmk_relay_value value = {0};
        TMK_TRY(read_object(from, tmk_relay_node_number(item), &value));
        TMK_TRY(tmk_relay_push(in, &in->values, &value));
    }
    return tmk_relay_pop(in, &in->values, base, &out->items, &out->n);
}

static enum tmk_status read_plain(struct tmk_relay_json *from, int64_t index, const cJSON *node,
                                  struct tmk_relay_value *out) {
    const char *type = tmk_relay_json_text(node, "type_key");
    const char *value = tmk_relay_json_attr(node, "value"),
               *dtype = tmk_relay_json_attr(node, "dtype");
    if (!type[0]) {
        out->kind = TMK_RELAY_NONE;
    } else if (!strcmp(type, "Array")) {
        return read_object_list(from, cJSON_GetObjectItemCaseSensitive(node, "data"), out);
    } else if (!strcmp(type, "runtime.String")) {
        out->kind = TMK_RELAY_STRING;
        return tmk_relay_json_string(from, tmk_relay_json_text(node, "repr_str"), &out->s);
    } else if (!strcmp(type, "IntImm")) {
        out->kind = dtype && !strcmp(dtype, "bool") ? TMK_RELAY_BOOL : TMK_RELAY_INT;
        out->i = value ? strtoll(value, NULL, 10) : 0;
    } else if (!strcmp(type, "FloatImm")) {
        out->kind = TMK_RELAY_REAL;
        out->real = value ? strtod(value, NULL) : 0;
    } else {
        return tmk_relay_node_fail(&from->nodes, index, "%s as an attribute is not read", type);
    }
    return TMK_OK;
}

static enum tmk_status read_object(struct tmk_relay_json *from, int64_t index,
                                   struct tmk_relay_value *out) {
    cJSON *node;
    TMK_TRY(tmk_relay_enter(from->nodes.in));
    TMK_TRY(tmk_relay_node(&from->nodes, index, &node));
    enum tmk_status status = read_plain(from, index, node, out);
    cJSON_Delete(node);
    from->nodes.in->depth--;
    return status;
}

static enum tmk_status read_field(struct tmk_relay_json *from, char letter, const char *text,
                                  struct tmk_relay_value *out) {
    if (letter == 'i' || letter == 'b') {
        *out = (struct tmk_relay_value){.kind = letter == 'b' ? TMK_RELAY_BOOL : TMK_RELAY_INT,
                                        .i = strtoll(text, NULL, 10)};
        return TMK_OK;
    }
    if (letter == 'd') {
        *out = (struct tmk_relay_value){.kind = TMK_RELAY_REAL, .real = strtod(text, NULL)};
        return TMK_OK;
    }
    if (tmk_relay_is_digits(text))
        return read_object(from, strtoll(text, NULL, 10), out);
    out->kind = TMK_RELAY_STRING;
    return tmk_relay_json_string(from, text, &out->s);
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

static enum tmk_status read_fields(struct tmk_relay_json *from, int64_t index, const cJSON *node,
                                   struct tmk_relay_attr **out, uint32_t *n) {
    struct tmk_relay_reader *in = from->nodes.in;
    const char *type = tmk_relay_json_text(node, "type_key"), *fields = fields_of(type);
    const cJSON *attrs = cJSON_GetObjectItemCaseSensitive(node, "attrs");
    size_t base = in->attrs.used;
    if (!type[0])
        return TMK_OK;
    if (!fields)
        return tmk_relay_node_fail(&from->nodes, index, "the fields of %s are not known", type);
    for (const cJSON *item = attrs ? attrs->child : NULL; item; item = item->next) {
        struct tmk_relay_attr attr = {0};
        const char *text = cJSON_GetStringValue(item);
        if (!text || !item->string)
            return tmk_relay_node_fail(&from->nodes, index, "a field that is no string");
        TMK_TRY(tmk_relay_name(in, item->string, strlen(item->string), &attr.name));
        TMK_TRY(read_field(from, letter_of(fields, attr.name), text, &attr.value));
        if (!is_idle(&attr))
            TMK_TRY(tmk_relay_push(in, &in->attrs, &attr));
    }
    return tmk_relay_pop(in, &in->attrs, base, out, n);
}

enum tmk_status tmk_relay_json_attrs(struct tmk_relay_json *from, int64_t index,
                                     struct tmk_relay_attr **out, uint32_t *n) {
    cJSON *node;
    TMK_TRY(tmk_relay_node(&from->nodes, index, &node));
    enum tmk_status status = read_fields(from, index, node, out, n);
    cJSON_Delete(node);
    return status;
}

/* A function's attributes: a map of names to objects, in the field "__dict__". */
static enum tmk_status read_dict(struct tmk_relay_json *from, const cJSON *map,
                                 struct tmk_relay_attr **out, uint32_t *n) {
    struct tmk_relay_reader *in = from->nodes.in;
    const cJSON *key = cJSON_GetObjectItemCaseSensitive(map, "keys");
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(map, "data");
    size_t base = in->attrs.used;
    key = key ? key->child : NULL;
    for (item = item ? item->child : NULL; item && key; item = item->next, key = key->next) {
        struct tmk_relay_attr attr = {0};
        const char *name = cJSON_GetStringValue(key);
        if (!name)
            continue;
        TMK_TRY(tmk_relay_name(in, name, strlen(name), &attr.name));
        TMK_TRY(read_object(from, tmk_relay_node_number(item), &attr.value));
        TMK_TRY(tmk_relay_push(in, &in->attrs, &attr));
    }
    return tmk_relay_pop(in, &in->attrs, base, out, n);
}

enum tmk_status tmk_relay_json_dict(struct tmk_relay_json *from, int64_t index,
                                    struct tmk_relay_attr **out, uint32_t *n) {
    cJSON *node, *map;
    if (!index)
        return TMK_OK;
    TMK_TRY(tmk_relay_node(&from->nodes, index, &node));
    int64_t dict = tmk_relay_json_ref(node, "__dict__");
    cJSON_Delete(node);
    if (!dict)
        return TMK_OK;
    TMK_TRY(tmk_relay_node(&from->nodes, dict, &map));
    enum tmk_status status = read_dict(from, map, out, n);
    cJSON_Delete(map);
    return status;
}
