/* SPDX-License-Identifier: Apache-2.0 */
#include "relay/kernels.h"

#include <string.h>

#include "base/size.h"
#include "relay/lower.h"

/* Operators whose attributes other parts of the file have, and those with another name. */
static const struct {
    const char *kernel;
    struct tmk_relay_kernel_op op;
} special[] = {
    {"broadcast_to", {"broadcast_to", TMK_NEEDS_SHAPE, 1}},
    {"cast", {"cast", TMK_NEEDS_DTYPE, 1}},
    {"copy", {"copy", TMK_NEEDS_NOTHING, 1}},
    {"expand_dims", {"reshape", TMK_NEEDS_SHAPE, 1}},
    {"layout_transform", {"layout_transform", TMK_NEEDS_LAYOUT, 1}},
    {"nn_bias_add", {"nn.bias_add", TMK_NEEDS_BIAS, 2}},
    {"nn_dense", {"nn.dense", TMK_NEEDS_UNITS, 2}},
    {"nn_log_softmax", {"nn.log_softmax", TMK_NEEDS_LAST, 1}},
    {"nn_softmax", {"nn.softmax", TMK_NEEDS_LAST, 1}},
    {"reshape", {"reshape", TMK_NEEDS_SHAPE, 1}},
    {"squeeze", {"reshape", TMK_NEEDS_SHAPE, 1}},
    {"_copy", {"copy", TMK_NEEDS_NOTHING, 1}},
    {"_nop", {"reshape", TMK_NEEDS_SHAPE, 1}}, /* "__nop": a reshape that moves nothing */
};

/* Kernels have '_' for '.'. */
static bool begins_with(const char *name, const char *op, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (name[i] != (op[i] == '.' ? '_' : op[i]))
            return false;
    return !name[n] || name[n] == '_';
}

/* The longest operator that the name begins with, up to its end or an underscore; its length. */
static size_t find_op(const char *name, struct tmk_relay_kernel_op *out) {
    size_t len = 0;
    for (size_t i = 0; i < TMK_COUNT(special); i++) {
        const size_t n = strlen(special[i].kernel);
        if (n > len && begins_with(name, special[i].kernel, n)) {
            *out = special[i].op;
            len = n;
        }
    }
    for (size_t i = 0; tmk_relay_ops[i]; i++)
        for (const struct tmk_relay_op *op = tmk_relay_ops[i]; op->name; op++) {
            const size_t n = strlen(op->name);
            const bool plain = !op->attrs[0] && !op->flags && op->min_in == op->max_in &&
                               op->min_in >= 1 && op->min_in <= TMK_KERNEL_MAX_ARITY;
            if (plain && n > len && begins_with(name, op->name, n)) {
                *out = (struct tmk_relay_kernel_op){op->name, TMK_NEEDS_NOTHING, op->min_in};
                len = n;
            }
        }
    return len;
}

/* A counter that makes names differ: digits. */
static bool is_counter(const char *text) {
    return text[0] && !text[strspn(text, "0123456789")];
}

uint32_t tmk_relay_kernel_ops(const char *name, struct tmk_relay_kernel_op ops[TMK_KERNEL_MAX]) {
    const char *fused = strstr(name, "fused_");
    const char *at = fused ? fused + strlen("fused_") : name + (name[0] == '_');
    uint32_t n = 0;
    while (n < TMK_KERNEL_MAX) {
        const size_t len = find_op(at, &ops[n]);
        if (!len)
            return 0;
        n++;
        at += len;
        if (!*at || is_counter(at + 1))
            return n;
        at++;
    }
    return 0;
}
