/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/encodings.h>
#include <tidemark/target.h>

#include "base/file.h"
#include "calib/method.h"
#include "calib/net.h"
#include "folder.h"

/* ---- profiles of made-up networks ---- */

static struct tmk_profile *new_profile(void) {
    struct tmk_profile *profile = NULL;
    must(tmk_profile_create(&profile, DIAG));
    profile->model.file = "made.onnx";
    profile->ledger.run = 1;
    return profile;
}

/* A record with these numbers; its ID is its position. */
static struct tmk_profile_tensor *add(struct tmk_profile *profile, const char *name,
                                      enum tmk_profile_kind kind, const float *x, int64_t n,
                                      int32_t channel_axis) {
    struct tmk_profile_tensor *t = NULL;
    must(tmk_profile_add_tensor(profile, profile->n_tensors, &t, DIAG));
    t->name = name;
    t->kind = kind;
    t->fingerprint = t->id + 100;
    t->dtype = t->origin = TMK_FLOAT32;
    t->has_shape = true;
    t->shape = (struct tmk_shape){1, {n}};
    must(tmk_stats_create(TMK_STATS_HISTOGRAM, &t->stats, DIAG));
    const struct tmk_stats_at at = {.samples = 1, .channel_axis = channel_axis, .whole = true};
    must(tmk_stats_update(t->stats, x, &t->shape, &at, DIAG));
    t->status = kind == TMK_PROFILE_WEIGHT ? TMK_PROFILE_CONSTANT : TMK_PROFILE_OBSERVED;
    return t;
}

/* The next record is a result of this node. */
static void made_by(struct tmk_profile *profile, const char *node, const char *op,
                    const uint32_t *operands, uint32_t n) {
    struct tmk_profile_tensor *t = &profile->tensors[profile->n_tensors - 1];
    t->has_producer = true;
    t->producer.node = node;
    t->producer.op = op;
    t->producer.domain = "";
    for (uint32_t i = 0; i < n; i++) {
        must(tmk_profile_add_operand(t, operands[i], DIAG));
        must(tmk_profile_add_consumer(profile, &profile->tensors[operands[i]], node, op, "", i,
                                      DIAG));
    }
}

static const float ramp[] = {-1, -0.5f, 0.25f, 0.75f, 1, 2, 3, 4};
static const float wide_ramp[] = {-9, -4, 0.5f, 1, 5, 7, 11, 12};
enum { N = 8 };

static void input(struct tmk_profile *p, const char *name) {
    add(p, name, TMK_PROFILE_INPUT, ramp, N, -1);
}

static void result(struct tmk_profile *p, const char *name, const char *node, const char *op,
                   const float *x, uint32_t a, uint32_t b) {
    const uint32_t operands[] = {a, b};
    add(p, name, TMK_PROFILE_ACTIVATION, x, N, -1);
    made_by(p, node, op, operands, b == TMK_NET_NONE ? 1 : 2);
}

static char remarks[1024];

static void hear(void *context, const char *text) {
    (void)context;
    strncat(remarks, text, sizeof remarks - strlen(remarks) - 1);
}

static void assert_consistent(const struct tmk_profile *profile, const struct tmk_encodings *all) {
    uint32_t item = 0, left = 0;
    for (uint32_t v = 0; v < profile->n_tensors; v++) {
        bool general = false, found = false;
        for (; item < all->n_items && all->items[item].id == profile->tensors[v].id; item++) {
            assert_false(general); /* the last */
            general = all->items[item].n_uses == 0;
            found = true;
            assert_string_equal(all->items[item].name, profile->tensors[v].name);
        }
        if (left < all->n_left && all->left[left].id == profile->tensors[v].id) {
            assert_false(general);
            assert_true(all->left[left++].reason[0]);
            found = true;
        }
        assert_true(found);
    }
    assert_int_equal(item, all->n_items);
    assert_int_equal(left, all->n_left);
}

/* Calibrated, consistent, and as it is after a file. */
static struct tmk_encodings *calibrated(const struct tmk_profile *profile,
                                        const struct tmk_calibrate_options *given,
                                        const char *config) {
    struct tmk_encodings *all = NULL, *read = NULL;
    struct tmk_calibrate_options options =
        given ? *given : (struct tmk_calibrate_options){.config = NULL};
    char path[128];
    options.remark = hear;
    if (!options.sensitive) /* rules are tested here; test_patterns.c has the default */
        options.sensitive = "quantize";
    remarks[0] = '\0';
    if (config) {
        must(tmk_file_write(in_folder("c.json", path), config, strlen(config), DIAG));
        options.config = path;
    }
    must(tmk_calibrate(profile, &options, &all, DIAG));
    assert_consistent(profile, all);
    must(tmk_encodings_write(all, in_folder("e.json", path), DIAG));
    must(tmk_encodings_read(path, &read, DIAG));
    assert_int_equal(all->n_items, read->n_items);
    tmk_encodings_destroy(&all);
    return read;
}

static const struct tmk_encoding *item(const struct tmk_encodings *all, uint32_t id) {
    const struct tmk_encoding *found = tmk_encodings_find(all, id, NULL, 0);
    assert_non_null(found);
    return found;
}

static const char *reason(const struct tmk_encodings *all, uint32_t id) {
    for (uint32_t i = 0; i < all->n_left; i++)
        if (all->left[i].id == id)
            return all->left[i].reason;
    return "";
}

