/* SPDX-License-Identifier: Apache-2.0 */
/* tvm.ir.save_json as a module: every call, tuple and projection gets a number, operands first. */
#include "relay/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/memory.h"
#include "base/size.h"

/* ---- expressions ---- */

static enum tmk_status new_json_expr(struct tmk_relay_json *from, enum tmk_relay_expr_kind kind,
                                     struct tmk_relay_expr **out) {
    return tmk_relay_new_expr(from->nodes.in, kind, (struct tmk_relay_place){0}, out);
}

static enum tmk_status set_json_expr(struct tmk_relay_json *from, int64_t index,
                                     struct tmk_relay_expr *expr) {
    from->exprs[index] = expr;
    return tmk_relay_push(from->nodes.in, &from->known, &index);
}

static void clear_exprs(struct tmk_relay_json *from, size_t base) {
    while (from->known.used > base) {
        int64_t index;
        from->known.used -= sizeof index;
        memcpy(&index, from->known.data + from->known.used, sizeof index);
        from->exprs[index] = NULL;
    }
}

/* Another expression of what node `index` is, which is known. */
static enum tmk_status copy_json_expr(struct tmk_relay_json *from, int64_t index,
                                      struct tmk_relay_expr **out) {
    TMK_TRY(new_json_expr(from, from->exprs[index]->kind, out));
    **out = *from->exprs[index];
    return TMK_OK;
}

/* `%N = expr`; node `index` is a use of it from here on. */
static enum tmk_status bind_number(struct tmk_relay_json *from, int64_t index,
                                   const struct tmk_relay_node *node, struct tmk_relay_expr *expr) {
    struct tmk_relay_reader *in = from->nodes.in;
    struct tmk_relay_binding *binding;
    struct tmk_relay_expr *use;
    char name[16];
    TMK_RELAY_NEW(in, binding);
    TMK_TRY(tmk_relay_json_type(from, tmk_relay_node_ref(node, "_checked_type_"), &expr->type));
    TMK_TRY(tmk_relay_json_span(from, node, &expr->span));
    snprintf(name, sizeof name, "%" PRIu32, from->next++);
    TMK_TRY(tmk_relay_json_string(from, name, &binding->name));
    binding->kind = TMK_RELAY_NUMBERED;
    binding->expr = expr;
    TMK_TRY(tmk_relay_push(in, &in->pointers, &binding));
    TMK_TRY(new_json_expr(from, TMK_RELAY_USE, &use));
    use->binding = binding;
    return set_json_expr(from, index, use);
}

static enum tmk_status read_function(struct tmk_relay_json *from, int64_t index,
                                     struct tmk_relay_function *fn);

static enum tmk_status read_constant(struct tmk_relay_json *from, int64_t index,
                                     const struct tmk_relay_node *node,
                                     struct tmk_relay_expr *expr) {
    struct tmk_relay_reader *in = from->nodes.in;
    const struct tmk_tensor *tensor = NULL;
    const char *dtype = NULL;
    TMK_TRY(tmk_relay_nodes_tensor(&from->nodes, index, tmk_relay_node_attr(node, "data"), &tensor,
                                   &dtype));
    expr->kind = TMK_RELAY_METADATA;
    expr->text = "relay.Constant";
    expr->index = in->module->n_constants;
    expr->data = *tensor;
    expr->dtype = dtype;
    in->module->has_metadata = true;
    TMK_TRY(tmk_relay_add_constant(in->module, tensor, dtype, in->diag));
    return tmk_relay_json_type(from, tmk_relay_node_ref(node, "_checked_type_"), &expr->type);
}

