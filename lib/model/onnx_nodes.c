/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes: made, inlined where they call the model's own functions, and given their operands. */
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "model/onnx_import.h"

enum { MAX_CALLS = 64 }; /* within each other */
enum { MAX_ATTRIBUTES = 1000 };
enum { NODE_COST = 2048 }; /* bytes, about, that a node takes with its values and names */

/* ---- functions ---- */

static char *function_key(struct tmk_arena *arena, const char *domain, const char *name,
                          const char *overload) {
    domain = tmk_onnx_domain(domain);
    name = tmk_onnx_text(name);
    overload = tmk_onnx_text(overload);
    size_t size = strlen(domain) + strlen(name) + strlen(overload) + 3;
    char *key = tmk_arena_alloc(arena, size);
    if (key)
        snprintf(key, size, "%s/%s/%s", domain, name, overload);
    return key;
}

enum tmk_status tmk_onnx_index_functions(struct tmk_onnx_builder *b) {
    for (size_t i = 0; i < b->model->n_functions; i++) {
        TmkPb__Function *function = b->model->functions[i];
        if (!function->name || !*function->name)
            return tmk_fail(b->diag, TMK_GRAPH, "function %zu has no name", i);
        char *key = function_key(&b->scratch, function->domain, function->name, function->overload);
        if (key && tmk_map_get(&b->functions, key))
            return tmk_fail(b->diag, TMK_GRAPH, "function '%s' is defined twice", function->name);
        TMK_TRY_ALLOC(key && tmk_map_put(&b->functions, key, function), b->diag);
    }
    return TMK_OK;
}

/* NULL for operators, and for observers, which stay nodes. */
static enum tmk_status find_function(struct tmk_onnx_builder *b, const TmkPb__Node *pb,
                                     const TmkPb__Function **out) {
    *out = NULL;
    if (!b->model->n_functions || (strcmp(tmk_onnx_domain(pb->domain), TMK_DOMAIN_TIDEMARK) == 0 &&
                                   strcmp(pb->op_type, TMK_OP_OBSERVER) == 0))
        return TMK_OK;
    struct tmk_arena arena = {0};
    const char *key = function_key(&arena, pb->domain, pb->op_type, pb->overload);
    if (key)
        *out = tmk_map_get(&b->functions, key);
    tmk_arena_finish(&arena);
    return key ? TMK_OK : tmk_nomem(b->diag);
}

/* The version that the scope's function or else the model imports. */
static enum tmk_status version_of(struct tmk_onnx_builder *b, const struct tmk_onnx_scope *scope,
                                  const char *domain, int64_t *out) {
    const TmkPb__Function *function = scope->call ? scope->call->function : NULL;
    int64_t version = tmk_graph_opset(b->root, domain);
    for (size_t i = 0; function && i < function->n_opset_import; i++)
        if (strcmp(tmk_onnx_domain(function->opset_import[i]->domain), domain) == 0) {
            int64_t own = function->opset_import[i]->version;
            if (own < 1 || own > INT32_MAX)
                return tmk_fail(b->diag, TMK_FORMAT, "operator set '%s' has version %lld", domain,
                                (long long)own);
            if (!version)
                TMK_TRY(tmk_graph_set_opset(b->root, domain, own, b->diag));
            version = own;
            break;
        }
    if (!version && !*domain)
        return tmk_fail(b->diag, TMK_GRAPH, "the model imports no version of ONNX's operator set");
    *out = version ? version : 1; /* nothing is known of such a domain; binding reports it */
    return TMK_OK;
}

/* ---- declaring ---- */

/* The name that an inner name gets outside; NULL when memory ran out. */
static const char *outer_name(struct tmk_onnx_builder *b, const struct tmk_onnx_scope *scope,
                              const char *name) {
    if (!scope->prefix || !*name)
        return name;
    size_t size = strlen(scope->prefix) + strlen(name) + 2;
    char *text = tmk_arena_alloc(&b->scratch, size);
    if (text)
        snprintf(text, size, "%s/%s", scope->prefix, name);
    return text;
}

