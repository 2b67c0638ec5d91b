/* SPDX-License-Identifier: Apache-2.0 */
/* Sums and products of codes.
 *
 * Add and Sub: both operands come to one scale, the larger of theirs divided by 2^k, where k is 20
 * for 8 bits (28 less the bits of a code): y = requantize(requantize(a) +- requantize(b)), all in
 * 32 bits. Rounding there costs less than 2^-20 of a step; what is left is the last requantization.
 * Mul: y = requantize((a - zero) * (b - zero)).
 * BatchNormalization: y = requantize((x - zero) * factor + offset), factor and offset being int32
 * numbers a channel, as large as 30 bits allow, of the parameters as their encodings have them. */
#include <math.h>
#include <string.h>

#include "base/diag.h"
#include "export/integer.h"
#include "export/qdq.h"
#include "graph/rewrite.h"
#include "ops/quantized.h"

static uint32_t bits_of(const struct tmk_encoding *e) {
    return 8 * (uint32_t)tmk_dtype_size(tmk_integer_carrier(e));
}

/* ---- Add, Sub ---- */

static enum tmk_status to_scale(struct tmk_integer *g, struct tmk_value *value,
                                const struct tmk_encoding *encoding, double scale,
                                const char *suffix, struct tmk_value **out) {
    const double real = (double)encoding->scale[0] / scale;
    struct tmk_rescale rescale = {.n = 1, .real = &real};
    struct tmk_value *codes = NULL;
    TMK_TRY(tmk_integer_codes_of(g, value, encoding, &codes));
    TMK_TRY(tmk_integer_zero(g, encoding, value->name, &rescale.x_zero));
    return tmk_integer_requantize(g, codes, &rescale, NULL, 0, 0, value->name, suffix, out);
}

/* The operands' encodings; false: there are none to reckon with. */
static bool find_operands(struct tmk_integer *g, const struct tmk_node *node, uint32_t bits,
                          const struct tmk_encoding *e[2]) {
    for (uint32_t i = 0; i < 2; i++) {
        e[i] = tmk_integer_plain(g, node->inputs[i], node, i, bits, "an operand");
        if (!e[i])
            return false;
    }
    return true;
}

/* The encoding of the result, or, where a Relu behind it takes it along, of that one's. */
static bool has_plain_result(struct tmk_integer *g, const struct tmk_value *result) {
    const struct tmk_node *next = tmk_integer_only_reader(result);
    float least, most;
    if (!tmk_integer_encoding(g, result, NULL, 0) && next &&
        tmk_integer_bounds(next, &least, &most))
        result = next->outputs[0];
    return tmk_integer_plain(g, result, NULL, 0, 16, "its result") != NULL;
}

static enum tmk_status finish_sum(struct tmk_integer *g, struct tmk_node *node,
                                  struct tmk_value *sum, uint32_t n, const double *unit,
                                  int32_t axis) {
    struct tmk_tail tail;
    double *real = tmk_arena_array(&g->arena, n, sizeof *real);
    TMK_TRY_ALLOC(real, g->diag);
    TMK_TRY(tmk_integer_tail(g, node->outputs[0], &tail));
    for (uint32_t i = 0; i < n; i++)
        real[i] = unit[i] / (double)tail.encoding->scale[0];
    const struct tmk_rescale rescale = {.n = n, .real = real, .axis = axis};
    TMK_TRY(tmk_integer_requantize(g, sum, &rescale, tail.encoding, tail.lowest, tail.highest,
                                   tail.result->name, "_quantized", &sum));
    TMK_TRY(tmk_integer_replaced(g, node));
    return tmk_integer_made(g, tail.result, sum, tail.encoding);
}

static enum tmk_status convert_sum(struct tmk_integer *g, struct tmk_node *node, const char *op) {
    const struct tmk_encoding *e[2];
    struct tmk_value *a = NULL, *b = NULL, *sum = NULL;
    if (!find_operands(g, node, 16, e) || !has_plain_result(g, node->outputs[0]))
        return TMK_OK;
    const uint32_t bits = bits_of(e[0]) > bits_of(e[1]) ? bits_of(e[0]) : bits_of(e[1]);
    const double unit =
        ldexp(fmax((double)e[0]->scale[0], (double)e[1]->scale[0]), -(28 - (int)bits));
    TMK_TRY(to_scale(g, node->inputs[0], e[0], unit, "_left", &a));
    TMK_TRY(to_scale(g, node->inputs[1], e[1], unit, "_right", &b));
    TMK_TRY(tmk_integer_plain_node(g, op, a, b, node->outputs[0]->name, "_sum", &sum));
    return finish_sum(g, node, sum, 1, &unit, 0);
}

