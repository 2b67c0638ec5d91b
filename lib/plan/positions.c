/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/build.h"

#include <stdlib.h>

#include "base/diag.h"
#include "plan/batch.h"
#include "tensor/shape.h"

/* The axis of the result at the same indices as each axis of an operand; -1: none. */
struct axes {
    int32_t to[TMK_MAX_RANK];
};

struct operand {
    const struct tmk_batch_node *n;
    uint32_t number;
    int32_t rank, result; /* ranks of it and of the result */
};

/* ---- what an operator does to axes ---- */

static void keep_all(const struct operand *x, struct axes *axes) {
    for (int32_t i = 0; i < x->rank; i++)
        axes->to[i] = i;
}

/* As NumPy lays an operand over the result. */
static void align_right(const struct operand *x, struct axes *axes) {
    for (int32_t i = 0; i < x->rank; i++)
        axes->to[i] = i + x->result - x->rank;
}

static void first_axes(const struct operand *x, struct axes *axes) {
    if (x->number == 0)
        keep_all(x, axes);
}

static void sample_axes(const struct operand *x, struct axes *axes) {
    if (x->number == 0)
        axes->to[0] = 0;
}

static void pointwise_axes(const struct operand *x, struct axes *axes) {
    if (x->number == 0 || !tmk_node_attr(x->n->node, "axis")) /* how B lay in A before set 7 */
        align_right(x, axes);
}

static void expand_axes(const struct operand *x, struct axes *axes) {
    if (x->number == 0)
        align_right(x, axes);
}

static int32_t axis_of(const struct operand *x, int64_t otherwise, int32_t rank) {
    const int64_t axis = tmk_node_int(x->n->node, "axis", otherwise);
    return (int32_t)(axis < 0 ? axis + rank : axis);
}

static void drop_axis(int32_t axis, struct axes *axes) {
    if (axis >= 0 && axis < TMK_MAX_RANK)
        axes->to[axis] = -1;
}

/* All but those that are named, by the attribute or by operand `input`. */
static bool drop_named(const struct operand *x, uint32_t input, struct axes *axes) {
    int64_t named[TMK_BATCH_INTEGERS];
    size_t n;
    if (!tmk_batch_integers(x->n, "axes", input, named, &n))
        return false;
    for (size_t i = 0; i < n; i++)
        drop_axis((int32_t)(named[i] < 0 ? named[i] + x->rank : named[i]), axes);
    return true;
}

/* Axes that are gone move the others forward. */
static void close_up(const struct operand *x, struct axes *axes) {
    int32_t next = 0;
    for (int32_t i = 0; i < x->rank; i++)
        if (axes->to[i] >= 0)
            axes->to[i] = next++;
}

static void forget_all(struct axes *axes) {
    for (int32_t i = 0; i < TMK_MAX_RANK; i++)
        axes->to[i] = -1;
}

static void reduce_axes(const struct operand *x, struct axes *axes) {
    first_axes(x, axes);
    if (!drop_named(x, 1, axes))
        forget_all(axes);
    else if (!tmk_node_int(x->n->node, "keepdims", 1))
        close_up(x, axes);
}

static void arg_axes(const struct operand *x, struct axes *axes) {
    first_axes(x, axes);
    drop_axis(axis_of(x, 0, x->rank), axes);
    if (!tmk_node_int(x->n->node, "keepdims", 1))
        close_up(x, axes);
}

static void slice_axes(const struct operand *x, struct axes *axes) {
    first_axes(x, axes);
    if (!drop_named(x, 3, axes))
        forget_all(axes); /* from the first on */
}

static void last_axes(const struct operand *x, struct axes *axes) {
    first_axes(x, axes);
    drop_axis(axis_of(x, -1, x->rank), axes);
}

/* Rows of the result are made as a whole: its axes from one on. */
static void row_axes(const struct operand *x, struct axes *axes) {
    first_axes(x, axes);
    for (int32_t i = axis_of(x, -1, x->result); i >= 0 && i < x->rank; i++)
        axes->to[i] = -1;
}

static void split_axes(const struct operand *x, struct axes *axes) {
    first_axes(x, axes);
    drop_axis(axis_of(x, 0, x->rank), axes);
}

