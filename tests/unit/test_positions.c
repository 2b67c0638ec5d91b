/* SPDX-License-Identifier: Apache-2.0 */
/* Which results have the positions of an axis of an operand: of each operator's sample, that a
 * result which is said to is made so. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "evaluate.h"
#include "plan/build.h"
#include "tensor/elements.h"
#include "tensor/shape.h"

struct followed {
    struct tmk_graph *graph;
    struct tmk_planning planning;
    struct tmk_positions *values; /* by index */
    struct tmk_tensor inputs[MOST_INPUTS];
    struct made base;
};

static void follow(struct followed *f, const char *text, uint32_t input, int32_t axis) {
    uint64_t random = 11;
    *f = (struct followed){0};
    must(parse_graph(text, NULL, &f->graph, DIAG));
    must(tmk_ops_bind(f->graph, DIAG));
    tmk_graph_number(f->graph);
    for (uint32_t i = 0; i < f->graph->n_inputs; i++) {
        const struct tmk_type *type = &f->graph->inputs[i]->type;
        must(tmk_tensor_init(&f->inputs[i], type->dtype, &type->shape, DIAG));
        fill(&f->inputs[i], &random);
    }
    must(tmk_planning_begin(f->graph, f->inputs, NULL, &f->planning, DIAG));
    f->values = calloc(f->planning.plan->n_values + 1u, sizeof *f->values);
    assert_non_null(f->values);
    const struct tmk_shape *shape = &f->inputs[input].shape;
    f->values[f->graph->inputs[input]->index] =
        (struct tmk_positions){.position = {{tmk_shape_product(shape, axis + 1, shape->rank),
                                             (size_t)shape->dim[axis], 0}},
                               .n = 1};
    tmk_positions_follow(f->planning.plan, f->values);
    f->base = make(f->graph, f->inputs);
}

static void unfollow(struct followed *f) {
    drop(&f->base);
    free(f->values);
    tmk_planning_end(&f->planning);
    for (uint32_t i = 0; i < f->graph->n_inputs; i++)
        tmk_tensor_finish(&f->inputs[i]);
    tmk_graph_destroy(&f->graph);
}

/* The place that is `of`'s with its indices reversed. */
static size_t mirrored(const struct tmk_positions *positions, size_t of) {
    size_t to = of;
    for (uint32_t i = 0; i < positions->n; i++) {
        const struct tmk_index *index = &positions->position[i];
        const size_t at = tmk_index_at(index, of);
        to = to + (index->size - 1 - at) * index->stride - at * index->stride;
    }
    return to;
}

static bool is_at(const struct tmk_positions *positions, size_t of, int64_t k) {
    for (uint32_t i = 0; i < positions->n; i++)
        if (tmk_index_at(&positions->position[i], of) == (size_t)k)
            return true;
    return false;
}

static bool are_close(double a, double b) {
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-5 * (fabs(a) + fabs(b)) + 1e-6;
}

/* With the elements at index k changed (k < 0: with all of them mirrored), the result is as it was
 * at other indices (is mirrored, too). */
static bool holds(const struct followed *f, uint32_t input, const struct tmk_value *result,
                  int64_t k) {
    const struct tmk_positions *made_of = &f->values[result->index],
                               *given = &f->values[f->graph->inputs[input]->index];
    const struct tmk_tensor own = f->inputs[input];
    struct tmk_tensor inputs[MOST_INPUTS];
    memcpy(inputs, f->inputs, sizeof inputs);
    must(tmk_tensor_init(&inputs[input], own.dtype, &own.shape, DIAG));
    for (size_t i = 0; i < tmk_tensor_count(&own); i++) {
        const double x = tmk_number_get(&own, k < 0 ? mirrored(given, i) : i);
        const bool changes = k >= 0 && is_at(given, i, k);
        must(tmk_number_put(&inputs[input], i,
                            changes ? (own.dtype == TMK_FLOAT32 ? x + 0.37 : 1 - x) : x, DIAG));
    }
    struct made made = make(f->graph, inputs);
    const struct tmk_tensor *before = &f->base.values[result->index],
                            *after = &made.values[result->index];
    bool same = tmk_shape_equal(&before->shape, &after->shape);
    for (size_t i = 0; same && i < tmk_tensor_count(after); i++) {
        if (k >= 0 && is_at(made_of, i, k))
            continue;
        same = are_close(tmk_number_get(before, k < 0 ? mirrored(made_of, i) : i),
                         tmk_number_get(after, i));
    }
    drop(&made);
    tmk_tensor_finish(&inputs[input]);
    return same;
}

/* Running sums, and tokens that attend to those before them, are made of others by their order. */
static bool goes_by_order(const struct tmk_node *node) {
    return tmk_node_traits(node)->batch == TMK_BATCH_CUMULATE ||
           tmk_node_is(node, "com.microsoft", "Attention");
}

/* How many results are known to have the positions of one axis of an input: each of them is made at
 * an index from that index alone, or from all alike. */
