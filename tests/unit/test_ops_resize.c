/* SPDX-License-Identifier: Apache-2.0 */
/* Resize, Upsample and blocks of depth: cases worked out by hand. */
#include "graph_text/read.h"
#include "ops_nn.h"

#define X4 "init %x : f32[4] = {0, 10, 20, 30}\n"
#define X2 "init %x : f32[2] = {0, 10}\n"

TEST(ties_go_where_the_nearest_mode_says) {
    const struct {
        const char *mode;
        float want[2];
    } cases[] = {{"round_prefer_floor", {0, 20}},
                 {"round_prefer_ceil", {10, 30}},
                 {"floor", {0, 20}},
                 {"ceil", {10, 30}}};
    char body[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) { /* at 0.5 and 2.5 */
        snprintf(body, sizeof body,
                 "%sinit %%s : f32[1] = {0.5}\n%%y = Resize(%%x, _, %%s) {nearest_mode=\"%s\"}", X4,
                 cases[i].mode);
        gives(13, body, "[2]", cases[i].want);
    }
    gives(13, X4 "init %s : f32[1] = {0.75}\n%y = Resize(%x, _, %s) {nearest_mode=\"floor\"}",
          "[3]", FLOATS(0, 10, 20)); /* at 1/6, 1.5 and 2 5/6 */
}

TEST(places_follow_the_transformation) {
    const struct {
        const char *mode, *size, *shape;
        float want[4];
    } cases[] = {
        {"half_pixel", "4", "[4]", {0, 2.5f, 7.5f, 10}},
        {"pytorch_half_pixel", "4", "[4]", {0, 2.5f, 7.5f, 10}},
        {"half_pixel_symmetric", "4", "[4]", {0, 2.5f, 7.5f, 10}},
        {"asymmetric", "4", "[4]", {0, 5, 10, 10}},
        {"align_corners", "3", "[3]", {0, 5, 10}},
        {"half_pixel", "1", "[1]", {5}},
        {"pytorch_half_pixel", "1", "[1]", {0}},
        {"align_corners", "1", "[1]", {0}},
    };
    char body[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(body, sizeof body,
                 "%sinit %%n : i64[1] = {%s}\n%%y = Resize(%%x, _, _, %%n) "
                 "{coordinate_transformation_mode=\"%s\", mode=\"linear\"}",
                 X2, cases[i].size, cases[i].mode);
        gives(19, body, cases[i].shape, cases[i].want);
    }
}

TEST(a_fractional_scale_is_kept_beside_the_whole_size) {
    /* 2 * 1.75 = 3.5: three elements. Places: (i + 0.5) / 1.75 - 0.5, symmetric: 1/7 further right
     */
    gives_type(19, X2 "init %s : f32[1] = {1.75}\n%y = Resize(%x, _, %s) {mode=\"linear\"}",
               TMK_FLOAT32, "[3]", FLOATS(0, 25 / 7.0f, 65 / 7.0f), 1e-5);
    gives_type(19,
               X2 "init %s : f32[1] = {1.75}\n%y = Resize(%x, _, %s) "
                  "{coordinate_transformation_mode=\"half_pixel_symmetric\", mode=\"linear\"}",
               TMK_FLOAT32, "[3]", FLOATS(0, 5, 10), 1e-5);
    /* places i / (3.5 - 1) */
    gives_type(19,
               X2 "init %s : f32[1] = {1.75}\n%y = Resize(%x, _, %s) "
                  "{coordinate_transformation_mode=\"align_corners\", mode=\"linear\"}",
               TMK_FLOAT32, "[3]", FLOATS(0, 4, 8), 1e-5);
}

TEST(a_region_is_cut_out_and_extrapolated) {
#define X5 "init %x : f32[1,5] = {0, 10, 20, 30, 40}\n"
#define CROP "coordinate_transformation_mode=\"tf_crop_and_resize\", extrapolation_value=-1f"
    gives(13,
          X5 "init %roi : f32[4] = {0, 0.25, 1, 1.25}\ninit %n : i64[2] = {1, 3}\n"
             "%y = Resize(%x, %roi, _, %n) {" CROP ", mode=\"linear\"}",
          "[1,3]", FLOATS(10, 30, -1));
    gives(18,
          X5 "init %roi : f32[2] = {-0.25, 0.75}\ninit %n : i64[1] = {3}\n"
             "%y = Resize(%x, %roi, _, %n) {axes=[-1], " CROP "}",
          "[1,3]", FLOATS(-1, 10, 30));
    gives(13, /* the same number of elements is no reason to leave them */
          X5 "init %roi : f32[4] = {0, 0, 1, 0.5}\ninit %n : i64[2] = {1, 5}\n"
             "%y = Resize(%x, %roi, _, %n) {" CROP ", mode=\"linear\"}",
          "[1,5]", FLOATS(0, 5, 10, 15, 20));
    refuses(13, X5 "init %n : i64[2] = {1, 3}\n%y = Resize(%x, _, _, %n) {" CROP "}", TMK_GRAPH,
            "'roi' is absent");
}

