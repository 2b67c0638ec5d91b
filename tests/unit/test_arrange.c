/* SPDX-License-Identifier: Apache-2.0 */
/* Plans with layouts, chains and derived statistics, held against plans that do without. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "exec/derive.h"
#include "exec/worker.h"
#include "graph/graph.h"
#include "graph_text/read.h"
#include "ops/ops.h"
#include "pass/instrument.h"

/* ---- models with weights made up ---- */

struct model {
    char text[1 << 20];
    size_t used;
    uint32_t seed;
};

static float noise(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return (float)((int32_t)(*seed >> 8) - (1 << 23)) / (float)(1 << 23);
}

static void say(struct model *m, const char *text) {
    m->used += (size_t)snprintf(m->text + m->used, sizeof m->text - m->used, "%s\n", text);
    assert_true(m->used < sizeof m->text);
}

static void begin(struct model *m, const char *inputs) {
    *m = (struct model){.seed = 7};
    say(m, "graph \"g\" opset 17 \"ai.tidemark\" 1 {");
    say(m, inputs);
}

/* Elements between low and high. */
static void weight(struct model *m, const char *name, const char *dims, float low, float high) {
    size_t n = 1;
    for (const char *d = dims; *d; d = strchr(d, ',') ? strchr(d, ',') + 1 : "")
        n *= (size_t)strtoul(d, NULL, 10);
    m->used += (size_t)snprintf(m->text + m->used, sizeof m->text - m->used,
                                " init %%%s : f32[%s] = {", name, dims);
    for (size_t i = 0; i < n; i++)
        m->used +=
            (size_t)snprintf(m->text + m->used, sizeof m->text - m->used, "%s%.6g", i ? ", " : "",
                             (double)(low + (high - low) * (noise(&m->seed) + 1) / 2));
    say(m, "}");
}

static void conv(struct model *m, const char *to, const char *from, int out, int in, int k,
                 int stride, int group) {
    char name[64], dims[64], line[512];
    snprintf(name, sizeof name, "%s_w", to);
    snprintf(dims, sizeof dims, "%d,%d,%d,%d", out, in / group, k, k);
    weight(m, name, dims, -0.5f, 0.5f);
    snprintf(line, sizeof line,
             " %%%s = Conv(%%%s, %%%s) {pads=[%d,%d,%d,%d], strides=[%d,%d], group=%d}", to, from,
             name, k / 2, k / 2, k / 2, k / 2, stride, stride, group);
    say(m, line);
}

static void norm(struct model *m, const char *to, const char *from, int channels) {
    char name[64], dims[16], line[512];
    snprintf(dims, sizeof dims, "%d", channels);
    static const char *const parts[] = {"scale", "bias", "mean", "var"};
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s_%s", to, parts[i]);
        weight(m, name, dims, i == 3 ? 0.5f : -1, i == 3 ? 2 : 1);
    }
    snprintf(line, sizeof line,
             " %%%s = BatchNormalization(%%%s, %%%s_scale, %%%s_bias, %%%s_mean, %%%s_var)", to,
             from, to, to, to, to);
    say(m, line);
}

/* ---- running ---- */

enum { SAMPLES = 3, MOST_SLOTS = 256 };

struct scene {
    struct tmk_graph *graph;
    struct tmk_observer *observers;
    uint32_t n_slots;
    struct tmk_slot_config configs[MOST_SLOTS];
    struct tmk_account accounts[MOST_SLOTS];
    uint8_t needs[MOST_SLOTS];
    struct tmk_stats_at at;
    float *outputs[SAMPLES][8];
    size_t counts[8];
};

static struct tmk_stats_at at_of(const struct scene *scene, int32_t axis, uint32_t block) {
    struct tmk_stats_at at = scene->at;
    at.channel_axis = axis;
    at.block = block;
    return at;
}

