/* SPDX-License-Identifier: Apache-2.0 */
/* tvm.ir.save_json as a module: every call, tuple and projection gets a number, operands first. */
#include "relay/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/memory.h"

/* ---- expressions ---- */

static enum tmk_status new_json_expr(struct tmk_relay_json *from, enum tmk_relay_expr_kind kind,
                                     struct tmk_relay_expr **out) {
    TMK_TRY(tmk_relay_part(from->nodes.in));
    struct tmk_relay_expr *expr = tmk_arena_alloc(&from->nodes.in->module->arena, sizeof *expr);
    TMK_TRY_ALLOC(expr, from->nodes.in->diag);
    expr->kind = kind;
    *out = expr;
    return TMK_OK;
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
static enum tmk_status bind_number(struct tmk_relay_json *from, int64_t index, const cJSON *node,
                                   struct tmk_relay_expr *expr) {
    struct tmk_relay_reader *in = from->nodes.in;
    struct tmk_relay_binding *binding = tmk_arena_alloc(&in->module->arena, sizeof *binding);
    struct tmk_relay_expr *use;
    char name[16];
    TMK_TRY_ALLOC(binding, in->diag);
    TMK_TRY(tmk_relay_json_type(from, tmk_relay_json_ref(node, "_checked_type_"), &expr->type));
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

/* What has no operands. *out NULL: `node` has. */
static enum tmk_status read_leaf(struct tmk_relay_json *from, int64_t index, const cJSON *node,
                                 struct tmk_relay_expr **out) {
    const char *key = tmk_relay_json_text(node, "type_key");
    struct tmk_relay_expr *expr;
    *out = NULL;
    if (!strcmp(key, "relay.Var"))
        return tmk_relay_node_fail(&from->nodes, index, "a variable that nothing declares");
    TMK_TRY(new_json_expr(from, TMK_RELAY_OPERATOR, &expr));
    if (!strcmp(key, "Op") || !strcmp(key, "relay.Op")) {
        TMK_TRY(tmk_relay_json_string(from, tmk_relay_json_text(node, "repr_str"), &expr->text));
    } else if (!strcmp(key, "GlobalVar") || !strcmp(key, "relay.GlobalVar")) {
        expr->kind = TMK_RELAY_GLOBAL;
        TMK_TRY(tmk_relay_json_name(from, node, "name_hint", &expr->text));
    } else if (!strcmp(key, "relay.Constant")) {
        struct tmk_relay_reader *in = from->nodes.in;
        const struct tmk_tensor *tensor = NULL;
        const char *dtype = NULL;
        TMK_TRY(tmk_relay_nodes_tensor(&from->nodes, index, tmk_relay_json_attr(node, "data"),
                                       &tensor, &dtype));
        TMK_TRY_ALLOC(TMK_GROW(from->constants, from->n_constants, from->constants_size), in->diag);
        TMK_TRY_ALLOC(TMK_GROW(from->dtypes, from->n_constants, from->dtypes_size), in->diag);
        expr->kind = TMK_RELAY_METADATA;
        expr->text = "relay.Constant";
        expr->index = (uint32_t)from->n_constants;
        expr->data = *tensor;
        expr->dtype = dtype;
        TMK_TRY(tmk_relay_json_type(from, tmk_relay_json_ref(node, "_checked_type_"), &expr->type));
        from->dtypes[from->n_constants] = dtype;
        tmk_tensor_share(&from->constants[from->n_constants++], tensor);
    } else {
        return TMK_OK;
    }
    *out = expr;
    return set_json_expr(from, index, expr);
}

/* The nodes that must be known before this one, pushed onto `dims`. */
static enum tmk_status push_operands(struct tmk_relay_json *from, int64_t index,
                                     const cJSON *node) {
    static const struct {
        const char *key, *operand, *list;
    } kinds[] = {{"relay.Call", "op", "args"},
                 {"relay.Tuple", NULL, "fields"},
                 {"relay.TupleGetItem", "tuple_value", NULL},
                 {"relay.If", "cond", NULL},
                 {"relay.Function", NULL, NULL}};
    const char *key = tmk_relay_json_text(node, "type_key");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(key, kinds[i].key)) {
            if (kinds[i].operand) {
                int64_t operand = tmk_relay_json_ref(node, kinds[i].operand);
                TMK_TRY(tmk_relay_push(from->nodes.in, &from->nodes.in->dims, &operand));
            }
            return kinds[i].list
                       ? tmk_relay_json_list(from, tmk_relay_json_ref(node, kinds[i].list))
                       : TMK_OK;
        }
    return tmk_relay_node_fail(&from->nodes, index, "%.100s is not read as an expression", key);
}

static enum tmk_status read_body(struct tmk_relay_json *from, int64_t index,
                                 struct tmk_relay_body *body);

static enum tmk_status read_branch(struct tmk_relay_json *from, int64_t index,
                                   struct tmk_relay_body **out) {
    *out = tmk_arena_alloc(&from->nodes.in->module->arena, sizeof **out);
    return *out ? read_body(from, index, *out) : tmk_nomem(from->nodes.in->diag);
}

/* The node's expression, now that its operands (above `base`) are known. */
static enum tmk_status build_expr(struct tmk_relay_json *from, int64_t index, const cJSON *node,
                                  size_t base) {
    struct tmk_relay_reader *in = from->nodes.in;
    const char *key = tmk_relay_json_text(node, "type_key");
    struct tmk_relay_expr *expr, *operand;
    size_t n = tmk_relay_json_listed_count(from, base), args = in->pointers.used, first = 0;
    TMK_TRY(new_json_expr(from, TMK_RELAY_ITEMS, &expr));
    if (!strcmp(key, "relay.Call")) {
        expr->kind = TMK_RELAY_CALL;
        TMK_TRY(copy_json_expr(from, tmk_relay_json_listed(from, base, first++), &expr->callee));
        TMK_TRY(tmk_relay_json_attrs(from, tmk_relay_json_ref(node, "attrs"), &expr->attrs,
                                     &expr->n_attrs));
    } else if (!strcmp(key, "relay.TupleGetItem")) {
        expr->kind = TMK_RELAY_PROJECT;
        expr->index = (uint32_t)tmk_relay_json_ref(node, "index");
    } else if (!strcmp(key, "relay.If")) {
        expr->kind = TMK_RELAY_IF;
        TMK_TRY(read_branch(from, tmk_relay_json_ref(node, "true_branch"), &expr->body));
        TMK_TRY(read_branch(from, tmk_relay_json_ref(node, "false_branch"), &expr->otherwise));
    } else if (!strcmp(key, "relay.Function")) {
        expr->kind = TMK_RELAY_FN;
        expr->fn = tmk_arena_alloc(&in->module->arena, sizeof *expr->fn);
        TMK_TRY_ALLOC(expr->fn, in->diag);
        expr->fn->name = "";
        TMK_TRY(read_function(from, index, expr->fn));
    }
    for (size_t i = first; i < n; i++) {
        TMK_TRY(copy_json_expr(from, tmk_relay_json_listed(from, base, i), &operand));
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
static enum tmk_status build_top(struct tmk_relay_json *from, int64_t index, const cJSON *node) {
    struct tmk_relay_reader *in = from->nodes.in;
    struct tmk_relay_expr *leaf;
    const char *key = tmk_relay_json_text(node, "type_key");
    if (strcmp(key, "relay.Call") != 0 && strcmp(key, "relay.Tuple") != 0 &&
        strcmp(key, "relay.TupleGetItem") != 0 && strcmp(key, "relay.If") != 0 &&
        strcmp(key, "relay.Function") != 0) {
        TMK_TRY(read_leaf(from, index, node, &leaf));
        if (leaf)
            return TMK_OK;
    }
    size_t base = in->dims.used, missing = 0;
    TMK_TRY(push_operands(from, index, node));
    for (size_t i = tmk_relay_json_listed_count(from, base); i-- > 0;) {
        int64_t operand = tmk_relay_json_listed(from, base, i);
        if (operand < 0 || (uint64_t)operand >= from->nodes.items.n)
            return tmk_relay_node_fail(&from->nodes, index, "an operand that there is not");
        if (!from->exprs[operand]) {
            missing++;
            TMK_TRY(push_todo(from, operand));
        }
    }
    if (missing && from->open[index])
        return tmk_relay_node_fail(&from->nodes, index, "it needs itself");
    from->open[index] = missing > 0;
    enum tmk_status status = missing ? TMK_OK : build_expr(from, index, node, base);
    in->dims.used = base;
    return status;
}

static enum tmk_status read_expr(struct tmk_relay_json *from, int64_t index,
                                 struct tmk_relay_expr **out) {
    size_t base = from->n_todo;
    TMK_TRY(push_todo(from, index));
    while (from->n_todo > base) {
        int64_t top = from->todo[from->n_todo - 1];
        cJSON *node;
        TMK_TRY(tmk_relay_node(&from->nodes, top, &node));
        enum tmk_status status = TMK_OK;
        if (from->exprs[top])
            from->n_todo--;
        else
            status = build_top(from, top, node);
        cJSON_Delete(node);
        TMK_TRY(status);
    }
    return copy_json_expr(from, index, out);
}

/* ---- variables, bodies, functions ---- */

static enum tmk_status make_variable(struct tmk_relay_json *from, int64_t index, const cJSON *node,
                                     struct tmk_relay_binding *binding) {
    struct tmk_relay_expr *use;
    const char *hint = "";
    cJSON *id;
    if (strcmp(tmk_relay_json_text(node, "type_key"), "relay.Var") != 0)
        return tmk_relay_node_fail(&from->nodes, index, "expected a variable");
    TMK_TRY(tmk_relay_node(&from->nodes, tmk_relay_json_ref(node, "vid"), &id));
    enum tmk_status status = tmk_relay_json_name(from, id, "name_hint", &hint);
    cJSON_Delete(id);
    TMK_TRY(status);
    /* Names differ within a definition: a counter goes behind those that were there before. */
    const char **out = &binding->name;
    struct tmk_relay_reader *in = from->nodes.in;
    struct tmk_relay_word *word, *made;
    TMK_TRY(tmk_relay_word(in, hint, strlen(hint), &word));
    made = word;
    while (made->bound == from->definition) {
        char name[RELAY_MAX_NAME + 16];
        snprintf(name, sizeof name, "%s%" PRIu32, word->text, ++word->copies);
        TMK_TRY(tmk_relay_word(in, name, strlen(name), &made));
    }
    made->bound = from->definition;
    *out = made->text;
    TMK_TRY(tmk_relay_json_type(from, tmk_relay_json_ref(node, "type_annotation"), &binding->type));
    TMK_TRY(
        tmk_relay_json_type(from, tmk_relay_json_ref(node, "_checked_type_"), &binding->checked));
    TMK_TRY(tmk_relay_json_span(from, node, &binding->span));
    TMK_TRY(new_json_expr(from, TMK_RELAY_USE, &use));
    use->binding = binding;
    return set_json_expr(from, index, use);
}

static enum tmk_status read_variable(struct tmk_relay_json *from, int64_t index,
                                     enum tmk_relay_binding_kind kind,
                                     struct tmk_relay_binding **out) {
    cJSON *node;
    *out = tmk_arena_alloc(&from->nodes.in->module->arena, sizeof **out);
    TMK_TRY_ALLOC(*out, from->nodes.in->diag);
    (*out)->kind = kind;
    TMK_TRY(tmk_relay_node(&from->nodes, index, &node));
    enum tmk_status status = from->exprs[index]
                                 ? tmk_relay_node_fail(&from->nodes, index, "declared twice")
                                 : make_variable(from, index, node, *out);
    cJSON_Delete(node);
    return status;
}

/* `let var = value` of node `index`; *rest is its body. *rest 0: it is no let. */
static enum tmk_status read_let(struct tmk_relay_json *from, int64_t index, int64_t *rest) {
    struct tmk_relay_reader *in = from->nodes.in;
    struct tmk_relay_binding *binding;
    cJSON *node;
    TMK_TRY(tmk_relay_node(&from->nodes, index, &node));
    bool let = !strcmp(tmk_relay_json_text(node, "type_key"), "relay.Let");
    int64_t var = tmk_relay_json_ref(node, "var"), value = tmk_relay_json_ref(node, "value");
    *rest = let ? tmk_relay_json_ref(node, "body") : 0;
    cJSON_Delete(node);
    if (!let)
        return TMK_OK;
    TMK_TRY(read_variable(from, var, TMK_RELAY_LET, &binding));
    TMK_TRY(read_expr(from, value, &binding->expr));
    return tmk_relay_push(in, &in->pointers, &binding);
}

static enum tmk_status read_body(struct tmk_relay_json *from, int64_t index,
                                 struct tmk_relay_body *body) {
    struct tmk_relay_reader *in = from->nodes.in;
    size_t base = in->pointers.used, known = from->known.used;
    int64_t rest;
    TMK_TRY(tmk_relay_enter(in));
    for (;;) {
        TMK_TRY(tmk_relay_part(in));
        TMK_TRY(read_let(from, index, &rest));
        if (!rest)
            break;
        index = rest;
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

static enum tmk_status read_parts(struct tmk_relay_json *from, const cJSON *node,
                                  struct tmk_relay_function *fn) {
    struct tmk_relay_reader *in = from->nodes.in;
    size_t base = in->dims.used, params = in->pointers.used, known = from->known.used;
    TMK_TRY(tmk_relay_json_list(from, tmk_relay_json_ref(node, "params")));
    for (size_t i = 0; i < tmk_relay_json_listed_count(from, base); i++) {
        struct tmk_relay_binding *param;
        TMK_TRY(read_variable(from, tmk_relay_json_listed(from, base, i), TMK_RELAY_PARAM, &param));
        TMK_TRY(tmk_relay_push(in, &in->pointers, &param));
    }
    in->dims.used = base;
    TMK_TRY(tmk_relay_pop(in, &in->pointers, params, &fn->params, &fn->n_params));
    TMK_TRY(tmk_relay_json_dict(from, tmk_relay_json_ref(node, "attrs"), &fn->attrs, &fn->n_attrs));
    TMK_TRY(tmk_relay_json_type(from, tmk_relay_json_ref(node, "ret_type"), &fn->result));
    TMK_TRY(read_body(from, tmk_relay_json_ref(node, "body"), &fn->body));
    clear_exprs(from, known);
    return TMK_OK;
}

static enum tmk_status read_function(struct tmk_relay_json *from, int64_t index,
                                     struct tmk_relay_function *fn) {
    cJSON *node;
    TMK_TRY(tmk_relay_node(&from->nodes, index, &node));
    enum tmk_status status = strcmp(tmk_relay_json_text(node, "type_key"), "relay.Function")
                                 ? tmk_relay_node_fail(&from->nodes, index, "expected a function")
                                 : read_parts(from, node, fn);
    cJSON_Delete(node);
    return status;
}

static enum tmk_status read_definition(struct tmk_relay_json *from, const char *name,
                                       int64_t index) {
    struct tmk_relay_reader *in = from->nodes.in;
    struct tmk_relay_function *fn = tmk_arena_alloc(&in->module->arena, sizeof *fn);
    TMK_TRY_ALLOC(fn, in->diag);
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
    struct tmk_relay_reader *in = from->nodes.in;
    size_t base = in->dims.used;
    TMK_TRY(tmk_relay_json_list(from, map));
    for (size_t i = 0; i + 1 < tmk_relay_json_listed_count(from, base); i += 2) {
        const char *name;
        cJSON *global;
        TMK_TRY(tmk_relay_node(&from->nodes, tmk_relay_json_listed(from, base, i), &global));
        enum tmk_status status = tmk_relay_json_name(from, global, "name_hint", &name);
        cJSON_Delete(global);
        TMK_TRY(status);
        TMK_TRY(read_definition(from, name, tmk_relay_json_listed(from, base, i + 1)));
    }
    in->dims.used = base;
    return TMK_OK;
}

static enum tmk_status read_module(struct tmk_relay_json *from) {
    struct tmk_relay_reader *in = from->nodes.in;
    struct tmk_relay_module *module = in->module;
    cJSON *root;
    TMK_TRY(tmk_relay_node(&from->nodes, from->nodes.root, &root));
    bool whole = !strcmp(tmk_relay_json_text(root, "type_key"), "IRModule");
    int64_t functions = tmk_relay_json_ref(root, "functions");
    cJSON_Delete(root);
    if (whole)
        TMK_TRY(read_functions(from, functions));
    else
        TMK_TRY(read_definition(from, "main", from->nodes.root));
    TMK_TRY(tmk_relay_pop(in, &in->pointers, 0, &module->functions, &module->n_functions));
    if (!module->n_functions)
        return tmk_relay_fail(in, tmk_relay_nodes_place(&from->nodes, from->nodes.json),
                              "no functions");
    qsort(module->functions, module->n_functions, sizeof(struct tmk_relay_function *), by_name);
    return TMK_OK;
}

/* The constants become the module's, also where reading failed: destroy finishes them. */
static enum tmk_status keep_constants(struct tmk_relay_json *from) {
    struct tmk_relay_module *module = from->nodes.in->module;
    size_t n = from->n_constants;
    struct tmk_tensor *constants = tmk_arena_array(&module->arena, n, sizeof *constants);
    const char **dtypes = tmk_arena_array(&module->arena, n, sizeof *dtypes);
    if (!constants || !dtypes) {
        for (size_t i = 0; i < n; i++)
            tmk_tensor_finish(&from->constants[i]);
        return tmk_nomem(from->nodes.in->diag);
    }
    if (n) {
        memcpy(constants, from->constants, n * sizeof *constants);
        memcpy(dtypes, from->dtypes, n * sizeof *dtypes);
    }
    module->constants = constants;
    module->constant_dtypes = dtypes;
    module->n_constants = (uint32_t)n;
    module->has_metadata = n > 0;
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
    enum tmk_status kept = keep_constants(&from);
    tmk_relay_nodes_finish(&from.nodes);
    free(from.exprs);
    free(from.types);
    free(from.open);
    free(from.todo);
    free(from.known.data);
    free(from.constants);
    free(from.dtypes);
    return status == TMK_OK ? kept : status;
}
