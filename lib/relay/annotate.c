/* SPDX-License-Identifier: Apache-2.0 */
/* annotation.quantize_info behind the edges of a module. */
#include <stdio.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/map.h"
#include "base/memory.h"
#include "export/rows.h"
#include "relay/builder.h"
#include "relay/export.h"

struct annotating {
    const struct tmk_export_job *job;
    struct tmk_relay_builder build;
    struct tmk_ptrmap params; /* binding of a parameter -> its value */
    struct tmk_map by_name;   /* inputs and initializers of the graph */
    struct tmk_relay_edges *edges;
    struct tmk_relay_coding *coding; /* NULL: parameters stay as they are */
};

/* ---- what is known of a value ---- */

const struct tmk_encoding *tmk_relay_encoding(const struct tmk_encodings *encodings, uint32_t id) {
    const struct tmk_encoding *found = tmk_encodings_find(encodings, id, NULL, 0);
    for (uint32_t i = 0; !found && i < encodings->n_items; i++)
        if (encodings->items[i].id == id)
            found = &encodings->items[i];
    return found;
}

const struct tmk_left_float *tmk_relay_left(const struct tmk_encodings *encodings, uint32_t id) {
    for (uint32_t i = 0; i < encodings->n_left; i++)
        if (encodings->left[i].id == id)
            return &encodings->left[i];
    return NULL;
}

const char *tmk_relay_kind(const struct tmk_graph *graph, uint32_t id,
                           const struct tmk_encoding *encoding) {
    if (encoding && encoding->role != TMK_ENCODING_ACTIVATION)
        return tmk_encoding_role_name(encoding->role);
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        if (graph->inputs[i]->profile_id == (int64_t)id)
            return "input";
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        if (graph->outputs[i]->profile_id == (int64_t)id)
            return "output";
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (graph->values[i]->profile_id == (int64_t)id &&
            graph->values[i]->kind == TMK_VALUE_INITIALIZER)
            return "weight";
    return "activation";
}

void tmk_relay_edges_finish(struct tmk_relay_edges *edges) {
    free(edges->items);
    *edges = (struct tmk_relay_edges){0};
}

/* ---- annotations ---- */

/* The reader of Relay's strings has no escapes. */
static const char *plain_text(struct annotating *a, const char *name) {
    char *text = tmk_arena_strdup(a->build.arena, name);
    a->build.nomem |= !text;
    for (char *at = text; at && *at; at++)
        if ((unsigned char)*at < ' ' || *at == '"' || *at == '\\' || *at == 127)
            *at = '?';
    return text ? text : "";
}

static bool is_finite_range(float low, float high) {
    return low >= -3.4028235e38f && high <= 3.4028235e38f;
}

static const char *spell_edge(struct annotating *a, const struct tmk_relay_binding *binding,
                              const struct tmk_relay_expr *expr) {
    if (!binding && (!expr || expr->kind != TMK_RELAY_METADATA))
        return "";
    const char *text =
        binding ? tmk_arena_printf(a->build.arena, "%%%s", binding->name)
                : tmk_arena_printf(a->build.arena, "meta[relay.Constant][%u]", expr->index);
    a->build.nomem |= !text;
    return text ? text : "";
}

/* The edge of the value, once; NULL where the encodings do not have it. */
static const struct tmk_relay_edge *add_edge(struct annotating *a, const struct tmk_value *value,
                                             const struct tmk_relay_binding *binding,
                                             const struct tmk_relay_expr *expr) {
    const struct tmk_export_job *job = a->job;
    if (!value || value->profile_id < 0 || a->build.nomem)
        return NULL;
    const uint32_t id = (uint32_t)value->profile_id;
    struct tmk_relay_edge edge = {.id = id,
                                  .encoding = tmk_relay_encoding(job->encodings, id),
                                  .left = tmk_relay_left(job->encodings, id)};
    if (!edge.encoding && !edge.left)
        return NULL;
    edge.kind = tmk_relay_kind(job->graph, id, edge.encoding);
    edge.name = edge.encoding ? edge.encoding->name : edge.left->name;
    edge.spelled = spell_edge(a, binding, expr);
    edge.span = expr ? expr->span : binding ? binding->span : NULL;
    if (!TMK_GROW(a->edges->items, a->edges->n, a->edges->size)) {
        a->build.nomem = true;
        return NULL;
    }
    a->edges->items[a->edges->n] = edge;
    return &a->edges->items[a->edges->n++];
}

