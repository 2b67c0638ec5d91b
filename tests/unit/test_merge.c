/* SPDX-License-Identifier: Apache-2.0 */
/* Shards of a made-up run, merged in every way, against the profile of the whole. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/size.h"
#include "base/text.h"
#include "folder.h"
#include "profile/format.h"

enum { BATCH = 3, SAMPLES = 61, BATCHES = (SAMPLES + BATCH - 1) / BATCH, WIDTH = 4 };

/* ---- a run ---- */

static uint64_t random_state;

static uint32_t roll(uint32_t sides) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % sides);
}

static float number_of(uint64_t sample, uint32_t element) {
    static const float some[] = {0.0f, -0.0f, 1, 2.5f, -1, 1e-40f, 3e38f, 0.1f, -7.25f, 16};
    uint64_t mixed = (sample * WIDTH + element + 1) * UINT64_C(0x9E3779B97F4A7C15);
    mixed ^= mixed >> 29;
    bool positive = sample % 4 == 0; /* whole shards without a negative number */
    float x = some[mixed % TMK_COUNT(some)];
    return positive && x < 0 ? -x : positive && x == 0 ? 0.0f : x;
}

struct batch {
    uint64_t sample, samples;
    float x[BATCH * WIDTH];
    struct tmk_shape shape;
    struct tmk_stats_at at;
};

static struct batch batch_of(uint32_t i) {
    struct batch b = {.sample = (uint64_t)i * BATCH};
    b.samples = SAMPLES - b.sample < BATCH ? SAMPLES - b.sample : BATCH;
    b.shape = (struct tmk_shape){2, {(int64_t)b.samples, WIDTH}};
    b.at = (struct tmk_stats_at){b.sample, b.samples, 1, false};
    for (uint32_t k = 0; k < b.samples * WIDTH; k++)
        b.x[k] = number_of(b.sample + k / WIDTH, k % WIDTH);
    return b;
}

static void look(struct tmk_profile_tensor *t, enum tmk_stats_level level, const float *x,
                 const struct tmk_shape *shape, const struct tmk_stats_at *at) {
    if (!t->stats)
        must(tmk_stats_create(level, &t->stats, DIAG));
    t->dtype = TMK_FLOAT32;
    must(tmk_stats_update(t->stats, x, shape, at, DIAG));
    must(tmk_profile_add_runs(t, shape, 1, DIAG));
    for (uint64_t s = 0; t->kind != TMK_PROFILE_WEIGHT && shape->rank == 2 && s < at->samples;
         s++) {
        struct tmk_minmax range = tmk_minmax_empty();
        for (uint64_t k = s * WIDTH; k < (s + 1) * WIDTH; k++) {
            const struct tmk_minmax one = {x[k], x[k], false, false};
            if (isfinite(x[k]))
                tmk_minmax_merge(&range, &one);
        }
        tmk_topk_add(&t->topk, at->sample + s, &range);
    }
}

static void look_at_integers(struct tmk_profile_tensor *t, const struct batch *b) {
    const struct tmk_shape shape = {1, {2}};
    const int64_t n[] = {(int64_t)(b->sample * 7 % 5) - 2, 0};
    struct tmk_stats_at at = b->at;
    at.channel_axis = -1;
    t->dtype = t->origin = TMK_INT64;
    t->has_int_stats = true;
    must(tmk_int_stats_update(&t->int_stats, TMK_INT64, n, &shape, &at, DIAG));
    must(tmk_profile_add_runs(t, &shape, 1, DIAG));
}

enum value {
    INPUT,
    WEIGHT,
    RELU,
    STEPS,    /* one number in some shards, not the same one in all */
    DEAD,     /* the same number everywhere */
    RARE,     /* its branch runs for some samples only; its type is known when it runs */
    RARE_INT, /* the same of integers */
    UNSEEN,
    CONSTANT, /* a Constant node's value */
    RAGGED,   /* more shapes than are kept, channels that disagree in the end */
    WILD,     /* NaN and infinities */
    VALUES
};

