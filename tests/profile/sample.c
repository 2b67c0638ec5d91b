/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "tensor/positions.h"

enum { SAMPLES = 4, BATCH = 2, ELEMENTS = 6 };

static const struct tmk_shape batch_shape = {3, {BATCH, 2, 3}};

static const float input[SAMPLES * ELEMENTS] = {
    0.1f, -0.2f,       0.3f, 1e-40f, 5.5f, -7.25f, 0,      -0.0f, 1.0f / 3, 2.5f,  -1e10f, 0.5f,
    8,    16.0000019f, -32,  64,     -128, 256,    1e-20f, 3e38f, -3e38f,   0.75f, -0.75f, 0,
};

static const uint32_t excluded[] = {0xc2000000}; /* -32 */

/* The same number is of padding. */
static const bool padded[BATCH * ELEMENTS] = {[2] = true};
static const struct tmk_padding padding = {padded, BATCH, ELEMENTS};
static const struct tmk_positions positions = {
    .prompt = {ELEMENTS, BATCH, 0}, .position = {{1, ELEMENTS, 0}}, .n = 1};

static enum tmk_status observe(struct tmk_profile_tensor *t, enum tmk_stats_level level,
                               const float *x, int32_t axis, size_t n_excluded,
                               struct tmk_diag *diag) {
    TMK_TRY(tmk_stats_create(level, &t->stats, diag));
    t->dtype = t->origin = TMK_FLOAT32;
    t->status = TMK_PROFILE_OBSERVED;
    t->has_shape = true;
    t->shape = batch_shape;
    t->shape.dim[0] = -1;
    for (uint64_t batch = 0; batch < SAMPLES / BATCH; batch++) {
        struct tmk_stats_at at = {100 + batch * BATCH, BATCH, axis, false, 0};
        struct tmk_minmax each[BATCH] = {tmk_minmax_empty(), tmk_minmax_empty()};
        struct tmk_stats_pass pass;
        TMK_TRY(tmk_stats_begin(t->stats, &batch_shape, &at, NULL, &pass, diag));
        tmk_stats_each(&pass, each);
        tmk_stats_exclude(&pass, excluded, n_excluded);
        if (n_excluded && batch == 1) {
            pass.at.padding = &padding;
            pass.at.positions = &positions;
        }
        TMK_TRY(tmk_stats_piece(&pass, x + batch * BATCH * ELEMENTS, 0, BATCH * ELEMENTS, diag));
        TMK_TRY(tmk_stats_end(&pass, diag));
        for (uint64_t s = 0; s < BATCH; s++)
            tmk_topk_add(&t->topk, at.sample + s, &each[s]);
        TMK_TRY(tmk_profile_add_runs(t, &batch_shape, 1, diag));
    }
    return TMK_OK;
}

static void name(struct tmk_profile_tensor *t, const char *text, enum tmk_profile_kind kind,
                 uint64_t fingerprint) {
    t->name = text;
    t->kind = kind;
    t->fingerprint = fingerprint;
    t->content = ~fingerprint;
}

static void made_by(struct tmk_profile_tensor *t, const char *node, const char *op) {
    t->has_producer = true;
    t->producer.node = node;
    t->producer.op = op;
}

static enum tmk_status add_input(struct tmk_profile *p, bool per_sample, struct tmk_diag *diag) {
    struct tmk_profile_tensor *t;
    TMK_TRY(tmk_profile_add_tensor(p, 0, &t, diag));
    name(t, "input:0", TMK_PROFILE_INPUT, 0x0123456789abcdef);
    TMK_TRY(observe(t, TMK_STATS_HISTOGRAM, input, 1, 0, diag));
    t->origin = TMK_FLOAT16;
    t->symbol[0] = "N";
    TMK_TRY(tmk_profile_add_consumer(p, t, "conv \"1\"", "Conv", "", 0, diag));
    TMK_TRY(tmk_profile_add_consumer(p, t, "", "Relu", "", 0, diag));
    if (!per_sample)
        return TMK_OK;
    t->n_samples = SAMPLES;
    t->sample_min = malloc(SAMPLES * sizeof(float));
    t->sample_max = malloc(SAMPLES * sizeof(float));
    if (!t->sample_min || !t->sample_max)
        return tmk_nomem(diag);
    for (size_t s = 0; s < SAMPLES; s++) {
        const float *x = input + s * ELEMENTS;
        t->sample_min[s] = t->sample_max[s] = s == 3 ? NAN : x[0];
        for (size_t i = 1; i < ELEMENTS; i++) {
            t->sample_min[s] = fminf(t->sample_min[s], s == 3 ? NAN : x[i]);
            t->sample_max[s] = fmaxf(t->sample_max[s], s == 3 ? NAN : x[i]);
        }
    }
    return TMK_OK;
}

