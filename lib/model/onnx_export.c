/* SPDX-License-Identifier: Apache-2.0 */
/* A graph becomes a model: nodes, graphs, and the frame around them. */
#include "model/onnx_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "base/text.h"
#include "model/onnx.h"
#include "ops/ops.h"

static enum tmk_status write_graph(struct tmk_onnx_writer *w, const struct tmk_graph *graph,
                                   const struct tmk_onnx_names *outer, TmkPb__Graph **out);

static void onnx_writer_finish(struct tmk_onnx_writer *w) {
    tmk_ptrmap_finish(&w->names);
    tmk_ptrmap_finish(&w->declared);
    tmk_arena_finish(&w->arena);
    free(w->initializers);
    w->initializers = NULL;
}

/* Messages hold char *, but are only read. */
static char *borrow_text(const char *text) {
    return (char *)(uintptr_t)text;
}

/* ---- nodes ---- */

static enum tmk_status list_names(struct tmk_onnx_writer *w, struct tmk_value *const *values,
                                  uint32_t n, char ***out) {
    char **list = tmk_arena_array(&w->arena, n, sizeof *list);
    TMK_TRY_ALLOC(list, w->diag);
    for (uint32_t i = 0; i < n; i++)
        list[i] = borrow_text(tmk_onnx_name_of(w, values[i]));
    *out = list;
    return TMK_OK;
}

/* ---- rounding ---- */

/* The half type that the file's node rounds to; else TMK_UNDEFINED. */
static enum tmk_dtype rounded_to(const struct tmk_node *node) {
    const struct tmk_value *y = tmk_node_output(node, 0);
    enum tmk_dtype to = y ? y->type.origin : TMK_UNDEFINED;
    if (*node->domain || !y || y->type.kind != TMK_TYPE_TENSOR ||
        tmk_onnx_widened(to) != TMK_FLOAT32)
        return TMK_UNDEFINED;
    if (strcmp(node->op, "CastLike") == 0 && node->n_inputs > 1 && node->inputs[1]) {
        const struct tmk_value *like = node->inputs[1];
        to = like->kind == TMK_VALUE_INITIALIZER ? like->data.origin : like->type.origin;
    } else if (tmk_node_int(node, "to", tmk_node_int(node, "output_datatype", 0)) != TMK_FLOAT32) {
        return TMK_UNDEFINED;
    }
    return to == TMK_FLOAT16 || to == TMK_BFLOAT16 ? to : TMK_UNDEFINED;
}

static bool is_cast(const struct tmk_node *node) {
    return tmk_node_is(node, TMK_DOMAIN_ONNX, "Cast");
}

/* Nothing but Cast reads the result, so that it may have the half type itself. */
static bool stays_half(const struct tmk_node *node) {
    const struct tmk_value *y = node->outputs[0];
    bool stays = is_cast(node) && y->n_uses && !y->n_graph_outputs;
    for (uint32_t i = 0; i < y->n_uses && stays; i++)
        stays = is_cast(y->uses[i].node);
    return stays;
}

uint32_t tmk_onnx_casts_behind(const struct tmk_node *node) {
    return rounded_to(node) == TMK_UNDEFINED ? 0 : !is_cast(node) ? 2 : !stays_half(node);
}

