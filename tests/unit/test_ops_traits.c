/* SPDX-License-Identifier: Apache-2.0 */
/* What lib/traits/traits.c states of operators, held against their kernels: each row's sample runs
 * twice, with operands for which the trait states how the results differ. (Batch rules are tested
 * in test_batch.c, shape-only operators in test_ops_table.c.) */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "graph_text/read.h"
#include "tensor/list.h"
#include "tools/op_rows.h"

enum { MAX_VALUES = 256, MOST_INPUTS = 18 };

/* ---- samples ---- */

struct sample {
    const struct tmk_op *row;
    struct tmk_graph *graph;
    struct tmk_node *node;
    struct tmk_tensor values[MAX_VALUES];
    const struct tmk_tensor *in[MOST_INPUTS];
    char label[128];
};

static uint64_t random_state = 1;

static float uniform(float from, float to) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return from + (to - from) * (float)(uint32_t)(random_state >> 32) * 0x1p-32f;
}

static void fill(struct tmk_tensor *tensor) {
    const size_t n = tmk_tensor_count(tensor), size = tmk_dtype_size(tensor->dtype);
    for (size_t i = 0; i < n; i++) {
        const int64_t whole = tensor->dtype == TMK_BOOL ? uniform(0, 2) >= 1 : 1;
        const float real = uniform(-2, 2);
        memcpy((char *)tensor->data + i * size,
               tensor->dtype == TMK_FLOAT32 ? (const void *)&real : (const void *)&whole, size);
    }
}

/* Runs a node of the sample; false: the kernel refuses the operands. */
static bool run(const struct tmk_node *node, const struct tmk_tensor *const *in,
                struct tmk_tensor *out, struct tmk_diag *diag) {
    return tmk_op_run(node, in, out, diag) == TMK_OK;
}

static void open_sample(struct sample *s, const struct tmk_op *row) {
    *s = (struct sample){.row = row};
    snprintf(s->label, sizeof s->label, "%s.%d", row->name, (int)row->since);
    must(parse_graph(op_sample(row), NULL, &s->graph, DIAG));
    must(tmk_ops_bind(s->graph, DIAG));
    assert_true(tmk_graph_number(s->graph) <= MAX_VALUES);
    for (uint32_t i = 0; i < s->graph->n_values; i++) {
        const struct tmk_value *value = s->graph->values[i];
        struct tmk_tensor *tensor = &s->values[value->index];
        if (value->kind == TMK_VALUE_INITIALIZER)
            tmk_tensor_share(tensor, &value->data);
        if (value->kind != TMK_VALUE_INPUT)
            continue;
        must(tmk_tensor_init(tensor, value->type.dtype, &value->type.shape, DIAG));
        fill(tensor);
    }
    for (struct tmk_node *node = s->graph->first; node; node = node->next) {
        struct tmk_tensor out[8] = {{0}};
        assert_true(node->n_inputs <= MOST_INPUTS && node->n_outputs <= TMK_COUNT(out));
        for (uint32_t i = 0; i < node->n_inputs; i++)
            s->in[i] = node->inputs[i] ? &s->values[node->inputs[i]->index] : NULL;
        s->node = node;
        if (node->row == row)
            return;
        assert_true(run(node, s->in, out, DIAG));
        for (uint32_t i = 0; i < node->n_outputs; i++)
            s->values[node->outputs[i]->index] = out[i];
    }
    fail_msg("%s: the sample has no such node", s->label);
}

static void close_sample(struct sample *s) {
    for (size_t i = 0; i < MAX_VALUES; i++)
        tmk_tensor_finish(&s->values[i]);
    tmk_graph_destroy(&s->graph);
}

/* Result 0 with operand `input` in place of the sample's own. */
static struct tmk_tensor run_with(const struct sample *s, uint32_t input,
                                  const struct tmk_tensor *operand) {
    const struct tmk_tensor *in[MOST_INPUTS];
    struct tmk_tensor out[8] = {{0}};
    memcpy(in, s->in, sizeof in);
    in[input] = operand;
    if (!run(s->node, in, out, DIAG))
        fail_msg("%s: %s", s->label, test_diag.text);
    for (uint32_t i = 1; i < s->node->n_outputs; i++)
        tmk_tensor_finish(&out[i]);
    return out[0];
}

static const float *floats(const struct tmk_tensor *tensor) {
    return tensor->data;
}

/* ---- one operand, changed ---- */

/* What becomes of element i of the operand. */
typedef float change_fn(float x, size_t i, float by);

static float scale_by(float x, size_t i, float by) {
    (void)i;
    return x * by;
}

static float shift_by(float x, size_t i, float by) {
    (void)i;
    return x + by;
}

static float raise_by(float x, size_t i, float by) {
    return i % 3 ? x + by : x;
}

