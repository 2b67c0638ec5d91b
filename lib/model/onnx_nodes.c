/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes: made, inlined where they call the model's own functions, and given their operands. */
#include <string.h>

#include "base/size.h"
#include "model/onnx_import.h"

/* Attributes: their values, what a function's body takes from its call, and sub-graphs. */

enum { MAX_GRAPHS = 64 }; /* within each other */

/* What a reference leads to: an attribute, and the scope that its own names belong to. NULL: an
 * optional attribute that the call leaves out. */
static enum tmk_status follow_reference(struct tmk_onnx_builder *b, struct tmk_onnx_scope **scope,
                                        const TmkPb__Attribute **pb) {
    while (*pb && (*pb)->ref_attr_name && *(*pb)->ref_attr_name) {
        const char *name = (*pb)->ref_attr_name;
        const struct tmk_onnx_call *call = (*scope)->call;
        if (!call)
            return tmk_fail(b->diag, TMK_GRAPH, "refers to '%s' of a function, but is in none",
                            name);
        const TmkPb__Attribute *found = NULL;
        for (size_t i = 0; i < call->node->n_attribute && !found; i++)
            if (strcmp(tmk_onnx_text(call->node->attribute[i]->name), name) == 0)
                found = call->node->attribute[i];
        if (found) {
            *scope = call->caller;
        } else {
            for (size_t i = 0; i < call->function->n_attribute_proto && !found; i++)
                if (strcmp(tmk_onnx_text(call->function->attribute_proto[i]->name), name) == 0)
                    found = call->function->attribute_proto[i];
            if (found && found->ref_attr_name && *found->ref_attr_name)
                return tmk_fail(b->diag, TMK_GRAPH, "the default of '%s' is a reference", name);
        }
        *pb = found;
    }
    return TMK_OK;
}

/* Files of IR version 1 do not state which field holds the value. */
static int type_of(const TmkPb__Attribute *pb) {
    return pb->type        ? pb->type
           : pb->has_f     ? TMK_ONNX_FLOAT
           : pb->has_i     ? TMK_ONNX_INT
           : pb->has_s     ? TMK_ONNX_STRING
           : pb->t         ? TMK_ONNX_TENSOR
           : pb->g         ? TMK_ONNX_GRAPH
           : pb->tp        ? TMK_ONNX_TYPE_PROTO
           : pb->n_floats  ? TMK_ONNX_FLOATS
           : pb->n_ints    ? TMK_ONNX_INTS
           : pb->n_strings ? TMK_ONNX_STRINGS
           : pb->n_tensors ? TMK_ONNX_TENSORS
           : pb->n_graphs  ? TMK_ONNX_GRAPHS
                           : 0;
}

/* Attributes of ONNX's operators that name an element type, which is float32 now where it was
 * widened. */
