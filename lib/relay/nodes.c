/* SPDX-License-Identifier: Apache-2.0 */
#include "relay/nodes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/json.h"
#include "base/memory.h"
#include "relay/base64.h"
#include "relay/record.h"

enum {
    TIMES = 64, /* that a file is read at most, for all the nodes that name others */
    SLACK = 1 << 20
};

struct tmk_relay_place tmk_relay_nodes_place(const struct tmk_relay_nodes *nodes, const char *at) {
    const struct tmk_relay_reader *in = nodes->in;
    uint32_t line = in->line;
    const char *begin = in->line_begin;
    for (const char *p = in->at; p < at; p++)
        if (*p == '\n') {
            line++;
            begin = p + 1;
        }
    return (struct tmk_relay_place){line, (uint32_t)(at - begin) + 1};
}

/* Adds the place to the failure of a function that has none. */
static enum tmk_status fail_at(const struct tmk_relay_nodes *nodes, const char *at,
                               enum tmk_status status, const struct tmk_diag *why) {
    if (status == TMK_NOMEM)
        return tmk_nomem(nodes->in->diag);
    return tmk_relay_fail(nodes->in, tmk_relay_nodes_place(nodes, at), "%s%s", nodes->what,
                          why->text);
}

static enum tmk_status list_elements(struct tmk_relay_nodes *nodes, struct tmk_relay_extent array,
                                     struct tmk_relay_extents *to) {
    struct tmk_json_scan scan;
    struct tmk_relay_extent element;
    if (!tmk_json_enter(&scan, array.at, array.len, '['))
        return tmk_relay_fail(nodes->in, tmk_relay_nodes_place(nodes, array.at),
                              "%sexpected a list", nodes->what);
    for (;;) {
        struct tmk_diag why = {0};
        char *key = NULL;
        enum tmk_status status = tmk_json_next(&scan, '[', &key, &element.at, &element.len, &why);
        free(key);
        if (status == TMK_NOTFOUND)
            return TMK_OK;
        if (status != TMK_OK)
            return fail_at(nodes, scan.at, status, &why);
        TMK_TRY(tmk_relay_part(nodes->in));
        TMK_TRY_ALLOC(TMK_GROW(to->items, to->n, to->size), nodes->in->diag);
        to->items[to->n++] = element;
    }
}

static enum tmk_status take_member(struct tmk_relay_nodes *nodes, const char *key,
                                   struct tmk_relay_extent value) {
    if (!strcmp(key, "nodes") && !nodes->items.n)
        return list_elements(nodes, value, &nodes->items);
    if (!strcmp(key, "b64ndarrays") && !nodes->arrays.n)
        return list_elements(nodes, value, &nodes->arrays);
    if (!strcmp(key, "root")) {
        char digits[16] = "";
        memcpy(digits, value.at, value.len < sizeof digits ? value.len : sizeof digits - 1);
        nodes->root = strtoll(digits, NULL, 10);
    }
    return TMK_OK;
}

/* ---- one node ---- */

/* The text of a string; NULL: it is none. */
static const char *copy_string(struct tmk_relay_nodes *nodes, const cJSON *item, bool *failed) {
    const char *text = cJSON_GetStringValue(item);
    const char *copy = text ? tmk_arena_strdup(&nodes->arena, text) : NULL;
    *failed |= text && !copy;
    return copy;
}

/* An array for the elements of a list or members of an object; *n: how many. */
static void *new_elements(struct tmk_relay_nodes *nodes, const cJSON *list, size_t size,
                          uint32_t *n, bool *failed) {
    *n = (uint32_t)cJSON_GetArraySize(list);
    void *elements = tmk_arena_array(&nodes->arena, *n, size);
    *failed |= !elements;
    return elements;
}

static bool convert_node(struct tmk_relay_nodes *nodes, const cJSON *tree,
                         struct tmk_relay_node *out) {
    const cJSON *attrs = tmk_json_member(tree, "attrs"), *data = tmk_json_member(tree, "data"),
                *keys = tmk_json_member(tree, "keys"), *item;
    bool failed = false;
    uint32_t i;
    const char *type = copy_string(nodes, tmk_json_member(tree, "type_key"), &failed),
               *text = copy_string(nodes, tmk_json_member(tree, "repr_str"), &failed);
    struct tmk_relay_node node = {.type = type ? type : "", .text = text ? text : ""};
    node.attrs = new_elements(nodes, attrs, sizeof *node.attrs, &node.n_attrs, &failed);
    int64_t *numbers = new_elements(nodes, data, sizeof *numbers, &node.n_data, &failed);
    node.keys = new_elements(nodes, keys, sizeof(char *), &node.n_keys, &failed);
    if (failed)
        return false;
    for (i = 0, item = attrs ? attrs->child : NULL; item; item = item->next, i++) {
        node.attrs[i].name = item->string ? tmk_arena_strdup(&nodes->arena, item->string) : NULL;
        node.attrs[i].text = copy_string(nodes, item, &failed);
        failed |= item->string && !node.attrs[i].name;
    }
    for (i = 0, item = data ? data->child : NULL; item; item = item->next, i++)
        numbers[i] = cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble < 1e9
                         ? (int64_t)item->valuedouble
                         : -1;
    for (i = 0, item = keys ? keys->child : NULL; item; item = item->next, i++)
        node.keys[i] = copy_string(nodes, item, &failed);
    node.data = numbers;
    *out = node;
    return !failed;
}

