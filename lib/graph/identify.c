/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/size.h"
#include "tensor/elements.h"

/* ---- fingerprints ---- */

/* Two hashes in step: the structure alone, and the structure with the bytes of weights. */
struct print {
    uint64_t structure, content;
    bool structure_only; /* weights are left out of the content */
};

/* Tags keep different things with equal parts apart. */
enum { TAG_INPUT = 1, TAG_WEIGHT, TAG_NODE, TAG_RESULT, TAG_ABSENT, TAG_ATTR, TAG_GRAPH };

static void mix_bytes(struct print *p, const void *bytes, size_t n) {
    p->structure = tmk_hash64(bytes, n, p->structure);
    p->content = tmk_hash64(bytes, n, p->content);
}

static void mix_number(struct print *p, int64_t number) {
    mix_bytes(p, &number, sizeof number);
}

static void mix_string(struct print *p, const char *text) {
    mix_number(p, (int64_t)strlen(text));
    mix_bytes(p, text, strlen(text));
}

static void mix_value(struct print *p, const struct tmk_value *value) {
    if (!value) {
        mix_number(p, TAG_ABSENT);
        return;
    }
    p->structure = tmk_hash64(&value->fingerprint, sizeof value->fingerprint, p->structure);
    p->content = tmk_hash64(&value->content, sizeof value->content, p->content);
}

struct pieces {
    const struct tmk_tensor *tensor;
    float scratch[4096];
};

/* What was read before rests. */
static const void *piece_of(void *context, size_t at, size_t *n) {
    struct pieces *pieces = context;
    const struct tmk_tensor *tensor = pieces->tensor;
    const size_t size = tmk_dtype_size(tensor->dtype), first = at / size,
                 left = tmk_tensor_count(tensor) - first,
                 most = tmk_tensor_is_lazy(tensor) ? TMK_COUNT(pieces->scratch)
                                                   : (size_t)TMK_ELEMENTS_BLOCK,
                 count = left < most ? left : most;
    if (first && first % TMK_ELEMENTS_BLOCK == 0)
        tmk_elements_rest(tensor, 0, first);
    *n = count * size;
    return tmk_elements(tensor, first, count, pieces->scratch);
}

static uint64_t hash_elements(const struct tmk_tensor *tensor, uint64_t seed) {
    struct pieces pieces;
    if (!tmk_elements_mapped(tensor))
        return tmk_hash64(tensor->data, tmk_tensor_bytes(tensor), seed);
    pieces.tensor = tensor;
    return tmk_hash64_pieces(piece_of, &pieces, tmk_tensor_bytes(tensor), seed);
}

/* Weights enter the structure by dtype and shape, the content by their bytes too. */
static void mix_weight(struct print *p, const struct tmk_tensor *tensor) {
    mix_number(p, TAG_WEIGHT);
    mix_number(p, tensor->origin);
    mix_number(p, tensor->shape.rank);
    mix_bytes(p, tensor->shape.dim, (size_t)tensor->shape.rank * sizeof tensor->shape.dim[0]);
    if (p->structure_only)
        return;
    p->content = hash_elements(tensor, p->content);
    tmk_elements_rest(tensor, 0, tmk_tensor_count(tensor));
}

static void mix_type(struct print *p, const struct tmk_type *type) {
    mix_number(p, type->kind);
    mix_number(p, type->origin);
    mix_number(p, type->has_shape ? type->shape.rank : -1);
}

static void mix_graph(struct print *p, const struct tmk_graph *graph) {
    mix_number(p, TAG_GRAPH);
    mix_number(p, graph->n_inputs);
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        mix_value(p, graph->outputs[i]);
}

static void mix_attr(struct print *p, const struct tmk_attr *attr) {
    mix_number(p, TAG_ATTR);
    mix_string(p, attr->name);
    mix_number(p, attr->kind);
    switch (attr->kind) {
    case TMK_ATTR_INT:
        mix_number(p, attr->i);
        break;
    case TMK_ATTR_FLOAT:
        mix_bytes(p, &attr->f, sizeof attr->f);
        break;
    case TMK_ATTR_STRING:
        mix_number(p, (int64_t)attr->n);
        mix_bytes(p, attr->s, attr->n);
        break;
    case TMK_ATTR_INTS:
        mix_number(p, (int64_t)attr->n);
        mix_bytes(p, attr->ints, attr->n * sizeof *attr->ints);
        break;
    case TMK_ATTR_FLOATS:
        mix_number(p, (int64_t)attr->n);
        mix_bytes(p, attr->floats, attr->n * sizeof *attr->floats);
        break;
    case TMK_ATTR_STRINGS:
        mix_number(p, (int64_t)attr->n);
        for (size_t i = 0; i < attr->n; i++)
            mix_string(p, attr->strings[i]);
        break;
    case TMK_ATTR_TYPE:
        mix_type(p, attr->type);
        break;
    case TMK_ATTR_TENSOR:
    case TMK_ATTR_TENSORS:
        for (size_t i = 0; i < attr->n; i++) {
            mix_weight(p, &attr->tensors[i]);
            mix_bytes(p, attr->tensors[i].data, tmk_tensor_bytes(&attr->tensors[i]));
        }
        break;
    case TMK_ATTR_GRAPH:
    case TMK_ATTR_GRAPHS:
        break; /* in order of name, by tmk_node_next_graph */
    }
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const struct tmk_attr *const *)a)->name,
                  (*(const struct tmk_attr *const *)b)->name);
}