static void assert_share(const struct tmk_encoding *a, const struct tmk_encoding *b) {
    assert_true(a->scale[0] == b->scale[0] && a->zero_point[0] == b->zero_point[0]);
    assert_true(a->group && a->group == b->group);
}

/* ---- nodes ---- */

TEST(test_nodes_without_names_are_told_apart) {
    struct tmk_profile *p = new_profile();
    input(p, "x");
    input(p, "y");
    input(p, "z");
    result(p, "xy", "", "Sub", ramp, 0, 1); /* p3 = x - y */
    result(p, "zx", "", "Sub", ramp, 2, 0); /* p4 = z - x */
    result(p, "xx", "", "Sub", ramp, 0, TMK_NET_NONE);
    struct tmk_net net;
    must(tmk_net_init(&net, p, DIAG));
    assert_int_equal(net.n_nodes, 3);
    assert_string_equal(net.nodes[0].name, "p3");
    assert_int_equal(tmk_net_input(&net, 0, 0), 0);
    assert_int_equal(tmk_net_input(&net, 0, 1), 1);
    assert_int_equal(tmk_net_input(&net, 1, 0), 2);
    assert_int_equal(tmk_net_input(&net, 1, 1), 0);
    assert_int_equal(tmk_net_input(&net, 2, 0), 0);
    assert_int_equal(tmk_net_input(&net, 2, 1), TMK_NET_NONE);
    assert_int_equal(tmk_net_output(&net, 1, 0), 4);
    assert_int_equal(tmk_net_readers(&net, 0), 3);
    tmk_net_finish(&net);
    tmk_profile_destroy(&p);
}

TEST(test_a_use_by_a_node_without_a_name_is_told_by_its_result) {
    struct tmk_profile *p = new_profile();
    input(p, "x");
    result(p, "a", "", "Tanh", ramp, 0, TMK_NET_NONE);
    result(p, "b", "", "Sin", ramp, 0, TMK_NET_NONE);
    struct tmk_encodings *all =
        calibrated(p, NULL, "{\"rules\":[{\"match\":{\"op\":\"Sin\"},\"dtype\":\"uint16\"}]}");
    assert_int_equal(tmk_encodings_find(all, 0, "p2", 0)->dtype, TMK_UINT16);
    assert_int_equal(tmk_encodings_find(all, 0, "p1", 0)->dtype, TMK_UINT8);
    tmk_encodings_destroy(&all);
    tmk_profile_destroy(&p);
}

/* ---- ties ---- */

TEST(test_a_group_has_the_range_of_its_merged_numbers) {
    struct tmk_diag diag = {0};
    struct tmk_profile *p = new_profile();
    float both[2 * N];
    memcpy(both, ramp, sizeof ramp);
    memcpy(both + N, wide_ramp, sizeof wide_ramp);
    input(p, "x");
    result(p, "s", "s", "Tanh", ramp, 0, TMK_NET_NONE);
    result(p, "t", "t", "Sin", wide_ramp, 0, TMK_NET_NONE);
    add(p, "c", TMK_PROFILE_OUTPUT, both, 2 * N, -1);
    made_by(p, "c", "Concat", (const uint32_t[]){1, 2}, 2);
    struct tmk_encodings *all = calibrated(p, NULL, NULL);
    assert_share(item(all, 1), item(all, 2));
    assert_share(item(all, 1), item(all, 3));
    assert_string_equal(item(all, 1)->rule, "concat-inputs-share");
    /* the same as of the one state that holds both */
    const struct tmk_stats *whole = p->tensors[3].stats;
    const struct tmk_grid grid = {.dtype = TMK_UINT8};
    struct tmk_spread spread;
    struct tmk_clip_choice choice;
    float scale;
    int32_t zero_point;
    assert_ok(tmk_spread_make(&whole, 1, &spread, &diag), &diag);
    assert_ok(tmk_method_find("auto")->choose(&spread, &grid, 0, &choice, &diag), &diag);
    assert_ok(tmk_grid_fit(&grid, choice.low, choice.high, &scale, &zero_point, &diag), &diag);
    assert_true(item(all, 3)->scale[0] == scale && item(all, 3)->zero_point[0] == zero_point);
    tmk_spread_finish(&spread);
    /* what is wide pays nothing, what is narrow pays */
    assert_true(item(all, 1)->expected.tying > 4);
    assert_true(item(all, 2)->expected.tying < item(all, 1)->expected.tying);
    tmk_encodings_destroy(&all);
    all = calibrated(p, NULL, "{\"built_in\":{\"concat-inputs-share\":false}}");
    assert_true(item(all, 1)->scale[0] < item(all, 2)->scale[0] / 2);
    assert_int_equal(item(all, 1)->group, 0);
    tmk_encodings_destroy(&all);
    tmk_profile_destroy(&p);
}