/* The node's own name may be taken by another node of the graph: `taken` are those so far. */
static enum tmk_status write_node(struct tmk_onnx_writer *w, const struct tmk_node *node,
                                  const struct tmk_onnx_names *names, struct tmk_onnx_names *taken,
                                  TmkPb__Node **out) {
    TmkPb__Node *pb = tmk_onnx_make(w, &tmk_pb__node__descriptor);
    TMK_TRY_ALLOC(pb, w->diag);
    /* A file has one version a domain. A node of another version must mean the same under it. */
    int64_t version = tmk_graph_opset(node->graph, node->domain);
    if (version && version != node->version &&
        tmk_op_find(node->domain, node->op, version) !=
            tmk_op_find(node->domain, node->op, node->version))
        return tmk_fail(w->diag, TMK_UNSUPPORTED,
                        "%s is of operator set version %lld, which differs from the model's, %lld",
                        TMK_NODE_LABEL(node), (long long)node->version, (long long)version);
    TMK_TRY(list_names(w, node->inputs, node->n_inputs, &pb->input));
    TMK_TRY(list_names(w, node->outputs, node->n_outputs, &pb->output));
    pb->n_input = node->n_inputs;
    pb->n_output = node->n_outputs;
    pb->op_type = borrow_text(node->op);
    if (*node->name && !(pb->name = borrow_text(tmk_onnx_free_name(w, taken, node->name))))
        return tmk_nomem(w->diag);
    pb->domain = *node->domain ? borrow_text(node->domain) : NULL;
    w->has_observers |= tmk_node_is_observer(node);
    *out = pb;
    const enum tmk_dtype half = rounded_to(node);
    pb->attribute = tmk_arena_array(&w->arena, node->n_attrs, sizeof *pb->attribute);
    TMK_TRY_ALLOC(pb->attribute, w->diag);
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const struct tmk_attr *attr = &node->attrs[i];
        TmkPb__Attribute *to = tmk_onnx_make(w, &tmk_pb__attribute__descriptor);
        TMK_TRY_ALLOC(to, w->diag);
        TMK_TRY(tmk_onnx_write_attr(w, attr, to));
        if (half != TMK_UNDEFINED && is_cast(node) && strcmp(attr->name, "to") == 0)
            to->i = half;
        pb->attribute[pb->n_attribute++] = to;
        if (!tmk_attr_graphs(attr))
            continue;
        to->graphs = tmk_arena_array(&w->arena, attr->n, sizeof *to->graphs);
        TMK_TRY_ALLOC(to->graphs, w->diag);
        for (size_t k = 0; k < attr->n; k++)
            TMK_TRY(write_graph(w, attr->graphs[k], names, &to->graphs[k]));
        if (attr->kind == TMK_ATTR_GRAPH)
            to->g = to->graphs[0];
        else
            to->n_graphs = attr->n;
    }
    return TMK_OK;
}

static enum tmk_status make_unary(struct tmk_onnx_writer *w, const char *op, const char *from,
                                  const char *to, TmkPb__Node **out) {
    TmkPb__Node *pb = tmk_onnx_make(w, &tmk_pb__node__descriptor);
    char **names = tmk_arena_array(&w->arena, 2, sizeof *names);
    TMK_TRY_ALLOC(pb && names, w->diag);
    names[0] = borrow_text(from);
    names[1] = borrow_text(to);
    pb->input = &names[0];
    pb->output = &names[1];
    pb->n_input = pb->n_output = 1;
    pb->op_type = borrow_text(op);
    *out = pb;
    return TMK_OK;
}

static enum tmk_status make_cast(struct tmk_onnx_writer *w, const char *from, const char *to,
                                 enum tmk_dtype dtype, TmkPb__Node **out) {
    const struct tmk_attr attr = tmk_attr_int("to", dtype);
    TmkPb__Node *pb = NULL;
    TMK_TRY(make_unary(w, "Cast", from, to, &pb));
    pb->attribute = tmk_arena_alloc(&w->arena, sizeof *pb->attribute);
    TmkPb__Attribute *made = tmk_onnx_make(w, &tmk_pb__attribute__descriptor);
    TMK_TRY_ALLOC(pb->attribute && made, w->diag);
    TMK_TRY(tmk_onnx_write_attr(w, &attr, made));
    pb->attribute[pb->n_attribute++] = made;
    *out = pb;
    return TMK_OK;
}

/* Behind the node that `*at` points to: what rounds its result to a half type, and back. */
static enum tmk_status write_rounding(struct tmk_onnx_writer *w, const struct tmk_node *node,
                                      struct tmk_onnx_names *names, TmkPb__Node ***at) {
    for (uint32_t n = tmk_onnx_casts_behind(node); n; n--) {
        const char *result = (**at)->output[0];
        const char *wanted =
            tmk_arena_printf(&w->arena, "%s_%s", result, n == 1 ? "half" : "exact");
        const char *name = wanted ? tmk_onnx_free_name(w, names, wanted) : NULL;
        TMK_TRY_ALLOC(name, w->diag);
        (**at)->output[0] = borrow_text(name);
        TMK_TRY(make_cast(w, name, result, n == 1 ? TMK_FLOAT32 : rounded_to(node), ++*at));
    }
    return TMK_OK;
}

/* ---- graphs ---- */