static void describe(struct tmk_profile *p) {
    static const char *const names[] = {"x",        "w",      "relu", "steps",  "dead", "rare",
                                        "rare int", "unseen", "c",    "ragged", "wild"};
    for (uint32_t i = 0; i < VALUES; i++) {
        struct tmk_profile_tensor *t;
        must(tmk_profile_add_tensor(p, i * 2, &t, DIAG));
        t->name = names[i];
        t->fingerprint = 1000 + i;
        t->content = 2000 + i;
        t->kind = i == INPUT                     ? TMK_PROFILE_INPUT
                  : i == WEIGHT || i == CONSTANT ? TMK_PROFILE_WEIGHT
                                                 : TMK_PROFILE_ACTIVATION;
        t->has_producer = i != INPUT && i != WEIGHT;
        t->producer.op = i == RELU ? "Relu" : t->has_producer ? "Some" : "";
        t->dtype = t->origin = i == RARE || i == RARE_INT ? TMK_UNDEFINED : TMK_FLOAT32;
        t->has_shape = i == INPUT;
        t->shape = i == INPUT ? (struct tmk_shape){2, {-1, WIDTH}} : (struct tmk_shape){0};
        t->symbol[0] = i == INPUT ? "N" : NULL;
    }
    must(tmk_profile_add_consumer(p, &p->tensors[INPUT], "r", "Relu", "", 0, DIAG));
}

static void keep_samples(struct tmk_profile *p, const struct batch *b) {
    struct tmk_profile_tensor *t = &p->tensors[INPUT];
    for (uint64_t s = 0; s < b->samples; s++) {
        uint64_t at = b->sample + s - p->ledger.first_sample;
        t->sample_min[at] = t->sample_max[at] = b->x[s * WIDTH];
        for (uint32_t k = 1; k < WIDTH; k++) {
            t->sample_min[at] = fminf(t->sample_min[at], b->x[s * WIDTH + k]);
            t->sample_max[at] = fmaxf(t->sample_max[at], b->x[s * WIDTH + k]);
        }
    }
}

static void run(struct tmk_profile *p, const struct batch *b) {
    struct tmk_profile_tensor *t = p->tensors;
    float other[BATCH * WIDTH];
    for (uint32_t k = 0; k < BATCH * WIDTH; k++) /* a derived state is as if it had been observed */
        other[k] = b->x[k] > 0 ? b->x[k] : 0;
    look(&t[RELU], TMK_STATS_HISTOGRAM, other, &b->shape, &b->at);
    look(&t[INPUT], TMK_STATS_HISTOGRAM, b->x, &b->shape, &b->at);
    if (t[INPUT].sample_min)
        keep_samples(p, b);
    const uint64_t ninth = b->sample / 9;
    for (uint32_t k = 0; k < BATCH * WIDTH; k++)
        other[k] = (float)ninth + 1;
    look(&t[STEPS], TMK_STATS_HISTOGRAM, other, &b->shape, &b->at);
    memset(other, 0, sizeof other);
    look(&t[DEAD], TMK_STATS_RANGE, other, &b->shape, &b->at);
    if (b->sample % 5 == 0) {
        look(&t[RARE], TMK_STATS_HISTOGRAM, b->x, &b->shape, &b->at);
        t[RARE].origin = TMK_FLOAT32;
        look_at_integers(&t[RARE_INT], b);
    }
    const struct tmk_shape two = {1, {2}};
    const float constant[] = {0.25f, -3};
    look(&t[CONSTANT], TMK_STATS_HISTOGRAM, constant, &two, &b->at);
    const struct tmk_shape ragged = {1, {(int64_t)(1 + b->sample * 5 % 23)}};
    float long_enough[24];
    for (uint32_t k = 0; k < 24; k++)
        long_enough[k] = number_of(b->sample, k);
    struct tmk_stats_at at = b->at;
    at.samples = 1;
    at.channel_axis = b->sample == 30 ? 0 : -1;
    look(&t[RAGGED], TMK_STATS_RANGE, long_enough, &ragged, &at);
    memcpy(other, b->x, sizeof other);
    other[b->sample % 4] = b->sample % 2 ? NAN : INFINITY;
    look(&t[WILD], TMK_STATS_HISTOGRAM, other, &b->shape, &b->at);
    p->ledger.run += b->samples;
    p->ledger.batches++;
}