/* What has no operands. */
static enum tmk_status read_leaf(struct tmk_relay_json *from, int64_t index,
                                 const struct tmk_relay_node *node) {
    const char *key = node->type + (strncmp(node->type, "relay.", 6) ? 0 : 6);
    struct tmk_relay_expr *expr;
    TMK_TRY(new_json_expr(from, TMK_RELAY_OPERATOR, &expr));
    if (!strcmp(node->type, "relay.Var"))
        return tmk_relay_node_fail(&from->nodes, index, "a variable that nothing declares");
    if (!strcmp(key, "Op")) {
        TMK_TRY(tmk_relay_json_string(from, node->text, &expr->text));
    } else if (!strcmp(key, "GlobalVar")) {
        expr->kind = TMK_RELAY_GLOBAL;
        TMK_TRY(tmk_relay_json_name(from, node, "name_hint", &expr->text));
    } else if (!strcmp(node->type, "relay.Constant")) {
        TMK_TRY(read_constant(from, index, node, expr));
    } else {
        return tmk_relay_node_fail(&from->nodes, index, "%.100s is not read as an expression",
                                   node->type);
    }
    return set_json_expr(from, index, expr);
}

/* Expressions with operands: in an attribute, and in a list that one names. */
struct node_kind {
    const char *type;
    enum tmk_relay_expr_kind kind;
    const char *operand, *list;
};

static const struct node_kind *find_node_kind(const struct tmk_relay_node *node) {
    static const struct node_kind kinds[] = {
        {"relay.Call", TMK_RELAY_CALL, "op", "args"},
        {"relay.Tuple", TMK_RELAY_ITEMS, NULL, "fields"},
        {"relay.TupleGetItem", TMK_RELAY_PROJECT, "tuple_value", NULL},
        {"relay.If", TMK_RELAY_IF, "cond", NULL},
        {"relay.Function", TMK_RELAY_FN, NULL, NULL}};
    for (size_t i = 0; i < TMK_COUNT(kinds); i++)
        if (!strcmp(node->type, kinds[i].type))
            return &kinds[i];
    return NULL;
}

/* The nodes that must be known before this one. */
struct node_operands {
    int64_t single;
    const int64_t *rest;
    uint32_t n, n_single; /* of all; 1: there is a single one, which comes first */
};

static enum tmk_status find_operands(struct tmk_relay_json *from, const struct node_kind *kind,
                                     const struct tmk_relay_node *node, struct node_operands *out) {
    const struct tmk_relay_node *list;
    struct node_operands all = {.n_single = kind->operand != NULL};
    if (kind->operand)
        all.single = tmk_relay_node_ref(node, kind->operand);
    all.n = all.n_single;
    if (kind->list) {
        TMK_TRY(tmk_relay_node(&from->nodes, tmk_relay_node_ref(node, kind->list), &list));
        all.rest = list->data;
        all.n += list->n_data;
    }
    *out = all;
    return TMK_OK;
}

static int64_t operand_at(const struct node_operands *all, uint32_t i) {
    return i < all->n_single ? all->single : all->rest[i - all->n_single];
}

static enum tmk_status read_body(struct tmk_relay_json *from, int64_t index,
                                 struct tmk_relay_body *body);

static enum tmk_status read_branch(struct tmk_relay_json *from, int64_t index,
                                   struct tmk_relay_body **out) {
    TMK_RELAY_NEW(from->nodes.in, *out);
    return read_body(from, index, *out);
}

