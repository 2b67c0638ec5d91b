/* SPDX-License-Identifier: Apache-2.0 */
/* annotation.quantize_info behind the edges of a module, made as a copy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/map.h"
#include "base/memory.h"
#include "export/rows.h"
#include "relay/builder.h"
#include "relay/export.h"

struct annotating {
    const struct tmk_export_job *job;
    struct tmk_relay_builder build; /* the copy */
    struct tmk_ptrmap moved;  /* binding of the original -> that of the copy, annotated or not */
    struct tmk_ptrmap params; /* binding of a parameter -> its value */
    struct tmk_map by_name;   /* inputs and initializers of the graph */
    struct tmk_relay_edges *edges;
    struct tmk_relay_coding *coding; /* NULL: parameters stay as they are */
    bool inside;                     /* of an inner function or a branch: not annotated */
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
    const char *name = binding ? binding->name : "";
    const size_t size = strlen(name) + 64;
    char *text = tmk_arena_alloc(a->build.arena, size);
    a->build.nomem |= !text;
    if (!text)
        return "";
    if (binding)
        snprintf(text, size, "%%%s", name);
    else if (expr && expr->kind == TMK_RELAY_METADATA)
        snprintf(text, size, "meta[relay.Constant][%u]", expr->index);
    return text;
}

