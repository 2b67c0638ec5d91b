/* SPDX-License-Identifier: Apache-2.0 */
/* A Relay module becomes a graph: functions are inlined, tuples and projections are names only. */
#include "relay/lower.h"

#include "base/map.h"
#include "model/onnx_import.h"
#include "ops/ops.h"
#include "relay/relay.h"
#include "tensor/shape.h"

enum {
    OPSET = 21,     /* of the graph; the first with 16-bit quantization */
    MAX_DEPTH = 250 /* of calls and expressions within each other */
};

/* What the bindings of one call of a function stand for. */
struct tmk_relay_frame {
    const struct tmk_relay_frame *outer; /* where a function was written; NULL: a definition */
    const char *prefix;                  /* of the names of values within */
    struct tmk_ptrmap items;             /* binding -> struct tmk_relay_item */
    struct tmk_relay_frame *next;
};

typedef struct tmk_relay_item item;

static enum tmk_status lower_expr(struct tmk_relay_lowering *l, struct tmk_relay_frame *frame,
                                  struct tmk_relay_expr *expr, const char *name, item *out);

static enum tmk_status at_place(struct tmk_relay_lowering *l, const struct tmk_relay_place *place,
                                enum tmk_status status) {
    return place->line ? tmk_in(l->diag, status, "%u:%u", place->line, place->column) : status;
}

/* ---- frames ---- */

static enum tmk_status new_frame(struct tmk_relay_lowering *l, const struct tmk_relay_frame *outer,
                                 const char *prefix, struct tmk_relay_frame **out) {
    struct tmk_relay_frame *frame = tmk_arena_alloc(&l->scratch, sizeof *frame);
    TMK_TRY_ALLOC(frame && prefix, l->diag);
    *frame = (struct tmk_relay_frame){.outer = outer, .prefix = prefix, .next = l->frames};
    l->frames = frame;
    *out = frame;
    return TMK_OK;
}

static enum tmk_status bind_item(struct tmk_relay_lowering *l, struct tmk_relay_frame *frame,
                                 const struct tmk_relay_binding *binding, const item *what) {
    item *copy = tmk_arena_alloc(&l->scratch, sizeof *copy);
    TMK_TRY_ALLOC(copy && tmk_ptrmap_put(&frame->items, binding, copy), l->diag);
    *copy = *what;
    return TMK_OK;
}

static const item *find_item(const struct tmk_relay_frame *frame,
                             const struct tmk_relay_binding *binding) {
    const item *found = NULL;
    for (; frame && !found; frame = frame->outer)
        found = tmk_ptrmap_get(&frame->items, binding);
    return found;
}

/* ---- leaves ---- */

/* A number in the text: what a rule makes of it may need no value. */
struct tmk_relay_scalar {
    struct tmk_relay_expr *expr;
    struct tmk_value *value;
    struct tmk_relay_scalar *next;
};

/* A constant of the metadata section is one value, however often it is written. */
static enum tmk_status lower_metadata(struct tmk_relay_lowering *l,
                                      const struct tmk_relay_expr *expr, item *out) {
    const char *name = tmk_rl_text(l, "meta[relay.Constant][%u]", expr->index);
    name = name ? tmk_rl_unique(l, name) : NULL;
    TMK_TRY_ALLOC(name, l->diag);
    if (expr->data.dtype)
        return tmk_rl_initializer(l, name, &expr->data, &out->value);
    if (!l->keep_unknown)
        return tmk_fail(l->diag, TMK_UNSUPPORTED,
                        "constant %u stands in the metadata section, which was left out; print "
                        "the module with show_meta_data=True",
                        expr->index);
    struct tmk_type type;
    TMK_TRY(tmk_rl_type(expr->type, &type, l->diag));
    return tmk_graph_add_input(l->root, name, &type, &out->value, l->diag);
}

