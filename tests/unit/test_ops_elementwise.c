/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators: cases worked out by hand, and broadcasting against the naive way. */
#include "op_case.h"

#include "base/size.h"
#include "ops/elementwise.h"
#include "ops/functions.h"

/* ---- one operand ---- */

TEST(relu_keeps_nan_and_makes_zeros_positive) {
    const char *x = "init %x : f32[5] = {-1, -0, 0, 2, nan}";
    gives(14, x, "%y = Relu(%x)", "f32[5] = {0, 0, 0, 2, nan}");
    gives(1, x, "%y = Relu(%x)", "f32[5] = {0, 0, 0, 2, nan}");
    gives(14, "init %x : i8[3] = {-128, 0, 127}", "%y = Relu(%x)", "i8[3] = {0, 0, 127}");
}

TEST(rounding_goes_half_to_even) {
    gives(11, "init %x : f32[8] = {0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, inf}",
          "%y = Round(%x)", "f32[8] = {0, 2, 2, -0, -2, -2, 0, inf}");
    gives(13, "init %x : f32[3] = {-0.5, 0.5, -1.5}", "%y = Ceil(%x)", "f32[3] = {-0, 1, -1}");
    gives(13, "init %x : f32[3] = {-0.5, 0.5, -1.5}", "%y = Floor(%x)", "f32[3] = {-1, 0, -2}");
}

TEST(integers_wrap_instead_of_overflowing) {
    gives(13, "init %x : i8[2] = {-128, -5}", "%y = Abs(%x)", "i8[2] = {-128, 5}");
    gives(13, "init %x : i32[2] = {-2147483648, 5}", "%y = Neg(%x)", "i32[2] = {-2147483648, -5}");
    gives(14, "init %a : i32[1] = {2147483647}\ninit %b : i32[1] = {1}", "%y = Add(%a, %b)",
          "i32[1] = {-2147483648}");
    gives(14, "init %a : u16[1] = {65535}\ninit %b : u16[1] = {65535}", "%y = Mul(%a, %b)",
          "u16[1] = {1}");
    gives(14, "init %a : u8[1] = {1}\ninit %b : u8[1] = {2}", "%y = Sub(%a, %b)", "u8[1] = {255}");
    gives(14, "init %a : i64[1] = {-9223372036854775808}\ninit %b : i64[1] = {-1}",
          "%y = Div(%a, %b)", "i64[1] = {-9223372036854775808}");
}

TEST(signs_and_tests_see_special_values) {
    const char *x = "init %x : f32[5] = {nan, inf, -inf, -3, 0}";
    gives(13, x, "%y = Sign(%x)", "f32[5] = {nan, 1, -1, -1, 0}");
    gives(13, x, "%y = IsNaN(%x)", "bool[5] = {1, 0, 0, 0, 0}");
    gives(10, x, "%y = IsInf(%x)", "bool[5] = {0, 1, 1, 0, 0}");
    gives(10, x, "%y = IsInf(%x) {detect_negative=0}", "bool[5] = {0, 1, 0, 0, 0}");
    gives(10, x, "%y = IsInf(%x) {detect_positive=0}", "bool[5] = {0, 0, 1, 0, 0}");
    gives(1, "init %x : bool[2] = {1, 0}", "%y = Not(%x)", "bool[2] = {0, 1}");
    gives(18, "init %x : u8[2] = {0, 5}", "%y = BitwiseNot(%x)", "u8[2] = {255, 250}");
}