enum tmk_status tmk_integer_add(struct tmk_integer *g, struct tmk_node *node) {
    return convert_sum(g, node, "Add");
}

enum tmk_status tmk_integer_sub(struct tmk_integer *g, struct tmk_node *node) {
    return convert_sum(g, node, "Sub");
}

/* ---- Mul ---- */

enum tmk_status tmk_integer_mul(struct tmk_integer *g, struct tmk_node *node) {
    const struct tmk_encoding *e[2];
    struct tmk_value *centred[2] = {NULL}, *sum = NULL;
    if (!find_operands(g, node, 16, e) || !has_plain_result(g, node->outputs[0]))
        return TMK_OK;
    if (bits_of(e[0]) + bits_of(e[1]) > 24)
        return tmk_integer_stays(g, "products of its operands may leave 32 bits");
    for (uint32_t i = 0; i < 2; i++) {
        TMK_TRY(tmk_integer_codes_of(g, node->inputs[i], e[i], &centred[i]));
        TMK_TRY(tmk_integer_centred(g, centred[i], e[i], node->inputs[i]->name, &centred[i]));
    }
    TMK_TRY(tmk_integer_plain_node(g, "Mul", centred[0], centred[1], node->outputs[0]->name,
                                   "_product", &sum));
    const double unit = (double)e[0]->scale[0] * (double)e[1]->scale[0];
    return finish_sum(g, node, sum, 1, &unit, 0);
}

/* ---- BatchNormalization ---- */

/* y = factor * x + offset, a channel. */
struct affine {
    uint32_t n;
    double *factor, *offset;
};

/* Input i as its encoding has it; *out NULL: it is no constant. */
static enum tmk_status read_parameter(struct tmk_integer *g, const struct tmk_node *node,
                                      uint32_t i, uint32_t *n, const float **out) {
    const struct tmk_tensor *t = i < node->n_inputs ? tmk_value_constant(node->inputs[i]) : NULL;
    const struct tmk_encoding *e = tmk_integer_encoding(g, node->inputs[i], node, i);
    struct tmk_tensor codes = {0};
    *out = NULL;
    if (!t || t->dtype != TMK_FLOAT32 || t->shape.rank != 1)
        return TMK_OK;
    *n = (uint32_t)t->shape.dim[0];
    *out = t->data;
    if (!e || tmk_integer_carrier(e) == TMK_UNDEFINED || (e->n != 1 && e->n != *n))
        return TMK_OK;
    float *numbers = tmk_arena_array(&g->arena, *n, sizeof *numbers);
    TMK_TRY_ALLOC(numbers, g->diag);
    TMK_TRY(e->dtype == TMK_INT32 ? tmk_qdq_bias_codes(t, 1, e->scale, e->n, &codes, g->diag)
                                  : tmk_qdq_codes(t, e, e->scale, &codes, g->diag));
    for (uint32_t c = 0; c < *n; c++)
        numbers[c] = e->scale[c % e->n] *
                     (float)((int64_t)tmk_quantized_at(&codes, c) - e->zero_point[c % e->n]);
    tmk_tensor_finish(&codes);
    *out = numbers;
    return TMK_OK;
}

static enum tmk_status read_affine(struct tmk_integer *g, const struct tmk_node *node,
                                   struct affine *out) {
    const float *t[5] = {NULL};
    uint32_t n[5] = {0};
    const double epsilon = (double)tmk_node_float(node, "epsilon", 1e-5f);
    for (uint32_t i = 1; i < 5; i++) {
        TMK_TRY(read_parameter(g, node, i, &n[i], &t[i]));
        if (!t[i] || !n[i] || n[i] != n[1])
            return tmk_integer_stays(g, "its parameters are no constants");
    }
    struct affine a = {.n = n[1]};
    a.factor = tmk_arena_array(&g->arena, a.n, sizeof *a.factor);
    a.offset = tmk_arena_array(&g->arena, a.n, sizeof *a.offset);
    TMK_TRY_ALLOC(a.factor && a.offset, g->diag);
    for (uint32_t c = 0; c < a.n; c++) {
        const double scale = (double)t[1][c], bias = (double)t[2][c], mean = (double)t[3][c],
                     variance = (double)t[4][c];
        a.factor[c] = scale / sqrt(variance + epsilon);
        a.offset[c] = bias - mean * a.factor[c];
        if (!isfinite(a.factor[c]) || !isfinite(a.offset[c]))
            return tmk_integer_stays(g, "its parameters are not finite");
    }
    *out = a;
    return TMK_OK;
}

