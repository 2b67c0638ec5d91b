/* SPDX-License-Identifier: Apache-2.0 */
/* Fourier transforms, windows and filters of signals. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/cost.h"
#include "ops/kernel.h"
#include "ops/move.h"

/* DFT: discrete Fourier transforms along one axis, summed term by term in double.
 *
 * The last axis holds real and imaginary part, or the real part alone. One-sided: forward, the half
 * of the spectrum of real input that determines the rest; inverse, real output from such a half. */

struct transform {
    int32_t axis;
    bool inverse, onesided;
    size_t given;  /* elements of the input along the axis */
    size_t length; /* of the signal: the input cut or followed by zeros */
    size_t out;    /* elements of the output along the axis */
    bool known;    /* false: length and out are not */
};

/* `length` and `axis` are inputs, or NULL. */
static enum tmk_status read_transform(const struct tmk_node *node, const struct tmk_tensor *x,
                                      const struct tmk_tensor *length,
                                      const struct tmk_tensor *axis, struct transform *out,
                                      struct tmk_diag *diag) {
    const struct tmk_shape *shape = &x->shape;
    int64_t at = node->row->since < 20 ? tmk_node_int(node, "axis", 1) : -2, n;
    TMK_TRY(tmk_want_dtype(x, TMK_FLOAT32, "input", diag));
    *out = (struct transform){.inverse = tmk_node_int(node, "inverse", 0) != 0,
                              .onesided = tmk_node_int(node, "onesided", 0) != 0};
    if (shape->rank < 2 || (shape->dim[shape->rank - 1] != 1 && shape->dim[shape->rank - 1] != 2))
        return tmk_fail(diag, TMK_SHAPE, "the input's last axis does not hold 1 or 2 parts");
    if ((axis && tmk_tensor_count(axis) != 1) || (length && tmk_tensor_count(length) != 1))
        return tmk_fail(diag, TMK_SHAPE, "input '%s' is not one element",
                        axis && tmk_tensor_count(axis) != 1 ? "axis" : "dft_length");
    if ((axis && !axis->data) || (length && !length->data))
        return TMK_OK;
    if (axis)
        TMK_TRY(tmk_read_int(axis, "axis", &at, diag));
    TMK_TRY(tmk_axis(at, shape->rank, &out->axis, diag));
    if (out->axis == shape->rank - 1)
        return tmk_fail(diag, TMK_RANGE, "axis %lld is the one of the parts", (long long)at);
    bool real = shape->dim[shape->rank - 1] == 1;
    if (out->onesided && real == out->inverse)
        return tmk_fail(diag, TMK_SHAPE, "one-sided, the transform takes %s input",
                        out->inverse ? "complex" : "real");
    n = shape->dim[out->axis];
    out->given = (size_t)n;
    if (out->onesided && out->inverse)
        n = 2 * (n > 1 ? n - 1 : 0);
    if (length)
        TMK_TRY(tmk_read_int(length, "dft_length", &n, diag));
    if (n < 1 || n > INT32_MAX)
        return tmk_fail(diag, TMK_RANGE, "a transform of %lld elements", (long long)n);
    out->length = (size_t)n;
    out->out = out->onesided && !out->inverse ? out->length / 2 + 1 : out->length;
    out->known = true;
    return TMK_OK;
}

static enum tmk_status infer_dft(struct tmk_infer *infer) {
    struct transform t;
    const struct tmk_tensor *x = infer->in[0];
    TMK_TRY(read_transform(infer->node, x, tmk_infer_in(infer, 1), tmk_infer_in(infer, 2), &t,
                           infer->diag));
    if (!t.known)
        return TMK_OK;
    struct tmk_shape shape = x->shape;
    shape.dim[t.axis] = (int64_t)t.out;
    shape.dim[shape.rank - 1] = t.inverse && t.onesided ? 1 : 2;
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &shape);
}

/* One signal: `in` and `out` are real, imaginary, real, ... ; circle holds the cosines and sines of
 * the whole parts of a turn. */
static void transform_signal(const struct transform *t, const double *circle, const double *in,
                             double *out) {
    for (size_t k = 0; k < t->out; k++) {
        double real = 0, imaginary = 0;
        for (size_t i = 0, at = 0; i < t->length; i++) {
            double c = circle[2 * at], s = t->inverse ? circle[2 * at + 1] : -circle[2 * at + 1];
            real += in[2 * i] * c - in[2 * i + 1] * s;
            imaginary += in[2 * i] * s + in[2 * i + 1] * c;
            at = at + k < t->length ? at + k : at + k - t->length;
        }
        out[2 * k] = t->inverse ? real / (double)t->length : real;
        out[2 * k + 1] = t->inverse ? imaginary / (double)t->length : imaginary;
    }
}

