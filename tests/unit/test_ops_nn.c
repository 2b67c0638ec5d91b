/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions, pools and matrix products: cases worked out by hand, and what must be refused. */
#include "graph_text/read.h"
#include "ops_nn.h"

#include <float.h>
#include <stdlib.h>

#include "ops/matmul.h"
#include "ops/window.h"

/* ---- Conv ---- */

#define X4 "init %x : f32[1,1,4] = {1, 2, 3, 4}\ninit %w : f32[1,1,2] = {1, 10}\n"

TEST(same_padding_puts_the_odd_element_where_its_name_says) {
    gives(11, X4 "%y = Conv(%x, %w) {auto_pad=\"SAME_UPPER\"}", "[1,1,4]", FLOATS(21, 32, 43, 4));
    gives(11, X4 "%y = Conv(%x, %w) {auto_pad=\"SAME_LOWER\"}", "[1,1,4]", FLOATS(10, 21, 32, 43));
    gives(11, X4 "%y = Conv(%x, %w) {auto_pad=\"VALID\"}", "[1,1,3]", FLOATS(21, 32, 43));
    gives(11, X4 "%y = Conv(%x, %w) {pads=[1,1]}", "[1,1,5]", FLOATS(10, 21, 32, 43, 4));
}

TEST(same_padding_is_never_negative) {
    gives(11,
          "init %x : f32[1,1,5] = {1, 2, 3, 4, 5}\ninit %w : f32[1,1,1] = {10}\n"
          "%y = Conv(%x, %w) {auto_pad=\"SAME_UPPER\", strides=[3]}",
          "[1,1,2]", FLOATS(10, 40));
}

TEST(dilation_spreads_the_taps) {
    gives(11,
          "init %x : f32[1,1,6] = {1, 2, 3, 4, 5, 6}\ninit %w : f32[1,1,3] = {1, 10, 100}\n"
          "%y = Conv(%x, %w) {dilations=[2], pads=[1,0]}",
          "[1,1,3]", FLOATS(420, 531, 642));
}

TEST(groups_see_their_own_channels_only) {
    gives(11,
          "init %x : f32[1,2,2] = {1, 2, 3, 4}\ninit %w : f32[4,1,1] = {1, 2, 3, 4}\n"
          "init %b : f32[4] = {0, 100, 200, 300}\n%y = Conv(%x, %w, %b) {group=2}",
          "[1,4,2]", FLOATS(1, 2, 102, 104, 209, 212, 312, 316));
}

TEST(a_convolution_of_no_channels_is_its_bias) {
    gives(11,
          "init %x : f32[1,0,2] = {}\ninit %w : f32[2,0,1] = {}\ninit %b : f32[2] = {7, 8}\n"
          "%y = Conv(%x, %w, %b)",
          "[1,2,2]", FLOATS(7, 7, 8, 8));
    gives(11, "init %x : f32[0,1,2] = {}\ninit %w : f32[2,1,1] = {1, 2}\n%y = Conv(%x, %w)",
          "[0,2,2]", NULL);
}

/* More outputs than a block, more products than a panel: against a plain triple loop in double. */
TEST(blocks_of_a_convolution_do_not_show) {
    enum { C = 40, M = 7, H = 11, W = 13, K = 3 };
    struct tmk_graph *graph = NULL;
    must(parse_graph("graph \"t\" opset 11 {\ninput %x : f32[1,40,11,13]\n"
                     "input %w : f32[7,40,3,3]\n"
                     "%y = Conv(%x, %w) {dilations=[1,2], pads=[1,2,1,2]}\noutput %y\n}\n",
                     NULL, &graph, DIAG));
    must(tmk_ops_bind(graph, DIAG));
    struct tmk_tensor x, w, y;
    struct tmk_shape xs = {4, {1, C, H, W}}, ws = {4, {M, C, K, K}};
    must(tmk_tensor_init(&x, TMK_FLOAT32, &xs, DIAG));
    must(tmk_tensor_init(&w, TMK_FLOAT32, &ws, DIAG));
    float *px = x.data, *pw = w.data;
    for (size_t i = 0; i < tmk_tensor_count(&x); i++)
        px[i] = (float)(i * 37 % 101) / 50 - 1;
    for (size_t i = 0; i < tmk_tensor_count(&w); i++)
        pw[i] = (float)(i * 53 % 97) / 48 - 1;
    must(tmk_op_run(graph->first, (const struct tmk_tensor *[]){&x, &w}, &y, DIAG));
    assert_int_equal(tmk_tensor_count(&y), M * H * W);
    for (int m = 0; m < M; m++)
        for (int i = 0; i < H; i++)
            for (int j = 0; j < W; j++) {
                double sum = 0;
                for (int c = 0; c < C; c++)
                    for (int k = 0; k < K; k++)
                        for (int l = 0; l < K; l++) {
                            int a = i + k - 1, b = j + 2 * l - 2;
                            if (a >= 0 && a < H && b >= 0 && b < W)
                                sum += (double)px[(c * H + a) * W + b] *
                                       (double)pw[((m * C + c) * K + k) * K + l];
                        }
                double got = (double)((float *)y.data)[(m * H + i) * W + j];
                if (fabs(got - sum) > 1e-4)
                    fail_msg("element %d,%d,%d is %g instead of %g", m, i, j, got, sum);
            }
    tmk_tensor_finish(&x);
    tmk_tensor_finish(&w);
    tmk_tensor_finish(&y);
    tmk_graph_destroy(&graph);
}

