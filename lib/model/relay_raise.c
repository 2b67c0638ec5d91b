/* SPDX-License-Identifier: Apache-2.0 */
/* A graph as a Relay module: what stands behind the outputs is said in Relay, node by node, with
 * the numbers that are certain (shapes that were computed) put in their place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "model/relay_raise.h"

const struct tmk_raise_row *tmk_raise_find(const struct tmk_node *node) {
    static const struct tmk_raise_row *const tables[] = {tmk_raise_nn, tmk_raise_math,
                                                         tmk_raise_shapes, tmk_raise_quantized};
    if (!node->row) /* kept, though nobody knows it: its operands may be any */
        return NULL;
    for (size_t i = 0; i < TMK_COUNT(tables); i++)
        for (const struct tmk_raise_row *row = tables[i]; row->op; row++)
            if (tmk_node_is(node, row->domain, row->op))
                return row;
    return NULL;
}

/* ---- the copy ---- */

static enum tmk_status remember(struct tmk_raising *r, const struct tmk_value *from,
                                struct tmk_value *to) {
    if (!from || tmk_ptrmap_put(&r->sources, to, (void *)(uintptr_t)from))
        return TMK_OK;
    return tmk_nomem(r->diag);
}

static enum tmk_status copy_graph(struct tmk_raising *r, const struct tmk_graph *graph) {
    TMK_TRY(tmk_graph_clone(graph, &r->graph, r->diag));
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        TMK_TRY(remember(r, graph->inputs[i], r->graph->inputs[i]));
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        TMK_TRY(remember(r, graph->outputs[i], r->graph->outputs[i]));
    const struct tmk_node *to = r->graph->first;
    for (const struct tmk_node *from = graph->first; from && to; from = from->next, to = to->next) {
        for (uint32_t i = 0; i < from->n_inputs; i++)
            TMK_TRY(remember(r, from->inputs[i], to->inputs[i]));
        for (uint32_t i = 0; i < from->n_outputs; i++)
            TMK_TRY(remember(r, from->outputs[i], to->outputs[i]));
    }
    TMK_TRY(tmk_fill_types(r->graph, r->diag));
    TMK_TRY(tmk_certain_create(r->graph, &r->certain, r->diag));
    r->needed = calloc(r->certain.n + 1u, sizeof *r->needed);
    return r->needed ? TMK_OK : tmk_nomem(r->diag);
}

static const struct tmk_tensor *numbers_of(const struct tmk_raising *r,
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

static bool is_read(const struct tmk_raise_row *row, uint32_t i) {
    return row && i < 32 && row->read >> i & 1;
}

static void need_operands(struct tmk_raising *r, const struct tmk_node *node) {
    const struct tmk_raise_row *row = tmk_raise_find(node);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct tmk_value *value = node->inputs[i];
        if (value && !(numbers_of(r, value) && is_read(row, i)))
            r->needed[value->index] = true;
    }
}

static bool makes_needed(const struct tmk_raising *r, const struct tmk_node *node) {
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (tmk_raise_wanted(r, node, i) && !numbers_of(r, node->outputs[i]))
            return true;
    return false;
}

static void find_needed(struct tmk_raising *r) {
    for (uint32_t i = 0; i < r->graph->n_outputs; i++)
        r->needed[r->graph->outputs[i]->index] = true;
    for (const struct tmk_node *node = r->graph->last; node; node = node->prev)
        if (makes_needed(r, node))
            need_operands(r, node);
}

/* ---- parameters ---- */

/* The escaped name, made one of its own where two are alike. */
static const char *free_name(struct tmk_raising *r, const char *name) {
    const char *escaped = tmk_relay_escape(r->say.arena, name);
    const size_t size = escaped ? strlen(escaped) + 16 : 0;
    for (unsigned i = 1; escaped && tmk_map_get(&r->names, escaped); i++) {
        char *another = tmk_arena_alloc(r->say.arena, size);
        if (another)
            snprintf(another, size, "%.*s_%u", (int)(size - 16),
                     tmk_relay_escape(r->say.arena, name), i);
        escaped = another;
    }
    if (escaped && tmk_map_put(&r->names, escaped, r))
        return escaped;
    r->say.nomem = true;
    return NULL;
}