static struct tmk_relay_expr *make_info(struct annotating *a, const struct tmk_relay_edge *edge,
                                        struct tmk_relay_expr *x, struct tmk_relay_type *type) {
    const struct tmk_encoding *e = edge->encoding;
    const float low = e ? e->observed_min : edge->left->observed_min;
    const float high = e ? e->observed_max : edge->left->observed_max;
    char id[16];
    snprintf(id, sizeof id, "p%u", edge->id);
    tmk_rb_set_string(&a->build, "profile_id", id);
    tmk_rb_set_string(&a->build, "name", plain_text(a, edge->name));
    tmk_rb_set_string(&a->build, "kind", edge->kind);
    if (is_finite_range(low, high)) {
        tmk_rb_set_real(&a->build, "min", low);
        tmk_rb_set_real(&a->build, "max", high);
    }
    tmk_rb_set_string(&a->build, "dtype", e ? tmk_dtype_name(e->dtype) : "float32");
    if (e && tmk_export_bits(e) + (e->dtype == TMK_INT32)) {
        int32_t lowest, highest;
        if (e->n == 1) {
            tmk_rb_set_real(&a->build, "ndom_scale", e->scale[0]);
        } else {
            tmk_rb_set_reals(&a->build, "ndom_scale", e->scale, e->n);
            tmk_rb_set_int(&a->build, "axis", e->axis);
        }
        tmk_encoding_codes(e, &lowest, &highest);
        if (e->dtype != TMK_INT32) { /* whose ends a float does not hold, and no bias reaches */
            tmk_rb_set_real(&a->build, "nclip_min", (float)lowest);
            tmk_rb_set_real(&a->build, "nclip_max", (float)highest);
        }
        int64_t *zeros = tmk_arena_array(a->build.arena, e->n, sizeof *zeros);
        a->build.nomem |= !zeros;
        bool differ = false;
        for (uint32_t i = 0; zeros && i < e->n; i++) {
            zeros[i] = e->zero_point[i];
            differ |= zeros[i] != zeros[0];
        }
        if (zeros && differ)
            tmk_rb_set_ints(&a->build, "zero_point", zeros, e->n);
        else if (zeros)
            tmk_rb_set_int(&a->build, "zero_point", zeros[0]);
    }
    return tmk_rb_make_call(&a->build, "annotation.quantize_info", &x, 1, type);
}

/* ---- expressions ---- */

static bool is_edge(const struct tmk_relay_expr *expr) {
    return expr->kind == TMK_RELAY_CALL || expr->kind == TMK_RELAY_PROJECT ||
           expr->kind == TMK_RELAY_METADATA;
}

/* Edges of inner functions and branches are in the JSON only. */
static void annotate_operands(struct annotating *a, struct tmk_relay_expr *expr) {
    if (expr->callee)
        annotate_operands(a, expr->callee);
    for (uint32_t i = 0; i < expr->n_args; i++) {
        struct tmk_relay_expr *arg = expr->args[i];
        annotate_operands(a, arg);
        const struct tmk_relay_edge *edge =
            is_edge(arg) ? add_edge(a, arg->value, NULL, arg) : NULL;
        if (edge)
            expr->args[i] = make_info(a, edge, arg, arg->type);
    }
}

/* ---- @main ---- */

static void find_params(struct annotating *a, const struct tmk_relay_expr *expr) {
    if (expr->kind == TMK_RELAY_USE && expr->value && !expr->binding->expr &&
        !tmk_ptrmap_put(&a->params, expr->binding, expr->value))
        a->build.nomem = true;
    for (uint32_t i = 0; i < expr->n_args; i++)
        find_params(a, expr->args[i]);
}

static const struct tmk_value *value_of_param(const struct annotating *a,
                                              const struct tmk_relay_binding *param) {
    const struct tmk_value *value = tmk_ptrmap_get(&a->params, param);
    return value ? value : tmk_map_get(&a->by_name, param->name);
}

/* What the binding is now, to be an operand of what its uses get (rebind). NULL: no memory. */
static struct tmk_relay_binding *copy_binding(struct annotating *a,
                                              const struct tmk_relay_binding *binding) {
    struct tmk_relay_binding *kept = tmk_arena_alloc(a->build.arena, sizeof *kept);
    a->build.nomem |= !kept;
    if (kept)
        *kept = *binding;
    return kept;
}

/* The uses of the binding become uses of `%N = expr`. */
static void rebind(struct annotating *a, struct tmk_relay_binding *binding,
                   struct tmk_relay_expr *expr) {
    const struct tmk_relay_binding *made = tmk_rb_make_binding(&a->build, expr);
    if (made)
        *binding = *made;
}

/* The uses of the binding become uses of its annotation. What it was is returned, or itself where
 * its value has no edge. */
static struct tmk_relay_binding *annotate_binding(struct annotating *a,
                                                  struct tmk_relay_binding *binding,
                                                  struct tmk_relay_type *type,
                                                  const struct tmk_value *value) {
    const struct tmk_relay_edge *edge = add_edge(a, value, binding, binding->expr);
    struct tmk_relay_binding *kept = edge ? copy_binding(a, binding) : NULL;
    if (!kept)
        return binding;
    rebind(a, binding, make_info(a, edge, tmk_rb_use(&a->build, kept), type));
    return kept;
}