static enum tmk_status add_weight(struct tmk_profile *p, struct tmk_diag *diag) {
    static const float weight[] = {0.25f, -0.5f, 1.5f, 1.17549421e-38f};
    const struct tmk_shape shape = {2, {2, 2}};
    const struct tmk_stats_at at = {0, 1, 0, false, 0};
    struct tmk_profile_tensor *t;
    TMK_TRY(tmk_profile_add_tensor(p, 1, &t, diag));
    name(t, "conv1/weight", TMK_PROFILE_WEIGHT, 17);
    t->dtype = t->origin = TMK_FLOAT32;
    t->status = TMK_PROFILE_CONSTANT;
    t->has_shape = true;
    t->shape = shape;
    TMK_TRY(tmk_stats_create(TMK_STATS_HISTOGRAM, &t->stats, diag));
    TMK_TRY(tmk_stats_update(t->stats, weight, &shape, &at, diag));
    TMK_TRY(tmk_profile_add_runs(t, &shape, 1, diag));
    return tmk_profile_add_consumer(p, t, "conv \"1\"", "Conv", "", 1, diag);
}

/* Channel 1 has no finite element; every class of element is there. */
static enum tmk_status add_activation(struct tmk_profile *p, struct tmk_diag *diag) {
    float x[SAMPLES * ELEMENTS];
    struct tmk_profile_tensor *t;
    for (size_t i = 0; i < TMK_COUNT(x); i++)
        x[i] = i / 3 % 2 == 0 ? input[i] : i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
    TMK_TRY(tmk_profile_add_tensor(p, 2, &t, diag));
    name(t, "größe/тест\\1", TMK_PROFILE_ACTIVATION, 18);
    made_by(t, "conv \"1\"", "Conv");
    TMK_TRY(tmk_profile_add_operand(t, 0, diag));
    TMK_TRY(tmk_profile_add_operand(t, 1, diag));
    return observe(t, TMK_STATS_HISTOGRAM, x, 1, TMK_COUNT(excluded), diag);
}

static enum tmk_status observe_with(struct tmk_stats *x, struct tmk_stats_shadow *shadow,
                                    struct tmk_diag *diag) {
    for (uint64_t batch = 0; batch < SAMPLES / BATCH; batch++) {
        struct tmk_stats_at at = {100 + batch * BATCH, BATCH, 1, false, 0};
        struct tmk_stats_pass pass;
        TMK_TRY(tmk_stats_begin(x, &batch_shape, &at, shadow, &pass, diag));
        TMK_TRY(
            tmk_stats_piece(&pass, input + batch * BATCH * ELEMENTS, 0, BATCH * ELEMENTS, diag));
        TMK_TRY(tmk_stats_end(&pass, diag));
    }
    return TMK_OK;
}

static enum tmk_status derive_relu(struct tmk_stats **out, struct tmk_diag *diag) {
    const struct tmk_clamp relu = {0, INFINITY};
    struct tmk_stats *x = NULL;
    struct tmk_stats_shadow *shadow = NULL;
    enum tmk_status status = tmk_stats_create(TMK_STATS_HISTOGRAM, &x, diag);
    if (status == TMK_OK)
        status = tmk_stats_shadow_create(&relu, &shadow, diag);
    if (status == TMK_OK)
        status = observe_with(x, shadow, diag);
    if (status == TMK_OK)
        status = tmk_stats_derive_clamp(x, shadow, out, diag);
    tmk_stats_destroy(&x);
    tmk_stats_shadow_destroy(&shadow);
    return status;
}

