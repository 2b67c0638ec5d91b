/* SPDX-License-Identifier: Apache-2.0 */
/* The metadata section: a graph of objects in TVM's JSON, of which the constants are read. Objects
 * are found by scanning and parsed one at a time, so that big sections need no tree. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/grow.h"
#include "base/json.h"
#include "model/relay_base64.h"
#include "model/relay_read.h"
#include "model/relay_record.h"

struct extent {
    const char *at;
    size_t len;
};
struct extents {
    struct extent *items;
    size_t n, size;
};

struct section {
    struct tmk_relay_reader *in;
    const char *json;
    size_t len;
    struct extents nodes, arrays;
    int64_t root;
    struct tmk_tensor *tensors; /* of `arrays`; data NULL: not read yet */
    const char **dtypes;
};

static struct tmk_relay_place place_of(const struct section *section, const char *at) {
    const struct tmk_relay_reader *in = section->in;
    uint32_t line = in->line;
    const char *begin = in->line_begin;
    for (const char *p = in->at; p < at; p++)
        if (*p == '\n') {
            line++;
            begin = p + 1;
        }
    return (struct tmk_relay_place){line, (uint32_t)(at - begin) + 1};
}

/* Says what a helper that knows no places said, at a place. */
static enum tmk_status fail_at(const struct section *section, const char *at,
                               enum tmk_status status, const struct tmk_diag *why) {
    if (status == TMK_NOMEM)
        return tmk_nomem(section->in->diag);
    return tmk_relay_fail(section->in, place_of(section, at), "metadata: %s", why->text);
}

static enum tmk_status push(struct section *section, struct extents *to, struct extent extent) {
    TMK_TRY(tmk_relay_part(section->in));
    struct extent *grown = tmk_grown(to->items, to->n, &to->size, sizeof *grown);
    if (!grown)
        return tmk_nomem(section->in->diag);
    to->items = grown;
    to->items[to->n++] = extent;
    return TMK_OK;
}

static enum tmk_status list_elements(struct section *section, struct extent array,
                                     struct extents *to) {
    struct tmk_json_scan scan;
    struct extent element;
    if (!tmk_json_enter(&scan, array.at, array.len, '['))
        return tmk_relay_fail(section->in, place_of(section, array.at),
                              "metadata: expected a list");
    for (;;) {
        struct tmk_diag why = {0};
        char *key = NULL;
        enum tmk_status status = tmk_json_next(&scan, '[', &key, &element.at, &element.len, &why);
        free(key);
        if (status == TMK_NOTFOUND)
            return TMK_OK;
        if (status != TMK_OK)
            return fail_at(section, scan.at, status, &why);
        TMK_TRY(push(section, to, element));
    }
}

static enum tmk_status take_member(struct section *section, const char *key, struct extent value) {
    if (!strcmp(key, "nodes") && !section->nodes.n)
        return list_elements(section, value, &section->nodes);
    if (!strcmp(key, "b64ndarrays") && !section->arrays.n)
        return list_elements(section, value, &section->arrays);
    if (!strcmp(key, "root")) {
        char digits[16] = "";
        memcpy(digits, value.at, value.len < sizeof digits ? value.len : sizeof digits - 1);
        section->root = strtoll(digits, NULL, 10);
    }
    return TMK_OK;
}

static enum tmk_status list_members(struct section *section) {
    struct tmk_json_scan scan;
    if (!tmk_json_enter(&scan, section->json, section->len, '{'))
        return tmk_relay_fail(section->in, place_of(section, section->json),
                              "expected '{' of the metadata's JSON");
    for (;;) {
        struct tmk_diag why = {0};
        struct extent value;
        char *key = NULL;
        enum tmk_status status = tmk_json_next(&scan, '{', &key, &value.at, &value.len, &why);
        if (status == TMK_NOTFOUND)
            break;
        if (status != TMK_OK) {
            free(key);
            return fail_at(section, scan.at, status, &why);
        }
        status = take_member(section, key, value);
        free(key);
        TMK_TRY(status);
    }
    if (!tmk_json_rest_is_blank(&scan))
        return tmk_relay_fail(section->in, place_of(section, scan.at),
                              "something stands behind the metadata");
    return TMK_OK;
}

/* Node `index` as a tree, to be deleted. */
static enum tmk_status parse_node(struct section *section, int64_t index, cJSON **out) {
    if (index < 0 || (uint64_t)index >= section->nodes.n)
        return tmk_relay_fail(section->in, place_of(section, section->json),
                              "metadata: there is no node %" PRId64, index);
    struct tmk_diag why = {0};
    struct extent node = section->nodes.items[index];
    enum tmk_status status = tmk_json_parse_object(node.at, node.len, out, &why);
    return status == TMK_OK ? TMK_OK : fail_at(section, node.at, status, &why);
}

/* The number of a node; -1: it is none. */
static int64_t node_number(const cJSON *item) {
    return cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble < 1e9
               ? (int64_t)item->valuedouble
               : -1;
}

static enum tmk_status read_array(struct section *section, int64_t index) {
    struct tmk_relay_reader *in = section->in;
    struct extent text = section->arrays.items[index];
    struct tmk_diag why = {0};
    struct tmk_buf *buf;
    size_t n;
    if (text.len < 2 || text.at[0] != '"')
        return tmk_relay_fail(in, place_of(section, text.at), "metadata: expected a string");
    enum tmk_status status = tmk_base64_decode(text.at + 1, text.len - 2, &buf, &n, &why);
    if (status != TMK_OK)
        return fail_at(section, text.at, status, &why);
    struct tmk_relay_bytes from = {
        .bytes = tmk_buf_data(buf), .len = n, .name = "constant", .diag = &why};
    struct tmk_relay_param record = {0};
    status = tmk_relay_record_read(&from, &in->module->arena, &record);
    if (status == TMK_OK && from.at != n)
        status = tmk_relay_bytes_fail(&from, from.at, "something stands behind the tensor");
    if (status == TMK_OK && !record.tensor.data)
        status = tmk_relay_bytes_fail(&from, 0, "%s of rank %d is not read", record.dtype,
                                      (int)record.rank);
    tmk_buf_unref(&buf);
    if (status != TMK_OK) {
        tmk_tensor_finish(&record.tensor);
        return fail_at(section, text.at, status, &why);
    }
    section->tensors[index] = record.tensor;
    section->dtypes[index] = record.dtype;
    return TMK_OK;
}