static enum tmk_status look(void *context, uint32_t slot, const struct tmk_tensor *tensor,
                            int32_t axis, uint32_t block, struct tmk_diag *diag) {
    struct scene *s = context;
    const struct tmk_stats_at at = at_of(s, axis, block);
    return tmk_derive_look(s->accounts, s->configs, slot, tensor, &at, diag);
}

static enum tmk_status first(void *context, uint32_t slot, const struct tmk_tensor *tensor,
                             int32_t axis, uint32_t block, struct tmk_diag *diag) {
    struct scene *s = context;
    const struct tmk_stats_at at = at_of(s, axis, block);
    return tmk_account_begin(&s->accounts[slot], &s->configs[slot], tensor, &at, diag);
}

static enum tmk_status piece(void *context, uint32_t slot, const float *x, size_t at, size_t n,
                             struct tmk_diag *diag) {
    struct scene *s = context;
    return tmk_account_piece(&s->accounts[slot], &s->configs[slot], x, at, n, diag);
}

static enum tmk_status last(void *context, uint32_t slot, struct tmk_diag *diag) {
    struct scene *s = context;
    return tmk_account_end(&s->accounts[slot], &s->configs[slot], diag);
}

static void keep_outputs(struct scene *s, const struct tmk_worker *worker, int round) {
    assert_true(s->graph->n_outputs <= 8);
    for (uint32_t i = 0; i < s->graph->n_outputs; i++) {
        struct tmk_tensor tensor = tmk_worker_value(worker, s->graph->outputs[i]);
        size_t n = tmk_tensor_count(&tensor);
        s->outputs[round][i] = malloc(n * sizeof(float) + 1);
        memcpy(s->outputs[round][i], tensor.data, n * sizeof(float));
        s->counts[i] = n;
    }
}

static void run_all(struct scene *s, bool plain, const struct tmk_shape *shape, bool special) {
    struct tmk_plan *plan = NULL;
    struct tmk_worker *worker = NULL;
    const struct tmk_plan_options options = {.needs = s->needs, .plain = plain};
    const struct tmk_watch watch = {look, first, piece, last, s};
    struct tmk_tensor typed, input;
    tmk_tensor_borrow(&typed, TMK_FLOAT32, shape, NULL);
    must(tmk_plan_create(s->graph, &typed, &options, &plan, DIAG));
    must(tmk_worker_create(&worker, DIAG));
    must(tmk_tensor_init(&input, TMK_FLOAT32, shape, DIAG));
    uint32_t seed = 99;
    for (int round = 0; round < SAMPLES; round++) {
        float *x = input.data;
        for (size_t i = 0; i < tmk_tensor_count(&input); i++)
            x[i] = noise(&seed) * 3;
        if (special && round == 1) {
            x[3] = NAN;
            x[tmk_tensor_count(&input) / 2] = INFINITY;
        }
        uint64_t samples = (uint64_t)shape->dim[0];
        s->at = (struct tmk_stats_at){(uint64_t)round * samples, samples, -1, false, 0};
        must(tmk_worker_run(worker, plan, &input, &watch, DIAG));
        tmk_derive_note(s->accounts, s->configs, s->n_slots, &s->at);
        keep_outputs(s, worker, round);
    }
    must(tmk_derive_all(s->accounts, s->configs, s->n_slots, DIAG));
    tmk_tensor_finish(&input);
    tmk_worker_destroy(&worker);
    tmk_plan_destroy(&plan);
}

enum how { PLAIN, ARRANGED, DERIVED };