static enum tmk_status write_info(struct tmk_onnx_writer *w, const struct tmk_value *value,
                                  const char *name, TmkPb__ValueInfo **out) {
    TmkPb__ValueInfo *pb = tmk_onnx_make(w, &tmk_pb__value_info__descriptor);
    TMK_TRY_ALLOC(pb, w->diag);
    pb->name = borrow_text(name);
    *out = pb;
    if (value->kind == TMK_VALUE_RESULT && tmk_node_is(value->producer, "ai.onnx.ml", "ZipMap"))
        return tmk_onnx_write_maps(w, value->producer, &pb->type);
    return tmk_onnx_write_type(w, &value->type, &pb->type);
}

/* ---- inputs and outputs as they were declared ---- */

static bool is_widened(const struct tmk_value *value) {
    const struct tmk_type *type = &value->type;
    return type->kind == TMK_TYPE_TENSOR && type->dtype == TMK_FLOAT32 &&
           type->origin != type->dtype && tmk_onnx_widened(type->origin) == type->dtype;
}

uint32_t tmk_onnx_leading_casts(const struct tmk_graph *graph) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        n += is_widened(graph->inputs[i]);
    return n;
}

/* Its name goes to the value of the former type, and nodes get another one. */
static enum tmk_status declare_end(struct tmk_onnx_writer *w, struct tmk_onnx_names *names,
                                   const struct tmk_value *value) {
    static const char behind[] = "_float32";
    const char *name = tmk_onnx_name_of(w, value);
    if (!is_widened(value) || tmk_ptrmap_get(&w->declared, value))
        return TMK_OK;
    const size_t length = strlen(name);
    char *wanted = tmk_arena_alloc(&w->arena, length + sizeof behind);
    TMK_TRY_ALLOC(wanted, w->diag);
    memcpy(wanted, name, length);
    memcpy(wanted + length, behind, sizeof behind);
    const char *inner = tmk_onnx_free_name(w, names, wanted);
    return inner && tmk_ptrmap_put(&w->declared, value, (void *)(uintptr_t)name) &&
                   tmk_ptrmap_put(&w->names, value, (void *)(uintptr_t)inner)
               ? TMK_OK
               : tmk_nomem(w->diag);
}

static enum tmk_status declare_ends(struct tmk_onnx_writer *w, const struct tmk_graph *graph,
                                    struct tmk_onnx_names *names) {
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        TMK_TRY(declare_end(w, names, graph->inputs[i]));
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        TMK_TRY(declare_end(w, names, graph->outputs[i]));
    return TMK_OK;
}

/* Of an input or output. */
static enum tmk_status write_end(struct tmk_onnx_writer *w, const struct tmk_value *value,
                                 const char *name, TmkPb__ValueInfo **out) {
    struct tmk_value end = *value;
    if (tmk_ptrmap_get(&w->declared, value))
        end.type.dtype = end.type.origin;
    return write_info(w, &end, name, out);
}

static const char *end_name(const struct tmk_onnx_writer *w, const struct tmk_value *value) {
    const char *name = tmk_ptrmap_get(&w->declared, value);
    return name ? name : tmk_onnx_name_of(w, value);
}

static enum tmk_status keep_initializer(struct tmk_onnx_writer *w, TmkPb__Tensor *pb) {
    if (w->n_initializers == w->initializers_size) {
        size_t size = w->initializers_size ? w->initializers_size * 2 : 64;
        TmkPb__Tensor **list = realloc(w->initializers, size * sizeof *list);
        TMK_TRY_ALLOC(list, w->diag);
        w->initializers = list;
        w->initializers_size = size;
    }
    w->initializers[w->n_initializers++] = pb;
    return TMK_OK;
}

static bool stands_before(const struct tmk_graph *graph, uint32_t i) {
    for (uint32_t k = 0; k < i; k++)
        if (graph->outputs[k] == graph->outputs[i])
            return true;
    return false;
}

static enum tmk_status write_value_infos(struct tmk_onnx_writer *w, const struct tmk_graph *graph,
                                         TmkPb__Graph *pb) {
    pb->value_info = tmk_arena_array(&w->arena, graph->n_values, sizeof *pb->value_info);
    TMK_TRY_ALLOC(pb->value_info, w->diag);
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        for (uint32_t i = 0; i < node->n_outputs; i++) {
            const struct tmk_value *value = node->outputs[i];
            if (value && value->type.dtype != TMK_UNDEFINED && !value->n_graph_outputs) {
                /* A runtime shares memory between values whose sizes are declared to be equal. So
                 * nothing unsure is declared of a value inside the graph, and no name of a free
                 * dimension: in some files values of different sizes share one. */
                TmkPb__ValueInfo **out = &pb->value_info[pb->n_value_info++];
                struct tmk_value inner = *value;
                memset(inner.type.symbol, 0, sizeof inner.type.symbol);
                inner.type.has_shape = value->type.has_shape && !value->type.unsure;
                if (i == 0 && rounded_to(node) != TMK_UNDEFINED && !tmk_onnx_casts_behind(node))
                    inner.type.dtype = rounded_to(node);
                TMK_TRY(write_info(w, &inner, tmk_onnx_name_of(w, value), out));
            }
        }
    return TMK_OK;
}