/* A signal of the input: `parts` numbers an element, `step` floats from one to the next. */
static void load_signal(const struct transform *t, const float *x, size_t parts, size_t step,
                        double *in) {
    bool half = t->inverse && t->onesided;
    size_t used = half ? t->length / 2 + 1 : t->length;
    for (size_t i = 0; i < t->length; i++) {
        bool there = i < t->given && i < used;
        in[2 * i] = there ? (double)x[i * step] : 0;
        in[2 * i + 1] = there && parts == 2 ? (double)x[i * step + 1] : 0;
    }
    if (!half)
        return;
    /* the other half mirrors it; where a number mirrors itself, it is real */
    in[1] = 0;
    if (t->length % 2 == 0)
        in[t->length + 1] = 0;
    for (size_t i = 1; i < t->length - i; i++) {
        in[2 * (t->length - i)] = in[2 * i];
        in[2 * (t->length - i) + 1] = -in[2 * i + 1];
    }
}

/* The cosines and sines of the n parts of a turn. */
static void fill_circle(size_t n, double *circle) {
    for (size_t i = 0; i < n; i++) {
        double angle = 2 * 3.14159265358979323846 * (double)i / (double)n;
        circle[2 * i] = cos(angle);
        circle[2 * i + 1] = sin(angle);
    }
}

static enum tmk_status run_dft(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0];
    struct tmk_tensor *y = tmk_run_out(run, 0);
    struct transform t;
    TMK_TRY(read_transform(run->node, x, tmk_run_in(run, 1), tmk_run_in(run, 2), &t, run->diag));
    const struct tmk_shape *shape = &x->shape;
    size_t outer = tmk_shape_product(shape, 0, t.axis), parts = (size_t)shape->dim[shape->rank - 1],
           parts_out = (size_t)y->shape.dim[shape->rank - 1],
           inner = tmk_shape_product(shape, t.axis + 1, shape->rank - 1);
    double *circle = run->scratch(run->context, 6 * t.length * sizeof *circle);
    TMK_TRY_ALLOC(circle, run->diag);
    double *in = circle + 2 * t.length, *out = in + 2 * t.length;
    fill_circle(t.length, circle);
    for (size_t o = 0; o < outer; o++)
        for (size_t j = 0; j < inner; j++) {
            const float *from = (const float *)x->data + (o * t.given * inner + j) * parts;
            float *to = (float *)y->data + (o * t.out * inner + j) * parts_out;
            load_signal(&t, from, parts, inner * parts, in);
            transform_signal(&t, circle, in, out);
            for (size_t k = 0; k < t.out; k++, to += inner * parts_out)
                for (size_t p = 0; p < parts_out; p++)
                    to[p] = (float)out[2 * k + p];
        }
    return TMK_OK;
}

static double dft_cost(const struct tmk_node *node, const struct tmk_tensor *const *in,
                       const struct tmk_tensor *out) {
    struct transform t;
    const struct tmk_tensor *length = node->n_inputs > 1 ? in[1] : NULL,
                            *axis = node->n_inputs > 2 ? in[2] : NULL;
    if (read_transform(node, in[0], length, axis, &t, NULL) != TMK_OK || !t.known)
        return 0;
    return 2 * tmk_cost_count(out) * (double)t.length;
}

/* STFT: the Fourier transform of each frame of a signal, under a window; summed term by term in
 * double. */

struct frames {
    bool known;   /* false: step and length are not */
    bool complex; /* the signal is */
    size_t batch, signal, step, length;
    size_t count, bins; /* frames; numbers of a frame's spectrum */
};

/* A number that is >= 1. */
static enum tmk_status read_size(const struct tmk_tensor *tensor, const char *what, size_t *out,
                                 struct tmk_diag *diag) {
    int64_t value = 0;
    TMK_TRY(tmk_read_int(tensor, what, &value, diag));
    if (value < 1 || value > INT32_MAX)
        return tmk_fail(diag, TMK_RANGE, "%s is %lld", what, (long long)value);
    *out = (size_t)value;
    return TMK_OK;
}