static enum tmk_status lower_leaf(struct tmk_relay_lowering *l, struct tmk_relay_frame *frame,
                                  struct tmk_relay_expr *expr, const char *name, item *out) {
    const item *found;
    switch (expr->kind) {
    case TMK_RELAY_CONSTANT: {
        const char *own = tmk_rl_unique(l, name);
        struct tmk_relay_scalar *scalar = tmk_arena_alloc(&l->scratch, sizeof *scalar);
        TMK_TRY_ALLOC(own && scalar, l->diag);
        TMK_TRY(tmk_rl_initializer(l, own, &expr->data, &out->value));
        *scalar = (struct tmk_relay_scalar){expr, out->value, l->scalars};
        l->scalars = scalar;
        return TMK_OK;
    }
    case TMK_RELAY_METADATA: {
        const void *key = expr->data.data ? expr->data.data : (const void *)expr;
        struct tmk_value *known = tmk_ptrmap_get(&l->constants, key);
        if (known) {
            out->value = known;
            return TMK_OK;
        }
        TMK_TRY(lower_metadata(l, expr, out));
        return tmk_ptrmap_put(&l->constants, key, out->value) ? TMK_OK : tmk_nomem(l->diag);
    }
    case TMK_RELAY_USE:
        found = find_item(frame, expr->binding);
        if (!found)
            return tmk_fail(l->diag, TMK_FORMAT, "'%%%s' is used before it is defined",
                            expr->binding->name);
        *out = *found;
        return TMK_OK;
    case TMK_RELAY_GLOBAL:
        out->fn = tmk_relay_function(l->module, expr->text);
        return out->fn ? TMK_OK
                       : tmk_fail(l->diag, TMK_GRAPH, "there is no function @%s", expr->text);
    case TMK_RELAY_FN:
        *out = (item){.fn = expr->fn, .frame = frame};
        return TMK_OK;
    default:
        return tmk_fail(l->diag, TMK_UNSUPPORTED, "the operator %s is used as a value",
                        expr->text ? expr->text : "");
    }
}

/* ---- tuples ---- */

static enum tmk_status lower_all(struct tmk_relay_lowering *l, struct tmk_relay_frame *frame,
                                 struct tmk_relay_expr *const *exprs, uint32_t n, const char *name,
                                 char mark, item **out) {
    item *items = tmk_arena_array(&l->scratch, (size_t)n + 1, sizeof *items);
    TMK_TRY_ALLOC(items, l->diag);
    for (uint32_t i = 0; i < n; i++) {
        const char *own = tmk_rl_text(l, "%s%c%u", name, mark, i);
        TMK_TRY_ALLOC(own, l->diag);
        TMK_TRY(lower_expr(l, frame, exprs[i], own, &items[i]));
    }
    *out = items;
    return TMK_OK;
}

/* `%3 = %2.0`, or a projection of a tuple that has no name, gives a result of an operator with
 * several the name that people see. */
static enum tmk_status name_part(struct tmk_relay_lowering *l, const item *what, const char *name) {
    struct tmk_value *value = what->value;
    if (!value || !tmk_ptrmap_get(&l->parts, value) || tmk_ptrmap_get(&l->renamed, value))
        return TMK_OK;
    const char *own = tmk_rl_unique(l, name);
    TMK_TRY_ALLOC(own && tmk_ptrmap_put(&l->renamed, value, value), l->diag);
    return tmk_value_rename(value, own, l->diag);
}

/* ---- calls ---- */

/* Declared types hold where inference found none; where both are known and differ, that is an
 * error. */