static void gather_axes(const struct operand *x, struct axes *axes) {
    const int32_t rank = tmk_batch_rank(x->n, 0), axis = axis_of(x, 0, rank);
    for (int32_t i = 0; i < x->rank; i++)
        axes->to[i] = x->number == 1 ? axis + i
                      : i < axis     ? i
                      : i > axis     ? i + x->result - rank
                                     : -1;
}

static void gather_elements_axes(const struct operand *x, struct axes *axes) {
    keep_all(x, axes);
    if (x->number == 0)
        drop_axis(axis_of(x, 0, x->rank), axes);
}

static void one_hot_axes(const struct operand *x, struct axes *axes) {
    const int32_t axis = axis_of(x, -1, x->result);
    for (int32_t i = 0; x->number == 0 && i < x->rank; i++)
        axes->to[i] = i + (i >= axis);
}

static void pad_axes(const struct operand *x, struct axes *axes) {
    int64_t pads[TMK_BATCH_INTEGERS];
    size_t n;
    if (x->number != 0 || (x->n->node->n_inputs > 3 && x->n->node->inputs[3]) ||
        !tmk_batch_integers(x->n, "pads", 1, pads, &n) || n != 2 * (size_t)x->rank)
        return;
    for (int32_t i = 0; i < x->rank; i++)
        axes->to[i] = pads[i] || pads[i + x->rank] ? -1 : i;
}

static void transpose_axes(const struct operand *x, struct axes *axes) {
    int64_t order[TMK_BATCH_INTEGERS];
    size_t n;
    const bool given = tmk_batch_integers(x->n, "perm", 0, order, &n);
    for (int32_t i = 0; i < x->rank; i++)
        axes->to[given ? order[i] : x->rank - 1 - i] = i;
}

/* Rows of A, columns of B, and the axes that matrices are stacked along. FusedMatMul may take them
 * transposed. */
static void matmul_axes(const struct operand *x, struct axes *axes) {
    const struct tmk_node *node = x->n->node;
    if (x->number > 1 || tmk_node_int(node, "transBatchA", 0) ||
        tmk_node_int(node, "transBatchB", 0))
        return;
    const int32_t a = tmk_batch_rank(x->n, 0), b = tmk_batch_rank(x->n, 1);
    const int32_t stack = a > b ? a : b;
    for (int32_t i = 0; i < x->rank - 2; i++)
        axes->to[i] = i + stack - x->rank;
    if (x->number == 0 && a > 1)
        axes->to[a - (tmk_node_int(node, "transA", 0) ? 1 : 2)] = stack - 2;
    if (x->number == 1 && b > 1)
        axes->to[b - (tmk_node_int(node, "transB", 0) ? 2 : 1)] = x->result - 1;
}

static void gemm_axes(const struct operand *x, struct axes *axes) {
    if (x->number == 0)
        axes->to[tmk_node_int(x->n->node, "transA", 0) ? 1 : 0] = 0;
    else if (x->number == 1)
        axes->to[tmk_node_int(x->n->node, "transB", 0) ? 0 : 1] = 1;
    else
        align_right(x, axes);
}

static void concat_axes(const struct operand *x, struct axes *axes) {
    keep_all(x, axes);
    drop_axis(axis_of(x, 1, x->rank), axes);
}

typedef void axes_fn(const struct operand *x, struct axes *axes);