/* A value that was derived reaches as far as the samples of what it was derived from. */
/* Codes of 16 bits are fine enough for all elements. */
TEST(test_percentiles_of_16_bits_clip_where_they_are_named) {
    enum { MANY = 1 << 16 };
    static float x[MANY];
    static const struct {
        const char *dtype;
        double percentile;
        bool clips;
    } cases[] = {
        {"uint8", 0, true}, {"uint16", 0, false}, {"uint16", 99, true}, {"int16", 0, false}};
    for (int i = 0; i < MANY; i++)
        x[i] = (float)i;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tmk_profile *p = new_profile();
        char config[128], named[32] = "";
        add(p, "x", TMK_PROFILE_INPUT, x, MANY, -1);
        result(p, "y", "y", "Tanh", ramp, 0, TMK_NET_NONE);
        if (cases[i].percentile > 0)
            snprintf(named, sizeof named, ",\"percentile\":%g", cases[i].percentile);
        snprintf(config, sizeof config,
                 "{\"defaults\":{\"method\":\"percentile\",\"dtype\":\"%s\"%s}}", cases[i].dtype,
                 named);
        struct tmk_encodings *all = calibrated(p, NULL, config);
        assert_true((item(all, 0)->high[0] < x[MANY - 1]) == cases[i].clips);
        tmk_encodings_destroy(&all);
        tmk_profile_destroy(&p);
    }
}

TEST(test_samples_of_a_source_widen_what_is_derived) {
    static const float cut[] = {0, 0, 0.5f, 1, 5, 7, 11, 12};
    struct tmk_profile *p = new_profile();
    input(p, "x");
    result(p, "s", "s", "Sin", wide_ramp, 0, TMK_NET_NONE);
    result(p, "r", "r", "Relu", cut, 1, TMK_NET_NONE);
    result(p, "y", "y", "Cos", ramp, 2, TMK_NET_NONE);
    p->tensors[1].topk = (struct tmk_topk){4, .min = {{-9, 1}, {-8, 2}, {-7, 3}, {-6, 4}},
                                           .max = {{12, 3}, {9, 1}, {8, 4}, {7, 2}}};
    struct tmk_encodings *all = calibrated(p, NULL, NULL);
    assert_true(item(all, 2)->high[0] < 12.1f);
    tmk_encodings_destroy(&all);
    must(tmk_profile_add_derivation(&p->tensors[2], 1, DIAG));
    all = calibrated(p, NULL, NULL);
    assert_true(item(all, 2)->high[0] > 13 && item(all, 2)->low[0] == 0);
    tmk_encodings_destroy(&all);
    must(tmk_profile_add_derivation(&p->tensors[2], 2, DIAG)); /* of itself */
    all = calibrated(p, NULL, NULL);
    assert_true(item(all, 2)->high[0] < 12.1f);
    tmk_encodings_destroy(&all);
    tmk_profile_destroy(&p);
}

TEST(test_groups_grow_through_the_network) {
    struct tmk_profile *p = new_profile();
    input(p, "x");
    result(p, "r", "r", "Reshape", ramp, 0, TMK_NET_NONE);
    result(p, "c", "c", "Concat", wide_ramp, 1, 0);
    result(p, "m", "m", "MaxPool", ramp, 2, TMK_NET_NONE);
    result(p, "t", "t", "Tanh", ramp, 3, TMK_NET_NONE);
    struct tmk_encodings *all = calibrated(p, NULL, NULL);
    for (uint32_t id = 1; id < 4; id++)
        assert_share(item(all, 0), item(all, id));
    assert_int_equal(item(all, 4)->group, 0);
    /* only the input's numbers decide: r is a copy, c and m hold nothing else */
    assert_true(item(all, 0)->expected.tying == 1);
    tmk_encodings_destroy(&all);
    /* another type on the way: no tie through it */
    all = calibrated(p, NULL, "{\"rules\":[{\"match\":{\"name\":\"c\"},\"dtype\":\"int16\"}]}");
    assert_share(item(all, 0), item(all, 1));
    assert_int_equal(item(all, 2)->group, 0);
    assert_int_equal(item(all, 3)->group, 0);
    tmk_encodings_destroy(&all);
    tmk_profile_destroy(&p);
}

TEST(test_residual_adds_share_on_request) {
    struct tmk_profile *p = new_profile();
    input(p, "x");
    result(p, "t", "t", "Tanh", wide_ramp, 0, TMK_NET_NONE);
    result(p, "y", "y", "Add", wide_ramp, 0, 1);
    struct tmk_encodings *all = calibrated(p, NULL, NULL);
    assert_int_equal(item(all, 2)->group, 0);
    assert_int_equal(all->n_requants, 1); /* x's codes to y's; t and y have the same scale */
    assert_int_equal(all->requants[0].operand, 0);
    assert_true(all->requants[0].real[0] ==
                (double)item(all, 0)->scale[0] / (double)item(all, 2)->scale[0]);
    tmk_encodings_destroy(&all);
    all = calibrated(p, NULL, "{\"built_in\":{\"residual-adds-share\":true}}");
    assert_share(item(all, 0), item(all, 1));
    assert_share(item(all, 0), item(all, 2));
    assert_int_equal(all->n_requants, 0);
    tmk_encodings_destroy(&all);
    tmk_profile_destroy(&p);
}