static enum tmk_status write_body(struct tmk_onnx_writer *w, const struct tmk_graph *graph,
                                  struct tmk_onnx_names *names, TmkPb__Graph *pb) {
    pb->name = borrow_text(*graph->name ? graph->name : "graph");
    pb->node = tmk_arena_array(&w->arena,
                               (size_t)graph->n_inputs + 3 * (size_t)graph->n_nodes +
                                   2 * (size_t)graph->n_outputs,
                               sizeof *pb->node);
    TMK_TRY_ALLOC(pb->node, w->diag);
    TMK_TRY(tmk_onnx_name_values(w, graph, names));
    if (!names->outer)
        TMK_TRY(declare_ends(w, graph, names));
    pb->input = tmk_arena_array(&w->arena, graph->n_inputs, sizeof *pb->input);
    TMK_TRY_ALLOC(pb->input, w->diag);
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const struct tmk_value *value = graph->inputs[i];
        TMK_TRY(write_end(w, value, end_name(w, value), &pb->input[pb->n_input++]));
        if (tmk_ptrmap_get(&w->declared, value))
            TMK_TRY(make_cast(w, end_name(w, value), tmk_onnx_name_of(w, value), value->type.dtype,
                              &pb->node[pb->n_node++]));
    }
    /* Initializers that nothing uses any more (folded away) stay behind. */
    pb->initializer = tmk_arena_array(&w->arena, graph->n_values, sizeof *pb->initializer);
    TMK_TRY_ALLOC(pb->initializer, w->diag);
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const struct tmk_value *value = graph->values[i];
        if (value->kind != TMK_VALUE_INITIALIZER || (!value->n_uses && !value->n_graph_outputs))
            continue;
        TmkPb__Tensor **to = &pb->initializer[pb->n_initializer++];
        TMK_TRY(tmk_onnx_write_tensor(w, &value->data, tmk_onnx_name_of(w, value), to));
        TMK_TRY(keep_initializer(w, *to));
    }
    struct tmk_onnx_names taken = {0};
    enum tmk_status status = TMK_OK;
    for (const struct tmk_node *node = graph->first; node && status == TMK_OK; node = node->next) {
        TmkPb__Node **at = &pb->node[pb->n_node];
        status = write_node(w, node, names, &taken, at);
        TMK_THEN(status, write_rounding(w, node, names, &at));
        pb->n_node = (size_t)(at - pb->node) + (status == TMK_OK);
    }
    tmk_map_finish(&taken.taken);
    TMK_TRY(status);
    /* Runtimes want outputs that differ, and no graph to return a value of the graph around it:
     * such an output becomes a copy. */
    pb->output = tmk_arena_array(&w->arena, graph->n_outputs, sizeof *pb->output);
    TMK_TRY_ALLOC(pb->output, w->diag);
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        const struct tmk_value *value = graph->outputs[i];
        const char *name = end_name(w, value);
        bool repeated = value->n_graph_outputs > 1 && stands_before(graph, i);
        if (!repeated && value->kind != TMK_VALUE_INPUT && tmk_ptrmap_get(&w->declared, value))
            TMK_TRY(make_cast(w, tmk_onnx_name_of(w, value), name, value->type.origin,
                              &pb->node[pb->n_node++]));
        if (repeated || value->graph != graph) {
            const char *copy = tmk_onnx_free_name(w, names, name);
            TMK_TRY_ALLOC(copy, w->diag);
            TMK_TRY(make_unary(w, "Identity", name, copy, &pb->node[pb->n_node]));
            pb->n_node++;
            name = copy;
        }
        TMK_TRY(write_end(w, value, name, &pb->output[pb->n_output++]));
    }
    return write_value_infos(w, graph, pb);
}