static enum tmk_status read_frames(const struct tmk_node *node, const struct tmk_tensor *signal,
                                   const struct tmk_tensor *step, const struct tmk_tensor *window,
                                   const struct tmk_tensor *length, struct frames *out,
                                   struct tmk_diag *diag) {
    const struct tmk_shape *shape = &signal->shape;
    TMK_TRY(tmk_want_dtype(signal, TMK_FLOAT32, "the signal", diag));
    if (shape->rank != 2 && !(shape->rank == 3 && (shape->dim[2] == 1 || shape->dim[2] == 2)))
        return tmk_fail(diag, TMK_SHAPE, "a signal of shape %s is not [batch,length,1 or 2]",
                        TMK_SHAPE_TEXT(shape));
    struct frames f = {.complex = shape->rank == 3 && shape->dim[2] == 2,
                       .batch = (size_t)shape->dim[0],
                       .signal = (size_t)shape->dim[1],
                       .length = (size_t)shape->dim[1]};
    bool onesided = tmk_node_int(node, "onesided", 1) != 0;
    if (onesided && f.complex)
        return tmk_fail(diag, TMK_SHAPE, "one-sided, the transform takes real input");
    if (window) {
        TMK_TRY(tmk_want_dtype(window, TMK_FLOAT32, "the window", diag));
        if (window->shape.rank != 1)
            return tmk_fail(diag, TMK_SHAPE, "a window of shape %s is not one row",
                            TMK_SHAPE_TEXT(&window->shape));
        f.length = (size_t)window->shape.dim[0];
    }
    *out = f;
    if (!step->data || (length && !length->data))
        return TMK_OK;
    TMK_TRY(read_size(step, "input 'frame_step'", &f.step, diag));
    if (length)
        TMK_TRY(read_size(length, "input 'frame_length'", &f.length, diag));
    if (window && f.length != (size_t)window->shape.dim[0])
        return tmk_fail(diag, TMK_SHAPE, "a window of %lld elements for frames of %zu",
                        (long long)window->shape.dim[0], f.length);
    if (f.length < 1 || f.length > f.signal || f.length > INT32_MAX)
        return tmk_fail(diag, TMK_RANGE, "frames of %zu elements of a signal of %zu", f.length,
                        f.signal);
    f.count = (f.signal - f.length) / f.step + 1;
    f.bins = onesided ? f.length / 2 + 1 : f.length;
    f.known = true;
    *out = f;
    return TMK_OK;
}

static enum tmk_status infer_stft(struct tmk_infer *infer) {
    struct frames f;
    TMK_TRY(read_frames(infer->node, infer->in[0], infer->in[1], tmk_infer_in(infer, 2),
                        tmk_infer_in(infer, 3), &f, infer->diag));
    if (!f.known)
        return TMK_OK;
    const struct tmk_shape shape = {4, {(int64_t)f.batch, (int64_t)f.count, (int64_t)f.bins, 2}};
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &shape);
}

/* `in` holds a frame under its window (complex: pairs); circle holds the cosines and sines of the
 * whole parts of a turn. */
static void transform_frame(const struct frames *f, const double *circle, const double *in,
                            float *out) {
    for (size_t k = 0; k < f->bins; k++) {
        double real = 0, imaginary = 0;
        for (size_t i = 0, at = 0; i < f->length; i++) {
            double c = circle[2 * at], s = circle[2 * at + 1];
            if (f->complex) {
                real += in[2 * i] * c + in[2 * i + 1] * s;
                imaginary += in[2 * i + 1] * c - in[2 * i] * s;
            } else {
                real += in[i] * c;
                imaginary -= in[i] * s;
            }
            at = at + k < f->length ? at + k : at + k - f->length;
        }
        out[2 * k] = (float)real;
        out[2 * k + 1] = (float)imaginary;
    }
}

static enum tmk_status run_stft(struct tmk_run *run) {
    const struct tmk_tensor *window = tmk_run_in(run, 2);
    struct tmk_tensor *y = tmk_run_out(run, 0);
    struct frames f;
    TMK_TRY(
        read_frames(run->node, run->in[0], run->in[1], window, tmk_run_in(run, 3), &f, run->diag));
    size_t parts = f.complex ? 2 : 1;
    double *circle = run->scratch(run->context, 4 * f.length * sizeof *circle);
    TMK_TRY_ALLOC(circle, run->diag);
    double *in = circle + 2 * f.length;
    fill_circle(f.length, circle);
    float *out = y->data;
    for (size_t b = 0; b < f.batch; b++)
        for (size_t n = 0; n < f.count; n++, out += 2 * f.bins) {
            const float *from =
                (const float *)run->in[0]->data + (b * f.signal + n * f.step) * parts;
            for (size_t i = 0; i < f.length * parts; i++)
                in[i] = (double)from[i] *
                        (window ? (double)((const float *)window->data)[i / parts] : 1);
            transform_frame(&f, circle, in, out);
        }
    return TMK_OK;
}