TEST(test_in_front_of_relu_its_range_is_enough) {
    static const float positive[] = {0, 0, 0.5f, 1, 5, 7, 11, 12};
    struct tmk_profile *p = new_profile();
    input(p, "x");
    result(p, "t", "t", "Tanh", wide_ramp, 0, TMK_NET_NONE);
    result(p, "r", "r", "Relu", positive, 1, TMK_NET_NONE);
    struct tmk_encodings *all = calibrated(p, NULL, NULL);
    assert_share(item(all, 1), item(all, 2));
    assert_int_equal(item(all, 1)->zero_point[0], 0);
    tmk_encodings_destroy(&all);
    /* some readers of what is behind it stay float: the others' encoding */
    result(p, "e", "e", "Exp", positive, 2, TMK_NET_NONE);
    result(p, "g", "g", "Tanh", positive, 2, TMK_NET_NONE);
    all = calibrated(p, NULL, "{\"rules\":[{\"match\":{\"op\":\"Exp\"},\"quantize\":false}]}");
    const struct tmk_encoding *behind = tmk_encodings_find(all, 2, "g", 0);
    assert_int_equal(behind->n_uses, 1);
    assert_share(item(all, 1), behind);
    tmk_encodings_destroy(&all);
    /* another node reads it: it keeps its own */
    result(p, "s", "s", "Sin", ramp, 1, TMK_NET_NONE);
    all = calibrated(p, NULL, NULL);
    assert_int_equal(item(all, 1)->group, 0);
    assert_true(item(all, 1)->zero_point[0] > 0);
    tmk_encodings_destroy(&all);
    tmk_profile_destroy(&p);
}

TEST(test_what_moves_or_clips_floats_stays_float) {
    static const char rule[] = "{\"rules\":[{\"match\":{\"op\":\"Tanh\"},\"quantize\":false}]}";
    struct tmk_profile *p = new_profile();
    input(p, "x");
    result(p, "t", "t", "Tanh", wide_ramp, 0, TMK_NET_NONE);
    result(p, "r", "r", "Relu", wide_ramp, 1, TMK_NET_NONE);
    result(p, "m", "m", "MaxPool", wide_ramp, 2, TMK_NET_NONE);
    result(p, "s", "s", "Sin", ramp, 3, TMK_NET_NONE);
    struct tmk_encodings *all = calibrated(p, NULL, rule);
    assert_string_equal(reason(all, 1),
                        "float for Relu 'r': it moves or clips what Tanh 't' computes in float");
    assert_string_equal(reason(all, 2),
                        "float for MaxPool 'm': it moves or clips what Tanh 't' computes in float");
    for (uint32_t id = 1; id < 3; id++)
        assert_null(tmk_encodings_find(all, id, NULL, 0));
    (void)item(all, 3); /* Sin reads codes */
    assert_string_equal(remarks, "");
    tmk_encodings_destroy(&all);
    /* of readers that compute on codes it has an encoding; and for those that rules ask for */
    result(p, "u", "u", "Sin", ramp, 1, TMK_NET_NONE);
    all = calibrated(p, NULL, rule);
    assert_non_null(tmk_encodings_find(all, 1, "u", 0));
    assert_null(tmk_encodings_find(all, 1, "r", 0));
    tmk_encodings_destroy(&all);
    all = calibrated(p, NULL,
                     "{\"rules\":[{\"match\":{\"op\":\"Tanh\"},\"quantize\":false},"
                     "{\"match\":{\"op\":\"Relu\"},\"quantize\":true}]}");
    assert_non_null(tmk_encodings_find(all, 1, "r", 0));
    assert_non_null(tmk_encodings_find(all, 2, "m", 0));
    tmk_encodings_destroy(&all);
    /* a rule of one value is of no node */
    all = calibrated(p, NULL, "{\"rules\":[{\"match\":{\"name\":\"t\"},\"quantize\":false}]}");
    assert_non_null(tmk_encodings_find(all, 2, "m", 0));
    tmk_encodings_destroy(&all);
    tmk_profile_destroy(&p);
}

TEST(test_a_part_of_an_input_has_its_own_scale) {
    struct tmk_profile *p = new_profile();
    struct tmk_target *target = NULL;
    must(tmk_target_open("litert", &target, DIAG));
    add(p, "x", TMK_PROFILE_INPUT, wide_ramp, N, -1);
    result(p, "s", "s", "Slice", ramp, 0, TMK_NET_NONE);
    result(p, "f", "f", "Flatten", ramp, 1, TMK_NET_NONE);
    result(p, "t", "t", "Tanh", ramp, 2, TMK_NET_NONE);
    for (int turn = 0; turn < 3; turn++) { /* then with codes of the whole: target's, reader's */
        if (turn == 2)
            result(p, "u", "u", "Sigmoid", ramp, 0, TMK_NET_NONE);
        struct tmk_calibrate_options options = {.target = turn == 1 ? target : NULL};
        struct tmk_encodings *all = calibrated(p, &options, NULL);
        assert_int_equal(strstr(reason(all, 0), "it moves a part of 'x'") != NULL, turn == 0);
        assert_int_equal(item(all, 2)->high[0] < 5, turn == 0);
        tmk_encodings_destroy(&all);
    }
    tmk_target_close(&target);
    tmk_profile_destroy(&p);
}