static void fill_header(struct tmk_profile *p) {
    p->producer.name = "tidemark";
    p->producer.version = "0.1.0";
    p->producer.isa = "x86_64 avx2";
    p->producer.kernels = "plain";
    p->model.file = "net.onnx";
    p->model.sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    p->model.format = "onnx";
    p->model.ir_version = 9;
    p->model.fingerprint = 77;
    must(tmk_profile_add_opset(p, "", 17, DIAG));
    must(tmk_profile_add_source(p, "x", "data.npy", SAMPLES, "xxh64:00", DIAG));
    must(tmk_profile_add_setting(p, "batch", "3", DIAG));
    must(tmk_profile_add_setting(p, "observe", "a*", DIAG));
    must(tmk_profile_add_setting(p, "observe", "b*", DIAG));
}

static void set_weight(struct tmk_profile_tensor *t) {
    static const float weight[] = {0.5f, -0.25f, 4};
    const struct tmk_shape shape = {1, {3}};
    const struct tmk_stats_at at = {0, 1, 0, false};
    look(t, TMK_STATS_HISTOGRAM, weight, &shape, &at);
}

/* The profile of the batches i with chosen[i] == which. */
static struct tmk_profile *shard(const uint32_t chosen[BATCHES], uint32_t which, bool per_sample) {
    struct tmk_profile *p = NULL;
    struct tmk_profile_range ranges[BATCHES];
    uint32_t n = 0;
    must(tmk_profile_create(&p, DIAG));
    fill_header(p);
    describe(p);
    for (uint32_t i = 0; i < BATCHES; i++) {
        struct batch b = batch_of(i);
        if (chosen[i] == which)
            ranges[n++] = (struct tmk_profile_range){b.sample, b.sample + b.samples};
    }
    must(tmk_profile_set_ranges(p, ranges, n, DIAG));
    p->coverage.total = SAMPLES;
    if (per_sample) {
        struct tmk_profile_tensor *t = &p->tensors[INPUT];
        t->n_samples = p->ledger.end_sample - p->ledger.first_sample;
        t->sample_min = malloc((t->n_samples + 1) * sizeof(float));
        t->sample_max = malloc((t->n_samples + 1) * sizeof(float));
        for (uint64_t s = 0; s < t->n_samples; s++)
            t->sample_min[s] = t->sample_max[s] = NAN;
    }
    for (uint32_t i = 0; i < BATCHES; i++) {
        struct batch b = batch_of(i);
        if (chosen[i] == which)
            run(p, &b);
    }
    if (n) {
        set_weight(&p->tensors[WEIGHT]);
        p->tensors[RELU].rule = "relu";
        must(tmk_profile_add_derivation(&p->tensors[RELU], 0, DIAG));
    }
    p->ledger.offered = p->ledger.run;
    for (uint32_t i = 0; i < VALUES; i++)
        p->tensors[i].status = tmk_profile_status_of(&p->tensors[i]);
    must(tmk_profile_validate(p, DIAG));
    return p;
}

static struct tmk_profile *whole_run(bool per_sample) {
    static const uint32_t all[BATCHES];
    return shard(all, 0, per_sample);
}

/* ---- bytes ---- */

static void write_as(const struct tmk_profile *p, const char *name, struct tmk_buf **out) {
    char path[128];
    must(tmk_profile_write(p, in_folder(name, path), DIAG));
    must(tmk_file_map(path, out, DIAG));
}

static void assert_same_as(const struct tmk_profile *a, const struct tmk_profile *b) {
    static const char *const names[][2] = {{"a.json", "b.json"}, {"a.h5", "b.h5"}};
    for (int i = 0; i <= TMK_TEST_HDF5; i++) {
        struct tmk_buf *x, *y;
        write_as(a, names[i][0], &x);
        write_as(b, names[i][1], &y);
        assert_int_equal(tmk_buf_size(x), tmk_buf_size(y));
        assert_memory_equal(tmk_buf_data(x), tmk_buf_data(y), tmk_buf_size(x));
        tmk_buf_unref(&x);
        tmk_buf_unref(&y);
    }
}