static enum tmk_status write_graph(struct tmk_onnx_writer *w, const struct tmk_graph *graph,
                                   const struct tmk_onnx_names *outer, TmkPb__Graph **out) {
    struct tmk_onnx_names names = {.outer = outer};
    TmkPb__Graph *pb = tmk_onnx_make(w, &tmk_pb__graph__descriptor);
    enum tmk_status status = pb ? write_body(w, graph, &names, pb) : tmk_nomem(w->diag);
    tmk_map_finish(&names.taken);
    if (status == TMK_OK)
        *out = pb;
    return status;
}

/* ---- the model ---- */

struct domains {
    struct tmk_onnx_writer *w;
    TmkPb__Model *model;
    size_t size;
    enum tmk_status status;
};

static void want_domain(struct domains *d, const char *domain, int64_t version) {
    TmkPb__Model *model = d->model;
    for (size_t i = 0; i < model->n_opset_import; i++)
        if (strcmp(model->opset_import[i]->domain, domain) == 0)
            return;
    if (model->n_opset_import == d->size) {
        size_t size = d->size * 2 + 4;
        TmkPb__Opset **list = tmk_arena_array(&d->w->arena, size, sizeof *list);
        if (!list) {
            d->status = tmk_nomem(d->w->diag);
            return;
        }
        if (model->n_opset_import)
            memcpy(list, model->opset_import, model->n_opset_import * sizeof *list);
        model->opset_import = list;
        d->size = size;
    }
    TmkPb__Opset *opset = tmk_onnx_make(d->w, &tmk_pb__opset__descriptor);
    if (!opset) {
        d->status = tmk_nomem(d->w->diag);
        return;
    }
    opset->domain = borrow_text(domain);
    opset->has_version = true;
    opset->version = version > 0 ? version : 1; /* 0: a domain that is not imported */
    model->opset_import[model->n_opset_import++] = opset;
}

/* What the format's releases require: https://onnx.ai/onnx/intro/concepts.html, "IR version". */
static int64_t ir_version_for(const struct tmk_onnx_writer *w, int64_t opset) {
    static const struct {
        int32_t opset, ir;
    } releases[] = {{28, 14}, {25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9},
                    {15, 8},  {12, 7},  {11, 6},  {10, 5},  {0, 4}};
    int64_t ir = w->has_observers ? 8 : 4; /* functions */
    for (size_t i = 0; i < w->n_initializers; i++) {
        int32_t type = w->initializers[i]->data_type;
        int64_t since = type >= TMK_UINT2          ? 13
                        : type == TMK_FLOAT8E8M0   ? 12
                        : type == TMK_FLOAT4E2M1   ? 11
                        : type >= TMK_UINT4        ? 10
                        : type >= TMK_FLOAT8E4M3FN ? 9
                                                   : 4;
        ir = since > ir ? since : ir;
    }
    size_t i = 0;
    while (opset < releases[i].opset)
        i++;
    return releases[i].ir > ir ? releases[i].ir : ir;
}

/* The observer in ONNX's own words: a function that forwards its input. */
static enum tmk_status write_observer(struct tmk_onnx_writer *w, TmkPb__Model *model,
                                      TmkPb__Opset *onnx) {
    static char *const attributes[] = {"profile_id", "kind", "tensor_name", "relation"};
    TmkPb__Function *pb = tmk_onnx_make(w, &tmk_pb__function__descriptor);
    TmkPb__Node **nodes = tmk_arena_alloc(&w->arena, sizeof *nodes);
    TmkPb__Opset **opsets = tmk_arena_alloc(&w->arena, sizeof *opsets);
    TmkPb__Function **functions = tmk_arena_alloc(&w->arena, sizeof *functions);
    TMK_TRY_ALLOC(pb && nodes && opsets && functions, w->diag);
    TMK_TRY(make_unary(w, "Identity", "x", "y", nodes));
    opsets[0] = onnx;
    functions[0] = pb;
    pb->name = TMK_OP_OBSERVER;
    pb->domain = TMK_DOMAIN_TIDEMARK;
    pb->input = nodes[0]->input;
    pb->n_input = nodes[0]->n_input;
    pb->output = nodes[0]->output;
    pb->n_output = nodes[0]->n_output;
    pb->attribute = (char **)(uintptr_t)attributes;
    pb->n_attribute = TMK_COUNT(attributes);
    pb->node = nodes;
    pb->n_node = 1;
    pb->opset_import = opsets;
    pb->n_opset_import = 1;
    model->functions = functions;
    model->n_functions = 1;
    return TMK_OK;
}