/* y = x * w, where one element of x is far larger than all others; v = u * w2 of n terms. */
static struct tmk_profile *two_layers(int64_t n) {
    enum { TERMS = 1024, MOST_TERMS = 8192 };
    static float x[TERMS], u[MOST_TERMS];
    const float w[] = {-0.5f, 0.25f};
    struct tmk_profile *p = new_profile();
    for (int i = 0; i < TERMS; i++)
        x[i] = 0.1f * (float)(i % 7);
    x[5] = 100;
    for (int i = 0; i < MOST_TERMS; i++)
        u[i] = 0.001f * (float)(i % 1000);
    add(p, "x", TMK_PROFILE_INPUT, x, TERMS, -1);
    add(p, "w", TMK_PROFILE_WEIGHT, w, 2, 0);
    add(p, "y", TMK_PROFILE_OUTPUT, ramp, N, -1);
    made_by(p, "a", "MatMul", (const uint32_t[]){0, 1}, 2);
    add(p, "u", TMK_PROFILE_INPUT, u, n, -1);
    add(p, "w2", TMK_PROFILE_WEIGHT, w, 2, 0);
    add(p, "v", TMK_PROFILE_OUTPUT, ramp, N, -1);
    made_by(p, "b", "MatMul", (const uint32_t[]){3, 4}, 2);
    return p;
}

TEST(test_what_spans_more_than_8_bits_stays_float) {
    const struct tmk_calibrate_options eight = {.sensitive = "float"},
                                       sixteen = {.sensitive = "float",
                                                  .activations.dtype = TMK_UINT16};
    struct tmk_profile *p = two_layers(8192);
    struct tmk_encodings *all = calibrated(p, &eight, NULL);
    for (uint32_t id = 0; id < 2; id++)
        assert_non_null(strstr(reason(all, id), "float for MatMul 'a': 8 bits leave 2"));
    (void)item(all, 3);
    (void)item(all, 4);
    tmk_encodings_destroy(&all);
    /* a rule has the last word, and wider codes hold it */
    all = calibrated(p, &eight, "{\"rules\":[{\"match\":{\"node\":\"a\"},\"quantize\":true}]}");
    (void)item(all, 0);
    tmk_encodings_destroy(&all);
    all = calibrated(p, &sixteen, NULL);
    (void)item(all, 0);
    tmk_encodings_destroy(&all);
    tmk_profile_destroy(&p);
    /* it is most of the network */
    p = two_layers(512);
    all = calibrated(p, &eight, NULL);
    (void)item(all, 0);
    tmk_encodings_destroy(&all);
    tmk_profile_destroy(&p);
}

/* z = transpose(exp(x * w)) * w2 */
static struct tmk_profile *exponent_between(void) {
    const float w[] = {-0.5f, 0.25f};
    struct tmk_profile *p = new_profile();
    input(p, "x");
    add(p, "w", TMK_PROFILE_WEIGHT, w, 2, 0);
    add(p, "y", TMK_PROFILE_ACTIVATION, ramp, N, -1);
    made_by(p, "a", "MatMul", (const uint32_t[]){0, 1}, 2);
    add(p, "e", TMK_PROFILE_ACTIVATION, ramp, N, -1);
    made_by(p, "exp", "Exp", (const uint32_t[]){2}, 1);
    add(p, "t", TMK_PROFILE_ACTIVATION, ramp, N, -1);
    made_by(p, "turn", "Transpose", (const uint32_t[]){3}, 1);
    add(p, "w2", TMK_PROFILE_WEIGHT, w, 2, 0);
    add(p, "z", TMK_PROFILE_OUTPUT, ramp, N, -1);
    made_by(p, "b", "MatMul", (const uint32_t[]){4, 5}, 2);
    return p;
}