static struct tmk_tensor changed(const struct tmk_tensor *operand, change_fn *change, float by) {
    struct tmk_tensor out;
    must(tmk_tensor_init(&out, TMK_FLOAT32, &operand->shape, DIAG));
    for (size_t i = 0; i < tmk_tensor_count(&out); i++)
        ((float *)out.data)[i] = change(floats(operand)[i], i, by);
    return out;
}

struct pair {
    struct tmk_tensor before, after; /* result 0 */
    size_t n;
};

static struct pair run_pair(const struct sample *s, uint32_t input, change_fn *change, float by) {
    struct tmk_tensor operand = changed(s->in[input], change, by);
    struct pair pair = {run_with(s, input, s->in[input]), run_with(s, input, &operand), 0};
    pair.n = tmk_tensor_count(&pair.before);
    assert_int_equal(tmk_tensor_count(&pair.after), pair.n);
    tmk_tensor_finish(&operand);
    return pair;
}

static void drop_pair(struct pair *pair) {
    tmk_tensor_finish(&pair->before);
    tmk_tensor_finish(&pair->after);
}

static bool is_float(const struct tmk_tensor *tensor) {
    return tensor && tensor->kind == TMK_TYPE_TENSOR && tensor->dtype == TMK_FLOAT32;
}

/* Runs `check` on the sample of each row of an operator with the trait (0: of all operators) whose
 * operand 0 holds floats. Returns how many there were. */
static uint32_t each(unsigned trait, void (*check)(const struct sample *s)) {
    uint32_t n = 0;
    for (const struct tmk_op *const *row = op_rows(); *row; row++) {
        struct sample s;
        if (trait && !tmk_traits_are(tmk_traits_of((*row)->domain, (*row)->name), trait))
            continue;
        open_sample(&s, *row);
        if (s.node->n_inputs && is_float(s.in[0])) {
            check(&s);
            n++;
        }
        close_sample(&s);
    }
    return n;
}

/* ---- the table ---- */

TEST(every_operator_has_traits) {
    for (const struct tmk_op *const *row = op_rows(); *row; row++) {
        const struct tmk_traits *traits = tmk_traits_of((*row)->domain, (*row)->name);
        if (strcmp(traits->op, (*row)->name) != 0 || strcmp(traits->domain, (*row)->domain) != 0)
            fail_msg("%s %s has no row in lib/traits/traits.c", (*row)->domain, (*row)->name);
    }
    assert_string_equal(tmk_traits_of("", "Nothing")->op, "");
    assert_string_equal(tmk_traits_of("elsewhere", "Conv")->op, "");
    assert_ptr_equal(tmk_traits_of("ai.onnx", "Conv"), tmk_traits_of("", "Conv"));
}

TEST(every_row_is_of_an_operator_and_in_order) {
    uint32_t n;
    const struct tmk_traits *rows = tmk_traits_list(&n);
    for (uint32_t i = 0; i < n; i++) {
        bool found = false;
        for (const struct tmk_op *const *row = op_rows(); *row; row++)
            found |= strcmp((*row)->name, rows[i].op) == 0 &&
                     strcmp((*row)->domain, rows[i].domain) == 0;
        if (!found)
            fail_msg("%s %s is no operator", rows[i].domain, rows[i].op);
        const int order = i ? strcmp(rows[i - 1].op, rows[i].op) : -1;
        if (order > 0 || (order == 0 && strcmp(rows[i - 1].domain, rows[i].domain) >= 0))
            fail_msg("%s stands before %s", rows[i - 1].op, rows[i].op);
        assert_true(rows[i].product == TMK_PRODUCT_NONE || tmk_weight_input(&rows[i]) > 0);
    }
}

TEST(traits_agree_with_what_rows_state) {
    for (const struct tmk_op *const *row = op_rows(); *row; row++) {
        const struct tmk_traits *traits = tmk_traits_of((*row)->domain, (*row)->name);
        const bool view = (*row)->flags & TMK_OP_VIEW, pure = !((*row)->flags & TMK_OP_IMPURE);
        if (view && !tmk_traits_are(traits, TMK_TRAIT_MOVES))
            fail_msg("%s is a view, and does not move", (*row)->name);
        if (pure && tmk_traits_are(traits, TMK_TRAIT_RANDOM))
            fail_msg("%s is random, and pure", (*row)->name);
    }
}

/* ---- experiments ---- */

static bool is_from(const struct tmk_tensor *operand, float x) {
    for (size_t i = 0; i < tmk_tensor_count(operand); i++)
        if (floats(operand)[i] == x)
            return true;
    return false;
}