static enum tmk_status parse_node(struct tmk_relay_nodes *nodes, struct tmk_relay_extent text,
                                  struct tmk_relay_node **out) {
    struct tmk_relay_node *node = tmk_arena_alloc(&nodes->arena, sizeof *node);
    struct tmk_diag why = {0};
    cJSON *tree;
    size_t held = 0; /* for a moment */
    TMK_TRY_ALLOC(node, nodes->in->diag);
    enum tmk_status status = tmk_json_parse_object(text.at, text.len, &tree, &held, &why);
    tmk_memory_uncharge(held);
    if (status != TMK_OK)
        return fail_at(nodes, text.at, status, &why);
    const bool converted = convert_node(nodes, tree, node);
    cJSON_Delete(tree);
    *out = node;
    return converted ? TMK_OK : tmk_nomem(nodes->in->diag);
}

enum tmk_status tmk_relay_node(struct tmk_relay_nodes *nodes, int64_t index,
                               const struct tmk_relay_node **out) {
    if (index < 0 || (uint64_t)index >= nodes->items.n)
        return tmk_relay_fail(nodes->in, tmk_relay_nodes_place(nodes, nodes->json),
                              "%sthere is no node %" PRId64, nodes->what, index);
    struct tmk_relay_extent text = nodes->items.items[index];
    nodes->used += text.len;
    if (nodes->used > (uint64_t)nodes->len * TIMES + SLACK)
        return tmk_relay_fail(nodes->in, tmk_relay_nodes_place(nodes, text.at),
                              "%snodes are used more than %d times, on average", nodes->what,
                              TIMES);
    if (!nodes->read[index])
        TMK_TRY(parse_node(nodes, text, &nodes->read[index]));
    *out = nodes->read[index];
    return TMK_OK;
}

const char *tmk_relay_node_attr(const struct tmk_relay_node *node, const char *key) {
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (node->attrs[i].name && strcmp(node->attrs[i].name, key) == 0)
            return node->attrs[i].text;
    return NULL;
}

int64_t tmk_relay_node_ref(const struct tmk_relay_node *node, const char *key) {
    const char *text = tmk_relay_node_attr(node, key);
    return text ? strtoll(text, NULL, 10) : 0;
}

/* ---- all of them ---- */

static enum tmk_status read_array(struct tmk_relay_nodes *nodes, size_t index) {
    struct tmk_relay_reader *in = nodes->in;
    struct tmk_relay_extent text = nodes->arrays.items[index];
    struct tmk_diag why = {0};
    struct tmk_buf *buf;
    size_t n;
    if (text.len < 2 || text.at[0] != '"')
        return tmk_relay_fail(in, tmk_relay_nodes_place(nodes, text.at), "%sexpected a string",
                              nodes->what);
    enum tmk_status status = tmk_base64_decode(text.at + 1, text.len - 2, &buf, &n, &why);
    if (status != TMK_OK)
        return fail_at(nodes, text.at, status, &why);
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
        return fail_at(nodes, text.at, status, &why);
    }
    nodes->tensors[index] = record.tensor;
    nodes->dtypes[index] = record.dtype;
    return TMK_OK;
}

enum tmk_status tmk_relay_nodes_tensor(struct tmk_relay_nodes *nodes, int64_t node,
                                       const char *array, const struct tmk_tensor **out,
                                       const char **dtype) {
    char *end = NULL;
    int64_t index = array ? strtoll(array, &end, 10) : -1;
    if (index < 0 || *end || (uint64_t)index >= nodes->arrays.n)
        return tmk_relay_node_fail(nodes, node, "%sthis constant has no data in b64ndarrays",
                                   nodes->what);
    if (!nodes->tensors[index].data)
        TMK_TRY(read_array(nodes, (size_t)index));
    *out = &nodes->tensors[index];
    *dtype = nodes->dtypes[index];
    return TMK_OK;
}