static struct scene *play(const char *text, enum how how, const struct tmk_shape *shape,
                          bool special) {
    struct scene *s = calloc(1, sizeof *s);
    const struct tmk_instrument_options all = {.kind = TMK_OBSERVER_HISTOGRAM};
    must(parse_graph(text, NULL, &s->graph, DIAG));
    must(tmk_ops_bind(s->graph, DIAG));
    must(tmk_graph_identify(s->graph, NULL, DIAG));
    must(tmk_instrument(s->graph, &all, NULL, DIAG));
    must(tmk_ops_bind(s->graph, DIAG));
    tmk_graph_number(s->graph);
    must(tmk_observer_slots(s->graph, &s->observers, &s->n_slots, DIAG));
    assert_true(s->n_slots <= MOST_SLOTS);
    for (uint32_t i = 0; i < s->n_slots; i++)
        s->configs[i] = (struct tmk_slot_config){.level = TMK_STATS_HISTOGRAM, .label = "a value"};
    if (how == DERIVED)
        must(tmk_derive_rules(s->graph, s->observers, s->configs, s->n_slots, DIAG));
    for (uint32_t i = 0; i < s->n_slots; i++)
        s->needs[i] = s->configs[i].rule ? TMK_TAP_SHAPE : TMK_TAP_PIECES;
    run_all(s, how == PLAIN, shape, special);
    return s;
}

static void drop(struct scene *s) {
    for (uint32_t i = 0; i < s->n_slots; i++) {
        tmk_account_finish(&s->accounts[i]);
        free(s->configs[i].sources);
    }
    for (int r = 0; r < SAMPLES; r++)
        for (int i = 0; i < 8; i++)
            free(s->outputs[r][i]);
    free(s->observers);
    tmk_graph_destroy(&s->graph);
    free(s);
}

/* ---- comparing ---- */

static void same_states(const struct scene *a, const struct scene *b) {
    for (uint32_t i = 0; i < a->n_slots; i++) {
        struct tmk_text x = {0}, y = {0};
        assert_int_equal(a->accounts[i].runs, b->accounts[i].runs);
        assert_int_equal(a->accounts[i].elements, b->accounts[i].elements);
        if (!a->accounts[i].floats && !b->accounts[i].floats)
            continue;
        tmk_stats_encode(a->accounts[i].floats, &x);
        tmk_stats_encode(b->accounts[i].floats, &y);
        if (x.len != y.len || memcmp(x.data, y.data, x.len) != 0)
            fail_msg("the states of '%s' differ", a->observers[i].tensor_name);
        tmk_text_finish(&x);
        tmk_text_finish(&y);
    }
}

static void near_ranges(const struct scene *a, const struct scene *b) {
    for (uint32_t i = 0; i < a->n_slots; i++) {
        struct tmk_summary x, y;
        if (!a->accounts[i].floats)
            continue;
        tmk_stats_summary(a->accounts[i].floats, &x);
        tmk_stats_summary(b->accounts[i].floats, &y);
        float range = x.max - x.min, most = 1e-4f * range + 1e-6f;
        assert_int_equal(x.count, y.count);
        assert_int_equal(x.nan, y.nan);
        assert_int_equal(x.samples, y.samples);
        assert_int_equal(x.channel_axis, y.channel_axis);
        assert_int_equal(x.channels, y.channels);
        if (!(fabsf(x.min - y.min) <= most) || !(fabsf(x.max - y.max) <= most))
            fail_msg("'%s' is in [%g, %g] or in [%g, %g]", a->observers[i].tensor_name,
                     (double)x.min, (double)x.max, (double)y.min, (double)y.max);
        for (size_t c = 0; c < x.channels; c++)
            if (isfinite(x.channel_min[c]))
                assert_true(fabsf(x.channel_min[c] - y.channel_min[c]) <= most &&
                            fabsf(x.channel_max[c] - y.channel_max[c]) <= most);
    }
}

static void near_outputs(const struct scene *a, const struct scene *b) {
    for (int r = 0; r < SAMPLES; r++)
        for (uint32_t i = 0; i < a->graph->n_outputs; i++) {
            assert_int_equal(a->counts[i], b->counts[i]);
            for (size_t k = 0; k < a->counts[i]; k++) {
                float x = a->outputs[r][i][k], y = b->outputs[r][i][k];
                if (!(fabsf(x - y) <= 1e-3f * (1 + fabsf(x))) && !(isnan(x) && isnan(y)))
                    fail_msg("output %u, element %zu: %g and %g", i, k, (double)x, (double)y);
            }
        }
}