/* Numbers beyond those of any sample, in the same places: what moves takes them along. */
static void check_moves(const struct sample *s) {
    struct pair pair = run_pair(s, 0, shift_by, 64);
    bool any = false;
    for (size_t i = 0; is_float(&pair.before) && i < pair.n; i++) {
        const float before = floats(&pair.before)[i], after = floats(&pair.after)[i];
        const bool other = before == after; /* another operand's, or what pads */
        any |= !other;
        if (!(other || (after == before + 64 && is_from(s->in[0], before))))
            fail_msg("%s: element %zu is %g, then %g", s->label, i, (double)before, (double)after);
    }
    if (!any && tmk_tensor_count(s->in[0]))
        fail_msg("%s: operand 0 is nowhere in the result", s->label);
    drop_pair(&pair);
}

TEST(what_moves_gives_its_operands_elements) {
    assert_true(each(TMK_TRAIT_MOVES, check_moves) > 30);
}

static void check_monotone(const struct sample *s) {
    for (int k = 0; k < 20; k++) {
        struct pair pair = run_pair(s, 0, raise_by, uniform(0, 1));
        for (size_t i = 0; i < pair.n; i++)
            if (floats(&pair.before)[i] > floats(&pair.after)[i])
                fail_msg("%s: element %zu falls from %g to %g", s->label, i,
                         (double)floats(&pair.before)[i], (double)floats(&pair.after)[i]);
        drop_pair(&pair);
    }
    assert_int_equal(tmk_node_traits(s->node)->batch, TMK_BATCH_POINTWISE);
}

TEST(monotone_operators_never_fall) {
    assert_true(each(TMK_TRAIT_MONOTONE, check_monotone) > 25);
}

static void check_scaled(const struct sample *s, float by) {
    struct pair pair = run_pair(s, 0, scale_by, by);
    for (size_t i = 0; i < pair.n; i++)
        if (!(fabsf(floats(&pair.before)[i] * by - floats(&pair.after)[i]) <= 1e-5f))
            fail_msg("%s: element %zu of %g times the operand", s->label, i, (double)by);
    drop_pair(&pair);
}

static void check_homogeneous(const struct sample *s) {
    check_scaled(s, 2);
    check_scaled(s, 0.3f);
}

static void check_linear(const struct sample *s) {
    check_homogeneous(s);
    check_scaled(s, -1.5f);
}

TEST(scales_pass_through_homogeneous_operators) {
    assert_true(each(TMK_TRAIT_HOMOGENEOUS, check_homogeneous) >= 4);
    assert_true(each(TMK_TRAIT_LINEAR, check_linear) >= 3);
}

static void check_affine(const struct sample *s) {
    struct pair one = run_pair(s, 0, shift_by, 1), two = run_pair(s, 0, shift_by, 2);
    for (size_t i = 0; i < one.n; i++) {
        const float first = floats(&one.after)[i] - floats(&one.before)[i],
                    second = floats(&two.after)[i] - floats(&one.after)[i];
        if (!(fabsf(first - second) <= 1e-4f * (1 + fabsf(first))))
            fail_msg("%s: element %zu grows by %g, then by %g", s->label, i, (double)first,
                     (double)second);
    }
    drop_pair(&one);
    drop_pair(&two);
}

TEST(affine_operators_grow_evenly) {
    assert_true(each(TMK_TRAIT_AFFINE, check_affine) >= 6);
}

/* Another element k of an operand of the result's shape changes element k alone. */
static void check_pointwise(const struct sample *s, uint32_t input) {
    struct tmk_tensor other, before = run_with(s, input, s->in[input]);
    const size_t size = tmk_dtype_size(s->in[input]->dtype), n = tmk_tensor_count(&before),
                 result_size = tmk_dtype_size(before.dtype);
    must(tmk_tensor_init(&other, s->in[input]->dtype, &s->in[input]->shape, DIAG));
    for (size_t k = 0; tmk_shape_equal(&other.shape, &before.shape) && k < n; k++) {
        memcpy(other.data, s->in[input]->data, n * size);
        ((char *)other.data)[k * size] ^= 1;
        struct tmk_tensor after = run_with(s, input, &other);
        for (size_t i = 0; i < n; i++)
            if (i != k && memcmp((char *)before.data + i * result_size,
                                 (char *)after.data + i * result_size, result_size) != 0)
                fail_msg("%s: element %zu of operand %u changes %zu", s->label, k, input, i);
        tmk_tensor_finish(&after);
    }
    tmk_tensor_finish(&other);
    tmk_tensor_finish(&before);
}

TEST(pointwise_operators_look_at_one_element) {
    for (const struct tmk_op *const *row = op_rows(); *row; row++) {
        struct sample s;
        if (tmk_traits_of((*row)->domain, (*row)->name)->batch != TMK_BATCH_POINTWISE)
            continue;
        open_sample(&s, *row);
        for (uint32_t i = 0; i < s.node->n_inputs; i++)
            if (s.in[i])
                check_pointwise(&s, i);
        close_sample(&s);
    }
}

