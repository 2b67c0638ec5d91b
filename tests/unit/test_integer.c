/* SPDX-License-Identifier: Apache-2.0 */
/* The integer form: against the float operators, each value of which is put on the grid of its
 * encoding as it is made; one code more or less. */
#include "pass_case.h"

#include <float.h>

#include "base/text.h"
#include "calib/grid.h"
#include "export/quantized.h"

#define GRAPH "graph \"g\" opset 17 {\n"
#define IMAGE GRAPH " input %x : f32[2,3,6,6]\n"

struct integer_case {
    struct pass_case c;
    struct pass_values real; /* of the float graph */
    struct tmk_encodings *encodings;
    struct tmk_quantized_graph integer;
    struct tmk_text remarks;
};

static const uint64_t seed = 5;

static void remark(void *context, const char *text) {
    tmk_text_puts(context, text);
    tmk_text_puts(context, "\n");
}

/* ---- encodings of what came out ---- */

static bool is_in(const char *list, const char *name) {
    const size_t n = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

/* Weights: initializers whose names begin with w, int8 along axis 0, or 1 for "w1". */
static void encode(struct integer_case *k, const struct tmk_value *value, enum tmk_dtype dtype,
                   bool pow2, struct tmk_encoding *e) {
    const bool weight = value->kind == TMK_VALUE_INITIALIZER && value->name[0] == 'w';
    const struct tmk_tensor *t = weight ? &value->data : pass_value(&k->real, value);
    const int32_t axis = !weight ? -1 : value->name[1] == '1' ? 1 : 0;
    const struct tmk_grid grid = {weight ? TMK_INT8 : dtype, weight, weight, pow2};
    size_t inner = 1, n = weight ? (size_t)t->shape.dim[axis] : 1;
    for (int32_t i = axis + 1; weight && i < t->shape.rank; i++)
        inner *= (size_t)t->shape.dim[i];
    *e = (struct tmk_encoding){.id = (uint32_t)value->profile_id,
                               .fingerprint = value->fingerprint,
                               .name = value->name,
                               .role = weight ? TMK_ENCODING_WEIGHT : TMK_ENCODING_ACTIVATION,
                               .dtype = grid.dtype,
                               .symmetric = weight,
                               .narrow = weight,
                               .pow2 = pow2,
                               .axis = axis,
                               .n = (uint32_t)n};
    e->scale = tmk_encodings_make(k->encodings, n, sizeof *e->scale);
    e->zero_point = tmk_encodings_make(k->encodings, n, sizeof *e->zero_point);
    for (size_t c = 0; c < n; c++) {
        float low = 0, high = 0;
        for (size_t i = 0; i < tmk_tensor_count(t); i++) {
            const float x = ((const float *)t->data)[i];
            if (weight && i / inner % n != c)
                continue;
            low = fminf(low, x);
            high = fmaxf(high, x);
        }
        must(tmk_grid_fit(&grid, low, high, &e->scale[c], &e->zero_point[c], DIAG));
    }
}

static int by_id(const void *a, const void *b) {
    const uint32_t x = ((const struct tmk_encoding *)a)->id,
                   y = ((const struct tmk_encoding *)b)->id;
    return (x > y) - (x < y);
}

/* All float values but constants that are no weights, and those that `left` names. */
static void encode_all(struct integer_case *k, const char *left, enum tmk_dtype dtype, bool pow2) {
    struct tmk_graph *graph = k->c.before;
    must(tmk_encodings_create(&k->encodings, DIAG));
    k->encodings->items =
        tmk_encodings_make(k->encodings, graph->n_values, sizeof *k->encodings->items);
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const struct tmk_value *value = graph->values[i];
        const struct tmk_tensor *t = pass_value(&k->real, value);
        const bool constant =
            value->kind == TMK_VALUE_INITIALIZER && value->name[0] != 'w' && value->name[0] != 'a';
        if (!constant && !is_in(left, value->name) &&
            (t ? t->dtype : value->data.dtype) == TMK_FLOAT32)
            encode(k, value, dtype, pow2, &k->encodings->items[k->encodings->n_items++]);
    }
    qsort(k->encodings->items, k->encodings->n_items, sizeof *k->encodings->items, by_id);
}

