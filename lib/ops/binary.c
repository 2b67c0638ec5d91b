/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic and comparisons of two operands, element by element. */
#include <math.h>

#include "ops/elementwise.h"
#include "ops/functions.h"
#include "ops/vmath.h"

/* Arithmetic on two operands: Add, Sub, Mul, Div, Mod, PRelu. Integers wrap around; dividing them
 * by zero is an error, INT_MIN by -1 is INT_MIN. */

#define ADD(T, U) (T)((U)x + (U)y)
#define SUB(T, U) (T)((U)x - (U)y)
#define MUL(T, U) (T)((U)x * (U)y)
#define DIV_FLOAT(T, U) x / y
#define DIV_SIGNED(T, U) y == -1 ? (T)((U)0 - (U)x) : (T)(x / y)
#define DIV_UNSIGNED(T, U) x / y
#define FMOD_FLOAT(T, U) fmodf(x, y)
#define FMOD_SIGNED(T, U) y == -1 ? (T)0 : (T)(x % y)
#define FMOD_UNSIGNED(T, U) x % y
#define PRELU(T, U) x < 0 ? (T)((U)x * (U)y) : x

/* The choice is made on the bits: compilers keep the branch otherwise, and signs are random. */
static inline float prelu_element(float x, float y) {
    int32_t below = -(int32_t)(x < 0);
    return tmk_bits_float((tmk_float_bits(x * y) & below) | (tmk_float_bits(x) & ~below));
}
#define PRELU_FLOAT(T, U) prelu_element(x, y)
#define PRELU_UNSIGNED(T, U) ((void)y, x)

#define DEFINE(op, dtype, T, U) TMK_ROW2(row_##op##_##dtype, T, T, T, op(T, U))
/* Rows of floats go through the widest vectors, unless they are so short that asking costs more. */
#define DEFINE_WIDE(op, vector)                                                                    \
    TMK_ROW2(short_##op, float, float, float, op(float, float))                                    \
    static void row_##op##_FLOAT32(size_t n, const void *a, bool vary_a, const void *b,            \
                                   bool vary_b, void *out) {                                       \
        if (n < 32)                                                                                \
            short_##op(n, a, vary_a, b, vary_b, out);                                              \
        else                                                                                       \
            vector(n, a, vary_a, b, vary_b, out);                                                  \
    }
DEFINE_WIDE(ADD, tmk_vadd)
DEFINE_WIDE(SUB, tmk_vsubtract)
DEFINE_WIDE(MUL, tmk_vmultiply)
DEFINE_WIDE(DIV_FLOAT, tmk_vdivide)
TMK_EACH_INTEGER(DEFINE, ADD)
TMK_EACH_INTEGER(DEFINE, SUB)
TMK_EACH_INTEGER(DEFINE, MUL)
TMK_EACH_SIGNED(DEFINE, DIV_SIGNED)
TMK_EACH_UNSIGNED(DEFINE, DIV_UNSIGNED)
TMK_EACH_FLOAT(DEFINE, FMOD_FLOAT)
TMK_EACH_SIGNED(DEFINE, FMOD_SIGNED)
TMK_EACH_UNSIGNED(DEFINE, FMOD_UNSIGNED)
TMK_EACH_FLOAT(DEFINE, PRELU_FLOAT)
TMK_EACH_SIGNED(DEFINE, PRELU)
TMK_EACH_UNSIGNED(DEFINE, PRELU_UNSIGNED)