static void compare(const struct model *m, const struct tmk_shape *shape) {
    for (int special = 0; special < 2; special++) {
        struct scene *plain = play(m->text, PLAIN, shape, false),
                     *arranged = play(m->text, ARRANGED, shape, special),
                     *derived = play(m->text, DERIVED, shape, special);
        if (!special) {
            near_outputs(plain, arranged);
            near_ranges(plain, arranged);
        }
        same_states(arranged, derived);
        drop(plain);
        drop(arranged);
        drop(derived);
    }
}

/* Twice: a sample a batch, and two. */
static void compare_batches(const struct model *m, struct tmk_shape shape) {
    compare(m, &shape);
    shape.dim[0] = 2;
    compare(m, &shape);
}

/* ---- the models ---- */

static struct model *m;

static const struct tmk_shape image = {4, {1, 3, 19, 17}};

TEST(a_residual_network) {
    begin(m, " input %x : f32[\"N\",3,19,17]");
    conv(m, "c1", "x", 20, 3, 3, 1, 1);
    norm(m, "b1", "c1", 20);
    say(m, " %r1 = Relu(%b1)\n %p = MaxPool(%r1) {kernel_shape=[3,3], strides=[2,2], "
           "pads=[1,1,1,1]}");
    conv(m, "c2", "p", 20, 20, 3, 1, 1);
    norm(m, "b2", "c2", 20);
    say(m, " %r2 = Relu(%b2)");
    conv(m, "c3", "r2", 40, 20, 1, 1, 1);
    norm(m, "b3", "c3", 40);
    conv(m, "down", "p", 40, 20, 1, 1, 1); /* the group of b3 has to wait for it */
    norm(m, "bd", "down", 40);
    say(m, " %sum = Add(%b3, %bd)\n %r3 = Relu(%sum)");
    conv(m, "dw", "r3", 40, 40, 3, 2, 40);
    norm(m, "bw", "dw", 40);
    say(m, " init %lo : f32[] = {0}\n init %hi : f32[] = {6}\n %r6 = Clip(%bw, %lo, %hi)");
    say(m, " %g = GlobalAveragePool(%r6)\n %flat = Flatten(%g)");
    weight(m, "fc_w", "40,10", -0.5f, 0.5f);
    weight(m, "fc_b", "10", -0.5f, 0.5f);
    say(m, " %fc = Gemm(%flat, %fc_w, %fc_b)\n %y = Softmax(%fc)\n output %y\n}");
    compare_batches(m, image);
}

TEST(a_dense_network) {
    begin(m, " input %x : f32[\"N\",3,19,17]");
    conv(m, "c0", "x", 32, 3, 3, 1, 1);
    say(m, " %r0 = Relu(%c0)");
    conv(m, "c1", "r0", 16, 32, 3, 1, 1);
    say(m, " %j1 = Concat(%r0, %c1) {axis=1}");
    norm(m, "b1", "j1", 48);
    say(m, " %r1 = Relu(%b1)");
    conv(m, "c2", "r1", 16, 48, 1, 1, 1);
    say(m, " %j2 = Concat(%j1, %c2) {axis=1}");
    norm(m, "b2", "j2", 64);
    say(m, " %r2 = Relu(%b2)");
    conv(m, "c3", "r2", 5, 64, 1, 1, 1);                  /* does not fill its block */
    say(m, " %j3 = Concat(%j2, %c3, %c1, %c3) {axis=1}"); /* so this one is row-major */
    say(m, " %a = AveragePool(%j3) {kernel_shape=[2,2], strides=[2,2]}\n output %a\n}");
    compare_batches(m, image);
}