/* ---- running ---- */

static void quantize(struct integer_case *k, enum tmk_rounding rounding, bool pow2) {
    const struct tmk_quantize_options integer = {.integer = true,
                                                 .rounding = rounding,
                                                 .pow2 = pow2,
                                                 .remark = remark,
                                                 .context = &k->remarks};
    must(tmk_quantize_graph(k->c.before, k->encodings, &integer, &k->integer, DIAG));
}

static void begin(struct integer_case *k, const char *text, const char *left, enum tmk_dtype dtype,
                  enum tmk_rounding rounding, bool pow2) {
    *k = (struct integer_case){0};
    pass_begin(&k->c, text);
    pass_evaluate(k->c.before, seed, &k->real);
    encode_all(k, left, dtype, pow2);
    quantize(k, rounding, pow2);
}

static void end(struct integer_case *k) {
    tmk_quantized_finish(&k->integer);
    tmk_encodings_destroy(&k->encodings);
    pass_values_finish(&k->real, k->c.before);
    tmk_text_finish(&k->remarks);
    pass_end(&k->c);
}

/* On the grid, as the encoding of most readers has it. */
static void snap(const struct integer_case *k, const struct tmk_value *value,
                 struct tmk_tensor *tensor) {
    const struct tmk_encoding *e =
        tmk_encodings_find(k->encodings, (uint32_t)value->profile_id, NULL, 0);
    size_t inner = 1;
    int32_t lowest, highest;
    if (!e)
        return;
    for (int32_t i = e->axis + 1; e->axis >= 0 && i < tensor->shape.rank; i++)
        inner *= (size_t)tensor->shape.dim[i];
    tmk_encoding_codes(e, &lowest, &highest);
    for (size_t i = 0; i < tmk_tensor_count(tensor); i++) {
        float *x = &((float *)tensor->data)[i];
        const size_t c = e->axis < 0 ? 0 : i / inner % e->n;
        const int32_t zero = e->zero_point[c];
        *x = e->scale[c] * (float)(tmk_grid_code(*x, e->scale[c], zero, lowest, highest) - zero);
    }
}

/* The float graph, its values snapped as they are made. */
static void evaluate_on_grids(struct integer_case *k, struct pass_values *values) {
    struct tmk_graph *graph = k->c.before;
    *values = (struct pass_values){0};
    for (uint32_t i = 0; i < graph->n_values; i++) {
        const struct tmk_value *value = graph->values[i];
        if (value->kind == TMK_VALUE_RESULT)
            continue;
        const struct tmk_tensor *from = pass_value(&k->real, value);
        struct tmk_tensor *to = pass_keep(values, value);
        must(tmk_tensor_init(to, from->dtype, &from->shape, DIAG));
        memcpy(to->data, from->data, tmk_tensor_bytes(from));
        snap(k, value, to);
    }
    for (const struct tmk_node *node = graph->first; node; node = node->next) {
        const struct tmk_tensor *in[8] = {NULL};
        struct tmk_tensor out[8] = {0};
        assert_true(node->n_inputs <= 8 && node->n_outputs <= 8);
        for (uint32_t i = 0; i < node->n_inputs; i++)
            in[i] = node->inputs[i] ? pass_value(values, node->inputs[i]) : NULL;
        must(tmk_op_run(node, in, out, DIAG));
        for (uint32_t i = 0; i < node->n_outputs; i++) {
            struct tmk_tensor *kept = pass_keep(values, node->outputs[i]);
            *kept = out[i];
            snap(k, node->outputs[i], kept);
        }
    }
}

static const struct tmk_value *original(const struct integer_case *k, uint32_t id) {
    for (uint32_t i = 0; i < k->c.before->n_values; i++)
        if (k->c.before->values[i]->profile_id == id)
            return k->c.before->values[i];
    fail_msg("there is no p%u", id);
    return NULL;
}

