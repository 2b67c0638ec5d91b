/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "plan/build.h"

struct walk {
    const struct tmk_graph *graph;
    const struct tmk_plan *plan; /* typed for TMK_TYPED_SAMPLES samples */
    bool *batched;               /* by value index */
    struct tmk_batch_independence *answer;
};

static bool answer_no(struct tmk_batch_independence *answer, const struct tmk_node *node,
                      const char *why) {
    snprintf(answer->why, sizeof answer->why, "%s %s", node ? TMK_NODE_LABEL(node) : "the model",
             why);
    return false;
}

/* ---- the inputs ---- */

/* The first dimension of all inputs is free, is the same one, and is none of their others. */
static bool inputs_are_free(const struct tmk_graph *graph, struct tmk_batch_independence *answer) {
    const char *batch = NULL;
    if (!graph->n_inputs)
        return answer_no(answer, NULL, "has no inputs");
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const struct tmk_type *type = &graph->inputs[i]->type;
        if (type->kind != TMK_TYPE_TENSOR || (type->has_shape && !type->shape.rank))
            return answer_no(answer, NULL, "has an input without a first dimension");
        if (type->has_shape && type->shape.dim[0] >= 0)
            return answer_no(answer, NULL, "has an input whose first dimension is fixed");
        const char *symbol = type->has_shape ? type->symbol[0] : NULL;
        if (symbol && batch && strcmp(symbol, batch) != 0)
            return answer_no(answer, NULL, "calls the inputs' first dimensions by different names");
        batch = symbol ? symbol : batch;
    }
    for (uint32_t i = 0; batch && i < graph->n_inputs; i++)
        for (int32_t k = 1; k < graph->inputs[i]->type.shape.rank; k++) {
            const char *symbol = graph->inputs[i]->type.symbol[k];
            if (symbol && strcmp(symbol, batch) == 0)
                return answer_no(answer, NULL,
                                 "uses the inputs' first dimension for another one too");
        }
    return true;
}

/* ---- what a sample costs ---- */

/* As large as it gets. */
static uint64_t saturating_mul(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static void saturating_add(uint64_t *sum, uint64_t n) {
    if (__builtin_add_overflow(*sum, n, sum))
        *sum = UINT64_MAX;
}

static uint64_t count_of(const struct tmk_plan_value *value) {
    size_t count = 0;
    (void)tmk_shape_count(&value->shape, &count);
    return count;
}

static void count_value(struct tmk_sample_cost *cost, const struct tmk_plan_value *value) {
    uint64_t elements = count_of(value) / TMK_TYPED_SAMPLES;
    saturating_add(&cost->elements, elements);
    cost->largest = elements > cost->largest ? elements : cost->largest;
}

/* The operand of a product with its weights, or with the other matrices. */
static const struct tmk_plan_value *weights_of(const struct walk *w, const struct tmk_node *node) {
    return &w->plan->values[node->inputs[tmk_weight_input(tmk_node_traits(node))]->index];
}

/* Multiply-adds; 0 of what is no product. */
static uint64_t products_of(const struct walk *w, const struct tmk_node *node) {
    const enum tmk_product product = tmk_node_traits(node)->product;
    if (product == TMK_PRODUCT_NONE || !node->outputs[0])
        return 0;
    const struct tmk_plan_value *values = w->plan->values, *first = &values[node->inputs[0]->index],
                                *factor = weights_of(w, node),
                                *made = &values[node->outputs[0]->index];
    if (product == TMK_PRODUCT_MATRIX)
        return saturating_mul(count_of(made), (uint64_t)first->shape.dim[first->shape.rank - 1]);
    uint64_t slices = (uint64_t)factor->shape.dim[0];
    return saturating_mul(count_of(product == TMK_PRODUCT_CONV ? made : first),
                          slices ? count_of(factor) / slices : 0);
}

static void count_node(struct walk *w, const struct tmk_node *node) {
    struct tmk_sample_cost *cost = &w->answer->cost;
    const struct tmk_traits *traits = tmk_node_traits(node);
    cost->nodes++;
    saturating_add(&cost->products, products_of(w, node) / TMK_TYPED_SAMPLES);
    if (traits->product != TMK_PRODUCT_NONE &&
        !w->batched[node->inputs[tmk_weight_input(traits)]->index])
        saturating_add(&cost->weights, count_of(weights_of(w, node)));
}

/* ---- node by node ---- */

static bool any_batched(const struct walk *w, const struct tmk_node *node) {
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] && w->batched[node->inputs[i]->index])
            return true;
    return false;
}