TEST(convolutions_refuse_what_has_no_meaning) {
    const struct {
        const char *attributes, *why;
        enum tmk_status status;
    } cases[] = {
        {"strides=[0]", "'strides' holds 0", TMK_RANGE},
        {"strides=[1,1]", "'strides' has 2 entries", TMK_SHAPE},
        {"pads=[-1,0]", "'pads' holds -1", TMK_RANGE},
        {"pads=[1]", "'pads' has 1 entries", TMK_SHAPE},
        {"dilations=[9223372036854775807]", "'dilations'", TMK_RANGE},
        {"dilations=[2147483647]", "does not fit", TMK_SHAPE},
        {"kernel_shape=[3]", "'kernel_shape' says 3", TMK_SHAPE},
        {"group=0", "'group' is 0", TMK_RANGE},
        {"group=2", "do not fit", TMK_SHAPE},
        {"auto_pad=\"SAME\"", "'auto_pad' is 'SAME'", TMK_RANGE},
    };
    char body[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(body, sizeof body, "%s%%y = Conv(%%x, %%w) {%s}", X4, cases[i].attributes);
        refuses(11, body, cases[i].status, cases[i].why);
    }
    refuses(11, "init %x : f32[2,2] = {1, 2, 3, 4}\ninit %w : f32[1,2] = {1, 2}\n%y = Conv(%x, %w)",
            TMK_SHAPE, "rank 2");
    refuses(11, X4 "init %b : f32[2] = {1, 2}\n%y = Conv(%x, %w, %b)", TMK_SHAPE,
            "'B' is [2], not [");
}

/* ---- ConvTranspose ---- */

#define X3 "init %x : f32[1,1,3] = {1, 2, 3}\ninit %w : f32[1,1,3] = {1, 10, 100}\n"

TEST(transposed_convolutions_overlap_their_kernels) {
    gives(11, X3 "%y = ConvTranspose(%x, %w) {strides=[2]}", "[1,1,7]",
          FLOATS(1, 10, 102, 20, 203, 30, 300));
    gives(11, X3 "%y = ConvTranspose(%x, %w) {output_padding=[1], pads=[1,2], strides=[2]}",
          "[1,1,5]", FLOATS(10, 102, 20, 203, 30));
    gives(11, X3 "%y = ConvTranspose(%x, %w) {output_padding=[1], strides=[2]}", "[1,1,8]",
          FLOATS(1, 10, 102, 20, 203, 30, 300, 0));
    gives(11, X3 "%y = ConvTranspose(%x, %w) {dilations=[2]}", "[1,1,7]",
          FLOATS(1, 2, 13, 20, 130, 200, 300));
}

/* Elements that a weight does not reach are not made NaN by it. */
TEST(transposed_convolutions_multiply_nothing_with_infinity) {
    gives(11,
          "init %x : f32[1,1,3] = {1, -2, 3}\ninit %w : f32[1,1,2] = {inf, 10}\n"
          "%y = ConvTranspose(%x, %w) {output_padding=[1], strides=[2]}",
          "[1,1,7]", FLOATS(INFINITY, 10, -INFINITY, -20, INFINITY, 30, 0));
}

