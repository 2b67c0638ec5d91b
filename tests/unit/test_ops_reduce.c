/* SPDX-License-Identifier: Apache-2.0 */
/* Operators along axes: softmax, reductions, cumulative sums, arg and top k; and quantization. */
#include "base/size.h"
#include "graph_text/read.h"
#include "op_case.h"

#include <stdlib.h>

#define X23 "init %x : f32[2,3] = {1, 2, 3, 4, 5, 6}\n"

/* ---- softmax ---- */

TEST(softmax_flattens_before_operator_set_13) {
    const char *x = "init %x : f32[1,2,2] = {0, 0, 0, 0}";
    gives(12, x, "%y = Softmax(%x)", "f32[1,2,2] = {0.25, 0.25, 0.25, 0.25}");
    gives(13, x, "%y = Softmax(%x)", "f32[1,2,2] = {0.5, 0.5, 0.5, 0.5}");
    gives(13, "init %x : f32[2,2] = {0, 1, 1.09861229, 1}", "%y = Softmax(%x) {axis=0}",
          "f32[2,2] = {0.25, 0.5, 0.75, 0.5}");
    refuses(13, x, "%y = Softmax(%x) {axis=3}", TMK_RANGE, "axis 3");
    refuses(13, "init %x : f32[] = {1}", "%y = Softmax(%x)", TMK_RANGE, "axis");
}

TEST(softmax_of_large_numbers_does_not_overflow) {
    gives(13, "init %x : f32[2] = {1000, -1000}", "%y = Softmax(%x)", "f32[2] = {1, 0}");
    gives(13, "init %x : f32[2] = {1000, -1000}", "%y = LogSoftmax(%x)", "f32[2] = {0, -2000}");
    gives(13, "init %x : f32[2] = {nan, 1}", "%y = Softmax(%x)", "f32[2] = {nan, nan}");
    gives(13, "init %x : f32[0,3] = {}", "%y = Softmax(%x) {axis=0}", "f32[0,3] = {}");
}

TEST(hardmax_marks_the_first_largest) {
    const char *x = "init %x : f32[2,2] = {1, 3, 3, 3}";
    gives(13, x, "%y = Hardmax(%x)", "f32[2,2] = {0, 1, 1, 0}");
    gives(13, x, "%y = Hardmax(%x) {axis=0}", "f32[2,2] = {0, 1, 1, 0}");
    gives(11, x, "%y = Hardmax(%x) {axis=0}", "f32[2,2] = {0, 1, 0, 0}");
}

/* ---- reductions ---- */

TEST(reductions_take_axes_as_attribute_then_as_input) {
    const char *axes = X23 "init %axes : i64[1] = {-1}\ninit %none : i64[0] = {}\n"
                           "init %twice : i64[2] = {1, -1}\ninit %far : i64[1] = {2}";
    gives(11, X23, "%y = ReduceSum(%x) {axes=[0]}", "f32[1,3] = {5, 7, 9}");
    gives(11, X23, "%y = ReduceSum(%x) {keepdims=0}", "f32[] = {21}");
    gives(13, axes, "%y = ReduceSum(%x, %axes) {keepdims=0}", "f32[2] = {6, 15}");
    gives(13, axes, "%y = ReduceSum(%x, %none)", "f32[1,1] = {21}");
    gives(13, axes, "%y = ReduceSum(%x, %none) {noop_with_empty_axes=1}",
          "f32[2,3] = {1, 2, 3, 4, 5, 6}");
    gives(18, axes, "%y = ReduceSumSquare(%x) {noop_with_empty_axes=1}",
          "f32[2,3] = {1, 4, 9, 16, 25, 36}");
    gives(17, X23, "%y = ReduceMean(%x) {axes=[-2], keepdims=0}", "f32[3] = {2.5, 3.5, 4.5}");
    refuses(13, axes, "%y = ReduceSum(%x, %twice)", TMK_RANGE, "twice");
    refuses(13, axes, "%y = ReduceSum(%x, %far)", TMK_RANGE, "axis 2");
    refuses(17, X23, "%y = ReduceMax(%x) {axes=[-3]}", TMK_RANGE, "axis -3");
}