static unsigned check_axis(const char *text, uint32_t input, int32_t axis) {
    struct followed f;
    unsigned n = 0;
    follow(&f, text, input, axis);
    for (const struct tmk_node *node = f.graph->first; node; node = node->next)
        for (uint32_t o = 0; o < node->n_outputs; o++) {
            const struct tmk_value *result = node->outputs[o];
            if (!result || !f.values[result->index].n || goes_by_order(node) ||
                !tmk_number_takes(f.base.values[result->index].dtype))
                continue;
            bool alone = true;
            for (int64_t k = 0; alone && k < f.inputs[input].shape.dim[axis]; k++)
                alone = holds(&f, input, result, k);
            if (!alone && !holds(&f, input, result, -1))
                fail_msg("%s: axis %d of input %u is not that of result %u of %s", text, (int)axis,
                         input, o, node->op);
            n++;
        }
    unfollow(&f);
    return n;
}

static unsigned check_all_axes(const char *text) {
    struct tmk_graph *graph = NULL;
    unsigned n = 0;
    must(parse_graph(text, NULL, &graph, DIAG));
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const struct tmk_type *type = &graph->inputs[i]->type;
        for (int32_t axis = 0; axis < type->shape.rank && tmk_number_takes(type->dtype); axis++)
            if (type->shape.dim[axis] > 1)
                n += check_axis(text, i, axis);
    }
    tmk_graph_destroy(&graph);
    return n;
}

TEST(positions_are_those_that_results_are_made_of) {
    unsigned rows = 0, known = 0;
    for (const struct tmk_op *const *row = op_rows(); *row; row++) {
        uint32_t n_inputs;
        if (!can_be_samples(*row, &n_inputs) || ((*row)->flags & TMK_OP_IMPURE))
            continue;
        rows++;
        known += check_all_axes(op_sample(*row)) > 0;
    }
    assert_true(known > rows / 3);
}

/* Where sizes cannot tell one axis from another. */
TEST(axes_of_one_size_are_kept_apart) {
    static const struct {
        unsigned known; /* axes of inputs that the result has */
        const char *body;
    } cases[] = {
        {3, "%y = Transpose(%x) {perm=[2,0,1]}"},
        {3, "%y = Transpose(%x)"},
        {4, "%y = MatMul(%x, %z)"},
        {2, "init %w : f32[3,3] = {1,2,3,4,5,6,7,8,9}\n%y = MatMul(%x, %w)"},
        {2, "init %s : i64[1] = {0}\ninit %e : i64[1] = {1}\ninit %a : i64[1] = {0}\n"
            "%m = Slice(%x, %s, %e, %a)\n%r = Squeeze(%m, %a)\n%y = Gemm(%r, %r) {transA=1}"},
        {2, "init %s : i64[1] = {-1}\ninit %e : i64[1] = {-9}\ninit %a : i64[1] = {1}\n"
            "init %d : i64[1] = {-1}\n%y = Slice(%x, %s, %e, %a, %d)"},
        {2, "init %p : i64[6] = {0,1,0,0,-1,0}\n%y = Pad(%x, %p)"},
        {2, "%a, %b, %c = Split(%x) {axis=1,num_outputs=3}\n%y = Concat(%c, %b, %a) {axis=1}"},
        {2, "init %i : i64[3] = {2,0,0}\n%y = Gather(%x, %i) {axis=1}"},
        {2, "init %i : i64[] = {1}\n%y = Gather(%x, %i) {axis=0}"},
        {4, "%y = com.microsoft::FusedMatMul(%x, %z) {transA=1,transB=1}"},
        {2, "%y = ReduceMax(%x) {axes=[1],keepdims=0}"},
        {2, "%y = ArgMax(%x) {axis=0,keepdims=0}"},
        {3, "%y = Softmax(%x) {axis=1}"},
        {3, "init %i : i64[1] = {0}\n%u = Unsqueeze(%x, %i)\n%t = Transpose(%u) {perm=[3,0,2,1]}\n"
            "init %s : i64[2] = {9,3}\n%y = Reshape(%t, %s)"},
        {6, "%y = Add(%x, %z)"},
        {3, "init %w : f32[3,1] = {1,2,3}\n%y = Mul(%x, %w)"},
    };
    for (size_t i = 0; i < TMK_COUNT(cases); i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "graph \"g\" opset %d \"com.microsoft\" 1 {\ninput %%x : f32[3,3,3]\n%s%s\noutput "
                 "%%y\n}\n",
                 strstr(cases[i].body, "num_outputs") || strstr(cases[i].body, "keepdims=0") ? 18
                                                                                             : 17,
                 strstr(cases[i].body, "%z") ? "input %z : f32[3,3,3]\n" : "", cases[i].body);
        if (strstr(cases[i].body, "axes=["))
            memcpy(strstr(text, "opset 18"), "opset 17", 8);
        unsigned n = 0;
        const unsigned all = check_all_axes(text);
        struct tmk_graph *graph = NULL;
        must(parse_graph(text, NULL, &graph, DIAG));
        for (uint32_t k = 0; k < graph->n_inputs; k++)
            for (int32_t axis = 0; axis < 3; axis++) {
                struct followed f;
                follow(&f, text, k, axis);
                n += f.values[f.graph->outputs[0]->index].n;
                unfollow(&f);
            }
        tmk_graph_destroy(&graph);
        if (n != cases[i].known || !all)
            fail_msg("%s: %u axes are known in the result", cases[i].body, n);
    }
}
