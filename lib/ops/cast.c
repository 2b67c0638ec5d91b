/* SPDX-License-Identifier: Apache-2.0 */
/* Cast and CastLike among the types that tensors have at run time: float16, bfloat16 and float64
 * are float32 there.
 *
 * Where ONNX leaves the result open it is defined here: a float goes to an integer towards zero,
 * saturated, NaN to 0. An integer to a narrower one keeps its low bits. */
#include <string.h>

#include "ops/elementwise.h"
#include "ops/kernel.h"
#include "tensor/float8.h"

static inline int64_t clamp_integer(int64_t v, int64_t low, int64_t high) {
    return v < low ? low : v > high ? high : v;
}
#define FLOAT_TO_FLOAT32(v) v
#define FLOAT_TO_BOOL(v) v != 0
#define FLOAT_TO_INT8(v) (int8_t) clamp_integer(tmk_to_int64(v), INT8_MIN, INT8_MAX)
#define FLOAT_TO_INT16(v) (int16_t) clamp_integer(tmk_to_int64(v), INT16_MIN, INT16_MAX)
#define FLOAT_TO_INT32(v) tmk_to_int32(v)
#define FLOAT_TO_INT64(v) tmk_to_int64(v)
#define FLOAT_TO_UINT8(v) (uint8_t) clamp_integer(tmk_to_int64(v), 0, UINT8_MAX)
#define FLOAT_TO_UINT16(v) (uint16_t) clamp_integer(tmk_to_int64(v), 0, UINT16_MAX)
#define FLOAT_TO_UINT32(v) tmk_to_uint32(v)
#define FLOAT_TO_UINT64(v) tmk_to_uint64(v)

typedef void (*cast_row)(size_t n, const void *x, void *y);

#define CAST(from, T, to, R, expr)                                                                 \
    static void cast_##from##_##to(size_t n, const void *px, void *py) {                           \
        const T *x = px;                                                                           \
        R *y = py;                                                                                 \
        for (size_t i = 0; i < n; i++)                                                             \
            y[i] = (expr);                                                                         \
    }
#define FROM_FLOAT(op, to, R, U) CAST(FLOAT32, float, to, R, FLOAT_TO_##to(x[i]))
TMK_EACH_NUMBER(FROM_FLOAT, )
TMK_EACH_BOOL(FROM_FLOAT, )

/* An X-macro cannot expand itself, so each source type goes through the list of targets by name. */
#define FROM_INTEGER(from, T)                                                                      \
    CAST(from, T, FLOAT32, float, (float)x[i])                                                     \
    CAST(from, T, INT8, int8_t, (int8_t)x[i])                                                      \
    CAST(from, T, INT16, int16_t, (int16_t)x[i])                                                   \
    CAST(from, T, INT32, int32_t, (int32_t)x[i])                                                   \
    CAST(from, T, INT64, int64_t, (int64_t)x[i])                                                   \
    CAST(from, T, UINT8, uint8_t, (uint8_t)x[i])                                                   \
    CAST(from, T, UINT16, uint16_t, (uint16_t)x[i])                                                \
    CAST(from, T, UINT32, uint32_t, (uint32_t)x[i])                                                \
    CAST(from, T, UINT64, uint64_t, (uint64_t)x[i])                                                \
    CAST(from, T, BOOL, uint8_t, x[i] != 0)
#define EACH_FROM_INTEGER(op, from, T, U) FROM_INTEGER(from, T)
TMK_EACH_INTEGER(EACH_FROM_INTEGER, )
TMK_EACH_BOOL(EACH_FROM_INTEGER, )

#define TARGETS(from)                                                                              \
    [TMK_##from] = {                                                                               \
        [TMK_FLOAT32] = cast_##from##_FLOAT32, [TMK_INT8] = cast_##from##_INT8,                    \
        [TMK_INT16] = cast_##from##_INT16,     [TMK_INT32] = cast_##from##_INT32,                  \
        [TMK_INT64] = cast_##from##_INT64,     [TMK_UINT8] = cast_##from##_UINT8,                  \
        [TMK_UINT16] = cast_##from##_UINT16,   [TMK_UINT32] = cast_##from##_UINT32,                \
        [TMK_UINT64] = cast_##from##_UINT64,   [TMK_BOOL] = cast_##from##_BOOL,                    \
    }