/* The parameters in units of which each channel has its own: powers of two, so that shifts do where
 * scales are such. */
static enum tmk_status to_integers(struct tmk_integer *g, const struct affine *a,
                                   const struct tmk_encoding *x, int32_t rank, const char *name,
                                   struct tmk_value *terms[2], double *unit) {
    struct tmk_shape shape = {.rank = rank - 1, .dim = {a->n}};
    const double codes = ldexp(1, (int)bits_of(x)), scale = (double)x->scale[0];
    int32_t *factor = tmk_arena_array(&g->arena, a->n, sizeof *factor),
            *offset = tmk_arena_array(&g->arena, a->n, sizeof *offset);
    TMK_TRY_ALLOC(factor && offset, g->diag);
    for (int32_t i = 1; i < shape.rank; i++)
        shape.dim[i] = 1;
    for (uint32_t c = 0; c < a->n; c++) {
        const double most = fmax(fabs(a->factor[c]) * scale * codes, fabs(a->offset[c]));
        int exponent = 0;
        (void)frexp(most, &exponent); /* most < 2^exponent */
        unit[c] = ldexp(1, exponent - 29);
        factor[c] = (int32_t)rint(a->factor[c] * scale / unit[c]);
        offset[c] = (int32_t)rint(a->offset[c] / unit[c]);
    }
    TMK_TRY(tmk_integer_constant(g, TMK_INT32, &shape, factor, name, "_factor", &terms[0]));
    return tmk_integer_constant(g, TMK_INT32, &shape, offset, name, "_offset", &terms[1]);
}

enum tmk_status tmk_integer_batch_norm(struct tmk_integer *g, struct tmk_node *node) {
    const struct tmk_encoding *x = tmk_integer_plain(g, node->inputs[0], node, 0, 16, "its input");
    const char *name = node->outputs[0]->name;
    const int32_t rank = node->inputs[0]->type.has_shape ? node->inputs[0]->type.shape.rank : 0;
    struct tmk_value *terms[2], *sum = NULL;
    struct affine affine = {0};
    if (!x || !has_plain_result(g, node->outputs[0]))
        return TMK_OK;
    if (rank < 2 || node->n_outputs > 1)
        return tmk_integer_stays(g, rank < 2 ? "its input's rank is not known" : "it trains");
    TMK_TRY(read_affine(g, node, &affine));
    if (!affine.n)
        return TMK_OK;
    double *unit = tmk_arena_array(&g->arena, affine.n, sizeof *unit);
    TMK_TRY_ALLOC(unit, g->diag);
    TMK_TRY(to_integers(g, &affine, x, rank, name, terms, unit));
    TMK_TRY(tmk_integer_codes_of(g, node->inputs[0], x, &sum));
    TMK_TRY(tmk_integer_centred(g, sum, x, node->inputs[0]->name, &sum));
    TMK_TRY(tmk_integer_plain_node(g, "Mul", sum, terms[0], name, "_scaled", &sum));
    TMK_TRY(tmk_integer_plain_node(g, "Add", sum, terms[1], name, "_shifted", &sum));
    return finish_sum(g, node, sum, affine.n, unit, 1);
}

/* Means: a sum in 32 bits, and a Requantize that divides by the count. */

enum { MOST_COUNT = 8388607 }; /* of 8-bit codes: sums stay below 2^31 */

struct mean {
    struct tmk_node *node;
    const struct tmk_encoding *x, *y;
    int64_t count; /* of elements that are summed */
};

static bool match_mean(struct tmk_integer *g, struct tmk_node *node, struct mean *m) {
    m->node = node;
    m->x = tmk_integer_plain(g, node->inputs[0], node, 0, 8, "its input");
    m->y = m->x ? tmk_integer_plain(g, node->outputs[0], NULL, 0, 16, "its result") : NULL;
    return m->y != NULL;
}

