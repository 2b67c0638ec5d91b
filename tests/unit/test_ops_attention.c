/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and what stands around it: cases worked out by hand. */
#include "ops_nn.h"

/* One head of size 1; scores are 0, so that all attended positions have the same weight. */
#define QKV                                                                                        \
    "init %q : f32[1,1,3,1] = {0, 0, 0}\ninit %k : f32[1,1,3,1] = {1, 2, 3}\n"                     \
    "init %v : f32[1,1,3,1] = {4, 8, 30}\n"

TEST(who_is_attended_is_averaged) {
    gives_type(23, QKV "%y = Attention(%q, %k, %v)", TMK_FLOAT32, "[1,1,3,1]", FLOATS(14, 14, 14),
               1e-5);
    gives_type(23, QKV "%y = Attention(%q, %k, %v) {is_causal=1}", TMK_FLOAT32, "[1,1,3,1]",
               FLOATS(4, 6, 14), 1e-5);
    gives_type(25, QKV "%y = Attention(%q, %k, %v) {left_window_size=0, right_window_size=1}",
               TMK_FLOAT32, "[1,1,3,1]", FLOATS(6, 19, 30), 1e-5);
    gives_type(24, QKV "init %n : i64[1] = {2}\n%y = Attention(%q, %k, %v, _, _, _, %n)",
               TMK_FLOAT32, "[1,1,3,1]", FLOATS(6, 6, 6), 1e-5);
    /* causal, and two keys: the last query stands at the second */
    gives_type(24,
               QKV "init %n : i64[1] = {2}\n%y = Attention(%q, %k, %v, _, _, _, %n) {is_causal=1}",
               TMK_FLOAT32, "[1,1,3,1]", FLOATS(0, 4, 6), 1e-5);
}

TEST(a_query_that_attends_nothing_gives_zeros) {
    gives_type(23,
               QKV "init %m : bool[3,3] = {1, 0, 1, 0, 0, 0, 0, 1, 0}\n"
                   "%y = Attention(%q, %k, %v, %m)",
               TMK_FLOAT32, "[1,1,3,1]", FLOATS(17, 0, 8), 1e-5);
    /* where the mask ends, nothing is attended */
    gives_type(24, QKV "init %m : f32[1,2] = {0, 0}\n%y = Attention(%q, %k, %v, %m)", TMK_FLOAT32,
               "[1,1,3,1]", FLOATS(6, 6, 6), 1e-5);
}

TEST(heads_share_keys_and_scores_are_capped) {
    /* two query heads, packed, on one head of keys; scores q k: (0, ln 3) and (0, big) */
    gives_type(23,
               "init %q : f32[1,1,2] = {1.0986123, 100}\ninit %k : f32[1,2,1] = {0, 1}\n"
               "init %v : f32[1,2,2] = {0, 4, 8, 16}\n"
               "%y = Attention(%q, %k, %v) {kv_num_heads=1, q_num_heads=2}",
               TMK_FLOAT32, "[1,1,4]", FLOATS(6, 13, 8, 16), 1e-4);
    gives_type(23,
               "init %q : f32[1,1,1,1] = {100}\ninit %k : f32[1,1,2,1] = {0, 1}\n"
               "init %v : f32[1,1,2,1] = {0, 8}\n"
               "%y = Attention(%q, %k, %v) {softcap=1.0986123f}",
               TMK_FLOAT32, "[1,1,1,1]", FLOATS(6), 1e-4);
}