/* Through a file, or not. */
static void pass_through(struct tmk_profile **p, bool per_sample) {
    char path[128];
    uint32_t way = roll(6);
    if (way > 1 || (way == 0 && per_sample) || (way == 1 && !TMK_TEST_HDF5))
        return;
    in_folder(way == 0 ? "pass.json" : "pass.h5", path);
    must(tmk_profile_write(*p, path, DIAG));
    tmk_profile_destroy(p);
    must(tmk_profile_read(path, p, DIAG));
}

/* ---- the same bits ---- */

/* Merges neighbours of the list at random until one is left. */
static struct tmk_profile *merge_all(struct tmk_profile **parts, uint32_t n, bool per_sample) {
    while (n > 1) {
        uint32_t a = roll(n), b = roll(n - 1);
        b += b >= a;
        pass_through(&parts[a], per_sample);
        pass_through(&parts[b], per_sample);
        must(tmk_profile_merge(parts[a], parts[b], DIAG));
        must(tmk_profile_validate(parts[a], DIAG));
        tmk_profile_destroy(&parts[b]);
        parts[b] = parts[--n];
    }
    return parts[0];
}

TEST(any_order_and_grouping_gives_the_bits_of_one_run) {
    for (int per_sample = 0; per_sample < 2; per_sample++) {
        struct tmk_profile *whole = whole_run(per_sample);
        assert_true(tmk_profile_is_whole(whole));
        for (uint32_t round = 0; round < 12; round++) {
            uint32_t chosen[BATCHES], n = 1 + roll(round % 2 ? BATCHES : 4);
            struct tmk_profile *parts[BATCHES];
            for (uint32_t i = 0; i < BATCHES; i++) /* contiguous shards, or batches anywhere */
                chosen[i] = round % 3 ? i * n / BATCHES : roll(n);
            for (uint32_t i = 0; i < n; i++)
                parts[i] = shard(chosen, i, per_sample);
            struct tmk_profile *merged = merge_all(parts, n, per_sample);
            assert_true(tmk_profile_is_whole(merged));
            assert_same_as(merged, whole);
            tmk_profile_destroy(&merged);
        }
        tmk_profile_destroy(&whole);
    }
}

TEST(the_test_has_values_whose_status_changes) {
    uint32_t chosen[BATCHES];
    for (uint32_t i = 0; i < BATCHES; i++)
        chosen[i] = i;
    struct tmk_profile *one = shard(chosen, 1, false), *whole = whole_run(false);
    static const struct {
        enum value value;
        enum tmk_profile_status part, whole;
    } expected[] = {
        {STEPS, TMK_PROFILE_DEAD, TMK_PROFILE_OBSERVED},
        {DEAD, TMK_PROFILE_DEAD, TMK_PROFILE_DEAD},
        {RARE, TMK_PROFILE_NEVER, TMK_PROFILE_OBSERVED},
        {RARE_INT, TMK_PROFILE_NEVER, TMK_PROFILE_INTEGER},
        {UNSEEN, TMK_PROFILE_NEVER, TMK_PROFILE_NEVER},
        {CONSTANT, TMK_PROFILE_CONSTANT, TMK_PROFILE_CONSTANT},
        {RELU, TMK_PROFILE_DERIVED, TMK_PROFILE_DERIVED},
    };
    for (size_t i = 0; i < TMK_COUNT(expected); i++) {
        assert_int_equal(one->tensors[expected[i].value].status, expected[i].part);
        assert_int_equal(whole->tensors[expected[i].value].status, expected[i].whole);
    }
    assert_true(whole->tensors[RAGGED].more_runs);
    assert_true(whole->tensors[WEIGHT].expected_count == 3);
    assert_true(whole->tensors[CONSTANT].expected_count == 2 * BATCHES);
    tmk_profile_destroy(&one);
    tmk_profile_destroy(&whole);
}