/* The node's expression, now that its operands are known. */
static enum tmk_status build_expr(struct tmk_relay_json *from, int64_t index,
                                  const struct node_kind *kind, const struct tmk_relay_node *node,
                                  const struct node_operands *all) {
    struct tmk_relay_reader *in = from->nodes.in;
    struct tmk_relay_expr *expr, *operand;
    size_t args = in->pointers.used;
    const bool call = kind->kind == TMK_RELAY_CALL;
    TMK_TRY(new_json_expr(from, kind->kind, &expr));
    if (call) {
        TMK_TRY(copy_json_expr(from, all->single, &expr->callee));
        TMK_TRY(tmk_relay_json_attrs(from, tmk_relay_node_ref(node, "attrs"),
                                     expr->callee->text ? expr->callee->text : "", &expr->attrs,
                                     &expr->n_attrs));
    } else if (kind->kind == TMK_RELAY_PROJECT) {
        expr->index = (uint32_t)tmk_relay_node_ref(node, "index");
    } else if (kind->kind == TMK_RELAY_IF) {
        TMK_TRY(read_branch(from, tmk_relay_node_ref(node, "true_branch"), &expr->body));
        TMK_TRY(read_branch(from, tmk_relay_node_ref(node, "false_branch"), &expr->otherwise));
    } else if (kind->kind == TMK_RELAY_FN) {
        TMK_RELAY_NEW(in, expr->fn);
        expr->fn->name = "";
        TMK_TRY(read_function(from, index, expr->fn));
    }
    for (uint32_t i = call; i < all->n; i++) {
        TMK_TRY(copy_json_expr(from, operand_at(all, i), &operand));
        TMK_TRY(tmk_relay_push(in, &in->pointers, &operand));
    }
    TMK_TRY(tmk_relay_pop(in, &in->pointers, args, &expr->args, &expr->n_args));
    return bind_number(from, index, node, expr);
}

static enum tmk_status push_todo(struct tmk_relay_json *from, int64_t index) {
    TMK_TRY_ALLOC(TMK_GROW(from->todo, from->n_todo, from->todo_size), from->nodes.in->diag);
    from->todo[from->n_todo++] = index;
    return tmk_relay_part(from->nodes.in);
}

/* Builds the node on top of the list, or puts there what it needs first. */
static enum tmk_status build_top(struct tmk_relay_json *from, int64_t index,
                                 const struct tmk_relay_node *node) {
    const struct node_kind *kind = find_node_kind(node);
    struct node_operands all;
    bool missing = false;
    if (!kind)
        return read_leaf(from, index, node);
    TMK_TRY(find_operands(from, kind, node, &all));
    for (uint32_t i = all.n; i-- > 0;) {
        int64_t operand = operand_at(&all, i);
        if (operand < 0 || (uint64_t)operand >= from->nodes.items.n)
            return tmk_relay_node_fail(&from->nodes, index, "an operand that there is not");
        if (!from->exprs[operand]) {
            missing = true;
            TMK_TRY(push_todo(from, operand));
        }
    }
    if (missing && from->open[index])
        return tmk_relay_node_fail(&from->nodes, index, "it needs itself");
    from->open[index] = missing;
    return missing ? TMK_OK : build_expr(from, index, kind, node, &all);
}

static enum tmk_status read_expr(struct tmk_relay_json *from, int64_t index,
                                 struct tmk_relay_expr **out) {
    size_t base = from->n_todo;
    TMK_TRY(push_todo(from, index));
    while (from->n_todo > base) {
        int64_t top = from->todo[from->n_todo - 1];
        const struct tmk_relay_node *node;
        TMK_TRY(tmk_relay_node(&from->nodes, top, &node));
        if (from->exprs[top])
            from->n_todo--;
        else
            TMK_TRY(build_top(from, top, node));
    }
    return copy_json_expr(from, index, out);
}

/* ---- variables, bodies, functions ---- */

/* Names differ within a definition: a counter goes behind those that were there before. */
static enum tmk_status own_name(struct tmk_relay_json *from, const char *hint, const char **out) {
    struct tmk_relay_word *word, *made;
    TMK_TRY(tmk_relay_word(from->nodes.in, hint, strlen(hint), &word));
    made = word;
    while (made->bound == from->definition) {
        char name[RELAY_MAX_NAME + 16];
        snprintf(name, sizeof name, "%s%" PRIu32, word->text, ++word->copies);
        TMK_TRY(tmk_relay_word(from->nodes.in, name, strlen(name), &made));
    }
    made->bound = from->definition;
    *out = made->text;
    return TMK_OK;
}

