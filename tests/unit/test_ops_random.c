/* SPDX-License-Identifier: Apache-2.0 */
/* Random operators: what they draw is spread as it should be, and drawn again it is the same. */
#include "ops_nn.h"

/* Runs the node and hands out its one tensor. */
static struct tmk_tensor drawn(int version, const char *body) {
    struct tmk_tensor out[OPERANDS];
    struct tmk_diag diag;
    if (run_node(version, body, out, &diag) != TMK_OK)
        fail_msg("%s: %s", body, diag.text);
    return out[0];
}

static void expect_same(const char *a, const char *b, bool same) {
    struct tmk_tensor x = drawn(15, a), y = drawn(15, b);
    assert_int_equal(tmk_tensor_bytes(&x), tmk_tensor_bytes(&y));
    if ((memcmp(x.data, y.data, tmk_tensor_bytes(&x)) == 0) != same)
        fail_msg("%s and %s %s", a, b, same ? "differ" : "are the same");
    tmk_tensor_finish(&x);
    tmk_tensor_finish(&y);
}

TEST(equal_seeds_draw_equal_numbers) {
#define UNIFORM(attrs) "%y = RandomUniform() {shape=[100]" attrs "}"
    expect_same(UNIFORM(", seed=3.0f"), UNIFORM(", seed=3.0f"), true);
    expect_same(UNIFORM(""), UNIFORM(""), true);
    expect_same(UNIFORM(", seed=3.0f"), UNIFORM(", seed=4.0f"), false);
    expect_same(UNIFORM(", seed=0.0f"), UNIFORM(""), false);
    /* of the shape only the number of elements matters, of the data of a Like nothing */
    expect_same("init %x : f32[2,2] = {1, 2, 3, 4}\n%y = RandomNormalLike(%x) {seed=1.0f}",
                "init %x : i64[2,2] = {4, 3, 2, 1}\n%y = RandomNormalLike(%x) {dtype=1, seed=1.0f}",
                true);
}

/* Mean and variance of many numbers, within 5 standard errors for n = 40000. */
static void expect_moments(const char *body, double mean, double variance, double low,
                           double high) {
    struct tmk_tensor y = drawn(15, body);
    size_t n = tmk_tensor_count(&y);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        double v = number_at(&y, i);
        if (!(v >= low && v <= high))
            fail_msg("%s: element %zu is %g", body, i, v);
        sum += v;
        squares += (v - mean) * (v - mean);
    }
    double error = 5 * sqrt(variance / (double)n);
    if (fabs(sum / (double)n - mean) > error)
        fail_msg("%s: the mean is %g", body, sum / (double)n);
    if (fabs(squares / (double)n - variance) > 0.05 * variance)
        fail_msg("%s: the variance is %g", body, squares / (double)n);
    tmk_tensor_finish(&y);
}

TEST(numbers_are_spread_as_asked) {
    expect_moments("%y = RandomUniform() {shape=[200,200]}", 0.5, 1 / 12.0, 0, 1);
    expect_moments("%y = RandomUniform() {shape=[200,200], low=-3.0f, high=1.0f, seed=7.0f}", -1,
                   16 / 12.0, -3, 1);
    expect_moments("%y = RandomNormal() {shape=[40000], mean=2.0f, scale=0.5f}", 2, 0.25, -1, 5);
    expect_moments("%y = RandomNormal() {shape=[40000], seed=-1.5f}", 0, 1, -6, 6);
}

/* Outcomes 0, 1 and 2 have probabilities 1/4, 0 and 3/4. */
TEST(classes_come_as_often_as_their_weights_say) {
    struct tmk_tensor y =
        drawn(15, "init %x : f32[2,3] = {0, -inf, 1.0986123, 100, -inf, 101.0986}\n"
                  "%y = Multinomial(%x) {sample_size=10000}");
    assert_int_equal(y.dtype, TMK_INT32);
    for (size_t row = 0; row < 2; row++) {
        int count[3] = {0};
        for (size_t i = 0; i < 10000; i++)
            count[((const int32_t *)y.data)[row * 10000 + i]]++;
        assert_int_equal(count[1], 0);
        assert_in_range(count[0], 2500 - 220, 2500 + 220);
    }
    tmk_tensor_finish(&y);
    y = drawn(15, "init %x : f32[1,1] = {-5}\n%y = Multinomial(%x) {sample_size=3, dtype=7}");
    assert_int_equal(y.dtype, TMK_INT64);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(((const int64_t *)y.data)[i], 0);
    tmk_tensor_finish(&y);
    refuses(15, "init %x : f32[1,2] = {0, nan}\n%y = Multinomial(%x)", TMK_RANGE, "holds NaN");
    refuses(15, "init %x : f32[2] = {0, 1}\n%y = Multinomial(%x)", TMK_SHAPE, "[batch, classes]");
}

TEST(coins_fall_as_their_probabilities_say) {
    gives_type(15, "init %x : f32[4] = {0, 1, 0, 1}\n%y = Bernoulli(%x) {dtype=9}", TMK_BOOL, "[4]",
               FLOATS(0, 1, 0, 1), 0);
    gives_type(22, "init %x : f32[2] = {1, 0}\n%y = Bernoulli(%x)", TMK_FLOAT32, "[2]",
               FLOATS(1, 0), 0);
    refuses(15, "init %x : f32[2] = {0.5, 1.5}\n%y = Bernoulli(%x)", TMK_RANGE,
            "element 1 of the input is 1.5, not a probability");
}

TEST(what_is_no_number_of_a_float_is_refused) {
    refuses(15, "%y = RandomUniform() {shape=[2], dtype=7}", TMK_TYPE, "of type int64");
    refuses(15, "%y = RandomUniform() {shape=[2,-1]}", TMK_RANGE, "'shape' holds -1");
    refuses(15, "init %x : i64[1] = {1}\n%y = RandomNormalLike(%x)", TMK_TYPE, "of type int64");
}