static enum tmk_status add_derived(struct tmk_profile *p, struct tmk_diag *diag) {
    struct tmk_profile_tensor *t;
    TMK_TRY(tmk_profile_add_tensor(p, 3, &t, diag));
    name(t, "relu", TMK_PROFILE_OUTPUT, 19);
    made_by(t, "", "Relu");
    t->dtype = t->origin = TMK_FLOAT32;
    t->status = TMK_PROFILE_DERIVED;
    t->rule = "relu";
    TMK_TRY(tmk_profile_add_operand(t, 0, diag));
    TMK_TRY(tmk_profile_add_derivation(t, 0, diag));
    TMK_TRY(derive_relu(&t->stats, diag));
    return tmk_profile_add_runs(t, &batch_shape, SAMPLES / BATCH, diag);
}

static enum tmk_status add_integers(struct tmk_profile *p, struct tmk_diag *diag) {
    static const int64_t small[] = {3, -4, 0, 0}, large[] = {INT64_MAX, INT64_MIN, 0, 1};
    const struct tmk_shape shape = {1, {4}};
    const struct tmk_stats_at at = {100, 1, -1, false, 0};
    struct tmk_profile_tensor *t;
    for (uint32_t i = 0; i < 2; i++) {
        TMK_TRY(tmk_profile_add_tensor(p, 4 + i, &t, diag));
        name(t, i ? "large" : "small", TMK_PROFILE_ACTIVATION, 20);
        t->ordinal = i;
        made_by(t, "shape", "Shape");
        t->producer.output = i;
        t->dtype = t->origin = TMK_INT64;
        t->status = TMK_PROFILE_INTEGER;
        t->has_shape = true;
        t->shape = shape;
        t->has_int_stats = true;
        TMK_TRY(
            tmk_int_stats_update(&t->int_stats, TMK_INT64, i ? large : small, &shape, &at, diag));
        TMK_TRY(tmk_profile_add_runs(t, &shape, 1, diag));
    }
    return TMK_OK;
}

static enum tmk_status add_unseen(struct tmk_profile *p, struct tmk_diag *diag) {
    struct tmk_profile_tensor *t;
    TMK_TRY(tmk_profile_add_tensor(p, 6, &t, diag));
    name(t, "inner", TMK_PROFILE_ACTIVATION, 21);
    t->inner = true;
    made_by(t, "", "Custom");
    t->producer.domain = "com.example";
    t->path = "If 'choose' then_branch";
    t->dtype = TMK_FLOAT32;
    t->origin = TMK_BFLOAT16;
    TMK_TRY(tmk_profile_add_tensor(p, 7, &t, diag));
    name(t, "words", TMK_PROFILE_INPUT, 22);
    t->dtype = t->origin = TMK_STRING;
    t->status = TMK_PROFILE_INTEGER;
    return TMK_OK;
}

static enum tmk_status add_dead(struct tmk_profile *p, struct tmk_diag *diag) {
    static const float zeros[SAMPLES * ELEMENTS];
    struct tmk_profile_tensor *t;
    TMK_TRY(tmk_profile_add_tensor(p, 9, &t, diag));
    name(t, "dead", TMK_PROFILE_ACTIVATION, 23);
    made_by(t, "mul", "Mul");
    TMK_TRY(observe(t, TMK_STATS_RANGE, zeros, -1, 0, diag));
    t->status = TMK_PROFILE_DEAD;
    return TMK_OK;
}

