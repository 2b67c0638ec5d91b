/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations and Dropout: cases worked out by hand. */
#include "ops_nn.h"

#define BATCH                                                                                      \
    "init %x : f32[2,2] = {1, 2, 3, 4}\ninit %s : f32[2] = {2, 1}\ninit %b : f32[2] = {0, 10}\n"   \
    "init %m : f32[2] = {1, 4}\ninit %v : f32[2] = {3, 15}\n"

TEST(batch_norm_uses_what_was_learnt) {
    gives(15, BATCH "%y = BatchNormalization(%x, %s, %b, %m, %v) {epsilon=1f}", "[2,2]",
          FLOATS(0, 9.5f, 2, 10));
    gives(1,
          BATCH "%y = BatchNormalization(%x, %s, %b, %m, %v) {consumed_inputs=[0,0], epsilon=1f}",
          "[2,2]", FLOATS(0, 9.5f, 2, 10));
    gives(15,
          "init %x : f32[3] = {1, 2, 3}\ninit %o : f32[1] = {1}\n"
          "%y = BatchNormalization(%x, %o, %o, %o, %o) {epsilon=0f}",
          "[3]", FLOATS(1, 2, 3));
}

TEST(batch_norm_before_9_may_be_per_element) {
    gives(8,
          "init %x : f32[2,1,2] = {1, 2, 3, 4}\ninit %s : f32[1,2] = {1, 2}\n"
          "init %z : f32[1,2] = {0, 0}\ninit %v : f32[1,2] = {1, 1}\n"
          "%y = BatchNormalization(%x, %s, %z, %z, %v) {epsilon=0f, spatial=0}",
          "[2,1,2]", FLOATS(1, 4, 3, 8));
    refuses(8,
            "init %x : f32[2,1,2] = {1, 2, 3, 4}\ninit %s : f32[1] = {1}\n"
            "%y = BatchNormalization(%x, %s, %s, %s, %s) {spatial=0}",
            TMK_SHAPE, "'scale' is [1], not [1,2]");
}

TEST(batch_norm_trains_only_where_that_is_well_defined) {
    struct tmk_diag diag;
    struct tmk_tensor out[OPERANDS];
    const char *body = BATCH "%y, %rm, %rv = BatchNormalization(%x, %s, %b, %m, %v) "
                             "{epsilon=0f, momentum=0.5f, training_mode=1}";
    assert_ok(run_node(15, body, out, &diag), &diag);
    check_output(body, &out[0], TMK_FLOAT32, "[2,2]", FLOATS(-2, 9, 2, 11), 0);
    check_output(body, &out[1], TMK_FLOAT32, "[2]", FLOATS(1.5f, 3.5f), 0);
    check_output(body, &out[2], TMK_FLOAT32, "[2]", FLOATS(2, 8), 0);
    finish_outputs(out);
    refuses(15, BATCH "%y, %rm, %rv = BatchNormalization(%x, %s, %b, %m, %v)", TMK_UNSUPPORTED,
            "training only");
    refuses(9, BATCH "%y, %a, %c, %d, %e = BatchNormalization(%x, %s, %b, %m, %v)", TMK_UNSUPPORTED,
            "training only");
}

TEST(groups_share_their_statistics) {
#define X14 "init %x : f32[1,4,1] = {0, 2, 10, 30}\n"
    gives(6,
          "init %x : f32[1,2,2] = {0, 2, 10, 30}\ninit %s : f32[2] = {1, 2}\n"
          "init %b : f32[2] = {0, 1}\n%y = InstanceNormalization(%x, %s, %b) {epsilon=0f}",
          "[1,2,2]", FLOATS(-1, 1, -1, 3));
    gives(18,
          X14 "init %s : f32[2] = {1, 2}\ninit %b : f32[2] = {0, 1}\n"
              "%y = GroupNormalization(%x, %s, %b) {epsilon=0f, num_groups=2}",
          "[1,4,1]", FLOATS(-1, 1, -1, 3));
    gives(21,
          X14 "init %s : f32[4] = {1, 2, 3, 4}\ninit %b : f32[4] = {0, 0, 0, 1}\n"
              "%y = GroupNormalization(%x, %s, %b) {epsilon=0f, num_groups=2}",
          "[1,4,1]", FLOATS(-1, 2, -3, 5));
    refuses(21, X14 "init %s : f32[2] = {1, 2}\n%y = GroupNormalization(%x, %s, %s) {num_groups=2}",
            TMK_SHAPE, "'scale' is [2], not [4]");
    refuses(21,
            X14 "init %s : f32[4] = {1, 2, 3, 4}\n"
                "%y = GroupNormalization(%x, %s, %s) {num_groups=3}",
            TMK_RANGE, "does not divide");
}