/* Every activation that has codes, `codes` apart at most. */
static void compare(struct integer_case *k, double codes) {
    struct pass_values integer = {0}, grids = {0};
    uint32_t compared = 0;
    pass_evaluate(k->integer.graph, seed, &integer);
    evaluate_on_grids(k, &grids);
    for (uint32_t i = 0; i < k->integer.n; i++) {
        const struct tmk_quantized_value *v = &k->integer.values[i];
        const struct tmk_tensor *t = v->codes ? pass_value(&integer, v->codes) : NULL,
                                *want = pass_value(&grids, original(k, v->id));
        if (!t || v->encoding->role != TMK_ENCODING_ACTIVATION)
            continue;
        compared++;
        assert_int_equal(tmk_tensor_count(t), tmk_tensor_count(want));
        for (size_t e = 0; e < tmk_tensor_count(t); e++) {
            const double step = (double)v->encoding->scale[0],
                         x = step * (number_at(t, e) - v->encoding->zero_point[0]),
                         y = (double)((const float *)want->data)[e];
            if (!(fabs(x - y) <= (codes + 0.01) * step))
                fail_msg("p%u element %zu is %.9g, and %.9g on grids; a code is %.9g", v->id, e, x,
                         y, step);
        }
    }
    assert_true(compared > 0);
    pass_values_finish(&integer, k->integer.graph);
    pass_values_finish(&grids, k->c.before);
}

static uint32_t count(const struct integer_case *k, const char *op) {
    uint32_t n = 0;
    for (const struct tmk_node *node = k->integer.graph->first; node; node = node->next)
        n += strcmp(node->op, op) == 0;
    return n;
}

/* The graph becomes one of integers between its quantized inputs and its dequantized output. */
static void becomes_integers(const char *text, const char *left, double codes) {
    struct integer_case k;
    for (int rounding = TMK_ROUNDING_SINGLE_HALF_UP; rounding <= TMK_ROUNDING_FLOAT_RNE;
         rounding++) {
        begin(&k, text, left, TMK_UINT8, (enum tmk_rounding)rounding, false);
        if (k.remarks.len)
            fail_msg("%s", k.remarks.data);
        assert_int_equal(count(&k, "QuantizeLinear"), k.c.before->n_inputs);
        assert_int_equal(count(&k, "DequantizeLinear"), k.c.before->n_outputs);
        compare(&k, codes);
        end(&k);
    }
}

/* ---- cases ---- */

#define WEIGHTS                                                                                    \
    " init %w : f32[4,3,1,1] = {0.5, -0.3, 0.7, 0.01, 0.02, -0.03, 1.5, 0.2, -1.1, 0.4, 0.4, "     \
    "0.4}\n"                                                                                       \
    " init %b : f32[4] = {0.1, -2, 0, 3}\n"

TEST(convolutions_take_bias_addition_and_clip_along) {
    becomes_integers(IMAGE WEIGHTS " %y = Conv(%x, %w, %b) {strides=[2,1]}\n output %y\n}", "", 1);
    becomes_integers(IMAGE WEIGHTS " %c = Conv(%x, %w, %b)\n %y = Relu(%c)\n output %y\n}", "c", 1);
    becomes_integers(IMAGE WEIGHTS " %i = Identity(%b)\n %y = Conv(%x, %w, %i)\n output %y\n}",
                     "b i", 1);
    becomes_integers(IMAGE WEIGHTS " %y = Conv(%x, %w, %b)\n %n = Conv(%x, %w)\n output %y\n}", "",
                     1); /* no node uses n */
    becomes_integers(IMAGE WEIGHTS " init %d : f32[4,1,1] = {1, 0, 0, -1}\n"
                                   " %c = Conv(%x, %w)\n %s = Add(%d, %c)\n init %l : f32[] = "
                                   "{-0.5}\n init %h : f32[] = {1.5}\n %y = Clip(%s, %l, %h)\n"
                                   " output %y\n}",
                     "c s", 1);
    becomes_integers(IMAGE " init %w : f32[3,1,3,3]  = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, "
                           "6, 7, 8, -9, 0, 0, 0, 0, 0, 0, 0, 0, 0}\n"
                           " %y = Conv(%x, %w) {group=3, pads=[1,1,1,1]}\n output %y\n}",
                     "", 1);
}

