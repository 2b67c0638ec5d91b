/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/shapes.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "ops/cost.h"
#include "ops/ops.h"

/* Sizes that stand for free dimensions: the first of a value (mostly the batch) and the others. All
 * alike fits most models; images want multiples of 32, and of 7 where attention has windows; and
 * some models fix a batch of 1 inside though they declare it free. */
static const struct guess {
    int64_t first, other;
} guesses[] = {{2, 2},     {3, 3},  {64, 64}, {96, 96},    {224, 224},
               {448, 448}, {1, 64}, {1, 224}, {2048, 2048}};

/* Tensors of up to so many elements are computed with, where that takes few operations. */
enum { MOST_ELEMENTS = 1024, MOST_OPERATIONS = 1 << 20 };

/* What the guesses had in common for one value. */
struct finding {
    uint32_t n; /* guesses that it came out of */
    bool torn;  /* they differ in dtype */
    enum tmk_dtype dtype;
    struct tmk_shape shape; /* rank -1: they differ in rank */
};

struct typing {
    const struct guess *guess; /* NULL, inputs too: nothing is taken that is not certain */
    const struct tmk_graph *graph;
    const struct tmk_tensor *inputs; /* of a run of the graph, or NULL */
    bool guessed;                    /* a size was made up */
    struct tmk_tensor *tensors;      /* by value's index; dtype TMK_UNDEFINED: not known */
    struct finding *findings;        /* the same */
    const struct tmk_tensor **in;
    struct tmk_infer_result *results;
    bool nomem;
};

static void type_graph(struct typing *t, const struct tmk_graph *graph);

static bool is_known(const struct typing *t, const struct tmk_value *value) {
    return t->tensors[value->index].dtype != TMK_UNDEFINED;
}

static bool is_small(const struct tmk_shape *shape) {
    size_t count;
    return tmk_shape_count(shape, &count) && count <= MOST_ELEMENTS;
}

/* What the inputs have where they are declared with the symbol; -1: none is. */
static int64_t size_of_symbol(const struct typing *t, const char *symbol) {
    for (uint32_t i = 0; symbol && i < t->graph->n_inputs; i++) {
        const struct tmk_type *type = &t->graph->inputs[i]->type;
        const struct tmk_shape *shape = &t->inputs[i].shape;
        for (int32_t k = 0; type->has_shape && k < type->shape.rank && k < shape->rank; k++)
            if (type->symbol[k] && strcmp(type->symbol[k], symbol) == 0)
                return shape->dim[k];
    }
    return -1;
}

/* As the file states, with sizes for what it leaves free. */
static void take_declared(struct typing *t, const struct tmk_value *value) {
    const struct tmk_type *type = &value->type;
    struct tmk_shape shape = type->shape;
    size_t bytes;
    if (type->kind != TMK_TYPE_TENSOR || !type->has_shape || !tmk_dtype_size(type->dtype))
        return;
    for (int32_t i = 0; i < shape.rank; i++)
        if (shape.dim[i] < 0) {
            if (!t->guess && !t->inputs)
                return;
            shape.dim[i] = t->inputs ? size_of_symbol(t, type->symbol[i])
                           : i       ? t->guess->other
                                     : t->guess->first;
            t->guessed = true;
        }
    if (!tmk_shape_count(&shape, &bytes) ||
        !tmk_mul_size(bytes, tmk_dtype_size(type->dtype), &bytes))
        return;
    tmk_tensor_borrow(&t->tensors[value->index], type->dtype, &shape, NULL);
}

static void note_type(struct typing *t, const struct tmk_value *value) {
    const struct tmk_tensor *tensor = &t->tensors[value->index];
    struct finding *f = &t->findings[value->index];
    if (f->n++ == 0) {
        f->dtype = tensor->dtype;
        f->shape = tensor->shape;
        return;
    }
    f->torn |= f->dtype != tensor->dtype;
    if (f->shape.rank != tensor->shape.rank)
        f->shape.rank = -1;
    for (int32_t i = 0; i < f->shape.rank; i++)
        if (f->shape.dim[i] != tensor->shape.dim[i])
            f->shape.dim[i] = -1;
}

static void learn_value(struct typing *t, const struct tmk_value *value,
                        const struct tmk_tensor *what) {
    if (what->kind != TMK_TYPE_TENSOR || !tmk_dtype_size(what->dtype))
        return;
    tmk_tensor_share(&t->tensors[value->index], what);
    note_type(t, value);
}

/* ---- nodes ---- */

