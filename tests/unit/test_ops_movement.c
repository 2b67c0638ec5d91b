/* SPDX-License-Identifier: Apache-2.0 */
/* Moving data about: cases worked out by hand, and what must be refused. */
#include "ops_nn.h"

static void check_shape(const char *body, const struct tmk_tensor *out, enum tmk_dtype dtype,
                        const char *shape) {
    char text[256];
    assert_int_equal(out->dtype, dtype);
    tmk_shape_text(&out->shape, text, sizeof text);
    if (strcmp(text, shape) != 0)
        fail_msg("%s: shape %s instead of %s", body, text, shape);
}

static void check_floats(const char *body, const struct tmk_tensor *out, const char *shape,
                         const float *want) {
    check_shape(body, out, TMK_FLOAT32, shape);
    const float *got = out->data;
    for (size_t i = 0; i < tmk_tensor_count(out); i++)
        if (got[i] != want[i])
            fail_msg("%s: element %zu is %g instead of %g", body, i, (double)got[i],
                     (double)want[i]);
}

static void gives_int64(int version, const char *body, const char *shape, const int64_t *want) {
    struct tmk_diag diag;
    struct tmk_tensor out[OPERANDS];
    assert_ok(run_node(version, body, out, &diag), &diag);
    check_shape(body, &out[0], TMK_INT64, shape);
    assert_memory_equal(out[0].data, want, tmk_tensor_bytes(&out[0]));
    tmk_tensor_finish(&out[0]);
}

#define INTS(...) ((const int64_t[]){__VA_ARGS__})

