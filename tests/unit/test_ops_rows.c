/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels whose rows go through vectors, at lengths around those of a vector, against formulas in
 * double. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "graph_text/read.h"
#include "ops/ops.h"

enum { MOST = 40 * 700 };

static uint64_t random_state = 1;

static double uniform(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(uint32_t)(random_state >> 32) * 0x1p-32;
}

static float in_values[3][MOST];

static void fill(size_t input, size_t n, double from, double to) {
    assert_true(n <= MOST);
    for (size_t i = 0; i < n; i++)
        in_values[input][i] = (float)(from + uniform() * (to - from));
}

/* Runs the only node of the graph on the values above. */
static void run(int opset, const char *body, struct tmk_tensor *out) {
    char text[1024];
    struct tmk_graph *graph = NULL;
    struct tmk_tensor tensors[3];
    const struct tmk_tensor *in[3] = {NULL};
    int n = snprintf(text, sizeof text, "graph \"t\" opset %d {\n%s\noutput %%y\n}\n", opset, body);
    assert_true(n > 0 && (size_t)n < sizeof text);
    must(parse_graph(text, NULL, &graph, DIAG));
    must(tmk_ops_bind(graph, DIAG));
    const struct tmk_node *node = graph->first;
    for (uint32_t i = 0, free = 0; i < node->n_inputs; i++) {
        in[i] = &node->inputs[i]->data;
        if (in[i]->data)
            continue;
        tmk_tensor_borrow(&tensors[i], TMK_FLOAT32, &node->inputs[i]->type.shape,
                          in_values[free++]);
        in[i] = &tensors[i];
    }
    must(tmk_op_run(node, in, out, DIAG));
    tmk_graph_destroy(&graph);
}

static void near(const struct tmk_tensor *y, size_t i, double want, double tolerance) {
    double have = (double)((const float *)y->data)[i];
    if (want != want ? have == have : have != want && !(fabs(have - want) <= tolerance))
        fail_msg("element %zu is %.9g, not %.9g", i, have, want);
}

static const size_t lengths[] = {1, 2, 7, 15, 16, 17, 31, 32, 33, 64, 100, 700};

TEST(softmax_sums_to_one_at_any_length) {
    for (size_t k = 0; k < TMK_COUNT(lengths); k++)
        for (int logarithm = 0; logarithm < 2; logarithm++)
            for (int inner = 1; inner <= 3; inner += 2) {
                enum { ROWS = 5 };
                char body[256];
                size_t n = lengths[k];
                struct tmk_tensor y;
                fill(0, ROWS * n * (size_t)inner, -20, 20);
                if (n > 2)
                    in_values[0][inner] = -INFINITY; /* as a mask has it */
                snprintf(body, sizeof body,
                         "input %%x : f32[%d,%zu,%d]\n%%y = %sSoftmax(%%x) {axis=1}", ROWS, n,
                         inner, logarithm ? "Log" : "");
                run(13, body, &y);
                for (size_t r = 0; r < ROWS; r++)
                    for (size_t j = 0; j < (size_t)inner; j++) {
                        const float *x = in_values[0] + r * n * (size_t)inner + j;
                        double sum = 0;
                        for (size_t i = 0; i < n; i++)
                            sum += exp((double)x[i * (size_t)inner]);
                        for (size_t i = 0; i < n; i++) {
                            double v = (double)x[i * (size_t)inner],
                                   want = logarithm ? v - log(sum) : exp(v) / sum;
                            near(&y, (r * n + i) * (size_t)inner + j, want,
                                 4e-6 * fmax(fabs(want), logarithm));
                        }
                    }
                tmk_tensor_finish(&y);
            }
}

TEST(small_powers_are_powers) {
    static const float exponents[] = {2, 3, 0.5f, -0.5f};
    const float special[] = {0, -0.0f, INFINITY, -INFINITY, NAN, 1, -1, 1e-15f, 1e30f, -2};
    for (size_t e = 0; e < TMK_COUNT(exponents); e++) {
        char body[256];
        struct tmk_tensor y;
        fill(0, 100, 0, 10);
        memcpy(in_values[0], special, sizeof special);
        snprintf(body, sizeof body,
                 "input %%x : f32[100]\ninit %%e : f32[1] = {%g}\n%%y = Pow(%%x, %%e)",
                 (double)exponents[e]);
        run(13, body, &y);
        for (size_t i = 0; i < 100; i++) {
            double want = pow((double)in_values[0][i], (double)exponents[e]);
            near(&y, i, fabs(want) > 3.5e38 ? copysign((double)INFINITY, want) : want,
                 2e-7 * fabs(want) + 0x1p-149);
            if (want == 0)
                assert_true(!signbit(((const float *)y.data)[i]) == !signbit(want));
        }
        tmk_tensor_finish(&y);
    }
}

