/* SPDX-License-Identifier: Apache-2.0 */
/* Two operands to a truth value, and logic on truth values and bits. */
#include <string.h>

#include "ops/elementwise.h"

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

static bool shifts_left(const struct tmk_node *node) {
    return strcmp(tmk_node_string(node, "direction", ""), "LEFT") == 0;
}

static enum tmk_status infer_shift(struct tmk_infer *infer) {
    const char *direction = tmk_node_string(infer->node, "direction", "");
    if (!shifts_left(infer->node) && strcmp(direction, "RIGHT") != 0)
        return tmk_fail(infer->diag, TMK_RANGE, "direction is '%s'; it is LEFT or RIGHT",
                        direction);
    return tmk_infer_binary_as(infer, &shift_left);
}

static enum tmk_status run_shift(struct tmk_run *run) {
    return tmk_run_binary_as(run, shifts_left(run->node) ? &shift_left : &shift_right);
}

const struct tmk_op tmk_ops_compare[] = {TMK_BINARY_LEGACY("Equal", &equal),
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
                                         {TMK_BINARY_ROW("BitShift", 11, INT32_MAX),
                                          .attrs = "direction:string!", .infer = infer_shift,
                                          .run = run_shift},
                                         {NULL}};