static enum tmk_status read_variable(struct tmk_relay_json *from, int64_t index,
                                     enum tmk_relay_binding_kind kind,
                                     struct tmk_relay_binding **out) {
    struct tmk_relay_binding *binding;
    const struct tmk_relay_node *node, *id;
    struct tmk_relay_expr *use;
    const char *hint;
    TMK_RELAY_NEW(from->nodes.in, binding);
    TMK_TRY(tmk_relay_node(&from->nodes, index, &node));
    if (from->exprs[index])
        return tmk_relay_node_fail(&from->nodes, index, "declared twice");
    if (strcmp(node->type, "relay.Var") != 0)
        return tmk_relay_node_fail(&from->nodes, index, "expected a variable");
    TMK_TRY(tmk_relay_node(&from->nodes, tmk_relay_node_ref(node, "vid"), &id));
    TMK_TRY(tmk_relay_json_name(from, id, "name_hint", &hint));
    TMK_TRY(own_name(from, hint, &binding->name));
    TMK_TRY(tmk_relay_json_type(from, tmk_relay_node_ref(node, "type_annotation"), &binding->type));
    TMK_TRY(
        tmk_relay_json_type(from, tmk_relay_node_ref(node, "_checked_type_"), &binding->checked));
    TMK_TRY(tmk_relay_json_span(from, node, &binding->span));
    binding->kind = kind;
    *out = binding;
    TMK_TRY(new_json_expr(from, TMK_RELAY_USE, &use));
    use->binding = binding;
    return set_json_expr(from, index, use);
}

/* `let var = value` of a node. */
static enum tmk_status read_let(struct tmk_relay_json *from, const struct tmk_relay_node *node) {
    struct tmk_relay_binding *binding;
    TMK_TRY(read_variable(from, tmk_relay_node_ref(node, "var"), TMK_RELAY_LET, &binding));
    TMK_TRY(read_expr(from, tmk_relay_node_ref(node, "value"), &binding->expr));
    return tmk_relay_push(from->nodes.in, &from->nodes.in->pointers, &binding);
}

static enum tmk_status read_body(struct tmk_relay_json *from, int64_t index,
                                 struct tmk_relay_body *body) {
    struct tmk_relay_reader *in = from->nodes.in;
    size_t base = in->pointers.used, known = from->known.used;
    const struct tmk_relay_node *node;
    TMK_TRY(tmk_relay_enter(in));
    for (;; index = tmk_relay_node_ref(node, "body")) {
        TMK_TRY(tmk_relay_part(in));
        TMK_TRY(tmk_relay_node(&from->nodes, index, &node));
        if (strcmp(node->type, "relay.Let") != 0)
            break;
        TMK_TRY(read_let(from, node));
    }
    TMK_TRY(read_expr(from, index, &body->result));
    TMK_TRY(tmk_relay_pop(in, &in->pointers, base, &body->bindings, &body->n));
    const struct tmk_relay_expr *result = body->result;
    if (result->kind == TMK_RELAY_USE && body->n &&
        result->binding == body->bindings[body->n - 1] &&
        result->binding->kind == TMK_RELAY_NUMBERED)
        body->result = body->bindings[--body->n]->expr; /* the result needs no number */
    clear_exprs(from, known);
    in->depth--;
    return TMK_OK;
}

static enum tmk_status read_function(struct tmk_relay_json *from, int64_t index,
                                     struct tmk_relay_function *fn) {
    struct tmk_relay_reader *in = from->nodes.in;
    const struct tmk_relay_node *node, *list;
    size_t params = in->pointers.used, known = from->known.used;
    TMK_TRY(tmk_relay_node(&from->nodes, index, &node));
    if (strcmp(node->type, "relay.Function") != 0)
        return tmk_relay_node_fail(&from->nodes, index, "expected a function");
    TMK_TRY(tmk_relay_node(&from->nodes, tmk_relay_node_ref(node, "params"), &list));
    for (uint32_t i = 0; i < list->n_data; i++) {
        struct tmk_relay_binding *param;
        TMK_TRY(read_variable(from, list->data[i], TMK_RELAY_PARAM, &param));
        TMK_TRY(tmk_relay_push(in, &in->pointers, &param));
    }
    TMK_TRY(tmk_relay_pop(in, &in->pointers, params, &fn->params, &fn->n_params));
    TMK_TRY(tmk_relay_json_dict(from, tmk_relay_node_ref(node, "attrs"), &fn->attrs, &fn->n_attrs));
    TMK_TRY(tmk_relay_json_type(from, tmk_relay_node_ref(node, "ret_type"), &fn->result));
    TMK_TRY(read_body(from, tmk_relay_node_ref(node, "body"), &fn->body));
    clear_exprs(from, known);
    return TMK_OK;
}