enum tmk_status tmk_relay_nodes_open(struct tmk_relay_nodes *nodes) {
    struct tmk_json_scan scan;
    if (!tmk_json_enter(&scan, nodes->json, nodes->len, '{'))
        return tmk_relay_fail(nodes->in, tmk_relay_nodes_place(nodes, nodes->json),
                              "expected '{' of JSON");
    for (;;) {
        struct tmk_diag why = {0};
        struct tmk_relay_extent value;
        char *key = NULL;
        enum tmk_status status = tmk_json_next(&scan, '{', &key, &value.at, &value.len, &why);
        if (status == TMK_NOTFOUND)
            break;
        if (status != TMK_OK) {
            free(key);
            return fail_at(nodes, scan.at, status, &why);
        }
        status = take_member(nodes, key, value);
        free(key);
        TMK_TRY(status);
    }
    if (!tmk_json_rest_is_blank(&scan))
        return tmk_relay_fail(nodes->in, tmk_relay_nodes_place(nodes, scan.at),
                              "something stands behind the JSON");
    nodes->tensors = calloc(nodes->arrays.n + 1, sizeof *nodes->tensors);
    nodes->dtypes = calloc(nodes->arrays.n + 1, sizeof *nodes->dtypes);
    nodes->read = calloc(nodes->items.n + 1, sizeof(struct tmk_relay_node *));
    return nodes->tensors && nodes->dtypes && nodes->read ? TMK_OK : tmk_nomem(nodes->in->diag);
}

void tmk_relay_nodes_finish(struct tmk_relay_nodes *nodes) {
    for (size_t i = 0; nodes->tensors && i < nodes->arrays.n; i++)
        tmk_tensor_finish(&nodes->tensors[i]);
    free(nodes->tensors);
    free(nodes->dtypes);
    free(nodes->read);
    tmk_arena_finish(&nodes->arena);
    free(nodes->items.items);
    free(nodes->arrays.items);
}

/* ---- the metadata section ---- */

static enum tmk_status read_constants(struct tmk_relay_nodes *nodes,
                                      const struct tmk_relay_node *list) {
    for (uint32_t i = 0; i < list->n_data; i++) {
        const int64_t index = list->data[i];
        const struct tmk_relay_node *node;
        const struct tmk_tensor *tensor;
        const char *dtype;
        TMK_TRY(tmk_relay_part(nodes->in));
        TMK_TRY(tmk_relay_node(nodes, index, &node));
        if (strcmp(node->type, "relay.Constant") != 0)
            return tmk_relay_node_fail(nodes, index, "metadata: this is no relay.Constant");
        TMK_TRY(tmk_relay_nodes_tensor(nodes, index, tmk_relay_node_attr(node, "data"), &tensor,
                                       &dtype));
        TMK_TRY(tmk_relay_add_constant(nodes->in->module, tensor, dtype, nodes->in->diag));
    }
    return TMK_OK;
}

/* The root maps keys to lists of nodes. */
static enum tmk_status read_root(struct tmk_relay_nodes *nodes, bool *other) {
    const struct tmk_relay_node *root, *list;
    TMK_TRY(tmk_relay_node(nodes, nodes->root, &root));
    int64_t constants = -1;
    *other = false;
    for (uint32_t i = 0; i < root->n_keys; i++) {
        const char *key = root->keys[i];
        if (key && strcmp(key, "relay.Constant") == 0 && constants < 0)
            constants = i < root->n_data ? root->data[i] : -1;
        else
            *other = true;
    }
    if (constants < 0)
        return TMK_OK;
    TMK_TRY(tmk_relay_node(nodes, constants, &list));
    return read_constants(nodes, list);
}

enum tmk_status tmk_relay_parse_section(struct tmk_relay_reader *in, const char *json, size_t len) {
    struct tmk_relay_nodes nodes = {.in = in, .json = json, .len = len, .what = "metadata: "};
    bool other = false;
    enum tmk_status status = tmk_relay_nodes_open(&nodes);
    TMK_THEN(status, read_root(&nodes, &other));
    tmk_relay_nodes_finish(&nodes);
    TMK_TRY(status);
    in->module->has_metadata = true;
    if (other)
        TMK_TRY(tmk_relay_copy(in, json, len, &in->module->section));
    /* Gives the expressions that name constants their data. */
    const struct tmk_relay_module *module = in->module;
    for (size_t i = 0; i < in->metadata.used; i += sizeof(struct tmk_relay_expr *)) {
        struct tmk_relay_expr *expr;
        memcpy(&expr, in->metadata.data + i, sizeof expr);
        if (strcmp(expr->text, "relay.Constant") != 0)
            continue;
        if (expr->index >= module->n_constants)
            return tmk_relay_fail(in, expr->place, "the metadata holds %" PRIu32 " constants",
                                  module->n_constants);
        expr->data = module->constants[expr->index].data;
        expr->dtype = module->constants[expr->index].dtype;
    }
    return TMK_OK;
}