static axes_fn *const position_rules[TMK_N_BATCH_RULES] = {
    [TMK_BATCH_ARG] = arg_axes,
    [TMK_BATCH_BATCH_NORM] = first_axes,
    [TMK_BATCH_CONCAT] = concat_axes,
    [TMK_BATCH_CUMULATE] = first_axes,
    [TMK_BATCH_EXPAND] = expand_axes,
    [TMK_BATCH_GATHER] = gather_axes,
    [TMK_BATCH_GATHER_ELEMENTS] = gather_elements_axes,
    [TMK_BATCH_GEMM] = gemm_axes,
    [TMK_BATCH_LAST_AXIS] = last_axes,
    [TMK_BATCH_LAYER_NORM] = row_axes,
    [TMK_BATCH_MATMUL] = matmul_axes,
    [TMK_BATCH_MAX_POOL] = sample_axes,
    [TMK_BATCH_MEAN_VARIANCE] = first_axes,
    [TMK_BATCH_ONE_HOT] = one_hot_axes,
    [TMK_BATCH_PAD] = pad_axes,
    [TMK_BATCH_POINTWISE] = pointwise_axes,
    [TMK_BATCH_QUANTIZE] = first_axes,
    [TMK_BATCH_REDUCE] = reduce_axes,
    [TMK_BATCH_RESIZE] = sample_axes,
    [TMK_BATCH_SAMPLE] = sample_axes,
    [TMK_BATCH_SLICE] = slice_axes,
    [TMK_BATCH_SOFTMAX] = first_axes,
    [TMK_BATCH_SPLIT] = split_axes,
    [TMK_BATCH_TILE] = expand_axes,
    [TMK_BATCH_TRANSPOSE] = transpose_axes,
    [TMK_BATCH_TRILU] = first_axes,
};

static axes_fn *rule_of(const struct tmk_node *node) {
    const struct tmk_traits *traits = tmk_node_traits(node);
    if (tmk_traits_are(traits, TMK_TRAIT_ROWS))
        return row_axes;
    if (traits->batch == TMK_BATCH_UNKNOWN && traits->product == TMK_PRODUCT_MATRIX)
        return matmul_axes;
    return position_rules[traits->batch];
}

/* ---- indices of operands, as indices of the result ---- */

/* The axis that an index lies in; -1: in several. */
static int32_t axis_with(const struct tmk_shape *shape, const struct tmk_index *index) {
    for (int32_t i = 0; i < shape->rank; i++) {
        const size_t behind = tmk_shape_product(shape, i + 1, shape->rank);
        const size_t whole = behind * (size_t)shape->dim[i];
        if (index->size == 1 ? whole == index->stride && behind == index->stride
                             : behind <= index->stride && index->stride * index->size <= whole &&
                                   index->stride % behind == 0)
            return i;
    }
    return -1;
}

static struct tmk_index moved_index(const struct tmk_index *index, const struct tmk_shape *from,
                                    const struct tmk_shape *to, const struct axes *axes) {
    const int32_t axis = index->size ? axis_with(from, index) : -1,
                  there = axis >= 0 ? axes->to[axis] : -1;
    if (there < 0 || there >= to->rank || to->dim[there] != from->dim[axis])
        return (struct tmk_index){0};
    const size_t within = index->stride / tmk_shape_product(from, axis + 1, from->rank);
    return (struct tmk_index){within * tmk_shape_product(to, there + 1, to->rank), index->size,
                              index->offset};
}

static bool same_index(const struct tmk_index *a, const struct tmk_index *b) {
    return a->stride == b->stride && a->size == b->size && a->offset == b->offset;
}

/* False: the result holds something of other positions, or prompts, at the same place. */
static bool add_position(struct tmk_positions *to, const struct tmk_index *index) {
    for (uint32_t i = 0; index->size && i < to->n; i++)
        if (to->position[i].stride == index->stride)
            return same_index(&to->position[i], index);
    if (!index->size)
        return true;
    if (to->n == TMK_MOST_POSITIONS)
        return false;
    to->position[to->n++] = *index;
    return true;
}

static bool add_positions(struct tmk_positions *to, const struct tmk_positions *more) {
    if (to->prompt.size && more->prompt.size && !same_index(&to->prompt, &more->prompt))
        return false;
    if (more->prompt.size)
        to->prompt = more->prompt;
    for (uint32_t i = 0; i < more->n; i++)
        if (!add_position(to, &more->position[i]))
            return false;
    return true;
}

/* An axis cannot count both. */
static bool are_apart(const struct tmk_positions *positions) {
    for (uint32_t i = 0; i < positions->n; i++)
        if (positions->prompt.size > 1 && positions->position[i].size > 1 &&
            positions->prompt.stride == positions->position[i].stride)
            return false;
    return true;
}

/* ---- node by node ---- */

struct following {
    const struct tmk_plan *plan;
    struct tmk_positions *values; /* by value index */
};

