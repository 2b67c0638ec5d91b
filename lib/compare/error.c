/* SPDX-License-Identifier: Apache-2.0 */
/* How far two tensors differ. Sums are made in the order of the elements, so that they do not
 * depend on threads. */
#include <math.h>
#include <stdlib.h>

#include "calib/item.h"
#include "compare/compare.h"
#include "ops/quantized.h"
#include "tensor/shape.h"

enum { BLOCK = 512 };

/* Float, or codes that an encoding turns into numbers. */
static bool has_numbers(const struct tmk_tensor *t, const struct tmk_encoding *e) {
    return t->dtype == TMK_FLOAT32 || (e && tmk_is_quantized(t->dtype));
}

/* Elements [first, first + n) of float32 or of codes: as numbers, and codes as integers. */
static void read_block(const struct tmk_tensor *t, const struct tmk_encoding *e,
                       const struct tmk_scale_layout *layout, size_t first, size_t n,
                       float *numbers, int32_t *codes) {
    if (t->dtype == TMK_FLOAT32) {
        for (size_t i = 0; i < n; i++)
            numbers[i] = ((const float *)t->data)[first + i];
        return;
    }
    tmk_quantized_widen(t, first, n, 0, codes);
    for (size_t i = 0; i < n; i++) {
        if (!e) {
            numbers[i] = (float)codes[i];
            continue;
        }
        const size_t c = tmk_scale_index(layout, first + i);
        numbers[i] = e->scale[c] * (float)((int64_t)codes[i] - e->zero_point[c]);
    }
}

static bool find_layout(const struct tmk_tensor *t, const struct tmk_encoding *e,
                        struct tmk_scale_layout *out) {
    *out = (struct tmk_scale_layout){.inner = 1, .dim = 1};
    return !e || tmk_scale_layout_init(out, e, &t->shape);
}

static void add_number(struct tmk_error_sums *sum, float x, float y) {
    const double a = (double)x, b = (double)y, error = fabs(a - b);
    if (!isfinite(x) || !isfinite(y))
        return;
    sum->n++;
    sum->left += a * a;
    sum->right += b * b;
    sum->product += a * b;
    sum->error += error * error;
    sum->most = error > sum->most ? error : sum->most;
}

static void add_code(struct tmk_error_sums *sum, int32_t x, int32_t y) {
    const int64_t difference = llabs((int64_t)x - y);
    sum->codes++;
    sum->equal += difference == 0;
    sum->code_error = difference > sum->code_error ? difference : sum->code_error;
}

void tmk_error_add(struct tmk_error_sums *sum, const struct tmk_tensor *left,
                   const struct tmk_encoding *left_encoding, const struct tmk_tensor *right,
                   const struct tmk_encoding *right_encoding) {
    const bool codes = tmk_is_quantized(left->dtype) && tmk_is_quantized(right->dtype),
               numbers = has_numbers(left, left_encoding) && has_numbers(right, right_encoding);
    if (left->kind != TMK_TYPE_TENSOR || right->kind != TMK_TYPE_TENSOR || (!codes && !numbers))
        return;
    sum->numbers = sum->numbers || numbers;
    struct tmk_scale_layout left_scales, right_scales;
    if (!tmk_shape_equal(&left->shape, &right->shape) ||
        !find_layout(left, left_encoding, &left_scales) ||
        !find_layout(right, right_encoding, &right_scales)) {
        sum->reshaped++;
        return;
    }
    const size_t count = tmk_tensor_count(left);
    float x[BLOCK], y[BLOCK];
    int32_t p[BLOCK], q[BLOCK];
    for (size_t first = 0; first < count; first += BLOCK) {
        const size_t n = count - first < BLOCK ? count - first : BLOCK;
        read_block(left, left_encoding, &left_scales, first, n, x, p);
        read_block(right, right_encoding, &right_scales, first, n, y, q);
        for (size_t i = 0; i < n; i++) {
            const size_t c = tmk_scale_index(&right_scales, first + i);
            add_number(sum, x[i], y[i]);
            if (right_encoding)
                sum->clipped +=
                    x[i] < right_encoding->clip_min[c] || x[i] > right_encoding->clip_max[c];
            if (codes)
                add_code(sum, p[i], q[i]);
        }
    }
}

void tmk_error_merge(struct tmk_error_sums *sum, const struct tmk_error_sums *more) {
    sum->numbers = sum->numbers || more->numbers;
    sum->reshaped += more->reshaped;
    sum->n += more->n;
    sum->left += more->left;
    sum->right += more->right;
    sum->product += more->product;
    sum->error += more->error;
    sum->most = more->most > sum->most ? more->most : sum->most;
    sum->clipped += more->clipped;
    sum->codes += more->codes;
    sum->equal += more->equal;
    sum->code_error = more->code_error > sum->code_error ? more->code_error : sum->code_error;
}

double tmk_error_sqnr(const struct tmk_error_sums *errors) {
    return errors->error > 0 ? 10 * log10(errors->left / errors->error) : HUGE_VAL;
}

double tmk_error_cosine(const struct tmk_error_sums *errors) {
    const double lengths = sqrt(errors->left) * sqrt(errors->right);
    return lengths > 0 ? errors->product / lengths : errors->left == errors->right;
}