/* The remainder with the divisor's sign, as Python's %. */
#define DEFINE_MODULO(op, dtype, T, U)                                                             \
    static inline T modulo_##dtype(T x, T y) {                                                     \
        T r = y == -1 ? (T)0 : (T)(x % y);                                                         \
        return r != 0 && (r < 0) != (y < 0) ? (T)(r + y) : r;                                      \
    }                                                                                              \
    TMK_ROW2(row_MODULO_##dtype, T, T, T, modulo_##dtype(x, y))
TMK_EACH_SIGNED(DEFINE_MODULO, )

static inline float modulo_float(float x, float y) {
    float r = fmodf(x, y);
    if (r == 0)
        return copysignf(0.0f, y);
    return (r < 0) != (y < 0) ? r + y : r;
}
TMK_ROW2(row_MODULO_FLOAT32, float, float, float, modulo_float(x, y))

static const struct tmk_binary add = {{TMK_EACH_NUMBER(TMK_ROW_ENTRY, ADD)}, TMK_UNDEFINED};
static const struct tmk_binary sub = {{TMK_EACH_NUMBER(TMK_ROW_ENTRY, SUB)}, TMK_UNDEFINED};
static const struct tmk_binary mul = {{TMK_EACH_NUMBER(TMK_ROW_ENTRY, MUL)}, TMK_UNDEFINED};
static const struct tmk_binary divide = {{TMK_EACH_FLOAT(TMK_ROW_ENTRY, DIV_FLOAT)
                                              TMK_EACH_SIGNED(TMK_ROW_ENTRY, DIV_SIGNED)
                                                  TMK_EACH_UNSIGNED(TMK_ROW_ENTRY, DIV_UNSIGNED)},
                                         TMK_UNDEFINED};
static const struct tmk_binary modulo = {{[TMK_FLOAT32] = row_MODULO_FLOAT32,
                                          TMK_EACH_SIGNED(TMK_ROW_ENTRY, MODULO)
                                              TMK_EACH_UNSIGNED(TMK_ROW_ENTRY, FMOD_UNSIGNED)},
                                         TMK_UNDEFINED};
static const struct tmk_binary fmodulo = {{TMK_EACH_FLOAT(TMK_ROW_ENTRY, FMOD_FLOAT)
                                               TMK_EACH_SIGNED(TMK_ROW_ENTRY, FMOD_SIGNED)
                                                   TMK_EACH_UNSIGNED(TMK_ROW_ENTRY, FMOD_UNSIGNED)},
                                          TMK_UNDEFINED};
static const struct tmk_binary prelu = {{TMK_EACH_FLOAT(TMK_ROW_ENTRY, PRELU_FLOAT)
                                             TMK_EACH_SIGNED(TMK_ROW_ENTRY, PRELU)
                                                 TMK_EACH_UNSIGNED(TMK_ROW_ENTRY, PRELU_UNSIGNED)},
                                        TMK_UNDEFINED};

/* ---- Div and Mod: integer divisors are looked at first ---- */

static bool holds_zero(const struct tmk_tensor *tensor) {
    size_t n = tmk_tensor_count(tensor);
    bool zero = false;
    switch (tmk_dtype_size(tensor->dtype)) {
    case 1:
        for (size_t i = 0; i < n; i++)
            zero |= ((const uint8_t *)tensor->data)[i] == 0;
        break;
    case 2:
        for (size_t i = 0; i < n; i++)
            zero |= ((const uint16_t *)tensor->data)[i] == 0;
        break;
    case 4:
        for (size_t i = 0; i < n; i++)
            zero |= ((const uint32_t *)tensor->data)[i] == 0;
        break;
    default:
        for (size_t i = 0; i < n; i++)
            zero |= ((const uint64_t *)tensor->data)[i] == 0;
    }
    return zero;
}

static enum tmk_status check_divisor(const struct tmk_run *run) {
    const struct tmk_tensor *b = run->in[1];
    if (b->dtype != TMK_FLOAT32 && tmk_run_out(run, 0) && tmk_tensor_count(run->out[0]) &&
        holds_zero(b))
        return tmk_fail(run->diag, TMK_RANGE, "input 1, a divisor of type %s, holds a zero",
                        tmk_dtype_name(b->dtype));
    return TMK_OK;
}

static enum tmk_status run_div_1(struct tmk_run *run) {
    TMK_TRY(check_divisor(run));
    return tmk_run_binary_legacy(run);
}

static enum tmk_status run_div_7(struct tmk_run *run) {
    TMK_TRY(check_divisor(run));
    return tmk_run_binary(run);
}

static const struct tmk_binary *mod_kind(const struct tmk_node *node) {
    return tmk_node_int(node, "fmod", 0) ? &fmodulo : &modulo;
}

static enum tmk_status infer_mod(struct tmk_infer *infer) {
    int64_t kind = tmk_node_int(infer->node, "fmod", 0);
    if (kind != 0 && kind != 1)
        return tmk_fail(infer->diag, TMK_RANGE, "fmod is %lld; it is 0 or 1", (long long)kind);
    if (infer->in[0]->dtype == TMK_FLOAT32 && !kind && infer->node->version < 28)
        return tmk_fail(infer->diag, TMK_TYPE, "floating-point inputs want fmod=1");
    return tmk_infer_binary_as(infer, mod_kind(infer->node));
}

static enum tmk_status run_mod(struct tmk_run *run) {
    TMK_TRY(check_divisor(run));
    return tmk_run_binary_as(run, mod_kind(run->node));
}

/* ---- PRelu: the slope broadcasts to the input, never the other way round ---- */

/* Before operator set 7: one slope, a slope a channel (axis 1), or one an element. */
static enum tmk_status prelu_slope(const struct tmk_shape *x, const struct tmk_shape *slope,
                                   struct tmk_shape *out, struct tmk_diag *diag) {
    size_t count;
    struct tmk_shape fit = {0};
    if (tmk_shape_equal(x, slope)) {
        fit = *slope;
    } else if (slope->rank == 1 && x->rank >= 2 && slope->dim[0] == x->dim[1]) {
        fit.rank = x->rank;
        for (int32_t i = 0; i < x->rank; i++)
            fit.dim[i] = i == 1 ? x->dim[1] : 1;
    } else if (!tmk_shape_count(slope, &count) || count != 1) {
        return tmk_fail(diag, TMK_SHAPE, "a slope of %s fits no input of %s", TMK_SHAPE_TEXT(slope),
                        TMK_SHAPE_TEXT(x));
    }
    *out = fit;
    return TMK_OK;
}

static enum tmk_status infer_prelu_1(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0], *slope = infer->in[1];
    struct tmk_shape fit;
    TMK_WANT_ENTRY(prelu.row, x, "input 0", infer->diag);
    TMK_TRY(tmk_want_dtype(slope, x->dtype, "input 1", infer->diag));
    TMK_TRY(prelu_slope(&x->shape, &slope->shape, &fit, infer->diag));
    return tmk_infer_set(infer, 0, x->dtype, &x->shape);
}

