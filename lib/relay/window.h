/* SPDX-License-Identifier: Apache-2.0 */
/* Strides, padding and dilation of convolutions and pools, as Relay's attributes. */
#ifndef TMK_RELAY_WINDOW_H
#define TMK_RELAY_WINDOW_H

#include "relay/emit.h"

/* Sets the attributes of a window of that kernel (one size a spatial axis of input 0): strides,
 * padding, dilation where they are not Relay's defaults, ceil_mode where a pool needs it. False
 * after tmk_re_fail. */
bool tmk_re_window(struct tmk_relay_emit *e, const int64_t *kernel, bool pool);
/* Sets all attributes of a convolution of inputs 0 and 1. The operator, by rank; NULL after
 * tmk_re_fail. */
const char *tmk_re_conv(struct tmk_relay_emit *e);

#endif