static bool all_constant(const struct walk *w, const struct tmk_node *node) {
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i] &&
            w->plan->values[node->outputs[i]->index].place != TMK_PLACE_CONSTANT)
            return false;
    return true;
}

/* Results are as the rule promised. */
static bool mark_results(struct walk *w, const struct tmk_node *node) {
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        if (!node->outputs[i])
            continue;
        const struct tmk_plan_value *value = &w->plan->values[node->outputs[i]->index];
        const struct tmk_type *declared = &node->outputs[i]->type;
        if (value->place != TMK_PLACE_ARENA || value->shape.rank < 1 ||
            value->shape.dim[0] != TMK_TYPED_SAMPLES)
            return answer_no(w->answer, node, "makes something that is not cut by samples");
        if (declared->has_shape && (!declared->shape.rank || declared->shape.dim[0] >= 0))
            return answer_no(w->answer, node, "is declared to make a fixed number of samples");
        w->batched[node->outputs[i]->index] = true;
        count_value(&w->answer->cost, value);
    }
    return true;
}

static bool check_node(struct walk *w, const struct tmk_node *node) {
    if (tmk_node_is_observer(node)) {
        w->batched[node->outputs[0]->index] = w->batched[node->inputs[0]->index];
        return true;
    }
    if (node->row->flags & TMK_OP_RUNS_GRAPHS) /* which see more than its operands */
        return answer_no(w->answer, node, "runs a graph of its own");
    if (!any_batched(w, node))
        return all_constant(w, node) ||
               answer_no(w->answer, node,
                         "makes something that is neither constant nor made from samples");
    const struct tmk_batch_node asked = {w->plan, node, w->batched};
    const char *why = tmk_batch_refuse(&asked);
    if (why)
        return answer_no(w->answer, node, why);
    count_node(w, node);
    return mark_results(w, node);
}

static void walk_nodes(struct walk *w) {
    for (uint32_t i = 0; i < w->graph->n_inputs; i++) {
        uint32_t input = w->graph->inputs[i]->index;
        w->batched[input] = true;
        count_value(&w->answer->cost, &w->plan->values[input]);
    }
    const struct tmk_node *node = w->graph->first;
    while (node && check_node(w, node))
        node = node->next;
    w->answer->independent = !node;
}

/* ---- the whole ---- */

static enum tmk_status infer_types(const struct tmk_graph *graph, const struct tmk_tensor *sample,
                                   struct tmk_planning *out, struct tmk_batch_independence *answer,
                                   struct tmk_diag *diag) {
    struct tmk_tensor *inputs = calloc(graph->n_inputs + 1u, sizeof *inputs);
    struct tmk_diag why = {0};
    TMK_TRY_ALLOC(inputs, diag);
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        struct tmk_shape shape = sample[i].shape;
        shape.dim[0] = TMK_TYPED_SAMPLES;
        tmk_tensor_borrow(&inputs[i], sample[i].dtype, &shape, NULL);
    }
    enum tmk_status status = tmk_planning_begin(graph, inputs, NULL, out, &why);
    free(inputs);
    if (status == TMK_NOMEM)
        return tmk_nomem(diag);
    if (status != TMK_OK)
        snprintf(answer->why, sizeof answer->why, "two samples do not fit the model: %.160s",
                 why.text);
    return status;
}