static enum tmk_status run_prelu_1(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0], *slope = run->in[1];
    struct tmk_shape fit;
    TMK_TRY(prelu_slope(&x->shape, &slope->shape, &fit, run->diag));
    if (tmk_run_out(run, 0))
        tmk_walk2(prelu.row[x->dtype], x, &x->shape, slope, &fit, run->out[0]);
    return TMK_OK;
}

static enum tmk_status infer_prelu_7(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0], *slope = infer->in[1];
    struct tmk_shape shape;
    TMK_WANT_ENTRY(prelu.row, x, "input 0", infer->diag);
    TMK_TRY(tmk_want_dtype(slope, x->dtype, "input 1", infer->diag));
    TMK_TRY(tmk_broadcast(&x->shape, &slope->shape, &shape, infer->diag));
    if (!tmk_shape_equal(&shape, &x->shape))
        return tmk_fail(infer->diag, TMK_SHAPE, "a slope of %s does not broadcast to %s",
                        TMK_SHAPE_TEXT(&slope->shape), TMK_SHAPE_TEXT(&x->shape));
    return tmk_infer_set(infer, 0, x->dtype, &shape);
}

/* Pow: the base decides the type of the result, the exponent may be of any type. */

/* Exponents other than float are widened to int64 first, so these loops do. Nearly every exponent
 * in a model is a constant 2, 3 or 1/2, which need no pow. */