/* Node names need not differ, so that the second "block" becomes "block_2". */
static enum tmk_status make_prefix(struct tmk_onnx_builder *b, const struct tmk_onnx_scope *scope,
                                   const TmkPb__Node *call, const char **out) {
    const char *name = tmk_onnx_text(call->name);
    for (size_t i = 0; i < call->n_output && !*name; i++)
        name = call->output[i];
    const char *wanted = outer_name(b, scope, *name ? name : call->op_type);
    TMK_TRY_ALLOC(wanted, b->diag);
    size_t *count = tmk_map_get(&b->prefixes, wanted);
    const char *free_name = wanted;
    while (tmk_map_get(&b->prefixes, free_name)) {
        size_t size = strlen(wanted) + 24;
        char *text = tmk_arena_alloc(&b->scratch, size);
        TMK_TRY_ALLOC(text, b->diag);
        snprintf(text, size, "%s_%zu", wanted, ++*count);
        free_name = text;
    }
    count = tmk_arena_alloc(&b->scratch, sizeof *count);
    TMK_TRY_ALLOC(count && tmk_map_put(&b->prefixes, free_name, count), b->diag);
    *count = 1;
    *out = free_name;
    return TMK_OK;
}

/* Makes the node with its results and defines these. `n_inputs` operands are still absent. */
static enum tmk_status make_node(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope,
                                 const char *domain, const char *op, const char *name,
                                 size_t n_inputs, char *const *results, size_t n_results,
                                 struct tmk_node **out) {
    int64_t version = 0;
    TMK_TRY(version_of(b, scope, domain, &version));
    if (n_inputs > UINT32_MAX || n_results > UINT32_MAX)
        return tmk_fail(b->diag, TMK_UNSUPPORTED, "too many operands");
    TMK_TRY(tmk_onnx_charge(b, scope, NODE_COST));
    struct tmk_arena arena = {0};
    struct tmk_value **none = tmk_arena_array(&arena, n_inputs, sizeof(struct tmk_value *));
    const char **names = tmk_arena_array(&arena, n_results, sizeof(char *));
    const char *full_name = outer_name(b, scope, name);
    bool ok = none && names && full_name;
    for (size_t i = 0; ok && i < n_results; i++)
        if (*results[i])
            ok = (names[i] = outer_name(b, scope, results[i])) != NULL;
    enum tmk_status status =
        ok ? tmk_graph_add_node(scope->graph, NULL,
                                &(struct tmk_node_spec){domain, op, full_name, version, none,
                                                        (uint32_t)n_inputs, names,
                                                        (uint32_t)n_results},
                                out, b->diag)
           : tmk_nomem(b->diag);
    tmk_arena_finish(&arena);
    for (size_t i = 0; status == TMK_OK && i < n_results; i++)
        if (*results[i])
            status = tmk_onnx_define(b, scope, results[i],
                                     (struct tmk_onnx_binding){.value = (*out)->outputs[i]});
    return status;
}

/* A result of the call: the body's value, or a copy of it where that is not the call's alone. */
static enum tmk_status hand_out(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope,
                                struct tmk_onnx_scope *body, const char *inner, char *outer) {
    struct tmk_onnx_binding *made = tmk_map_get(&body->names, inner);
    if (!made)
        return tmk_fail(b->diag, TMK_GRAPH, "its output '%s' is never made", inner);
    if (made->value && !made->claimed) {
        const char *name = outer_name(b, scope, outer);
        made->claimed = true;
        TMK_TRY_ALLOC(name, b->diag);
        TMK_TRY(tmk_value_rename(made->value, name, b->diag));
        return tmk_onnx_define(b, scope, outer, (struct tmk_onnx_binding){.value = made->value});
    }
    struct tmk_node *node;
    TMK_TRY(make_node(b, scope, TMK_DOMAIN_ONNX, "Identity", "", 1, &outer, 1, &node));
    body->pending[body->n_pending++] = (struct tmk_onnx_pending){.operand = inner, .node = node};
    return TMK_OK;
}

