/* SPDX-License-Identifier: Apache-2.0 */
/* A profile that is transferred over a lineage, held against the profile of the other model. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/lineage.h>
#include <tidemark/session.h>

#include "data_files.h"
#include "graph/graph.h"
#include "graph_text/read.h"
#include "model/onnx.h"
#include "ops/ops.h"

enum { SAMPLES = 12, SIDE = 6, CHANNELS = 3, WIDE = 4 };

static void put_numbers(struct tmk_text *text, int n, double low, double high) {
    for (int i = 0; i < n; i++)
        tmk_text_printf(text, "%s%.6f", i ? ", " : "{",
                        low + (high - low) * ((double)rand() / RAND_MAX));
    tmk_text_puts(text, "}\n");
}

/* Multiplications behind and before convolutions, some by channel, with negative factors. */
static void put_model(const char *name) {
    struct tmk_text text = {0};
    struct tmk_graph *graph = NULL;
    srand(7);
    tmk_text_puts(&text, "graph \"g\" opset 13 ir 8 {\n  input %x : f32[\"N\",3,6,6] \"x\"\n");
    tmk_text_puts(&text, "  init %w1 : f32[4,3,3,3] = ");
    put_numbers(&text, WIDE * CHANNELS * 9, -1, 1);
    tmk_text_puts(&text, "  init %s1 : f32[1,4,1,1] = {2, -0.5, 3, -1.5}\n");
    tmk_text_puts(&text, "  init %s2 : f32[1,4,1,1] = {0.3, 4, 1.25, 7}\n");
    tmk_text_puts(&text, "  init %s3 : f32[] = {-0.75}\n  init %b : f32[1,4,1,1] = ");
    put_numbers(&text, WIDE, -1, 1);
    tmk_text_puts(&text, "  init %w2 : f32[4,4,3,3] = ");
    put_numbers(&text, WIDE * WIDE * 9, -1, 1);
    tmk_text_puts(&text, "  %c1 = Conv(%x, %w1) {pads=[1,1,1,1]} \"c1\" : f32[\"N\",4,6,6]\n"
                         "  %m1 = Mul(%c1, %s1) \"m1\" : f32[\"N\",4,6,6]\n"
                         "  %a1 = Add(%m1, %b) \"a1\" : f32[\"N\",4,6,6]\n"
                         "  %r1 = Relu(%a1) \"r1\" : f32[\"N\",4,6,6]\n"
                         "  %m2 = Mul(%r1, %s2) \"m2\" : f32[\"N\",4,6,6]\n"
                         "  %c2 = Conv(%m2, %w2) \"c2\" : f32[\"N\",4,4,4]\n"
                         "  %m3 = Mul(%c2, %s3) \"m3\" : f32[\"N\",4,4,4]\n"
                         "  %t = Tanh(%m3) \"t\" : f32[\"N\",4,4,4]\n"
                         "  output %t\n}\n");
    assert_false(text.failed);
    must(parse_graph(text.data, NULL, &graph, DIAG));
    must(tmk_ops_bind(graph, DIAG));
    must(tmk_graph_identify(graph, NULL, DIAG));
    must(tmk_onnx_save(graph, in_folder(name), DIAG));
    tmk_graph_destroy(&graph);
    tmk_text_finish(&text);
}

static void put_data(const char *name) {
    static float numbers[SAMPLES * CHANNELS * SIDE * SIDE];
    struct tmk_text bytes = {0};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        numbers[i] = (float)rand() / (float)RAND_MAX * 4 - 2;
    compose(&bytes, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (12, 3, 6, 6), }\n",
            numbers, sizeof numbers);
    put(name, bytes.data, bytes.len);
    tmk_text_finish(&bytes);
}

struct ends {
    struct tmk_profile *original, *transformed;
    struct tmk_profile *to_transformed, *to_original; /* empty yet */
    struct tmk_lineage_record *lineage;
};

static struct tmk_model *open_model(const char *name) {
    struct tmk_model *model = NULL;
    must(tmk_model_open(in_folder(name), false, &model, DIAG));
    return model;
}

static struct tmk_profile *profile_of(struct tmk_model *model, const char *data) {
    struct tmk_profile *profile = NULL;
    const struct tmk_run_options options = {.data = {.sources = &data, .n_sources = 1},
                                            .limits.threads = 1};
    must(tmk_model_profile(model, &options, NULL, &profile, NULL, DIAG));
    return profile;
}