/* Values of a plan whose samples stand apart. */
static uint32_t count_apart(const char *text, const struct tmk_shape *shape) {
    struct tmk_plan *plan = NULL;
    struct tmk_tensor typed;
    struct scene *s = play(text, DERIVED, shape, false);
    const struct tmk_plan_options options = {.needs = s->needs};
    uint32_t n = 0;
    tmk_tensor_borrow(&typed, TMK_FLOAT32, shape, NULL);
    must(tmk_plan_create(s->graph, &typed, &options, &plan, DIAG));
    for (uint32_t i = 0; i < s->graph->n_values; i++)
        n += plan->values[i].pitch > 0 && plan->values[i].place == TMK_PLACE_ARENA;
    tmk_plan_destroy(&plan);
    drop(s);
    return n;
}

/* Of the parts of a batch's Concats, those stand apart that chains and Concats alone make and read:
 * r1 and r2, the joined of them, a part of it again. */
TEST(parts_of_a_batch_are_made_in_their_places) {
    struct tmk_shape two = image;
    two.dim[0] = 2;
    begin(m, " input %x : f32[\"N\",3,19,17]");
    conv(m, "c0", "x", 32, 3, 3, 1, 1);
    say(m, " %r0 = Relu(%c0)");
    conv(m, "c1", "r0", 16, 32, 1, 1, 1);
    conv(m, "c2", "r0", 32, 32, 3, 1, 1);
    conv(m, "c3", "r0", 16, 32, 1, 1, 1);
    conv(m, "c4", "r0", 16, 32, 1, 1, 1);
    say(m, " %r1 = Relu(%c1)\n %r2 = Tanh(%c2)\n %j1 = Concat(%r1, %r2) {axis=1}");
    norm(m, "b1", "j1", 48);
    say(m, " %r3 = Relu(%b1)\n %r4 = Relu(%c3)\n %r5 = Relu(%c4)");
    say(m, " %j2 = Concat(%r5, %j1, %r4) {axis=1}");
    conv(m, "c5", "r3", 80, 48, 1, 1, 1);
    conv(m, "c6", "r4", 16, 16, 1, 1, 1); /* which reads r4 */
    say(m, " %s = Add(%c5, %j2)\n %y = Sigmoid(%s)\n output %y\n output %c6\n output %r5\n}");
    compare_batches(m, image);
    assert_int_equal(count_apart(m->text, &image), 0);
    if (tmk_kernel_block())
        assert_true(count_apart(m->text, &two) >= 3);
}

TEST(squeeze_and_excite) {
    begin(m, " input %x : f32[\"N\",3,19,17]");
    conv(m, "c0", "x", 24, 3, 3, 2, 1);
    say(m, " %h = HardSwish(%c0)\n %g = GlobalAveragePool(%h)");
    conv(m, "s1", "g", 6, 24, 1, 1, 1);
    say(m, " %s2 = Relu(%s1)");
    conv(m, "s3", "s2", 24, 6, 1, 1, 1);
    say(m, " %s4 = Sigmoid(%s3)\n %y = Mul(%h, %s4)");
    weight(m, "k", "24,1,1", -1, 1);
    say(m, " %z = Mul(%y, %k)\n %w = Identity(%z)\n %v = LeakyRelu(%w)\n"
           " %m = ReduceMean(%v) {axes=[2,3], keepdims=0}\n output %m\n}");
    compare_batches(m, image);
}

