/* SPDX-License-Identifier: Apache-2.0 */
/* STFT: the Fourier transform of each frame of a signal, under a window; summed term by term in
 * double. */
#include <math.h>

#include "ops/cost.h"
#include "ops/kernel.h"
#include "ops/rows.h"

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
    size_t n;
    TMK_TRY(tmk_read_ints(tensor, what, 1, &value, &n, diag));
    if (n != 1)
        return tmk_fail(diag, TMK_SHAPE, "%s is not one number", what);
    if (value < 1 || value > INT32_MAX)
        return tmk_fail(diag, TMK_RANGE, "%s is %lld", what, (long long)value);
    *out = (size_t)value;
    return TMK_OK;
}

static enum tmk_status read_frames(const struct tmk_node *node, const struct tmk_tensor *signal,
                                   const struct tmk_tensor *step, const struct tmk_tensor *window,
                                   const struct tmk_tensor *length, struct frames *out,
                                   struct tmk_diag *diag) {
    char text[128];
    const struct tmk_shape *shape = &signal->shape;
    TMK_TRY(tmk_want_dtype(signal, TMK_FLOAT32, "the signal", diag));
    if (shape->rank != 2 && !(shape->rank == 3 && (shape->dim[2] == 1 || shape->dim[2] == 2)))
        return tmk_fail(diag, TMK_SHAPE, "a signal of shape %s is not [batch,length,1 or 2]",
                        tmk_shape_text(shape, text, sizeof text));
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
                            tmk_shape_text(&window->shape, text, sizeof text));
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
    if (!y || tmk_tensor_count(y) == 0)
        return TMK_OK;
    size_t parts = f.complex ? 2 : 1;
    double *circle = run->scratch(run->context, 4 * f.length * sizeof *circle);
    if (!circle)
        return tmk_nomem(run->diag);
    double *in = circle + 2 * f.length;
    for (size_t i = 0; i < f.length; i++) {
        double angle = 2 * 3.14159265358979323846 * (double)i / (double)f.length;
        circle[2 * i] = cos(angle);
        circle[2 * i + 1] = sin(angle);
    }
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

const struct tmk_op tmk_ops_stft[] = {
    {TMK_OP_ONNX("STFT", 17, INT32_MAX), TMK_OP_COUNTS(2, 4, 1, 1), .attrs = "onesided:int",
     .infer = infer_stft, .run = run_stft, .cost = stft_cost},
    {NULL},
};