TEST(responses_are_normalised_with_any_power) {
    enum { CHANNELS = 7, AREA = 37, SIZE = 5 };
    for (int usual = 0; usual < 2; usual++) {
        double beta = usual ? 0.75 : 0.7;
        char body[256];
        struct tmk_tensor y;
        fill(0, CHANNELS * AREA, -3, 3);
        snprintf(body, sizeof body,
                 "input %%x : f32[1,%d,%d,1]\n"
                 "%%y = LRN(%%x) {alpha=0.5f, beta=%gf, bias=2f, size=%d}",
                 CHANNELS, AREA, beta, SIZE);
        run(13, body, &y);
        for (int c = 0; c < CHANNELS; c++)
            for (int j = 0; j < AREA; j++) {
                double sum = 0;
                for (int k = c - SIZE / 2; k <= c + SIZE / 2; k++)
                    if (k >= 0 && k < CHANNELS)
                        sum += pow((double)in_values[0][k * AREA + j], 2);
                double want = (double)in_values[0][c * AREA + j] / pow(2 + 0.5 / SIZE * sum, beta);
                near(&y, (size_t)c * AREA + (size_t)j, want, 5e-7 * fabs(want));
            }
        tmk_tensor_finish(&y);
    }
}

TEST(slopes_apply_below_zero_only) {
    struct tmk_tensor y;
    fill(0, 3 * 50, -1, 1);
    fill(1, 3, -2, 2);
    in_values[0][0] = NAN;
    in_values[0][1] = -INFINITY;
    in_values[0][2] = INFINITY;
    run(16, "input %x : f32[3,50]\ninput %s : f32[3,1]\n%y = PRelu(%x, %s)", &y);
    for (size_t i = 0; i < 3 * 50; i++) {
        double x = (double)in_values[0][i];
        near(&y, i, x < 0 ? x * (double)in_values[1][i / 50] : x, 1e-7);
    }
    tmk_tensor_finish(&y);
}

TEST(long_rows_are_reduced) {
    for (size_t k = 0; k < TMK_COUNT(lengths); k++)
        for (int largest = 0; largest < 2; largest++) {
            char body[256];
            struct tmk_tensor y;
            size_t n = lengths[k];
            fill(0, 3 * n, -5, 5);
            in_values[0][n] = NAN;
            snprintf(body, sizeof body, "input %%x : f32[3,%zu]\n%%y = Reduce%s(%%x) {axes=[1]}", n,
                     largest ? "Max" : "Mean");
            run(13, body, &y);
            for (size_t r = 0; r < 3; r++) {
                double sum = 0, max = -(double)INFINITY;
                for (size_t i = 0; i < n; i++) {
                    sum += (double)in_values[0][r * n + i];
                    max = fmax(max, (double)in_values[0][r * n + i]);
                }
                near(&y, r, r == 1 ? (double)NAN : largest ? max : sum / (double)n, 1e-6);
            }
            tmk_tensor_finish(&y);
        }
}

TEST(mish_and_softplus_keep_their_tails) {
    struct tmk_tensor y;
    for (int mish = 0; mish < 2; mish++) {
        fill(0, 600, -100, 100);
        run(18,
            mish ? "input %x : f32[600]\n%y = Mish(%x)" : "input %x : f32[600]\n%y = Softplus(%x)",
            &y);
        for (size_t i = 0; i < 600; i++) {
            double x = (double)in_values[0][i], plus = fmax(x, 0) + log1p(exp(-fabs(x))),
                   want = mish ? x * tanh(plus) : plus;
            near(&y, i, want, 1e-6 * fabs(want) + 1e-42);
        }
        tmk_tensor_finish(&y);
    }
}