static void expose(struct tmk_raising *r, const struct tmk_value *value,
                   struct tmk_relay_expr *expr) {
    if (!expr || !tmk_ptrmap_put(&r->exprs, value, expr))
        r->say.nomem = true;
    if (expr)
        expr->value = tmk_ptrmap_get(&r->sources, value);
}

static struct tmk_relay_expr *add_weight(struct tmk_raising *r, const char *name,
                                         const struct tmk_tensor *tensor) {
    if (r->options.metadata)
        return tmk_say_add_constant(&r->say, tensor);
    const char *escaped = free_name(r, name);
    struct tmk_relay_type *type = tmk_say_tensor_type(r->say.arena, tensor->dtype, &tensor->shape);
    struct tmk_relay_expr *expr = escaped ? tmk_say_add_param(&r->say, escaped, type) : NULL;
    if (expr && r->status == TMK_OK)
        r->status = tmk_relay_params_add(r->params, escaped, tensor, r->diag);
    return expr;
}

struct tmk_relay_expr *tmk_raise_constant(struct tmk_raising *r, const struct tmk_node *node,
                                          const char *what, const struct tmk_tensor *tensor) {
    const size_t size = strlen(node->outputs[0]->name) + strlen(what) + 2;
    char *name = tmk_arena_alloc(r->say.arena, size);
    r->say.nomem |= !name;
    if (!name)
        return NULL;
    snprintf(name, size, "%s_%s", node->outputs[0]->name, what);
    return add_weight(r, name, tensor);
}

static void add_inputs(struct tmk_raising *r) {
    for (uint32_t i = 0; i < r->graph->n_inputs; i++) {
        const struct tmk_value *value = r->graph->inputs[i];
        const char *name = free_name(r, value->name);
        struct tmk_relay_type *type = tmk_say_tensor_type(
            r->say.arena, value->type.dtype, value->type.has_shape ? &value->type.shape : NULL);
        expose(r, value, name ? tmk_say_add_param(&r->say, name, type) : NULL);
    }
}

/* ---- for the rows ---- */

bool tmk_raise_has(const struct tmk_node *node, uint32_t i) {
    return i < node->n_inputs && node->inputs[i];
}

static struct tmk_relay_expr *expr_of(struct tmk_raising *r, const struct tmk_value *value) {
    struct tmk_relay_expr *expr = tmk_ptrmap_get(&r->exprs, value);
    const struct tmk_tensor *numbers = expr ? NULL : numbers_of(r, value);
    if (numbers) {
        expr = add_weight(r, value->name, numbers);
        expose(r, value, expr);
    }
    return expr;
}

struct tmk_relay_expr *tmk_raise_operand(struct tmk_raising *r, const struct tmk_node *node,
                                         uint32_t i) {
    return tmk_raise_has(node, i) ? expr_of(r, node->inputs[i]) : NULL;
}

const struct tmk_tensor *tmk_raise_numbers(const struct tmk_raising *r, const struct tmk_node *node,
                                           uint32_t i) {
    return tmk_raise_has(node, i) ? numbers_of(r, node->inputs[i]) : NULL;
}

bool tmk_raise_ints(const struct tmk_raising *r, const struct tmk_node *node, uint32_t i,
                    int64_t out[2 * TMK_MAX_RANK], size_t *n) {
    const struct tmk_tensor *numbers = tmk_raise_numbers(r, node, i);
    return numbers && tmk_read_ints(numbers, "the list", 2 * TMK_MAX_RANK, out, n, NULL) == TMK_OK;
}