/* May the kernel run now, and does it make little? */
static bool may_compute(const struct tmk_node *node, const struct tmk_tensor *const *in,
                        const struct tmk_infer_result *results) {
    if (node->row->flags & TMK_OP_IMPURE)
        return false;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (in[i] && !tmk_node_has(node, TMK_TRAIT_SHAPE_ONLY) &&
            (!in[i]->data || !is_small(&in[i]->shape)))
            return false;
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i] && results[i].known && !is_small(&results[i].shape))
            return false;
    return tmk_op_cost(node, in, results) <= MOST_OPERATIONS;
}

static void compute_constants(struct typing *t, const struct tmk_node *node) {
    struct tmk_tensor *made = calloc(node->n_outputs + 1u, sizeof *made);
    t->nomem |= !made;
    const bool ran = made && tmk_op_run(node, t->in, made, NULL) == TMK_OK;
    for (uint32_t i = 0; ran && i < node->n_outputs; i++) {
        if (node->outputs[i])
            learn_value(t, node->outputs[i], &made[i]);
        tmk_tensor_finish(&made[i]);
    }
    free(made);
}

static void infer_node(struct typing *t, const struct tmk_node *node) {
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        t->in[i] = NULL;
        if (!node->inputs[i])
            continue;
        if (!is_known(t, node->inputs[i]))
            return;
        t->in[i] = &t->tensors[node->inputs[i]->index];
    }
    if (tmk_op_infer(node, t->in, t->results, NULL) != TMK_OK)
        return;
    if (may_compute(node, t->in, t->results)) {
        compute_constants(t, node);
        return;
    }
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        struct tmk_tensor shaped;
        if (!node->outputs[i] || !t->results[i].known)
            continue;
        tmk_tensor_borrow(&shaped, t->results[i].dtype, &t->results[i].shape, NULL);
        learn_value(t, node->outputs[i], &shaped);
    }
}

/* The branch that will run, or what both make alike. */
static void choose_branch(struct typing *t, const struct tmk_node *node) {
    const struct tmk_graph *branches[] = {tmk_node_attr(node, "then_branch")->graphs[0],
                                          tmk_node_attr(node, "else_branch")->graphs[0]};
    const struct tmk_tensor *flag = &t->tensors[node->inputs[0]->index];
    if (flag->dtype == TMK_BOOL && flag->data && tmk_tensor_count(flag) == 1) {
        const bool then = *(const uint8_t *)flag->data != 0;
        branches[then] = branches[!then];
    }
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        const struct tmk_tensor *made[2];
        if (!node->outputs[i] || i >= branches[0]->n_outputs || i >= branches[1]->n_outputs)
            continue;
        for (size_t k = 0; k < 2; k++)
            made[k] = &t->tensors[branches[k]->outputs[i]->index];
        if (made[0]->dtype == made[1]->dtype && tmk_shape_equal(&made[0]->shape, &made[1]->shape)) {
            struct tmk_tensor shaped;
            tmk_tensor_borrow(&shaped, made[0]->dtype, &made[0]->shape, NULL);
            learn_value(t, node->outputs[i], made[0] == made[1] ? made[0] : &shaped);
        }
    }
}

static void type_node(struct typing *t, const struct tmk_node *node) {
    if (node->row && node->row->flags & TMK_OP_RUNS_GRAPHS) {
        for (uint32_t i = 0; i < node->n_attrs; i++)
            for (size_t k = 0; k < tmk_attr_graphs(&node->attrs[i]); k++)
                type_graph(t, node->attrs[i].graphs[k]);
        if (tmk_node_is(node, TMK_DOMAIN_ONNX, "If"))
            choose_branch(t, node);
    } else if (node->row) {
        infer_node(t, node);
    }
    for (uint32_t i = 0; (t->guess || t->inputs) && i < node->n_outputs; i++)
        if (node->outputs[i] && !is_known(t, node->outputs[i]))
            take_declared(t, node->outputs[i]);
}

static void type_graph(struct typing *t, const struct tmk_graph *graph) {
    const bool run = t->inputs && graph == t->graph;
    for (uint32_t i = 0; run && i < graph->n_inputs; i++)
        learn_value(t, graph->inputs[i], &t->inputs[i]);
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const struct tmk_value *value = graph->values[i];
        if (value->kind == TMK_VALUE_INPUT && !run)
            take_declared(t, value);
        else if (value->kind == TMK_VALUE_INITIALIZER)
            tmk_tensor_share(&t->tensors[value->index], &value->data);
    }
    for (const struct tmk_node *node = graph->first; node && !t->nomem; node = node->next)
        type_node(t, node);
}