#define EACH_TARGETS(op, from, T, U) TARGETS(from),
static const cast_row casts[TMK_DTYPES][TMK_DTYPES] = {TMK_EACH_NUMBER(EACH_TARGETS, )
                                                           TMK_EACH_BOOL(EACH_TARGETS, )};

/* The type that stands for `to` at run time. */
static enum tmk_dtype runtime_type(enum tmk_dtype to) {
    return to == TMK_FLOAT16 || to == TMK_BFLOAT16 || to == TMK_FLOAT64 ? TMK_FLOAT32 : to;
}

/* Integers narrower than a byte are held as these. */
static enum tmk_dtype source_type(enum tmk_dtype from) {
    return from == TMK_INT4 || from == TMK_INT2     ? TMK_INT8
           : from == TMK_UINT4 || from == TMK_UINT2 ? TMK_UINT8
                                                    : from;
}

static enum tmk_status infer_to(struct tmk_infer *infer, enum tmk_dtype to) {
    enum tmk_dtype from = infer->in[0]->dtype, target = runtime_type(to);
    const bool floats = (tmk_float8_is_read(from) && target == TMK_FLOAT32) ||
                        (from == TMK_FLOAT32 && tmk_float8_is_written(target));
    if ((unsigned)from >= TMK_DTYPES || (unsigned)target >= TMK_DTYPES ||
        (!floats && !casts[source_type(from)][target]))
        return tmk_fail(infer->diag, TMK_UNSUPPORTED, "a cast from %s to %s is not supported",
                        tmk_dtype_name(from), tmk_dtype_name(to));
    return tmk_infer_set(infer, 0, target, &infer->in[0]->shape);
}

static enum tmk_status run_to(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0];
    struct tmk_tensor *y = tmk_run_out(run, 0);
    const size_t n = tmk_tensor_count(x);
    if (!y)
        return TMK_OK;
    if (tmk_float8_is_read(x->dtype))
        for (size_t i = 0; i < n; i++)
            ((float *)y->data)[i] = tmk_float8_value(x->dtype, ((const uint8_t *)x->data)[i]);
    else if (tmk_float8_is_written(y->dtype))
        for (size_t i = 0; i < n; i++)
            ((uint8_t *)y->data)[i] = tmk_float8_code(y->dtype, ((const float *)x->data)[i],
                                                      tmk_node_int(run->node, "saturate", 1) != 0);
    else
        casts[source_type(x->dtype)][y->dtype](n, x->data, y->data);
    return TMK_OK;
}

/* Operator sets 1 to 5 spell the type as TensorProto.DataType does: "FLOAT", "INT64". */
static enum tmk_status infer_1(struct tmk_infer *infer) {
    static const struct {
        const char *name;
        enum tmk_dtype dtype;
    } names[] = {{"FLOAT", TMK_FLOAT32}, {"FLOAT16", TMK_FLOAT16}, {"DOUBLE", TMK_FLOAT64},
                 {"INT8", TMK_INT8},     {"INT16", TMK_INT16},     {"INT32", TMK_INT32},
                 {"INT64", TMK_INT64},   {"UINT8", TMK_UINT8},     {"UINT16", TMK_UINT16},
                 {"UINT32", TMK_UINT32}, {"UINT64", TMK_UINT64},   {"BOOL", TMK_BOOL}};
    const char *to = tmk_node_string(infer->node, "to", "");
    for (size_t i = 0; i < TMK_COUNT(names); i++)
        if (strcmp(names[i].name, to) == 0)
            return infer_to(infer, names[i].dtype);
    return tmk_fail(infer->diag, TMK_UNSUPPORTED, "a cast to '%s' is not supported", to);
}

static enum tmk_status infer_6(struct tmk_infer *infer) {
    int64_t to = tmk_node_int(infer->node, "to", 0);
    if (to <= 0 || to >= TMK_DTYPES)
        return tmk_fail(infer->diag, TMK_UNSUPPORTED, "a cast to type %lld is not supported",
                        (long long)to);
    return infer_to(infer, (enum tmk_dtype)to);
}