TEST(activations_have_their_defaults) {
    const char *x = "init %x : f32[3] = {-1, 0, 2}";
    gives(16, x, "%y = LeakyRelu(%x)", "f32[3] = {-0.01, 0, 2}");
    gives(6, x, "%y = Elu(%x)", "f32[3] = {-0.632120559, 0, 2}");
    gives(6, x, "%y = Selu(%x)", "f32[3] = {-1.11133073, 0, 2.10140204}");
    gives(1, x, "%y = Selu(%x)", "f32[3] = {-1.11128716, 0, 2.1014}");
    gives(12, x, "%y = Celu(%x) {alpha=2f}", "f32[3] = {-0.786938681, 0, 2}");
    gives(6, x, "%y = HardSigmoid(%x)", "f32[3] = {0.3, 0.5, 0.9}");
    gives(14, x, "%y = HardSwish(%x)", "f32[3] = {-0.333333333, 0, 1.66666667}");
    gives(10, x, "%y = ThresholdedRelu(%x) {alpha=2f}", "f32[3] = {0, 0, 0}");
    gives(9, x, "%y = Shrink(%x) {bias=0.25f}", "f32[3] = {-0.75, 0, 1.75}");
    gives(1, x, "%y = Softsign(%x)", "f32[3] = {-0.5, 0, 0.666666667}");
    gives(18, x, "%y = Mish(%x)", "f32[3] = {-0.303401461, 0, 1.94395888}");
    gives(24, x, "%y = Swish(%x) {alpha=0.5f}", "f32[3] = {-0.377540669, 0, 1.46211716}");
    gives(20, x, "%y = Gelu(%x)", "f32[3] = {-0.158655254, 0, 1.95449974}");
    gives(20, x, "%y = Gelu(%x) {approximate=\"tanh\"}", "f32[3] = {-0.158808009, 0, 1.9545977}");
    refuses(20, x, "%y = Gelu(%x) {approximate=\"fast\"}", TMK_RANGE, "one of: none tanh");
}

TEST(logistic_functions_do_not_overflow) {
    gives(13, "init %x : f32[4] = {-1000, 1000, -inf, nan}", "%y = Sigmoid(%x)",
          "f32[4] = {0, 1, 0, nan}");
    gives(1, "init %x : f32[4] = {-1000, 1000, 0, nan}", "%y = Softplus(%x)",
          "f32[4] = {0, 1000, 0.693147181, nan}");
}

/* How far from the true value, in units of the last place of a float there. */
static double units_off(float got, double want) {
    float nearest = (float)want;
    if (isnan(nearest) || isinf(nearest))
        return (isnan(nearest) ? isnan(got) : got == nearest) ? 0 : INFINITY;
    return fabs((double)got - want) /
           ((double)nextafterf(fabsf(nearest), INFINITY) - (double)fabsf(nearest));
}

TEST(exponentials_are_within_three_units_of_the_last_place) {
    for (uint64_t bits = 0; bits < (uint64_t)1 << 32; bits += 40009) {
        float x = tmk_bits_float((int32_t)(uint32_t)bits);
        double v = (double)x;
        if (units_off(tmk_expf(x), exp(v)) > 3 || units_off(tmk_tanhf(x), tanh(v)) > 3 ||
            units_off(tmk_sigmoidf(x), 1 / (1 + exp(-v))) > 3 ||
            (!(x > 80) && units_off(tmk_expm1f(x), expm1(v)) > 3))
            fail_msg("at %a: exp %a, tanh %a, sigmoid %a, expm1 %a", v, (double)tmk_expf(x),
                     (double)tmk_tanhf(x), (double)tmk_sigmoidf(x), (double)tmk_expm1f(x));
    }
    gives(13, "init %x : f32[6] = {-inf, inf, nan, 0, -104, 89}", "%y = Exp(%x)",
          "f32[6] = {0, inf, nan, 1, 0, inf}");
    gives(13, "init %x : f32[5] = {-inf, inf, nan, -0, 0}", "%y = Tanh(%x)",
          "f32[5] = {-1, 1, nan, -0, 0}");
}

TEST(activations_pass_nan_of_either_sign) {
    static const char *const names[] = {"Relu",      "LeakyRelu", "Elu",      "Selu", "Sigmoid",
                                        "Tanh",      "Softplus",  "Softsign", "Celu", "HardSigmoid",
                                        "HardSwish", "Mish",      "Gelu"};
    for (size_t i = 0; i < TMK_COUNT(names); i++) {
        char node[64];
        snprintf(node, sizeof node, "%%y = %s(%%x)", names[i]);
        gives(20, "init %x : f32[2] = {nan:0x7fc00000, nan:0xffc00000}", node,
              "f32[2] = {nan, nan}");
    }
}

/* ---- two operands ---- */