static enum tmk_status check_declared(struct tmk_relay_lowering *l, const item *what,
                                      const struct tmk_relay_type *declared) {
    struct tmk_type type;
    if (!declared)
        return TMK_OK;
    if (declared->kind == TMK_RELAY_TUPLE && what->items && declared->n == what->n) {
        for (uint32_t i = 0; i < what->n; i++)
            TMK_TRY(check_declared(l, &what->items[i], declared->items[i]));
        return TMK_OK;
    }
    if (!what->value || declared->kind != TMK_RELAY_TENSOR)
        return TMK_OK;
    TMK_TRY(tmk_rl_type(declared, &type, l->diag));
    const struct tmk_type *have = &what->value->type;
    if (!have->has_shape || !have->dtype)
        return tmk_value_set_type(what->value, &type, l->diag);
    bool same = have->dtype == type.dtype && have->shape.rank == type.shape.rank;
    for (int32_t i = 0; same && i < type.shape.rank; i++)
        same = type.shape.dim[i] < 0 || have->shape.dim[i] < 0 ||
               type.shape.dim[i] == have->shape.dim[i];
    if (same)
        return TMK_OK;
    return tmk_fail(l->diag, TMK_SHAPE, "the text declares %s%s, but the operands make it %s%s",
                    tmk_dtype_name(type.dtype), TMK_SHAPE_TEXT(&type.shape),
                    tmk_dtype_name(have->dtype), TMK_SHAPE_TEXT(&have->shape));
}

static enum tmk_status flatten_item(struct tmk_relay_lowering *l, const item *what,
                                    struct tmk_value **out, uint32_t *n) {
    if (what->value) {
        if (*n == TMK_MAX_INPUTS)
            return tmk_fail(l->diag, TMK_UNSUPPORTED, "more than %d operands", TMK_MAX_INPUTS);
        out[(*n)++] = what->value;
        return TMK_OK;
    }
    for (uint32_t i = 0; i < what->n; i++)
        TMK_TRY(flatten_item(l, &what->items[i], out, n));
    return TMK_OK;
}

/* Every value of a result, tuples in tuples included, becomes an output. */
static enum tmk_status add_outputs(struct tmk_relay_lowering *l, struct tmk_graph *graph,
                                   const item *result) {
    if (result->value)
        return tmk_graph_add_output(graph, result->value, l->diag);
    for (uint32_t i = 0; i < result->n; i++)
        TMK_TRY(add_outputs(l, graph, &result->items[i]));
    return TMK_OK;
}

/* What a node's results come to. */
static enum tmk_status take_results(struct tmk_relay_lowering *l, const struct tmk_node *node,
                                    bool tuple, item *out) {
    item *items = tmk_arena_array(&l->scratch, node->n_outputs, sizeof *items);
    TMK_TRY_ALLOC(items, l->diag);
    for (uint32_t i = 0; i < node->n_outputs; i++)
        items[i].value = node->outputs[i];
    *out = tuple ? (item){.items = items, .n = node->n_outputs} : items[0];
    return TMK_OK;
}

/* An operator without a row, or that ONNX cannot express here: a node of the domain "relay". */
static enum tmk_status lower_unknown(struct tmk_relay_lowering *l,
                                     const struct tmk_relay_expr *expr, const item *args,
                                     const char *name, item *out) {
    const char *op = expr->callee->text;
    struct tmk_value *in[TMK_MAX_INPUTS];
    uint32_t n_in = 0, n_out = 1;
    bool tuple = expr->type && expr->type->kind == TMK_RELAY_TUPLE;
    for (uint32_t i = 0; i < expr->n_args; i++)
        TMK_TRY(flatten_item(l, &args[i], in, &n_in));
    if (tuple)
        n_out = expr->type->n;
    if (n_out < 1 || n_out > TMK_MAX_OUTPUTS)
        return tmk_fail(l->diag, TMK_UNSUPPORTED, "%s has %u results", op, n_out);
    const char **names = tmk_arena_array(&l->scratch, n_out, sizeof *names);
    TMK_TRY_ALLOC(names, l->diag);
    TMK_TRY(tmk_rl_result_names(l, name, tuple, n_out, names));
    struct tmk_node *node = NULL;
    const char *label = tmk_rl_text(l, "%s %s", op, name);
    TMK_TRY_ALLOC(label, l->diag);
    if (!tmk_graph_opset(l->root, "relay"))
        TMK_TRY(tmk_graph_set_opset(l->root, "relay", 1, l->diag));
    TMK_TRY(tmk_graph_add_node(
        l->graph, NULL, &(struct tmk_node_spec){"relay", op, label, 1, in, n_in, names, n_out},
        &node, l->diag));
    TMK_TRY(take_results(l, node, tuple, out));
    return check_declared(l, out, expr->type);
}