TEST(transposed_padding_follows_the_wanted_shape) {
    gives(11, X3 "%y = ConvTranspose(%x, %w) {auto_pad=\"SAME_UPPER\", strides=[2]}", "[1,1,6]",
          FLOATS(1, 10, 102, 20, 203, 30));
    gives(11, X3 "%y = ConvTranspose(%x, %w) {auto_pad=\"SAME_LOWER\", strides=[2]}", "[1,1,6]",
          FLOATS(10, 102, 20, 203, 30, 300));
    gives(11, X3 "%y = ConvTranspose(%x, %w) {output_shape=[4], strides=[2]}", "[1,1,4]",
          FLOATS(102, 20, 203, 30));
    gives(11, X3 "%y = ConvTranspose(%x, %w) {output_shape=[9], strides=[2]}", "[1,1,9]",
          FLOATS(1, 10, 102, 20, 203, 30, 300, 0, 0));
}

TEST(transposed_groups_see_their_own_channels_only) {
    gives(11,
          "init %x : f32[1,4,1] = {1, 2, 3, 4}\n"
          "init %w : f32[4,2,1] = {1, 10, 100, 1000, 1, 10, 100, 1000}\n"
          "%y = ConvTranspose(%x, %w) {group=2}",
          "[1,4,1]", FLOATS(201, 2010, 403, 4030));
}

TEST(transposed_convolutions_refuse_what_has_no_meaning) {
    refuses(11, X3 "%y = ConvTranspose(%x, %w) {output_padding=[2], strides=[2]}", TMK_RANGE,
            "'output_padding' holds 2");
    refuses(11, X3 "%y = ConvTranspose(%x, %w) {pads=[5,5]}", TMK_SHAPE, "leaves nothing");
    refuses(11, X3 "%y = ConvTranspose(%x, %w) {output_shape=[-1]}", TMK_RANGE, "'output_shape'");
}

/* ---- pools ---- */

TEST(the_last_window_starts_inside_the_input) {
    gives(12,
          "init %x : f32[1,1,2] = {5, 7}\n"
          "%y = MaxPool(%x) {ceil_mode=1, kernel_shape=[2], pads=[1,1], strides=[3]}",
          "[1,1,1]", FLOATS(5));
    gives(12,
          "init %x : f32[1,1,4] = {1, 2, 3, 4}\n"
          "%y = MaxPool(%x) {ceil_mode=1, kernel_shape=[3], strides=[2]}",
          "[1,1,2]", FLOATS(3, 4));
    gives(12,
          "init %x : f32[1,1,3] = {1, 2, 3}\n"
          "%y = MaxPool(%x) {ceil_mode=1, kernel_shape=[4], strides=[2]}",
          "[1,1,1]", FLOATS(3));
    refuses(12,
            "init %x : f32[1,1,3] = {1, 2, 3}\n%y = MaxPool(%x) {kernel_shape=[4], strides=[2]}",
            TMK_SHAPE, "does not fit");
}

TEST(averages_count_the_padding_that_was_asked_for) {
#define X6 "init %x : f32[1,1,6] = {1, 2, 3, 4, 5, 6}\n"
    gives(11,
          X6 "%y = AveragePool(%x) {ceil_mode=1, count_include_pad=1, kernel_shape=[3], "
             "pads=[1,1], strides=[2]}",
          "[1,1,4]", FLOATS(1, 3, 5, 3));
    gives(11, X6 "%y = AveragePool(%x) {ceil_mode=1, kernel_shape=[3], pads=[1,1], strides=[2]}",
          "[1,1,4]", FLOATS(1.5f, 3, 5, 6));
    gives(19,
          X6 "%y = AveragePool(%x) {count_include_pad=1, dilations=[2], kernel_shape=[2], "
             "pads=[2,0], strides=[2]}",
          "[1,1,3]", FLOATS(0.5f, 2, 4));
    gives(1, X6 "%y = AveragePool(%x) {auto_pad=\"SAME_UPPER\", kernel_shape=[2], strides=[5]}",
          "[1,1,2]", FLOATS(1.5f, 6));
}

TEST(indices_of_maxima_are_flat_in_either_order) {
    struct tmk_diag diag;
    struct tmk_tensor out[OPERANDS];
#define X23 "init %x : f32[1,2,2,3] = {1, 5, 2, 4, 0, 6, 9, 1, 1, 1, 1, 9}\n"
    const char *row = X23 "%y, %i = MaxPool(%x) {kernel_shape=[2,2]}";
    assert_ok(run_node(12, row, out, &diag), &diag);
    check_output(row, &out[0], TMK_FLOAT32, "[1,2,1,2]", FLOATS(5, 6, 9, 9), 0);
    check_output(row, &out[1], TMK_INT64, "[1,2,1,2]", FLOATS(1, 5, 6, 11), 0);
    finish_outputs(out);
    const char *column = X23 "%y, %i = MaxPool(%x) {kernel_shape=[2,2], storage_order=1}";
    assert_ok(run_node(12, column, out, &diag), &diag);
    check_output(column, &out[1], TMK_INT64, "[1,2,1,2]", FLOATS(2, 5, 6, 11), 0);
    finish_outputs(out);
}