TEST(each_reduction_has_its_formula) {
    const char *x = "init %x : f32[3] = {-3, 4, 12}";
    gives(17, x, "%y = ReduceMax(%x)", "f32[1] = {12}");
    gives(17, x, "%y = ReduceMin(%x)", "f32[1] = {-3}");
    gives(17, x, "%y = ReduceProd(%x)", "f32[1] = {-144}");
    gives(17, x, "%y = ReduceL1(%x)", "f32[1] = {19}");
    gives(17, x, "%y = ReduceL2(%x)", "f32[1] = {13}");
    gives(17, x, "%y = ReduceLogSum(%x)", "f32[1] = {2.56494936}");
    gives(17, x, "%y = ReduceLogSumExp(%x)", "f32[1] = {12.0003357}");
    gives(17, "init %x : f32[2] = {1000, 1000}", "%y = ReduceLogSumExp(%x)",
          "f32[1] = {1000.69315}");
    gives(17, "init %x : f32[2] = {-inf, -inf}", "%y = ReduceLogSumExp(%x)", "f32[1] = {-inf}");
    gives(17, "init %x : f32[2] = {inf, 1}", "%y = ReduceLogSumExp(%x)", "f32[1] = {inf}");
    gives(17, "init %x : f32[2] = {nan, 1}", "%y = ReduceMax(%x)", "f32[1] = {nan}");
    gives(17, "init %x : f32[2] = {1, nan}", "%y = ReduceMin(%x)", "f32[1] = {nan}");
    gives(17, "init %x : f32[2] = {1e30, 1e30}", "%y = ReduceL2(%x)", "f32[1] = {1.41421356e30}");
}

TEST(integers_reduce_in_their_type) {
    gives(17, "init %x : i32[2] = {2147483647, 1}", "%y = ReduceMax(%x)", "i32[1] = {2147483647}");
    gives(11, "init %x : i32[2] = {2147483647, 1}", "%y = ReduceSum(%x)", "i32[1] = {-2147483648}");
    gives(17, "init %x : i32[2] = {-7, 0}", "%y = ReduceMean(%x)", "i32[1] = {-3}");
    gives(17, "init %x : i64[3] = {-2, -3, 5}", "%y = ReduceL1(%x)", "i64[1] = {10}");
    gives(17, "init %x : u32[2] = {3, 4}", "%y = ReduceL2(%x)", "u32[1] = {5}");
    gives(20, "init %x : bool[2,2] = {1, 0, 0, 0}\ninit %a : i64[1] = {1}",
          "%y = ReduceMax(%x, %a) {keepdims=0}", "bool[2] = {1, 0}");
    gives(17, "init %x : u8[3] = {7, 200, 9}", "%y = ReduceMin(%x)", "u8[1] = {7}");
    gives(17, "init %x : i8[3] = {-7, -128, 9}", "%y = ReduceMin(%x)", "i8[1] = {-128}");
}

TEST(reductions_of_nothing_give_the_neutral_element) {
    const char *x = "init %x : f32[2,0] = {}\ninit %a : i64[1] = {1}";
    gives(18, x, "%y = ReduceSum(%x, %a)", "f32[2,1] = {0, 0}");
    gives(18, x, "%y = ReduceProd(%x, %a)", "f32[2,1] = {1, 1}");
    gives(18, x, "%y = ReduceMax(%x, %a)", "f32[2,1] = {-inf, -inf}");
    gives(18, x, "%y = ReduceMin(%x, %a)", "f32[2,1] = {inf, inf}");
    gives(18, x, "%y = ReduceLogSum(%x, %a)", "f32[2,1] = {-inf, -inf}");
    gives(18, x, "%y = ReduceLogSumExp(%x, %a)", "f32[2,1] = {-inf, -inf}");
    gives(18, x, "%y = ReduceMean(%x, %a)", "f32[2,1] = {nan, nan}");
    gives(18, "init %x : i32[0] = {}", "%y = ReduceMax(%x)", "i32[1] = {-2147483648}");
    gives(18, "init %x : bool[0] = {}", "%y = ReduceMin(%x)", "bool[1] = {1}");
    refuses(18, "init %x : i32[0] = {}", "%y = ReduceMean(%x)", TMK_SHAPE, "no elements");
    gives(18, "init %x : f32[] = {3}", "%y = ReduceSum(%x)", "f32[] = {3}");
}