static enum tmk_status add_thinned(struct tmk_profile *p, struct tmk_diag *diag) {
    enum { N = 200 };
    static float x[N];
    const struct tmk_shape shape = {2, {1, N}};
    struct tmk_profile_tensor *t;
    for (size_t i = 0; i < N; i++)
        x[i] = input[i % 7];
    TMK_TRY(tmk_profile_add_tensor(p, 10, &t, diag));
    name(t, "thinned", TMK_PROFILE_ACTIVATION, 25);
    made_by(t, "gelu", "Gelu");
    t->dtype = t->origin = TMK_FLOAT32;
    t->status = TMK_PROFILE_OBSERVED;
    TMK_TRY(tmk_stats_create(TMK_STATS_HISTOGRAM, &t->stats, diag));
    TMK_TRY(tmk_stats_thin(t->stats, 2, t->id, diag));
    for (uint64_t sample = 100; sample < 100 + SAMPLES; sample++) {
        const struct tmk_stats_at at = {sample, 1, -1, false, 0};
        const struct tmk_minmax span = {-7.25f, 5.5f, false, false};
        TMK_TRY(tmk_stats_update(t->stats, x, &shape, &at, diag));
        TMK_TRY(tmk_profile_add_runs(t, &shape, 1, diag));
        tmk_topk_add(&t->topk, sample, &span);
    }
    return TMK_OK;
}

/* More shapes than are kept, at the coarse level, with channels that do not agree. */
static enum tmk_status add_ragged(struct tmk_profile *p, struct tmk_diag *diag) {
    struct tmk_profile_tensor *t;
    TMK_TRY(tmk_profile_add_tensor(p, 4000000000, &t, diag));
    name(t, "", TMK_PROFILE_ACTIVATION, 24);
    made_by(t, "loop", "Loop");
    t->dtype = t->origin = TMK_FLOAT32;
    t->status = TMK_PROFILE_OBSERVED;
    TMK_TRY(tmk_stats_create(TMK_STATS_RANGE, &t->stats, diag));
    for (int64_t n = 20; n > 0; n--) {
        const struct tmk_shape shape = {1, {n}};
        const struct tmk_stats_at at = {100, 1, 0, false, 0};
        TMK_TRY(tmk_stats_update(t->stats, input, &shape, &at, diag));
        TMK_TRY(tmk_profile_add_runs(t, &shape, 1, diag));
    }
    return TMK_OK;
}

static enum tmk_status fill_header(struct tmk_profile *p, struct tmk_diag *diag) {
    p->producer.name = "tidemark";
    p->producer.version = "0.1.0";
    p->producer.isa = "x86_64 avx2";
    p->producer.kernels = "oneDNN 2.6.3";
    p->model.file = "net.onnx";
    p->model.sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    p->model.format = "onnx";
    p->model.ir_version = 9;
    p->model.fingerprint = UINT64_MAX;
    p->ledger = (struct tmk_profile_ledger){6, SAMPLES, 1, 1, 2, 100, 106};
    TMK_TRY(tmk_profile_add_opset(p, "", 17, diag));
    TMK_TRY(tmk_profile_add_opset(p, "com.example", 1, diag));
    TMK_TRY(tmk_profile_add_source(p, "input:0", "data.npy", 106, "xxh64:0011223344556677", diag));
    TMK_TRY(tmk_profile_add_setting(p, "batch", "2", diag));
    TMK_TRY(tmk_profile_add_setting(p, "exclude", "-32", diag));
    TMK_TRY(tmk_profile_add_setting(p, "observe", "*", diag));
    return tmk_profile_add_setting(p, "observe", "conv?", diag);
}

static enum tmk_status fill(struct tmk_profile *p, bool per_sample, struct tmk_diag *diag) {
    TMK_TRY(fill_header(p, diag));
    if (per_sample) {
        p->ledger = (struct tmk_profile_ledger){SAMPLES, SAMPLES, 0, 0, 2, 100, 100 + SAMPLES};
    }
    TMK_TRY(add_input(p, per_sample, diag));
    TMK_TRY(add_weight(p, diag));
    TMK_TRY(add_activation(p, diag));
    TMK_TRY(add_derived(p, diag));
    TMK_TRY(add_integers(p, diag));
    TMK_TRY(add_unseen(p, diag));
    TMK_TRY(add_dead(p, diag));
    TMK_TRY(add_thinned(p, diag));
    return add_ragged(p, diag);
}

enum tmk_status sample_profile(bool per_sample, struct tmk_profile **out, struct tmk_diag *diag) {
    struct tmk_profile *p;
    TMK_TRY(tmk_profile_create(&p, diag));
    enum tmk_status status = fill(p, per_sample, diag);
    if (status == TMK_OK)
        *out = p;
    else
        tmk_profile_destroy(&p);
    return status;
}