TEST(integer_division_truncates_and_refuses_zero) {
    gives(14, "init %a : i32[4] = {7, -7, 7, -7}\ninit %b : i32[4] = {2, 2, -2, -2}",
          "%y = Div(%a, %b)", "i32[4] = {3, -3, -3, 3}");
    refuses(14, "init %a : i32[2] = {1, 2}\ninit %b : i32[2] = {1, 0}", "%y = Div(%a, %b)",
            TMK_RANGE, "zero");
    refuses(13, "init %a : u8[1] = {1}\ninit %b : u8[] = {0}", "%y = Mod(%a, %b)", TMK_RANGE,
            "zero");
    gives(14, "init %a : f32[3] = {1, -1, 0}\ninit %b : f32[] = {0}", "%y = Div(%a, %b)",
          "f32[3] = {inf, -inf, nan}");
    gives(14, "init %a : i32[0] = {}\ninit %b : i32[] = {0}", "%y = Div(%a, %b)", "i32[0] = {}");
}

TEST(mod_follows_python_or_c) {
    const char *ab = "init %a : i32[5] = {-4, 7, 5, 4, -7}\ninit %b : i32[5] = {2, -3, 8, -2, -1}";
    gives(13, ab, "%y = Mod(%a, %b)", "i32[5] = {0, -2, 5, 0, 0}");
    gives(13, ab, "%y = Mod(%a, %b) {fmod=1}", "i32[5] = {0, 1, 5, 0, 0}");
    gives(13, "init %a : i8[1] = {-128}\ninit %b : i8[1] = {-1}", "%y = Mod(%a, %b)",
          "i8[1] = {0}");
    const char *f = "init %a : f32[3] = {-4.3, 7.2, 5}\ninit %b : f32[3] = {2.1, -3.4, 0}";
    gives(13, f, "%y = Mod(%a, %b) {fmod=1}", "f32[3] = {-0.100000381, 0.399999619, nan}");
    refuses(13, f, "%y = Mod(%a, %b)", TMK_TYPE, "fmod=1");
}

TEST(powers_keep_the_type_of_the_base) {
    gives(15, "init %a : i32[4] = {2, -3, -1, 1}\ninit %b : i64[4] = {10, 3, -3, -9}",
          "%y = Pow(%a, %b)", "i32[4] = {1024, -27, -1, 1}");
    gives(15, "init %a : i64[2] = {2, 4}\ninit %b : f32[2] = {0.5, 0.5}", "%y = Pow(%a, %b)",
          "i64[2] = {1, 2}");
    gives(15, "init %a : f32[2] = {1.5, -2}\ninit %b : u8[] = {3}", "%y = Pow(%a, %b)",
          "f32[2] = {3.375, -8}");
    gives(7, "init %a : f32[3] = {-3, 0.5, nan}\ninit %b : f32[] = {2}", "%y = Pow(%a, %b)",
          "f32[3] = {9, 0.25, nan}");
    refuses(15, "init %a : i32[2] = {0, 1}\ninit %b : i32[2] = {-1, -1}", "%y = Pow(%a, %b)",
            TMK_RANGE, "zero");
    gives(15, "init %a : i32[2] = {0, 1}\ninit %b : i32[2] = {1, -1}", "%y = Pow(%a, %b)",
          "i32[2] = {0, 1}");
}

TEST(comparisons_with_nan_are_false) {
    const char *ab = "init %a : f32[3] = {1, nan, 2}\ninit %b : f32[3] = {1, nan, 3}";
    gives(13, ab, "%y = Equal(%a, %b)", "bool[3] = {1, 0, 0}");
    gives(13, ab, "%y = Less(%a, %b)", "bool[3] = {0, 0, 1}");
    gives(16, ab, "%y = GreaterOrEqual(%a, %b)", "bool[3] = {1, 0, 0}");
    refuses(13, "init %a : f32[1] = {1}\ninit %b : i32[1] = {1}", "%y = Less(%a, %b)", TMK_TYPE,
            "input 1");
    refuses(7, "init %a : f32[1] = {1}\ninit %b : f32[1] = {1}", "%y = And(%a, %b)", TMK_TYPE,
            "float32");
}

TEST(shifts_by_the_width_leave_nothing) {
    const char *ab = "init %a : u8[4] = {1, 255, 255, 128}\ninit %b : u8[4] = {7, 8, 200, 1}";
    gives(11, ab, "%y = BitShift(%a, %b) {direction=\"LEFT\"}", "u8[4] = {128, 0, 0, 0}");
    gives(11, ab, "%y = BitShift(%a, %b) {direction=\"RIGHT\"}", "u8[4] = {0, 0, 0, 64}");
    gives(28, "init %a : i8[3] = {-2, -2, 2}\ninit %b : i8[3] = {1, 9, -1}",
          "%y = BitShift(%a, %b) {direction=\"RIGHT\"}", "i8[3] = {-1, -1, 0}");
    refuses(11, ab, "%y = BitShift(%a, %b) {direction=\"UP\"}", TMK_RANGE, "one of: LEFT RIGHT");
}