bool tmk_raise_listed(const struct tmk_raising *r, const struct tmk_node *node, const char *name,
                      uint32_t i, int64_t out[2 * TMK_MAX_RANK], size_t *n) {
    const int64_t *ints = tmk_node_ints(node, name, n);
    if (!ints && tmk_raise_has(node, i))
        return tmk_raise_ints(r, node, i, out, n);
    if (*n > 2 * TMK_MAX_RANK)
        return false;
    for (size_t k = 0; ints && k < *n; k++)
        out[k] = ints[k];
    return true;
}

bool tmk_raise_number(const struct tmk_raising *r, const struct tmk_node *node, uint32_t i,
                      double *out) {
    const struct tmk_tensor *numbers = tmk_raise_numbers(r, node, i);
    if (!numbers || tmk_tensor_count(numbers) != 1)
        return false;
    switch (numbers->dtype) {
    case TMK_FLOAT32:
        *out = *(const float *)numbers->data;
        return true;
    case TMK_INT8:
        *out = *(const int8_t *)numbers->data;
        return true;
    case TMK_UINT8:
        *out = *(const uint8_t *)numbers->data;
        return true;
    case TMK_INT32:
        *out = *(const int32_t *)numbers->data;
        return true;
    case TMK_INT64:
        *out = (double)*(const int64_t *)numbers->data;
        return true;
    default:
        return false;
    }
}

static const struct tmk_shape *shape_of(const struct tmk_value *value) {
    if (value->data.data)
        return &value->data.shape;
    return value->type.has_shape ? &value->type.shape : NULL;
}

const struct tmk_shape *tmk_raise_shape(const struct tmk_node *node, uint32_t i) {
    return tmk_raise_has(node, i) ? shape_of(node->inputs[i]) : NULL;
}

const struct tmk_shape *tmk_raise_made(const struct tmk_node *node, uint32_t i) {
    return i < node->n_outputs && node->outputs[i] ? shape_of(node->outputs[i]) : NULL;
}

enum tmk_dtype tmk_raise_dtype(const struct tmk_node *node, uint32_t i) {
    if (!tmk_raise_has(node, i))
        return TMK_UNDEFINED;
    const struct tmk_value *value = node->inputs[i];
    return value->data.data ? value->data.dtype : value->type.dtype;
}

int64_t tmk_raise_axis(int64_t axis, int32_t rank) {
    const int64_t place = axis < 0 ? axis + rank : axis;
    return place >= 0 && place < rank ? place : -1;
}

bool tmk_raise_wanted(const struct tmk_raising *r, const struct tmk_node *node, uint32_t i) {
    return i < node->n_outputs && node->outputs[i] && r->needed[node->outputs[i]->index];
}

/* The name as a source of the text's spans: no blank, and nothing that ends a comment. */
static const char *span_of(struct tmk_raising *r, const char *name) {
    char *text = tmk_arena_alloc(r->say.arena, strlen(name) + 8);
    r->say.nomem |= !text;
    if (!text || !*name)
        return NULL;
    sprintf(text, "%s:0:0", name);
    for (char *at = text; *at; at++)
        if ((unsigned char)*at <= ' ' || *at == '*' || *at == 127)
            *at = '_';
    return text;
}

void tmk_raise_result(struct tmk_raising *r, const struct tmk_node *node, uint32_t i,
                      struct tmk_relay_expr *expr) {
    struct tmk_relay_expr *use =
        expr && expr->kind == TMK_RELAY_USE ? tmk_say_use(&r->say, expr->binding) : expr;
    if (!tmk_raise_wanted(r, node, i))
        return;
    const struct tmk_value *value = node->outputs[i];
    expose(r, value, use);
    struct tmk_relay_expr *made = use && use->binding ? use->binding->expr : NULL;
    if (!made || made->value)
        return;
    made->value = use->value;
    made->type = tmk_say_tensor_type(r->say.arena, value->type.dtype, shape_of(value));
    made->span = span_of(r, value->name);
}

