/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that pick places of their input (regions, indices, offsets, classes), and those that
 * carry a state along: cases worked out by hand. */
#include "ops_nn.h"

/* The second output, within a millionth. */
static void gives_second(int version, const char *body, const char *shape, const float *want) {
    struct tmk_diag diag;
    struct tmk_tensor out[OPERANDS];
    if (run_node(version, body, out, &diag) != TMK_OK)
        fail_msg("%s: %s", body, diag.text);
    check_output(body, &out[1], TMK_FLOAT32, shape, want, 1e-6);
    finish_outputs(out);
}

/* 0 1 2 3 / 4 5 6 7 / 8 9 10 11 / 12 13 14 15 */
#define IMAGE "init %x : f32[1,1,4,4] = {0,1,2,3, 4,5,6,7, 8,9,10,11, 12,13,14,15}\n"

TEST(regions_are_aligned_or_rounded) {
#define REGION IMAGE "init %r : f32[1,4] = {1, 1, 3, 3}\ninit %b : i64[1] = {0}\n"
    /* points (1.5, 1.5), (1.5, 2.5), ... before version 16; half an element less from then on */
    gives(10, REGION "%y = RoiAlign(%x, %r, %b) {output_height=2, output_width=2}", "[1,1,2,2]",
          FLOATS(7.5f, 8.5f, 11.5f, 12.5f));
    gives(16, REGION "%y = RoiAlign(%x, %r, %b) {output_height=2, output_width=2}", "[1,1,2,2]",
          FLOATS(5, 6, 9, 10));
    /* the largest product of a blend: all of one element, then a quarter of the lower right */
    gives(10, REGION "%y = RoiAlign(%x, %r, %b) {mode=\"max\", sampling_ratio=1}", "[1,1,1,1]",
          FLOATS(10));
    gives(10, REGION "%y = RoiAlign(%x, %r, %b) {mode=\"max\", output_height=2, output_width=2}",
          "[1,1,2,2]", FLOATS(2.5f, 2.75f, 3.5f, 3.75f));
    /* a region without extent is one element wide before version 16, and nothing from then on */
    gives(16,
          IMAGE "init %r : f32[1,4] = {3, 3, 1, 1}\ninit %b : i64[1] = {0}\n"
                "%y = RoiAlign(%x, %r, %b)",
          "[1,1,1,1]", FLOATS(0));
    gives(1,
          IMAGE "init %r : f32[2,5] = {0, 0, 0, 3, 3, 0, 2, 2, 9, 9}\n"
                "%y = MaxRoiPool(%x, %r) {pooled_shape=[2,2]}",
          "[2,1,2,2]", FLOATS(5, 7, 13, 15, 15, 0, 0, 0));
    refuses(10,
            IMAGE "init %r : f32[1,4] = {1, 1, 3, 3}\ninit %b : i64[1] = {1}\n"
                  "%y = RoiAlign(%x, %r, %b)",
            TMK_RANGE, "region 0 is of image 1 of 1");
    refuses(10,
            IMAGE "init %r : f32[1,4] = {1, 1, nan, 3}\ninit %b : i64[1] = {0}\n"
                  "%y = RoiAlign(%x, %r, %b)",
            TMK_RANGE, "region 0 is from");
}

TEST(unpooled_elements_come_back_to_their_places) {
#define POOLED "init %x : f32[1,1,1,2] = {5, 6}\ninit %i : i64[1,1,1,2] = {1, 6}\n"
    gives(11, POOLED "%y = MaxUnpool(%x, %i) {kernel_shape=[2,2], strides=[2,2]}", "[1,1,2,4]",
          FLOATS(0, 5, 0, 0, 0, 0, 6, 0));
    gives(11,
          POOLED "init %s : i64[4] = {1, 1, 2, 5}\n"
                 "%y = MaxUnpool(%x, %i, %s) {kernel_shape=[2,2], strides=[2,2]}",
          "[1,1,2,5]", FLOATS(0, 5, 0, 0, 0, 0, 6, 0, 0, 0));
    refuses(11, POOLED "%y = MaxUnpool(%x, %i) {kernel_shape=[1,2], strides=[1,2]}", TMK_RANGE,
            "element 1 of the indices is 6; the output has 4 elements");
}