static bool names_a_dtype(const struct tmk_node *node, const char *name) {
    static const char *const names[] = {"to",          "dtype",     "output_datatype",
                                        "stash_type",  "precision", "softmax_precision",
                                        "output_dtype"};
    if (*node->domain)
        return false;
    for (size_t i = 0; i < TMK_COUNT(names); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* The type that the attribute names stays with the node's result. */
static int64_t widened_int(const struct tmk_node *node, const TmkPb__Attribute *pb,
                           const char *name) {
    if (pb->i <= TMK_UNDEFINED || pb->i >= TMK_N_DTYPES || !names_a_dtype(node, name))
        return pb->i;
    if (node->n_outputs && node->outputs[0])
        node->outputs[0]->type.origin = (enum tmk_dtype)pb->i;
    return tmk_onnx_widened((enum tmk_dtype)pb->i);
}

/* Cast had names of types before operator set 6. */
static void set_string(const struct tmk_node *node, const TmkPb__Attribute *pb,
                       struct tmk_attr *attr) {
    static const char *const wide[] = {"FLOAT16", "BFLOAT16", "DOUBLE"};
    attr->kind = TMK_ATTR_STRING;
    attr->n = pb->s.len;
    attr->s = pb->s.len ? (const char *)pb->s.data : "";
    if (!names_a_dtype(node, attr->name))
        return;
    for (size_t i = 0; i < TMK_COUNT(wide); i++)
        if (attr->n == strlen(wide[i]) && memcmp(attr->s, wide[i], attr->n) == 0) {
            attr->s = "FLOAT";
            attr->n = strlen(attr->s);
        }
}

static enum tmk_status set_strings(struct tmk_onnx_builder *b, struct tmk_node *node,
                                   const TmkPb__Attribute *pb, struct tmk_attr *attr) {
    const char **strings = tmk_arena_array(&b->scratch, pb->n_strings, sizeof(char *));
    TMK_TRY_ALLOC(strings, b->diag);
    for (size_t i = 0; i < pb->n_strings; i++) {
        const ProtobufCBinaryData *s = &pb->strings[i];
        strings[i] = s->len ? tmk_arena_strndup(&b->scratch, (const char *)s->data, s->len) : "";
        TMK_TRY_ALLOC(strings[i], b->diag);
    }
    attr->kind = TMK_ATTR_STRINGS;
    attr->n = pb->n_strings;
    attr->strings = strings;
    return tmk_node_set_attr(node, attr, b->diag);
}

static enum tmk_status set_tensors(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope,
                                   struct tmk_node *node, TmkPb__Tensor *const *pb, size_t n,
                                   struct tmk_attr *attr) {
    struct tmk_tensor *tensors = tmk_arena_array(&b->scratch, n, sizeof *tensors);
    enum tmk_status status = tensors ? TMK_OK : tmk_nomem(b->diag);
    size_t made = 0;
    while (status == TMK_OK && made < n) {
        status = tmk_onnx_tensor(b->file, pb[made], &tensors[made], b->diag);
        TMK_THEN(status, tmk_onnx_charge(b, scope, tmk_tensor_bytes(&tensors[made++])));
    }
    attr->n = n;
    attr->tensors = tensors;
    TMK_THEN(status, tmk_node_set_attr(node, attr, b->diag));
    while (made)
        tmk_tensor_finish(&tensors[--made]);
    return status;
}

/* Constant's sparse_value becomes its value. */
static enum tmk_status set_dense(struct tmk_onnx_builder *b, const struct tmk_onnx_scope *scope,
                                 struct tmk_node *node, const TmkPb__Sparse *pb) {
    struct tmk_tensor tensor;
    TMK_TRY(tmk_onnx_sparse(b->file, pb, &tensor, b->diag));
    const struct tmk_attr attr = {
        .name = "value", .kind = TMK_ATTR_TENSOR, .n = 1, .tensors = &tensor};
    enum tmk_status status = tmk_onnx_charge(b, scope, tmk_tensor_bytes(&tensor));
    TMK_THEN(status, tmk_node_set_attr(node, &attr, b->diag));
    tmk_tensor_finish(&tensor);
    return status;
}

/* The graphs are hung on the node before they are filled, so that they always go with it. */
static enum tmk_status set_graphs(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope,
                                  struct tmk_node *node, TmkPb__Graph *const *pb, size_t n,
                                  struct tmk_attr *attr) {
    int depth = 1;
    for (const struct tmk_graph *g = node->graph; g->parent; g = g->parent)
        depth++;
    if (depth > MAX_GRAPHS)
        return tmk_fail(b->diag, TMK_UNSUPPORTED, "more than %d graphs within each other",
                        MAX_GRAPHS);
    struct tmk_graph **graphs = tmk_arena_array(&b->scratch, n, sizeof(struct tmk_graph *));
    TMK_TRY_ALLOC(graphs, b->diag);
    for (size_t i = 0; i < n; i++)
        TMK_TRY(tmk_graph_create_sub(node->graph, tmk_onnx_text(pb[i]->name), &graphs[i], b->diag));
    attr->n = n;
    attr->graphs = graphs;
    TMK_TRY(tmk_node_set_attr(node, attr, b->diag));
    for (size_t i = 0; i < n; i++) {
        struct tmk_onnx_scope *inner;
        TMK_TRY(tmk_onnx_scope_create(b, graphs[i], &inner));
        inner->outer = scope;
        inner->call = scope->call;
        inner->prefix = scope->prefix;
        TMK_TRY(tmk_in(b->diag, tmk_onnx_fill_graph(b, inner, pb[i]), "graph '%s'",
                       tmk_onnx_text(pb[i]->name)));
    }
    return TMK_OK;
}

static enum tmk_status set_type(struct tmk_onnx_builder *b, struct tmk_node *node,
                                const TmkPb__Type *pb, const char *name) {
    struct tmk_type type;
    TMK_TRY(tmk_onnx_type(pb, &type, b->diag));
    struct tmk_attr attr = {.name = name, .kind = TMK_ATTR_TYPE, .type = &type};
    return tmk_node_set_attr(node, &attr, b->diag);
}

/* `pb` holds the value, `name` is what the node calls it. */
static enum tmk_status set_value(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope,
                                 struct tmk_node *node, const char *name,
                                 const TmkPb__Attribute *pb) {
    struct tmk_attr attr = {.name = name};
    switch (type_of(pb)) {
    case TMK_ONNX_FLOAT:
        attr.kind = TMK_ATTR_FLOAT;
        attr.f = pb->f;
        break;
    case TMK_ONNX_INT:
        attr.kind = TMK_ATTR_INT;
        attr.i = widened_int(node, pb, name);
        break;
    case TMK_ONNX_STRING:
        set_string(node, pb, &attr);
        break;
    case TMK_ONNX_FLOATS:
        attr.kind = TMK_ATTR_FLOATS;
        attr.n = pb->n_floats;
        attr.floats = pb->floats;
        break;
    case TMK_ONNX_INTS:
        attr.kind = TMK_ATTR_INTS;
        attr.n = pb->n_ints;
        attr.ints = pb->ints;
        break;
    case TMK_ONNX_STRINGS:
        return set_strings(b, node, pb, &attr);
    case TMK_ONNX_TENSOR:
    case TMK_ONNX_TENSORS:
        attr.kind = type_of(pb) == TMK_ONNX_TENSOR ? TMK_ATTR_TENSOR : TMK_ATTR_TENSORS;
        if (attr.kind == TMK_ATTR_TENSORS)
            return set_tensors(b, scope, node, pb->tensors, pb->n_tensors, &attr);
        if (pb->t)
            return set_tensors(b, scope, node, &pb->t, 1, &attr);
        break;
    case TMK_ONNX_GRAPH:
    case TMK_ONNX_GRAPHS:
        attr.kind = type_of(pb) == TMK_ONNX_GRAPH ? TMK_ATTR_GRAPH : TMK_ATTR_GRAPHS;
        if (attr.kind == TMK_ATTR_GRAPHS)
            return set_graphs(b, scope, node, pb->graphs, pb->n_graphs, &attr);
        if (pb->g)
            return set_graphs(b, scope, node, &pb->g, 1, &attr);
        break;
    case TMK_ONNX_TYPE_PROTO:
        return set_type(b, node, pb->tp, name);
    case TMK_ONNX_SPARSE_TENSOR:
        if (pb->sparse_tensor && tmk_node_is(node, TMK_DOMAIN_ONNX, "Constant"))
            return set_dense(b, scope, node, pb->sparse_tensor);
        return tmk_fail(b->diag, TMK_UNSUPPORTED, "sparse tensors are Constant's only");
    case TMK_ONNX_SPARSE_TENSORS:
        return tmk_fail(b->diag, TMK_UNSUPPORTED, "sparse tensors are not supported");
    default:
        return tmk_fail(b->diag, TMK_UNSUPPORTED, "attribute type %d is not supported",
                        type_of(pb));
    }
    if (attr.kind == TMK_ATTR_TENSOR || attr.kind == TMK_ATTR_GRAPH)
        return tmk_fail(b->diag, TMK_FORMAT, "has no value");
    TMK_TRY(tmk_onnx_charge(b, scope,
                            attr.kind == TMK_ATTR_INTS     ? attr.n * sizeof(int64_t)
                            : attr.kind == TMK_ATTR_FLOATS ? attr.n * sizeof(float)
                            : attr.kind == TMK_ATTR_STRING ? attr.n
                                                           : sizeof attr));
    return tmk_node_set_attr(node, &attr, b->diag);
}

/* Sets the attribute, seen from `scope`. */
static enum tmk_status onnx_set_attr(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope,
                                     struct tmk_node *node, const TmkPb__Attribute *pb) {
    const char *name = tmk_onnx_text(pb->name);
    if (!*name)
        return tmk_fail(b->diag, TMK_FORMAT, "an attribute without a name");
    if (tmk_node_attr(node, name))
        return tmk_fail(b->diag, TMK_FORMAT, "attribute '%s' stands twice", name);
    enum tmk_status status = follow_reference(b, &scope, &pb);
    if (status == TMK_OK && pb)
        status = set_value(b, scope, node, name, pb);
    return tmk_in(b->diag, status, "attribute '%s'", name);
}

enum { MAX_CALLS = 64 }; /* within each other */
enum { MAX_ATTRIBUTES = 1000 };
enum { NODE_COST = 2048 }; /* bytes, about, that a node takes with its values and names */

/* ---- functions ---- */

static char *function_key(struct tmk_arena *arena, const char *domain, const char *name,
                          const char *overload) {
    return tmk_arena_printf(arena, "%s/%s/%s", tmk_onnx_domain(domain), tmk_onnx_text(name),
                            tmk_onnx_text(overload));
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
    return tmk_arena_printf(&b->scratch, "%s/%s", scope->prefix, name);
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
        free_name = tmk_arena_printf(&b->scratch, "%s_%zu", wanted, ++*count);
        TMK_TRY_ALLOC(free_name, b->diag);
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
        TMK_TRY(onnx_set_attr(b, scope, pending->node, pending->pb->attribute[i]));
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