struct tmk_relay_expr *tmk_raise_like(struct tmk_raising *r, const struct tmk_node *node,
                                      struct tmk_relay_expr *expr) {
    const struct tmk_value *value = node->outputs[0];
    if (expr && expr->binding && expr->binding->expr && !expr->binding->expr->type)
        expr->binding->expr->type =
            tmk_say_tensor_type(r->say.arena, value->type.dtype, shape_of(value));
    return expr;
}

const char *tmk_raise_done(struct tmk_raising *r, const struct tmk_node *node,
                           struct tmk_relay_expr *expr) {
    tmk_raise_result(r, node, 0, expr);
    return NULL;
}

const char *tmk_raise_same(struct tmk_raising *r, const struct tmk_node *node) {
    struct tmk_relay_expr *args[4];
    if (node->n_inputs > TMK_COUNT(args))
        return "it has too many operands";
    for (uint32_t i = 0; i < node->n_inputs; i++)
        args[i] = tmk_raise_operand(r, node, i);
    return tmk_raise_done(
        r, node, tmk_say_call(&r->say, tmk_raise_find(node)->relay, args, node->n_inputs, NULL));
}

/* ---- all of it ---- */

static void cannot(struct tmk_raising *r, const struct tmk_node *node, const char *why) {
    char label[160];
    size_t i = 0;
    while (i < r->n_unsayable && strcmp(r->unsayable[i].why, why) != 0)
        i++;
    if (i == r->n_unsayable && i < TMK_RAISE_REASONS)
        r->unsayable[r->n_unsayable++].why = why;
    struct tmk_unsayable *group = &r->unsayable[i < TMK_RAISE_REASONS ? i : i - 1];
    tmk_text_printf(&group->nodes, "%s%s", group->nodes.len ? ", " : "",
                    tmk_node_label(node, label, sizeof label));
    r->say.nomem |= group->nodes.failed;
}

static enum tmk_status tell_unsayable(struct tmk_raising *r) {
    struct tmk_text all = {0};
    for (size_t i = 0; i < r->n_unsayable; i++)
        tmk_text_printf(&all, "%s%s (%s)", i ? "; " : "", r->unsayable[i].nodes.data,
                        r->unsayable[i].why);
    const enum tmk_status status =
        all.failed ? tmk_nomem(r->diag)
                   : tmk_fail(r->diag, TMK_UNSUPPORTED, "Relay can't say %s", all.data);
    tmk_text_finish(&all);
    return status;
}

static void raise_nodes(struct tmk_raising *r) {
    for (const struct tmk_node *node = r->graph->first; node && !r->say.nomem; node = node->next) {
        const struct tmk_raise_row *row = tmk_raise_find(node);
        if (!makes_needed(r, node))
            continue;
        const char *why = row ? row->raise(r, node) : "Relay has no such operator";
        if (!why)
            continue;
        cannot(r, node, why);
        /* whoever reads it is to be judged on its own account */
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (tmk_raise_wanted(r, node, i))
                expose(r, node->outputs[i], tmk_say_call(&r->say, "?", NULL, 0, NULL));
    }
}

/* TVM writes what makes the result without a name. */
static struct tmk_relay_expr *result_of(struct tmk_raising *r, struct tmk_relay_type **type) {
    struct tmk_saying *b = &r->say;
    const uint32_t n = r->graph->n_outputs;
    struct tmk_relay_expr **list = calloc(n + 1u, sizeof(struct tmk_relay_expr *));
    struct tmk_relay_expr *result = NULL;
    b->nomem |= !list;
    for (uint32_t i = 0; list && i < n; i++)
        list[i] = expr_of(r, r->graph->outputs[i]);
    *type = NULL;
    if (!b->nomem && n != 1) {
        result = tmk_say_items(b, list, n);
    } else if (!b->nomem) {
        const struct tmk_value *value = r->graph->outputs[0];
        result = list[0];
        *type = tmk_say_tensor_type(b->arena, value->type.dtype, shape_of(value));
        struct tmk_relay_binding *last = b->n_bindings ? b->bindings[b->n_bindings - 1] : NULL;
        if (last && result && result->binding == last) {
            result = last->expr;
            b->n_bindings--;
        }
    }
    free(list);
    return result;
}

