/* SPDX-License-Identifier: Apache-2.0 */
/* What TVM's fused kernels compute, as far as their names tell. */
#ifndef TMK_MODEL_RELAY_KERNELS_H
#define TMK_MODEL_RELAY_KERNELS_H

#include "model/relay_ast.h"

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
    const char *kernel; /* as it stands in kernels' names: "nn_relu" */
    const char *op;     /* Relay's, or what it amounts to */
    enum tmk_relay_need needs;
    uint32_t arity;
};

enum { TMK_KERNEL_MOST = 16 };

/* The operators of a kernel such as "tvmgen_default_fused_nn_dense_add_nn_relu_2", in the order in
 * which they run. 0: there are others among them, or more than TMK_KERNEL_MOST. */
uint32_t tmk_relay_kernel_ops(const char *name, const struct tmk_relay_kernel_op *ops[]);

#endif