/* NULL: it is not known, or there are no elements whose places could be told. */
static const struct tmk_shape *shape_of(const struct following *w, const struct tmk_value *value) {
    const struct tmk_plan_value *planned = value ? &w->plan->values[value->index] : NULL;
    return planned &&
                   (planned->place == TMK_PLACE_ARENA || planned->place == TMK_PLACE_INPUT ||
                    planned->place == TMK_PLACE_CONSTANT) &&
                   tmk_shape_product(&planned->shape, 0, planned->shape.rank)
               ? &planned->shape
               : NULL;
}

/* Along the axis that is joined, positions go on from operand to operand. */
static bool join_positions(const struct following *w, const struct tmk_node *node,
                           const struct tmk_shape *result, struct tmk_positions *out) {
    int64_t axis = tmk_node_int(node, "axis", 1);
    size_t before = 0;
    struct tmk_index joined = {0};
    axis += axis < 0 ? result->rank : 0;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct tmk_plan_value *value =
            node->inputs[i] ? &w->plan->values[node->inputs[i]->index] : NULL;
        const struct tmk_shape *shape = shape_of(w, node->inputs[i]);
        if (value && !shape && value->place != TMK_PLACE_DYNAMIC)
            continue; /* it adds no element */
        if (!shape || shape->rank != result->rank || axis < 0 || axis >= shape->rank)
            return true;
        const struct tmk_positions *known = &w->values[node->inputs[i]->index];
        const size_t stride = tmk_shape_product(shape, (int32_t)axis + 1, shape->rank),
                     size = (size_t)shape->dim[axis];
        const struct tmk_index *index = NULL;
        for (uint32_t k = 0; k < known->n; k++)
            if (known->position[k].stride == stride && known->position[k].size == size)
                index = &known->position[k];
        if (!index || index->offset < before ||
            (joined.size && joined.offset != index->offset - before))
            return true;
        joined = (struct tmk_index){stride, (size_t)result->dim[axis], index->offset - before};
        before += size;
    }
    return add_position(out, &joined);
}

static void follow_operand(const struct following *w, const struct operand *x,
                           const struct tmk_value *value, const struct tmk_shape *result,
                           axes_fn *rule, struct tmk_positions *out, bool *clear) {
    const struct tmk_positions *known = &w->values[value->index];
    const struct tmk_shape *shape = shape_of(w, value);
    struct tmk_positions moved = {.n = known->n};
    struct axes axes;
    if (!shape || (!known->prompt.size && !known->n))
        return;
    forget_all(&axes);
    rule(x, &axes);
    moved.prompt = moved_index(&known->prompt, shape, result, &axes);
    for (uint32_t i = 0; i < known->n; i++)
        moved.position[i] = moved_index(&known->position[i], shape, result, &axes);
    *clear = *clear && add_positions(out, &moved);
}

/* Another result than the first may be of other rows, unless it is an operand with its shape. */
static bool has_rows(const struct following *w, const struct tmk_node *node, uint32_t output,
                     const struct tmk_shape *result) {
    const struct tmk_shape *first = node->n_inputs ? shape_of(w, node->inputs[0]) : NULL;
    if (tmk_is_shown(node, output)) /* which has axes of its own */
        return false;
    return output == 0 || !tmk_traits_are(tmk_node_traits(node), TMK_TRAIT_ROWS) ||
           (first && tmk_shape_equal(first, result));
}

static void follow_node(const struct following *w, const struct tmk_node *node, uint32_t output) {
    const struct tmk_batch_node n = {.plan = w->plan, .node = node};
    const struct tmk_shape *result = shape_of(w, node->outputs[output]);
    struct tmk_positions *out = &w->values[node->outputs[output]->index], found = {0};
    axes_fn *rule = rule_of(node);
    bool clear = true;
    if (!result || !has_rows(w, node, output, result))
        return;
    for (uint32_t i = 0; rule && i < node->n_inputs; i++) {
        const struct tmk_shape *shape = shape_of(w, node->inputs[i]);
        const struct operand x = {&n, i, shape ? shape->rank : 0, result->rank};
        if (shape)
            follow_operand(w, &x, node->inputs[i], result, rule, &found, &clear);
    }
    if (rule == concat_axes)
        clear = clear && join_positions(w, node, result, &found);
    if (clear && are_apart(&found))
        *out = found;
}