TEST(cubic_weights_are_those_of_the_kernel) {
    gives(13,
          "init %x : f32[5] = {0, 0, 1, 0, 0}\ninit %s : f32[1] = {2}\n"
          "%y = Resize(%x, _, %s) {mode=\"cubic\"}",
          "[10]",
          FLOATS(0, -0.03515625f, -0.10546875f, 0.26171875f, 0.87890625f, 0.87890625f, 0.26171875f,
                 -0.10546875f, -0.03515625f, 0));
    /* at -0.25: taps -2, -1 lie outside; what is left has weight 0.87890625 and -0.10546875 */
    gives_type(13,
               "init %x : f32[2] = {1, 0}\ninit %s : f32[1] = {2}\n"
               "%y = Resize(%x, _, %s) {exclude_outside=1, mode=\"cubic\"}",
               TMK_FLOAT32, "[4]", FLOATS(1.13636364f, 0.770547945f, 0.229452055f, -0.13636364f),
               1e-6);
}

TEST(antialiasing_stretches_the_kernel) {
    gives(18, X4 "init %s : f32[1] = {0.5}\n%y = Resize(%x, _, %s) {antialias=1, mode=\"linear\"}",
          "[2]", FLOATS(6.25f, 23.75f));
    gives_type(18,
               X4 "init %s : f32[1] = {0.5}\n"
                  "%y = Resize(%x, _, %s) {antialias=1, exclude_outside=1, mode=\"linear\"}",
               TMK_FLOAT32, "[2]", FLOATS(50 / 7.0f, 160 / 7.0f), 1e-5);
}

TEST(axes_are_interpolated_one_after_the_other) {
    gives(
        13,
        "init %x : f32[2,2] = {0, 8, 16, 24}\ninit %n : i64[2] = {3, 3}\n%y = Resize(%x, _, _, %n)"
        " {coordinate_transformation_mode=\"align_corners\", mode=\"linear\"}",
        "[3,3]", FLOATS(0, 4, 8, 8, 12, 16, 16, 20, 24));
}

TEST(one_scale_for_all_axes_keeps_the_aspect) {
#define X24 "init %x : i32[1,2,2] = {1, 2, 3, 4}\ninit %n : i64[2] = {4, 2}\n"
    gives_type(
        18, X24 "%y = Resize(%x, _, _, %n) {axes=[1,2], keep_aspect_ratio_policy=\"not_larger\"}",
        TMK_INT32, "[1,2,2]", FLOATS(1, 2, 3, 4), 0);
    gives_type(
        18, X24 "%y = Resize(%x, _, _, %n) {axes=[1,2], keep_aspect_ratio_policy=\"not_smaller\"}",
        TMK_INT32, "[1,4,4]", FLOATS(1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4), 0);
}

TEST(integers_are_cut_towards_zero) {
    gives_type(13,
               "init %x : u8[2] = {0, 255}\ninit %s : f32[1] = {2}\n"
               "%y = Resize(%x, _, %s) {mode=\"linear\"}",
               TMK_UINT8, "[4]", FLOATS(0, 63, 191, 255), 0);
    gives_type(13,
               "init %x : u8[2] = {0, 255}\ninit %s : f32[1] = {2}\n"
               "%y = Resize(%x, _, %s) {mode=\"cubic\"}",
               TMK_UINT8, "[4]", FLOATS(0, 57, 197, 255), 0);
    refuses(13,
            "init %x : bool[2] = {0, 1}\ninit %s : f32[1] = {2}\n"
            "%y = Resize(%x, _, %s) {mode=\"linear\"}",
            TMK_TYPE, "bool");
}

TEST(old_versions_round_down_when_enlarging_and_up_when_shrinking) {
    const char *x = "init %x : f32[1,1,1,10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}\n";
    char body[512];
    snprintf(body, sizeof body, "%sinit %%s : f32[4] = {1, 1, 1, 0.45}\n%%y = Resize(%%x, %%s)", x);
    gives(10, body, "[1,1,1,4]", FLOATS(0, 3, 5, 7));
    snprintf(body, sizeof body, "%s%%y = Upsample(%%x) {scales=[1f,1f,1f,1.25f]}", x);
    gives(7, body, "[1,1,1,12]", FLOATS(0, 0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 8));
    gives(1,
          "init %x : f32[1,1,1,2] = {0, 8}\n"
          "%y = Upsample(%x) {height_scale=2f, mode=\"bilinear\", width_scale=2f}",
          "[1,1,2,4]", FLOATS(0, 4, 8, 8, 0, 4, 8, 8));
}