TEST(moved_taps_are_blended) {
    /* taps at (0, 0.5) of a kernel of one; then beyond the border; then halved by the mask */
#define MOVED                                                                                      \
    "init %x : f32[1,1,1,3] = {1, 3, 7}\ninit %w : f32[1,1,1,1] = {2}\n"                           \
    "init %o : f32[1,2,1,3] = {0, 0, 0, 0.5, -2, 0.5}\n"
    gives(19, MOVED "%y = DeformConv(%x, %w, %o)", "[1,1,1,3]", FLOATS(4, 0, 7));
    gives(19,
          MOVED "init %b : f32[1] = {10}\ninit %m : f32[1,1,1,3] = {0.5, 1, 0}\n"
                "%y = DeformConv(%x, %w, %o, %b, %m)",
          "[1,1,1,3]", FLOATS(12, 10, 10));
    refuses(19, MOVED "%y = DeformConv(%x, %w, %o) {offset_group=2}", TMK_RANGE,
            "'offset_group' is 2");
    refuses(19, MOVED "%y = DeformConv(%x, %w, %o) {pads=[0,1,0,1]}", TMK_SHAPE,
            "input 'offset' has shape [1,2,1,3] instead of [1,2,1,5]");
}

TEST(losses_leave_ignored_places_out) {
#define PLACES                                                                                     \
    "init %x : f32[3,2] = {-1, -2, -3, -4, -5, -6}\ninit %t : i64[3] = {1, 0, -1}\n"               \
    "init %w : f32[2] = {1, 3}\n"
#define LIKELIHOOD(attrs) PLACES "%y = NegativeLogLikelihoodLoss(%x, %t, %w) {ignore_index=-1" attrs
    gives(13, LIKELIHOOD(", reduction=\"none\"}"), "[3]", FLOATS(6, 3, 0));
    gives(13, LIKELIHOOD(", reduction=\"sum\"}"), "[]", FLOATS(9));
    gives(13, LIKELIHOOD("}"), "[]", FLOATS(9 / 4.0f));
    gives(13,
          "init %x : f32[1,2] = {0, 1.0986123}\ninit %t : i32[1] = {0}\n"
          "%y, %p = SoftmaxCrossEntropyLoss(%x, %t)",
          "[]", FLOATS(1.3862944f));
    gives_second(13,
                 "init %x : f32[1,2] = {0, 1.0986123}\ninit %t : i32[1] = {0}\n"
                 "%y, %p = SoftmaxCrossEntropyLoss(%x, %t)",
                 "[1,2]", FLOATS(-1.3862944f, -0.2876821f));
    refuses(13, PLACES "%y = NegativeLogLikelihoodLoss(%x, %t, %w)", TMK_RANGE,
            "element 2 of input 1 is class -1 of 2");
}

TEST(states_are_carried_along) {
#define CAUSAL                                                                                     \
    "init %x : f32[1,1,2] = {3, 4}\ninit %w : f32[1,1,3] = {100, 10, 1}\n"                         \
    "init %s : f32[1,1,2] = {1, 2}\n"
    gives(27, CAUSAL "%y, %n = CausalConvWithState(%x, %w, _, %s)", "[1,1,2]", FLOATS(123, 234));
    gives(27, CAUSAL "%y, %n = CausalConvWithState(%x, %w)", "[1,1,2]", FLOATS(3, 34));
    gives_second(27, CAUSAL "%y, %n = CausalConvWithState(%x, %w, _, %s)", "[1,1,2]", FLOATS(3, 4));
    /* one head, one key, one value: S = 2, then 2 + 3 * 5, or 2 + 3 * (5 - 2 * 3) / 2 */
#define TOKENS                                                                                     \
    "init %q : f32[1,2,1] = {1, 10}\ninit %k : f32[1,2,1] = {1, 3}\n"                              \
    "init %v : f32[1,2,1] = {2, 5}\ninit %b : f32[1,2,1] = {1, 0.5}\n"
#define HEADS "q_num_heads=1, kv_num_heads=1, update_rule="
    gives(27, TOKENS "%y, %n = LinearAttention(%q, %k, %v) {" HEADS "\"linear\"}", "[1,2,1]",
          FLOATS(2, 170));
    gives(27, TOKENS "%y, %n = LinearAttention(%q, %k, %v, _, _, %b) {" HEADS "\"delta\"}",
          "[1,2,1]", FLOATS(2, 5));
    refuses(27, TOKENS "%y, %n = LinearAttention(%q, %k, %v) {" HEADS "\"delta\"}", TMK_GRAPH,
            "update_rule 'delta' needs input 'beta'");
}

TEST(running_products_go_either_way) {
#define FACTORS "init %x : i32[3] = {2, 3, 4}\ninit %a : i64[] = {0}\n%y = CumProd(%x, %a)"
    gives_type(26, FACTORS, TMK_INT32, "[3]", FLOATS(2, 6, 24), 0);
    gives_type(26, FACTORS " {exclusive=1, reverse=1}", TMK_INT32, "[3]", FLOATS(12, 4, 1), 0);
}