/* ---- what came of it ---- */

static void store_finding(const struct typing *t, struct tmk_value *value) {
    const struct finding *f = &t->findings[value->index];
    struct tmk_type *type = &value->type;
    if (!f->n || f->torn || type->kind != TMK_TYPE_TENSOR ||
        (type->dtype != TMK_UNDEFINED && type->dtype != f->dtype))
        return;
    if (type->dtype == TMK_UNDEFINED)
        type->dtype = f->dtype;
    if (type->origin == TMK_UNDEFINED)
        type->origin = f->dtype;
    if (f->shape.rank < 0)
        return;
    const bool declared = type->has_shape && type->shape.rank == f->shape.rank;
    if (type->has_shape && value->n_graph_outputs)
        return;
    type->has_shape = true;
    type->shape.rank = f->shape.rank;
    type->unsure |= t->guessed && !declared;
    for (int32_t i = 0; i < f->shape.rank; i++) {
        /* what came out of one guess alone could be anything */
        const bool one = t->guessed && f->n == 1;
        const int64_t dim = one ? -1 : f->shape.dim[i];
        if (declared && (one || dim == type->shape.dim[i]))
            continue;
        type->shape.dim[i] = dim;
        type->symbol[i] = NULL;
        type->unsure |= t->guessed;
    }
}

static enum tmk_status begin_typing(struct typing *t, const struct tmk_graph *graph, uint32_t n,
                                    struct tmk_diag *diag) {
    *t = (struct typing){.graph = graph,
                         .tensors = calloc(n + 1u, sizeof *t->tensors),
                         .findings = calloc(n + 1u, sizeof *t->findings),
                         .in = calloc(TMK_MAX_INPUTS, sizeof(struct tmk_tensor *)),
                         .results = calloc(TMK_MAX_OUTPUTS, sizeof *t->results)};
    t->nomem = !t->tensors || !t->findings || !t->in || !t->results;
    return t->nomem ? tmk_nomem(diag) : TMK_OK;
}

static void release_tensors(struct tmk_tensor *tensors, uint32_t n) {
    for (uint32_t i = 0; tensors && i < n; i++)
        tmk_tensor_finish(&tensors[i]);
}

static void finish_typing(struct typing *t, uint32_t n) {
    release_tensors(t->tensors, n);
    free(t->tensors);
    free(t->findings);
    free(t->in);
    free(t->results);
}

enum tmk_status tmk_fill_types(struct tmk_graph *graph, struct tmk_diag *diag) {
    struct typing t;
    const uint32_t n = tmk_graph_number(graph);
    enum tmk_status status = begin_typing(&t, graph, n, diag);
    for (size_t i = 0; i < TMK_COUNT(guesses) && (i == 0 || t.guessed) && !t.nomem; i++) {
        t.guess = &guesses[i];
        type_graph(&t, graph);
        release_tensors(t.tensors, n);
    }
    if (t.nomem)
        status = tmk_nomem(diag);
    for (struct tmk_graph *g = graph; g && !t.nomem; g = tmk_graph_next(graph, g))
        for (struct tmk_node *node = g->first; node; node = node->next)
            for (uint32_t i = 0; i < node->n_outputs; i++)
                if (node->outputs[i])
                    store_finding(&t, node->outputs[i]);
    finish_typing(&t, n);
    return status;
}

enum tmk_status tmk_infer_run(const struct tmk_graph *graph, const struct tmk_tensor *inputs,
                              uint32_t n, struct tmk_inferred *out, struct tmk_diag *diag) {
    struct typing t;
    enum tmk_status status = begin_typing(&t, graph, n, diag);
    t.inputs = inputs;
    if (status == TMK_OK)
        type_graph(&t, graph);
    if (t.nomem)
        status = tmk_nomem(diag);
    if (status == TMK_OK) {
        *out = (struct tmk_inferred){n, t.tensors};
        t.tensors = NULL;
    }
    finish_typing(&t, n);
    return status;
}

enum tmk_status tmk_infer_certain(struct tmk_graph *graph, struct tmk_inferred *out,
                                  struct tmk_diag *diag) {
    return tmk_infer_run(graph, NULL, tmk_graph_number(graph), out, diag);
}

void tmk_inferred_finish(struct tmk_inferred *inferred) {
    release_tensors(inferred->tensors, inferred->n);
    free(inferred->tensors);
    *inferred = (struct tmk_inferred){0};
}