TEST(a_gap_is_said) {
    struct tmk_profile_range range;
    uint32_t chosen[BATCHES];
    for (uint32_t i = 0; i < BATCHES; i++)
        chosen[i] = i / 7;
    struct tmk_profile *first = shard(chosen, 0, false), *middle = shard(chosen, 1, false),
                       *last = shard(chosen, 2, false);
    must(tmk_profile_merge(last, first, DIAG));
    assert_false(tmk_profile_is_whole(last));
    assert_int_equal(last->coverage.n_ranges, 2);
    assert_true(tmk_profile_range(last, 0, &range) && range.begin == 0 && range.end == 21);
    assert_true(tmk_profile_range(last, 1, &range) && range.begin == 42 && range.end == SAMPLES);
    assert_false(tmk_profile_range(last, 2, &range));
    assert_int_equal(tmk_profile_total(last), SAMPLES);
    assert_int_equal(last->ledger.offered, SAMPLES - 21);
    must(tmk_profile_merge(first, middle, DIAG));
    assert_false(tmk_profile_is_whole(first));
    assert_int_equal(first->coverage.n_ranges, 0);
    tmk_profile_destroy(&first);
    tmk_profile_destroy(&middle);
    tmk_profile_destroy(&last);
}

TEST(a_shard_without_samples_changes_nothing) {
    static const uint32_t all[BATCHES];
    struct tmk_profile *empty = shard(all, 1, false), *also = shard(all, 1, false),
                       *whole = whole_run(false), *again = whole_run(false);
    struct tmk_profile_range range;
    assert_false(tmk_profile_range(empty, 0, &range));
    assert_false(tmk_profile_is_whole(empty));
    must(tmk_profile_merge(again, empty, DIAG));
    assert_same_as(again, whole);
    must(tmk_profile_merge(empty, also, DIAG));
    must(tmk_profile_merge(empty, whole, DIAG));
    assert_same_as(empty, whole);
    tmk_profile_destroy(&empty);
    tmk_profile_destroy(&also);
    tmk_profile_destroy(&whole);
    tmk_profile_destroy(&again);
}

/* The batches i with chosen[i] == which, of the stratum. */
static struct tmk_profile *stratum_of(const uint32_t chosen[BATCHES], uint32_t which,
                                      const char *label) {
    struct tmk_profile *p = shard(chosen, which, true);
    must(tmk_profile_add_setting(p, "stratum", label, DIAG));
    return p;
}

TEST(strata_add_up_to_the_whole_which_is_of_none) {
    static const char *const labels[] = {"cats", "dogs", "cats"};
    uint32_t chosen[BATCHES];
    for (uint32_t i = 0; i < BATCHES; i++)
        chosen[i] = i * i % 7 % 3;
    for (uint32_t order = 0; order < 3; order++) {
        struct tmk_profile *p[3], *whole = whole_run(true);
        for (uint32_t i = 0; i < 3; i++)
            p[i] = stratum_of(chosen, (i + order) % 3, labels[(i + order) % 3]);
        must(tmk_profile_merge(p[0], p[1], DIAG));
        const struct tmk_profile_setting *last = &p[0]->settings[p[0]->n_settings - 1];
        if (order == 2) { /* both of cats */
            assert_string_equal(last->key, "stratum");
            assert_string_equal(last->value, "cats");
        } else {
            assert_string_equal(last->key, "observe");
        }
        must(tmk_profile_merge(p[2], p[0], DIAG));
        assert_same_as(p[2], whole);
        for (uint32_t i = 0; i < 3; i++)
            tmk_profile_destroy(&p[i]);
        tmk_profile_destroy(&whole);
    }
}

TEST(names_of_equal_data_do_not_depend_on_the_order) {
    uint32_t chosen[BATCHES];
    for (uint32_t i = 0; i < BATCHES; i++)
        chosen[i] = i % 2;
    struct tmk_profile *parts[2][2];
    for (int way = 0; way < 2; way++) {
        for (uint32_t i = 0; i < 2; i++)
            parts[way][i] = shard(chosen, i, false);
        parts[way][1]->sources[0].source = "a.npy";
        parts[way][1]->model.file = "z.onnx";
        must(tmk_profile_merge(parts[way][way], parts[way][1 - way], DIAG));
        tmk_profile_destroy(&parts[way][1 - way]);
    }
    assert_string_equal(parts[0][0]->sources[0].source, "a.npy");
    assert_string_equal(parts[0][0]->model.file, "net.onnx");
    assert_same_as(parts[0][0], parts[1][1]);
    tmk_profile_destroy(&parts[0][0]);
    tmk_profile_destroy(&parts[1][1]);
}

