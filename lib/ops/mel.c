/* SPDX-License-Identifier: Apache-2.0 */
/* MelWeightMatrix: triangles, evenly spaced on the scale mel(f) = 2595 log10(1 + f / 700), each
 * over the bins of a spectrum that lie between its neighbours' peaks. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/kernel.h"
#include "ops/move.h"
#include "ops/rows.h"

static const char *const names[] = {"num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz",
                                    "upper_edge_hertz"};

struct mel {
    int64_t bands, length, rate;
    double lower, upper;
};

static double mel_of(double hertz) {
    return 2595 * log10(1 + hertz / 700);
}

static double hertz_of(double mel) {
    return 700 * (pow(10, mel / 2595) - 1);
}

static double edge_of(const struct tmk_tensor *tensor) {
    return (double)*(const float *)tensor->data;
}

/* The bin of the spectrum that edge `i` of the triangles falls into; edges 0 and bands + 1 are the
 * outermost. Of edges that were not looked at yet it may be no int64. */
static double edge_bin(const struct mel *m, int64_t i) {
    double low = mel_of(m->lower), step = (mel_of(m->upper) - low) / (double)(m->bands + 2);
    double hertz = hertz_of(low + (double)i * step);
    return floor((double)(m->length + 1) * hertz / (double)m->rate);
}

/* Reads the sizes, and with `edges` the edges; all of them have data. */
static enum tmk_status read_mel(const struct tmk_tensor *const *in, bool edges, struct mel *out,
                                struct tmk_diag *diag) {
    int64_t size[3] = {0};
    size_t n;
    for (int i = 0; i < 3; i++) {
        char what[48];
        snprintf(what, sizeof what, "input '%s'", names[i]);
        TMK_TRY(tmk_read_ints(in[i], what, 1, &size[i], &n, diag));
        if (size[i] < (i == 1 ? 0 : 1) || size[i] > INT32_MAX)
            return tmk_fail(diag, TMK_RANGE, "%s is %lld", what, (long long)size[i]);
    }
    struct mel m = {.bands = size[0], .length = size[1], .rate = size[2]};
    if (edges) {
        m.lower = edge_of(in[3]);
        m.upper = edge_of(in[4]);
        if (!(m.lower >= 0 && m.upper >= m.lower && isfinite(m.upper)))
            return tmk_fail(diag, TMK_RANGE, "the edges are %g and %g Hz", m.lower, m.upper);
        const int64_t bins = m.length / 2 + 1;
        if (edge_bin(&m, m.bands + 1) > (double)bins)
            return tmk_fail(diag, TMK_RANGE,
                            "input 'upper_edge_hertz' is %g, above half the sample rate of %lld",
                            m.upper, (long long)m.rate);
    }
    *out = m;
    return TMK_OK;
}

static enum tmk_status infer_mel(struct tmk_infer *infer) {
    int64_t asked = tmk_node_int(infer->node, "output_datatype", TMK_FLOAT32);
    struct mel m;
    if (asked < 0 || asked >= TMK_N_DTYPES || tmk_held_dtype((enum tmk_dtype)asked) != TMK_FLOAT32)
        return tmk_fail(infer->diag, TMK_UNSUPPORTED,
                        "attribute 'output_datatype' is %lld; weights are made in float32 only",
                        (long long)asked);
    bool known = true;
    for (uint32_t i = 0; i < TMK_COUNT(names); i++) {
        const struct tmk_tensor *in = infer->in[i];
        if (tmk_tensor_count(in) != 1)
            return tmk_fail(infer->diag, TMK_SHAPE, "input '%s' has %zu elements, not one",
                            names[i], tmk_tensor_count(in));
        if (i >= 3)
            TMK_TRY(tmk_want_dtype(in, TMK_FLOAT32, names[i], infer->diag));
        else
            known = known && in->data;
    }
    if (!known)
        return TMK_OK;
    TMK_TRY(read_mel(infer->in, false, &m, infer->diag));
    return tmk_infer_set(infer, 0, TMK_FLOAT32,
                         &(struct tmk_shape){2, {m.length / 2 + 1, m.bands}});
}

static enum tmk_status run_mel(struct tmk_run *run) {
    struct tmk_tensor *y = tmk_run_out(run, 0);
    struct mel m;
    TMK_TRY(read_mel(run->in, true, &m, run->diag));
    if (!y)
        return TMK_OK;
    float *out = y->data;
    int64_t rows = y->shape.dim[0];
    memset(out, 0, tmk_tensor_bytes(y));
    for (int64_t i = 0; i < m.bands; i++) {
        const int64_t left = (int64_t)edge_bin(&m, i), peak = (int64_t)edge_bin(&m, i + 1),
                      right = (int64_t)edge_bin(&m, i + 2);
        if (peak == left && peak < rows)
            out[peak * m.bands + i] = 1;
        for (int64_t j = left; j <= peak && j < rows && peak > left; j++)
            out[j * m.bands + i] = (float)((double)(j - left) / (double)(peak - left));
        for (int64_t j = peak; j < right && j < rows; j++)
            out[j * m.bands + i] = (float)((double)(right - j) / (double)(right - peak));
    }
    return TMK_OK;
}

const struct tmk_op tmk_ops_mel[] = {
    {TMK_OP_ONNX("MelWeightMatrix", 17, INT32_MAX), TMK_OP_COUNTS(5, 5, 1, 1),
     .attrs = "output_datatype:int", .infer = infer_mel, .run = run_mel},
    {NULL},
};