static enum tmk_status declare_call(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope,
                                    const TmkPb__Node *pb, const TmkPb__Function *function,
                                    struct tmk_onnx_scope **out) {
    int depth = scope->call ? scope->call->depth + 1 : 1;
    for (const struct tmk_onnx_call *c = scope->call; c; c = c->caller->call)
        if (c->function == function)
            return tmk_fail(b->diag, TMK_GRAPH, "the function calls itself");
    if (depth > MAX_CALLS)
        return tmk_fail(b->diag, TMK_UNSUPPORTED, "more than %d calls within each other",
                        MAX_CALLS);
    if (pb->n_input > function->n_input || pb->n_output > function->n_output)
        return tmk_fail(b->diag, TMK_GRAPH,
                        "%zu inputs and %zu outputs where the function has %zu and %zu",
                        pb->n_input, pb->n_output, function->n_input, function->n_output);
    struct tmk_onnx_scope *body;
    TMK_TRY(tmk_onnx_scope_create(b, scope->graph, &body));
    struct tmk_onnx_call *call = tmk_arena_alloc(&b->scratch, sizeof *call);
    TMK_TRY_ALLOC(call, b->diag);
    *call = (struct tmk_onnx_call){function, pb, scope, depth};
    body->call = call;
    TMK_TRY(tmk_onnx_charge(b, body, NODE_COST));
    TMK_TRY(make_prefix(b, scope, pb, &body->prefix));
    for (size_t i = 0; i < function->n_input; i++)
        if (*function->input[i])
            TMK_TRY(tmk_onnx_define(b, body, function->input[i],
                                    (struct tmk_onnx_binding){.parameter = i}));
    TMK_TRY(tmk_onnx_declare(b, body, function->node, function->n_node));
    for (size_t i = 0; i < pb->n_output; i++)
        if (*pb->output[i])
            TMK_TRY(hand_out(b, scope, body, function->output[i], pb->output[i]));
    TMK_TRY(tmk_onnx_set_types(b, body, function->value_info, function->n_value_info));
    *out = body;
    return TMK_OK;
}

enum tmk_status tmk_onnx_declare(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope,
                                 TmkPb__Node *const *nodes, size_t n) {
    size_t capacity = n; /* a body may need an Identity for each of its results */
    TMK_TRY_ALLOC(tmk_add_size(capacity, scope->call ? scope->call->node->n_output : 0, &capacity),
                  b->diag);
    scope->pending = tmk_arena_array(&b->scratch, capacity, sizeof *scope->pending);
    TMK_TRY_ALLOC(scope->pending, b->diag);
    for (size_t i = 0; i < n; i++) {
        const TmkPb__Node *pb = nodes[i];
        const TmkPb__Function *function;
        struct tmk_onnx_pending pending = {.pb = pb};
        if (!pb->op_type || !*pb->op_type)
            return tmk_fail(b->diag, TMK_GRAPH, "node %zu '%s' has no operator", i,
                            tmk_onnx_text(pb->name));
        TMK_TRY(find_function(b, pb, &function));
        enum tmk_status status = function
                                     ? declare_call(b, scope, pb, function, &pending.body)
                                     : make_node(b, scope, tmk_onnx_domain(pb->domain), pb->op_type,
                                                 tmk_onnx_text(pb->name), pb->n_input, pb->output,
                                                 pb->n_output, &pending.node);
        TMK_TRY(tmk_in(b->diag, status, "%s '%s'", pb->op_type, tmk_onnx_text(pb->name)));
        scope->pending[scope->n_pending++] = pending;
    }
    return TMK_OK;
}

/* ---- resolving ---- */

static enum tmk_status set_operand(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope,
                                   struct tmk_node *node, uint32_t i, const char *name) {
    struct tmk_value *value = NULL;
    TMK_TRY(tmk_in(b->diag, tmk_onnx_lookup(b, scope, name, &value), "input %u", (unsigned)i));
    return value ? tmk_node_set_input(node, i, value, b->diag) : TMK_OK;
}

static enum tmk_status complete_node(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope,
                                     const struct tmk_onnx_pending *pending) {
    if (!pending->pb)
        return set_operand(b, scope, pending->node, 0, pending->operand);
    if (pending->pb->n_attribute > MAX_ATTRIBUTES)
        return tmk_fail(b->diag, TMK_UNSUPPORTED, "%zu attributes; at most %d are supported",
                        pending->pb->n_attribute, MAX_ATTRIBUTES);
    for (size_t i = 0; i < pending->pb->n_input; i++)
        TMK_TRY(set_operand(b, scope, pending->node, (uint32_t)i, pending->pb->input[i]));
    for (size_t i = 0; i < pending->pb->n_attribute; i++)
        TMK_TRY(tmk_onnx_set_attr(b, scope, pending->node, pending->pb->attribute[i]));
    return TMK_OK;
}

enum tmk_status tmk_onnx_resolve(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope) {
    for (size_t i = 0; i < scope->n_pending; i++) {
        const struct tmk_onnx_pending *pending = &scope->pending[i];
        enum tmk_status status =
            pending->body ? tmk_onnx_resolve(b, pending->body) : complete_node(b, scope, pending);
        if (status != TMK_OK && pending->node) { /* a label takes a walk over the graph */
            char label[256];
            return tmk_in(b->diag, status, "%s",
                          tmk_node_label(pending->node, label, sizeof label));
        }
        TMK_TRY(status);
    }
    return TMK_OK;
}