/* Every choice of axes of a [3,9,2,17] tensor: the sum of each result's elements, taken one by one.
 */
TEST(sums_over_any_axes_agree_with_the_naive_way) {
    static const int64_t dim[4] = {3, 9, 2, 17};
    enum { COUNT = 3 * 9 * 2 * 17 };
    struct tmk_graph *graph = NULL;
    for (unsigned axes = 1; axes < 16; axes++) {
        char text[256], list[32] = "";
        for (int i = 0; i < 4; i++)
            if (axes >> i & 1)
                snprintf(list + strlen(list), sizeof list - strlen(list), "%s%d", *list ? "," : "",
                         i);
        snprintf(text, sizeof text,
                 "graph \"t\" opset 11 {\ninput %%x : i32[3,9,2,17]\n"
                 "%%y = ReduceSum(%%x) {axes=[%s]}\noutput %%y\n}\n",
                 list);
        must(parse_graph(text, NULL, &graph, DIAG));
        must(tmk_ops_bind(graph, DIAG));
        for (int is_float = 0; is_float < 2; is_float++) {
            struct tmk_tensor x, y;
            double want[COUNT] = {0};
            must(tmk_tensor_init(&x, is_float ? TMK_FLOAT32 : TMK_INT32,
                                 &(struct tmk_shape){4, {3, 9, 2, 17}}, DIAG));
            for (int k = 0; k < COUNT; k++) {
                int value = k * 37 % 101 - 50, rest = k, stride = 1, at = 0;
                for (int i = 3; i >= 0; i--) {
                    if (!(axes >> i & 1)) {
                        at += rest % (int)dim[i] * stride;
                        stride *= (int)dim[i];
                    }
                    rest /= (int)dim[i];
                }
                want[at] += value;
                if (is_float)
                    ((float *)x.data)[k] = (float)value;
                else
                    ((int32_t *)x.data)[k] = value;
            }
            const struct tmk_tensor *in[] = {&x};
            must(tmk_op_run(graph->first, in, &y, DIAG));
            for (size_t k = 0; k < tmk_tensor_count(&y); k++)
                assert_true(want[k] == (is_float ? (double)((const float *)y.data)[k]
                                                 : (double)((const int32_t *)y.data)[k]));
            tmk_tensor_finish(&x);
            tmk_tensor_finish(&y);
        }
        tmk_graph_destroy(&graph);
    }
}

TEST(cumulative_sums_run_both_ways) {
    const char *x = X23 "init %a : i64[] = {1}\ninit %b : i32[] = {-2}\ninit %c : i64[] = {2}";
    gives(14, x, "%y = CumSum(%x, %a)", "f32[2,3] = {1, 3, 6, 4, 9, 15}");
    gives(14, x, "%y = CumSum(%x, %a) {exclusive=1}", "f32[2,3] = {0, 1, 3, 0, 4, 9}");
    gives(14, x, "%y = CumSum(%x, %a) {reverse=1}", "f32[2,3] = {6, 5, 3, 15, 11, 6}");
    gives(14, x, "%y = CumSum(%x, %b) {exclusive=1, reverse=1}", "f32[2,3] = {4, 5, 6, 0, 0, 0}");
    refuses(14, x, "%y = CumSum(%x, %c)", TMK_RANGE, "axis 2");
}

/* ---- places ---- */

TEST(arg_takes_the_first_or_the_last) {
    const char *x = "init %x : f32[2,3] = {1, 3, 3, 2, 2, 0}";
    gives(13, x, "%y = ArgMax(%x) {axis=1}", "i64[2,1] = {1, 0}");
    gives(13, x, "%y = ArgMax(%x) {axis=1, keepdims=0, select_last_index=1}", "i64[2] = {2, 1}");
    gives(13, x, "%y = ArgMin(%x)", "i64[1,3] = {0, 1, 1}");
    gives(13, "init %x : f32[3] = {1, nan, 5}", "%y = ArgMax(%x)", "i64[1] = {1}");
    gives(13, "init %x : u8[2,2] = {1, 255, 1, 0}", "%y = ArgMax(%x) {select_last_index=1}",
          "i64[1,2] = {1, 0}");
    refuses(13, "init %x : f32[0] = {}", "%y = ArgMax(%x)", TMK_SHAPE, "no element");
    refuses(13, x, "%y = ArgMax(%x) {axis=2}", TMK_RANGE, "axis 2");
}