TEST(test_what_8_bits_ruin_can_have_16_and_its_neighbours_8) {
    const struct tmk_calibrate_options wide = {.sensitive = "uint16"},
                                       all_wide = {.sensitive = "uint16",
                                                   .activations.dtype = TMK_INT16};
    struct tmk_profile *p = exponent_between();
    struct tmk_encodings *all = calibrated(p, &wide, NULL);
    const struct {
        uint32_t id;
        const char *reader;
        enum tmk_dtype dtype;
    } wanted[] = {{0, NULL, TMK_UINT8},  {2, NULL, TMK_UINT8},    {2, "exp", TMK_UINT16},
                  {3, NULL, TMK_UINT16}, {3, "turn", TMK_UINT16}, {4, NULL, TMK_UINT16},
                  {4, "b", TMK_UINT8},   {6, NULL, TMK_UINT8},    {1, NULL, TMK_INT8}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        assert_int_equal(tmk_encodings_find(all, wanted[i].id, wanted[i].reader, 0)->dtype,
                         wanted[i].dtype);
    tmk_encodings_destroy(&all);
    /* a rule has the last word */
    all = calibrated(p, &wide, "{\"rules\":[{\"match\":{\"node\":\"exp\"},\"dtype\":\"uint8\"}]}");
    assert_int_equal(tmk_encodings_find(all, 2, "exp", 0)->dtype, TMK_UINT8);
    tmk_encodings_destroy(&all);
    /* where all have 16, there is one type */
    all = calibrated(p, &all_wide, NULL);
    assert_int_equal(item(all, 3)->dtype, TMK_INT16);
    assert_int_equal(tmk_encodings_find(all, 2, "exp", 0)->dtype, TMK_INT16);
    tmk_encodings_destroy(&all);
    tmk_profile_destroy(&p);
}

/* present = concat(past, transpose(x * w)), an output, which a second product reads. */
TEST(test_what_joins_a_cache_is_float_until_it_is_read) {
    const struct tmk_calibrate_options plain = {.sensitive = "float"};
    const float w[] = {-0.5f, 0.25f};
    struct tmk_profile *p = new_profile();
    input(p, "x");
    input(p, "past");
    add(p, "w", TMK_PROFILE_WEIGHT, w, 2, 0);
    add(p, "value", TMK_PROFILE_ACTIVATION, ramp, N, -1);
    made_by(p, "a", "MatMul", (const uint32_t[]){0, 2}, 2);
    add(p, "turned", TMK_PROFILE_ACTIVATION, ramp, N, -1);
    made_by(p, "turn", "Transpose", (const uint32_t[]){3}, 1);
    add(p, "present", TMK_PROFILE_OUTPUT, ramp, N, -1);
    made_by(p, "join", "Concat", (const uint32_t[]){1, 4}, 2);
    add(p, "y", TMK_PROFILE_OUTPUT, ramp, N, -1);
    made_by(p, "b", "MatMul", (const uint32_t[]){0, 5}, 2);
    struct tmk_encodings *all = calibrated(p, &plain, NULL);
    assert_non_null(strstr(reason(all, 3), "float for Transpose 'turn'"));
    const uint32_t joined[] = {1, 4, 5};
    for (size_t i = 0; i < sizeof joined / sizeof *joined; i++)
        assert_non_null(strstr(reason(all, joined[i]), "an output of the model, in float as Co"));
    assert_int_equal(tmk_encodings_find(all, 5, "b", 1)->dtype, TMK_UINT8);
    tmk_encodings_destroy(&all);
    tmk_profile_destroy(&p);
}

/* ---- weights and biases ---- */

/* y = x * w (2 channels), and y + b where `add_bias`. */
static struct tmk_profile *dense(float bias, bool add_bias, bool bias_first) {
    const float w[] = {-0.5f, 0.25f}, b[] = {bias, -bias / 2};
    struct tmk_profile *p = new_profile();
    input(p, "x");
    add(p, "w", TMK_PROFILE_WEIGHT, w, 2, 0);
    add(p, "b", TMK_PROFILE_WEIGHT, b, 2, -1);
    add(p, "y", TMK_PROFILE_ACTIVATION, ramp, N, -1);
    if (!add_bias) {
        made_by(p, "g", "Gemm", (const uint32_t[]){0, 1, 2}, 3);
        return p;
    }
    made_by(p, "m", "MatMul", (const uint32_t[]){0, 1}, 2);
    add(p, "z", TMK_PROFILE_OUTPUT, wide_ramp, N, -1);
    made_by(p, "a", "Add", (const uint32_t[]){bias_first ? 2 : 3, bias_first ? 3 : 2}, 2);
    return p;
}

static void assert_bias(const struct tmk_encodings *all) {
    const struct tmk_encoding *x = item(all, 0), *w = item(all, 1), *b = item(all, 2);
    assert_int_equal(w->role, TMK_ENCODING_WEIGHT);
    assert_int_equal(b->role, TMK_ENCODING_BIAS);
    assert_int_equal(b->dtype, TMK_INT32);
    assert_int_equal(b->n, 2);
    assert_true(b->sources[0] == 0 && b->sources[1] == 1);
    for (int i = 0; i < 2; i++)
        assert_true(b->scale[i] == x->scale[0] * w->scale[i]);
}

TEST(test_a_bias_has_the_accumulators_scale) {
    for (int way = 0; way < 3; way++) {
        struct tmk_profile *p = dense(1, way > 0, way == 2);
        struct tmk_encodings *all = calibrated(p, NULL, NULL);
        assert_bias(all);
        assert_int_equal(all->n_requants, 1);
        const struct tmk_requant *r = &all->requants[0];
        uint32_t y = way ? 4 : 3;
        assert_int_equal(r->id, y);
        assert_int_equal(r->operand, -1);
        assert_int_equal(r->n, 2);
        for (int i = 0; i < 2; i++)
            assert_true(r->real[i] == (double)item(all, 0)->scale[0] *
                                          (double)item(all, 1)->scale[i] /
                                          (double)item(all, y)->scale[0]);
        if (way)
            assert_non_null(strstr(reason(all, 3), "accumulator"));
        tmk_encodings_destroy(&all);
        tmk_profile_destroy(&p);
    }
}

TEST(test_an_add_is_no_bias_where_it_must_not_be) {
    static const char *const configs[] = {
        "{\"built_in\":{\"bias-add\":false}}",
        "{\"rules\":[{\"match\":{\"op\":\"bias_add\"},\"quantize\":false}]}",
        "{\"rules\":[{\"match\":{\"kind\":\"bias\"},\"quantize\":false}]}",
        "{\"rules\":[{\"match\":{\"op\":\"dense\"},\"quantize\":false}]}",
    };
    static const bool constant_is_quantized[] = {true, false, false, true};
    static const bool product_has_no_codes[] = {false, false, true,
                                                false}; /* before a float bias */
    for (int i = 0; i < 4; i++) {
        struct tmk_profile *p = dense(1, true, false);
        struct tmk_encodings *all = calibrated(p, NULL, configs[i]);
        const struct tmk_encoding *b = tmk_encodings_find(all, 2, NULL, 0);
        assert_int_equal(b != NULL, constant_is_quantized[i]);
        if (b)
            assert_int_equal(b->role, TMK_ENCODING_ACTIVATION);
        else
            assert_non_null(strstr(reason(all, 2), "rules[0]"));
        assert_int_equal(strstr(reason(all, 3), "accumulator") != NULL, product_has_no_codes[i]);
        assert_string_equal(remarks, "");
        tmk_encodings_destroy(&all);
        tmk_profile_destroy(&p);
    }
    struct tmk_profile *p = dense(1, true, false); /* the product has another reader */
    result(p, "t", "t", "Tanh", ramp, 3, TMK_NET_NONE);
    struct tmk_encodings *all = calibrated(p, NULL, NULL);
    assert_int_equal(item(all, 2)->role, TMK_ENCODING_ACTIVATION);
    assert_int_equal(item(all, 3)->dtype, TMK_UINT8);
    tmk_encodings_destroy(&all);
    tmk_profile_destroy(&p);
}

TEST(test_a_bias_that_would_overflow_enlarges_the_weights_scale) {
    const float bias = 1e9f;
    struct tmk_profile *p = dense(bias, false, false);
    struct tmk_encodings *all = calibrated(p, NULL, NULL);
    assert_bias(all);
    assert_string_equal(item(all, 1)->rule, "bias-fits");
    assert_non_null(strstr(remarks, "'w': 2 of its 2 scales were enlarged"));
    for (int i = 0; i < 2; i++) {
        double code = (double)bias / (double)item(all, 2)->scale[i];
        assert_true(code < 2147483647 && code > 2147483647 * 0.999);
    }
    tmk_encodings_destroy(&all);
    const struct tmk_calibrate_options pow2 = {.pow2_requant = true};
    all = calibrated(p, &pow2, NULL);
    assert_bias(all);
    int exponent;
    assert_true(frexpf(item(all, 1)->scale[0], &exponent) == 0.5f);
    assert_true((double)bias / (double)item(all, 2)->scale[0] < 2147483647);
    tmk_encodings_destroy(&all);
    tmk_profile_destroy(&p);
}

TEST(test_constants_are_what_they_are_behind_a_reshape) {
    struct tmk_profile *p = new_profile();
    input(p, "x");
    add(p, "c", TMK_PROFILE_WEIGHT, wide_ramp, N, -1);
    result(p, "w", "r", "Reshape", wide_ramp, 1, TMK_NET_NONE);
    result(p, "y", "m", "MatMul", ramp, 0, 2);
    add(p, "limit", TMK_PROFILE_WEIGHT, ramp, N, -1);
    result(p, "z", "k", "Clip", ramp, 3, 4);
    struct tmk_encodings *all = calibrated(p, NULL, NULL);
    assert_int_equal(item(all, 1)->role, TMK_ENCODING_WEIGHT);
    assert_int_equal(item(all, 2)->role, TMK_ENCODING_WEIGHT);
    assert_true(item(all, 1)->scale[0] == item(all, 2)->scale[0]);
    assert_non_null(strstr(reason(all, 4), "a parameter of Clip 'k'"));
    tmk_encodings_destroy(&all);
    tmk_profile_destroy(&p);
}

/* ---- what stays float ---- */

TEST(test_ranges_to_the_ends_of_float32_are_written_and_read) {
    static const float wide[] = {-FLT_MAX, -1, 0, 1, 2, 3, 4, FLT_MAX};
    struct tmk_profile *p = new_profile();
    input(p, "x");
    result(p, "w", "w", "Tanh", wide, 0, TMK_NET_NONE);
    static const char *const types[] = {"uint8", "int8", "uint16", "int16"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char config[200];
        for (int symmetric = 0; symmetric < 2; symmetric++) {
            snprintf(config, sizeof config,
                     "{\"built_in\":{\"masks-stay-float\":false},\"defaults\":{\"dtype\":\"%s\","
                     "\"method\":\"minmax\",\"scheme\":\"%s\"}}",
                     types[i], symmetric ? "symmetric" : "asymmetric");
            struct tmk_encodings *all = calibrated(p, NULL, config);
            assert_true(isfinite(item(all, 1)->clip_min[0]) && isfinite(item(all, 1)->clip_max[0]));
            tmk_encodings_destroy(&all);
        }
    }
    tmk_profile_destroy(&p);
}

TEST(test_masks_stay_float) {
    static const float masked[] = {-INFINITY, -1, 0, 1, 2, 3, 4, 5};
    static const float sentinel[] = {-1e9f, -1, 0, 1, 2, 3, 4, 5};
    static const float lowest[N] = {-FLT_MAX};
    struct tmk_profile *p = new_profile();
    input(p, "x");
    result(p, "i", "i", "Tanh", masked, 0, TMK_NET_NONE);
    result(p, "s", "s", "Sin", sentinel, 0, TMK_NET_NONE);
    add(p, "c", TMK_PROFILE_WEIGHT, lowest, N, -1);
    result(p, "m", "m", "Mul", ramp, 0, 3);
    struct tmk_encodings *all = calibrated(p, NULL, NULL);
    assert_non_null(strstr(reason(all, 1), "infinities"));
    assert_non_null(strstr(reason(all, 2), "masks"));
    assert_non_null(strstr(reason(all, 3), "masks"));
    assert_int_equal(item(all, 4)->dtype, TMK_UINT8);
    tmk_encodings_destroy(&all);
    all = calibrated(p, NULL, "{\"built_in\":{\"masks-stay-float\":false}}");
    assert_true(item(all, 1)->observed_min == -1);
    assert_true(item(all, 2)->observed_min == -1e9f);
    tmk_encodings_destroy(&all);
    tmk_profile_destroy(&p);
}

/* As `profile --exclude` leaves the value. */
static void leave_out(struct tmk_profile_tensor *t, const float *x, float number) {
    struct tmk_stats_pass pass;
    uint32_t bits;
    const struct tmk_stats_at at = {.samples = 1, .channel_axis = -1, .whole = true};
    memcpy(&bits, &number, sizeof bits);
    tmk_stats_destroy(&t->stats);
    must(tmk_stats_create(TMK_STATS_HISTOGRAM, &t->stats, DIAG));
    must(tmk_stats_begin(t->stats, &t->shape, &at, NULL, &pass, DIAG));
    tmk_stats_exclude(&pass, &bits, 1);
    must(tmk_stats_piece(&pass, x, 0, N, DIAG));
    must(tmk_stats_end(&pass, DIAG));
}

TEST(test_what_numbers_were_left_out_of_stays_float) {
    static const float mask[N] = {-1e4f, 0, 0, -1e4f};
    static const char *const configs[] = {
        NULL, "{\"built_in\":{\"masks-stay-float\":false}}",
        "{\"rules\":[{\"match\":{\"id\":\"p1\"},\"quantize\":true,\"range\":[-100,0]}]}"};
    struct tmk_profile *p = new_profile();
    input(p, "x");
    result(p, "m", "m", "Tanh", mask, 0, TMK_NET_NONE);
    leave_out(&p->tensors[1], mask, -1e4f);
    result(p, "both", "both", "Concat", ramp, 0, 1);
    result(p, "sum", "sum", "Add", ramp, 0, 1);
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        struct tmk_encodings *all = calibrated(p, NULL, configs[i]);
        assert_non_null(strstr(reason(all, 1), "left out"));
        assert_int_equal(item(all, 0)->dtype, TMK_UINT8);
        assert_int_equal(item(all, 3)->dtype, TMK_UINT8);
        tmk_encodings_destroy(&all);
    }
    tmk_profile_destroy(&p);
}

