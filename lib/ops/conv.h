/* SPDX-License-Identifier: Apache-2.0 */
/* The convolution kernel behind Conv and ConvTranspose. */
#pragma once

#include "ops/ops.h"
#include "ops/window.h"

/* `auto_pad` and the other attributes of a window over weights, for a row's list. */
#define TMK_CONV_ATTRS                                                                             \
    "auto_pad:string dilations:ints group:int kernel_shape:ints pads:ints strides:ints"

struct tmk_conv {
    struct tmk_window window;
    size_t batch, group;
    size_t in, out;    /* channels of one group */
    const float *x;    /* [batch, group * in, window.in...] */
    const float *w;    /* [group * out, in, window.kernel...], also for a transposed window */
    const float *bias; /* [group * out], or NULL */
    float *y;          /* [batch, group * out, window.out...] */
};

/* infer and run of Conv, for operators whose first three inputs and whose attributes are Conv's. */
enum tmk_status tmk_infer_conv(struct tmk_infer *infer);
enum tmk_status tmk_run_conv(struct tmk_run *run);

/* The same of QLinearConv; x, weights and y are [.., channels, places...]. */
enum tmk_status tmk_infer_qlinear_conv(struct tmk_infer *infer);
enum tmk_status tmk_run_qlinear_conv(struct tmk_run *run);

/* TMK_SHAPE unless the bias (may be NULL) is [channels]. */
enum tmk_status tmk_conv_check_bias(const struct tmk_tensor *bias, int64_t channels,
                                    struct tmk_diag *diag);