/* By shifts alone nothing can be divided by any count: the sum is multiplied by 2^22 / count first,
 * which leaves 30 bits of 8-bit codes. */
static enum tmk_status finish_mean(struct tmk_integer *g, const struct mean *m,
                                   struct tmk_value *sum) {
    enum { FACTOR_BITS = 22 };
    const char *name = m->node->outputs[0]->name;
    double real = (double)m->x->scale[0] / (double)m->count / (double)m->y->scale[0];
    const struct tmk_rescale rescale = {.n = 1, .real = &real};
    int32_t lowest, highest;
    tmk_encoding_codes(m->y, &lowest, &highest);
    if (g->options->pow2) {
        const int32_t factor = (int32_t)rint(ldexp(1, FACTOR_BITS) / (double)m->count);
        struct tmk_value *constant = NULL;
        TMK_TRY(tmk_integer_constant(g, TMK_INT32, NULL, &factor, name, "_factor", &constant));
        TMK_TRY(tmk_integer_plain_node(g, "Mul", sum, constant, name, "_scaled", &sum));
        real = ldexp((double)m->x->scale[0] / (double)m->y->scale[0], -FACTOR_BITS);
    }
    TMK_TRY(tmk_integer_requantize(g, sum, &rescale, m->y, lowest, highest,
                                   m->node->outputs[0]->name, "_quantized", &sum));
    TMK_TRY(tmk_integer_replaced(g, m->node));
    return tmk_integer_made(g, m->node->outputs[0], sum, m->y);
}

/* ---- over whole axes ---- */

/* Over these axes of the input, which are as many as `n`. */
static enum tmk_status reduce_axes(struct tmk_integer *g, struct mean *m, int64_t *axes, size_t n,
                                   bool keep) {
    const struct tmk_type *type = &m->node->inputs[0]->type;
    const char *name = m->node->outputs[0]->name;
    struct tmk_value *x = NULL;
    struct tmk_node *sum = NULL;
    m->count = 1;
    for (size_t i = 0; i < n; i++) {
        axes[i] += axes[i] < 0 ? type->shape.rank : 0;
        const int64_t size =
            axes[i] >= 0 && axes[i] < type->shape.rank ? type->shape.dim[axes[i]] : -1;
        if (size <= 0 || size > MOST_COUNT / m->count)
            return tmk_integer_stays(g, size < 0 ? "how many numbers it averages is not known"
                                                 : "its sums may leave 32 bits");
        m->count *= size;
    }
    TMK_TRY(tmk_integer_codes_of(g, m->node->inputs[0], m->x, &x));
    TMK_TRY(tmk_integer_centred(g, x, m->x, m->node->inputs[0]->name, &x));
    TMK_TRY(tmk_integer_node(g, TMK_DOMAIN_ONNX, "ReduceSum", 11, &x, 1, name, "_sum", &sum));
    TMK_TRY(tmk_integer_set_ints(g, sum, "axes", axes, n));
    TMK_TRY(tmk_node_set_int(sum, "keepdims", keep, g->diag));
    return finish_mean(g, m, sum->outputs[0]);
}

enum tmk_status tmk_integer_global_average(struct tmk_integer *g, struct tmk_node *node) {
    const struct tmk_type *type = &node->inputs[0]->type;
    int64_t axes[TMK_MAX_RANK];
    size_t n = 0;
    struct mean m;
    if (!match_mean(g, node, &m))
        return TMK_OK;
    for (int32_t i = 2; type->has_shape && i < type->shape.rank; i++)
        axes[n++] = i;
    return n ? reduce_axes(g, &m, axes, n, true)
             : tmk_integer_stays(g, "its input's rank is not known");
}

/* The axes of a reduction, by attribute or by a constant; false: all, or not known. */
static bool read_axes(const struct tmk_node *node, int64_t axes[TMK_MAX_RANK], size_t *n) {
    const int64_t *given = tmk_node_ints(node, "axes", n);
    if (!given && node->n_inputs > 1 && node->inputs[1]) {
        const struct tmk_tensor *t = tmk_value_constant(node->inputs[1]);
        if (!t || t->dtype != TMK_INT64)
            return false;
        given = t->data;
        *n = tmk_tensor_count(t);
    }
    if (!given || !*n || *n > TMK_MAX_RANK)
        return false;
    memcpy(axes, given, *n * sizeof *axes);
    return true;
}