TMK_ROW2(pow_row, float, float, float, (float)pow((double)x, (double)y))

static void pow_float_float(size_t n, const void *a, bool vary_a, const void *b, bool vary_b,
                            void *out) {
    const float *x = a;
    float *r = out;
    float y = n && vary_a && !vary_b ? *(const float *)b : 0;
    if (y == 2) {
        for (size_t i = 0; i < n; i++)
            r[i] = x[i] * x[i];
    } else if (y == 3) {
        for (size_t i = 0; i < n; i++)
            r[i] = x[i] * x[i] * x[i];
    } else if (y == 0.5f) {
        /* unlike the square root, the power is 0 of -0, and infinite of -infinity */
        for (size_t i = 0; i < n; i++)
            r[i] = x[i] == -INFINITY ? INFINITY : x[i] + 0.0f;
        tmk_vsqrt(r, r, n);
    } else {
        pow_row(n, a, vary_a, b, vary_b, out);
    }
}
TMK_ROW2(pow_float_int, float, int64_t, float, (float)pow((double)x, (double)y))

/* x^y in the ring of 64-bit integers, whose low half is the ring of 32-bit ones. Negative exponents
 * truncate 1 / x^-y towards zero; a base of 0 has been refused. */
static inline int64_t int_pow(int64_t x, int64_t y) {
    uint64_t r = 1, base = (uint64_t)x;
    if (y < 0)
        return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
    for (; y; y >>= 1) {
        if (y & 1)
            r *= base;
        base *= base;
    }
    return (int64_t)r;
}
TMK_ROW2(pow_int32_int, int32_t, int64_t, int32_t, (int32_t)(uint32_t)int_pow(x, y))
TMK_ROW2(pow_int64_int, int64_t, int64_t, int64_t, int_pow(x, y))

TMK_ROW2(pow_int32_float, int32_t, float, int32_t, tmk_to_int32(pow((double)x, (double)y)))
TMK_ROW2(pow_int64_float, int64_t, float, int64_t, tmk_to_int64(pow((double)x, (double)y)))

static tmk_row2 pow_loop(enum tmk_dtype base, bool float_exponent) {
    switch (base) {
    case TMK_FLOAT32:
        return float_exponent ? pow_float_float : pow_float_int;
    case TMK_INT32:
        return float_exponent ? pow_int32_float : pow_int32_int;
    case TMK_INT64:
        return float_exponent ? pow_int64_float : pow_int64_int;
    default:
        return NULL;
    }
}

#define WIDEN(op, dtype, T, U)                                                                     \
    case TMK_##dtype:                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            to[i] = (int64_t)((const T *)from->data)[i];                                           \
        break;

static void widen_integers(const struct tmk_tensor *from, size_t n, int64_t *to) {
    switch (from->dtype) {
        TMK_EACH_INTEGER(WIDEN, )
    default:
        break;
    }
}

/* A zero that meets a negative exponent; broadcasting makes asking for any of both too strict, so
 * only where they meet. */
static bool divides_by_zero(const struct tmk_tensor *base, const struct tmk_tensor *exponent,
                            const struct tmk_shape *shape_b, const struct tmk_shape *out) {
    struct tmk_walk walk;
    tmk_walk_init(&walk, out, 2, (const struct tmk_shape *const[]){&base->shape, shape_b});
    const int64_t *y = exponent->data;
    for (; walk.rows; tmk_walk_next(&walk))
        for (size_t i = 0; i < walk.n; i++) {
            size_t at = walk.offset[0] + (walk.vary[0] ? i : 0);
            bool zero = base->dtype == TMK_INT32 ? ((const int32_t *)base->data)[at] == 0
                                                 : ((const int64_t *)base->data)[at] == 0;
            if (zero && y[walk.offset[1] + (walk.vary[1] ? i : 0)] < 0)
                return true;
        }
    return false;
}

