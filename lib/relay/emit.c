/* SPDX-License-Identifier: Apache-2.0 */
/* A graph as a Relay module: the nodes that the outputs need, one by one, with the numbers that are
 * certain (shapes that were computed) in their place. */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "relay/emit.h"

/* More reasons than that go to the last. */
enum { MAX_REASONS = 32 };

struct refusal {
    const char *why;
    struct tmk_text nodes;
};

struct tmk_relay_emitter {
    struct tmk_relay_builder build;
    struct tmk_graph *graph;     /* a copy, typed */
    struct tmk_inferred certain; /* of the copy's values */
    struct tmk_ptrmap sources;   /* value of the copy -> the caller's value */
    struct tmk_ptrmap exprs;     /* value of the copy -> the expression that has its numbers */
    struct tmk_relay_export_options options;
    struct tmk_relay_params *params;
    struct tmk_map names; /* of parameters */
    struct refusal refused[MAX_REASONS];
    size_t n_refused;
    bool *needed;           /* by value's index */
    enum tmk_status status; /* of what returns no status */
    struct tmk_diag *diag;
};

/* `onnx` begins with the operator; more may follow for people. */
static bool is_written_by(const struct tmk_node *node, const struct tmk_relay_op *row) {
    static const char tidemark[] = TMK_DOMAIN_TIDEMARK "::";
    const size_t prefix = sizeof tidemark - 1, len = strlen(node->op);
    const bool own = strncmp(row->onnx, tidemark, prefix) == 0;
    const char *op = row->onnx + (own ? prefix : 0);
    return strncmp(op, node->op, len) == 0 && (!op[len] || strchr(",; ", op[len])) &&
           strcmp(node->domain, own ? TMK_DOMAIN_TIDEMARK : TMK_DOMAIN_ONNX) == 0;
}

/* The row that writes the node, or NULL. */
static const struct tmk_relay_op *find_writer(const struct tmk_node *node) {
    if (!node->row) /* an unknown operator that was kept: its operands may be any */
        return NULL;
    for (size_t i = 0; tmk_relay_ops[i]; i++)
        for (const struct tmk_relay_op *row = tmk_relay_ops[i]; row->name; row++)
            if (row->emit && is_written_by(node, row))
                return row;
    return NULL;
}

/* ---- the copy ---- */

static enum tmk_status add_source(struct tmk_relay_emitter *r, const struct tmk_value *from,
                                  struct tmk_value *to) {
    if (!from || tmk_ptrmap_put(&r->sources, to, (void *)(uintptr_t)from))
        return TMK_OK;
    return tmk_nomem(r->diag);
}

static enum tmk_status copy_graph(struct tmk_relay_emitter *r, const struct tmk_graph *graph) {
    TMK_TRY(tmk_graph_clone(graph, &r->graph, r->diag));
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        TMK_TRY(add_source(r, graph->inputs[i], r->graph->inputs[i]));
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        TMK_TRY(add_source(r, graph->outputs[i], r->graph->outputs[i]));
    const struct tmk_node *to = r->graph->first;
    for (const struct tmk_node *from = graph->first; from && to; from = from->next, to = to->next) {
        for (uint32_t i = 0; i < from->n_inputs; i++)
            TMK_TRY(add_source(r, from->inputs[i], to->inputs[i]));
        for (uint32_t i = 0; i < from->n_outputs; i++)
            TMK_TRY(add_source(r, from->outputs[i], to->outputs[i]));
    }
    TMK_TRY(tmk_fill_types(r->graph, r->diag));
    TMK_TRY(tmk_infer_certain(r->graph, &r->certain, r->diag));
    r->needed = calloc(r->certain.n + 1u, sizeof *r->needed);
    return r->needed ? TMK_OK : tmk_nomem(r->diag);
}

static const struct tmk_shape *shape_of(const struct tmk_value *value) {
    if (value->data.data)
        return &value->data.shape;
    return value->type.has_shape ? &value->type.shape : NULL;
}