TEST(maxima_keep_nan_and_infinity) {
    struct tmk_diag diag;
    struct tmk_tensor out[OPERANDS];
    const char *body = "init %x : f32[1,1,6] = {1, nan, nan, 2, -inf, -inf}\n"
                       "%y, %i = MaxPool(%x) {kernel_shape=[2], strides=[2]}";
    assert_ok(run_node(12, body, out, &diag), &diag);
    check_output(body, &out[0], TMK_FLOAT32, "[1,1,3]", FLOATS(NAN, NAN, -INFINITY), 0);
    check_output(body, &out[1], TMK_INT64, "[1,1,3]", FLOATS(1, 2, 4), 0);
    finish_outputs(out);
    gives(12, "init %x : f32[1,2,2] = {3, nan, -2, -1}\n%y = GlobalMaxPool(%x)", "[1,2,1]",
          FLOATS(NAN, -1));
}

TEST(a_window_of_padding_only_has_the_lowest_maximum) {
    struct tmk_diag diag;
    struct tmk_tensor out[OPERANDS];
#define X1 "init %x : f32[1,1,1] = {5}\n"
    const char *body = X1 "%y, %i = MaxPool(%x) {dilations=[2], kernel_shape=[2], pads=[1,1]}";
    assert_ok(run_node(12, body, out, &diag), &diag);
    check_output(body, &out[0], TMK_FLOAT32, "[1,1,1]", FLOATS(-FLT_MAX), 0);
    check_output(body, &out[1], TMK_INT64, "[1,1,1]", FLOATS(-1), 0);
    finish_outputs(out);
    gives(19, X1 "%y = AveragePool(%x) {dilations=[2], kernel_shape=[2], pads=[1,1]}", "[1,1,1]",
          FLOATS(0));
    refuses(12, X1 "%y = MaxPool(%x) {kernel_shape=[2], pads=[2,0]}", TMK_RANGE, "as wide as");
    refuses(12, X1 "%y = MaxPool(%x) {kernel_shape=[]}", TMK_GRAPH, "missing");
    refuses(12, X1 "%y = MaxPool(%x) {kernel_shape=[9223372036854775807]}", TMK_RANGE,
            "'kernel_shape'");
}

TEST(small_integers_have_maxima_too) {
    gives_type(12,
               "init %x : i8[1,1,4] = {-128, -127, 5, -1}\n"
               "%y = MaxPool(%x) {kernel_shape=[2], strides=[2]}",
               TMK_INT8, "[1,1,2]", FLOATS(-127, 5), 0);
}

TEST(norms_of_windows_take_any_power) {
#define X22 "init %x : f32[1,1,2,2] = {1, -2, 3, -4}\n"
    gives(11, X22 "%y = LpPool(%x) {kernel_shape=[2,2], p=1}", "[1,1,1,1]", FLOATS(10));
    gives_type(11, X22 "%y = LpPool(%x) {kernel_shape=[2,2], p=3}", TMK_FLOAT32, "[1,1,1,1]",
               FLOATS(4.64158883f), 1e-6);
    gives_type(1, X22 "%y = LpPool(%x) {kernel_shape=[2,2], p=2f}", TMK_FLOAT32, "[1,1,1,1]",
               FLOATS(5.47722558f), 1e-6);
    gives(2, X22 "%y = GlobalLpPool(%x) {p=1}", "[1,1,1,1]", FLOATS(10));
    gives(2, X22 "%y = GlobalAveragePool(%x)", "[1,1,1,1]", FLOATS(-0.5f));
    refuses(11, X22 "%y = LpPool(%x) {kernel_shape=[2,2], p=0}", TMK_RANGE, "'p' is 0");
}

/* ---- matrix products ---- */