static enum tmk_status read_definition(struct tmk_relay_json *from, const char *name,
                                       int64_t index) {
    struct tmk_relay_reader *in = from->nodes.in;
    struct tmk_relay_function *fn;
    TMK_RELAY_NEW(in, fn);
    fn->form = TMK_RELAY_DEF_FORM;
    fn->name = name;
    from->definition++;
    from->next = 0;
    TMK_TRY(read_function(from, index, fn));
    return tmk_relay_push(in, &in->pointers, &fn);
}

/* ---- the module ---- */

static int by_name(const void *a, const void *b) {
    struct tmk_relay_function *const *one = a, *const *other = b;
    return strcmp((*one)->name, (*other)->name);
}

static enum tmk_status read_functions(struct tmk_relay_json *from, int64_t map) {
    const struct tmk_relay_node *pairs, *global;
    TMK_TRY(tmk_relay_node(&from->nodes, map, &pairs));
    for (uint32_t i = 0; i + 1 < pairs->n_data; i += 2) {
        const char *name;
        TMK_TRY(tmk_relay_node(&from->nodes, pairs->data[i], &global));
        TMK_TRY(tmk_relay_json_name(from, global, "name_hint", &name));
        TMK_TRY(read_definition(from, name, pairs->data[i + 1]));
    }
    return TMK_OK;
}

static enum tmk_status read_module(struct tmk_relay_json *from) {
    struct tmk_relay_reader *in = from->nodes.in;
    struct tmk_relay_module *module = in->module;
    const struct tmk_relay_node *root;
    TMK_TRY(tmk_relay_node(&from->nodes, from->nodes.root, &root));
    if (!strcmp(root->type, "IRModule"))
        TMK_TRY(read_functions(from, tmk_relay_node_ref(root, "functions")));
    else
        TMK_TRY(read_definition(from, "main", from->nodes.root));
    TMK_TRY(tmk_relay_pop(in, &in->pointers, 0, &module->functions, &module->n_functions));
    if (!module->n_functions)
        return tmk_relay_fail(in, tmk_relay_nodes_place(&from->nodes, from->nodes.json),
                              "no functions");
    qsort(module->functions, module->n_functions, sizeof(struct tmk_relay_function *), by_name);
    return TMK_OK;
}

enum tmk_status tmk_relay_parse_json(struct tmk_relay_reader *in, const char *json, size_t len) {
    struct tmk_relay_json from = {.nodes = {.in = in, .json = json, .len = len, .what = ""},
                                  .known = {.element = sizeof(int64_t)}};
    enum tmk_status status = tmk_relay_nodes_open(&from.nodes);
    if (status == TMK_OK) {
        size_t n = from.nodes.items.n + 1;
        from.exprs = calloc(n, sizeof(struct tmk_relay_expr *));
        from.types = calloc(n, sizeof(struct tmk_relay_type *));
        from.open = calloc(n, sizeof(bool));
        status = from.exprs && from.types && from.open ? read_module(&from) : tmk_nomem(in->diag);
    }
    tmk_relay_nodes_finish(&from.nodes);
    free(from.exprs);
    free(from.types);
    free(from.open);
    free(from.todo);
    free(from.known.data);
    return status;
}