static enum tmk_status lower_operator(struct tmk_relay_lowering *l, struct tmk_relay_expr *expr,
                                      const item *args, const char *name, item *out) {
    const struct tmk_relay_op *op = tmk_relay_op_find(expr->callee->text);
    if (!op)
        return lower_unknown(l, expr, args, name, out);
    struct tmk_relay_call call = {
        .to = l, .op = op, .expr = expr, .name = name, .args = args, .n_args = expr->n_args};
    if (call.n_args < op->min_in || call.n_args > op->max_in)
        return tmk_fail(l->diag, TMK_GRAPH, "%u operands; it has %u to %u", call.n_args, op->min_in,
                        op->max_in);
    for (uint32_t i = 0; i < call.n_args; i++)
        if (!args[i].value && (!args[i].items || !(op->flags & TMK_RELAY_TAKES_TUPLE)))
            return tmk_fail(l->diag, TMK_GRAPH, "operand %u is no tensor", i);
    TMK_TRY(tmk_rl_check_attrs(&call));
    struct tmk_value *value = op->lower(&call);
    if (call.status == TMK_UNSUPPORTED && l->keep_unknown) {
        tmk_diag_reset(l->diag);
        return lower_unknown(l, expr, args, name, out);
    }
    TMK_TRY(call.status);
    if (value)
        out->value = value;
    else
        *out = call.result;
    return check_declared(l, out, expr->type);
}

static enum tmk_status lower_body(struct tmk_relay_lowering *l, struct tmk_relay_frame *frame,
                                  const struct tmk_relay_body *body, const char *name, item *out);

static enum tmk_status inline_call(struct tmk_relay_lowering *l, const struct tmk_relay_expr *expr,
                                   const item *callee, const item *args, const char *name,
                                   item *out) {
    const struct tmk_relay_function *fn = callee->fn;
    struct tmk_relay_frame *frame = NULL;
    if (!fn)
        return tmk_fail(l->diag, TMK_GRAPH, "what is called is no function");
    if (fn->n_params != expr->n_args)
        return tmk_fail(l->diag, TMK_GRAPH, "%u arguments of a function of %u", expr->n_args,
                        fn->n_params);
    TMK_TRY(new_frame(l, callee->frame, tmk_rl_text(l, "%s/", name), &frame));
    for (uint32_t i = 0; i < fn->n_params; i++)
        TMK_TRY(bind_item(l, frame, fn->params[i], &args[i]));
    return lower_body(l, frame, &fn->body, name, out);
}

/* ---- if ---- */

static enum tmk_status lower_branch(struct tmk_relay_lowering *l, struct tmk_relay_frame *frame,
                                    const struct tmk_relay_body *body, const char *name,
                                    struct tmk_graph *graph) {
    struct tmk_graph *outside = l->graph;
    struct tmk_relay_frame *inner = NULL;
    item result = {0};
    TMK_TRY(new_frame(l, frame, tmk_rl_text(l, "%s/", name), &inner));
    l->graph = graph;
    enum tmk_status status = lower_body(l, inner, body, name, &result);
    TMK_THEN(status, add_outputs(l, graph, &result));
    l->graph = outside;
    return status;
}

