/* SPDX-License-Identifier: Apache-2.0 */
#include "calib/sample.h"

#include <math.h>

#include "base/diag.h"
#include "calib/encodings.h"

enum { ITEMS = 7, LEFT = 2, REQUANTS = 2, CHANNELS = 3 };

/* The range that the codes reach, unless it is set afterwards. */
static enum tmk_status fill(struct tmk_encodings *all, struct tmk_encoding *e, uint32_t n,
                            const float *scale, const int32_t *zero_point, struct tmk_diag *diag) {
    TMK_TRY(tmk_encoding_allocate(all, e, n, diag));
    for (uint32_t i = 0; i < n; i++) {
        e->scale[i] = scale[i];
        e->zero_point[i] = zero_point[i];
    }
    tmk_encoding_set_clip(e);
    for (uint32_t i = 0; i < n; i++) {
        e->low[i] = e->clip_min[i];
        e->high[i] = e->clip_max[i];
    }
    e->observed_min = e->low[0];
    e->observed_max = e->high[0];
    return TMK_OK;
}

/* Thresholds that are known as they are. */
static void expect(struct tmk_encoding *e) {
    e->expected.known = true;
    e->expected.low_from = e->expected.low_to = (double)e->low[0];
    e->expected.high_from = e->expected.high_to = (double)e->high[0];
}

static enum tmk_status add(struct tmk_encodings *all, uint32_t id, const char *name,
                           enum tmk_encoding_role role, enum tmk_dtype dtype, float scale,
                           int32_t zero_point, struct tmk_diag *diag) {
    struct tmk_encoding *e = &all->items[all->n_items++];
    *e = (struct tmk_encoding){.id = id,
                               .fingerprint = UINT64_C(0x8000000000000001) + id,
                               .name = name,
                               .role = role,
                               .dtype = dtype,
                               .symmetric = zero_point == 0,
                               .axis = -1,
                               .method = "given",
                               .rule = ""};
    return fill(all, e, 1, &scale, &zero_point, diag);
}

static enum tmk_status add_items(struct tmk_encodings *all, struct tmk_diag *diag) {
    static const float scales[CHANNELS] = {0x1p-149f, 0.1f, 0x1.fffffep+100f};
    static const int32_t zeros[CHANNELS] = {0, 0, 0};
    struct tmk_encoding *e = all->items;
    TMK_TRY(add(all, 0, "x", TMK_ENCODING_ACTIVATION, TMK_UINT8, 1.0f / 3, 85, diag));
    e->low[0] = -28.125f;
    e->observed_max = 1e-40f + 1000;
    e->method = "mse";
    e->expected.known = e->expected.flat = true;
    e->expected.mse = 1.0 / 3;
    e->expected.mse_low = 0x1p-1000;
    e->expected.mse_high = 0.5;
    e->expected.sqnr = 41.25;
    e->expected.clipped = 1e-6;
    e->expected.clipped_high = 2e-6;
    e->expected.codes = 255;
    e->expected.low_from = -30;
    e->expected.low_to = -28;
    e->expected.high_from = 50;
    e->expected.high_to = 1000;
    e->expected.flat_low = 0.1;
    e->expected.flat_high = 12;
    TMK_TRY(add(all, 1, "w \"ü\"", TMK_ENCODING_WEIGHT, TMK_INT8, 1, 0, diag));
    e++;
    e->narrow = true;
    e->axis = 0;
    TMK_TRY(fill(all, e, CHANNELS, scales, zeros, diag));
    expect(e);
    e->expected.sqnr = HUGE_VAL;
    TMK_TRY(add(all, 2, "b", TMK_ENCODING_BIAS, TMK_INT32, 0x1p-30f, 0, diag));
    e++;
    e->rule = "input-times-weight";
    e->n_sources = 2;
    e->sources[1] = 1;
    TMK_TRY(add(all, 5, "y", TMK_ENCODING_ACTIVATION, TMK_UINT16, 0.5f, 32768, diag));
    e++;
    e->symmetric = e->pow2 = true;
    e->n_uses = 2;
    e->uses = tmk_encodings_make(all, 2, sizeof *e->uses);
    if (!e->uses)
        return tmk_nomem(diag);
    e->uses[0] = (struct tmk_encoding_use){"add", "Add", 1};
    e->uses[1] = (struct tmk_encoding_use){"", "Relu", 0};
    TMK_TRY(add(all, 5, "y", TMK_ENCODING_ACTIVATION, TMK_INT4, 2, -3, diag));
    e++;
    e->group = 7;
    e->rule = "concat-inputs-share";
    expect(e);
    e->expected.tying = 1.5;
    TMK_TRY(add(all, 6, "", TMK_ENCODING_ACTIVATION, TMK_INT4, 2, -3, diag));
    (++e)->group = 7;
    return add(all, 4294967295u, "z", TMK_ENCODING_ACTIVATION, TMK_FLOAT8E4M3FN, 0.01f, 0, diag);
}

static enum tmk_status add_requants(struct tmk_encodings *all, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < REQUANTS; i++) {
        struct tmk_requant *r = &all->requants[i];
        uint32_t n = i ? 1 : CHANNELS;
        *r = (struct tmk_requant){5, i ? "add" : "conv/ü", i ? "Add" : "Conv", (int32_t)i - 1, n};
        r->real = tmk_encodings_make(all, n, sizeof *r->real);
        r->multiplier = tmk_encodings_make(all, n, sizeof *r->multiplier);
        r->shift = tmk_encodings_make(all, n, sizeof *r->shift);
        if (!r->real || !r->multiplier || !r->shift)
            return tmk_nomem(diag);
        for (uint32_t c = 0; c < n; c++) {
            r->real[c] = 0.1 * (c + 1);
            r->multiplier[c] = INT32_MAX - (int32_t)c;
            r->shift[c] = 30 - (int32_t)c * 30;
        }
        r->error = 0.5000000001;
    }
    all->requants[0].real[2] = 0x1p-1074;
    all->requants[0].multiplier[2] = all->requants[0].shift[2] = 0;
    all->n_requants = REQUANTS;
    return TMK_OK;
}

enum tmk_status sample_encodings(struct tmk_encodings **out, struct tmk_diag *diag) {
    struct tmk_encodings *all = NULL;
    TMK_TRY(tmk_encodings_create(&all, diag));
    *out = all;
    all->items = tmk_encodings_make(all, ITEMS, sizeof *all->items);
    all->left = tmk_encodings_make(all, LEFT, sizeof *all->left);
    all->requants = tmk_encodings_make(all, REQUANTS, sizeof *all->requants);
    all->settings = tmk_encodings_make(all, 2, sizeof *all->settings);
    if (!all->items || !all->left || !all->requants || !all->settings)
        return tmk_nomem(diag);
    all->producer.version = "0.1.0";
    all->model.file = "net.onnx";
    all->model.format = "onnx";
    all->model.sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    all->model.fingerprint = UINT64_MAX;
    all->samples = UINT64_C(9007199254740993);
    all->rounding = TMK_ROUNDING_GEMMLOWP_DOUBLE;
    all->settings[all->n_settings++] = (struct tmk_encodings_setting){"method", "mse"};
    all->settings[all->n_settings++] = (struct tmk_encodings_setting){"x", ""};
    all->left[all->n_left++] =
        (struct tmk_left_float){3, "shape", "integers have no scale", NAN, NAN};
    all->left[all->n_left++] =
        (struct tmk_left_float){4, "", "the config leaves Softmax float", -1.0f / 3, 2};
    TMK_TRY(add_items(all, diag));
    return add_requants(all, diag);
}