static enum tmk_status run_pow(struct tmk_run *run, const struct tmk_shape *shape_b) {
    const struct tmk_tensor *base = run->in[0], *exponent = run->in[1];
    struct tmk_tensor wide = *exponent, *out = tmk_run_out(run, 0);
    bool is_float = exponent->dtype == TMK_FLOAT32;
    if (!out)
        return TMK_OK;
    if (!is_float) {
        size_t n = tmk_tensor_count(exponent);
        wide.dtype = TMK_INT64;
        wide.data = tmk_scratch(run, n, sizeof(int64_t));
        TMK_TRY_ALLOC(wide.data, run->diag);
        widen_integers(exponent, n, wide.data);
        if (base->dtype != TMK_FLOAT32 && divides_by_zero(base, &wide, shape_b, &out->shape))
            return tmk_fail(run->diag, TMK_RANGE, "an integer zero meets a negative exponent");
    }
    tmk_walk2(pow_loop(base->dtype, is_float), base, &base->shape, &wide, shape_b, out);
    return TMK_OK;
}

static enum tmk_status want_types(const struct tmk_infer *infer) {
    const struct tmk_tensor *base = infer->in[0], *exponent = infer->in[1];
    if (!pow_loop(base->dtype, true))
        return tmk_fail(infer->diag, TMK_TYPE, "a base of type %s is not float32, int32 or int64",
                        tmk_dtype_name(base->dtype));
    if (exponent->dtype != TMK_FLOAT32 &&
        (!tmk_dtype_is_integer(exponent->dtype) || tmk_dtype_bits(exponent->dtype) < 8))
        return tmk_fail(infer->diag, TMK_TYPE, "an exponent of type %s is not a number's",
                        tmk_dtype_name(exponent->dtype));
    return TMK_OK;
}

static enum tmk_status infer_pow_1(struct tmk_infer *infer) {
    struct tmk_shape shape_b;
    TMK_TRY(want_types(infer));
    TMK_TRY(tmk_align_legacy(infer->node, &infer->in[0]->shape, &infer->in[1]->shape, &shape_b,
                             infer->diag));
    return tmk_infer_same(infer);
}

static enum tmk_status run_pow_1(struct tmk_run *run) {
    struct tmk_shape shape_b;
    TMK_TRY(
        tmk_align_legacy(run->node, &run->in[0]->shape, &run->in[1]->shape, &shape_b, run->diag));
    return run_pow(run, &shape_b);
}

static enum tmk_status infer_pow_7(struct tmk_infer *infer) {
    struct tmk_shape shape;
    TMK_TRY(want_types(infer));
    TMK_TRY(tmk_broadcast(&infer->in[0]->shape, &infer->in[1]->shape, &shape, infer->diag));
    return tmk_infer_set(infer, 0, infer->in[0]->dtype, &shape);
}

static enum tmk_status run_pow_7(struct tmk_run *run) {
    return run_pow(run, &run->in[1]->shape);
}

/* Two operands to a truth value, and logic on truth values and bits. */

#define EQUAL(T) x == y
#define GREATER(T) x > y
#define LESS(T) x < y
#define GREATER_EQUAL(T) x >= y
#define LESS_EQUAL(T) x <= y
#define AND(T) (x != 0) & (y != 0)
#define OR(T) (x != 0) | (y != 0)
#define XOR(T) (x != 0) ^ (y != 0)
#define BIT_AND(T) (T)(x & y)
#define BIT_OR(T) (T)(x | y)
#define BIT_XOR(T) (T)(x ^ y)
/* C leaves a shift by the width or more, or by less than nothing, undefined: it shifts everything
 * out here. */
