/* SPDX-License-Identifier: Apache-2.0 */
#include "session/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"

struct by_id {
    struct tmk_value **values; /* by profile ID */
    struct tmk_account **accounts;
    size_t n;
};

static void count_values(struct tmk_graph *graph, void *context) {
    struct by_id *by_id = context;
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (tmk_value_alive(graph->values[i]))
            by_id->n++;
}

static void place_values(struct tmk_graph *graph, void *context) {
    struct by_id *by_id = context;
    for (uint32_t i = 0; i < graph->n_values; i++) {
        struct tmk_value *value = graph->values[i];
        if (tmk_value_alive(value) && value->profile_id >= 0 &&
            (size_t)value->profile_id < by_id->n)
            by_id->values[value->profile_id] = value;
    }
}

static enum tmk_profile_kind kind_of(const struct tmk_value *value) {
    if (value->kind == TMK_VALUE_INPUT)
        return TMK_PROFILE_INPUT;
    if (value->kind == TMK_VALUE_INITIALIZER ||
        tmk_node_is(value->producer, TMK_DOMAIN_ONNX, "Constant"))
        return TMK_PROFILE_WEIGHT;
    return value->n_graph_outputs && !value->graph->parent ? TMK_PROFILE_OUTPUT
                                                           : TMK_PROFILE_ACTIVATION;
}

static enum tmk_profile_status status_of(const struct tmk_profile_tensor *tensor) {
    if (!tensor->stats && !tensor->has_int_stats)
        return TMK_PROFILE_NEVER;
    if (tensor->has_int_stats)
        return TMK_PROFILE_INTEGER;
    if (tensor->kind == TMK_PROFILE_WEIGHT)
        return TMK_PROFILE_CONSTANT;
    struct tmk_summary summary;
    tmk_stats_summary(tensor->stats, &summary);
    bool one_number =
        summary.finite && summary.finite == summary.count && summary.min == summary.max;
    return one_number ? TMK_PROFILE_DEAD : TMK_PROFILE_OBSERVED;
}

/* "If 'if1'/then_branch" for each graph between the value and the root, outermost first. */
static const char *path_of(struct tmk_profile *profile, const struct tmk_graph *graph) {
    char path[1024] = "";
    for (; graph->owner; graph = graph->parent) {
        char label[256], longer[sizeof path];
        const char *attr = "";
        for (uint32_t i = 0; i < graph->owner->n_attrs; i++) {
            const struct tmk_attr *a = &graph->owner->attrs[i];
            if (a->kind == TMK_ATTR_GRAPH && a->graphs[0] == graph)
                attr = a->name;
        }
        int n = snprintf(longer, sizeof longer, "%s/%s%s%s",
                         tmk_node_label(graph->owner, label, sizeof label), attr,
                         path[0] ? "/" : "", path);
        if (n > 0 && (size_t)n < sizeof path)
            memcpy(path, longer, (size_t)n + 1);
    }
    return tmk_profile_text(profile, path);
}

static enum tmk_status describe_type(struct tmk_profile *profile, const struct tmk_value *value,
                                     struct tmk_profile_tensor *tensor, struct tmk_diag *diag) {
    tensor->dtype = value->type.dtype;
    tensor->origin = value->type.origin;
    tensor->has_shape = value->type.has_shape;
    tensor->shape = value->type.shape;
    for (int i = 0; tensor->has_shape && i < tensor->shape.rank; i++) {
        if (!value->type.symbol[i])
            continue;
        tensor->symbol[i] = tmk_profile_text(profile, value->type.symbol[i]);
        if (!tensor->symbol[i])
            return tmk_nomem(diag);
    }
    return TMK_OK;
}

/* In the order of the consuming nodes, told by the numbers of their first results. */
static uint64_t place_of(const struct tmk_use *use) {
    for (uint32_t i = 0; i < use->node->n_outputs; i++)
        if (use->node->outputs[i])
            return (uint64_t)use->node->outputs[i]->index << 32 | use->input;
    return UINT64_MAX;
}

static int by_place(const void *a, const void *b) {
    uint64_t x = place_of(a), y = place_of(b);
    return (x > y) - (x < y);
}