/* The same for a parameter, which may become codes that are dequantized. */
static struct tmk_relay_binding *annotate_param(struct annotating *a,
                                                struct tmk_relay_binding *param) {
    const struct tmk_value *value = value_of_param(a, param);
    const struct tmk_encoding *e =
        value && value->profile_id >= 0
            ? tmk_relay_encoding(a->job->encodings, (uint32_t)value->profile_id)
            : NULL;
    const struct tmk_relay_param *codable =
        a->coding ? tmk_relay_codable(a->coding, value, param->name, e) : NULL;
    struct tmk_relay_type *type = param->type;
    struct tmk_relay_binding *codes = codable ? copy_binding(a, param) : NULL;
    if (codes)
        rebind(a, param, tmk_relay_decode(a->coding, &a->build, codable, e, codes));
    else if (a->coding)
        tmk_relay_keep(a->coding, param->name);
    struct tmk_relay_binding *plain = annotate_binding(a, param, type, value);
    if (codes)
        tmk_rb_append(&a->build, plain);
    if (plain != param)
        tmk_rb_append(&a->build, param);
    return codes ? codes : plain;
}

static void annotate_bindings(struct annotating *a, const struct tmk_relay_body *body) {
    for (uint32_t i = 0; i < body->n && !a->build.nomem; i++) {
        struct tmk_relay_binding *binding = body->bindings[i], *plain = binding;
        struct tmk_relay_expr *expr = binding->expr;
        if (expr)
            annotate_operands(a, expr);
        if (!expr)
            plain = annotate_binding(a, binding, binding->type, value_of_param(a, binding));
        else if (is_edge(expr))
            plain = annotate_binding(a, binding, expr->type, expr->value);
        tmk_rb_append(&a->build, plain);
        if (plain != binding)
            tmk_rb_append(&a->build, binding);
    }
}

/* What makes the result gets a name, so that its edge has one. */
static struct tmk_relay_expr *annotate_result(struct annotating *a, struct tmk_relay_expr *expr) {
    annotate_operands(a, expr);
    if (!is_edge(expr) || !expr->value || expr->kind == TMK_RELAY_METADATA)
        return expr;
    struct tmk_relay_binding *binding = tmk_rb_make_binding(&a->build, expr);
    const struct tmk_relay_edge *edge = binding ? add_edge(a, expr->value, binding, expr) : NULL;
    if (!edge)
        return expr;
    tmk_rb_append(&a->build, binding);
    return make_info(a, edge, tmk_rb_use(&a->build, binding), expr->type);
}

/* The first number behind all that are taken. */
static uint32_t next_number(const struct tmk_relay_body *body) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < body->n; i++)
        if (body->bindings[i]->kind == TMK_RELAY_NUMBERED) {
            const unsigned long n = strtoul(body->bindings[i]->name, NULL, 10);
            if (n < UINT32_MAX / 2 && n >= next)
                next = (uint32_t)n + 1;
        }
    return next;
}

/* Parameters have no expression: their values are known by those that use them, or by name. */
static void find_values(struct annotating *a, const struct tmk_relay_body *body) {
    const struct tmk_graph *graph = a->job->graph;
    for (uint32_t i = 0; i < body->n; i++)
        if (body->bindings[i]->expr)
            find_params(a, body->bindings[i]->expr);
    find_params(a, body->result);
    for (uint32_t i = 0; i < graph->n_values; i++) {
        struct tmk_value *value = graph->values[i];
        if (tmk_value_alive(value) && value->kind != TMK_VALUE_RESULT && value->name[0] &&
            !tmk_map_put(&a->by_name, value->name, value))
            a->build.nomem = true;
    }
}

static void annotate_main(struct annotating *a, struct tmk_relay_function *fn) {
    a->build.next = next_number(&fn->body);
    find_values(a, &fn->body);
    for (uint32_t i = 0; i < fn->n_params; i++)
        fn->params[i] = annotate_param(a, fn->params[i]);
    annotate_bindings(a, &fn->body);
    fn->body.result = annotate_result(a, fn->body.result);
    tmk_rb_body(&a->build, &fn->body);
    /* Behind the parameters of the text come the scales that were added. */
    struct tmk_relay_binding **params =
        tmk_arena_array(a->build.arena, fn->n_params + a->build.n_params + 1u, sizeof(*params));
    a->build.nomem |= !params;
    if (!params)
        return;
    for (uint32_t i = 0; i < fn->n_params; i++)
        params[i] = fn->params[i];
    for (size_t i = 0; i < a->build.n_params; i++)
        params[fn->n_params++] = a->build.params[i];
    fn->params = params;
}

enum tmk_status tmk_relay_annotate(const struct tmk_export_job *job,
                                   struct tmk_relay_module *module, struct tmk_relay_coding *coding,
                                   struct tmk_relay_edges *edges, struct tmk_diag *diag) {
    struct annotating a = {.job = job,
                           .build = {.module = module, .arena = &module->arena},
                           .edges = edges,
                           .coding = coding};
    struct tmk_relay_function *fn = tmk_relay_function(module, "main");
    if (fn)
        annotate_main(&a, fn);
    enum tmk_status status = coding ? coding->status : TMK_OK;
    if (status == TMK_OK && a.build.nomem)
        status = tmk_nomem(diag);
    tmk_rb_finish(&a.build);
    tmk_ptrmap_finish(&a.params);
    tmk_map_finish(&a.by_name);
    return status;
}