static enum tmk_status lower_if(struct tmk_relay_lowering *l, struct tmk_relay_frame *frame,
                                struct tmk_relay_expr *expr, const char *name, item *out) {
    struct tmk_graph *branches[2] = {NULL, NULL};
    const struct tmk_relay_body *bodies[2] = {expr->body, expr->otherwise};
    static const char *const attrs[2] = {"then_branch", "else_branch"};
    item condition = {0};
    const char *inner = tmk_rl_text(l, "%s/if", name), *label = tmk_rl_text(l, "if %s", name);
    TMK_TRY_ALLOC(inner && label, l->diag);
    TMK_TRY(lower_expr(l, frame, expr->args[0], inner, &condition));
    if (!condition.value)
        return tmk_fail(l->diag, TMK_GRAPH, "the condition is no tensor");
    for (int i = 0; i < 2; i++) {
        const char *own = tmk_rl_text(l, "%s/%s", name, i ? "else" : "then");
        TMK_TRY(own ? tmk_graph_create_sub(l->graph, own, &branches[i], l->diag)
                    : tmk_nomem(l->diag));
        TMK_TRY(lower_branch(l, frame, bodies[i], own, branches[i]));
    }
    uint32_t n = branches[0]->n_outputs;
    if (n != branches[1]->n_outputs || n < 1 || n > TMK_MAX_OUTPUTS)
        return tmk_fail(l->diag, TMK_GRAPH, "the branches have %u and %u results", n,
                        branches[1]->n_outputs);
    const char **names = tmk_arena_array(&l->scratch, n, sizeof *names);
    TMK_TRY_ALLOC(names, l->diag);
    TMK_TRY(tmk_rl_result_names(l, name, n > 1, n, names));
    struct tmk_node *node = NULL;
    TMK_TRY(tmk_graph_add_node(
        l->graph, NULL,
        &(struct tmk_node_spec){TMK_DOMAIN_ONNX, "If", label, OPSET, &condition.value, 1, names, n},
        &node, l->diag));
    for (int i = 0; i < 2; i++)
        TMK_TRY(tmk_node_set_attr(
            node,
            &(struct tmk_attr){
                .name = attrs[i], .kind = TMK_ATTR_GRAPH, .n = 1, .graphs = &branches[i]},
            l->diag));
    TMK_TRY(take_results(l, node, n > 1, out));
    return check_declared(l, out, expr->type);
}

/* ---- expressions and bodies ---- */

static enum tmk_status lower_kind(struct tmk_relay_lowering *l, struct tmk_relay_frame *frame,
                                  struct tmk_relay_expr *expr, const char *name, item *out) {
    switch (expr->kind) {
    case TMK_RELAY_ITEMS:
        out->n = expr->n_args;
        return lower_all(l, frame, expr->args, expr->n_args, name, '.', &out->items);
    case TMK_RELAY_PROJECT: {
        item whole = {0};
        TMK_TRY(lower_expr(l, frame, expr->args[0], name, &whole));
        if (!whole.items || expr->index >= whole.n)
            return tmk_fail(l->diag, TMK_GRAPH,
                            whole.items ? "a tuple of %u has no .%u" : "no tuple", whole.n,
                            expr->index);
        *out = whole.items[expr->index];
        return expr->args[0]->kind == TMK_RELAY_USE ? TMK_OK : name_part(l, out, name);
    }
    case TMK_RELAY_CALL: {
        item *args = NULL, callee = {0};
        bool op = expr->callee->kind == TMK_RELAY_OPERATOR;
        if (!op)
            TMK_TRY(lower_expr(l, frame, expr->callee, name, &callee));
        TMK_TRY(lower_all(l, frame, expr->args, expr->n_args, name, '/', &args));
        if (!op)
            return inline_call(l, expr, &callee, args, name, out);
        return tmk_in(l->diag, lower_operator(l, expr, args, name, out), "%s", expr->callee->text);
    }
    case TMK_RELAY_IF:
        return lower_if(l, frame, expr, name, out);
    default:
        return lower_leaf(l, frame, expr, name, out);
    }
}