TEST(layer_norm_tells_mean_and_inverse_deviation) {
    struct tmk_diag diag;
    struct tmk_tensor out[OPERANDS];
    const char *body = "init %x : f32[2,1,2] = {0, 2, 10, 30}\ninit %s : f32[2] = {1, 2}\n"
                       "init %b : f32[2,1,1] = {0, 100}\n"
                       "%y, %m, %i = LayerNormalization(%x, %s, %b) {axis=1, epsilon=0f}";
    assert_ok(run_node(17, body, out, &diag), &diag);
    check_output(body, &out[0], TMK_FLOAT32, "[2,1,2]", FLOATS(-1, 2, 99, 102), 1e-6);
    check_output(body, &out[1], TMK_FLOAT32, "[2,1,1]", FLOATS(1, 20), 0);
    check_output(body, &out[2], TMK_FLOAT32, "[2,1,1]", FLOATS(1, 0.1f), 0);
    finish_outputs(out);
    gives(23,
          "init %x : f32[2] = {1, 7}\ninit %s : f32[2] = {5, 10}\n"
          "%y = RMSNormalization(%x, %s) {epsilon=0f}",
          "[2]", FLOATS(1, 14));
    refuses(17,
            "init %x : f32[2] = {1, 7}\ninit %s : f32[2,2] = {1, 2, 3, 4}\n"
            "%y = LayerNormalization(%x, %s)",
            TMK_SHAPE, "does not broadcast");
    refuses(17,
            "init %x : f32[2] = {1, 7}\ninit %s : f32[1] = {1}\n"
            "%y = LayerNormalization(%x, %s) {axis=1}",
            TMK_RANGE, "axis 1");
}

TEST(a_norm_of_zero_divides_nothing) {
#define X23 "init %x : f32[2,3] = {0, 3, 1, 0, -4, 3}\n"
    gives(1, X23 "%y = LpNormalization(%x) {axis=0, p=1}", "[2,3]",
          FLOATS(0, 3 / 7.0f, 0.25f, 0, -4 / 7.0f, 0.75f));
    gives(1, "init %x : f32[2] = {3, -4}\n%y = LpNormalization(%x)", "[2]", FLOATS(0.6f, -0.8f));
    refuses(1, X23 "%y = LpNormalization(%x) {p=3}", TMK_RANGE, "'p' is 3");
}

TEST(mean_and_variance_may_go_over_any_axes) {
#define X222 "init %x : f32[2,1,2] = {0, 1, 2, 5}\n"
    gives_type(13, X222 "%y = MeanVarianceNormalization(%x) {axes=[0]}", TMK_FLOAT32, "[2,1,2]",
               FLOATS(-1, -1, 1, 1), 1e-6);
    gives_type(13, X222 "%y = MeanVarianceNormalization(%x) {axes=[-1,1]}", TMK_FLOAT32, "[2,1,2]",
               FLOATS(-1, 1, -1, 1), 1e-6);
    gives(13, "init %x : f32[3] = {7, 7, 7}\n%y = MeanVarianceNormalization(%x) {axes=[0]}", "[3]",
          FLOATS(0, 0, 0));
    refuses(13, X222 "%y = MeanVarianceNormalization(%x)", TMK_RANGE, "axis 3");
}

TEST(an_even_neighbourhood_reaches_one_channel_further_up) {
    /* channel c with its neighbour c + 1: 1 + (1 + 4) = 6, 1 + (4 + 9) = 14, 1 + 9 = 10 */
    gives_type(13,
               "init %x : f32[1,3] = {1, 2, 3}\n%y = LRN(%x) {alpha=2f, beta=1f, bias=1f, size=2}",
               TMK_FLOAT32, "[1,3]", FLOATS(1 / 6.0f, 2 / 14.0f, 0.3f), 1e-7);
    refuses(13, "init %x : f32[1,3] = {1, 2, 3}\n%y = LRN(%x) {size=0}", TMK_RANGE, "'size' is 0");
}

TEST(dropout_passes_everything_on) {
    struct tmk_diag diag;
    struct tmk_tensor out[OPERANDS];
#define D2 "init %x : f32[2] = {3, 4}\ninit %r : f32[] = {0.5}\ninit %t : bool[] = {1}\n"
    const struct {
        int version;
        const char *node;
        enum tmk_dtype mask;
    } cases[] = {
        {6, "%y, %m = Dropout(%x)", TMK_FLOAT32},
        {7, "%y, %m = Dropout(%x) {ratio=0.9f}", TMK_FLOAT32},
        {10, "%y, %m = Dropout(%x)", TMK_BOOL},
        {13, "%y, %m = Dropout(%x, %r)", TMK_BOOL},
        {13, "init %z : f32[] = {0}\n%y, %m = Dropout(%x, %z, %t)", TMK_BOOL},
    };
    char body[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(body, sizeof body, "%s%s", D2, cases[i].node);
        assert_ok(run_node(cases[i].version, body, out, &diag), &diag);
        check_output(body, &out[0], TMK_FLOAT32, "[2]", FLOATS(3, 4), 0);
        float kept = cases[i].version >= 12; /* before, zeros: what ONNX Runtime gives */
        check_output(body, &out[1], cases[i].mask, "[2]", FLOATS(kept, kept), 0);
        finish_outputs(out);
    }
    refuses(13, D2 "%y = Dropout(%x, %r, %t)", TMK_UNSUPPORTED, "'training_mode' is true");
    refuses(13, D2 "%y = Dropout(%x, _, %t)", TMK_UNSUPPORTED, "'training_mode' is true");
}