TEST(odd_attention_is_refused) {
    static const struct {
        const char *node;
        enum tmk_status status;
        const char *why;
    } cases[] = {
        {"%y = Attention(%q, %k, %m)", TMK_SHAPE, "'V' has rank 2"},
        {"%y = Attention(%q, %k, %v, %m)", TMK_SHAPE, "'attn_mask' is [2,2]"},
        {"%y = Attention(%q, %k, %v, _, %k)", TMK_GRAPH, "without the other"},
        {"%y = Attention(%q, %k, %v, _, _, _, %n)", TMK_RANGE, "has 4 of 3 keys"},
        {"%y = Attention(%q, %k, %v) {q_num_heads=2}", TMK_SHAPE, "'q_num_heads' is 2"},
        {"%y = Attention(%q, %k, %v) {qk_matmul_output_mode=4}", TMK_RANGE, "is 4, not from"},
        {"%y = Attention(%q, %k, %v) {left_window_size=-2}", TMK_RANGE, "'left_window_size' is -2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[512];
        snprintf(body, sizeof body,
                 "%sinit %%m : f32[2,2] = {0, 0, 0, 0}\ninit %%n : i64[1] = {4}\n%s", QKV,
                 cases[i].node);
        refuses(25, body, cases[i].status, cases[i].why);
    }
}

TEST(pairs_turn_by_the_angle_of_their_place) {
    /* a quarter turn at place 1, none at place 0; the fifth element stays */
#define ROTARY                                                                                     \
    "init %x : f32[1,1,2,5] = {1, 2, 3, 4, 5, 1, 2, 3, 4, 5}\n"                                    \
    "init %c : f32[2,2] = {1, 1, 0, 0}\ninit %s : f32[2,2] = {0, 0, 1, 1}\n"                       \
    "init %p : i64[1,2] = {1, 0}\n"                                                                \
    "%y = RotaryEmbedding(%x, %c, %s, %p) {rotary_embedding_dim=4"
    gives(23, ROTARY "}", "[1,1,2,5]", FLOATS(-3, -4, 1, 2, 5, 1, 2, 3, 4, 5));
    gives(23, ROTARY ", interleaved=1}", "[1,1,2,5]", FLOATS(-2, 1, -4, 3, 5, 1, 2, 3, 4, 5));
    /* rows for a head of four, of which two turn */
    gives(23,
          "init %x : f32[1,1,2,4] = {1, 2, 3, 4, 1, 2, 3, 4}\n"
          "init %c : f32[2,2] = {1, 9, 0, 9}\ninit %s : f32[2,2] = {0, 9, 1, 9}\n"
          "init %p : i64[1,2] = {1, 0}\n"
          "%y = RotaryEmbedding(%x, %c, %s, %p) {rotary_embedding_dim=2}",
          "[1,1,2,4]", FLOATS(-2, 1, 3, 4, 1, 2, 3, 4));
    refuses(23,
            "init %x : f32[1,1,1,6] = {1, 2, 3, 4, 5, 6}\ninit %c : f32[1,1,2] = {1, 1}\n"
            "%y = RotaryEmbedding(%x, %c, %c) {rotary_embedding_dim=2}",
            TMK_SHAPE, "half the turning part");
    refuses(23,
            "init %x : f32[1,1,1,2] = {1, 2}\ninit %c : f32[2,1] = {1, 1}\n"
            "init %p : i64[1,1] = {2}\n%y = RotaryEmbedding(%x, %c, %c, %p)",
            TMK_RANGE, "'position_ids' has 2 of 2");
    refuses(23,
            "init %x : f32[1,1,1,3] = {1, 2, 3}\ninit %c : f32[1,1,1] = {1}\n"
            "%y = RotaryEmbedding(%x, %c, %c)",
            TMK_RANGE, "cannot turn in pairs");
}

TEST(a_stretch_goes_into_the_cache) {
#define CACHE "init %c : f32[2,3,1] = {1, 2, 3, 4, 5, 6}\ninit %u : f32[2,2,1] = {10, 20, 30, 40}\n"
    gives(24, CACHE "%y = TensorScatter(%c, %u)", "[2,3,1]", FLOATS(10, 20, 3, 30, 40, 6));
    gives(24,
          CACHE
          "init %n : i64[2] = {1, 5}\n%y = TensorScatter(%c, %u, %n) {mode=\"circular\", axis=1}",
          "[2,3,1]", FLOATS(1, 10, 20, 40, 5, 30));
    refuses(24, CACHE "init %n : i64[2] = {1, 2}\n%y = TensorScatter(%c, %u, %n)", TMK_RANGE,
            "2 elements do not fit at 2 of 3");
    refuses(24, CACHE "%y = TensorScatter(%c, %u) {axis=0}", TMK_RANGE, "axis of the batch");
    refuses(24, CACHE "%y = TensorScatter(%u, %c)", TMK_SHAPE, "does not fit");
}

TEST(odd_operands_of_contrib_operators_are_refused) {
#define MS "com.microsoft::"
    static const struct {
        const char *node;
        enum tmk_status status;
        const char *why;
    } cases[] = {
        {"%y, %z = " MS "CausalConvWithState(%x, %w) {dilation=0}", TMK_RANGE, "'dilation' is 0"},
        {"%y, %z = " MS "CausalConvWithState(%x, %w) {ndim=2}", TMK_UNSUPPORTED, "'ndim'"},
        {"%y, %z = " MS "CausalConvWithState(%x, %w) {state_window=1}", TMK_UNSUPPORTED,
         "'state_window'"},
        {"%y, %z = " MS "CausalConvWithState(%x, %w) {channels_last=1}", TMK_SHAPE,
         "do not fit an input of shape [1,2,4]"},
        {"%y, %z = " MS "LinearAttention(%x, %x, %x) {q_num_heads=2, kv_num_heads=3, "
         "update_rule=\"linear\"}",
         TMK_RANGE, "2 query heads for 3 heads"},
        {"%y, %z = " MS "LinearAttention(%x, %x, %x) {q_num_heads=1, kv_num_heads=1, "
         "state_window=2, update_rule=\"linear\"}",
         TMK_UNSUPPORTED, "'state_window'"},
        {"%y, %z = " MS "LinearAttentionGate(%x, %s, %s)", TMK_GRAPH, "needs its input 3, b"},
        {"%y = " MS "GatedRMSNorm(%x, %t, %x)", TMK_SHAPE, "[3] does not divide rows of [1,2,4]"},
        {"%y = " MS "GatedRMSNorm(%x, %s, %x) {activation=\"tanh\"}", TMK_RANGE, "is 'tanh'"},
        {"%y = " MS "BranchwiseRMSNorm(%x) {num_branches=3}", TMK_SHAPE, "end in 3 branches"},
        {"%y = " MS "BranchwiseRMSNorm(%x, %t)", TMK_SHAPE, "[3] does not fit 2 branches"},
        {"%y = " MS "GatedAdd(%x, %x, %x)", TMK_SHAPE, "gate"},
        {"%y = " MS "MRotaryEmbedding(%x, %p, %c, %c) {mrope_section=[1,1,1]}", TMK_RANGE,
         "not three parts of 2 elements"},
        {"%y = " MS "MRotaryEmbedding(%x, %p, %c, %c) {mrope_section=[1,1,0], mrope_layout=2}",
         TMK_RANGE, "'mrope_layout' is 2"},
        {"%y = " MS "MRotaryEmbedding(%x, %p, %c, %c) {mrope_section=[1,1,0]}", TMK_RANGE,
         "has 7 of 5"},
        {"%y = " MS "Inverse(%c)", TMK_SHAPE, "is [5,2], no square matrices"},
        {"%y = " MS "CDist(%c, %c) {metric=\"cosine\"}", TMK_UNSUPPORTED, "metric 'cosine'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[1024];
        snprintf(body, sizeof body,
                 "init %%x : f32[1,2,4] = {1, 2, 3, 4, 5, 6, 7, 8}\n"
                 "init %%w : f32[2,1,2] = {1, 2, 3, 4}\ninit %%s : f32[4] = {1, 1, 1, 1}\n"
                 "init %%t : f32[3] = {1, 1, 1}\ninit %%p : i64[3,1,2] = {0, 1, 2, 7, 0, 0}\n"
                 "init %%c : f32[5,2] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}\n%s",
                 cases[i].node);
        refuses(17, body, cases[i].status, cases[i].why);
    }
}