/* ---- refusals ---- */

static void assert_refused(struct tmk_profile *a, struct tmk_profile *b, const char *word) {
    struct tmk_buf *before, *after;
    write_as(a, "before.json", &before);
    assert_int_equal(tmk_profile_merge(a, b, DIAG), TMK_MISMATCH);
    if (!strstr(test_diag.text, word))
        fail_msg("'%s' is not in: %s", word, test_diag.text);
    write_as(a, "after.json", &after);
    assert_int_equal(tmk_buf_size(before), tmk_buf_size(after));
    assert_memory_equal(tmk_buf_data(before), tmk_buf_data(after), tmk_buf_size(before));
    tmk_buf_unref(&before);
    tmk_buf_unref(&after);
}

#define REFUSES(lvalue, value, word)                                                               \
    do {                                                                                           \
        __typeof__(lvalue) saved = (lvalue);                                                       \
        (lvalue) = (value);                                                                        \
        assert_refused(a, b, word);                                                                \
        (lvalue) = saved;                                                                          \
    } while (0)

TEST(shards_of_different_runs_are_refused) {
    uint32_t chosen[BATCHES];
    for (uint32_t i = 0; i < BATCHES; i++)
        chosen[i] = i / 11;
    struct tmk_profile *a = shard(chosen, 0, false), *b = shard(chosen, 1, false);
    struct tmk_profile_tensor *t = b->tensors;
    REFUSES(b->model.sha256, "", "the model's sha256 is 'ba7816bf");
    REFUSES(b->model.fingerprint, 78, "the model's fingerprint is '000000000000004d'");
    REFUSES(b->model.format, "relay", "format");
    REFUSES(b->model.ir_version, 8, "IR version is 9 in the first and 8 in the second");
    REFUSES(b->model.opsets[0].version, 18, "operator set");
    REFUSES(b->model.n_opsets, 0, "operator sets");
    REFUSES(b->sources[0].hash, "xxh64:01", "input 'x': the data's hash is 'xxh64:00'");
    REFUSES(b->sources[0].samples, 62, "entries is 61 in the first and 62 in the second");
    REFUSES(b->sources[0].input, "y", "the input is 'x'");
    REFUSES(b->n_sources, 0, "data sources");
    REFUSES(b->settings[0].value, "4", "the setting 'batch' is '3' in the first and '4' in the");
    REFUSES(b->settings[2].value, "c*", "the setting 'observe' is 'b*'");
    REFUSES(b->settings[2].key, "kind", "the setting 'kind' is in the second only");
    REFUSES(b->settings[0].key, "observe", "the setting 'batch' is in the first only");
    REFUSES(b->n_settings, 2, "the setting 'observe' is in the first only");
    REFUSES(b->coverage.total, 62, "samples in all is 61 in the first and 62 in the second");
    REFUSES(b->producer.isa, "x86_64", "the instruction set is 'x86_64 avx2'");
    REFUSES(b->producer.kernels, "oneDNN 3.1", "'plain' in the first and 'oneDNN 3.1'");
    REFUSES(b->producer.version, "0.2.0", "the producer's version");
    REFUSES(b->n_tensors, 3, "the number of values");
    REFUSES(t[RARE].id, 11, "p10 'rare': the ID is 10");
    REFUSES(t[RARE].fingerprint, 1, "p10 'rare': its fingerprint");
    REFUSES(t[RARE].name, "rarer", "its name");
    REFUSES(t[RARE].kind, TMK_PROFILE_OUTPUT, "its kind is 'activation'");
    REFUSES(t[RARE].producer.op, "Other", "producer");
    REFUSES(t[INPUT].consumers[0].input, 1, "consumers");
    REFUSES(t[INPUT].shape.dim[1], 5, "its shape");
    REFUSES(t[INPUT].symbol[0], "M", "its shape");
    REFUSES(t[INPUT].dtype, TMK_INT8, "its type is 'float32'");
    REFUSES(t[RELU].rule, "clip", "its rule is 'relu'");
    REFUSES(t[RELU].sources[0], 6, "the ID it derives from is 0");
    struct tmk_profile_tensor weight = t[WEIGHT];
    t[WEIGHT].stats = t[CONSTANT].stats;
    assert_refused(a, b, "p2 'w': the weight has other numbers");
    t[WEIGHT] = weight;
    assert_refused(a, a, "both hold samples 0 to 33");
    REFUSES(b->ledger.first_sample, 34,
            "samples 34 to 61 of the second are not cut at the ends of batches of 3");
    REFUSES(b->ledger.end_sample, 59, "samples 33 to 59 of the second");
    must(tmk_profile_merge(a, b, DIAG));
    assert_refused(a, b, "both hold samples 33 to 61");
    assert_refused(b, a, "both hold samples 33 to 61");
    tmk_profile_destroy(&a);
    tmk_profile_destroy(&b);
}