static const struct tmk_tensor *numbers_of(const struct tmk_relay_emitter *r,
                                           const struct tmk_value *value) {
    if (value->data.data)
        return &value->data;
    const struct tmk_tensor *certain = &r->certain.tensors[value->index];
    if (certain->dtype != TMK_UNDEFINED && certain->data)
        return certain;
    if (value->producer && tmk_node_is(value->producer, TMK_DOMAIN_ONNX, "Constant")) {
        const struct tmk_attr *attr = tmk_node_attr(value->producer, "value");
        return attr && attr->kind == TMK_ATTR_TENSOR ? attr->tensors : NULL;
    }
    return NULL;
}

static bool is_read(const struct tmk_relay_op *row, uint32_t i) {
    return row && i < 32 && row->read >> i & 1;
}

static bool is_wanted(const struct tmk_relay_emitter *r, const struct tmk_node *node, uint32_t i) {
    return i < node->n_outputs && node->outputs[i] && r->needed[node->outputs[i]->index];
}

static bool makes_needed(const struct tmk_relay_emitter *r, const struct tmk_node *node) {
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (is_wanted(r, node, i) && !numbers_of(r, node->outputs[i]))
            return true;
    return false;
}

/* ---- parameters ---- */

/* The escaped name, made one of its own where two are alike. */
static const char *free_name(struct tmk_relay_emitter *r, const char *name) {
    const char *escaped = tmk_relay_escape(r->build.arena, name), *own = escaped;
    for (unsigned i = 1; own && tmk_map_get(&r->names, own); i++)
        own = tmk_arena_printf(r->build.arena, "%s_%u", escaped, i);
    if (own && tmk_map_put(&r->names, own, r))
        return own;
    r->build.nomem = true;
    return NULL;
}

static void set_expr(struct tmk_relay_emitter *r, const struct tmk_value *value,
                     struct tmk_relay_expr *expr) {
    if (!expr || !tmk_ptrmap_put(&r->exprs, value, expr))
        r->build.nomem = true;
    if (expr)
        expr->value = tmk_ptrmap_get(&r->sources, value);
}

static struct tmk_relay_expr *add_weight(struct tmk_relay_emitter *r, const char *name,
                                         const struct tmk_tensor *tensor) {
    if (r->options.metadata)
        return tmk_rb_add_constant(&r->build, tensor);
    const char *escaped = free_name(r, name);
    struct tmk_relay_type *type = tmk_rb_tensor_type(r->build.arena, tensor->dtype, &tensor->shape);
    struct tmk_relay_expr *expr = escaped ? tmk_rb_add_param(&r->build, escaped, type) : NULL;
    if (expr && r->status == TMK_OK)
        r->status = tmk_relay_params_add(r->params, escaped, tensor, r->diag);
    return expr;
}

/* ---- for the rows: operands ---- */

static struct tmk_relay_expr *expr_of(struct tmk_relay_emitter *r, const struct tmk_value *value) {
    struct tmk_relay_expr *expr = tmk_ptrmap_get(&r->exprs, value);
    const struct tmk_tensor *numbers = expr ? NULL : numbers_of(r, value);
    if (numbers) {
        expr = add_weight(r, value->name, numbers);
        set_expr(r, value, expr);
    }
    return expr;
}

bool tmk_re_has(const struct tmk_relay_emit *e, uint32_t i) {
    return i < e->node->n_inputs && e->node->inputs[i];
}

struct tmk_relay_expr *tmk_re_in(struct tmk_relay_emit *e, uint32_t i) {
    return tmk_re_has(e, i) ? expr_of(e->to, e->node->inputs[i]) : NULL;
}

/* Is it the transpose of a matrix? */
static bool is_transposed(const struct tmk_value *value) {
    const struct tmk_node *node = value->producer;
    const struct tmk_shape *shape =
        node && node->n_inputs && node->inputs[0] ? shape_of(node->inputs[0]) : NULL;
    size_t n;
    if (!shape || shape->rank != 2 || !tmk_node_is(node, TMK_DOMAIN_ONNX, "Transpose"))
        return false;
    const int64_t *perm = tmk_node_ints(node, "perm", &n);
    return !perm || (n == 2 && perm[0] == 1);
}