static void begin(struct ends *ends, const char *passes) {
    char data[256], path[256];
    put_model("original.onnx");
    put_data("data.npy");
    snprintf(data, sizeof data, "%s", in_folder("data.npy"));
    snprintf(path, sizeof path, "%s", in_folder("transformed.onnx"));
    const struct tmk_transform_options options = {.passes = &passes, .n_passes = 1};
    struct tmk_model *original = open_model("original.onnx");
    must(tmk_model_transform(original, &options, path, &ends->lineage, NULL, DIAG));
    struct tmk_model *transformed = open_model("transformed.onnx");
    ends->original = profile_of(original, data);
    ends->transformed = profile_of(transformed, data);
    must(tmk_model_skeleton(original, &ends->to_original, DIAG));
    must(tmk_model_skeleton(transformed, &ends->to_transformed, DIAG));
    tmk_model_close(&original);
    tmk_model_close(&transformed);
}

static void end(struct ends *ends) {
    tmk_profile_destroy(&ends->original);
    tmk_profile_destroy(&ends->transformed);
    tmk_profile_destroy(&ends->to_original);
    tmk_profile_destroy(&ends->to_transformed);
    tmk_lineage_record_destroy(&ends->lineage);
}

static void assert_near(float got, float want, double range, const char *name) {
    if (fabs((double)got - (double)want) > 1e-5 * range)
        fail_msg("%s: %.9g, not %.9g", name, (double)got, (double)want);
}

/* What was transferred is what was seen, in all and by channel. Returns how many there were. */
static uint32_t agree(const struct tmk_profile *transferred, const struct tmk_profile *seen) {
    uint32_t n = 0;
    assert_int_equal(transferred->n_tensors, seen->n_tensors);
    for (uint32_t i = 0; i < seen->n_tensors; i++) {
        const struct tmk_profile_tensor *a = &transferred->tensors[i], *b = &seen->tensors[i];
        struct tmk_summary x, y;
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->kind, b->kind);
        assert_int_equal(a->n_consumers, b->n_consumers);
        if (!a->stats)
            continue;
        n++;
        assert_non_null(b->stats);
        tmk_stats_summary(a->stats, &x);
        tmk_stats_summary(b->stats, &y);
        double range = (double)y.max - (double)y.min;
        assert_int_equal(x.count, y.count);
        assert_int_equal(a->n_runs, b->n_runs);
        assert_near(x.min, y.min, range, a->name);
        assert_near(x.max, y.max, range, a->name);
        if (x.channels)
            assert_int_equal(x.channels, y.channels);
        for (size_t c = 0; c < x.channels; c++) {
            assert_near(x.channel_min[c], y.channel_min[c], range, a->name);
            assert_near(x.channel_max[c], y.channel_max[c], range, a->name);
        }
    }
    return n;
}

TEST(ranges_go_there_and_back) {
    struct ends ends = {0};
    struct tmk_transfer_report report;
    uint32_t counts[TMK_LINEAGE_VERDICTS];
    begin(&ends, "fold-scale-axis");
    tmk_lineage_record_count(ends.lineage, counts);
    assert_true(counts[TMK_LINEAGE_AFFINE] >=
                4); /* weights and activations, else nothing is tested */

    must(tmk_profile_transfer(ends.original, ends.lineage, false, ends.to_transformed, &report,
                              DIAG));
    assert_int_equal(report.own + report.same + report.derived + report.unknown,
                     ends.to_transformed->n_tensors);
    assert_int_equal(report.unknown, 0);
    assert_int_equal(agree(ends.to_transformed, ends.transformed), ends.transformed->n_tensors);
    assert_int_equal(ends.to_transformed->ledger.run, SAMPLES);

    must(tmk_profile_transfer(ends.transformed, ends.lineage, true, ends.to_original, &report,
                              DIAG));
    assert_true(report.derived > 0);
    assert_int_equal(agree(ends.to_original, ends.original),
                     ends.original->n_tensors - report.unknown);
    end(&ends);
}