/* ---- quantization ---- */

static uint32_t n_of_codes;

/* Numbers of 0.25 * (code + 3), and the codes themselves. */
static void check_codes(const struct sample *s) {
    struct tmk_tensor codes, numbers = changed(s->in[0], shift_by, 0);
    const struct tmk_tensor *in[MOST_INPUTS];
    struct tmk_tensor out[8] = {{0}};
    must(tmk_tensor_init(&codes, TMK_INT8, &numbers.shape, DIAG));
    for (size_t i = 0; i < tmk_tensor_count(&codes); i++) {
        ((int8_t *)codes.data)[i] = (int8_t)uniform(-120, 120);
        ((float *)numbers.data)[i] = 0.25f * (float)(((int8_t *)codes.data)[i] + 3);
    }
    memcpy(in, s->in, sizeof in);
    in[0] = &codes;
    struct tmk_tensor result = run_with(s, 0, &numbers);
    if (run(s->node, in, out, DIAG)) {
        n_of_codes++;
        assert_int_equal(out[0].dtype, TMK_INT8);
        for (size_t i = 0; i < tmk_tensor_count(&result); i++)
            assert_true(floats(&result)[i] == 0.25f * (float)(((int8_t *)out[0].data)[i] + 3));
    } else if (s->row->until == INT32_MAX) {
        fail_msg("%s: %s", s->label, test_diag.text);
    }
    for (uint32_t i = 0; i < s->node->n_outputs; i++)
        tmk_tensor_finish(&out[i]);
    tmk_tensor_finish(&result);
    tmk_tensor_finish(&codes);
    tmk_tensor_finish(&numbers);
}

TEST(codes_are_treated_as_numbers) {
    n_of_codes = 0;
    each(TMK_TRAIT_CODES, check_codes);
    assert_true(n_of_codes > 20);
}

static void check_range(const struct sample *s) {
    const enum tmk_op_class class = tmk_node_traits(s->node)->class;
    const bool unit = class == TMK_OP_UNIT_RANGE || class == TMK_OP_SOFTMAX;
    if (!unit && class != TMK_OP_CLAMP)
        return;
    struct tmk_tensor once = run_with(s, 0, s->in[0]), twice = run_with(s, 0, &once);
    for (size_t i = 0; i < tmk_tensor_count(&once); i++) {
        const float x = floats(&once)[i];
        if (unit ? !(x >= 0 && x <= 1) : x != floats(&twice)[i])
            fail_msg("%s: element %zu is %g", s->label, i, (double)x);
    }
    tmk_tensor_finish(&once);
    tmk_tensor_finish(&twice);
}

TEST(classes_bound_their_results) {
    each(0, check_range);
}

/* Channel k of the weights makes channel k of the result. */
static void check_product(const struct sample *s) {
    const struct tmk_traits *traits = tmk_node_traits(s->node);
    const uint32_t at = tmk_weight_input(traits);
    if (traits->product == TMK_PRODUCT_NONE || !is_float(s->in[at]))
        return;
    struct tmk_tensor none = run_with(s, at, s->in[at]), weights = changed(s->in[at], shift_by, 0);
    const struct tmk_shape *w = &weights.shape, *y = &none.shape;
    const bool matrix = traits->product == TMK_PRODUCT_MATRIX;
    const int32_t axis = tmk_op_weight_axis(s->node) + (matrix ? w->rank - 2 : 0),
                  to = matrix ? y->rank - 1 : 1;
    assert_true(matrix || w->rank == y->rank);
    assert_int_equal(y->dim[to] % w->dim[axis], 0); /* ConvTranspose: channels of a group */
    size_t inner = 1, result_inner = 1;
    for (int32_t i = axis + 1; i < w->rank; i++)
        inner *= (size_t)w->dim[i];
    for (int32_t i = to + 1; i < y->rank; i++)
        result_inner *= (size_t)y->dim[i];
    const size_t channels = (size_t)w->dim[axis];
    for (size_t i = 0; i < tmk_tensor_count(&weights); i++) /* of the last channel */
        if (i / inner % channels == channels - 1)
            ((float *)weights.data)[i] += 1000;
    struct tmk_tensor after = run_with(s, at, &weights);
    for (size_t i = 0; i < tmk_tensor_count(&none); i++)
        if (floats(&none)[i] != floats(&after)[i] && i / result_inner % channels != channels - 1)
            fail_msg("%s: element %zu is of another channel", s->label, i);
    assert_memory_not_equal(none.data, after.data, tmk_tensor_bytes(&none));
    tmk_tensor_finish(&after);
    tmk_tensor_finish(&none);
    tmk_tensor_finish(&weights);
}

TEST(weights_have_their_channels_where_traits_say) {
    each(0, check_product);
}