static double stft_cost(const struct tmk_node *node, const struct tmk_tensor *const *in,
                        const struct tmk_tensor *out) {
    struct frames f;
    const struct tmk_tensor *window = node->n_inputs > 2 ? in[2] : NULL,
                            *length = node->n_inputs > 3 ? in[3] : NULL;
    if (!in[1]->data || (length && !length->data) ||
        read_frames(node, in[0], in[1], window, length, &f, NULL) != TMK_OK)
        return 0;
    return tmk_cost_count(out) * (double)f.length;
}

/* HannWindow, HammingWindow, BlackmanWindow: element n is a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n /
 * N), with N the size or, unless periodic, one less. */

static enum tmk_status infer_taper(struct tmk_infer *infer) {
    const struct tmk_tensor *size = infer->in[0];
    int64_t asked = tmk_node_int(infer->node, "output_datatype", TMK_FLOAT32), n;
    if (asked < 0 || asked >= TMK_N_DTYPES || tmk_held_dtype((enum tmk_dtype)asked) != TMK_FLOAT32)
        return tmk_fail(infer->diag, TMK_UNSUPPORTED,
                        "attribute 'output_datatype' is %lld; windows are made in float32 only",
                        (long long)asked);
    TMK_TRY(tmk_want_scalar(size, TMK_UNDEFINED, "size", infer->diag));
    if (!size->data)
        return TMK_OK;
    TMK_TRY(tmk_read_int(size, "size", &n, infer->diag));
    if (n < 0)
        return tmk_fail(infer->diag, TMK_RANGE, "input 'size' is %lld", (long long)n);
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &(struct tmk_shape){1, {n}});
}

static void fill_window(struct tmk_run *run, double a0, double a1, double a2) {
    struct tmk_tensor *y = tmk_run_out(run, 0);
    size_t n = y ? tmk_tensor_count(y) : 0;
    bool periodic = tmk_node_int(run->node, "periodic", 1) != 0;
    double turn = 2 * 3.14159265358979323846 / (double)(periodic ? n : n - 1);
    for (size_t i = 0; i < n; i++)
        ((float *)y->data)[i] =
            (float)(a0 - a1 * cos((double)i * turn) + a2 * cos(2 * (double)i * turn));
}

static enum tmk_status run_hann(struct tmk_run *run) {
    fill_window(run, 0.5, 0.5, 0);
    return TMK_OK;
}

static enum tmk_status run_hamming(struct tmk_run *run) {
    fill_window(run, 25.0 / 46, 21.0 / 46, 0);
    return TMK_OK;
}

static enum tmk_status run_blackman(struct tmk_run *run) {
    fill_window(run, 0.42, 0.5, 0.08);
    return TMK_OK;
}

static const char taper_attrs[] = "output_datatype:int periodic:int";

/* MelWeightMatrix: triangles, evenly spaced on the scale mel(f) = 2595 log10(1 + f / 700), each
 * over the bins of a spectrum that lie between its neighbours' peaks. */

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
    for (int i = 0; i < 3; i++) {
        char what[48];
        snprintf(what, sizeof what, "input '%s'", names[i]);
        TMK_TRY(tmk_read_int(in[i], what, &size[i], diag));
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

const struct tmk_op tmk_ops_signal[] = {
    {TMK_OP_ONNX("DFT", 17, 19), TMK_OP_COUNTS(1, 2, 1, 1),
     .attrs = "axis:int inverse:int onesided:int", .infer = infer_dft, .run = run_dft,
     .cost = dft_cost},
    {TMK_OP_ONNX("DFT", 20, INT32_MAX), TMK_OP_COUNTS(1, 3, 1, 1),
     .attrs = "inverse:int onesided:int", .infer = infer_dft, .run = run_dft, .cost = dft_cost},
    {TMK_OP_ONNX("STFT", 17, INT32_MAX), TMK_OP_COUNTS(2, 4, 1, 1), .attrs = "onesided:int",
     .infer = infer_stft, .run = run_stft, .cost = stft_cost},
    {TMK_OP_ONNX("HannWindow", 17, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .attrs = taper_attrs,
     .infer = infer_taper, .run = run_hann},
    {TMK_OP_ONNX("HammingWindow", 17, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .attrs = taper_attrs,
     .infer = infer_taper, .run = run_hamming},
    {TMK_OP_ONNX("BlackmanWindow", 17, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .attrs = taper_attrs,
     .infer = infer_taper, .run = run_blackman},
    {TMK_OP_ONNX("MelWeightMatrix", 17, INT32_MAX), TMK_OP_COUNTS(5, 5, 1, 1),
     .attrs = "output_datatype:int", .infer = infer_mel, .run = run_mel},
    {NULL}};
