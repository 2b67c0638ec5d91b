/* SPDX-License-Identifier: Apache-2.0 */
/* What the nodes of tvm.ir.save_json hold: members, names, lists, types. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
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
    if (!text || !text[0] || text[strspn(text, "0123456789")])
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

static enum tmk_status read_tensor(struct tmk_relay_json *from, const cJSON *node,
                                   struct tmk_relay_type *type) {
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
    return tmk_relay_pop(in, &in->dims, base, &type->dims, &type->n);
}

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
    if (!type)
        return tmk_nomem(from->nodes.in->diag);
    *out = NULL;
    if (!strcmp(key, "relay.TensorType")) {
        TMK_TRY(read_tensor(from, node, type));
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
    if (!text)
        return tmk_nomem(from->nodes.in->diag);
    sprintf(text, "%s%s", source, place);
    *out = text;
    return TMK_OK;
}
