/* SPDX-License-Identifier: Apache-2.0 */
/* What TVM's fused kernels compute, as far as their names show. */
#ifndef TMK_RELAY_KERNELS_H
#define TMK_RELAY_KERNELS_H

#include "relay/ast.h"

/* What an operator needs besides its operands, all of which the graph's JSON has. */
enum tmk_relay_need {
    TMK_NEEDS_NOTHING,
    TMK_NEEDS_SHAPE,  /* of its result: reshape and the like */
    TMK_NEEDS_DTYPE,  /* of its result: cast */
    TMK_NEEDS_LAYOUT, /* src_layout and dst_layout of the node */
    TMK_NEEDS_UNITS,  /* nn.dense: the weight's first dimension */
    TMK_NEEDS_BIAS,   /* nn.bias_add: two dimensions, of which one fits */
    TMK_NEEDS_LAST    /* softmax: two dimensions at most */
};
struct tmk_relay_kernel_op {
    const char *op; /* Relay's, or what it amounts to */
    enum tmk_relay_need needs;
    uint32_t arity;
};

enum { TMK_KERNEL_MAX = 16, TMK_KERNEL_MAX_ARITY = 3 };

/* The operators of a kernel such as "tvmgen_default_fused_nn_dense_add_nn_relu_2", in the order in
 * which they run. 0: there are others among them, or more than TMK_KERNEL_MAX. */
uint32_t tmk_relay_kernel_ops(const char *name, struct tmk_relay_kernel_op ops[TMK_KERNEL_MAX]);

#endif