struct tmk_relay_expr *tmk_re_transposed(struct tmk_relay_emit *e, uint32_t i) {
    static const int64_t axes[] = {1, 0};
    const struct tmk_value *value = e->node->inputs[i];
    if (is_transposed(value))
        return expr_of(e->to, value->producer->inputs[0]);
    struct tmk_relay_expr *x = tmk_re_in(e, i);
    tmk_rb_set_ints(e->b, "axes", axes, 2);
    return tmk_re_1(e, "transpose", x);
}

const struct tmk_tensor *tmk_re_tensor(const struct tmk_relay_emit *e, uint32_t i) {
    return tmk_re_has(e, i) ? numbers_of(e->to, e->node->inputs[i]) : NULL;
}

bool tmk_re_ints(const struct tmk_relay_emit *e, uint32_t i, int64_t out[2 * TMK_MAX_RANK],
                 size_t *n) {
    const struct tmk_tensor *numbers = tmk_re_tensor(e, i);
    return numbers && tmk_read_ints(numbers, "the list", 2 * TMK_MAX_RANK, out, n, NULL) == TMK_OK;
}

bool tmk_re_listed(const struct tmk_relay_emit *e, const char *name, uint32_t i,
                   int64_t out[2 * TMK_MAX_RANK], size_t *n) {
    const int64_t *ints = tmk_node_ints(e->node, name, n);
    if (!ints && tmk_re_has(e, i))
        return tmk_re_ints(e, i, out, n);
    if (*n > 2 * TMK_MAX_RANK)
        return false;
    for (size_t k = 0; ints && k < *n; k++)
        out[k] = ints[k];
    return true;
}

bool tmk_re_number(const struct tmk_relay_emit *e, uint32_t i, double *out) {
    const struct tmk_tensor *numbers = tmk_re_tensor(e, i);
    return numbers && tmk_tensor_count(numbers) == 1 && tmk_rl_element(numbers, 0, out);
}

const struct tmk_shape *tmk_re_shape(const struct tmk_relay_emit *e, uint32_t i) {
    return tmk_re_has(e, i) ? shape_of(e->node->inputs[i]) : NULL;
}

const struct tmk_shape *tmk_re_out_shape(const struct tmk_relay_emit *e, uint32_t i) {
    return i < e->node->n_outputs && e->node->outputs[i] ? shape_of(e->node->outputs[i]) : NULL;
}

enum tmk_dtype tmk_re_dtype(const struct tmk_relay_emit *e, uint32_t i) {
    if (!tmk_re_has(e, i))
        return TMK_UNDEFINED;
    const struct tmk_value *value = e->node->inputs[i];
    return value->data.data ? value->data.dtype : value->type.dtype;
}

int64_t tmk_re_axis(int64_t axis, int32_t rank) {
    const int64_t place = axis < 0 ? axis + rank : axis;
    return place >= 0 && place < rank ? place : -1;
}

/* ---- for the rows: calls ---- */

void *tmk_re_fail(struct tmk_relay_emit *e, const char *why) {
    e->why = e->why ? e->why : why;
    return NULL;
}

void *tmk_re_nomem(struct tmk_relay_emit *e) {
    e->b->nomem = true;
    return NULL;
}

struct tmk_relay_expr *tmk_re_n(struct tmk_relay_emit *e, const char *op,
                                struct tmk_relay_expr *const *args, uint32_t n) {
    return e->why ? NULL : tmk_rb_call(e->b, op, args, n);
}

struct tmk_relay_expr *tmk_re_1(struct tmk_relay_emit *e, const char *op,
                                struct tmk_relay_expr *x) {
    return tmk_re_n(e, op, &x, 1);
}

struct tmk_relay_expr *tmk_re_2(struct tmk_relay_emit *e, const char *op, struct tmk_relay_expr *x,
                                struct tmk_relay_expr *y) {
    return tmk_re_n(e, op, (struct tmk_relay_expr *[]){x, y}, 2);
}

struct tmk_relay_expr *tmk_re_real(struct tmk_relay_emit *e, double value) {
    return tmk_rb_scalar(e->b, TMK_FLOAT32, value);
}