static enum tmk_status run(struct tmk_raising *r, const struct tmk_graph *graph) {
    TMK_TRY(tmk_relay_module_create(&r->say.module, r->diag));
    r->say.arena = &r->say.module->arena;
    TMK_TRY(tmk_relay_params_create(&r->params, r->diag));
    TMK_TRY(copy_graph(r, graph));
    find_needed(r);
    for (uint32_t i = 0; i < r->graph->n_inputs; i++)
        if (r->graph->inputs[i]->type.kind != TMK_TYPE_TENSOR)
            return tmk_fail(r->diag, TMK_UNSUPPORTED,
                            "Relay can't say input '%s', which is no tensor",
                            r->graph->inputs[i]->name);
    add_inputs(r);
    raise_nodes(r);
    TMK_TRY(r->status);
    if (r->n_unsayable && !r->say.nomem)
        return tell_unsayable(r);
    struct tmk_relay_type *type;
    struct tmk_relay_expr *result = result_of(r, &type);
    return tmk_say_function(&r->say, "main", result, type, r->diag);
}

enum tmk_status tmk_relay_raise(const struct tmk_graph *graph,
                                const struct tmk_relay_raise_options *options,
                                struct tmk_relay_module **module, struct tmk_relay_params **params,
                                struct tmk_diag *diag) {
    struct tmk_raising r = {.diag = diag};
    if (options)
        r.options = *options;
    enum tmk_status status = run(&r, graph);
    if (status == TMK_OK) {
        *module = r.say.module;
        *params = r.params;
    } else {
        tmk_relay_module_destroy(&r.say.module);
        tmk_relay_params_destroy(&r.params);
    }
    tmk_say_finish(&r.say);
    tmk_certain_finish(&r.certain);
    tmk_graph_destroy(&r.graph);
    tmk_ptrmap_finish(&r.sources);
    tmk_ptrmap_finish(&r.exprs);
    tmk_map_finish(&r.names);
    for (size_t i = 0; i < r.n_unsayable; i++)
        tmk_text_finish(&r.unsayable[i].nodes);
    free(r.needed);
    return status;
}

/* ---- files ---- */

enum tmk_status tmk_relay_save(const struct tmk_graph *graph, const char *path,
                               const char *params_path, struct tmk_diag *diag) {
    const struct tmk_relay_raise_options options = {.metadata = !params_path};
    struct tmk_relay_module *module = NULL;
    struct tmk_relay_params *params = NULL;
    TMK_TRY(tmk_in(diag, tmk_relay_raise(graph, &options, &module, &params, diag), "%s", path));
    struct tmk_text text = {0}, weights = {0};
    enum tmk_status status = tmk_in(diag, tmk_relay_print(module, &text, diag), "%s", path);
    if (status == TMK_OK && params_path)
        status = tmk_in(diag, tmk_relay_params_print(params, &weights, diag), "%s", params_path);
    if (status == TMK_OK && (text.failed || weights.failed))
        status = tmk_nomem(diag);
    const struct tmk_file_content files[] = {{path, text.data, text.len},
                                             {params_path, weights.data, weights.len}};
    if (status == TMK_OK)
        status = tmk_files_write(files, params_path ? 2 : 1, diag);
    tmk_text_finish(&text);
    tmk_text_finish(&weights);
    tmk_relay_module_destroy(&module);
    tmk_relay_params_destroy(&params);
    return status;
}
