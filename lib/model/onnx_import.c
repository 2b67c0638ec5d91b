/* SPDX-License-Identifier: Apache-2.0 */
/* A model file becomes a graph: the model's frame, graphs, names. */
#include "model/onnx_import.h"

#include <string.h>

#include "base/diag.h"
#include "base/text.h"
#include "graph/graph.h"
#include "model/onnx.h"
#include "model/wire.h"
#include "ops/ops.h"

enum tmk_status tmk_model_finish(struct tmk_graph *graph, bool keep_unknown,
                                 struct tmk_diag *diag) {
    struct tmk_diag unknown = {0};
    enum tmk_status status = tmk_ops_bind(graph, keep_unknown ? &unknown : diag);
    if (keep_unknown && status != TMK_OK && status != TMK_UNSUPPORTED)
        return tmk_fail(diag, status, "%s", unknown.text);
    if (!keep_unknown)
        TMK_TRY(status);
    TMK_TRY(tmk_graph_identify(graph, NULL, diag));
    return tmk_graph_verify(graph, diag);
}

enum { MAX_INLINED = 1 << 30 }; /* bytes of nodes and attributes that inlining may make */
enum { MAX_OPSETS = 1000 };
enum { IR_WITH_OPSETS = 3 }; /* earlier models import operator set 1 without stating it */

const char *tmk_onnx_text(const char *text) {
    return text ? text : "";
}

const char *tmk_onnx_domain(const char *domain) {
    return !domain || strcmp(domain, "ai.onnx") == 0 ? TMK_DOMAIN_ONNX : domain;
}

/* ---- scopes ---- */

enum tmk_status tmk_onnx_scope_create(struct tmk_onnx_builder *b, struct tmk_graph *graph,
                                      struct tmk_onnx_scope **out) {
    struct tmk_onnx_scope *scope = tmk_arena_alloc(&b->scratch, sizeof *scope);
    TMK_TRY_ALLOC(scope, b->diag);
    scope->graph = graph;
    scope->next = b->scopes;
    b->scopes = scope;
    *out = scope;
    return TMK_OK;
}

enum tmk_status tmk_onnx_define(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope,
                                const char *name, struct tmk_onnx_binding binding) {
    if (tmk_map_get(&scope->names, name))
        return tmk_fail(b->diag, TMK_GRAPH, "value '%s' is defined twice", name);
    struct tmk_onnx_binding *copy = tmk_arena_alloc(&b->scratch, sizeof *copy);
    TMK_TRY_ALLOC(copy && tmk_map_put(&scope->names, name, copy), b->diag);
    *copy = binding;
    return TMK_OK;
}

enum tmk_status tmk_onnx_lookup(struct tmk_onnx_builder *b, const struct tmk_onnx_scope *scope,
                                const char *name, struct tmk_value **out) {
    const struct tmk_onnx_scope *at = scope;
    const char *wanted = name;
    while (at && *wanted) {
        const struct tmk_onnx_binding *binding = tmk_map_get(&at->names, wanted);
        if (!binding) {
            at = at->outer;
        } else if (binding->value) {
            *out = binding->value;
            return TMK_OK;
        } else { /* a parameter: what the caller calls it */
            const TmkPb__Node *call = at->call->node;
            wanted = binding->parameter < call->n_input ? call->input[binding->parameter] : "";
            at = at->call->caller;
        }
    }
    if (*wanted)
        return tmk_fail(b->diag, TMK_GRAPH, "'%s' is no input, no initializer and no node's result",
                        wanted);
    *out = NULL;
    return TMK_OK;
}

enum tmk_status tmk_onnx_charge(struct tmk_onnx_builder *b, const struct tmk_onnx_scope *scope,
                                size_t bytes) {
    if (!scope->call)
        return TMK_OK;
    if (bytes > b->budget)
        return tmk_fail(b->diag, TMK_UNSUPPORTED,
                        "the model's functions call each other so often that the graph without "
                        "them is too large");
    b->budget -= bytes;
    return TMK_OK;
}