static void set_print(struct tmk_value *value, struct print p) {
    value->fingerprint = p.structure;
    value->content = p.content;
}

static enum tmk_status print_node(const struct tmk_node *node, bool structure_only,
                                  struct tmk_diag *diag) {
    const struct tmk_attr *constant = tmk_node_attr(node, "value");
    if (tmk_node_is(node, TMK_DOMAIN_ONNX, "Constant") && node->n_outputs && node->outputs[0] &&
        constant && constant->kind == TMK_ATTR_TENSOR) {
        struct print weight = {0, 0, structure_only};
        mix_weight(&weight, constant->tensors);
        set_print(node->outputs[0], weight);
        return TMK_OK;
    }
    struct print p = {0, 0, structure_only};
    mix_number(&p, TAG_NODE);
    mix_string(&p, node->domain);
    mix_string(&p, node->op);
    mix_number(&p, node->n_inputs);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        mix_value(&p, node->inputs[i]);
    const struct tmk_attr **sorted = calloc(node->n_attrs + 1u, sizeof *sorted);
    TMK_TRY_ALLOC(sorted, diag);
    for (uint32_t i = 0; i < node->n_attrs; i++)
        sorted[i] = &node->attrs[i];
    qsort(sorted, node->n_attrs, sizeof *sorted, by_name);
    for (uint32_t i = 0; i < node->n_attrs; i++)
        mix_attr(&p, sorted[i]);
    free(sorted);
    for (struct tmk_graph *g = NULL; (g = tmk_node_next_graph(node, g));)
        mix_graph(&p, g);
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        struct print result = p;
        mix_number(&result, TAG_RESULT);
        mix_number(&result, i);
        if (node->outputs[i])
            set_print(node->outputs[i], result);
    }
    return TMK_OK;
}

static enum tmk_status print_graph(struct tmk_graph *graph, bool structure_only, int64_t depth,
                                   struct tmk_diag *diag) {
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        struct print p = {0, 0, structure_only};
        mix_number(&p, TAG_INPUT);
        mix_number(&p, depth);
        mix_number(&p, i);
        mix_type(&p, &graph->inputs[i]->type);
        set_print(graph->inputs[i], p);
    }
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (graph->values[i]->kind == TMK_VALUE_INITIALIZER) {
            struct print p = {0, 0, structure_only};
            mix_weight(&p, &graph->values[i]->data);
            set_print(graph->values[i], p);
        }
    for (struct tmk_node *node = graph->first; node; node = node->next) {
        for (struct tmk_graph *g = NULL; (g = tmk_node_next_graph(node, g));)
            TMK_TRY(print_graph(g, structure_only, depth + 1, diag));
        TMK_TRY(print_node(node, structure_only, diag));
    }
    return TMK_OK;
}

/* ---- profile IDs ---- */

struct visit {
    struct tmk_node *node;
    struct tmk_value **operands; /* inputs, then of each attribute graph its inputs and outputs */
    size_t n, size, next;
};

struct walk {
    struct visit *stack;
    size_t depth, size;
    int64_t next_id;
    struct tmk_diag *diag;
    enum tmk_status status;
};

enum { UNVISITED, VISITED };

static void give_id(struct walk *walk, struct tmk_value *value) {
    if (value && value->profile_id < 0)
        value->profile_id = walk->next_id++;
}

static void add_operand(struct walk *walk, struct visit *visit, struct tmk_value *value) {
    if (!value || walk->status != TMK_OK)
        return;
    if (!TMK_GROW(visit->operands, visit->n, visit->size)) {
        walk->status = tmk_nomem(walk->diag);
        return;
    }
    visit->operands[visit->n++] = value;
}