TEST(a_transformer_block) {
    begin(m, " input %x : f32[\"N\",7,24]");
    weight(m, "wq", "24,24", -0.3f, 0.3f);
    weight(m, "bq", "24", -0.3f, 0.3f);
    weight(m, "wk", "24,24", -0.3f, 0.3f);
    say(m, " %q0 = MatMul(%x, %wq)\n %q1 = Add(%bq, %q0)\n %k = MatMul(%x, %wk)\n"
           " %t = Transpose(%k) {perm=[0,2,1]}\n %s0 = MatMul(%q1, %t)\n"
           " init %root : f32[] = {4.9}\n %s1 = Div(%s0, %root)\n %s2 = Softmax(%s1)\n"
           " %c = MatMul(%s2, %x)\n %r = Add(%c, %x)\n"
           " %mean = ReduceMean(%r) {axes=[-1]}\n %d = Sub(%r, %mean)\n init %two : f32[] = {2}\n"
           " %sq = Pow(%d, %two)\n %var = ReduceMean(%sq) {axes=[-1]}\n"
           " init %eps : f32[] = {0.00001}\n %ve = Add(%var, %eps)\n %sd = Sqrt(%ve)\n"
           " %n = Div(%d, %sd)");
    weight(m, "gamma", "24", -1, 1);
    weight(m, "beta", "24", -1, 1);
    say(m, " %n1 = Mul(%n, %gamma)\n %n2 = Add(%n1, %beta)");
    weight(m, "w1", "24,50", -0.3f, 0.3f);
    say(m, " %f = MatMul(%n2, %w1)\n %g0 = Div(%f, %root)\n %g1 = Erf(%g0)\n"
           " init %one : f32[] = {1}\n %g2 = Add(%g1, %one)\n %g3 = Mul(%f, %g2)\n"
           " init %half : f32[] = {0.5}\n %g4 = Mul(%g3, %half)\n output %g4\n output %sq\n}");
    compare_batches(m, (struct tmk_shape){3, {1, 7, 24}});
}

/* Outputs on the way, dead ends, a value read by a branch, one node twice in one Concat. */
TEST(values_that_others_want) {
    begin(m, " input %x : f32[\"N\",3,19,17]");
    conv(m, "c0", "x", 16, 3, 3, 1, 1);
    norm(m, "b0", "c0", 16);
    say(m, " %r0 = Relu(%b0)\n %dead = Neg(%b0)\n %e = Exp(%dead)");
    conv(m, "c1", "r0", 18, 16, 3, 1, 1);
    say(m, " %a = Abs(%c1)\n %b = Tanh(%a)\n %i = ReduceMax(%x) {keepdims=0}\n"
           " init %zero : f32[] = {0}\n %yes = Greater(%i, %zero)\n"
           " %o = If(%yes) {then_branch=graph \"t\" {\n %n = Neg(%b)\n output %n\n },"
           " else_branch=graph \"f\" {\n %n2 = Abs(%a)\n output %n2\n }}\n"
           " %p = Add(%b, %o)\n %q = Concat(%p, %p, %o) {axis=1}\n"
           " output %q\n output %b0\n output %r0\n output %p\n}");
    compare_batches(m, image);
}

/* Samples of a batch that are put behind each other; of the whole, nothing follows. */
TEST(a_concatenation_of_samples) {
    begin(m, " input %x : f32[\"N\",3,19,17]");
    say(m, " %n = Sin(%x)\n %s = ReduceL1(%n) {axes=[1,2,3]}\n %c = Cos(%s)\n"
           " %j = Concat(%c, %s) {axis=-4}\n output %j\n}");
    compare(m, &(struct tmk_shape){4, {5, 3, 19, 17}});
}

static uint32_t count_rules(const char *text, const struct tmk_shape *shape,
                            enum tmk_derive_rule rule) {
    struct scene *s = play(text, DERIVED, shape, false);
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_slots; i++)
        n += s->configs[i].rule == rule;
    drop(s);
    return n;
}