TEST(top_k_breaks_ties_by_place) {
    const char *x = "init %x : f32[6] = {3, 1, 3, nan, -0, 0}\ninit %k : i64[1] = {4}\n"
                    "init %many : i64[1] = {7}\ninit %zero : i64[1] = {0}";
    gives(11, x, "%y, %i = TopK(%x, %k)", "f32[4] = {nan, 3, 3, 1}");
    gives(11, x, "_, %y = TopK(%x, %k)", "i64[4] = {3, 0, 2, 1}");
    gives(11, x, "%y, %i = TopK(%x, %k) {largest=0}", "f32[4] = {-0, 0, 1, 3}");
    gives(11, x, "_, %y = TopK(%x, %k) {largest=0}", "i64[4] = {4, 5, 1, 0}");
    gives(11, x, "%y, %i = TopK(%x, %zero)", "f32[0] = {}");
    gives(1, "init %x : f32[2,2] = {1, 4, 3, 2}", "%y, %i = TopK(%x) {axis=0, k=1}",
          "f32[1,2] = {3, 4}");
    gives(11,
          "init %x : i64[3] = {-9223372036854775808, 9223372036854775807, 0}\n"
          "init %k : i64[1] = {2}",
          "%y, %i = TopK(%x, %k)", "i64[2] = {9223372036854775807, 0}");
    refuses(11, x, "%y, %i = TopK(%x, %many)", TMK_RANGE, "7");
    refuses(1, "init %x : f32[2] = {1, 4}", "%y, %i = TopK(%x) {k=-1}", TMK_RANGE, "-1");
}