/* A transferred profile is a profile: it is written, and reads back. */
TEST(transferred_profiles_are_files_too) {
    static const char *const names[] = {"transferred.json", "transferred.h5"};
    struct ends ends = {0};
    begin(&ends, "all");
    must(tmk_profile_transfer(ends.transformed, ends.lineage, true, ends.to_original, NULL, DIAG));
    for (size_t i = 0; i < 1 + TMK_TEST_HDF5; i++) {
        struct tmk_profile *read = NULL;
        uint32_t derived = 0;
        must(tmk_profile_write(ends.to_original, in_folder(names[i]), DIAG));
        must(tmk_profile_read(in_folder(names[i]), &read, DIAG));
        for (uint32_t t = 0; t < read->n_tensors; t++) {
            assert_string_equal(read->tensors[t].rule, ends.to_original->tensors[t].rule);
            assert_int_equal(read->tensors[t].status, ends.to_original->tensors[t].status);
            derived += tmk_profile_is_transferred(&read->tensors[t]);
        }
        assert_true(derived > 0);
        tmk_profile_destroy(&read);
    }
    end(&ends);
}

TEST(other_models_are_refused) {
    struct ends ends = {0};
    begin(&ends, "fold-scale-axis");
    must_fail(tmk_profile_transfer(ends.transformed, ends.lineage, false, ends.to_transformed, NULL,
                                   DIAG),
              TMK_MISMATCH, "transformed.onnx");
    ends.original->tensors[1].content ^= 1; /* the same network with other weights */
    must_fail(
        tmk_profile_transfer(ends.original, ends.lineage, false, ends.to_transformed, NULL, DIAG),
        TMK_MISMATCH, "other weights");
    end(&ends);
}

/* ---- relations that no pass of this model makes ---- */

/* Two models of one value each, of shape [2, 3] and of `shape`, and the lineage between. */
static void one_value(struct ends *ends, struct tmk_shape shape, const float *numbers) {
    struct tmk_profile **profiles[] = {&ends->original, &ends->to_transformed, &ends->to_original};
    const struct tmk_shape here = {2, {2, 3}};
    const struct tmk_stats_at at = {0, 1, 1, false, 0};
    struct tmk_profile_tensor *t;
    for (size_t i = 0; i < 3; i++) {
        must(tmk_profile_create(profiles[i], DIAG));
        must(tmk_profile_add_tensor(*profiles[i], 0, &t, DIAG));
        t->name = "v";
        t->kind = TMK_PROFILE_ACTIVATION;
        t->dtype = t->origin = TMK_FLOAT32;
        t->has_shape = true;
        t->shape = i == 1 ? shape : here;
    }
    t = &ends->original->tensors[0];
    must(tmk_stats_create(TMK_STATS_HISTOGRAM, &t->stats, DIAG));
    must(tmk_stats_update(t->stats, numbers, &here, &at, DIAG));
    must(tmk_profile_add_runs(t, &here, 1, DIAG));
    t->status = tmk_profile_status_of(t);
    ends->original->ledger = (struct tmk_profile_ledger){1, 1, 0, 0, 1, 0, 1};
    must(tmk_lineage_record_create(1, 1, &ends->lineage, DIAG));
    ends->lineage->originals[0].value = 0;
}

static void transfer_both_ways(struct ends *ends, struct tmk_transfer_report *there,
                               struct tmk_transfer_report *back) {
    must(tmk_lineage_record_finalize(ends->lineage, DIAG));
    must(tmk_profile_transfer(ends->original, ends->lineage, false, ends->to_transformed, there,
                              DIAG));
    must(tmk_profile_transfer(ends->to_transformed, ends->lineage, true, ends->to_original, back,
                              DIAG));
}

static const float six[] = {-1, 2, 0.5f, 3, -4, 0.25f};

TEST(channels_follow_a_permutation) {
    struct ends ends = {0};
    struct tmk_transfer_report there, back;
    struct tmk_summary is;
    one_value(&ends, (struct tmk_shape){2, {3, 2}}, six);
    ends.lineage->originals[0].verdict = TMK_LINEAGE_VIEW;
    ends.lineage->originals[0].view = (struct tmk_lineage_view){.rank = 2, .perm = {1, 0}};
    ends.original->tensors[0].topk = (struct tmk_topk){.n = 1, .min = {{-4, 0}}, .max = {{3, 0}}};
    transfer_both_ways(&ends, &there, &back);
    tmk_stats_summary(ends.to_transformed->tensors[0].stats, &is);
    assert_int_equal(is.channel_axis, 0);
    assert_true(is.channel_min[1] == -4 && is.channel_max[1] == 2);
    assert_int_equal(ends.to_transformed->tensors[0].runs[0].shape.dim[0], 3);
    assert_true(is.min_at.sample == 0 && is.min_at.index == TMK_NOWHERE);
    tmk_stats_summary(ends.to_original->tensors[0].stats, &is);
    assert_int_equal(is.channel_axis, 1);
    assert_true(is.bins_used > 0 && is.sum == 0.75);
    const struct tmk_topk *topk = &ends.to_original->tensors[0].topk;
    assert_true(topk->n == 1 && topk->min[0].value == -4 && topk->max[0].value == 3);
    assert_int_equal(there.same + back.same, 2);
    end(&ends);
}