#define MATRIX GRAPH " input %x : f32[5,4]\n"
#define W1 " init %w1 : f32[4,3] = {1, 0.1, -3, 2, 0.2, 4, -1, 0.3, 2, 0.5, -0.1, 1}\n"

TEST(matrix_products_too) {
    becomes_integers(MATRIX W1 " %y = MatMul(%x, %w1)\n output %y\n}", "", 1);
    becomes_integers(MATRIX W1 " init %b : f32[3] = {3, 0.01, -1}\n %m = MatMul(%x, %w1)\n"
                               " %s = Add(%m, %b)\n %y = Relu(%s)\n output %y\n}",
                     "m s", 1);
    becomes_integers(MATRIX W1 " init %b : f32[3] = {3, 0.01, -1}\n %i = Identity(%b)\n"
                               " %m = MatMul(%x, %w1)\n %y = Add(%i, %m)\n output %y\n}",
                     "m b i", 1);
    becomes_integers(MATRIX " init %w : f32[3,4] = {1, 0.1, -3, 2, 0.2, 4, -1, 0.3, 2, 0.5, -0.1, "
                            "1}\n init %b : f32[1,3] = {3, 0.01, -1}\n"
                            " %y = Gemm(%x, %w, %b) {transB=1, alpha=0.5f, beta=2f}\n"
                            " output %y\n}",
                     "", 1);
    becomes_integers(GRAPH " input %x : f32[2,5,4]\n input %v : f32[2,4,3]\n"
                           " %y = MatMul(%x, %v)\n output %y\n}",
                     "", 1);
}

TEST(sums_products_and_norms_are_of_integers) {
    becomes_integers(IMAGE " input %v : f32[2,3,6,6]\n %y = Add(%x, %v)\n output %y\n}", "", 1);
    becomes_integers(IMAGE " input %v : f32[3,1,1]\n %s = Sub(%x, %v)\n %y = Relu(%s)\n"
                           " output %y\n}",
                     "s", 1);
    becomes_integers(IMAGE " init %a : f32[3,1,1] = {0.5, 20, -3}\n %y = Add(%x, %a)\n"
                           " output %y\n}",
                     "", 1);
    becomes_integers(IMAGE " input %v : f32[2,3,6,6]\n %y = Mul(%x, %v)\n output %y\n}", "", 1);
    becomes_integers(IMAGE " init %s : f32[3] = {0.5, -2, 0}\n init %b : f32[3] = {1, 0.1, 7}\n"
                           " init %m : f32[3] = {0.3, -0.2, 1}\n init %v : f32[3] = {1, 0.25, 4}\n"
                           " %n = BatchNormalization(%x, %s, %b, %m, %v)\n %y = Relu(%n)\n"
                           " output %y\n}",
                     "n", 1);
}

TEST(means_are_sums_that_are_divided) {
    becomes_integers(IMAGE " %y = GlobalAveragePool(%x)\n output %y\n}", "", 1);
    becomes_integers(IMAGE " %y = AveragePool(%x) {kernel_shape=[3,2], strides=[1,2]}\n"
                           " output %y\n}",
                     "", 1);
    becomes_integers(IMAGE " %y = AveragePool(%x) {count_include_pad=1, kernel_shape=[3,3], "
                           "pads=[1,1,1,1]}\n output %y\n}",
                     "", 1);
    becomes_integers(IMAGE " %y = ReduceMean(%x) {axes=[-1,2], keepdims=0}\n output %y\n}", "", 1);
}