/* ---- graphs ---- */

static enum tmk_status want_name(struct tmk_onnx_builder *b, const char *name, const char *what) {
    if (!name || !*name)
        return tmk_fail(b->diag, TMK_GRAPH, "%s without a name", what);
    return TMK_OK;
}

static const char *name_of_sparse(const TmkPb__Sparse *pb) {
    return pb->values ? pb->values->name : NULL;
}

/* Initializers may be listed among the inputs (as defaults); then they are no inputs. */
static enum tmk_status add_inputs(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope,
                                  const TmkPb__Graph *pb) {
    struct tmk_map initializers = {0};
    enum tmk_status status = TMK_OK;
    for (size_t i = 0; i < pb->n_initializer && status == TMK_OK; i++)
        if (pb->initializer[i]->name &&
            !tmk_map_put(&initializers, pb->initializer[i]->name, pb->initializer[i]))
            status = tmk_nomem(b->diag);
    for (size_t i = 0; i < pb->n_sparse_initializer && status == TMK_OK; i++)
        if (name_of_sparse(pb->sparse_initializer[i]) &&
            !tmk_map_put(&initializers, name_of_sparse(pb->sparse_initializer[i]),
                         pb->sparse_initializer[i]))
            status = tmk_nomem(b->diag);
    for (size_t i = 0; i < pb->n_input && status == TMK_OK; i++) {
        const TmkPb__ValueInfo *info = pb->input[i];
        struct tmk_type type;
        struct tmk_value *value = NULL;
        status = want_name(b, info->name, "a graph input");
        if (status != TMK_OK || tmk_map_get(&initializers, info->name))
            continue;
        status =
            tmk_in(b->diag, tmk_onnx_type(info->type, &type, b->diag), "input '%s'", info->name);
        TMK_THEN(status, tmk_graph_add_input(scope->graph, info->name, &type, &value, b->diag));
        TMK_THEN(status,
                 tmk_onnx_define(b, scope, info->name, (struct tmk_onnx_binding){.value = value}));
    }
    tmk_map_finish(&initializers);
    return status;
}

enum tmk_status tmk_onnx_set_types(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope,
                                   TmkPb__ValueInfo *const *infos, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char *name = tmk_onnx_text(infos[i]->name);
        const struct tmk_onnx_binding *binding = tmk_map_get(&scope->names, name);
        struct tmk_value *value = binding ? binding->value : NULL;
        struct tmk_type type;
        if (!value || value->kind != TMK_VALUE_RESULT || value->type.dtype ||
            tmk_node_is(value->producer, "ai.onnx.ml",
                        "ZipMap")) /* the maps' scores: ops/ml_encode.c */
            continue;
        TMK_TRY(tmk_in(b->diag, tmk_onnx_type(infos[i]->type, &type, b->diag), "value '%s'", name));
        type.unsure = value->n_graph_outputs != 0;
        TMK_TRY(tmk_value_set_type(value, &type, b->diag));
    }
    return TMK_OK;
}

/* Ends `tensor`. */
static enum tmk_status add_initializer(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope,
                                       const char *name, struct tmk_tensor *tensor) {
    struct tmk_value *value = NULL;
    enum tmk_status status = tmk_onnx_charge(b, scope, tmk_tensor_bytes(tensor));
    TMK_THEN(status, tmk_graph_add_initializer(scope->graph, name, tensor, &value, b->diag));
    tmk_tensor_finish(tensor);
    TMK_TRY(status);
    return tmk_onnx_define(b, scope, name, (struct tmk_onnx_binding){.value = value});
}