TEST(old_operator_sets_align_at_an_axis) {
    const char *ab = "init %a : f32[2,3] = {1, 2, 3, 4, 5, 6}\ninit %b : f32[2] = {10, 20}";
    gives(6, ab, "%y = Add(%a, %b) {axis=0, broadcast=1}", "f32[2,3] = {11, 12, 13, 24, 25, 26}");
    gives(6, "init %a : f32[2,3] = {1, 2, 3, 4, 5, 6}\ninit %b : f32[3] = {1, 0, 2}",
          "%y = Pow(%a, %b) {broadcast=1}", "f32[2,3] = {1, 1, 9, 4, 1, 36}");
    gives(1, "init %a : f32[2] = {1, 2}\ninit %b : f32[1] = {3}", "%y = Less(%a, %b) {broadcast=1}",
          "bool[2] = {1, 1}");
    refuses(6, ab, "%y = Add(%a, %b)", TMK_SHAPE, "broadcast is not 1");
    refuses(6, ab, "%y = Add(%a, %b) {broadcast=1}", TMK_SHAPE, "does not stand");
    refuses(6, ab, "%y = Add(%a, %b) {axis=2, broadcast=1}", TMK_RANGE, "axis 2");
    refuses(6, ab, "%y = Add(%a, %b) {axis=-9223372036854775808, broadcast=1}", TMK_RANGE, "axis");
    refuses(7, ab, "%y = Add(%a, %b)", TMK_SHAPE, "do not broadcast");
}

TEST(a_prelu_slope_never_widens_the_input) {
    const char *channels = "init %x : f32[1,2,2] = {-1, 1, -1, 1}\ninit %s : f32[2] = {2, 3}";
    gives(6, channels, "%y = PRelu(%x, %s)", "f32[1,2,2] = {-2, 1, -3, 1}");
    gives(7, channels, "%y = PRelu(%x, %s)", "f32[1,2,2] = {-2, 1, -2, 1}");
    refuses(7, "init %x : f32[1] = {-1}\ninit %s : f32[2] = {2, 3}", "%y = PRelu(%x, %s)",
            TMK_SHAPE, "does not broadcast");
}

static void shift_dims(struct tmk_shape *shape, uint64_t *random) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    uint64_t r = *random >> 33;
    shape->rank = (int32_t)(r % 5);
    for (int32_t i = 0; i < shape->rank; i++)
        shape->dim[i] = (r >> (4 + 3 * i)) % 8 < 3 ? 1 : 2 + i;
}

/* The element of a tensor that broadcasting puts at `index` of a result. */
static float naive(const float *data, const struct tmk_shape *shape, const struct tmk_shape *out,
                   size_t index) {
    size_t at = 0, stride = 1;
    for (int32_t i = 1; i <= out->rank; i++) {
        size_t place = index % (size_t)out->dim[out->rank - i];
        index /= (size_t)out->dim[out->rank - i];
        if (i > shape->rank)
            continue;
        if (shape->dim[shape->rank - i] != 1)
            at += place * stride;
        stride *= (size_t)shape->dim[shape->rank - i];
    }
    return data[at];
}

TMK_ROW2(subtract, float, float, float, x - y)

TEST(walks_agree_with_the_naive_way) {
    enum { MOST = 2 * 3 * 4 * 5, TRIALS = 3000 };
    static float a[MOST], b[MOST], r[MOST];
    uint64_t random = 1;
    int broadcast = 0;
    for (int i = 0; i < MOST; i++) {
        a[i] = (float)i;
        b[i] = (float)(1000 * i);
    }
    for (int trial = 0; trial < TRIALS; trial++) {
        struct tmk_shape sa = {0}, sb = {0}, so;
        struct tmk_tensor ta, tb, tr;
        shift_dims(&sa, &random);
        shift_dims(&sb, &random);
        if (tmk_broadcast(&sa, &sb, &so, NULL) != TMK_OK)
            continue;
        broadcast++;
        tmk_tensor_borrow(&ta, TMK_FLOAT32, &sa, a);
        tmk_tensor_borrow(&tb, TMK_FLOAT32, &sb, b);
        tmk_tensor_borrow(&tr, TMK_FLOAT32, &so, r);
        for (int i = 0; i < MOST; i++)
            r[i] = -1;
        tmk_walk2(subtract, &ta, &sa, &tb, &sb, &tr);
        size_t n = tmk_tensor_count(&tr);
        for (size_t i = 0; i < n; i++)
            assert_true(r[i] == naive(a, &sa, &so, i) - naive(b, &sb, &so, i));
    }
    assert_true(broadcast > TRIALS / 10);
}