TEST(products_follow_the_rules_of_numpy) {
    gives(13, "init %a : f32[3] = {1, 2, 3}\ninit %b : f32[3] = {4, 5, 6}\n%y = MatMul(%a, %b)",
          "[]", FLOATS(32));
    gives(13,
          "init %a : f32[2] = {1, 10}\ninit %b : f32[2,2,2] = {1, 2, 3, 4, 5, 6, 7, 8}\n"
          "%y = MatMul(%a, %b)",
          "[2,2]", FLOATS(31, 42, 75, 86));
    gives(13,
          "init %a : f32[2,1,1,2] = {1, 2, 3, 4}\ninit %b : f32[2,2,1] = {1, 10, 100, 1000}\n"
          "%y = MatMul(%a, %b)",
          "[2,2,1,1]", FLOATS(21, 2100, 43, 4300));
    gives(13, "init %a : f32[2,0] = {}\ninit %b : f32[0,1] = {}\n%y = MatMul(%a, %b)", "[2,1]",
          FLOATS(0, 0));
    gives_type(9,
               "init %a : i32[1,2] = {2147483647, 1}\ninit %b : i32[2,1] = {2, 1}\n"
               "%y = MatMul(%a, %b)",
               TMK_INT32, "[1,1]", FLOATS(-1), 0);
    refuses(13,
            "init %a : f32[2,2] = {1, 2, 3, 4}\ninit %b : f32[3] = {1, 2, 3}\n"
            "%y = MatMul(%a, %b)",
            TMK_SHAPE, "inner dimensions");
    refuses(13, "init %a : f32[] = {1}\ninit %b : f32[1] = {1}\n%y = MatMul(%a, %b)", TMK_SHAPE,
            "scalar");
}

/* The bits of an element are those of the product of its row and its column alone. */
TEST(where_an_element_stands_does_not_show) {
    enum { M = 7, N = 75, K = 300 };
    float *a = malloc(M * K * sizeof *a), *b = malloc(K * N * sizeof *b), c[M * N],
          *panel = aligned_alloc(64, TMK_GEMM_PANEL);
    assert_true(a && b && panel);
    for (size_t i = 0; i < M * K; i++)
        a[i] = (float)(i * 7919 % 1009) / 504.5f - 1;
    for (size_t i = 0; i < K * N; i++)
        b[i] = (float)(i * 104729 % 1013) / 506.5f - 1;
    tmk_gemm(&(struct tmk_gemm){M, N, K, a, b, K, 1, N, 1, c}, panel);
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < N; j++) {
            float alone;
            double sum = 0;
            tmk_gemm(&(struct tmk_gemm){1, 1, K, a + i * K, b + j, K, 1, N, 1, &alone}, panel);
            assert_memory_equal(&alone, &c[i * N + j], sizeof alone);
            for (size_t k = 0; k < K; k++)
                sum += (double)a[i * K + k] * (double)b[k * N + j];
            assert_true(fabs(sum - (double)alone) < 1e-4);
        }
    free(a);
    free(b);
    free(panel);
}

TEST(gemm_scales_transposes_and_spreads) {
#define AB "init %a : f32[2,3] = {1, 2, 3, 4, 5, 6}\ninit %b : f32[2,3] = {1, 0, 2, 0, 1, 3}\n"
    gives(11, AB "%y = Gemm(%a, %b) {alpha=0.5f, transB=1}", "[2,2]", FLOATS(3.5f, 5.5f, 8, 11.5f));
    gives(11, AB "init %c : f32[2,1] = {10, 20}\n%y = Gemm(%a, %b, %c) {beta=2f, transB=1}",
          "[2,2]", FLOATS(27, 31, 56, 63));
    gives(7, AB "init %c : f32[] = {1}\n%y = Gemm(%a, %b, %c) {transA=1}", "[3,3]",
          FLOATS(2, 5, 15, 3, 6, 20, 4, 7, 25));
    gives(11, AB "init %c : f32[2] = {nan, nan}\n%y = Gemm(%a, %b, %c) {beta=0f, transB=1}",
          "[2,2]", FLOATS(7, 11, 16, 23));
    gives(6, AB "init %c : f32[2] = {1, 2}\n%y = Gemm(%a, %b, %c) {broadcast=1, transB=1}", "[2,2]",
          FLOATS(8, 13, 17, 25));
    refuses(6, AB "init %c : f32[2] = {1, 2}\n%y = Gemm(%a, %b, %c) {transB=1}", TMK_SHAPE,
            "broadcast");
    refuses(11, AB "%y = Gemm(%a, %b)", TMK_SHAPE, "inner dimensions");
    refuses(11,
            AB "init %c : f32[4,2] = {1, 2, 3, 4, 5, 6, 7, 8}\n%y = Gemm(%a, %b, %c) {transB=1}",
            TMK_SHAPE, "broadcast");
    gives_type(9,
               "init %a : i64[1,2] = {3, 4}\ninit %b : i64[2,1] = {5, 6}\ninit %c : i64[1] = {1}\n"
               "%y = Gemm(%a, %b, %c) {alpha=2f, beta=-1f}",
               TMK_INT64, "[1,1]", FLOATS(77), 0);
    refuses(9,
            "init %a : i64[1,2] = {3, 4}\ninit %b : i64[2,1] = {5, 6}\ninit %c : i64[1] = {1}\n"
            "%y = Gemm(%a, %b, %c) {alpha=0.5f}",
            TMK_UNSUPPORTED, "'alpha' is 0.5");
}