static enum tmk_status add_initializers(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope,
                                        const TmkPb__Graph *pb) {
    struct tmk_tensor tensor;
    for (size_t i = 0; i < pb->n_initializer; i++) {
        const TmkPb__Tensor *from = pb->initializer[i];
        TMK_TRY(want_name(b, from->name, "an initializer"));
        b->file->lazy = b->lazy;
        enum tmk_status status = tmk_in(b->diag, tmk_onnx_tensor(b->file, from, &tensor, b->diag),
                                        "initializer '%s'", from->name);
        b->file->lazy = false;
        TMK_TRY(status);
        TMK_TRY(add_initializer(b, scope, from->name, &tensor));
    }
    for (size_t i = 0; i < pb->n_sparse_initializer; i++) {
        const char *name = name_of_sparse(pb->sparse_initializer[i]);
        TMK_TRY(want_name(b, name, "a sparse initializer"));
        TMK_TRY(tmk_in(b->diag,
                       tmk_onnx_sparse(b->file, pb->sparse_initializer[i], &tensor, b->diag),
                       "initializer '%s'", name));
        TMK_TRY(add_initializer(b, scope, name, &tensor));
    }
    return TMK_OK;
}

enum tmk_status tmk_onnx_fill_graph(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope,
                                    const TmkPb__Graph *pb) {
    TMK_TRY(add_inputs(b, scope, pb));
    TMK_TRY(add_initializers(b, scope, pb));
    TMK_TRY(tmk_onnx_declare(b, scope, pb->node, pb->n_node));
    TMK_TRY(tmk_onnx_resolve(b, scope));
    for (size_t i = 0; i < pb->n_output; i++) {
        const char *name = pb->output[i]->name;
        struct tmk_value *value = NULL;
        TMK_TRY(want_name(b, name, "a graph output"));
        TMK_TRY(tmk_in(b->diag, tmk_onnx_lookup(b, scope, name, &value), "output %zu", i));
        if (!value)
            return tmk_fail(b->diag, TMK_GRAPH, "output %zu '%s' is absent", i, name);
        TMK_TRY(tmk_graph_add_output(scope->graph, value, b->diag));
    }
    TMK_TRY(tmk_onnx_set_types(b, scope, pb->output, pb->n_output));
    return tmk_onnx_set_types(b, scope, pb->value_info, pb->n_value_info);
}

/* ---- models ---- */

static enum tmk_status set_opsets(struct tmk_onnx_builder *b) {
    const TmkPb__Model *model = b->model;
    if (model->n_opset_import > MAX_OPSETS)
        return tmk_fail(b->diag, TMK_FORMAT, "%zu operator sets are imported; at most %d can be",
                        model->n_opset_import, MAX_OPSETS);
    for (size_t i = 0; i < model->n_opset_import; i++) {
        const char *domain = tmk_onnx_domain(model->opset_import[i]->domain);
        int64_t version = model->opset_import[i]->version, known = tmk_graph_opset(b->root, domain);
        if (version < 1 || version > INT32_MAX)
            return tmk_fail(b->diag, TMK_FORMAT, "operator set '%s' has version %lld", domain,
                            (long long)version);
        if (strcmp(domain, TMK_DOMAIN_ONNX) == 0 && version > TMK_ONNX_NEWEST)
            return tmk_fail(b->diag, TMK_UNSUPPORTED,
                            "asks for ONNX operator set %lld; meanings are known up to %d",
                            (long long)version, TMK_ONNX_NEWEST);
        if (known && known != version)
            return tmk_fail(b->diag, TMK_FORMAT,
                            "operator set '%s' is imported in versions %lld and %lld", domain,
                            (long long)known, (long long)version);
        TMK_TRY(tmk_graph_set_opset(b->root, domain, version, b->diag));
    }
    if (model->ir_version < IR_WITH_OPSETS && !tmk_graph_opset(b->root, TMK_DOMAIN_ONNX))
        return tmk_graph_set_opset(b->root, TMK_DOMAIN_ONNX, 1, b->diag);
    return TMK_OK;
}

