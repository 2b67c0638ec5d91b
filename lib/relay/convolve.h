/* SPDX-License-Identifier: Apache-2.0 */
/* What convolutions, pools and their quantized forms share. */
#pragma once

#include "relay/emit.h"

extern const char tmk_rl_conv2d_attrs[];

/* The result of a convolution of operands 0 and 1, by the call's attributes; zero points of 8-bit
 * operands may be NULL. */
struct tmk_value *tmk_rl_convolve(struct tmk_relay_call *call, struct tmk_value *x_zero,
                                  struct tmk_value *w_zero);
/* The attribute (one number, one an axis, or all befores and then all afters) as ONNX's pads. */
void tmk_rl_padding(struct tmk_relay_call *call, int32_t axes, int64_t *pads);

/* The axes of space in the operator's name, "nn.conv2d": 2. */
int32_t tmk_rl_space(const struct tmk_relay_call *call);
/* From one layout to another order of the same letters. part NULL: the call's result. */
struct tmk_value *tmk_rl_reorder(struct tmk_relay_call *call, const char *part, struct tmk_value *v,
                                 const char *from, const char *to);
/* How a call's operand and result lie. */
struct tmk_relay_layouts {
    const char *in, *out; /* by the attributes `attr` and out_layout */
    const char *order;    /* ONNX's, of as many axes of space */
    const char *part;     /* of what ONNX's operator makes; NULL: the call's result */
};
struct tmk_relay_layouts tmk_rl_layouts(struct tmk_relay_call *call, const char *attr);
/* The call's result of what ONNX's operator made. */
struct tmk_value *tmk_rl_laid_out(struct tmk_relay_call *call,
                                  const struct tmk_relay_layouts *layouts, struct tmk_value *y);

/* ---- writing ---- */

/* Sets the attributes of the node's window: strides, padding, dilation where they are not Relay's
 * defaults, ceil_mode where a pool needs it. False after tmk_re_fail. */
bool tmk_re_window(struct tmk_relay_emit *e, bool pool);
/* Sets all attributes of a convolution of inputs 0 and 1. The operator, by rank; NULL after
 * tmk_re_fail. */
const char *tmk_re_conv(struct tmk_relay_emit *e);