/* Shares the array of the constant that node `index` is; *out says whether it is one. */
static enum tmk_status read_constant(struct section *section, int64_t index, bool *out) {
    struct tmk_relay_module *module = section->in->module;
    cJSON *node;
    TMK_TRY(parse_node(section, index, &node));
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(node, "type_key"));
    const cJSON *attrs = cJSON_GetObjectItemCaseSensitive(node, "attrs");
    const char *data = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(attrs, "data"));
    bool constant = type && !strcmp(type, "relay.Constant");
    char *end = NULL;
    int64_t array = data ? strtoll(data, &end, 10) : -1;
    bool good = array >= 0 && !*end && (uint64_t)array < section->arrays.n;
    cJSON_Delete(node);
    *out = constant;
    if (!constant)
        return TMK_OK;
    if (!good)
        return tmk_relay_fail(section->in, place_of(section, section->nodes.items[index].at),
                              "metadata: this constant has no data in b64ndarrays");
    if (!section->tensors[array].data)
        TMK_TRY(read_array(section, array));
    tmk_tensor_share(&module->constants[module->n_constants], &section->tensors[array]);
    module->constant_dtypes[module->n_constants++] = section->dtypes[array];
    return TMK_OK;
}

static enum tmk_status read_list(struct section *section, const cJSON *list) {
    struct tmk_relay_reader *in = section->in;
    size_t n = 0;
    for (const cJSON *item = list ? list->child : NULL; item; item = item->next, n++)
        TMK_TRY(tmk_relay_part(in));
    in->module->constants = tmk_arena_array(&in->module->arena, n, sizeof(struct tmk_tensor));
    in->module->constant_dtypes = tmk_arena_array(&in->module->arena, n, sizeof(char *));
    section->tensors = calloc(section->arrays.n + 1, sizeof(struct tmk_tensor));
    section->dtypes = calloc(section->arrays.n + 1, sizeof(char *));
    if (!in->module->constants || !in->module->constant_dtypes || !section->tensors ||
        !section->dtypes)
        return tmk_nomem(in->diag);
    for (const cJSON *item = list ? list->child : NULL; item; item = item->next) {
        bool constant = false;
        int64_t index = node_number(item);
        TMK_TRY(read_constant(section, index, &constant));
        if (!constant)
            return tmk_relay_fail(in, place_of(section, section->nodes.items[index].at),
                                  "metadata: this is no relay.Constant");
    }
    return TMK_OK;
}

/* The root maps keys to lists of nodes. */
static enum tmk_status read_root(struct section *section, bool *other) {
    cJSON *root = NULL, *list = NULL;
    TMK_TRY(parse_node(section, section->root, &root));
    const cJSON *keys = cJSON_GetObjectItemCaseSensitive(root, "keys");
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(root, "data");
    int64_t constants = -1;
    const cJSON *item = data ? data->child : NULL;
    *other = false;
    for (const cJSON *key = keys ? keys->child : NULL; key; key = key->next) {
        const char *name = cJSON_GetStringValue(key);
        if (name && !strcmp(name, "relay.Constant") && constants < 0)
            constants = node_number(item);
        else
            *other = true;
        item = item ? item->next : NULL;
    }
    cJSON_Delete(root);
    if (constants < 0)
        return TMK_OK;
    TMK_TRY(parse_node(section, constants, &list));
    enum tmk_status status = read_list(section, cJSON_GetObjectItemCaseSensitive(list, "data"));
    cJSON_Delete(list);
    return status;
}

/* Gives the expressions that name constants their data. */
static enum tmk_status hand_out(struct tmk_relay_reader *in) {
    const struct tmk_relay_module *module = in->module;
    for (size_t i = 0; i < in->metadata.used; i += sizeof(struct tmk_relay_expr *)) {
        struct tmk_relay_expr *expr;
        memcpy(&expr, in->metadata.data + i, sizeof expr);
        if (strcmp(expr->text, "relay.Constant"))
            continue;
        if (expr->index >= module->n_constants)
            return tmk_relay_fail(in, expr->place, "the metadata holds %" PRIu32 " constants",
                                  module->n_constants);
        expr->data = module->constants[expr->index];
        expr->dtype = module->constant_dtypes[expr->index];
    }
    return TMK_OK;
}

enum tmk_status tmk_relay_parse_section(struct tmk_relay_reader *in, const char *json, size_t len) {
    struct section section = {.in = in, .json = json, .len = len};
    bool other = false;
    enum tmk_status status = list_members(&section);
    if (status == TMK_OK)
        status = read_root(&section, &other);
    for (size_t i = 0; section.tensors && i < section.arrays.n; i++)
        tmk_tensor_finish(&section.tensors[i]);
    free(section.tensors);
    free(section.dtypes);
    free(section.nodes.items);
    free(section.arrays.items);
    TMK_TRY(status);
    in->module->has_metadata = true;
    if (other)
        TMK_TRY(tmk_relay_copy(in, json, len, &in->module->section));
    return hand_out(in);
}