/* onnx_export.c: the whole model. */
static enum tmk_status onnx_write_model(struct tmk_onnx_writer *w, const struct tmk_graph *graph,
                                        TmkPb__Model **out) {
    enum { ANY_OPSET = 17 }; /* for a model that uses none of ONNX's operators */
    TmkPb__Model *pb = tmk_onnx_make(w, &tmk_pb__model__descriptor);
    TMK_TRY_ALLOC(pb, w->diag);
    int64_t opset = tmk_graph_opset(graph, TMK_DOMAIN_ONNX);
    struct domains domains = {w, pb, 0, TMK_OK};
    want_domain(&domains, TMK_DOMAIN_ONNX, opset ? opset : ANY_OPSET);
    for (uint32_t i = 0; i < graph->n_opsets && domains.status == TMK_OK; i++)
        want_domain(&domains, graph->opsets[i].domain, graph->opsets[i].version);
    for (const struct tmk_graph *g = graph; g; g = tmk_graph_next(graph, g))
        for (const struct tmk_node *node = g->first; node && domains.status == TMK_OK;
             node = node->next)
            want_domain(&domains, node->domain, node->version);
    TMK_TRY(domains.status);
    TMK_TRY(write_graph(w, graph, NULL, &pb->graph));
    if (w->has_observers)
        TMK_TRY(write_observer(w, pb, pb->opset_import[0]));
    pb->has_ir_version = true;
    pb->ir_version = ir_version_for(w, pb->opset_import[0]->version);
    pb->producer_name = "tidemark";
    *out = pb;
    return TMK_OK;
}

/* Messages become bytes: in memory, or in a file with the large weights next to it. */

enum { WEIGHTS_LIMIT = 2000000000 }; /* of a file without external data */
enum { SMALL = 1024 };               /* such tensors stay in the model in any case */
enum { EXTERNAL_ALIGN = 4096 };      /* so that a page of the file is one of a mapping */

/* Where protobuf-c's pieces go: whatever takes bytes. */
struct sink {
    ProtobufCBuffer base; /* first: protobuf-c hands it back */
    struct tmk_text *text;
    struct tmk_outfile *file;
    struct tmk_diag *diag;
    enum tmk_status status;
    size_t used;
    uint8_t block[1 << 14];
};

static void flush_block(struct sink *sink) {
    if (sink->used && sink->status == TMK_OK)
        sink->status = tmk_outfile_write(sink->file, sink->block, sink->used, sink->diag);
    sink->used = 0;
}

static void append_to_file(ProtobufCBuffer *buffer, size_t len, const uint8_t *bytes) {
    struct sink *sink = (struct sink *)buffer;
    if (len > sizeof sink->block - sink->used)
        flush_block(sink);
    if (len > sizeof sink->block) {
        if (sink->status == TMK_OK)
            sink->status = tmk_outfile_write(sink->file, bytes, len, sink->diag);
    } else if (len) {
        memcpy(sink->block + sink->used, bytes, len);
        sink->used += len;
    }
}

static void append_to_text(ProtobufCBuffer *buffer, size_t len, const uint8_t *bytes) {
    tmk_text_append(((struct sink *)buffer)->text, (const char *)bytes, len);
}

static enum tmk_status check_size(const TmkPb__Model *model, struct tmk_diag *diag) {
    size_t size = tmk_pb__model__get_packed_size(model);
    if (size > INT32_MAX)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "the model takes %zu bytes without external data; an ONNX file ends at "
                        "2 GiB",
                        size);
    return TMK_OK;
}

enum tmk_status tmk_onnx_encode(const struct tmk_graph *graph, struct tmk_text *out,
                                struct tmk_diag *diag) {
    struct tmk_onnx_writer w = {.diag = diag};
    struct sink sink = {.base.append = append_to_text, .text = out};
    TmkPb__Model *model = NULL;
    enum tmk_status status = onnx_write_model(&w, graph, &model);
    TMK_THEN(status, check_size(model, diag));
    if (status == TMK_OK) {
        tmk_pb__model__pack_to_buffer(model, &sink.base);
        status = out->failed ? tmk_nomem(diag) : TMK_OK;
    }
    onnx_writer_finish(&w);
    return status;
}

static size_t weight_bytes(const struct tmk_onnx_writer *w) {
    size_t total = 0;
    for (size_t i = 0; i < w->n_initializers; i++)
        if (!tmk_add_size(total, w->initializers[i]->raw_data.len, &total))
            return SIZE_MAX;
    return total;
}