TEST(n_grams_are_counted_and_weighed) {
    /* 1-grams 5, 7 and the 2-gram 7 5, in the columns 2, 0 and 1 */
#define GRAMS                                                                                      \
    "min_gram_length=1, max_gram_length=2, ngram_counts=[0,2], ngram_indexes=[2,0,1], "            \
    "pool_int64s=[5,7,7,5]"
    const char *rows = "init %x : i64[2,4] = {7, 7, 5, 9, 5, 5, 5, 7}\n";
    char body[512];
    snprintf(body, sizeof body, "%s%%y = TfIdfVectorizer(%%x) {%s, max_skip_count=0, mode=\"TF\"}",
             rows, GRAMS);
    gives(9, body, "[2,3]", FLOATS(2, 1, 1, 1, 0, 3));
    snprintf(body, sizeof body, "%s%%y = TfIdfVectorizer(%%x) {%s, max_skip_count=1, mode=\"TF\"}",
             rows, GRAMS);
    gives(9, body, "[2,3]", FLOATS(2, 2, 1, 1, 0, 3));
    snprintf(body, sizeof body,
             "%s%%y = TfIdfVectorizer(%%x) {%s, max_skip_count=1, mode=\"TFIDF\", "
             "weights=[0.5f,2f,3f]}",
             rows, GRAMS);
    gives(9, body, "[2,3]", FLOATS(1, 4, 3, 0.5f, 0, 9));
    snprintf(body, sizeof body,
             "init %%x : i32[5] = {5, 7, 0, 0, 5}\n%%y = TfIdfVectorizer(%%x) {%s, "
             "max_skip_count=1000000000000, mode=\"IDF\", weights=[0.5f,2f,3f]}",
             GRAMS);
    gives(9, body, "[3]", FLOATS(0.5f, 2, 3));
    snprintf(body, sizeof body,
             "init %%x : i64[0] = {}\n%%y = TfIdfVectorizer(%%x) {%s, max_skip_count=0, "
             "mode=\"TF\"}",
             GRAMS);
    gives(9, body, "[3]", FLOATS(0, 0, 0));
#undef GRAMS
}

TEST(pools_of_n_grams_must_add_up) {
    static const struct {
        const char *attrs, *why;
    } cases[] = {
        {"max_gram_length=3, ngram_counts=[0,1], ngram_indexes=[0], pool_int64s=[5]",
         "of 2 lengths"},
        {"max_gram_length=2, ngram_counts=[0,2], ngram_indexes=[0,1], pool_int64s=[5,6,7]",
         "no whole number"},
        {"max_gram_length=2, ngram_counts=[0,9], ngram_indexes=[0,1], pool_int64s=[5,6]",
         "no whole number"},
        {"max_gram_length=2, ngram_counts=[-1,0], ngram_indexes=[0], pool_int64s=[5,6]",
         "no whole number"},
        {"max_gram_length=1, ngram_counts=[0], ngram_indexes=[0], pool_int64s=[5,6]",
         "1 entries for 2"},
        {"max_gram_length=1, ngram_counts=[0], ngram_indexes=[0,-1], pool_int64s=[5,6]", "has -1"},
        {"max_gram_length=1, ngram_counts=[0], ngram_indexes=[0,2], pool_int64s=[5,6], "
         "weights=[1f,2f]",
         "2 weights for 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[512];
        struct tmk_diag diag;
        struct tmk_tensor out[OPERANDS];
        snprintf(body, sizeof body,
                 "init %%x : i64[2] = {5, 6}\n%%y = TfIdfVectorizer(%%x) {min_gram_length=1, "
                 "max_skip_count=0, mode=\"TF\", %s}",
                 cases[i].attrs);
        assert_int_not_equal(run_node(9, body, out, &diag), TMK_OK);
        if (!strstr(diag.text, cases[i].why))
            fail_msg("%s: says '%s'", cases[i].attrs, diag.text);
    }
}

TEST(the_first_mean_variance_normalization_may_leave_the_variance) {
    const char *x = "init %x : f32[1,2,1,2] = {1, 3, 5, 11}\n";
    char body[256];
    snprintf(body, sizeof body, "%s%%y = MeanVarianceNormalization(%%x) {normalize_variance=0}", x);
    gives(8, body, "[1,2,1,2]", FLOATS(-1, 1, -3, 3));
    snprintf(body, sizeof body,
             "%s%%y = MeanVarianceNormalization(%%x) {across_channels=1, normalize_variance=0}", x);
    gives(8, body, "[1,2,1,2]", FLOATS(-4, -2, 0, 6));
    snprintf(body, sizeof body, "%s%%y = MeanVarianceNormalization(%%x)", x);
    gives_type(8, body, TMK_FLOAT32, "[1,2,1,2]", FLOATS(-1, 1, -1, 1), 1e-6);
}