TEST(codes_are_moved_as_numbers_are) {
    becomes_integers(IMAGE " %y = MaxPool(%x) {kernel_shape=[2,2], pads=[1,0,0,1]}\n"
                           " output %y\n}",
                     "y", 1);
    becomes_integers(IMAGE " input %v : f32[2,1,6,6]\n %y = Concat(%x, %v) {axis=1}\n"
                           " output %y\n}",
                     "", 1);
    becomes_integers(IMAGE " %y = Dropout(%x)\n %r = Relu(%y)\n output %r\n}", "y r", 1);
    becomes_integers(IMAGE " %t = Transpose(%x) {perm=[0,2,3,1]}\n %f = Flatten(%t)\n"
                           " %i = Identity(%f)\n output %i\n}",
                     "t f i", 0);
    becomes_integers(IMAGE " init %p : i64[8] = {0, 0, 1, 1, 0, 0, 1, 1}\n init %c : f32[] = "
                           "{0.75}\n %y = Pad(%x, %p, %c)\n output %y\n}",
                     "y", 1);
    becomes_integers(IMAGE " %a, %b = Split(%x) {axis=2}\n %y = Relu(%b)\n output %a\n"
                           " output %y\n}",
                     "a b", 1);
}

TEST(layers_follow_each_other_without_a_float) {
    becomes_integers(IMAGE WEIGHTS
                     " %c = Conv(%x, %w, %b)\n %r = Relu(%c)\n %p = MaxPool(%r) "
                     "{kernel_shape=[2,2], strides=[2,2]}\n %f = Flatten(%p)\n"
                     " init %w1 : f32[36,2] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, "
                     "9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, -1, -2, -3, -4, -5, "
                     "-6, -7, -8, -9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, "
                     "3, 4, 5, 6, 7, 8, 9}\n"
                     " %y = MatMul(%f, %w1)\n output %y\n}",
                     "c p f", 2);
}

/* ---- what is not of integers ---- */

static void stays(const char *text, const char *left, enum tmk_dtype dtype, const char *why) {
    struct integer_case k;
    begin(&k, text, left, dtype, TMK_ROUNDING_SINGLE_HALF_UP, false);
    if (!k.remarks.data || !strstr(k.remarks.data, why))
        fail_msg("'%s' is not in '%s'", why, k.remarks.data ? k.remarks.data : "");
    compare(&k, 1);
    end(&k);
}

TEST(what_stays_float_is_told_with_the_reason) {
    stays(IMAGE " %y = Softmax(%x)\n output %y\n}", "", TMK_UINT8,
          "Softmax #0 (makes 'y') stays float: it has no form of integers");
    stays(IMAGE WEIGHTS " %y = Conv(%x, %w, %b)\n output %y\n}", "", TMK_UINT16,
          "its input is uint16");
    stays(IMAGE WEIGHTS " %y = Conv(%x, %w, %b)\n output %y\n}", "w", TMK_UINT8,
          "its weight has no encoding");
    stays(IMAGE " %y = AveragePool(%x) {kernel_shape=[3,3], pads=[1,1,1,1]}\n output %y\n}", "",
          TMK_UINT8, "different counts");
    stays(IMAGE " %y = MaxPool(%x) {kernel_shape=[2,2]}\n output %y\n}", "", TMK_INT16,
          "its input is int16");
}

/* A scale a channel of a result is for float operators: the bias stays with the Add. */
TEST(results_of_many_scales_are_rounded_as_numbers) {
    struct integer_case k = {0};
    struct tmk_encoding *sum = NULL;
    pass_begin(&k.c, MATRIX W1 " init %b : f32[3] = {3, 0.01, -1}\n %m = MatMul(%x, %w1)\n"
                               " %y = Add(%m, %b)\n output %y\n}");
    pass_evaluate(k.c.before, seed, &k.real);
    encode_all(&k, "m", TMK_UINT8, false);
    for (uint32_t i = 0; i < k.encodings->n_items; i++)
        if (strcmp(k.encodings->items[i].name, "y") == 0)
            sum = &k.encodings->items[i];
    assert_non_null(sum);
    const float scale = sum->scale[0];
    const int32_t zero = sum->zero_point[0];
    sum->axis = 1;
    sum->n = 3;
    sum->scale = tmk_encodings_make(k.encodings, 3, sizeof *sum->scale);
    sum->zero_point = tmk_encodings_make(k.encodings, 3, sizeof *sum->zero_point);
    for (int i = 0; i < 3; i++) {
        sum->scale[i] = scale * (float)(i + 1);
        sum->zero_point[i] = zero;
    }
    quantize(&k, TMK_ROUNDING_SINGLE_HALF_UP, false);
    assert_int_equal(count(&k, "MatMulInteger"), 1);
    assert_int_equal(count(&k, "Requantize"), 0);
    assert_int_equal(count(&k, "QuantizeLinear"), 2);
    end(&k);
}