static enum tmk_status infer_like(struct tmk_infer *infer) {
    return infer_to(infer, infer->in[1]->dtype);
}

/* BitCast: the same bits, called another type of the same width.
 *
 * float16, bfloat16 and float64 are held as float32. One that is cast from or to 64 bits is a
 * double, whose bits are those of the float32 as a double; casts of 16-bit floats are refused. A
 * bool made of other bits than 0 and 1 is 1 where they are not 0. */

static bool is_held(enum tmk_dtype dtype) {
    return dtype == TMK_FLOAT32 || dtype == TMK_FLOAT64 || dtype == TMK_BOOL ||
           (tmk_dtype_is_integer(dtype) && tmk_dtype_bits(dtype) >= 8);
}

static enum tmk_status infer_bitcast(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0];
    int64_t to = tmk_node_int(infer->node, "to", 0);
    bool named = to > 0 && to < TMK_N_DTYPES;
    enum tmk_dtype target = named ? (enum tmk_dtype)to : TMK_UNDEFINED;
    enum tmk_dtype from =
        x->origin != TMK_UNDEFINED && x->origin != x->dtype ? x->origin : x->dtype;
    if (from == TMK_FLOAT32 && named && tmk_dtype_size(target) == sizeof(double))
        from = TMK_FLOAT64;
    if (target == TMK_FLOAT32 && tmk_dtype_size(from) == sizeof(double))
        target = TMK_FLOAT64; /* as the file had it: an importer says what it is held as */
    if (!is_held(target) || !is_held(from))
        return tmk_fail(infer->diag, TMK_UNSUPPORTED,
                        "a cast of bits from %s to type %lld (%s) is not supported",
                        tmk_dtype_name(from), (long long)to, tmk_dtype_name(target));
    if (tmk_dtype_size(target) != tmk_dtype_size(from))
        return tmk_fail(infer->diag, TMK_TYPE, "%s and %s do not have the same width%s",
                        tmk_dtype_name(from), tmk_dtype_name(target),
                        from == TMK_FLOAT32 ? " (16-bit floats are held as float32)" : "");
    return tmk_infer_set(infer, 0, runtime_type(target), &x->shape);
}

static enum tmk_status run_bitcast(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0];
    struct tmk_tensor *y = tmk_run_out(run, 0);
    size_t n = y ? tmk_tensor_count(y) : 0;
    if (n == 0)
        return TMK_OK;
    if (tmk_dtype_size(x->dtype) == tmk_dtype_size(y->dtype))
        memcpy(y->data, x->data, tmk_tensor_bytes(y));
    else /* one of them is a double */
        for (size_t i = 0; i < n; i++) {
            double value;
            if (x->dtype == TMK_FLOAT32) {
                value = (double)((const float *)x->data)[i];
                memcpy((char *)y->data + i * sizeof value, &value, sizeof value);
            } else {
                memcpy(&value, (const char *)x->data + i * sizeof value, sizeof value);
                ((float *)y->data)[i] = (float)value;
            }
        }
    for (size_t i = 0; i < n && y->dtype == TMK_BOOL; i++)
        ((uint8_t *)y->data)[i] = ((const uint8_t *)x->data)[i] != 0;
    return TMK_OK;
}

/* saturate and round_mode speak of 8-bit floats only. */
const struct tmk_op tmk_ops_cast[] = {
    {TMK_OP_ONNX("Cast", 1, 5), TMK_OP_COUNTS(1, 1, 1, 1), .channel = TMK_CHANNEL_INHERIT,
     .attrs = "to:string!", .infer = infer_1, .run = run_to},
    {TMK_OP_ONNX("Cast", 6, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .channel = TMK_CHANNEL_INHERIT,
     .attrs = "to:int! saturate:int round_mode:string", .infer = infer_6, .run = run_to},
    {TMK_OP_ONNX("CastLike", 15, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1),
     .channel = TMK_CHANNEL_INHERIT, .attrs = "saturate:int round_mode:string", .infer = infer_like,
     .run = run_to},
    {TMK_OP_ONNX("BitCast", 26, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .channel = TMK_CHANNEL_INHERIT, .attrs = "to:int!", .infer = infer_bitcast,
     .run = run_bitcast},
    {NULL}};