/* ---- 8-bit integers ---- */

TEST(zero_points_go_by_row_and_column) {
#define Q "init %a : u8[2,2] = {10, 11, 20, 22}\ninit %b : i8[2,2] = {1, -1, 2, -2}\n"
    gives_type(10, Q "%y = MatMulInteger(%a, %b)", TMK_INT32, "[2,2]", FLOATS(32, -32, 64, -64), 0);
    gives_type(10,
               Q "init %az : u8[2] = {10, 20}\ninit %bz : i8[2] = {1, -1}\n"
                 "%y = MatMulInteger(%a, %b, %az, %bz)",
               TMK_INT32, "[2,2]", FLOATS(1, -1, 2, -2), 0);
    refuses(10, Q "init %az : u8[3] = {1, 2, 3}\n%y = MatMulInteger(%a, %b, %az)", TMK_SHAPE,
            "a_zero_point");
    refuses(10, Q "init %az : i8[] = {1}\n%y = MatMulInteger(%a, %b, %az)", TMK_TYPE, "zero point");
}

TEST(quantized_results_round_to_even_and_saturate) {
    gives_type(10,
               "init %a : u8[1,4] = {1, 3, 5, 255}\ninit %b : i8[4,4] = "
               "{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 127}\n"
               "init %s : f32[] = {1}\ninit %az : u8[] = {0}\ninit %bz : i8[] = {0}\n"
               "init %ys : f32[] = {2}\ninit %yz : u8[] = {1}\n"
               "%y = QLinearMatMul(%a, %s, %az, %b, %s, %bz, %ys, %yz)",
               TMK_UINT8, "[1,4]", FLOATS(1, 3, 3, 255), 0);
    gives_type(10,
               "init %x : u8[1,1,3] = {7, 8, 9}\ninit %w : i8[2,1,2] = {1, 1, 1, -128}\n"
               "init %xs : f32[] = {0.5}\ninit %xz : u8[] = {7}\ninit %ws : f32[2] = {2, 4}\n"
               "init %wz : i8[2] = {0, 0}\ninit %ys : f32[] = {1}\ninit %yz : i8[] = {0}\n"
               "init %b : i32[2] = {100, 1}\n"
               "%y = QLinearConv(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz, %b) {pads=[1,1]}",
               TMK_INT8, "[1,2,4]", FLOATS(100, 101, 103, 102, 2, -128, -128, 6), 0);
    gives_type(10,
               "init %x : u8[1,1,3] = {7, 8, 9}\ninit %w : u8[1,1,2] = {3, 4}\n"
               "init %xz : u8[] = {7}\ninit %wz : u8[] = {2}\n"
               "%y = ConvInteger(%x, %w, %xz, %wz) {pads=[0,1]}",
               TMK_INT32, "[1,1,3]", FLOATS(2, 5, 2), 0);
}

TEST(the_wanted_shape_may_count_all_axes) {
    const char *operands = "init %x : f32[1,1,2] = {1, 2}\ninit %w : f32[1,1,2] = {1, 10}\n";
    char body[256];
    snprintf(body, sizeof body,
             "%s%%y = ConvTranspose(%%x, %%w) {output_shape=[1,1,3], strides=[2]}", operands);
    gives(1, body, "[1,1,3]", FLOATS(10, 2, 20));
    snprintf(body, sizeof body, "%s%%y = ConvTranspose(%%x, %%w) {output_shape=[3], strides=[2]}",
             operands);
    gives(11, body, "[1,1,3]", FLOATS(10, 2, 20));
    snprintf(body, sizeof body, "%s%%y = ConvTranspose(%%x, %%w) {output_shape=[1,3], strides=[2]}",
             operands);
    refuses(11, body, TMK_SHAPE, "has 2 entries, not 1");
}
