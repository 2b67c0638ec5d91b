/* SPDX-License-Identifier: Apache-2.0 */
/* Strides, padding and dilation of convolutions and pools, as Relay's attributes. */
#ifndef TMK_MODEL_RELAY_WINDOW_H
#define TMK_MODEL_RELAY_WINDOW_H

#include "model/relay_raise.h"

/* Of a window of that kernel (one size a spatial axis of input 0): strides, padding, dilation where
 * they are not Relay's defaults, ceil_mode where a pool needs it. NULL, or why Relay can't say it.
 */
const char *tmk_say_window(struct tmk_raising *r, const struct tmk_node *node,
                           const int64_t *kernel, bool pool, struct tmk_say_attrs *attrs);
/* All attributes of a convolution of inputs 0 and 1, and its operator by rank. */
const char *tmk_say_conv(struct tmk_raising *r, const struct tmk_node *node,
                         struct tmk_say_attrs *attrs, const char **op);

#endif