TEST(test_arithmetic_on_shapes_stays_float) {
    struct tmk_profile *p = new_profile();
    input(p, "x");
    result(p, "n", "n", "Shape", ramp, 0, TMK_NET_NONE);
    p->tensors[1].has_int_stats = true;
    p->tensors[1].dtype = TMK_INT64;
    p->tensors[1].status = TMK_PROFILE_INTEGER;
    tmk_stats_destroy(&p->tensors[1].stats);
    result(p, "f", "f", "Cast", ramp, 1, TMK_NET_NONE);
    result(p, "y", "y", "Resize", ramp, 0, 2);
    struct tmk_encodings *all = calibrated(p, NULL, NULL);
    assert_non_null(strstr(reason(all, 1), "integers"));
    assert_non_null(strstr(reason(all, 2), "does not depend on the data"));
    assert_true(isnan(all->left[0].observed_min) && all->left[1].observed_max == 4);
    assert_share(item(all, 0), item(all, 3));
    tmk_encodings_destroy(&all);
    tmk_profile_destroy(&p);
}

/* ---- names of operators ---- */

TEST(test_operators_have_other_names_elsewhere) {
    static const struct {
        const char *op, *word;
        enum tmk_op_only only;
    } same[] = {
        {"Gemm", "gemm", TMK_OP_ALL},
        {"Gemm", "nn.dense", TMK_OP_ONLY_DENSE},
        {"MatMul", "Dense", TMK_OP_ONLY_DENSE},
        {"Conv", "nn.conv2d", TMK_OP_ALL},
        {"Conv", "Conv2D", TMK_OP_ALL},
        {"Add", "nn.bias_add", TMK_OP_ONLY_BIAS},
        {"Add", "add", TMK_OP_ALL},
        {"Softmax", "nn.softmax", TMK_OP_ALL},
        {"BatchNormalization", "nn.batch_norm", TMK_OP_ALL},
        {"MaxPool", "nn.max_pool2d", TMK_OP_ALL},
        {"Resize", "image.resize2d", TMK_OP_ALL},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        enum tmk_op_only only;
        assert_true(tmk_op_is_called(same[i].op, same[i].word, &only));
        assert_int_equal(only, same[i].only);
    }
    enum tmk_op_only only;
    assert_false(tmk_op_is_called("Conv", "dense", &only));
    assert_false(tmk_op_is_called("Gemm", "", &only));
}

TEST(test_what_makes_no_sense_is_an_argument) {
    const struct tmk_calibrate_options wrong[] = {
        {.activations.method = "best"},     {.activations.scheme = "affine"},
        {.activations.dtype = TMK_FLOAT32}, {.activations.dtype = TMK_INT32},
        {.weights.scales = "row"},          {.activations = {.method = "minmax", .parameter = 3}},
    };
    struct tmk_profile *p = dense(1, false, false);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct tmk_encodings *all = NULL;
        assert_int_equal(tmk_calibrate(p, &wrong[i], &all, DIAG), TMK_ARGUMENT);
        assert_true(test_diag.text[0]);
        assert_null(all);
    }
    tmk_profile_destroy(&p);
}

GROUP_FIXTURE(make_folder, remove_folder)
