/* SPDX-License-Identifier: Apache-2.0 */
#include "relay/window.h"

#include <string.h>

enum { MOST = 3 }; /* spatial axes */

struct window {
    size_t n;
    const int64_t *in, *kernel; /* in[i] -1: not known */
    int64_t stride[MOST], dilation[MOST], begin[MOST], end[MOST];
    bool ceil;
};

static bool read_list(const struct tmk_node *node, const char *name, size_t n, int64_t otherwise,
                      int64_t *out) {
    size_t there;
    const int64_t *ints = tmk_node_ints(node, name, &there);
    for (size_t i = 0; i < n; i++)
        out[i] = ints && there == n ? ints[i] : otherwise;
    return !ints || there == n;
}

static int64_t reach_of(const struct window *w, size_t i) {
    return (w->kernel[i] - 1) * w->dilation[i] + 1;
}

/* Products of such numbers fit. */
static bool makes_sense(const struct window *w) {
    for (size_t i = 0; i < w->n; i++)
        if (w->stride[i] < 1 || w->stride[i] > INT32_MAX || w->dilation[i] < 1 ||
            w->dilation[i] > INT32_MAX || w->kernel[i] < 1 || w->kernel[i] > INT32_MAX ||
            w->in[i] > INT32_MAX)
            return false;
    return true;
}

/* auto_pad SAME: as many windows as strides fit into the input. */
static const char *pad_same(struct window *w, bool upper) {
    for (size_t i = 0; i < w->n; i++) {
        if (w->in[i] < 0 && w->stride[i] != 1)
            return "its padding hangs on sizes that are not known";
        const int64_t out = w->in[i] < 0 ? 1 : (w->in[i] + w->stride[i] - 1) / w->stride[i];
        const int64_t in = w->in[i] < 0 ? 1 : w->in[i];
        int64_t total = (out - 1) * w->stride[i] + reach_of(w, i) - in;
        total = total > 0 ? total : 0;
        w->begin[i] = upper ? total / 2 : total - total / 2;
        w->end[i] = total - w->begin[i];
    }
    return NULL;
}

static const char *find_padding(const struct tmk_node *node, struct window *w) {
    const char *how = tmk_node_string(node, "auto_pad", "NOTSET");
    int64_t pads[2 * MOST];
    if (strcmp(how, "SAME_UPPER") == 0 || strcmp(how, "SAME_LOWER") == 0)
        return pad_same(w, how[5] == 'U');
    if (strcmp(how, "VALID") == 0 || !read_list(node, "pads", 2 * w->n, 0, pads))
        memset(pads, 0, sizeof pads);
    for (size_t i = 0; i < w->n; i++) {
        w->begin[i] = pads[i];
        w->end[i] = pads[w->n + i];
        if (pads[i] < 0 || pads[w->n + i] < 0)
            return "it has negative padding";
        if (pads[i] > INT32_MAX || pads[w->n + i] > INT32_MAX)
            return "its sizes make no sense";
    }
    return NULL;
}

/* Both round up, but only ONNX drops a window that begins behind the data. Where no window is
 * gained, or one is dropped, rounding down is the same. */
static const char *round_up(struct window *w, bool includes_padding) {
    bool gains = false, loses = false;
    for (size_t i = 0; i < w->n; i++) {
        if (w->in[i] < 0)
            return "ceil_mode on sizes that are not known";
        const int64_t padded = w->in[i] + w->begin[i] + w->end[i] - reach_of(w, i);
        const int64_t up = (padded + w->stride[i] - 1) / w->stride[i];
        const bool drops = up * w->stride[i] >= w->in[i] + w->begin[i];
        const bool same = padded % w->stride[i] == 0;
        gains |= !same && !drops;
        loses |= drops;
    }
    if (gains && loses)
        return "ceil_mode keeps a last window along one axis and drops it along another";
    if (gains && includes_padding)
        return "ceil_mode together with count_include_pad";
    w->ceil = gains;
    return NULL;
}

static bool all_are(const int64_t *values, size_t n, int64_t what) {
    for (size_t i = 0; i < n; i++)
        if (values[i] != what)
            return false;
    return true;
}

static void set_window(struct tmk_relay_builder *b, const struct window *w, bool transposed) {
    int64_t padding[2 * MOST];
    memcpy(padding, w->begin, w->n * sizeof *padding);
    memcpy(padding + w->n, w->end, w->n * sizeof *padding);
    if (!all_are(w->stride, w->n, 1))
        tmk_rb_set_ints(b, "strides", w->stride, w->n);
    if (!all_are(padding, 2 * w->n, 0) || transposed)
        tmk_rb_set_ints(b, "padding", padding, 2 * w->n);
    if (!all_are(w->dilation, w->n, 1))
        tmk_rb_set_ints(b, "dilation", w->dilation, w->n);
    if (w->ceil)
        tmk_rb_set_bool(b, "ceil_mode", true);
}

bool tmk_re_window(struct tmk_relay_emit *e, const int64_t *kernel, bool pool) {
    const struct tmk_shape *x = tmk_re_shape(e, 0);
    const bool transposed = tmk_node_is(e->node, TMK_DOMAIN_ONNX, "ConvTranspose");
    struct window w = {.kernel = kernel};
    const char *why = NULL;
    if (!x || x->rank < 3 || x->rank > 2 + MOST)
        return tmk_re_fail(e, "only one to three spatial axes can be written");
    w.n = (size_t)x->rank - 2;
    w.in = x->dim + 2;
    read_list(e->node, "strides", w.n, 1, w.stride);
    read_list(e->node, "dilations", w.n, 1, w.dilation);
    if (!makes_sense(&w))
        why = "its sizes make no sense";
    else if (transposed && strncmp(tmk_re_text(e, "auto_pad", "NOTSET"), "SAME", 4) == 0)
        why = "its padding is automatic";
    else
        why = find_padding(e->node, &w);
    if (!why && pool && tmk_re_int(e, "ceil_mode", 0))
        why = round_up(&w, tmk_re_int(e, "count_include_pad", 0) != 0);
    if (why)
        return tmk_re_fail(e, why);
    set_window(e->b, &w, transposed);
    return true;
}

const char *tmk_re_conv(struct tmk_relay_emit *e) {
    static const char *const ops[] = {"nn.conv1d", "nn.conv2d", "nn.conv3d"};
    const struct tmk_shape *x = tmk_re_shape(e, 0), *w = tmk_re_shape(e, 1);
    if (!x || !w || x->rank < 3 || x->rank > 2 + MOST || w->rank != x->rank)
        return tmk_re_fail(e, "only one to three spatial axes can be written");
    for (int32_t i = 0; i < w->rank; i++)
        if (w->dim[i] < 0)
            return tmk_re_fail(e, "the shape of its weights is not known");
    const int64_t groups = tmk_re_int(e, "group", 1);
    if (!tmk_re_window(e, &w->dim[2], false))
        return NULL;
    if (groups != 1)
        tmk_rb_set_int(e->b, "groups", groups);
    tmk_rb_set_int(e->b, "channels", w->dim[0]);
    tmk_rb_set_ints(e->b, "kernel_size", &w->dim[2], (size_t)w->rank - 2);
    return ops[x->rank - 3];
}
