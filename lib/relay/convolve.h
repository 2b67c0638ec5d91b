/* SPDX-License-Identifier: Apache-2.0 */
/* What convolutions, pools and their quantized forms share. */
#ifndef TMK_RELAY_CONVOLVE_H
#define TMK_RELAY_CONVOLVE_H

#include "relay/lower.h"

extern const char tmk_rl_conv2d_attrs[];

/* The result of a convolution of operands 0 and 1, by the call's attributes; zero points of 8-bit
 * operands may be NULL. */
struct tmk_value *tmk_rl_convolve(struct tmk_relay_call *call, struct tmk_value *x_zero,
                                  struct tmk_value *w_zero);
/* "NCW", "NCHW", "NCDHW": by how many axes of space, less one. */
extern const char *const tmk_rl_orders[];
/* The attribute (one number, one an axis, or all befores and then all afters) as ONNX's pads. */
bool tmk_rl_padding(struct tmk_relay_call *call, const char *name, int32_t axes, int64_t *pads);
/* The operand transposed from its layout to another order of the same letters. */
struct tmk_value *tmk_rl_in_order(struct tmk_relay_call *call, const char *part,
                                  struct tmk_value *v, const char *layout, const char *order);
/* The call's result: y transposed from that order to a layout. */
struct tmk_value *tmk_rl_back(struct tmk_relay_call *call, struct tmk_value *y, const char *order,
                              const char *layout);

#endif