static enum tmk_status add_entry(struct tmk_onnx_writer *w, TmkPb__Tensor *tensor, const char *key,
                                 const char *value) {
    TmkPb__Entry *entry = tmk_onnx_make(w, &tmk_pb__entry__descriptor);
    char *copy = tmk_arena_strdup(&w->arena, value);
    TMK_TRY_ALLOC(entry && copy, w->diag);
    entry->key = (char *)(uintptr_t)key;
    entry->value = copy;
    tensor->external_data[tensor->n_external_data++] = entry;
    return TMK_OK;
}

static enum tmk_status move_out(struct tmk_onnx_writer *w, TmkPb__Tensor *tensor,
                                const char *location, size_t *at, struct tmk_outfile *out) {
    static const uint8_t zeros[EXTERNAL_ALIGN];
    size_t padding = (EXTERNAL_ALIGN - *at % EXTERNAL_ALIGN) % EXTERNAL_ALIGN, n = 3;
    char offset[24], length[24];
    TMK_TRY(tmk_outfile_write(out, zeros, padding, w->diag));
    TMK_TRY(tmk_outfile_write(out, tensor->raw_data.data, tensor->raw_data.len, w->diag));
    snprintf(offset, sizeof offset, "%zu", *at + padding);
    snprintf(length, sizeof length, "%zu", tensor->raw_data.len);
    *at += padding + tensor->raw_data.len;
    tensor->external_data = tmk_arena_array(&w->arena, n, sizeof *tensor->external_data);
    TMK_TRY_ALLOC(tensor->external_data, w->diag);
    TMK_TRY(add_entry(w, tensor, "location", location));
    TMK_TRY(add_entry(w, tensor, "offset", offset));
    TMK_TRY(add_entry(w, tensor, "length", length));
    tensor->has_data_location = true;
    tensor->data_location = TMK_ONNX_EXTERNAL;
    tensor->has_raw_data = false;
    return TMK_OK;
}

static enum tmk_status move_weights_out(struct tmk_onnx_writer *w, const char *data_path,
                                        struct tmk_outfile *out) {
    size_t at = 0;
    for (size_t i = 0; i < w->n_initializers; i++)
        if (w->initializers[i]->raw_data.len >= SMALL)
            TMK_TRY(move_out(w, w->initializers[i], tmk_base_name(data_path), &at, out));
    return TMK_OK;
}

static enum tmk_status write_file(const TmkPb__Model *model, struct tmk_outfile *out,
                                  struct tmk_diag *diag) {
    struct sink sink = {.base.append = append_to_file, .file = out, .diag = diag};
    TMK_TRY(check_size(model, diag));
    tmk_pb__model__pack_to_buffer(model, &sink.base);
    flush_block(&sink);
    return sink.status;
}

enum tmk_status tmk_onnx_save_split(const struct tmk_graph *graph, const char *path, size_t limit,
                                    struct tmk_diag *diag) {
    struct tmk_onnx_writer w = {.diag = diag};
    struct tmk_outfile files[2] = {{0}}, *out = &files[0], *data = &files[1];
    struct tmk_text data_path = {0};
    TmkPb__Model *model = NULL;
    TMK_TRY(tmk_check_ending(path, "onnx", diag));
    enum tmk_status status = onnx_write_model(&w, graph, &model);
    TMK_THEN(status, tmk_outfile_begin(path, out, diag));
    if (status == TMK_OK && weight_bytes(&w) > limit) {
        tmk_text_printf(&data_path, "%s.data", path);
        status = data_path.failed ? tmk_nomem(diag) : tmk_outfile_begin(data_path.data, data, diag);
        TMK_THEN(status, move_weights_out(&w, data_path.data, data));
    }
    TMK_THEN(status, write_file(model, out, diag));
    TMK_THEN(status, tmk_outfiles_commit(files, data_path.data ? 2 : 1, diag));
    tmk_outfile_abort(out);
    tmk_outfile_abort(data);
    tmk_text_finish(&data_path);
    onnx_writer_finish(&w);
    return status;
}

enum tmk_status tmk_onnx_save(const struct tmk_graph *graph, const char *path,
                              struct tmk_diag *diag) {
    return tmk_onnx_save_split(graph, path, WEIGHTS_LIMIT, diag);
}