TEST(bits_keep_their_places) {
    gives_type(26, "init %x : f32[2] = {1, -0.0}\n%y = BitCast(%x) {to=12}", TMK_UINT32, "[2]",
               FLOATS(0x3f800000, 0x80000000), 0);
    /* of 64 bits only doubles are held as float32 */
    gives_type(26, "init %x : f32[2] = {1, -2.5}\n%y = BitCast(%x) {to=7}", TMK_INT64, "[2]",
               FLOATS(0x3ff0000000000000, -0x3ffc000000000000), 0);
    gives_type(26,
               "init %x : i64[2] = {4607182418800017408, 4614256656552045848}\n"
               "%y = BitCast(%x) {to=11}",
               TMK_FLOAT32, "[2]", FLOATS(1, 3.14159265f), 0);
    refuses(26, "init %x : f32[1] = {1}\n%y = BitCast(%x) {to=5}", TMK_TYPE, "the same width");
    refuses(26, "init %x : i32[1] = {1}\n%y = BitCast(%x) {to=10}", TMK_UNSUPPORTED, "float16");
}

TEST(frames_are_transformed_one_by_one) {
    gives_type(17,
               "init %x : f32[1,5,1] = {1, 2, 3, 4, 5}\ninit %s : i64[] = {3}\n"
               "init %w : f32[2] = {1, 2}\n%y = STFT(%x, %s, %w)",
               TMK_FLOAT32, "[1,2,2,2]", FLOATS(5, 0, -3, 0, 14, 0, -6, 0), 1e-6);
    refuses(17, "init %x : f32[1,5,1] = {1, 2, 3, 4, 5}\ninit %s : i64[] = {0}\n%y = STFT(%x, %s)",
            TMK_RANGE, "'frame_step' is 0");
    refuses(17,
            "init %n : i64[] = {2}\ninit %d : i64[] = {8}\ninit %r : i64[] = {100}\n"
            "init %l : f32[] = {0}\ninit %u : f32[] = {4000}\n"
            "%y = MelWeightMatrix(%n, %d, %r, %l, %u)",
            TMK_RANGE, "above half the sample rate");
    refuses(17,
            "init %n : i64[] = {2}\ninit %d : i64[] = {8}\ninit %r : i64[] = {1}\n"
            "init %l : f32[] = {0}\ninit %u : f32[] = {3e38}\n"
            "%y = MelWeightMatrix(%n, %d, %r, %l, %u)",
            TMK_RANGE, "above half the sample rate");
}

TEST(optimizers_take_one_step) {
#define STEP(count)                                                                                \
    "init %r : f32[] = {0.5}\ninit %t : i64[] = {" count "}\ninit %x : f32[2] = {1, 2}\n"          \
    "init %g : f32[2] = {0, 3}\ninit %h : f32[2] = {4, 7}\n"
    gives(17,
          STEP("1") "%y, %z = ai.onnx.preview.training::Adagrad.1(%r, %t, %x, %g, %h) "
                    "{decay_factor=1f, epsilon=1f}",
          "[2]", FLOATS(1, 1.85f));
    gives_second(17, STEP("1") "%y, %z = ai.onnx.preview.training::Adagrad.1(%r, %t, %x, %g, %h)",
                 "[2]", FLOATS(4, 16));
    gives_type(17,
               STEP("0") "%y, %z, %u = ai.onnx.preview.training::Adam.1(%r, %t, %x, %g, %h, %h) "
                         "{alpha=0.5f, beta=0.5f, epsilon=1f, norm_coefficient_post=0.5f}",
               TMK_FLOAT32, "[2]", FLOATS(0.29289322f, 0.67349516f), 1e-6);
    gives(17,
          STEP("3") "%y, %z = ai.onnx.preview.training::Momentum.1(%r, %t, %x, %g, %h) "
                    "{alpha=0.5f, beta=2f, norm_coefficient=0f, mode=\"standard\"}",
          "[2]", FLOATS(0, -2.75f));
    gives(17,
          STEP("0") "%y, %z = ai.onnx.preview.training::Momentum.1(%r, %t, %x, %g, %h) "
                    "{alpha=0.5f, beta=2f, norm_coefficient=1f, mode=\"nesterov\"}",
          "[2]", FLOATS(-0.25f, -2.625f));
    refuses(17,
            STEP("0") "init %s : f32[1] = {1}\n"
                      "%y, %z = ai.onnx.preview.training::Adagrad.1(%r, %t, %x, %g, %s)",
            TMK_SHAPE, "input 4 has another shape");
}
