/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes: their values, what a function's body takes from its call, and sub-graphs. */
#include <string.h>

#include "base/size.h"
#include "model/onnx_import.h"

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
        if (status == TMK_OK)
            status = tmk_onnx_charge(b, scope, tmk_tensor_bytes(&tensors[made++]));
    }
    attr->n = n;
    attr->tensors = tensors;
    if (status == TMK_OK)
        status = tmk_node_set_attr(node, attr, b->diag);
    while (made)
        tmk_tensor_finish(&tensors[--made]);
    return status;
}

/* The graphs are hung on the node before they are filled, so that they go with it whatever happens.
 */
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

enum tmk_status tmk_onnx_set_attr(struct tmk_onnx_builder *b, struct tmk_onnx_scope *scope,
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