TEST(slice_walks_backwards_and_clamps) {
    const char *x = "init %x : f32[5] = {0, 1, 2, 3, 4}\n";
    const struct {
        const char *start, *end, *step, *shape;
        float want[5];
    } cases[] = {
        {"-1", "-9223372036854775808", "-1", "[5]", {4, 3, 2, 1, 0}},
        {"100", "0", "-2", "[2]", {4, 2}},
        {"3", "-6", "-9223372036854775808", "[1]", {3}},
        {"1", "9223372036854775807", "9223372036854775807", "[1]", {1}},
        {"-100", "2", "1", "[2]", {0, 1}},
        {"0", "-100", "-1", "[1]", {0}},
        {"3", "3", "1", "[0]", {0}},
        {"1", "4", "-1", "[0]", {0}},
        {"5", "100", "1", "[0]", {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[512];
        snprintf(body, sizeof body,
                 "%sinit %%s : i64[1] = {%s}\ninit %%e : i64[1] = {%s}\ninit %%a : i64[1] = {0}\n"
                 "init %%p : i64[1] = {%s}\n%%y = Slice(%%x, %%s, %%e, %%a, %%p)",
                 x, cases[i].start, cases[i].end, cases[i].step);
        gives(13, body, cases[i].shape, cases[i].want);
    }
}

TEST(slice_of_nothing_backwards_is_nothing) {
    gives(13,
          "init %x : f32[0] = {}\ninit %s : i64[1] = {-1}\ninit %e : i64[1] = {-5}\n"
          "init %a : i64[1] = {0}\ninit %p : i64[1] = {-1}\n%y = Slice(%x, %s, %e, %a, %p)",
          "[0]", NULL);
}

TEST(slice_refuses_what_has_no_meaning) {
    const char *head = "init %x : f32[2,2] = {0, 1, 2, 3}\ninit %s : i64[2] = {0, 0}\n"
                       "init %e : i64[2] = {1, 1}\ninit %z : i64[2] = {1, 0}\n"
                       "init %t : i64[2] = {1, -1}\ninit %f : i64[2] = {0, 2}\n"
                       "init %one : i64[1] = {0}\n";
    char body[512];
    snprintf(body, sizeof body, "%s%%y = Slice(%%x, %%s, %%e, _, %%z)", head);
    refuses(13, body, TMK_RANGE, "step on axis 1 is 0");
    snprintf(body, sizeof body, "%s%%y = Slice(%%x, %%s, %%e, %%t)", head);
    refuses(13, body, TMK_RANGE, "axis 1 is named twice");
    snprintf(body, sizeof body, "%s%%y = Slice(%%x, %%s, %%e, %%f)", head);
    refuses(13, body, TMK_RANGE, "axis 2");
    snprintf(body, sizeof body, "%s%%y = Slice(%%x, %%s, %%one)", head);
    refuses(13, body, TMK_SHAPE, "differ in length");
}

TEST(gather_counts_from_the_end_and_checks_its_range) {
    gives(13,
          "init %x : f32[3,2] = {0, 1, 2, 3, 4, 5}\ninit %i : i64[2] = {-1, 0}\n"
          "%y = Gather(%x, %i)",
          "[2,2]", FLOATS(4, 5, 0, 1));
    gives(13,
          "init %x : f32[3,2] = {0, 1, 2, 3, 4, 5}\ninit %i : i32[] = {1}\n"
          "%y = Gather(%x, %i) {axis=1}",
          "[3]", FLOATS(1, 3, 5));
    refuses(13,
            "init %x : f32[3,2] = {0, 1, 2, 3, 4, 5}\ninit %i : i64[2] = {0, 3}\n"
            "%y = Gather(%x, %i)",
            TMK_RANGE, "index 3");
    refuses(13,
            "init %x : f32[3,2] = {0, 1, 2, 3, 4, 5}\ninit %i : i64[1] = {-4}\n"
            "%y = Gather(%x, %i)",
            TMK_RANGE, "index -4");
    refuses(13, "init %x : f32[2] = {0, 1}\ninit %i : f32[1] = {0}\n%y = Gather(%x, %i)", TMK_TYPE,
            "indices");
}

TEST(scatter_adds_every_duplicate) {
    gives(16,
          "init %x : f32[2,3] = {1, 2, 3, 4, 5, 6}\ninit %i : i64[2,2] = {0, 0, -1, 2}\n"
          "init %u : f32[2,2] = {10, 20, 30, 40}\n"
          "%y = ScatterElements(%x, %i, %u) {axis=1, reduction=\"add\"}",
          "[2,3]", FLOATS(31, 2, 3, 4, 5, 76));
}

TEST(a_maximum_with_nan_is_nan) {
    struct tmk_diag diag;
    struct tmk_tensor out[OPERANDS];
    assert_ok(run_node(18,
                       "init %x : f32[3] = {1, nan, 3}\ninit %i : i64[4,1] = {0, 0, 1, 2}\n"
                       "init %u : f32[4] = {-1, 5, 2, nan}\n"
                       "%y = ScatterND(%x, %i, %u) {reduction=\"max\"}",
                       out, &diag),
              &diag);
    const float *y = out[0].data;
    assert_true(y[0] == 5.0f && isnan(y[1]) && isnan(y[2]));
    tmk_tensor_finish(&out[0]);
}

TEST(pads_reflect_repeat_and_wrap) {
    const char *x = "init %x : f32[1,3] = {1, 2, 3}\n";
    char body[512];
    snprintf(body, sizeof body,
             "%sinit %%p : i64[4] = {0, 5, 0, 4}\n%%y = Pad(%%x, %%p) {mode=\"reflect\"}", x);
    gives(13, body, "[1,12]", FLOATS(2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3));
    snprintf(body, sizeof body,
             "%sinit %%p : i64[4] = {1, 2, 0, 1}\n%%y = Pad(%%x, %%p) {mode=\"edge\"}", x);
    gives(13, body, "[2,6]", FLOATS(1, 1, 1, 2, 3, 3, 1, 1, 1, 2, 3, 3));
    snprintf(body, sizeof body,
             "%sinit %%p : i64[4] = {0, 4, 0, 2}\n%%y = Pad(%%x, %%p) {mode=\"wrap\"}", x);
    gives(19, body, "[1,9]", FLOATS(3, 1, 2, 3, 1, 2, 3, 1, 2));
    gives(18, body, "[1,9]", FLOATS(3, 1, 2, 3, 1, 2, 3, 1, 2)); /* as exporters write it */
}

TEST(negative_pads_cut_before_the_others_fill) {
    gives(13,
          "init %x : f32[4] = {1, 2, 3, 4}\ninit %p : i64[2] = {-1, 2}\ninit %c : f32[] = {9}\n"
          "%y = Pad(%x, %p, %c)",
          "[5]", FLOATS(2, 3, 4, 9, 9));
    gives(13,
          "init %x : f32[4] = {1, 2, 3, 4}\ninit %p : i64[2] = {2, -1}\n"
          "%y = Pad(%x, %p) {mode=\"reflect\"}",
          "[5]", FLOATS(3, 2, 1, 2, 3));
    refuses(13, "init %x : f32[2] = {1, 2}\ninit %p : i64[2] = {-2, -1}\n%y = Pad(%x, %p)",
            TMK_RANGE, "cut off");
    refuses(13,
            "init %x : f32[0] = {}\ninit %p : i64[2] = {1, 1}\n%y = Pad(%x, %p) {mode=\"edge\"}",
            TMK_SHAPE, "no elements");
}

TEST(split_leaves_the_rest_to_the_last) {
    struct tmk_diag diag;
    struct tmk_tensor out[OPERANDS];
    const char *body = "init %x : f32[7] = {0, 1, 2, 3, 4, 5, 6}\n"
                       "%y, %z, %u = Split(%x) {num_outputs=3}";
    assert_ok(run_node(18, body, out, &diag), &diag);
    check_floats(body, &out[0], "[3]", FLOATS(0, 1, 2));
    check_floats(body, &out[1], "[3]", FLOATS(3, 4, 5));
    check_floats(body, &out[2], "[1]", FLOATS(6));
    for (int i = 0; i < 3; i++)
        tmk_tensor_finish(&out[i]);
    refuses(18, "init %x : f32[4] = {0, 1, 2, 3}\n%y, %z = Split(%x)", TMK_GRAPH, "neither");
    refuses(18, "init %x : f32[4] = {0, 1, 2, 3}\n%y, %z = Split(%x) {num_outputs=3}", TMK_SHAPE,
            "num_outputs is 3");
    refuses(13, "init %x : f32[3] = {0, 1, 2}\n%y, %z = Split(%x)", TMK_SHAPE, "equal parts");
    refuses(13, "init %x : f32[3] = {0, 1, 2}\ninit %s : i64[2] = {4, -1}\n%y, %z = Split(%x, %s)",
            TMK_RANGE, "length -1");
    refuses(13, "init %x : f32[3] = {0, 1, 2}\ninit %s : i64[2] = {1, 1}\n%y, %z = Split(%x, %s)",
            TMK_SHAPE, "add up to 2");
}

static void reshape_gives(int version, const char *in, const char *shape, const char *attrs,
                          const char *want) {
    char body[512];
    struct tmk_diag diag;
    struct tmk_tensor out[OPERANDS];
    snprintf(body, sizeof body, "init %%x : %s\ninit %%s : %s\n%%y = Reshape(%%x, %%s)%s", in,
             shape, attrs);
    assert_ok(run_node(version, body, out, &diag), &diag);
    check_shape(body, &out[0], TMK_FLOAT32, want);
    tmk_tensor_finish(&out[0]);
}

static void reshape_refuses(int version, const char *in, const char *shape, const char *attrs,
                            enum tmk_status status, const char *why) {
    char body[512];
    snprintf(body, sizeof body, "init %%x : %s\ninit %%s : %s\n%%y = Reshape(%%x, %%s)%s", in,
             shape, attrs);
    refuses(version, body, status, why);
}

TEST(reshape_copies_zero_and_solves_minus_one) {
    const char *six = "f32[2,3,1] = {0, 1, 2, 3, 4, 5}", *none = "f32[0,3] = {}";
    reshape_gives(13, six, "i64[2] = {0, -1}", "", "[2,3]");
    reshape_gives(13, six, "i64[3] = {-1, 0, 2}", "", "[1,3,2]");
    reshape_gives(13, "f32[1] = {7}", "i64[0] = {}", "", "[]");
    reshape_gives(13, none, "i64[3] = {0, 3, 7}", "", "[0,3,7]");
    reshape_gives(14, none, "i64[3] = {3, 0, 7}", " {allowzero=1}", "[3,0,7]");
    reshape_refuses(13, six, "i64[2] = {-1, -1}", "", TMK_SHAPE, "-1 twice");
    reshape_refuses(13, six, "i64[2] = {4, -1}", "", TMK_SHAPE, "so -1 has no size");
    reshape_refuses(13, six, "i64[1] = {7}", "", TMK_SHAPE, "do not fit");
    reshape_refuses(13, six, "i64[4] = {2, 3, 1, 0}", "", TMK_SHAPE, "dimension 3");
    reshape_refuses(13, six, "i64[2] = {-2, 3}", "", TMK_RANGE, "is -2");
    reshape_refuses(13, six, "i64[2] = {4611686018427387904, 4}", "", TMK_RANGE, "too large");
    reshape_refuses(13, none, "i64[2] = {0, -1}", "", TMK_SHAPE, "so -1 has no size");
    reshape_refuses(14, none, "i64[2] = {0, -1}", " {allowzero=1}", TMK_SHAPE, "allowzero");
}

TEST(squeeze_and_unsqueeze_check_their_axes) {
    gives(13, "init %x : f32[1,2,1] = {3, 4}\ninit %a : i64[1] = {-1}\n%y = Squeeze(%x, %a)",
          "[1,2]", FLOATS(3, 4));
    refuses(13, "init %x : f32[1,2,1] = {3, 4}\ninit %a : i64[1] = {1}\n%y = Squeeze(%x, %a)",
            TMK_SHAPE, "cannot be squeezed");
    gives(13, "init %x : f32[] = {3}\ninit %a : i64[2] = {-1, 0}\n%y = Unsqueeze(%x, %a)", "[1,1]",
          FLOATS(3));
    refuses(13, "init %x : f32[2] = {3, 4}\ninit %a : i64[2] = {0, -3}\n%y = Unsqueeze(%x, %a)",
            TMK_RANGE, "named twice");
}

TEST(transpose_moves_planes_larger_than_a_tile) {
    enum { A = 3, B = 37, C = 21 };
    struct tmk_graph *graph = NULL;
    struct tmk_tensor in, out;
    must(parse_graph("graph \"t\" opset 13 {\n input %x : f32[3,37,21]\n"
                     " %y = Transpose(%x) {perm=[0,2,1]}\n output %y\n}",
                     NULL, &graph, DIAG));
    must(tmk_ops_bind(graph, DIAG));
    must(tmk_tensor_init(&in, TMK_FLOAT32, &(struct tmk_shape){3, {A, B, C}}, DIAG));
    for (int i = 0; i < A * B * C; i++)
        ((float *)in.data)[i] = (float)i;
    const struct tmk_tensor *inputs[] = {&in};
    must(tmk_op_run(graph->first, inputs, &out, DIAG));
    check_shape("transpose", &out, TMK_FLOAT32, "[3,21,37]");
    for (int a = 0; a < A; a++)
        for (int c = 0; c < C; c++)
            for (int b = 0; b < B; b++)
                assert_true(((float *)out.data)[(a * C + c) * B + b] ==
                            (float)((a * B + b) * C + c));
    tmk_tensor_finish(&in);
    tmk_tensor_finish(&out);
    tmk_graph_destroy(&graph);
}

TEST(tile_and_expand_repeat_whole_blocks) {
    gives(13, "init %x : f32[2,2] = {1, 2, 3, 4}\ninit %r : i64[2] = {2, 2}\n%y = Tile(%x, %r)",
          "[4,4]", FLOATS(1, 2, 1, 2, 3, 4, 3, 4, 1, 2, 1, 2, 3, 4, 3, 4));
    gives(13, "init %x : f32[2,1] = {1, 2}\ninit %s : i64[3] = {2, 1, 3}\n%y = Expand(%x, %s)",
          "[2,2,3]", FLOATS(1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2));
    refuses(13, "init %x : f32[2] = {1, 2}\ninit %s : i64[1] = {3}\n%y = Expand(%x, %s)", TMK_SHAPE,
            "broadcast");
    refuses(13,
            "init %x : f32[2] = {1, 2}\ninit %r : i64[1] = {9223372036854775807}\n"
            "%y = Tile(%x, %r)",
            TMK_RANGE, "overflows");
}

TEST(ranges_end_before_their_limit) {
    gives_int64(13,
                "init %a : i64[] = {10}\ninit %b : i64[] = {4}\ninit %c : i64[] = {-2}\n"
                "%y = Range(%a, %b, %c)",
                "[3]", INTS(10, 8, 6));
    gives(13,
          "init %a : f32[] = {0}\ninit %b : f32[] = {1}\ninit %c : f32[] = {0.25}\n"
          "%y = Range(%a, %b, %c)",
          "[4]", FLOATS(0, 0.25f, 0.5f, 0.75f));
    gives_int64(
        13,
        "init %a : i64[] = {-9223372036854775808}\ninit %b : i64[] = {9223372036854775807}\n"
        "init %c : i64[] = {9223372036854775807}\n%y = Range(%a, %b, %c)",
        "[3]", INTS(INT64_MIN, -1, INT64_MAX - 1));
    refuses(13,
            "init %a : f32[] = {0}\ninit %b : f32[] = {nan}\ninit %c : f32[] = {1}\n"
            "%y = Range(%a, %b, %c)",
            TMK_RANGE, "no end");
    refuses(13,
            "init %a : i64[] = {0}\ninit %b : i64[] = {1}\ninit %c : i64[] = {0}\n"
            "%y = Range(%a, %b, %c)",
            TMK_RANGE, "no end");
}

TEST(zeros_of_either_sign_are_zero) {
    gives_int64(13, "init %x : f32[2,2] = {-0.0, nan, 0, -1}\n%y = NonZero(%x)", "[2,2]",
                INTS(0, 1, 1, 1));
    gives_int64(13, "init %x : i64[] = {5}\n%y = NonZero(%x)", "[0,1]", NULL);
}

TEST(unique_keeps_first_occurrences) {
    struct tmk_diag diag;
    struct tmk_tensor out[OPERANDS];
    const char *body = "init %x : f32[6] = {2, 1, nan, 3, nan, 1}\n"
                       "%y, %i, %v, %c = Unique(%x) {sorted=0}\ninit %u : f32[1] = {0}";
    assert_ok(run_node(11, body, out, &diag), &diag);
    check_shape(body, &out[0], TMK_FLOAT32, "[4]");
    assert_memory_equal(out[1].data, INTS(0, 1, 2, 3), 4 * sizeof(int64_t));
    assert_memory_equal(out[2].data, INTS(0, 1, 2, 3, 2, 1), 6 * sizeof(int64_t));
    assert_memory_equal(out[3].data, INTS(1, 2, 2, 1), 4 * sizeof(int64_t));
    for (int i = 0; i < 4; i++)
        tmk_tensor_finish(&out[i]);
}

TEST(constants_take_one_value_only) {
    gives(13, "%y = Constant() {value_floats=[1f,2f]}", "[2]", FLOATS(1, 2));
    refuses(13, "%y = Constant() {value_int=1, value_float=2f}", TMK_GRAPH, "both");
    refuses(13, "%y = Constant()", TMK_GRAPH, "no value");
    refuses(13, "%y = Constant() {value_string=\"a\"}", TMK_UNSUPPORTED, "string");
}

TEST(einsum_sums_what_the_result_does_not_name) {
    const char *two = "init %a : f32[2,2] = {1, 2, 3, 4}\ninit %b : f32[2,2] = {5, 6, 7, 8}\n";
    char body[512];
    gives(13, "init %a : f32[2,2] = {1, 2, 3, 4}\n%y = Einsum(%a) {equation=\"ii\"}", "[]",
          FLOATS(5));
    gives(13, "init %a : f32[2,2] = {1, 2, 3, 4}\n%y = Einsum(%a) {equation=\"ba\"}", "[2,2]",
          FLOATS(1, 3, 2, 4));
    gives(13, "init %a : f32[2,0] = {}\n%y = Einsum(%a) {equation=\"ij->i\"}", "[2]", FLOATS(0, 0));
    snprintf(body, sizeof body, "%s%%y = Einsum(%%a, %%b) {equation=\"ij, jk\"}", two);
    gives(13, body, "[2,2]", FLOATS(19, 22, 43, 50));
    snprintf(body, sizeof body, "%s%%y = Einsum(%%a, %%b) {equation=\"ij,kj->ki\"}", two);
    gives(13, body, "[2,2]", FLOATS(17, 39, 23, 53));
    snprintf(body, sizeof body, "%s%%y = Einsum(%%a, %%b) {equation=\"ij,kl->\"}", two);
    gives(13, body, "[]", FLOATS(260));
    snprintf(body, sizeof body, "%s%%y = Einsum(%%a, %%b) {equation=\"ij,jk->iz\"}", two);
    refuses(13, body, TMK_RANGE, "'z'");
    snprintf(body, sizeof body, "%s%%y = Einsum(%%a, %%b) {equation=\"ij->i\"}", two);
    refuses(13, body, TMK_SHAPE, "not for 2 inputs");
    snprintf(body, sizeof body, "%s%%y = Einsum(%%a, %%b) {equation=\"ijk,jk\"}", two);
    refuses(13, body, TMK_SHAPE, "fewer than its term");
}

TEST(blocks_that_overlap_add_up) {
    /* two blocks of 2x1 on a column of 3: the middle belongs to both */
    gives(18,
          "init %x : f32[1,2,2] = {1, 2, 10, 20}\ninit %i : i64[2] = {3, 1}\n"
          "init %b : i64[2] = {2, 1}\n%y = Col2Im(%x, %i, %b)",
          "[1,1,3,1]", FLOATS(1, 12, 20));
    refuses(18,
            "init %x : f32[1,2,3] = {1, 2, 3, 4, 5, 6}\ninit %i : i64[2] = {3, 1}\n"
            "init %b : i64[2] = {2, 1}\n%y = Col2Im(%x, %i, %b)",
            TMK_SHAPE, "2 places");
}

TEST(grids_look_up_points_between_elements) {
    const char *x = "init %x : f32[1,1,1,3] = {0, 10, 20}\n"
                    "init %g : f32[1,1,4,2] = {-1, 0, 0.5, 0, 0.75, 0, 3, 0}\n";
    char body[512];
    snprintf(body, sizeof body, "%s%%y = GridSample(%%x, %%g) {align_corners=1}", x);
    gives(20, body, "[1,1,1,4]", FLOATS(0, 15, 17.5f, 0));
    snprintf(body, sizeof body,
             "%s%%y = GridSample(%%x, %%g) {align_corners=1, padding_mode=\"reflection\"}", x);
    gives(20, body, "[1,1,1,4]", FLOATS(0, 15, 17.5f, 0));
    snprintf(body, sizeof body,
             "%s%%y = GridSample(%%x, %%g) {align_corners=1, padding_mode=\"border\", "
             "mode=\"nearest\"}",
             x);
    gives(20, body, "[1,1,1,4]", FLOATS(0, 20, 20, 20)); /* 1.5 goes to the even 2 */
}

TEST(the_best_of_overlapping_boxes_stays) {
    const char *head = "init %b : f32[1,3,4] = {0, 0, 2, 2, 2, 2.5, 0, 0.5, 5, 5, 6, 6}\n"
                       "init %s : f32[1,1,3] = {0.5, 0.75, 0.25}\ninit %m : i64[] = {9}\n";
    char body[512];
    snprintf(body, sizeof body,
             "%sinit %%o : f32[] = {0.5}\n%%y = NonMaxSuppression(%%b, %%s, %%m, %%o)", head);
    gives_int64(11, body, "[2,3]", INTS(0, 0, 1, 0, 0, 2));
    snprintf(body, sizeof body,
             "%sinit %%o : f32[] = {0.75}\ninit %%t : f32[] = {0.25}\n"
             "%%y = NonMaxSuppression(%%b, %%s, %%m, %%o, %%t)",
             head);
    gives_int64(11, body, "[2,3]", INTS(0, 0, 1, 0, 0, 0));
    snprintf(body, sizeof body, "%s%%y = NonMaxSuppression(%%b, %%s)", head);
    gives_int64(11, body, "[0,3]", NULL);
}

TEST(dynamic_slices_take_their_bounds_from_inputs) {
    gives(9,
          "init %x : f32[2,3] = {1, 2, 3, 4, 5, 6}\ninit %s : i64[2] = {0, 1}\n"
          "init %e : i64[2] = {1, 1000}\n%y = DynamicSlice(%x, %s, %e)",
          "[1,2]", FLOATS(2, 3));
    gives(1,
          "init %x : f32[2,3] = {1, 2, 3, 4, 5, 6}\ninit %s : i64[1] = {-2}\n"
          "init %e : i64[1] = {-1}\ninit %a : i64[1] = {1}\n%y = DynamicSlice(%x, %s, %e, %a)",
          "[2,1]", FLOATS(2, 5));
}