static void walk_node(const struct following *w, const struct tmk_node *node) {
    if (node->row->flags & TMK_OP_RUNS_GRAPHS)
        return;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        if (!node->outputs[i] ||
            w->plan->values[node->outputs[i]->index].place == TMK_PLACE_CONSTANT)
            continue;
        if (i == 0 && (node->row->flags & TMK_OP_VIEW)) /* the same elements in the same order */
            w->values[node->outputs[0]->index] = w->values[node->inputs[0]->index];
        else
            follow_node(w, node, i);
    }
}

static struct tmk_index seeded_index(const struct tmk_shape *shape, int32_t axis, size_t offset) {
    return (struct tmk_index){tmk_shape_product(shape, axis + 1, shape->rank),
                              (size_t)shape->dim[axis], offset};
}

static void seed_input(const struct following *w, const struct tmk_position_seed *seed,
                       const struct tmk_shape *mask, uint32_t input) {
    const struct tmk_shape *shape = shape_of(w, w->plan->graph->inputs[input]);
    struct tmk_positions *out = &w->values[w->plan->graph->inputs[input]->index];
    const int32_t prompt = seed->prompt, position = seed->position;
    if (!shape || prompt >= shape->rank || position >= shape->rank)
        return;
    if (prompt >= 0 && shape->dim[prompt] == mask->dim[0])
        out->prompt = seeded_index(shape, prompt, 0);
    if (position >= 0 && shape->dim[position] <= mask->dim[1])
        out->position[out->n++] = seeded_index(
            shape, position, seed->first ? 0 : (size_t)(mask->dim[1] - shape->dim[position]));
}

/* Where there is one prompt only, everything is of it. */
static bool is_known(struct tmk_positions *positions, const struct tmk_shape *mask) {
    if (!positions->prompt.size && mask->dim[0] == 1)
        positions->prompt = (struct tmk_index){1, 1, 0};
    return positions->prompt.size && positions->n;
}

static enum tmk_status keep_known(const struct following *w, struct tmk_plan *plan,
                                  const struct tmk_shape *mask, struct tmk_diag *diag) {
    uint32_t n_slots = 0;
    for (const struct tmk_node *node = plan->graph->first; node; node = node->next) {
        const size_t slot = (size_t)tmk_ptrmap_get(&plan->slots, node);
        n_slots = slot > n_slots ? (uint32_t)slot : n_slots;
    }
    plan->positions = calloc(n_slots + 1u, sizeof *plan->positions);
    TMK_TRY_ALLOC(plan->positions, diag);
    plan->n_positions = n_slots;
    for (const struct tmk_node *node = plan->graph->first; node; node = node->next) {
        const size_t slot = (size_t)tmk_ptrmap_get(&plan->slots, node);
        if (slot && is_known(&w->values[node->outputs[0]->index], mask))
            plan->positions[slot - 1] = w->values[node->outputs[0]->index];
    }
    return TMK_OK;
}

void tmk_positions_follow(const struct tmk_plan *plan, struct tmk_positions *values) {
    const struct following w = {plan, values};
    for (const struct tmk_node *node = plan->graph->first; node; node = node->next)
        walk_node(&w, node);
}

enum tmk_status tmk_plan_positions(struct tmk_plan *plan, const struct tmk_position_seeds *seeds,
                                   struct tmk_diag *diag) {
    struct following w = {plan, calloc(plan->n_values + 1u, sizeof *w.values)};
    const struct tmk_shape *shape = shape_of(&w, plan->graph->inputs[seeds->mask]);
    TMK_TRY_ALLOC(w.values, diag);
    enum tmk_status status = TMK_OK;
    if (shape && shape->rank == 2) {
        for (uint32_t i = 0; i < plan->graph->n_inputs; i++)
            seed_input(&w, &seeds->input[i], shape, i);
        tmk_positions_follow(plan, w.values);
        status = keep_known(&w, plan, shape, diag);
    }
    free(w.values);
    return status;
}