/* The accumulator of a product without an encoding is read as numbers, and Softmax reads those. */
TEST(a_result_without_an_encoding_is_dequantized) {
    struct integer_case k;
    begin(&k, MATRIX W1 " %m = MatMul(%x, %w1)\n %y = Softmax(%m)\n output %y\n}", "m y", TMK_INT8,
          TMK_ROUNDING_FLOAT_RNE, false);
    assert_int_equal(count(&k, "MatMulInteger"), 1);
    assert_int_equal(count(&k, "DequantizeLinear"), 1);
    assert_int_equal(count(&k, "Requantize"), 0);
    assert_string_equal(k.integer.graph->outputs[0]->name, "y");
    compare(&k, 0);
    end(&k);
}

TEST(other_types_of_codes_and_powers_of_two) {
    static const enum tmk_dtype dtypes[] = {TMK_INT8, TMK_INT16, TMK_UINT16, TMK_INT4, TMK_UINT4};
    const char *const text =
        IMAGE " input %v : f32[2,3,6,6]\n %s = Add(%x, %v)\n %y = Relu(%s)\n output %y\n}";
    struct integer_case k;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        for (int pow2 = 0; pow2 < 2; pow2++) {
            begin(&k, text, "s", dtypes[i], TMK_ROUNDING_SINGLE_HALF_UP, pow2);
            assert_int_equal(count(&k, "Requantize"), 3);
            compare(&k, 1);
            end(&k);
        }
    begin(&k, IMAGE WEIGHTS " %c = Conv(%x, %w, %b)\n %y = Relu(%c)\n output %y\n}", "c", TMK_UINT8,
          TMK_ROUNDING_SINGLE_HALF_UP, true);
    compare(&k, 1);
    end(&k);
}

/* ---- models with QuantizeLinear and DequantizeLinear of their own ---- */

#define CODES                                                                                      \
    " init %s : f32[] = {0.03125}\n init %z : u8[] = {120}\n init %t : f32[] = {0.0625}\n"         \
    " %q = QuantizeLinear(%x, %s, %z)\n %d = DequantizeLinear(%q, %s, %z)\n"
#define CODED_WEIGHT                                                                               \
    " init %k : i8[4,3] = {10, 1, -30, 20, 2, 40, -10, 3, 20, 5, -1, 10}\n"                        \
    " init %ks : f32[3] = {0.125, 0.25, 0.0625}\n init %kz : i8[3] = {0, 0, 0}\n"                  \
    " %w1 = DequantizeLinear(%k, %ks, %kz) {axis=1}\n"
#define BACK "QuantizeLinear(%f, %t, %z)\n %y = DequantizeLinear(%r, %t, %z)\n output %y\n}"

/* The outputs are those of the model, whatever encodings are given beside its own. */
static void keeps_outputs(const char *text, const char *left, uint32_t quantizing,
                          uint32_t dequantizing) {
    struct integer_case k;
    struct pass_values integer = {0};
    begin(&k, text, left, TMK_UINT8, TMK_ROUNDING_FLOAT_RNE, false);
    if (count(&k, "QuantizeLinear") != quantizing || count(&k, "DequantizeLinear") != dequantizing)
        fail_msg("%s has %u QuantizeLinear and %u DequantizeLinear; %s", text,
                 count(&k, "QuantizeLinear"), count(&k, "DequantizeLinear"), k.remarks.data);
    pass_evaluate(k.integer.graph, seed, &integer);
    for (uint32_t o = 0; o < k.c.before->n_outputs; o++) {
        const struct tmk_tensor *want = pass_value(&k.real, k.c.before->outputs[o]),
                                *got = pass_value(&integer, k.integer.graph->outputs[o]);
        for (size_t i = 0; i < tmk_tensor_count(want); i++)
            if (!(fabsf(((const float *)got->data)[i] - ((const float *)want->data)[i]) <= 1e-6f))
                fail_msg("%s: element %zu is %.9g, not %.9g", text, i,
                         (double)((const float *)got->data)[i],
                         (double)((const float *)want->data)[i]);
    }
    pass_values_finish(&integer, k.integer.graph);
    end(&k);
}