/* Some put samples together or cut them anew. */
TEST(the_same_elements_in_other_shapes) {
    begin(m, " input %x : f32[\"N\",3,19,17]");
    say(m, " %s = Sin(%x)\n %f1 = Flatten(%s)\n %f2 = Flatten(%s) {axis=2}\n"
           " %f0 = Flatten(%f2) {axis=0}\n init %rows : i64[2] = {-1, 17}\n"
           " %r1 = Reshape(%x, %rows)\n init %back : i64[4] = {-1, 3, 19, 17}\n"
           " %r2 = Reshape(%r1, %back)\n init %zero : i64[1] = {0}\n"
           " %u = Unsqueeze(%r2, %zero)\n %q = Squeeze(%u, %zero)\n %j = Concat(%q, %s) {axis=1}\n"
           " %f3 = Flatten(%j) {axis=3}\n %n = Relu(%q)\n %f4 = Flatten(%n) {axis=3}");
    conv(m, "c", "s", 20, 3, 3, 1, 1);
    say(m, " %i = Identity(%c)\n %d = Dropout(%i)\n %r = Relu(%c)\n %v = Identity(%r)\n"
           " %w = Concat(%v, %d) {axis=1}\n output %f0\n output %f1\n output %f3\n output %f4\n"
           " output %w\n}");
    compare_batches(m, image);
    assert_int_equal(count_rules(m->text, &image, TMK_DERIVE_VIEW), 12);
}

/* Of what lies in blocks, was clamped, joined, or has another shape; ties of zeros among them. */
TEST(the_same_elements_in_another_order) {
    begin(m, " input %x : f32[\"N\",3,19,17]");
    say(m, " %t0 = Transpose(%x)\n %t1 = Transpose(%x) {perm=[1,0,3,2]}\n"
           " %t2 = Transpose(%t1) {perm=[1,2,3,0]}\n %f = Flatten(%t2) {axis=3}\n"
           " %t3 = Transpose(%f)\n %r = Relu(%x)\n %t4 = Transpose(%r) {perm=[0,3,1,2]}\n"
           " %j = Concat(%r, %x, %r) {axis=1}\n %t5 = Transpose(%j) {perm=[2,0,1,3]}\n"
           " %k = Concat(%j, %x) {axis=1}\n %t6 = Transpose(%k) {perm=[0,2,1,3]}\n"
           " %z = Relu(%t6)\n %l = Concat(%t4, %t4) {axis=2}");
    conv(m, "c", "x", 20, 3, 3, 1, 1);
    norm(m, "b", "c", 20);
    say(m, " %e = Relu(%b)\n %t7 = Transpose(%e) {perm=[0,2,3,1]}\n"
           " %t8 = Transpose(%c) {perm=[3,1,0,2]}\n output %t0\n output %t3\n output %t5\n"
           " output %z\n output %l\n output %t7\n output %t8\n}");
    compare_batches(m, image);
    assert_int_equal(count_rules(m->text, &image, TMK_DERIVE_TRANSPOSE), 9);
}

/* A product has channels whenever its shape is known, what only hands them on has not. */
TEST(shapes_that_are_unknown_beforehand) {
    begin(m, " input %x : f32[\"N\",3,19,17]");
    weight(m, "w", "17,5", -1, 1);
    say(m, " %top = ReduceMax(%x) {axes=[1,2,3], keepdims=0}\n init %most : f32[] = {9}\n"
           " %low = Less(%top, %most)\n %some = Compress(%x, %low) {axis=0}\n"
           " %p = MatMul(%some, %w)\n %i = Identity(%p)\n %r = Relu(%i)\n %a = Relu(%p)\n"
           " %t = Transpose(%p) {perm=[2,1,0,3]}\n %f = Flatten(%t)\n %v = Identity(%a)\n"
           " output %r\n output %f\n output %v\n}");
    compare_batches(m, image);
    assert_int_equal(count_rules(m->text, &image, TMK_DERIVE_VIEW), 3);
}

TEST(a_node_without_operands_comes_first) {
    begin(m, " input %x : f32[\"N\",3,19,17]");
    say(m, " %r = RandomUniform() {shape=[19,17]}\n %a = Add(%x, %r)\n %b = Relu(%a)\n"
           " output %b\n}");
    compare_batches(m, image);
}

static int set_up(void **state) {
    (void)state;
    m = malloc(sizeof *m);
    tmk_kernel_enter_thread();
    return m ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    free(m);
    return 0;
}

GROUP_FIXTURE(set_up, tear_down)