/* The edge of the value, once; NULL where the encodings do not have it. */
static const struct tmk_relay_edge *add_edge(struct annotating *a, const struct tmk_value *value,
                                             const struct tmk_relay_binding *binding,
                                             const struct tmk_relay_expr *expr) {
    const struct tmk_export_job *job = a->job;
    if (!value || value->profile_id < 0 || a->inside || a->build.nomem)
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

/* ---- the copy ---- */

static struct tmk_relay_expr *annotate_copy(struct annotating *a,
                                            const struct tmk_relay_expr *from);

static void *new_annotated(struct annotating *a, size_t count, size_t size) {
    void *memory = tmk_arena_array(a->build.arena, count, size);
    a->build.nomem |= !memory;
    return memory;
}

static void map_binding(struct annotating *a, const struct tmk_relay_binding *from,
                        struct tmk_relay_binding *to) {
    if (!to || !tmk_ptrmap_put(&a->moved, from, to))
        a->build.nomem = true;
}

static struct tmk_relay_binding *copy_binding(struct annotating *a,
                                              const struct tmk_relay_binding *from) {
    struct tmk_relay_binding *to = new_annotated(a, 1, sizeof *to);
    if (!to)
        return NULL;
    *to = *from;
    if (from->expr)
        to->expr = annotate_copy(a, from->expr);
    map_binding(a, from, to);
    return to;
}

static struct tmk_relay_body copy_body(struct annotating *a, const struct tmk_relay_body *from) {
    struct tmk_relay_body to = *from;
    to.bindings = new_annotated(a, from->n + 1u, sizeof(struct tmk_relay_binding *));
    for (uint32_t i = 0; to.bindings && i < from->n; i++)
        to.bindings[i] = copy_binding(a, from->bindings[i]);
    to.result = annotate_copy(a, from->result);
    return to;
}

static struct tmk_relay_body *copy_branch(struct annotating *a, const struct tmk_relay_body *from) {
    struct tmk_relay_body *to = from ? new_annotated(a, 1, sizeof *to) : NULL;
    if (to)
        *to = copy_body(a, from);
    return to;
}

static struct tmk_relay_function *copy_function(struct annotating *a,
                                                const struct tmk_relay_function *from) {
    struct tmk_relay_function *to = new_annotated(a, 1, sizeof *to);
    if (!to)
        return NULL;
    *to = *from;
    to->params = new_annotated(a, from->n_params + 1u, sizeof(struct tmk_relay_binding *));
    for (uint32_t i = 0; to->params && i < from->n_params; i++)
        to->params[i] = copy_binding(a, from->params[i]);
    to->body = copy_body(a, &from->body);
    return to;
}

static bool is_edge(const struct tmk_relay_expr *expr) {
    return expr->kind == TMK_RELAY_CALL || expr->kind == TMK_RELAY_PROJECT ||
           expr->kind == TMK_RELAY_METADATA;
}

static struct tmk_relay_expr *annotate_copy(struct annotating *a,
                                            const struct tmk_relay_expr *from) {
    struct tmk_relay_expr *to = new_annotated(a, 1, sizeof *to);
    if (!to)
        return NULL;
    *to = *from;
    if (from->kind == TMK_RELAY_USE) {
        struct tmk_relay_binding *binding = tmk_ptrmap_get(&a->moved, from->binding);
        to->binding = binding ? binding : from->binding;
        return to;
    }
    if (from->callee)
        to->callee = annotate_copy(a, from->callee);
    if (from->fn || from->body) {
        /* Edges of inner functions and branches are in the JSON only. */
        const bool inside = a->inside;
        a->inside = true;
        if (from->fn)
            to->fn = copy_function(a, from->fn);
        to->body = copy_branch(a, from->body);
        to->otherwise = copy_branch(a, from->otherwise);
        a->inside = inside;
    }
    to->args = new_annotated(a, from->n_args + 1u, sizeof(struct tmk_relay_expr *));
    for (uint32_t i = 0; to->args && i < from->n_args; i++) {
        const struct tmk_relay_expr *arg = from->args[i];
        struct tmk_relay_expr *copied = annotate_copy(a, arg);
        const struct tmk_relay_edge *edge =
            is_edge(arg) ? add_edge(a, arg->value, NULL, arg) : NULL;
        to->args[i] = edge ? make_info(a, edge, copied, arg->type) : copied;
    }
    return to;
}

/* ---- @main ---- */

/* Parameters have no expression: their values are known by those that use them, or by name. */
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

/* `%N = annotation.quantize_info(%it, ...)` for its uses. */
static void annotate_binding(struct annotating *a, const struct tmk_relay_binding *from,
                             struct tmk_relay_binding *to, const struct tmk_value *value) {
    const struct tmk_relay_edge *edge = to ? add_edge(a, value, to, from->expr) : NULL;
    if (!edge)
        return;
    struct tmk_relay_type *type = from->expr ? from->expr->type : from->type;
    struct tmk_relay_binding *made =
        tmk_rb_make_binding(&a->build, make_info(a, edge, tmk_rb_use(&a->build, to), type));
    tmk_rb_append(&a->build, made);
    map_binding(a, from, made);
}

/* A parameter, from now on codes that are dequantized; NULL: it stays as it is. */
static struct tmk_relay_binding *decode_param(struct annotating *a, struct tmk_relay_binding *to,
                                              const struct tmk_value *value) {
    const struct tmk_encoding *e =
        value && value->profile_id >= 0
            ? tmk_relay_encoding(a->job->encodings, (uint32_t)value->profile_id)
            : NULL;
    const struct tmk_relay_param *param =
        a->coding ? tmk_relay_codable(a->coding, value, to->name, e) : NULL;
    if (!param)
        return NULL;
    struct tmk_relay_binding *real =
        tmk_rb_make_binding(&a->build, tmk_relay_decode(a->coding, &a->build, param, e, to));
    tmk_rb_append(&a->build, real);
    return real;
}

static struct tmk_relay_binding *copy_param(struct annotating *a,
                                            const struct tmk_relay_binding *from) {
    const struct tmk_value *value = value_of_param(a, from);
    struct tmk_relay_binding *to = copy_binding(a, from);
    struct tmk_relay_binding *real = to ? decode_param(a, to, value) : NULL;
    if (real)
        map_binding(a, from, real);
    else if (a->coding && to)
        tmk_relay_keep(a->coding, to->name);
    annotate_binding(a, from, real ? real : to, value);
    return to;
}

static void copy_top(struct annotating *a, const struct tmk_relay_body *body) {
    for (uint32_t i = 0; i < body->n && !a->build.nomem; i++) {
        const struct tmk_relay_binding *from = body->bindings[i];
        struct tmk_relay_binding *to = copy_binding(a, from);
        tmk_rb_append(&a->build, to);
        if (!from->expr)
            annotate_binding(a, from, to, value_of_param(a, from));
        else if (is_edge(from->expr))
            annotate_binding(a, from, to, from->expr->value);
    }
}

/* What makes the result gets a name, so that its edge has one. */
static struct tmk_relay_expr *copy_result(struct annotating *a, const struct tmk_relay_expr *from) {
    struct tmk_relay_expr *to = annotate_copy(a, from);
    if (!is_edge(from) || !from->value || !to || from->kind == TMK_RELAY_METADATA)
        return to;
    struct tmk_relay_binding *binding = tmk_rb_make_binding(&a->build, to);
    const struct tmk_relay_edge *edge = binding ? add_edge(a, from->value, binding, from) : NULL;
    if (!edge)
        return to;
    tmk_rb_append(&a->build, binding);
    return make_info(a, edge, tmk_rb_use(&a->build, binding), from->type);
}

static struct tmk_relay_function *annotate_main(struct annotating *a,
                                                const struct tmk_relay_function *from) {
    struct tmk_relay_function *to = new_annotated(a, 1, sizeof *to);
    if (!to)
        return NULL;
    *to = *from;
    /* The first number behind all that are taken. */
    uint32_t next = 0;
    for (uint32_t i = 0; i < from->body.n; i++)
        if (from->body.bindings[i]->kind == TMK_RELAY_NUMBERED) {
            const unsigned long n = strtoul(from->body.bindings[i]->name, NULL, 10);
            if (n < UINT32_MAX / 2 && n >= next)
                next = (uint32_t)n + 1;
        }
    a->build.next = next;
    for (uint32_t i = 0; i < from->body.n; i++)
        if (from->body.bindings[i]->expr)
            find_params(a, from->body.bindings[i]->expr);
    find_params(a, from->body.result);
    const struct tmk_graph *graph = a->job->graph;
    for (uint32_t i = 0; i < graph->n_values; i++) {
        struct tmk_value *value = graph->values[i];
        if (tmk_value_alive(value) && value->kind != TMK_VALUE_RESULT && value->name[0] &&
            !tmk_map_put(&a->by_name, value->name, value))
            a->build.nomem = true;
    }
    /* Behind those of the text come the scales that were added. */
    struct tmk_relay_binding **kept = new_annotated(a, from->n_params + 1u, sizeof(*kept));
    for (uint32_t i = 0; kept && i < from->n_params; i++)
        kept[i] = copy_param(a, from->params[i]);
    to->params = new_annotated(a, from->n_params + a->build.n_params + 1u, sizeof(*kept));
    if (kept && to->params) {
        memcpy(to->params, kept, from->n_params * sizeof(*kept));
        for (size_t i = 0; i < a->build.n_params; i++)
            to->params[to->n_params++] = a->build.params[i];
    }
    copy_top(a, &from->body);
    to->body.result = copy_result(a, from->body.result);
    tmk_rb_body(&a->build, &to->body);
    return to;
}

/* The text's own section holds what annotations do not touch. */
static void copy_constants(struct annotating *a, const struct tmk_relay_module *from) {
    struct tmk_relay_module *to = a->build.module;
    to->has_metadata = from->has_metadata;
    to->section = from->section;
    to->constants = new_annotated(a, from->n_constants + 1u, sizeof *to->constants);
    to->constant_dtypes = from->constant_dtypes;
    for (uint32_t i = 0; to->constants && i < from->n_constants; i++)
        tmk_tensor_share(&to->constants[to->n_constants++], &from->constants[i]);
}

enum tmk_status tmk_relay_annotate(const struct tmk_export_job *job,
                                   const struct tmk_relay_module *module,
                                   struct tmk_relay_coding *coding, struct tmk_relay_module **out,
                                   struct tmk_relay_edges *edges, struct tmk_diag *diag) {
    struct annotating a = {.job = job, .edges = edges, .coding = coding};
    TMK_TRY(tmk_relay_module_create(&a.build.module, diag));
    a.build.arena = &a.build.module->arena;
    struct tmk_relay_module *to = a.build.module;
    to->functions =
        new_annotated(&a, module->n_functions + 1u, sizeof(struct tmk_relay_function *));
    for (uint32_t i = 0; to->functions && i < module->n_functions; i++) {
        struct tmk_relay_function *function = module->functions[i];
        to->functions[to->n_functions++] =
            strcmp(function->name, "main") == 0 ? annotate_main(&a, function) : function;
    }
    memcpy(to->version, module->version, sizeof to->version);
    copy_constants(&a, module);
    enum tmk_status status = coding ? coding->status : TMK_OK;
    if (status == TMK_OK && a.build.nomem)
        status = tmk_nomem(diag);
    if (status == TMK_OK)
        *out = a.build.module;
    else
        tmk_relay_module_destroy(&a.build.module);
    tmk_rb_finish(&a.build);
    tmk_ptrmap_finish(&a.moved);
    tmk_ptrmap_finish(&a.params);
    tmk_map_finish(&a.by_name);
    return status;
}
