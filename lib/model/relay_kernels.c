/* SPDX-License-Identifier: Apache-2.0 */
#include "model/relay_kernels.h"

#include <string.h>

#include "base/size.h"

/* Operators without attributes, and those whose attributes other parts of the file tell. */
static const struct tmk_relay_kernel_op known[] = {
    {"abs", "abs", TMK_NEEDS_NOTHING, 1},
    {"add", "add", TMK_NEEDS_NOTHING, 2},
    {"broadcast_to", "broadcast_to", TMK_NEEDS_SHAPE, 1},
    {"cast", "cast", TMK_NEEDS_DTYPE, 1},
    {"ceil", "ceil", TMK_NEEDS_NOTHING, 1},
    {"copy", "copy", TMK_NEEDS_NOTHING, 1},
    {"cos", "cos", TMK_NEEDS_NOTHING, 1},
    {"divide", "divide", TMK_NEEDS_NOTHING, 2},
    {"equal", "equal", TMK_NEEDS_NOTHING, 2},
    {"erf", "erf", TMK_NEEDS_NOTHING, 1},
    {"exp", "exp", TMK_NEEDS_NOTHING, 1},
    {"expand_dims", "reshape", TMK_NEEDS_SHAPE, 1},
    {"floor", "floor", TMK_NEEDS_NOTHING, 1},
    {"greater", "greater", TMK_NEEDS_NOTHING, 2},
    {"greater_equal", "greater_equal", TMK_NEEDS_NOTHING, 2},
    {"layout_transform", "layout_transform", TMK_NEEDS_LAYOUT, 1},
    {"less", "less", TMK_NEEDS_NOTHING, 2},
    {"less_equal", "less_equal", TMK_NEEDS_NOTHING, 2},
    {"log", "log", TMK_NEEDS_NOTHING, 1},
    {"maximum", "maximum", TMK_NEEDS_NOTHING, 2},
    {"minimum", "minimum", TMK_NEEDS_NOTHING, 2},
    {"multiply", "multiply", TMK_NEEDS_NOTHING, 2},
    {"negative", "negative", TMK_NEEDS_NOTHING, 1},
    {"nn_batch_flatten", "nn.batch_flatten", TMK_NEEDS_NOTHING, 1},
    {"nn_bias_add", "nn.bias_add", TMK_NEEDS_BIAS, 2},
    {"nn_dense", "nn.dense", TMK_NEEDS_UNITS, 2},
    {"nn_log_softmax", "nn.log_softmax", TMK_NEEDS_LAST, 1},
    {"nn_relu", "nn.relu", TMK_NEEDS_NOTHING, 1},
    {"nn_softmax", "nn.softmax", TMK_NEEDS_LAST, 1},
    {"not_equal", "not_equal", TMK_NEEDS_NOTHING, 2},
    {"power", "power", TMK_NEEDS_NOTHING, 2},
    {"reshape", "reshape", TMK_NEEDS_SHAPE, 1},
    {"round", "round", TMK_NEEDS_NOTHING, 1},
    {"rsqrt", "rsqrt", TMK_NEEDS_NOTHING, 1},
    {"sigmoid", "sigmoid", TMK_NEEDS_NOTHING, 1},
    {"sign", "sign", TMK_NEEDS_NOTHING, 1},
    {"sin", "sin", TMK_NEEDS_NOTHING, 1},
    {"sqrt", "sqrt", TMK_NEEDS_NOTHING, 1},
    {"squeeze", "reshape", TMK_NEEDS_SHAPE, 1},
    {"subtract", "subtract", TMK_NEEDS_NOTHING, 2},
    {"tanh", "tanh", TMK_NEEDS_NOTHING, 1},
    {"where", "where", TMK_NEEDS_NOTHING, 3},
    {"_copy", "copy", TMK_NEEDS_NOTHING, 1},
    {"_nop", "reshape", TMK_NEEDS_SHAPE, 1}, /* "__nop": a reshape that moves nothing */
};

/* The longest that the name begins with, up to its end or an underscore. */
static const struct tmk_relay_kernel_op *find(const char *name, size_t *len) {
    const struct tmk_relay_kernel_op *best = NULL;
    *len = 0;
    for (size_t i = 0; i < TMK_COUNT(known); i++) {
        size_t n = strlen(known[i].kernel);
        if (n > *len && !strncmp(name, known[i].kernel, n) && (!name[n] || name[n] == '_')) {
            best = &known[i];
            *len = n;
        }
    }
    return best;
}

/* A counter that makes names differ: digits. */
static bool is_counter(const char *text) {
    return text[0] && !text[strspn(text, "0123456789")];
}

uint32_t tmk_relay_kernel_ops(const char *name, const struct tmk_relay_kernel_op *ops[]) {
    const char *fused = strstr(name, "fused_");
    const char *at = fused ? fused + strlen("fused_") : name + (name[0] == '_');
    uint32_t n = 0;
    while (n < TMK_KERNEL_MOST) {
        size_t len;
        ops[n] = find(at, &len);
        if (!ops[n])
            return 0;
        n++;
        at += len;
        if (!*at || is_counter(at + 1))
            return n;
        at++;
    }
    return 0;
}