TEST(counts_that_overflow_are_told) {
    uint32_t chosen[BATCHES];
    for (uint32_t i = 0; i < BATCHES; i++)
        chosen[i] = i / 11;
    struct tmk_profile *a = shard(chosen, 0, false), *b = shard(chosen, 1, false);
    a->ledger.failed = UINT64_MAX;
    b->ledger.failed = 1;
    assert_int_equal(tmk_profile_merge(a, b, DIAG), TMK_RANGE);
    tmk_profile_destroy(&a);
    a = shard(chosen, 0, false);
    a->tensors[INPUT].expected_count = UINT64_MAX;
    must_fail(tmk_profile_merge(a, b, DIAG), TMK_RANGE, "p0 'x'");
    tmk_profile_destroy(&a);
    tmk_profile_destroy(&b);
}

/* ---- files ---- */

TEST(files_are_merged_and_named) {
    struct tmk_profile *merged = NULL, *whole = whole_run(false);
    char paths[4][128];
    const char *list[5];
    uint32_t chosen[BATCHES];
    for (uint32_t i = 0; i < BATCHES; i++)
        chosen[i] = i / 6;
    for (uint32_t i = 0; i < 4; i++) {
        char name[32];
        struct tmk_profile *part = shard(chosen, i, false);
        snprintf(name, sizeof name, "part%u.%s", i,
                 i % 2 && TMK_TEST_HDF5 ? "h5" : "json");
        must(tmk_profile_write(part, in_folder(name, paths[i]), DIAG));
        tmk_profile_destroy(&part);
        list[i] = paths[i];
    }
    must(tmk_profile_merge_files(list, 4, &merged, DIAG));
    assert_same_as(merged, whole);
    tmk_profile_destroy(&merged);
    list[4] = paths[2];
    assert_int_equal(tmk_profile_merge_files(list, 5, &merged, DIAG), TMK_MISMATCH);
    char expected[512];
    snprintf(expected, sizeof expected, "%s and %s: both hold samples 36 to 54", paths[2],
             paths[2]);
    assert_string_equal(test_diag.text, expected);
    list[1] = "/nowhere/at/all.json";
    assert_int_equal(tmk_profile_merge_files(list, 4, &merged, DIAG), TMK_READ);
    assert_int_equal(tmk_profile_merge_files(list, 0, &merged, NULL), TMK_ARGUMENT);
    assert_null(merged);
    tmk_profile_destroy(&whole);
}

TEST(ranges_are_checked) {
    struct tmk_profile *p = whole_run(false);
    const struct tmk_profile_range touching[] = {{0, 5}, {5, 9}, {12, 13}}, empty[] = {{5, 5}},
                                   overlap[] = {{0, 5}, {4, 9}};
    assert_int_equal(tmk_profile_set_ranges(p, touching, 3, NULL), TMK_OK);
    assert_int_equal(p->coverage.n_ranges, 2);
    assert_int_equal(p->ledger.end_sample, 13);
    assert_int_equal(tmk_profile_set_ranges(p, empty, 1, NULL), TMK_ARGUMENT);
    assert_int_equal(tmk_profile_set_ranges(p, overlap, 2, NULL), TMK_ARGUMENT);
    assert_int_equal(tmk_profile_set_ranges(p, touching, 2, NULL), TMK_OK);
    assert_int_equal(p->coverage.n_ranges, 0);
    assert_null(p->coverage.ranges);
    tmk_profile_destroy(&p);
}

GROUP_FIXTURE(make_folder, remove_folder)