struct tmk_relay_expr *tmk_re_clip(struct tmk_relay_emit *e, struct tmk_relay_expr *x, double low,
                                   double high) {
    tmk_rb_set_real(e->b, "a_min", (float)low);
    tmk_rb_set_real(e->b, "a_max", (float)high);
    return tmk_re_1(e, "clip", x);
}

void tmk_re_same_attrs(struct tmk_relay_emit *e) {
    for (const struct tmk_relay_same_attr *a = e->op->same_attrs; a && a->name; a++) {
        const char *onnx = a->onnx ? a->onnx : a->name;
        if (a->kind == TMK_RELAY_INT) {
            tmk_rb_set_int(e->b, a->name, tmk_node_int(e->node, onnx, (int64_t)a->number));
        } else if (a->kind == TMK_RELAY_REAL) {
            const float value = tmk_node_float(e->node, onnx, (float)a->number);
            if (!a->optional || value != (float)a->number)
                tmk_rb_set_real(e->b, a->name, value);
        } else {
            const char *value = tmk_node_string(e->node, onnx, a->text);
            if (!a->optional || strcmp(value, a->text) != 0)
                tmk_rb_set_string(e->b, a->name, value);
        }
    }
}

struct tmk_relay_expr *tmk_re_same(struct tmk_relay_emit *e) {
    struct tmk_relay_expr *args[4];
    const uint32_t n = e->node->n_inputs;
    if (n > TMK_COUNT(args))
        return tmk_re_fail(e, "it has too many operands");
    for (uint32_t i = 0; i < n; i++)
        args[i] = tmk_re_in(e, i);
    tmk_re_same_attrs(e);
    return tmk_re_n(e, e->op->name, args, n);
}

struct tmk_relay_expr *tmk_re_constant(struct tmk_relay_emit *e, const char *what,
                                       const struct tmk_tensor *tensor) {
    const char *name = tmk_arena_printf(e->b->arena, "%s_%s", e->node->outputs[0]->name, what);
    return name ? add_weight(e->to, name, tensor) : tmk_re_nomem(e);
}

/* ---- for the rows: results ---- */

bool tmk_re_wanted(const struct tmk_relay_emit *e, uint32_t i) {
    return is_wanted(e->to, e->node, i);
}

/* The name as a source of the text's spans: no blank, and nothing that ends a comment. */
static const char *span_of(struct tmk_relay_emitter *r, const char *name) {
    if (!*name)
        return NULL;
    char *text = tmk_arena_printf(r->build.arena, "%s:0:0", name);
    r->build.nomem |= !text;
    for (char *at = text; at && *at; at++)
        if ((unsigned char)*at <= ' ' || *at == '*' || *at == 127)
            *at = '_';
    return text;
}

void tmk_re_result(struct tmk_relay_emit *e, uint32_t i, struct tmk_relay_expr *expr) {
    struct tmk_relay_expr *use =
        expr && expr->kind == TMK_RELAY_USE ? tmk_rb_use(e->b, expr->binding) : expr;
    if (!tmk_re_wanted(e, i))
        return;
    const struct tmk_value *value = e->node->outputs[i];
    set_expr(e->to, value, use);
    struct tmk_relay_expr *made = use && use->binding ? use->binding->expr : NULL;
    if (!made || made->value)
        return;
    made->value = use->value;
    made->type = tmk_rb_tensor_type(e->b->arena, value->type.dtype, shape_of(value));
    made->span = span_of(e->to, value->name);
}

struct tmk_relay_expr *tmk_re_like(struct tmk_relay_emit *e, struct tmk_relay_expr *expr) {
    const struct tmk_value *value = e->node->outputs[0];
    if (expr && expr->binding && expr->binding->expr && !expr->binding->expr->type)
        expr->binding->expr->type =
            tmk_rb_tensor_type(e->b->arena, value->type.dtype, shape_of(value));
    return expr;
}

/* ---- all of it ---- */