enum tmk_status tmk_integer_mean(struct tmk_integer *g, struct tmk_node *node) {
    int64_t axes[TMK_MAX_RANK];
    size_t n = 0;
    struct mean m;
    if (!match_mean(g, node, &m))
        return TMK_OK;
    if (!node->inputs[0]->type.has_shape || !read_axes(node, axes, &n))
        return tmk_integer_stays(g, "its axes are not known");
    return reduce_axes(g, &m, axes, n, tmk_node_int(node, "keepdims", 1) != 0);
}

/* ---- over windows ---- */

static bool all_are(const int64_t *values, size_t n, int64_t value) {
    for (size_t i = 0; i < n; i++)
        if (values[i] != value)
            return false;
    return true;
}

/* Every window averages as many numbers: its padding counts, or it has none. */
static bool counts_alike(const struct tmk_node *node) {
    const char *pad = tmk_node_string(node, "auto_pad", "NOTSET");
    size_t n;
    const int64_t *pads = tmk_node_ints(node, "pads", &n);
    if (tmk_node_int(node, "ceil_mode", 0))
        return false;
    if (strcmp(pad, "VALID") == 0 || tmk_node_int(node, "count_include_pad", 0))
        return true;
    return strcmp(pad, "NOTSET") == 0 && all_are(pads, n, 0);
}

/* A convolution of each channel with ones. */
static enum tmk_status sum_windows(struct tmk_integer *g, const struct mean *m, int64_t channels,
                                   const int64_t *kernel, size_t n, struct tmk_value **out) {
    static const char *const but[] = {"ceil_mode", "count_include_pad", NULL};
    struct tmk_shape shape = {.rank = (int32_t)n + 2, .dim = {channels, 1}};
    const char *name = m->node->outputs[0]->name;
    struct tmk_value *inputs[3];
    struct tmk_node *conv = NULL;
    size_t count;
    for (size_t i = 0; i < n; i++)
        shape.dim[i + 2] = kernel[i];
    if (!tmk_shape_count(&shape, &count))
        return tmk_fail(g->diag, TMK_RANGE, "'%s': its kernel is too large", name);
    int32_t *ones = tmk_arena_array(&g->arena, count, sizeof *ones);
    TMK_TRY_ALLOC(ones, g->diag);
    for (size_t i = 0; i < count; i++)
        ones[i] = 1;
    TMK_TRY(tmk_integer_codes_of(g, m->node->inputs[0], m->x, &inputs[0]));
    TMK_TRY(tmk_integer_constant(g, TMK_INT8, &shape, ones, name, "_ones", &inputs[1]));
    TMK_TRY(tmk_integer_zero(g, m->x, m->node->inputs[0]->name, &inputs[2]));
    TMK_TRY(
        tmk_integer_node(g, TMK_DOMAIN_ONNX, "ConvInteger", 10, inputs, 3, name, "_sum", &conv));
    TMK_TRY(tmk_node_copy_attrs(conv, m->node, but, g->diag));
    *out = conv->outputs[0];
    return tmk_node_set_int(conv, "group", channels, g->diag);
}

enum tmk_status tmk_integer_average_pool(struct tmk_integer *g, struct tmk_node *node) {
    const struct tmk_type *type = &node->inputs[0]->type;
    struct tmk_value *sum = NULL;
    struct mean m;
    size_t n;
    const int64_t *kernel = tmk_node_ints(node, "kernel_shape", &n);
    if (!match_mean(g, node, &m))
        return TMK_OK;
    if (!type->has_shape || type->shape.rank < 3 || type->shape.dim[1] <= 0 ||
        (size_t)type->shape.rank != n + 2)
        return tmk_integer_stays(g, "how many channels it has is not known");
    if (!counts_alike(node))
        return tmk_integer_stays(g, "its windows average different counts of numbers");
    m.count = 1;
    for (size_t i = 0; i < n; i++) {
        if (kernel[i] <= 0 || kernel[i] > MOST_COUNT / m.count)
            return tmk_integer_stays(g, "its sums may leave 32 bits");
        m.count *= kernel[i];
    }
    TMK_TRY(sum_windows(g, &m, type->shape.dim[1], kernel, n, &sum));
    return finish_mean(g, &m, sum);
}