TEST(equal_shapes_walk_as_one_row) {
    struct tmk_walk w;
    struct tmk_shape image = {4, {2, 3, 4, 5}}, channel = {3, {3, 1, 1}}, last = {1, {5}};
    tmk_walk_init(&w, &image, 2, (const struct tmk_shape *const[]){&image, &image});
    assert_true(w.rows == 1 && w.n == 120 && w.vary[0] && w.vary[1]);
    tmk_walk_init(&w, &image, 2, (const struct tmk_shape *const[]){&image, &channel});
    assert_true(w.rows == 6 && w.n == 20 && w.vary[0] && !w.vary[1]);
    tmk_walk_init(&w, &image, 2, (const struct tmk_shape *const[]){&image, &last});
    assert_true(w.rows == 24 && w.n == 5 && w.vary[0] && w.vary[1]);
}

/* ---- many operands, choices, limits, casts ---- */

TEST(extremes_pass_nan_from_either_side) {
    const char *ab = "init %a : f32[3] = {nan, 1, 5}\ninit %b : f32[3] = {1, nan, 4}";
    gives(13, ab, "%y = Max(%a, %b)", "f32[3] = {nan, nan, 5}");
    gives(13, ab, "%y = Min(%a, %b)", "f32[3] = {nan, nan, 4}");
    gives(13, "init %a : u8[2] = {200, 1}\ninit %b : u8[] = {100}", "%y = Max(%a, %b)",
          "u8[2] = {200, 100}");
}

TEST(variadic_operators_take_one_or_many) {
    const char *abc = "init %a : f32[2] = {1, 2}\ninit %b : f32[2,1] = {10, 20}\n"
                      "init %c : f32[] = {100}";
    gives(13, abc, "%y = Sum(%a)", "f32[2] = {1, 2}");
    gives(13, abc, "%y = Sum(%c, %a, %b, %a)", "f32[2,2] = {112, 114, 122, 124}");
    gives(13, abc, "%y = Mean(%a, %b)", "f32[2,2] = {5.5, 6, 10.5, 11}");
    refuses(6, abc, "%y = Sum(%a, %b)", TMK_SHAPE, "before operator set 8");
    refuses(13, "init %a : i32[1] = {1}", "%y = Sum(%a)", TMK_TYPE, "int32");
}

TEST(where_chooses_among_broadcast_operands) {
    gives(9, "init %c : bool[2,1] = {1, 0}\ninit %x : i16[2] = {1, 2}\ninit %z : i16[] = {9}",
          "%y = Where(%c, %x, %z)", "i16[2,2] = {1, 2, 9, 9}");
    refuses(9, "init %c : u8[1] = {1}\ninit %x : f32[1] = {1}", "%y = Where(%c, %x, %x)", TMK_TYPE,
            "condition");
}

TEST(clip_lets_the_maximum_win) {
    const char *x = "init %x : f32[4] = {-inf, 0, nan, 7}\ninit %low : f32[] = {3}\n"
                    "init %high : f32[] = {1}\ninit %two : f32[2] = {0, 1}";
    gives(13, x, "%y = Clip(%x, %low, %high)", "f32[4] = {1, 1, nan, 1}");
    gives(13, x, "%y = Clip(%x, %low)", "f32[4] = {3, 3, nan, 7}");
    gives(13, x, "%y = Clip(%x, _, %high)", "f32[4] = {-3.40282347e38, 0, nan, 1}");
    gives(6, x, "%y = Clip(%x) {max=5f}", "f32[4] = {-3.40282347e38, 0, nan, 5}");
    gives(1, x, "%y = Clip(%x) {max=5f}", "f32[4] = {-inf, 0, nan, 5}");
    gives(12, "init %x : i8[3] = {-128, 5, 127}\ninit %low : i8[] = {-3}", "%y = Clip(%x, %low)",
          "i8[3] = {-3, 5, 127}");
    refuses(13, x, "%y = Clip(%x, %two)", TMK_SHAPE, "scalar");
}