static enum tmk_status lower_expr(struct tmk_relay_lowering *l, struct tmk_relay_frame *frame,
                                  struct tmk_relay_expr *expr, const char *name, item *out) {
    if (l->depth >= MAX_DEPTH)
        return at_place(
            l, &expr->place,
            tmk_fail(l->diag, TMK_UNSUPPORTED,
                     "calls and expressions are nested deeper than %d (does a function call "
                     "itself?)",
                     MAX_DEPTH));
    l->depth++;
    enum tmk_status status = lower_kind(l, frame, expr, name, out);
    l->depth--;
    if (status == TMK_OK)
        expr->value = out->value;
    if (status == TMK_OK || l->placed)
        return status;
    l->placed = true; /* the innermost expression is the place */
    return at_place(l, &expr->place, status);
}

static enum tmk_status take_parameter(struct tmk_relay_lowering *l, struct tmk_relay_frame *frame,
                                      struct tmk_relay_binding *binding);

static enum tmk_status lower_body(struct tmk_relay_lowering *l, struct tmk_relay_frame *frame,
                                  const struct tmk_relay_body *body, const char *name, item *out) {
    for (uint32_t i = 0; i < body->n; i++) {
        struct tmk_relay_binding *binding = body->bindings[i];
        item what = {0};
        if (binding->kind == TMK_RELAY_FREE) {
            TMK_TRY(take_parameter(l, frame, binding));
            continue;
        }
        const char *own =
            tmk_rl_text(l, "%s%s%s", frame->prefix, binding->kind == TMK_RELAY_NUMBERED ? "%" : "",
                        binding->name);
        TMK_TRY_ALLOC(own, l->diag);
        TMK_TRY(lower_expr(l, frame, binding->expr, own, &what));
        if (binding->expr->kind == TMK_RELAY_PROJECT)
            TMK_TRY(name_part(l, &what, own));
        TMK_TRY(at_place(l, &binding->place, check_declared(l, &what, binding->type)));
        TMK_TRY(bind_item(l, frame, binding, &what));
    }
    return lower_expr(l, frame, body->result, name, out);
}

/* ---- @main ---- */

/* An input, or an initializer where the params have it. Tuples of tensors are taken apart. */
static enum tmk_status take_typed(struct tmk_relay_lowering *l,
                                  const struct tmk_relay_binding *binding, const char *want,
                                  const struct tmk_relay_type *declared, item *out) {
    struct tmk_type type;
    if (declared && declared->kind == TMK_RELAY_TUPLE) {
        out->n = declared->n;
        out->items = tmk_arena_array(&l->scratch, (size_t)declared->n + 1, sizeof *out->items);
        TMK_TRY_ALLOC(out->items, l->diag);
        for (uint32_t i = 0; i < declared->n; i++) {
            const char *part = tmk_rl_text(l, "%s.%u", want, i);
            TMK_TRY_ALLOC(part, l->diag);
            TMK_TRY(take_typed(l, binding, part, declared->items[i], &out->items[i]));
        }
        return TMK_OK;
    }
    const char *name = tmk_rl_unique(l, want);
    TMK_TRY_ALLOC(name, l->diag);
    if (declared && declared->kind != TMK_RELAY_TENSOR)
        return tmk_fail(l->diag, TMK_UNSUPPORTED, "it is no tensor");
    TMK_TRY(tmk_rl_type(declared, &type, l->diag));
    const struct tmk_relay_param *param =
        l->params ? tmk_relay_params_find(l->params, binding->name) : NULL;
    if (!param)
        return tmk_graph_add_input(l->root, name, &type, &out->value, l->diag);
    if (!param->tensor.dtype)
        return tmk_fail(l->diag, TMK_UNSUPPORTED, "its numbers are of type '%s'", param->dtype);
    TMK_TRY(tmk_rl_initializer(l, name, &param->tensor, &out->value));
    const struct tmk_type *have = &out->value->type;
    if (type.has_shape && (have->dtype != type.dtype || have->shape.rank != type.shape.rank ||
                           !tmk_shape_equal(&have->shape, &type.shape)))
        return tmk_fail(l->diag, TMK_SHAPE, "the text declares %s%s, the params hold %s%s",
                        tmk_dtype_name(type.dtype), TMK_SHAPE_TEXT(&type.shape),
                        tmk_dtype_name(have->dtype), TMK_SHAPE_TEXT(&have->shape));
    return TMK_OK;
}

