/* SPDX-License-Identifier: Apache-2.0 */
/* DFT: discrete Fourier transforms along one axis, summed term by term in double.
 *
 * The last axis holds real and imaginary part, or the real part alone. One-sided: forward, the half
 * of the spectrum of real input that determines the rest; inverse, real output from such a half.
 */
#include <math.h>

#include "ops/cost.h"
#include "ops/kernel.h"
#include "ops/rows.h"

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
    size_t count = 1;
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
        TMK_TRY(tmk_read_ints(axis, "axis", 1, &at, &count, diag));
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
        TMK_TRY(tmk_read_ints(length, "dft_length", 1, &n, &count, diag));
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

static enum tmk_status run_dft(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0];
    struct tmk_tensor *y = tmk_run_out(run, 0);
    struct transform t;
    TMK_TRY(read_transform(run->node, x, tmk_run_in(run, 1), tmk_run_in(run, 2), &t, run->diag));
    if (!y || tmk_tensor_count(y) == 0)
        return TMK_OK;
    const struct tmk_shape *shape = &x->shape;
    size_t outer = tmk_shape_product(shape, 0, t.axis), parts = (size_t)shape->dim[shape->rank - 1],
           parts_out = (size_t)y->shape.dim[shape->rank - 1],
           inner = tmk_shape_product(shape, t.axis + 1, shape->rank - 1);
    double *circle = run->scratch(run->context, 6 * t.length * sizeof *circle);
    if (!circle)
        return tmk_nomem(run->diag);
    double *in = circle + 2 * t.length, *out = in + 2 * t.length;
    for (size_t i = 0; i < t.length; i++) {
        double angle = 2 * 3.14159265358979323846 * (double)i / (double)t.length;
        circle[2 * i] = cos(angle);
        circle[2 * i + 1] = sin(angle);
    }
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

const struct tmk_op tmk_ops_dft[] = {
    {TMK_OP_ONNX("DFT", 17, 19), TMK_OP_COUNTS(1, 2, 1, 1),
     .attrs = "axis:int inverse:int onesided:int", .infer = infer_dft, .run = run_dft,
     .cost = dft_cost},
    {TMK_OP_ONNX("DFT", 20, INT32_MAX), TMK_OP_COUNTS(1, 3, 1, 1),
     .attrs = "inverse:int onesided:int", .infer = infer_dft, .run = run_dft, .cost = dft_cost},
    {NULL},
};
