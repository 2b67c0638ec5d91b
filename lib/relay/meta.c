/* SPDX-License-Identifier: Apache-2.0 */
/* The constants of the metadata section. */
#include <inttypes.h>
#include <string.h>

#include "base/diag.h"
#include "relay/nodes.h"

/* The constant that node `index` is. */
static enum tmk_status read_constant(struct tmk_relay_nodes *nodes, int64_t index) {
    struct tmk_relay_module *module = nodes->in->module;
    const struct tmk_tensor *tensor = NULL;
    const char *dtype = NULL;
    cJSON *node;
    TMK_TRY(tmk_relay_node(nodes, index, &node));
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(node, "type_key"));
    const cJSON *attrs = cJSON_GetObjectItemCaseSensitive(node, "attrs");
    const char *data = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(attrs, "data"));
    enum tmk_status status =
        type && !strcmp(type, "relay.Constant")
            ? tmk_relay_nodes_tensor(nodes, index, data, &tensor, &dtype)
            : tmk_relay_node_fail(nodes, index, "metadata: this is no relay.Constant");
    cJSON_Delete(node);
    TMK_TRY(status);
    tmk_tensor_share(&module->constants[module->n_constants], tensor);
    module->constant_dtypes[module->n_constants++] = dtype;
    return TMK_OK;
}

static enum tmk_status read_list(struct tmk_relay_nodes *nodes, const cJSON *list) {
    struct tmk_relay_reader *in = nodes->in;
    size_t n = 0;
    for (const cJSON *item = list ? list->child : NULL; item; item = item->next, n++)
        TMK_TRY(tmk_relay_part(in));
    in->module->constants = tmk_arena_array(&in->module->arena, n, sizeof(struct tmk_tensor));
    in->module->constant_dtypes = tmk_arena_array(&in->module->arena, n, sizeof(char *));
    if (!in->module->constants || !in->module->constant_dtypes)
        return tmk_nomem(in->diag);
    for (const cJSON *item = list ? list->child : NULL; item; item = item->next)
        TMK_TRY(read_constant(nodes, tmk_relay_node_number(item)));
    return TMK_OK;
}

/* The root maps keys to lists of nodes. */
static enum tmk_status read_root(struct tmk_relay_nodes *nodes, bool *other) {
    cJSON *root = NULL, *list = NULL;
    TMK_TRY(tmk_relay_node(nodes, nodes->root, &root));
    const cJSON *keys = cJSON_GetObjectItemCaseSensitive(root, "keys");
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(root, "data");
    int64_t constants = -1;
    const cJSON *item = data ? data->child : NULL;
    *other = false;
    for (const cJSON *key = keys ? keys->child : NULL; key; key = key->next) {
        const char *name = cJSON_GetStringValue(key);
        if (name && !strcmp(name, "relay.Constant") && constants < 0)
            constants = tmk_relay_node_number(item);
        else
            *other = true;
        item = item ? item->next : NULL;
    }
    cJSON_Delete(root);
    if (constants < 0)
        return TMK_OK;
    TMK_TRY(tmk_relay_node(nodes, constants, &list));
    enum tmk_status status = read_list(nodes, cJSON_GetObjectItemCaseSensitive(list, "data"));
    cJSON_Delete(list);
    return status;
}

/* Gives the expressions that name constants their data. */
static enum tmk_status hand_out(struct tmk_relay_reader *in) {
    const struct tmk_relay_module *module = in->module;
    for (size_t i = 0; i < in->metadata.used; i += sizeof(struct tmk_relay_expr *)) {
        struct tmk_relay_expr *expr;
        memcpy(&expr, in->metadata.data + i, sizeof expr);
        if (strcmp(expr->text, "relay.Constant") != 0)
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
    struct tmk_relay_nodes nodes = {.in = in, .json = json, .len = len, .what = "metadata: "};
    bool other = false;
    enum tmk_status status = tmk_relay_nodes_open(&nodes);
    if (status == TMK_OK)
        status = read_root(&nodes, &other);
    tmk_relay_nodes_finish(&nodes);
    TMK_TRY(status);
    in->module->has_metadata = true;
    if (other)
        TMK_TRY(tmk_relay_copy(in, json, len, &in->module->section));
    return hand_out(in);
}