static void emit_node(struct tmk_relay_emitter *r, const struct tmk_node *node) {
    struct tmk_relay_emit e = {
        .to = r, .b = &r->build, .node = node, .op = find_writer(node), .qnn = r->options.qnn};
    struct tmk_relay_expr *expr = NULL;
    if (!e.op)
        tmk_re_fail(&e, "Relay has no such operator");
    else if (e.op->flags & TMK_RELAY_WRITES_RANKED && !tmk_re_shape(&e, 0))
        tmk_re_fail(&e, TMK_RE_NO_RANK);
    else
        expr = e.op->emit(&e);
    r->build.attrs.n = 0;
    if (!e.why) {
        if (expr)
            tmk_re_result(&e, 0, expr);
        return;
    }
    size_t k = 0;
    while (k < r->n_refused && strcmp(r->refused[k].why, e.why) != 0)
        k++;
    if (k == r->n_refused && k < MAX_REASONS)
        r->refused[r->n_refused++].why = e.why;
    struct refusal *group = &r->refused[k < MAX_REASONS ? k : k - 1];
    tmk_text_printf(&group->nodes, "%s%s", group->nodes.len ? ", " : "", TMK_NODE_LABEL(node));
    r->build.nomem |= group->nodes.failed;
    /* what reads it is judged by itself */
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (tmk_re_wanted(&e, i))
            set_expr(r, node->outputs[i], tmk_rb_call(&r->build, "?", NULL, 0));
}

/* TVM writes what makes the result without a name. */
static struct tmk_relay_expr *result_of(struct tmk_relay_emitter *r, struct tmk_relay_type **type) {
    struct tmk_relay_builder *b = &r->build;
    const uint32_t n = r->graph->n_outputs;
    struct tmk_relay_expr **list = calloc(n + 1u, sizeof(struct tmk_relay_expr *));
    struct tmk_relay_expr *result = NULL;
    b->nomem |= !list;
    for (uint32_t i = 0; list && i < n; i++)
        list[i] = expr_of(r, r->graph->outputs[i]);
    *type = NULL;
    if (!b->nomem && n != 1) {
        result = tmk_rb_items(b, list, n);
    } else if (!b->nomem) {
        const struct tmk_value *value = r->graph->outputs[0];
        result = list[0];
        *type = tmk_rb_tensor_type(b->arena, value->type.dtype, shape_of(value));
        struct tmk_relay_binding *last = b->n_bindings ? b->bindings[b->n_bindings - 1] : NULL;
        if (last && result && result->binding == last) {
            result = last->expr;
            b->n_bindings--;
        }
    }
    free(list);
    return result;
}

static enum tmk_status list_constants(struct tmk_relay_emitter *r) {
    for (uint32_t i = 0; r->options.constants && i < r->graph->n_values; i++) {
        const struct tmk_value *value = r->graph->values[i];
        struct tmk_value *source = tmk_ptrmap_get(&r->sources, value);
        if (source && value->kind == TMK_VALUE_RESULT && numbers_of(r, value) &&
            !tmk_ptrmap_put(r->options.constants, source, source))
            return tmk_nomem(r->diag);
    }
    return TMK_OK;
}