#define SHIFT_LEFT(T) y < 8 * sizeof(T) ? (T)((uint64_t)x << y) : (T)0
#define SHIFT_RIGHT(T) y < 8 * sizeof(T) ? (T)(x >> y) : (T)0
#define SHIFT_LEFT_SIGNED(T) y >= 0 && y < (T)(8 * sizeof(T)) ? (T)((uint64_t)x << y) : (T)0
#define SHIFT_RIGHT_SIGNED(T) y >= 0 && y < (T)(8 * sizeof(T)) ? (T)(x >> y) : (T)(x < 0 ? -1 : 0)

#define TO_BOOL(op, dtype, T, U) TMK_ROW2(row_##op##_##dtype, T, T, uint8_t, op(T))
#define TO_SAME(op, dtype, T, U) TMK_ROW2(row_##op##_##dtype, T, T, T, op(T))
TMK_EACH_NUMBER(TO_BOOL, EQUAL)
TMK_EACH_BOOL(TO_BOOL, EQUAL)
TMK_EACH_NUMBER(TO_BOOL, GREATER)
TMK_EACH_NUMBER(TO_BOOL, LESS)
TMK_EACH_NUMBER(TO_BOOL, GREATER_EQUAL)
TMK_EACH_NUMBER(TO_BOOL, LESS_EQUAL)
TMK_EACH_BOOL(TO_BOOL, AND)
TMK_EACH_BOOL(TO_BOOL, OR)
TMK_EACH_BOOL(TO_BOOL, XOR)
TMK_EACH_INTEGER(TO_SAME, BIT_AND)
TMK_EACH_INTEGER(TO_SAME, BIT_OR)
TMK_EACH_INTEGER(TO_SAME, BIT_XOR)
TMK_EACH_UNSIGNED(TO_SAME, SHIFT_LEFT)
TMK_EACH_UNSIGNED(TO_SAME, SHIFT_RIGHT)
TMK_EACH_SIGNED(TO_SAME, SHIFT_LEFT_SIGNED)
TMK_EACH_SIGNED(TO_SAME, SHIFT_RIGHT_SIGNED)

static const struct tmk_binary equal = {
    {TMK_EACH_NUMBER(TMK_ROW_ENTRY, EQUAL) TMK_EACH_BOOL(TMK_ROW_ENTRY, EQUAL)}, TMK_BOOL};
static const struct tmk_binary greater = {{TMK_EACH_NUMBER(TMK_ROW_ENTRY, GREATER)}, TMK_BOOL};
static const struct tmk_binary less = {{TMK_EACH_NUMBER(TMK_ROW_ENTRY, LESS)}, TMK_BOOL};
static const struct tmk_binary greater_equal = {{TMK_EACH_NUMBER(TMK_ROW_ENTRY, GREATER_EQUAL)},
                                                TMK_BOOL};
static const struct tmk_binary less_equal = {{TMK_EACH_NUMBER(TMK_ROW_ENTRY, LESS_EQUAL)},
                                             TMK_BOOL};
static const struct tmk_binary logical_and = {{TMK_EACH_BOOL(TMK_ROW_ENTRY, AND)}, TMK_BOOL};
static const struct tmk_binary logical_or = {{TMK_EACH_BOOL(TMK_ROW_ENTRY, OR)}, TMK_BOOL};
static const struct tmk_binary logical_xor = {{TMK_EACH_BOOL(TMK_ROW_ENTRY, XOR)}, TMK_BOOL};
static const struct tmk_binary bit_and = {{TMK_EACH_INTEGER(TMK_ROW_ENTRY, BIT_AND)},
                                          TMK_UNDEFINED};
static const struct tmk_binary bit_or = {{TMK_EACH_INTEGER(TMK_ROW_ENTRY, BIT_OR)}, TMK_UNDEFINED};
static const struct tmk_binary bit_xor = {{TMK_EACH_INTEGER(TMK_ROW_ENTRY, BIT_XOR)},
                                          TMK_UNDEFINED};
