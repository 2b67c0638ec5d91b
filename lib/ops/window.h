/* SPDX-License-Identifier: Apache-2.0 */
/* Windows sliding over the spatial axes: what convolutions and pools have in common, with every
 * default and every `auto_pad` made explicit.
 *
 * Formulas are those of the ONNX operators' pages, with reach = (kernel - 1) * dilation + 1:
 *   explicit pads    out = floor((in + begin + end - reach) / stride) + 1
 *   ceil_mode        the same with ceil, less one when the last window would start at or after in +
 * begin VALID            as explicit pads of 0 SAME_*           out = ceil(in / stride); begin +
 * end = max(0, (out - 1) * stride + reach - in), the odd element at the end for SAME_UPPER, at the
 * beginning for SAME_LOWER transposed       out = stride * (in - 1) + output_padding + reach -
 * begin - end */
#pragma once

#include "graph/graph.h"

enum { TMK_WINDOW_RANK = TMK_MAX_RANK - 2 }; /* spatial axes at most */
enum { TMK_WINDOW_BLOCK = 64 }; /* outputs that tmk_window_gather handles at a time, at most */

/* One entry a spatial axis, in elements; all but begin and end are >= 1, in and out >= 0. */
struct tmk_window {
    int32_t n; /* spatial axes */
    int64_t in[TMK_WINDOW_RANK], out[TMK_WINDOW_RANK];
    int64_t kernel[TMK_WINDOW_RANK], stride[TMK_WINDOW_RANK], dilation[TMK_WINDOW_RANK];
    /* Padding before and after the input (transposed: taken off the output). Never negative, but
     * for `end` of a transposed window: then so many elements that no input reaches stand at the
     * end. With ceil_mode the last window may reach beyond `end`. */
    int64_t begin[TMK_WINDOW_RANK], end[TMK_WINDOW_RANK];
    bool transposed;
};

/* x is [N, C, in...], w is [M, C / group, kernel...]: TMK_SHAPE unless the ranks and `kernel_shape`
 * agree, `group` divides M and C, and the window fits into the padded input; TMK_RANGE for
 * attribute values that make no sense. */
enum tmk_status tmk_window_conv(const struct tmk_node *node, const struct tmk_shape *x,
                                const struct tmk_shape *w, struct tmk_window *out,
                                struct tmk_diag *diag);
/* The same for w [C, M / group, kernel...], `output_padding` and `output_shape`. */
enum tmk_status tmk_window_conv_transpose(const struct tmk_node *node, const struct tmk_shape *x,
                                          const struct tmk_shape *w, struct tmk_window *out,
                                          struct tmk_diag *diag);
/* x is [N, C, in...]; `kernel_shape` is a must. TMK_RANGE too for padding as wide as the window. */
enum tmk_status tmk_window_pool(const struct tmk_node *node, const struct tmk_shape *x,
                                struct tmk_window *out, struct tmk_diag *diag);

/* [batch, channels, out...] */
void tmk_window_shape(const struct tmk_window *window, int64_t batch, int64_t channels,
                      struct tmk_shape *out);

/* Taps of one window; elements of one channel before and after. The shapes have been checked. */
size_t tmk_window_taps(const struct tmk_window *window);
size_t tmk_window_in(const struct tmk_window *window);
size_t tmk_window_out(const struct tmk_window *window);

/* Where the `n` <= TMK_WINDOW_BLOCK outputs from flat position `first` on find their input: table[t
 * * n + j] is the flat position, within its channel, of the element under tap t of output first +
 * j; -1: in the padding. `table` holds taps * n. */
void tmk_window_gather(const struct tmk_window *window, size_t first, size_t n, int64_t *table);