static enum tmk_status describe_ends(struct tmk_profile *profile, const struct tmk_value *value,
                                     struct tmk_profile_tensor *tensor, struct tmk_diag *diag) {
    if (value->producer) {
        const struct tmk_node *node = value->producer;
        tensor->has_producer = true;
        tensor->producer = (struct tmk_profile_producer){
            tmk_profile_text(profile, node->name), tmk_profile_text(profile, node->op),
            tmk_profile_text(profile, node->domain), value->output};
        if (!tensor->producer.node || !tensor->producer.op || !tensor->producer.domain)
            return tmk_nomem(diag);
    }
    struct tmk_use *uses = calloc(value->n_uses + 1u, sizeof *uses);
    if (!uses)
        return tmk_nomem(diag);
    if (value->n_uses) {
        memcpy(uses, value->uses, value->n_uses * sizeof *uses);
        qsort(uses, value->n_uses, sizeof *uses, by_place);
    }
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; status == TMK_OK && i < value->n_uses; i++)
        status = tmk_profile_add_consumer(profile, tensor, uses[i].node->name, uses[i].node->op,
                                          uses[i].node->domain, uses[i].input, diag);
    free(uses);
    return status;
}

static enum tmk_status move_account(struct tmk_account *account, struct tmk_profile_tensor *tensor,
                                    struct tmk_diag *diag) {
    for (uint32_t i = 0; i < account->n_shapes; i++)
        TMK_TRY(
            tmk_profile_add_runs(tensor, &account->shapes[i].shape, account->shapes[i].runs, diag));
    tensor->more_runs = account->more_shapes;
    tensor->expected_count = account->elements;
    if (account->dtype == TMK_UNDEFINED)
        return TMK_OK;
    if (tensor->dtype != account->dtype) {
        tensor->dtype = account->dtype;
        tensor->origin = account->dtype;
    }
    tensor->stats = account->floats;
    account->floats = NULL;
    tensor->has_int_stats = account->dtype != TMK_FLOAT32;
    tensor->int_stats = account->ints;
    return TMK_OK;
}

static enum tmk_status record(struct tmk_profile *profile, const struct tmk_value *value,
                              struct tmk_account *account, struct tmk_diag *diag) {
    struct tmk_profile_tensor *tensor;
    TMK_TRY(tmk_profile_add_tensor(profile, (uint32_t)value->profile_id, &tensor, diag));
    tensor->fingerprint = value->fingerprint;
    tensor->content = value->content;
    tensor->ordinal = value->ordinal;
    tensor->name = tmk_profile_text(profile, value->name);
    tensor->path = path_of(profile, value->graph);
    if (!tensor->name || !tensor->path)
        return tmk_nomem(diag);
    tensor->kind = kind_of(value);
    TMK_TRY(describe_type(profile, value, tensor, diag));
    TMK_TRY(describe_ends(profile, value, tensor, diag));
    if (account)
        TMK_TRY(move_account(account, tensor, diag));
    tensor->status = status_of(tensor);
    return TMK_OK;
}

enum tmk_status tmk_record_values(struct tmk_profile *profile, struct tmk_graph *original,
                                  const struct tmk_observer *observers,
                                  struct tmk_account *accounts, uint32_t n_slots,
                                  struct tmk_diag *diag) {
    struct by_id by_id = {0};
    tmk_graph_number(original);
    tmk_graph_each(original, count_values, &by_id);
    by_id.values = calloc(by_id.n + 1, sizeof(struct tmk_value *));
    by_id.accounts = calloc(by_id.n + 1, sizeof(struct tmk_account *));
    enum tmk_status status = by_id.values && by_id.accounts ? TMK_OK : tmk_nomem(diag);
    if (status == TMK_OK) {
        tmk_graph_each(original, place_values, &by_id);
        for (uint32_t s = 0; s < n_slots; s++)
            if (observers[s].profile_id >= 0 && (size_t)observers[s].profile_id < by_id.n)
                by_id.accounts[observers[s].profile_id] = &accounts[s];
    }
    for (size_t id = 0; status == TMK_OK && id < by_id.n; id++)
        if (by_id.values[id])
            status = record(profile, by_id.values[id], by_id.accounts[id], diag);
    free(by_id.values);
    free(by_id.accounts);
    return status;
}