TEST(reshapes_lose_channels_only) {
    struct ends ends = {0};
    struct tmk_transfer_report there, back;
    struct tmk_summary is;
    one_value(&ends, (struct tmk_shape){1, {-1}}, six);
    ends.lineage->originals[0].verdict = TMK_LINEAGE_VIEW;
    ends.lineage->originals[0].view.reshaped = true;
    transfer_both_ways(&ends, &there, &back);
    tmk_stats_summary(ends.to_transformed->tensors[0].stats, &is);
    assert_int_equal(is.channels, 0);
    assert_true(is.min == -4 && is.max == 3 && is.sum == 0.75);
    assert_int_equal(ends.to_transformed->tensors[0].runs[0].shape.dim[0], 6);
    end(&ends);
}

TEST(a_scale_of_zero_does_not_come_back) {
    static const double scale[] = {0, -2, 1}, shift[] = {5, 0, 0.5};
    struct ends ends = {0};
    struct tmk_transfer_report there, back;
    struct tmk_summary is;
    one_value(&ends, (struct tmk_shape){2, {3, 2}}, six);
    ends.lineage->originals[0].verdict = TMK_LINEAGE_AFFINE;
    ends.lineage->originals[0].view = (struct tmk_lineage_view){.rank = 2, .perm = {1, 0}};
    ends.lineage->originals[0].affine = (struct tmk_lineage_affine){3, 0, scale, shift};
    transfer_both_ways(&ends, &there, &back);
    tmk_stats_summary(ends.to_transformed->tensors[0].stats, &is);
    assert_true(is.channel_min[0] == 5 && is.channel_max[0] == 5);
    assert_true(is.channel_min[1] == -4 && is.channel_max[1] == 8);
    assert_true(is.channel_min[2] == 0.75f && is.channel_max[2] == 1);
    assert_true(is.min == -4 && is.max == 8);
    assert_string_equal(ends.to_transformed->tensors[0].rule, "lineage:affine");
    tmk_stats_summary(ends.to_original->tensors[0].stats, &is);
    assert_true(is.channel_min[0] > is.channel_max[0]);
    assert_true(is.channel_min[1] == -4 && is.channel_max[1] == 2);
    assert_true(is.channel_min[2] == 0.25f && is.channel_max[2] == 0.5f);
    assert_string_equal(ends.to_original->tensors[0].rule, "lineage:affine-part");
    assert_int_equal(there.derived + back.derived, 2);
    end(&ends);
}

TEST(integers_stand_for_real_numbers) {
    static const double scale[] = {0.5};
    static const int64_t zero[] = {3};
    struct ends ends = {0};
    struct tmk_transfer_report report;
    struct tmk_summary is;
    one_value(&ends, (struct tmk_shape){2, {2, 3}}, six);
    struct tmk_profile_tensor *t = &ends.original->tensors[0];
    tmk_stats_destroy(&t->stats);
    t->dtype = t->origin = TMK_INT8;
    t->has_int_stats = true;
    t->int_stats =
        (struct tmk_int_stats){.count = 6, .samples = 1, .updates = 1, .min = -7, .max = 11};
    t->status = TMK_PROFILE_INTEGER;
    ends.lineage->originals[0].verdict = TMK_LINEAGE_QUANTIZED;
    ends.lineage->originals[0].quantized =
        (struct tmk_lineage_quantized){TMK_INT8, 1, 0, scale, zero};
    must(tmk_lineage_record_finalize(ends.lineage, DIAG));
    must(tmk_profile_transfer(ends.original, ends.lineage, true, ends.to_original, &report, DIAG));
    tmk_stats_summary(ends.to_original->tensors[0].stats, &is);
    assert_true(is.min == -5 && is.max == 4 && is.count == 6);
    assert_string_equal(ends.to_original->tensors[0].rule, "lineage:quantized");
    end(&ends);
}

GROUP_FIXTURE(make_folder, remove_folder)