static int by_value_down(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

TEST(top_k_agrees_with_sorting) {
    enum { N = 257 };
    struct tmk_graph *graph = NULL;
    float sorted[N];
    struct tmk_tensor x, out[2];
    must(tmk_tensor_init(&x, TMK_FLOAT32, &(struct tmk_shape){1, {N}}, DIAG));
    for (int i = 0; i < N; i++)
        sorted[i] = ((float *)x.data)[i] = (float)(i * 101 % 223) - 100.0f;
    qsort(sorted, N, sizeof *sorted, by_value_down);
    for (int k = 1; k <= N; k += 64) {
        char text[160];
        snprintf(text, sizeof text,
                 "graph \"t\" opset 1 {\ninput %%x : f32[257]\n%%y, %%i = TopK(%%x) {k=%d}\n"
                 "output %%y\noutput %%i\n}\n",
                 k);
        must(parse_graph(text, NULL, &graph, DIAG));
        must(tmk_ops_bind(graph, DIAG));
        const struct tmk_tensor *in[] = {&x};
        must(tmk_op_run(graph->first, in, out, DIAG));
        assert_memory_equal(out[0].data, sorted, (size_t)k * sizeof *sorted);
        for (int i = 0; i < k; i++)
            assert_true(((const float *)x.data)[((const int64_t *)out[1].data)[i]] == sorted[i]);
        tmk_tensor_finish(&out[0]);
        tmk_tensor_finish(&out[1]);
        tmk_graph_destroy(&graph);
    }
    tmk_tensor_finish(&x);
}

/* ---- quantization ---- */

TEST(quantizing_rounds_to_even_and_saturates) {
    const char *x = "init %x : f32[7] = {0, 1, 3, 5, 1000, -1000, nan}\ninit %s : f32[] = {2}\n"
                    "init %z : u8[] = {128}\ninit %i : i8[] = {-1}\ninit %two : f32[2] = {1, 2}";
    gives(10, x, "%y = QuantizeLinear(%x, %s, %z)", "u8[7] = {128, 128, 130, 130, 255, 0, 0}");
    gives(13, x, "%y = QuantizeLinear(%x, %s, %i)", "i8[7] = {-1, -1, 1, 1, 127, -128, -128}");
    gives(13, x, "%y = QuantizeLinear(%x, %s)", "u8[7] = {0, 0, 2, 2, 255, 0, 0}");
    gives(21, x, "%y = QuantizeLinear(%x, %s) {output_dtype=5}",
          "i16[7] = {0, 0, 2, 2, 500, -500, -32768}");
    refuses(10, x, "%y = QuantizeLinear(%x, %two)", TMK_SHAPE, "scalar");
    refuses(21, x, "%y = QuantizeLinear(%x, %s, %z) {output_dtype=3}", TMK_TYPE, "int8");
    refuses(21, x, "%y = QuantizeLinear(%x, %s) {output_dtype=23}", TMK_UNSUPPORTED, "float4");
}

TEST(scales_lie_along_an_axis_or_in_blocks) {
    const char *x = "init %x : f32[2,3] = {2, 4, 6, 8, 10, 12}\ninit %rows : f32[2] = {1, 2}\n"
                    "init %columns : f32[3] = {1, 2, 4}\ninit %blocks : f32[2,2] = {1, 2, 2, 4}\n"
                    "init %down : f32[1,3] = {1, 2, 2}\ninit %z : u8[3] = {0, 1, 2}";
    gives(13, x, "%y = QuantizeLinear(%x, %rows) {axis=0}", "u8[2,3] = {2, 4, 6, 4, 5, 6}");
    gives(13, x, "%y = QuantizeLinear(%x, %columns, %z)", "u8[2,3] = {2, 3, 4, 8, 6, 5}");
    gives(21, x, "%y = QuantizeLinear(%x, %blocks) {axis=1, block_size=2}",
          "u8[2,3] = {2, 4, 3, 4, 5, 3}");
    gives(21, x, "%y = QuantizeLinear(%x, %down) {axis=0, block_size=2}",
          "u8[2,3] = {2, 2, 3, 8, 5, 6}");
    refuses(13, x, "%y = QuantizeLinear(%x, %rows)", TMK_SHAPE, "axis 1 wants 3");
    refuses(21, x, "%y = QuantizeLinear(%x, %blocks) {axis=1, block_size=3}", TMK_SHAPE, "blocks");
    refuses(13, x, "%y = QuantizeLinear(%x, %rows, %z) {axis=0}", TMK_SHAPE, "zero point");
}

TEST(dequantizing_takes_the_zero_point_off) {
    const char *x = "init %x : u8[2,2] = {0, 128, 130, 255}\ninit %s : f32[] = {0.5}\n"
                    "init %z : u8[] = {128}\ninit %c : f32[2] = {1, 2}\ninit %i : i8[] = {1}\n"
                    "init %blocks : f32[1,2] = {1, 2}";
    gives(10, x, "%y = DequantizeLinear(%x, %s, %z)", "f32[2,2] = {-64, 0, 1, 63.5}");
    gives(13, x, "%y = DequantizeLinear(%x, %c) {axis=0}", "f32[2,2] = {0, 128, 260, 510}");
    gives(21, x, "%y = DequantizeLinear(%x, %blocks) {axis=0, block_size=2}",
          "f32[2,2] = {0, 256, 130, 510}");
    gives(13, "init %x : i32[2] = {-2147483648, 7}\ninit %s : f32[] = {1}\ninit %z : i32[] = {1}",
          "%y = DequantizeLinear(%x, %s, %z)", "f32[2] = {-2147483649, 6}");
    refuses(13, x, "%y = DequantizeLinear(%x, %s, %i)", TMK_TYPE, "zero point");
}

TEST(zero_points_of_all_types_are_taken_off) {
    static const char *const texts[] = {"i8", "u8", "i16", "u16", "i32", "i4", "u4", "i2", "u2"};
    for (size_t i = 0; i < TMK_COUNT(texts); i++) {
        char x[256];
        snprintf(x, sizeof x,
                 "init %%x : %s[2,2] = {0, 1, 1, 0}\ninit %%z : %s[1,2] = {1, 0}\n"
                 "init %%s : f32[1,2] = {2, 4}",
                 texts[i], texts[i]);
        gives(25, x, "%y = DequantizeLinear(%x, %s, %z) {axis=0, block_size=2}",
              "f32[2,2] = {-2, 4, 0, 0}");
    }
}

TEST(floats_of_8_bits_are_read_and_written) {
    static const struct {
        const char *type, *codes, *numbers, *saturated, *beyond;
    } rows[] = {
        {"f8e4m3fn", "{0x0, 0x80, 0x1, 0x38, 0x7e, 0xfe, 0x7f}",
         "{0, -0, 0.001953125, 1, 448, -448, nan}",
         "{0x0, 0x80, 0x38, 0xb9, 0x7e, 0x7e, 0xfe, 0x7f}",
         "{0x0, 0x80, 0x38, 0xb9, 0x7e, 0x7f, 0xff, 0x7f}"},
        {"f8e4m3fnuz", "{0x0, 0x80, 0x1, 0x40, 0x7f, 0xff, 0x7e}",
         "{0, nan, 0.0009765625, 1, 240, -240, 224}",
         "{0x0, 0x0, 0x40, 0xc1, 0x7f, 0x7f, 0xff, 0x80}",
         "{0x0, 0x0, 0x40, 0xc1, 0x80, 0x80, 0x80, 0x80}"},
        {"f8e5m2", "{0x0, 0x80, 0x1, 0x3c, 0x7b, 0xfc, 0x7e}",
         "{0, -0, 0.0000152587890625, 1, 57344, -inf, nan}",
         "{0x0, 0x80, 0x3c, 0xbc, 0x5f, 0x7b, 0xfb, 0x7e}",
         "{0x0, 0x80, 0x3c, 0xbc, 0x5f, 0x7c, 0xfc, 0x7e}"},
        {"f8e5m2fnuz", "{0x0, 0x80, 0x1, 0x40, 0x7f, 0xff, 0x7e}",
         "{0, nan, 0.00000762939453125, 1, 57344, -57344, 49152}",
         "{0x0, 0x0, 0x40, 0xc0, 0x63, 0x7f, 0xff, 0x80}",
         "{0x0, 0x0, 0x40, 0xc0, 0x63, 0x80, 0x80, 0x80}"},
    };
    for (size_t i = 0; i < TMK_COUNT(rows); i++) {
        char x[512], y[256], op[128];
        snprintf(x, sizeof x,
                 "init %%c : %s[7] = %s\ninit %%z : %s[] = {0x0}\ninit %%s : f32[] = {1}\n"
                 "init %%x : f32[8] = {0, -0, 1.03, -1.07, 450, 100000, -inf, nan}",
                 rows[i].type, rows[i].codes, rows[i].type);
        snprintf(y, sizeof y, "f32[7] = %s", rows[i].numbers);
        gives(19, x, "%y = DequantizeLinear(%c, %s, %z)", y);
        gives(19, x, "%y = Cast(%c) {to=1}", y);
        for (int saturate = 0; saturate < 2; saturate++) {
            snprintf(y, sizeof y, "%s[8] = %s", rows[i].type,
                     saturate ? rows[i].saturated : rows[i].beyond);
            snprintf(op, sizeof op, "%%y = CastLike(%%x, %%z) {saturate=%d}", saturate);
            gives(19, x, op, y);
            snprintf(op, sizeof op, "%%y = QuantizeLinear(%%x, %%s, %%z) {saturate=%d}", saturate);
            gives(19, x, op, y);
        }
    }
    gives(23, "init %x : f4e2m1[4] = {0x1, 0x3, 0x7, 0xf}\ninit %s : f32[] = {2}",
          "%y = DequantizeLinear(%x, %s)", "f32[4] = {1, 3, 12, -12}");
}

TEST(dynamic_quantization_keeps_zero_in_range) {
    const char *x = "init %x : f32[6] = {0, 2, -3, -2.5, 1.34, 0.5}";
    gives(11, x, "%y, %s, %z = DynamicQuantizeLinear(%x)", "u8[6] = {153, 255, 0, 26, 221, 179}");
    gives(11, x, "_, %y, %z = DynamicQuantizeLinear(%x)", "f32[] = {0.0196078438}");
    gives(11, x, "_, _, %y = DynamicQuantizeLinear(%x)", "u8[] = {153}");
    gives(11, "init %x : f32[2] = {0, 0}", "_, %y, %z = DynamicQuantizeLinear(%x)", "f32[] = {1}");
}