TEST(codes_of_the_model_are_not_rounded_again) {
    keeps_outputs(MATRIX CODES CODED_WEIGHT " %f = MatMul(%d, %w1)\n %r = " BACK, "", 1, 1);
    keeps_outputs(MATRIX CODES CODED_WEIGHT
                  " %m = MatMul(%d, %w1)\n %n = Relu(%m)\n %f = Flatten(%n)\n %r = " BACK,
                  "", 1, 1);
    keeps_outputs(MATRIX CODES CODED_WEIGHT " init %b : i32[3] = {40, -7, 900}\n"
                                            " init %bs : f32[3] = {0.00390625, 0.0078125, "
                                            "0.001953125}\n %i = DequantizeLinear(%b, %bs) "
                                            "{axis=0}\n %f = Gemm(%d, %w1, %i)\n %r = " BACK,
                  "i", 1, 1);
    keeps_outputs(MATRIX CODES CODED_WEIGHT
                  " init %o : bool[3] = {1, 0, 1}\n %m = MatMul(%d, %w1)\n %n = Gemm(%d, %w1)\n"
                  " %p = Where(%o, %m, %n)\n %f = Flatten(%p)\n %r = " BACK,
                  "", 2, 3);
    /* moved codes are codes, Relu's too */
    keeps_outputs(MATRIX CODES CODED_WEIGHT
                  " %e = Relu(%d)\n %g = Flatten(%e)\n %f = MatMul(%g, %w1)\n %r = " BACK,
                  "", 1, 1);
    keeps_outputs(MATRIX CODES " %e = Relu(%d)\n %y = Transpose(%e)\n output %y\n}", "", 1, 1);
}

TEST(blocks_of_the_model_are_moved) {
    keeps_outputs("graph \"g\" opset 21 {\n input %x : f32[5,4]\n"
                  " init %k : i8[3,4] = {10, 1, -30, 20, 2, 40, -10, 3, 20, 5, -1, 10}\n"
                  " init %ks : f32[3,2] = {0.125, 0.25, 0.0625, 0.5, 1, 2}\n"
                  " %w1 = DequantizeLinear(%k, %ks) {axis=1, block_size=2}\n"
                  " %w2 = Transpose(%w1)\n %y = MatMul(%x, %w2)\n output %y\n}",
                  "x y", 0, 1);
}

TEST(what_is_read_beside_the_model_quantizing_stays_a_number) {
    keeps_outputs(MATRIX CODES CODED_WEIGHT " %f = MatMul(%d, %w1)\n %g = Softmax(%f)\n"
                                            " output %g\n %r = " BACK,
                  "f g", 2, 2);
}

TEST(results_of_float_operators_are_quantized_for_products_alone) {
    keeps_outputs(MATRIX W1 " %m = MatMul(%x, %w1)\n %n = Relu(%m)\n %y = Flatten(%n)\n"
                            " output %y\n}",
                  "x w1 m", 0, 0);
    struct integer_case k;
    begin(&k, MATRIX W1 " %n = Relu(%x)\n %y = MatMul(%n, %w1)\n output %y\n}", "x", TMK_UINT8,
          TMK_ROUNDING_FLOAT_RNE, false);
    assert_int_equal(count(&k, "QuantizeLinear"), 1);
    assert_int_equal(count(&k, "MatMulInteger"), 1);
    end(&k);
}