TEST(sizes_that_mean_nothing_are_refused) {
    const struct {
        const char *rest, *why;
        enum tmk_status status;
    } cases[] = {
        {"init %s : f32[1] = {0}\n%y = Resize(%x, _, %s)", "scaled by 0", TMK_RANGE},
        {"init %s : f32[1] = {nan}\n%y = Resize(%x, _, %s)", "scaled by", TMK_RANGE},
        {"init %s : f32[1] = {1e30}\n%y = Resize(%x, _, %s)", "scaled by 1e+30", TMK_RANGE},
        {"init %s : f32[2] = {1, 1}\n%y = Resize(%x, _, %s)", "not [1]", TMK_SHAPE},
        {"init %n : i64[1] = {-1}\n%y = Resize(%x, _, _, %n)", "is to have -1", TMK_RANGE},
        {"init %s : f32[1] = {1}\ninit %n : i64[1] = {2}\n%y = Resize(%x, _, %s, %n)", "both",
         TMK_GRAPH},
        {"init %s : f32[0] = {}\n%y = Resize(%x, _, %s)", "none", TMK_GRAPH},
        {"init %s : f32[1] = {1}\n%y = Resize(%x, _, %s) {axes=[1]}", "axis 1", TMK_RANGE},
        {"init %s : f32[2] = {1, 1}\n%y = Resize(%x, _, %s) {axes=[0,-1]}", "names 2", TMK_RANGE},
        {"init %s : f32[1] = {2}\n%y = Resize(%x, _, %s) {mode=\"area\"}", "'area'", TMK_RANGE},
    };
    char body[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(body, sizeof body, "%s%s", X2, cases[i].rest);
        refuses(18, body, cases[i].status, cases[i].why);
    }
    refuses(18,
            "init %x : f32[1,2] = {1, 2}\ninit %n : i64[2] = {2305843009213693951, 1}\n"
            "%y = Resize(%x, _, _, %n) {keep_aspect_ratio_policy=\"not_smaller\"}",
            TMK_RANGE, "axis 1");
    gives(18, X2 "init %n : i64[1] = {0}\n%y = Resize(%x, _, _, %n) {mode=\"linear\"}", "[0]",
          NULL);
    gives(18,
          "init %x : f32[0,2] = {}\ninit %n : i64[2] = {0, 3}\n"
          "%y = Resize(%x, _, _, %n) {mode=\"cubic\"}",
          "[0,3]", NULL);
}

/* A scale of an input that is not known yet gives no shape, and no error. */
TEST(unknown_scales_leave_the_shape_open) {
    struct tmk_graph *graph = NULL;
    must(parse_graph("graph \"t\" opset 13 {\ninput %x : f32[2]\ninput %s : f32[1]\n"
                     "%y = Resize(%x, _, %s)\noutput %y\n}\n",
                     NULL, &graph, DIAG));
    must(tmk_ops_bind(graph, DIAG));
    struct tmk_shape two = {1, {2}}, one = {1, {1}};
    struct tmk_tensor x, s;
    tmk_tensor_borrow(&x, TMK_FLOAT32, &two, NULL);
    tmk_tensor_borrow(&s, TMK_FLOAT32, &one, NULL);
    struct tmk_infer_result out;
    must(tmk_op_infer(graph->first, (const struct tmk_tensor *[]){&x, NULL, &s}, &out, DIAG));
    assert_false(out.known);
    tmk_graph_destroy(&graph);
}

TEST(blocks_move_between_depth_and_space) {
#define DEPTH "init %x : i8[1,8,1,1] = {0, 1, 2, 3, 4, 5, 6, 7}\n"
#define SPACE "init %x : i8[1,2,2,2] = {0, 1, 2, 3, 4, 5, 6, 7}\n"
    gives_type(11, DEPTH "%y = DepthToSpace(%x) {blocksize=2}", TMK_INT8, "[1,2,2,2]",
               FLOATS(0, 2, 4, 6, 1, 3, 5, 7), 0);
    gives_type(11, DEPTH "%y = DepthToSpace(%x) {blocksize=2, mode=\"CRD\"}", TMK_INT8, "[1,2,2,2]",
               FLOATS(0, 1, 2, 3, 4, 5, 6, 7), 0);
    gives_type(11, SPACE "%y = SpaceToDepth(%x) {blocksize=2}", TMK_INT8, "[1,8,1,1]",
               FLOATS(0, 4, 1, 5, 2, 6, 3, 7), 0);
    gives_type(28, SPACE "%y = SpaceToDepth(%x) {blocksize=2, mode=\"CRD\"}", TMK_INT8, "[1,8,1,1]",
               FLOATS(0, 1, 2, 3, 4, 5, 6, 7), 0);
    refuses(11, DEPTH "%y = DepthToSpace(%x) {blocksize=3}", TMK_SHAPE, "no whole blocks");
    refuses(11, DEPTH "%y = DepthToSpace(%x) {blocksize=0}", TMK_RANGE, "'blocksize' is 0");
    refuses(11, SPACE "%y = SpaceToDepth(%x) {blocksize=3}", TMK_SHAPE, "no whole blocks");
    refuses(11, DEPTH "%y = DepthToSpace(%x) {blocksize=2, mode=\"RCD\"}", TMK_RANGE, "'RCD'");
}