static enum tmk_status build_graph(struct tmk_onnx_builder *b) {
    if (!b->model->graph || b->model->ir_version < 1)
        return tmk_fail(b->diag, TMK_FORMAT, "not an ONNX model: it has no %s",
                        b->model->graph ? "IR version" : "graph");
    TMK_TRY(tmk_graph_create(tmk_onnx_text(b->model->graph->name), &b->root, b->diag));
    b->root->ir_version = b->model->ir_version;
    b->root->producer_name =
        tmk_arena_strdup(b->root->arena, tmk_onnx_text(b->model->producer_name));
    TMK_TRY_ALLOC(b->root->producer_name, b->diag);
    TMK_TRY(set_opsets(b));
    TMK_TRY(tmk_onnx_index_functions(b));
    struct tmk_onnx_scope *scope = NULL;
    TMK_TRY(tmk_onnx_scope_create(b, b->root, &scope));
    TMK_TRY(tmk_onnx_fill_graph(b, scope, b->model->graph));
    return tmk_graph_sort(b->root, b->diag);
}

static enum tmk_status read_model(struct tmk_onnx_file *file, struct tmk_wire_memory *memory,
                                  TmkPb__Model **out, struct tmk_diag *diag) {
    const char *bytes = tmk_buf_data(file->bytes);
    size_t size = tmk_buf_size(file->bytes);
    struct tmk_text outline = {0};
    if (size == 0)
        return tmk_fail(diag, TMK_FORMAT, "the file is empty");
    if (size >= 8 && memcmp(bytes + 4, "ORTM", 4) == 0)
        return tmk_fail(diag, TMK_FORMAT,
                        "an ONNX Runtime (.ort) model; give the .onnx that it was made from");
    enum tmk_status status = tmk_wire_outline(bytes, size, TMK_WIRE_MODEL, &outline, diag);
    if (status == TMK_FORMAT)
        status = tmk_in(diag, status, "not an ONNX model");
    if (status == TMK_OK) {
        TmkPb__Model *model =
            tmk_pb__model__unpack(&memory->allocator, outline.len, (const uint8_t *)outline.data);
        if (model)
            *out = model;
        else
            status = memory->failed ? tmk_nomem(diag)
                                    : tmk_in(diag,
                                             tmk_wire_fault(&tmk_pb__model__descriptor,
                                                            outline.data, outline.len, diag),
                                             "not an ONNX model");
    }
    tmk_text_finish(&outline);
    return status;
}

enum tmk_status tmk_onnx_load(const char *path, const struct tmk_onnx_options *options,
                              struct tmk_graph **out, struct tmk_diag *diag) {
    struct tmk_onnx_file file;
    struct tmk_wire_memory memory;
    TmkPb__Model *model = NULL;
    TMK_TRY(tmk_onnx_file_init(&file, path, diag));
    tmk_wire_memory_begin(&memory);
    struct tmk_onnx_builder b = {
        .file = &file, .budget = MAX_INLINED, .lazy = options && options->lazy, .diag = diag};
    enum tmk_status status = read_model(&file, &memory, &model, diag);
    if (status == TMK_OK) {
        b.model = model;
        status = build_graph(&b);
    }
    for (struct tmk_onnx_scope *scope = b.scopes; scope; scope = scope->next)
        tmk_map_finish(&scope->names);
    tmk_map_finish(&b.functions);
    tmk_map_finish(&b.prefixes);
    tmk_arena_finish(&b.scratch);
    if (model)
        tmk_pb__model__free_unpacked(model, &memory.allocator);
    tmk_wire_memory_end(&memory);
    if (status == TMK_OK) {
        b.root->external_bytes = tmk_onnx_external_bytes(&file);
        b.root->structure_only = options && options->structure_only;
        status = tmk_model_finish(b.root, options && options->keep_unknown, diag);
        if (status == TMK_OK && !b.root->structure_only)
            status = tmk_onnx_external_hash(&file, b.root->external_hash, diag);
    }
    /* all of it was read, for fingerprints and for what is not aligned */
    tmk_onnx_file_rest(&file);
    tmk_onnx_file_finish(&file);
    if (status == TMK_OK)
        *out = b.root;
    else
        tmk_graph_destroy(&b.root);
    return tmk_in(diag, status, "%s", path);
}