static void push_node(struct walk *walk, struct tmk_node *node) {
    if (!TMK_GROW(walk->stack, walk->depth, walk->size)) {
        walk->status = tmk_nomem(walk->diag);
        return;
    }
    node->mark = VISITED;
    struct visit *visit = &walk->stack[walk->depth++];
    *visit = (struct visit){.node = node};
    for (uint32_t i = 0; i < node->n_inputs; i++)
        add_operand(walk, visit, node->inputs[i]);
    for (struct tmk_graph *g = NULL; (g = tmk_node_next_graph(node, g));) {
        for (uint32_t i = 0; i < g->n_inputs; i++)
            add_operand(walk, visit, g->inputs[i]);
        for (uint32_t i = 0; i < g->n_outputs; i++)
            add_operand(walk, visit, g->outputs[i]);
    }
}

/* An input or a weight gets its ID at once, a result after its producer's operands. */
static void reach_value(struct walk *walk, struct tmk_value *value) {
    if (value->kind != TMK_VALUE_RESULT)
        give_id(walk, value);
    else if (value->producer->mark == UNVISITED)
        push_node(walk, value->producer);
}

static void walk_from(struct walk *walk, struct tmk_value *value) {
    reach_value(walk, value);
    while (walk->depth && walk->status == TMK_OK) {
        struct visit *top = &walk->stack[walk->depth - 1];
        if (top->next < top->n) {
            reach_value(walk, top->operands[top->next++]);
            continue;
        }
        for (uint32_t i = 0; i < top->node->n_outputs; i++)
            give_id(walk, top->node->outputs[i]);
        free(top->operands);
        walk->depth--;
    }
    while (walk->depth)
        free(walk->stack[--walk->depth].operands);
}

static uint32_t forget_ids(struct tmk_graph *graph) {
    uint32_t n = 0;
    for (struct tmk_node *node = graph->first; node; node = node->next)
        node->mark = UNVISITED;
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (tmk_value_alive(graph->values[i])) {
            graph->values[i]->profile_id = -1;
            n++;
        }
    return n;
}

/* Given IDs first, in their order; then what has none, by fingerprint and content. */
static int by_id_then_print(const void *a, const void *b) {
    const struct tmk_value *x = *(struct tmk_value *const *)a, *y = *(struct tmk_value *const *)b;
    if (x->profile_id >= 0 || y->profile_id >= 0)
        return TMK_ORDER((uint64_t)x->profile_id, (uint64_t)y->profile_id); /* -1 is the largest */
    int c = TMK_ORDER(x->fingerprint, y->fingerprint);
    if (!c)
        c = TMK_ORDER(x->content, y->content);
    return c ? c : TMK_ORDER(x->index, y->index);
}

static int by_print_then_id(const void *a, const void *b) {
    const struct tmk_value *x = *(struct tmk_value *const *)a, *y = *(struct tmk_value *const *)b;
    int c = TMK_ORDER(x->fingerprint, y->fingerprint);
    return c ? c : TMK_ORDER((uint64_t)x->profile_id, (uint64_t)y->profile_id);
}

enum tmk_status tmk_graph_identify(struct tmk_graph *graph, uint32_t *n_ids,
                                   struct tmk_diag *diag) {
    TMK_TRY(print_graph(graph, graph->structure_only, 0, diag));

    uint32_t n = 0, listed = 0;
    for (struct tmk_graph *g = graph; g; g = tmk_graph_next(graph, g))
        n += forget_ids(g);
    tmk_graph_number(graph);
    struct walk walk = {.diag = diag};
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        give_id(&walk, graph->inputs[i]);
    for (uint32_t i = 0; i < graph->n_outputs && walk.status == TMK_OK; i++)
        walk_from(&walk, graph->outputs[i]);
    free(walk.stack);
    TMK_TRY(walk.status);

    struct tmk_value **list = calloc(n + 1u, sizeof(struct tmk_value *));
    TMK_TRY_ALLOC(list, diag);
    for (const struct tmk_graph *g = graph; g; g = tmk_graph_next(graph, g))
        for (uint32_t i = 0; i < g->n_values; i++)
            if (tmk_value_alive(g->values[i]))
                list[listed++] = g->values[i];
    qsort(list, n, sizeof(struct tmk_value *), by_id_then_print);
    for (uint32_t i = 0; i < n; i++)
        list[i]->profile_id = (int64_t)i;
    qsort(list, n, sizeof(struct tmk_value *), by_print_then_id);
    for (uint32_t i = 0; i < n; i++)
        list[i]->ordinal =
            i && list[i]->fingerprint == list[i - 1]->fingerprint ? list[i - 1]->ordinal + 1 : 0;
    free(list);
    if (n_ids)
        *n_ids = n;
    return TMK_OK;
}