enum tmk_status tmk_plan_batch_independence(const struct tmk_graph *graph,
                                            const struct tmk_tensor *sample,
                                            struct tmk_batch_independence *out,
                                            struct tmk_diag *diag) {
    struct tmk_planning planning;
    *out = (struct tmk_batch_independence){0};
    if (!inputs_are_free(graph, out))
        return TMK_OK;
    enum tmk_status status = infer_types(graph, sample, &planning, out, diag);
    if (status != TMK_OK)
        return status == TMK_NOMEM ? status : TMK_OK;
    struct walk w = {.graph = graph,
                     .plan = planning.plan,
                     .batched = calloc(planning.plan->n_values + 1u, sizeof *w.batched),
                     .answer = out};
    if (w.batched)
        walk_nodes(&w);
    else
        status = tmk_nomem(diag);
    free(w.batched);
    tmk_planning_end(&planning);
    return status;
}

/* ---- how many make a call ---- */

/* Multiply-adds, or what takes as long. Measured on small networks: besides its work a call, with
 * handing its batch over, takes as long as half a million of them, a node as 30,000, an element of
 * which a histogram is kept as 8; once a call's own work is eight times that of the call and twice
 * that of its nodes, more samples gain nothing. A weight should be used 32 times for what it takes
 * to bring it in, and a value of a quarter of a million floats is half of a second-level cache.
 * More weights than a core's share of the caches come from memory, which two workers share: one is
 * as dear as forty multiply-adds, and used 340 times it is an eighth of the work. Beyond that what
 * is gained is lost again on activations (measured on networks of 3 to 26 million weights), and
 * sooner where there are eight of those for each weight (measured on MobileNetV2: two samples are 6
 * to 8 % faster than four). A histogram's table is far too, where there are so many that a
 * second-level cache can't hold them: two samples that use it in turn save 3 to 6 % where a value
 * has fewer than a quarter of a million elements (measured on DenseNet-121 and SqueezeNet). */
enum { CALL = 1 << 22, NODE = 1 << 16, ELEMENT = 8, USES = 32, CACHED = 1 << 18 };
enum { FAR_WEIGHTS = 1 << 21, FAR_USES = 340, MOST_FOR_FAR = 4, FAR_SHARE = 8 };
enum { MANY_TABLES = 48, TABLE_USES = 1 << 18, MOST_FOR_TABLES = 2 };

static bool is_worth_a_call(const struct tmk_sample_cost *cost, uint32_t samples) {
    uint64_t work = saturating_mul(cost->elements, ELEMENT);
    saturating_add(&work, cost->products);
    return saturating_mul(work, samples) >= CALL + (uint64_t)NODE * cost->nodes &&
           saturating_mul(cost->products, samples) >= saturating_mul(cost->weights, USES);
}

static bool weights_are_far(const struct tmk_sample_cost *cost, uint32_t samples) {
    return samples < MOST_FOR_FAR && cost->weights >= FAR_WEIGHTS &&
           saturating_mul(cost->products, samples) < saturating_mul(cost->weights, FAR_USES) &&
           saturating_mul(cost->elements, samples) < saturating_mul(cost->weights, FAR_SHARE);
}

static bool tables_are_far(const struct tmk_sample_cost *cost, uint32_t samples) {
    return samples < MOST_FOR_TABLES && cost->nodes >= MANY_TABLES &&
           saturating_mul(cost->elements, samples) < saturating_mul(cost->nodes, TABLE_USES);
}

uint32_t tmk_samples_a_call(const struct tmk_sample_cost *cost, bool *enough) {
    uint32_t samples = 1;
    while (samples < TMK_MAX_A_CALL && !is_worth_a_call(cost, samples) &&
           saturating_mul(cost->largest, 2 * samples) <= CACHED)
        samples *= 2;
    while (weights_are_far(cost, samples) || tables_are_far(cost, samples))
        samples *= 2;
    if (enough)
        *enough = is_worth_a_call(cost, samples);
    return samples;
}