static const struct tmk_binary shift_left = {
    {TMK_EACH_UNSIGNED(TMK_ROW_ENTRY, SHIFT_LEFT)
         TMK_EACH_SIGNED(TMK_ROW_ENTRY, SHIFT_LEFT_SIGNED)},
    TMK_UNDEFINED};
static const struct tmk_binary shift_right = {
    {TMK_EACH_UNSIGNED(TMK_ROW_ENTRY, SHIFT_RIGHT)
         TMK_EACH_SIGNED(TMK_ROW_ENTRY, SHIFT_RIGHT_SIGNED)},
    TMK_UNDEFINED};

static const char directions[] = "LEFT RIGHT";

static enum tmk_status infer_shift(struct tmk_infer *infer) {
    int right;
    TMK_TRY(tmk_choice(infer->node, "direction", directions, &right, infer->diag));
    return tmk_infer_binary_as(infer, &shift_left);
}

static enum tmk_status run_shift(struct tmk_run *run) {
    int right;
    TMK_TRY(tmk_choice(run->node, "direction", directions, &right, run->diag));
    return tmk_run_binary_as(run, right ? &shift_right : &shift_left);
}

const struct tmk_op tmk_ops_binary[] = {
    TMK_BINARY_LEGACY("Add", &add),
    TMK_BINARY_LEGACY("Sub", &sub),
    TMK_BINARY_LEGACY("Mul", &mul),
    TMK_BINARY("Add", 7, &add),
    TMK_BINARY("Sub", 7, &sub),
    TMK_BINARY("Mul", 7, &mul),
    {TMK_BINARY_ROW("Div", 1, 6), .attrs = tmk_attrs_legacy, .table = &divide,
     .infer = tmk_infer_binary_legacy, .run = run_div_1},
    {TMK_BINARY_ROW("Div", 7, INT32_MAX), .table = &divide, .infer = tmk_infer_binary,
     .run = run_div_7},
    {TMK_BINARY_ROW("Mod", 10, INT32_MAX), .attrs = "fmod:int", .infer = infer_mod, .run = run_mod},
    {TMK_BINARY_ROW("PRelu", 1, 6), .attrs = tmk_attrs_consumed, .infer = infer_prelu_1,
     .run = run_prelu_1},
    {TMK_BINARY_ROW("PRelu", 7, INT32_MAX), .table = &prelu, .infer = infer_prelu_7,
     .run = tmk_run_binary},
    {TMK_BINARY_ROW("Pow", 1, 6), .attrs = tmk_attrs_legacy, .infer = infer_pow_1,
     .run = run_pow_1},
    {TMK_BINARY_ROW("Pow", 7, INT32_MAX), .infer = infer_pow_7, .run = run_pow_7},
    TMK_BINARY_LEGACY("Equal", &equal),
    TMK_BINARY_LEGACY("Greater", &greater),
    TMK_BINARY_LEGACY("Less", &less),
    TMK_BINARY_LEGACY("And", &logical_and),
    TMK_BINARY_LEGACY("Or", &logical_or),
    TMK_BINARY_LEGACY("Xor", &logical_xor),
    TMK_BINARY("Equal", 7, &equal),
    TMK_BINARY("Greater", 7, &greater),
    TMK_BINARY("Less", 7, &less),
    TMK_BINARY("GreaterOrEqual", 12, &greater_equal),
    TMK_BINARY("LessOrEqual", 12, &less_equal),
    TMK_BINARY("And", 7, &logical_and),
    TMK_BINARY("Or", 7, &logical_or),
    TMK_BINARY("Xor", 7, &logical_xor),
    TMK_BINARY("BitwiseAnd", 18, &bit_and),
    TMK_BINARY("BitwiseOr", 18, &bit_or),
    TMK_BINARY("BitwiseXor", 18, &bit_xor),
    {TMK_BINARY_ROW("BitShift", 11, INT32_MAX), .attrs = "direction:string!", .infer = infer_shift,
     .run = run_shift},
    {NULL}};