static enum tmk_status take_parameter(struct tmk_relay_lowering *l, struct tmk_relay_frame *frame,
                                      struct tmk_relay_binding *binding) {
    item what = {0};
    enum tmk_status status = take_typed(l, binding, binding->name, binding->type, &what);
    TMK_TRY(
        at_place(l, &binding->place, tmk_in(l->diag, status, "parameter '%%%s'", binding->name)));
    return bind_item(l, frame, binding, &what);
}

static enum tmk_status lower_main(struct tmk_relay_lowering *l,
                                  const struct tmk_relay_function *main_fn) {
    struct tmk_relay_frame *frame = NULL;
    item result = {0};
    TMK_TRY(tmk_graph_set_opset(l->root, TMK_DOMAIN_ONNX, OPSET, l->diag));
    TMK_TRY(new_frame(l, NULL, "", &frame));
    for (uint32_t i = 0; i < main_fn->n_params; i++)
        TMK_TRY(take_parameter(l, frame, main_fn->params[i]));
    TMK_TRY(lower_body(l, frame, &main_fn->body, "output", &result));
    TMK_TRY(check_declared(l, &result, main_fn->result));
    if (result.fn)
        return tmk_fail(l->diag, TMK_UNSUPPORTED, "@%s gives a function", main_fn->name);
    TMK_TRY(add_outputs(l, l->root, &result));
    for (struct tmk_relay_scalar *s = l->scalars; s; s = s->next)
        if (s->value->n_uses == 0 && s->value->n_graph_outputs == 0) {
            if (s->expr->value == s->value)
                s->expr->value = NULL;
            tmk_graph_drop_initializer(s->value);
        }
    return TMK_OK;
}

enum tmk_status tmk_relay_lower(struct tmk_relay_module *module,
                                const struct tmk_relay_params *params, bool keep_unknown,
                                struct tmk_graph **out, struct tmk_diag *diag) {
    const struct tmk_relay_function *fn = tmk_relay_function(module, "main");
    const struct tmk_relay_function *main_fn =
        !fn && module->n_functions == 1 ? module->functions[0] : fn;
    struct tmk_relay_lowering l = {
        .module = module, .params = params, .keep_unknown = keep_unknown, .diag = diag};
    if (!main_fn)
        return tmk_fail(diag, TMK_GRAPH, "there is no function @main");
    if (!keep_unknown)
        TMK_TRY(tmk_relay_known(module, main_fn, diag));
    TMK_TRY(tmk_graph_create("main", &l.root, diag));
    l.graph = l.root;
    enum tmk_status status = lower_main(&l, main_fn);
    for (struct tmk_relay_frame *frame = l.frames; frame; frame = frame->next)
        tmk_ptrmap_finish(&frame->items);
    tmk_ptrmap_finish(&l.constants);
    tmk_ptrmap_finish(&l.parts);
    tmk_ptrmap_finish(&l.renamed);
    tmk_map_finish(&l.names);
    tmk_arena_finish(&l.scratch);
    TMK_THEN(status, tmk_graph_sort(l.root, diag));
    TMK_THEN(status, tmk_model_finish(l.root, keep_unknown, diag));
    if (status == TMK_OK)
        *out = l.root;
    else
        tmk_graph_destroy(&l.root);
    return status;
}