TEST(casts_are_defined_for_every_value) {
    const char *x = "init %x : f32[6] = {nan, 1e30, -1e30, -1.9, 300.5, inf}";
    gives(13, x, "%y = Cast(%x) {to=2}", "u8[6] = {0, 255, 0, 0, 255, 255}");
    gives(13, x, "%y = Cast(%x) {to=3}", "i8[6] = {0, 127, -128, -1, 127, 127}");
    gives(13, x, "%y = Cast(%x) {to=6}",
          "i32[6] = {0, 2147483647, -2147483648, -1, 300, 2147483647}");
    gives(13, x, "%y = Cast(%x) {to=7}",
          "i64[6] = {0, 9223372036854775807, -9223372036854775808, -1, 300, 9223372036854775807}");
    gives(13, x, "%y = Cast(%x) {to=13}",
          "u64[6] = {0, 18446744073709551615, 0, 0, 300, 18446744073709551615}");
    gives(13, x, "%y = Cast(%x) {to=9}", "bool[6] = {1, 1, 1, 1, 1, 1}");
    gives(13, "init %x : i32[3] = {-1, 256, 2}", "%y = Cast(%x) {to=2}", "u8[3] = {255, 0, 2}");
    gives(13, "init %x : bool[2] = {1, 0}", "%y = Cast(%x) {to=11}", "f32[2] = {1, 0}");
    gives(1, "init %x : i64[1] = {-5}", "%y = Cast(%x) {to=\"FLOAT\"}", "f32[1] = {-5}");
    gives(15, "init %x : f32[1] = {2.7}\ninit %like : i16[3] = {0, 0, 0}",
          "%y = CastLike(%x, %like)", "i16[1] = {2}");
    refuses(13, x, "%y = Cast(%x) {to=8}", TMK_UNSUPPORTED, "string");
    refuses(13, x, "%y = Cast(%x) {to=-7}", TMK_UNSUPPORTED, "-7");
    refuses(1, x, "%y = Cast(%x) {to=\"STRING\"}", TMK_UNSUPPORTED, "STRING");
}

TEST(features_are_scaled_thresholded_and_picked) {
    static const char x[] = "init %x : f32[2,3] = {1, 2, 3, -3, 0, 4}";
    gives(17, x, "%y = ai.onnx.ml::Scaler.1(%x) {offset=[1f,2f,3f], scale=[2f]}",
          "f32[2,3] = {0, 0, 0, -8, -4, 2}");
    gives(17, x, "%y = ai.onnx.ml::Binarizer.1(%x) {threshold=1f}",
          "f32[2,3] = {0, 1, 1, 0, 0, 1}");
    gives(17, x, "%y = ai.onnx.ml::Normalizer.1(%x) {norm=\"L2\"}",
          "f32[2,3] = {0.26726124, 0.5345225, 0.8017837, -0.6, 0, 0.8}");
    gives(17, x, "%y = ai.onnx.ml::Normalizer.1(%x) {norm=\"L1\"}",
          "f32[2,3] = {0.16666667, 0.33333334, 0.5, -0.42857143, 0, 0.5714286}");
    gives(17, x, "%y = ai.onnx.ml::Normalizer.1(%x)",
          "f32[2,3] = {0.33333334, 0.6666667, 1, -0.75, 0, 1}");
    gives(17, "init %x : f32[2] = {7, 8}\ninit %i : i64[3] = {1, 0, 1}",
          "%y = ai.onnx.ml::ArrayFeatureExtractor.1(%x, %i)", "f32[1,3] = {8, 7, 8}");
    refuses(17, "init %x : f32[2] = {7, 8}\ninit %i : i64[1] = {2}",
            "%y = ai.onnx.ml::ArrayFeatureExtractor.1(%x, %i)", TMK_RANGE, "index 2");
    refuses(17, x, "%y = ai.onnx.ml::Scaler.1(%x) {scale=[1f,2f]}", TMK_SHAPE, "2 entries");
}