static enum tmk_status emit_graph(struct tmk_relay_emitter *r, const struct tmk_graph *graph) {
    TMK_TRY(tmk_relay_module_create(&r->build.module, r->diag));
    r->build.arena = &r->build.module->arena;
    TMK_TRY(tmk_relay_params_create(&r->params, r->diag));
    TMK_TRY(copy_graph(r, graph));
    TMK_TRY(list_constants(r));
    for (uint32_t i = 0; i < r->graph->n_outputs; i++)
        r->needed[r->graph->outputs[i]->index] = true;
    for (const struct tmk_node *node = r->graph->last; node; node = node->prev)
        if (makes_needed(r, node)) {
            const struct tmk_relay_op *row = find_writer(node);
            for (uint32_t i = 0; i < node->n_inputs; i++) {
                const struct tmk_value *value = node->inputs[i];
                if (value && !(numbers_of(r, value) && is_read(row, i)))
                    r->needed[value->index] = true;
            }
        }
    for (uint32_t i = 0; i < r->graph->n_inputs; i++)
        if (r->graph->inputs[i]->type.kind != TMK_TYPE_TENSOR)
            return tmk_fail(r->diag, TMK_UNSUPPORTED,
                            "Relay cannot express input '%s', which is no tensor",
                            r->graph->inputs[i]->name);
    for (uint32_t i = 0; i < r->graph->n_inputs; i++) {
        const struct tmk_value *value = r->graph->inputs[i];
        const char *name = free_name(r, value->name);
        struct tmk_relay_type *type = tmk_rb_tensor_type(
            r->build.arena, value->type.dtype, value->type.has_shape ? &value->type.shape : NULL);
        set_expr(r, value, name ? tmk_rb_add_param(&r->build, name, type) : NULL);
    }
    for (const struct tmk_node *node = r->graph->first; node && !r->build.nomem; node = node->next)
        if (makes_needed(r, node))
            emit_node(r, node);
    TMK_TRY(r->status);
    if (r->n_refused && !r->build.nomem) {
        struct tmk_text all = {0};
        for (size_t i = 0; i < r->n_refused; i++)
            tmk_text_printf(&all, "%s%s (%s)", i ? "; " : "", r->refused[i].nodes.data,
                            r->refused[i].why);
        const enum tmk_status status =
            all.failed ? tmk_nomem(r->diag)
                       : tmk_fail(r->diag, TMK_UNSUPPORTED, "Relay cannot express %s", all.data);
        tmk_text_finish(&all);
        return status;
    }
    struct tmk_relay_type *type;
    struct tmk_relay_expr *result = result_of(r, &type);
    return tmk_rb_main(&r->build, result, type, r->diag);
}

enum tmk_status tmk_relay_export(const struct tmk_graph *graph,
                                 const struct tmk_relay_export_options *options,
                                 struct tmk_relay_module **module, struct tmk_relay_params **params,
                                 struct tmk_diag *diag) {
    struct tmk_relay_emitter r = {.diag = diag};
    if (options)
        r.options = *options;
    enum tmk_status status = emit_graph(&r, graph);
    if (status == TMK_OK) {
        *module = r.build.module;
        *params = r.params;
    } else {
        tmk_relay_module_destroy(&r.build.module);
        tmk_relay_params_destroy(&r.params);
    }
    tmk_rb_finish(&r.build);
    tmk_inferred_finish(&r.certain);
    tmk_graph_destroy(&r.graph);
    tmk_ptrmap_finish(&r.sources);
    tmk_ptrmap_finish(&r.exprs);
    tmk_map_finish(&r.names);
    for (size_t i = 0; i < r.n_refused; i++)
        tmk_text_finish(&r.refused[i].nodes);
    free(r.needed);
    return status;
}

/* ---- files ---- */

enum tmk_status tmk_relay_save(const struct tmk_graph *graph, const char *path,
                               const char *params_path, struct tmk_relay_written *written,
                               struct tmk_diag *diag) {
    const struct tmk_relay_export_options options = {
        .metadata = !params_path, .constants = written ? &written->constants : NULL};
    struct tmk_relay_module *module = NULL;
    struct tmk_relay_params *params = NULL;
    TMK_TRY(tmk_in(diag, tmk_relay_export(graph, &options, &module, &params, diag), "%s", path));
    struct tmk_text text = {0}, weights = {0};
    enum tmk_status status = tmk_in(diag, tmk_relay_print(module, &text, diag), "%s", path);
    if (status == TMK_OK && params_path)
        status = tmk_in(diag, tmk_relay_params_print(params, &weights, diag), "%s", params_path);
    if (status == TMK_OK && (text.failed || weights.failed))
        status = tmk_nomem(diag);
    const struct tmk_file_content files[] = {{path, text.data, text.len},
                                             {params_path, weights.data, weights.len}};
    TMK_THEN(status, tmk_files_write(files, params_path ? 2 : 1, diag));
    tmk_text_finish(&text);
    tmk_text_finish(&weights);
    if (written) {
        written->graph = graph;
        written->module = module;
    } else {
        tmk_relay_module_destroy(&module);
    }
    tmk_relay_params_destroy(&params);
    return status;
}
