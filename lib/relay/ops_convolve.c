/* SPDX-License-Identifier: Apache-2.0 */
/* Relay's convolutions, of floats and of 8-bit integers, in any plain layout. */
#include <string.h>

#include "ops/window.h"
#include "relay/convolve.h"

/* The letters of a layout: batch and channels first, then as many axes as there are. */
static const char *const orders[] = {"NCW", "NCHW", "NCDHW"};
static const char *const kernel_orders[] = {"OIW", "OIHW", "OIDHW"};

void tmk_rl_padding(struct tmk_relay_call *call, int32_t axes, int64_t *pads) {
    size_t n;
    const int64_t *given = tmk_rl_ints(call, "padding", &n);
    size_t want = (size_t)axes;
    if (given && n != 1 && n != want && n != 2 * want)
        tmk_rl_fail(call, TMK_GRAPH, "padding of %zu numbers", n);
    for (size_t i = 0; i < 2 * want; i++)
        pads[i] = call->status != TMK_OK ? 0 : given[n == 1 ? 0 : n == want ? i % want : i];
}

struct tmk_value *tmk_rl_reorder(struct tmk_relay_call *call, const char *part, struct tmk_value *v,
                                 const char *from, const char *to) {
    int64_t perm[TMK_RL_LETTERS];
    int32_t n;
    return tmk_rl_layout(call, from, to, perm, &n) ? tmk_rl_transpose(call, part, v, perm, n)
                                                   : NULL;
}

int32_t tmk_rl_space(const struct tmk_relay_call *call) {
    const char *d = strstr(call->op->name, "d_transpose");
    return (d ? d[-1] : call->op->name[strlen(call->op->name) - 2]) - '0';
}

struct tmk_relay_layouts tmk_rl_layouts(struct tmk_relay_call *call, const char *attr) {
    struct tmk_relay_layouts l = {.in = tmk_rl_string(call, attr),
                                  .order = orders[tmk_rl_space(call) - 1]};
    if (tmk_rl_has_attr(call, "out_layout"))
        l.out = tmk_rl_string(call, "out_layout");
    if (!l.out || !*l.out)
        l.out = l.in;
    l.part = strcmp(l.out, l.order) == 0 ? NULL : "output";
    return l;
}

struct tmk_value *tmk_rl_laid_out(struct tmk_relay_call *call,
                                  const struct tmk_relay_layouts *layouts, struct tmk_value *y) {
    return layouts->part ? tmk_rl_reorder(call, NULL, y, layouts->order, layouts->out) : y;
}

/* A weight whose rows have been laid out by groups (channels, multiplier, ...) is flattened. */
static struct tmk_value *flatten_depthwise(struct tmk_relay_call *call, struct tmk_value *w,
                                           int64_t groups) {
    const struct tmk_shape *shape = tmk_rl_dims(call, w);
    int64_t dims[TMK_MAX_RANK];
    if (call->status != TMK_OK || groups < 2 || shape->dim[0] != groups || shape->dim[1] == 1)
        return w;
    if (!tmk_mul_i64(shape->dim[0], shape->dim[1], &dims[0]))
        return tmk_rl_fail(call, TMK_RANGE, "a weight that is too large");
    dims[1] = 1;
    for (int32_t i = 2; i < shape->rank; i++)
        dims[i] = shape->dim[i];
    return tmk_rl_reshape(call, "weight_flat", w, dims, (size_t)shape->rank);
}

static const struct tmk_value *cast_from(const struct tmk_value *v) {
    const struct tmk_node *node = v ? v->producer : NULL;
    return node && tmk_node_is(node, TMK_DOMAIN_ONNX, "Cast") ? node->inputs[0] : NULL;
}

static bool is_narrow_value(const struct tmk_value *v) {
    return v && (v->type.dtype == TMK_INT8 || v->type.dtype == TMK_UINT8);
}

/* ConvInteger takes codes of 8 bits. Wider integers may be such, cast, less a zero point. */
static struct tmk_value *codes_behind(struct tmk_relay_call *call, const char *part,
                                      struct tmk_value *v, struct tmk_value **zero) {
    const struct tmk_node *node = v ? v->producer : NULL;
    const bool shifted = node && tmk_node_is(node, TMK_DOMAIN_ONNX, "Sub");
    const struct tmk_value *codes = cast_from(shifted ? node->inputs[0] : v);
    const struct tmk_value *from = shifted ? node->inputs[1] : NULL;
    size_t n;
    if (*zero || is_narrow_value(v) || !is_narrow_value(codes))
        return v;
    if (from && cast_from(from))
        from = cast_from(from);
    if (from && !from->data.data)
        return v;
    const double *number = from ? tmk_rl_numbers(call, from, "the zero point", &n) : NULL;
    const int low = codes->type.dtype == TMK_INT8 ? INT8_MIN : 0;
    if (from && (!number || n != 1 || number[0] < low || number[0] > low + UINT8_MAX))
        return v;
    if (number)
        *zero = tmk_rl_scalar(call, part, codes->type.dtype, number[0]);
    return (struct tmk_value *)(uintptr_t)codes;
}

/* Sets strides, dilations and pads of a convolution over `axes` axes, and its group. */
static bool set_window(struct tmk_relay_call *call, int32_t axes) {
    int64_t pads[6], strides[3], dilations[3];
    tmk_rl_padding(call, axes, pads);
    tmk_rl_exactly(call, "strides", strides, (size_t)axes);
    tmk_rl_exactly(call, "dilation", dilations, (size_t)axes);
    if (call->status != TMK_OK)
        return false;
    tmk_rl_set_ints(call, "pads", pads, 2 * (size_t)axes);
    tmk_rl_set_ints(call, "strides", strides, (size_t)axes);
    tmk_rl_set_ints(call, "dilations", dilations, (size_t)axes);
    tmk_rl_set_int(call, "group", tmk_rl_int(call, "groups"));
    return call->status == TMK_OK;
}

struct tmk_value *tmk_rl_convolve(struct tmk_relay_call *call, struct tmk_value *x_zero,
                                  struct tmk_value *w_zero) {
    const int32_t axes = tmk_rl_space(call);
    const int64_t groups = tmk_rl_int(call, "groups");
    const struct tmk_relay_layouts l = tmk_rl_layouts(call, "data_layout");
    struct tmk_value *x =
        tmk_rl_reorder(call, "input", codes_behind(call, "input_zero", tmk_rl_in(call, 0), &x_zero),
                       l.in, l.order);
    struct tmk_value *w = tmk_rl_reorder(
        call, "weight", codes_behind(call, "weight_zero", tmk_rl_in(call, 1), &w_zero),
        tmk_rl_string(call, "kernel_layout"), kernel_orders[axes - 1]);
    if (call->status == TMK_OK && groups > 1 && tmk_rl_rank(call, x) > 1 &&
        x->type.shape.dim[1] == groups)
        w = flatten_depthwise(call, w, groups);
    const bool integer = !tmk_rl_is_float(call, x);
    if (integer && tmk_rl_dtype_attr(call, "out_dtype", tmk_rl_type_of(call, x)) != TMK_INT32)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "integers convolved into %s; only into int32",
                           tmk_rl_string(call, "out_dtype"));
    if (!set_window(call, axes))
        return NULL;
    struct tmk_value *in[] = {x, w, x_zero, w_zero};
    const uint32_t n = w_zero ? 4 : x_zero ? 3 : 2;
    return tmk_rl_laid_out(call, &l,
                           tmk_rl_n(call, l.part, integer ? "ConvInteger" : "Conv", in, n));
}

static struct tmk_value *lower_conv(struct tmk_relay_call *call) {
    return tmk_rl_convolve(call, NULL, NULL);
}

/* The weight is (in, out / groups, ...) in ONNX. Relay calls that IOHW, and called it OIHW up to
 * 0.10: the label counts only where the shape does not contradict it. */
static bool is_mislabelled(struct tmk_relay_call *call, const char *kernel, int32_t axes,
                           const struct tmk_value *x, const struct tmk_value *w) {
    return strcmp(kernel, kernel_orders[axes - 1]) == 0 &&
           tmk_rl_dims(call, x)->dim[1] == tmk_rl_dims(call, w)->dim[0];
}

static struct tmk_value *lower_conv_transpose(struct tmk_relay_call *call) {
    static const char *const transposed_orders[] = {"IOW", "IOHW", "IODHW"};
    const int32_t axes = tmk_rl_space(call);
    const char *kernel = tmk_rl_string(call, "kernel_layout");
    const struct tmk_relay_layouts l = tmk_rl_layouts(call, "data_layout");
    int64_t extra[3];
    struct tmk_value *x = tmk_rl_reorder(call, "input", tmk_rl_in(call, 0), l.in, l.order);
    struct tmk_value *w = tmk_rl_in(call, 1);
    if (!is_mislabelled(call, kernel, axes, x, w))
        w = tmk_rl_reorder(call, "weight", w, kernel, transposed_orders[axes - 1]);
    if (!tmk_rl_exactly(call, "output_padding", extra, (size_t)axes) || !set_window(call, axes))
        return NULL;
    tmk_rl_set_ints(call, "output_padding", extra, (size_t)axes);
    return tmk_rl_laid_out(call, &l, tmk_rl_2(call, l.part, "ConvTranspose", x, w));
}

/* ---- writing: strides, padding and dilation, of pools too ---- */

enum {
    MOST = 3,         /* spatial axes */
    MADE_UP = 1 << 30 /* the size of an axis that is not known: any window fits */
};

static bool find_window(struct tmk_relay_emit *e, bool pool, struct tmk_window *out) {
    struct tmk_shape x = *tmk_re_shape(e, 0);
    const struct tmk_shape *w = tmk_re_shape(e, 1);
    const bool transposed = tmk_node_is(e->node, TMK_DOMAIN_ONNX, "ConvTranspose"),
               same = strncmp(tmk_node_string(e->node, "auto_pad", ""), "SAME", 4) == 0;
    bool made_up[MOST] = {false};
    struct tmk_diag diag = {0};
    if (transposed && same)
        return tmk_re_fail(e, "its padding is automatic");
    for (int32_t i = 2; i < x.rank; i++) {
        made_up[i - 2] = x.dim[i] < 0;
        x.dim[i] = made_up[i - 2] ? MADE_UP : x.dim[i];
    }
    if (!pool && x.dim[1] < 0 && transposed)
        x.dim[1] = w->dim[0];
    else if (!pool && x.dim[1] < 0 &&
             !tmk_mul_i64(w->dim[1], tmk_node_int(e->node, "group", 1), &x.dim[1]))
        return tmk_re_fail(e, "its group makes no sense");
    const enum tmk_status status = pool ? tmk_window_pool(e->node, &x, out, &diag)
                                   : transposed
                                       ? tmk_window_conv_transpose(e->node, &x, w, out, &diag)
                                       : tmk_window_conv(e->node, &x, w, out, &diag);
    if (status != TMK_OK) {
        const char *why = tmk_arena_strdup(e->b->arena, diag.text);
        return why ? tmk_re_fail(e, why) : tmk_re_nomem(e);
    }
    for (int32_t i = 0; i < out->n; i++)
        if (same && made_up[i] && out->stride[i] != 1)
            return tmk_re_fail(e, "its padding hangs on sizes that are not known");
    return true;
}

/* Both round up, but only ONNX drops a window that begins behind the data. Where no window is
 * gained, or one is dropped, rounding down is the same. */
static const char *round_up(const struct tmk_window *w, const struct tmk_shape *x,
                            bool includes_padding, bool *ceil) {
    bool gains = false, loses = false;
    for (int32_t i = 0; i < w->n; i++) {
        if (x->dim[i + 2] < 0)
            return "ceil_mode on sizes that are not known";
        const int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1,
                      padded = w->in[i] + w->begin[i] + w->end[i] - reach;
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
    *ceil = gains;
    return NULL;
}

static bool all_are(const int64_t *values, size_t n, int64_t what) {
    for (size_t i = 0; i < n; i++)
        if (values[i] != what)
            return false;
    return true;
}

bool tmk_re_window(struct tmk_relay_emit *e, bool pool) {
    const struct tmk_shape *x = tmk_re_shape(e, 0);
    struct tmk_window w;
    bool ceil = false;
    if (!x || x->rank < 3 || x->rank > 2 + MOST)
        return tmk_re_fail(e, "only one to three spatial axes can be written");
    if (!find_window(e, pool, &w))
        return false;
    const char *why =
        pool && tmk_node_int(e->node, "ceil_mode", 0)
            ? round_up(&w, x, tmk_node_int(e->node, "count_include_pad", 0) != 0, &ceil)
            : NULL;
    if (why)
        return tmk_re_fail(e, why);
    const size_t n = (size_t)w.n;
    int64_t padding[2 * MOST];
    memcpy(padding, w.begin, n * sizeof *padding);
    memcpy(padding + n, w.end, n * sizeof *padding);
    if (!all_are(w.stride, n, 1))
        tmk_rb_set_ints(e->b, "strides", w.stride, n);
    if (!all_are(padding, 2 * n, 0) || w.transposed)
        tmk_rb_set_ints(e->b, "padding", padding, 2 * n);
    if (!all_are(w.dilation, n, 1))
        tmk_rb_set_ints(e->b, "dilation", w.dilation, n);
    if (ceil)
        tmk_rb_set_bool(e->b, "ceil_mode", true);
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
    const int64_t groups = tmk_node_int(e->node, "group", 1);
    if (!tmk_re_window(e, false))
        return NULL;
    if (groups != 1)
        tmk_rb_set_int(e->b, "groups", groups);
    tmk_rb_set_int(e->b, "channels", w->dim[0]);
    tmk_rb_set_ints(e->b, "kernel_size", &w->dim[2], (size_t)w->rank - 2);
    return ops[x->rank - 3];
}

/* ---- writing ---- */

static struct tmk_relay_expr *add_bias(struct tmk_relay_emit *e, struct tmk_relay_expr *y) {
    y = tmk_re_like(e, y);
    return tmk_re_has(e, 2) ? tmk_re_2(e, "nn.bias_add", y, tmk_re_in(e, 2)) : y;
}

static struct tmk_relay_expr *emit_conv(struct tmk_relay_emit *e) {
    struct tmk_relay_expr *args[] = {tmk_re_in(e, 0), tmk_re_in(e, 1)};
    const char *op = tmk_re_conv(e);
    return op ? add_bias(e, tmk_re_n(e, op, args, 2)) : NULL;
}

static struct tmk_relay_expr *emit_conv_transpose(struct tmk_relay_emit *e) {
    const struct tmk_shape *x = tmk_re_shape(e, 0), *w = tmk_re_shape(e, 1);
    struct tmk_relay_expr *args[] = {tmk_re_in(e, 0), tmk_re_in(e, 1)};
    size_t n;
    if (!x || !w || x->rank != 4 || w->rank != 4 || w->dim[1] < 0)
        return tmk_re_fail(e,
                           "only two spatial axes, and weights of a known shape, can be written");
    if (tmk_node_attr(e->node, "output_shape"))
        return tmk_re_fail(e, "it gives the shape of its result");
    if (!tmk_re_window(e, false))
        return NULL;
    const int64_t groups = tmk_node_int(e->node, "group", 1),
                  *extra = tmk_node_ints(e->node, "output_padding", &n);
    if (extra && n == 2)
        tmk_rb_set_ints(e->b, "output_padding", extra, 2);
    if (groups != 1)
        tmk_rb_set_int(e->b, "groups", groups);
    tmk_rb_set_int(e->b, "channels", w->dim[1] * groups);
    tmk_rb_set_ints(e->b, "kernel_size", &w->dim[2], 2);
    return add_bias(e, tmk_re_n(e, "nn.conv2d_transpose", args, 2));
}

#define ATTRS(ones, zeros, data, kernel)                                                           \
    "strides=" ones "; padding=" zeros "; dilation=" ones "; groups=1; channels=None; "            \
    "kernel_size=None; data_layout='" data "'; kernel_layout='" kernel "'; out_layout=''; "        \
    "out_dtype=None"
#define REWRITTEN "; auto_scheduler_rewritten_layout=None; meta_schedule_original_shape=None"

const char tmk_rl_conv2d_attrs[] = ATTRS("[1, 1]", "[0, 0]", "NCHW", "OIHW") REWRITTEN;
static const char becomes[] = "Conv; of 8-bit integers ConvInteger; Transpose around other layouts";
static const char becomes_transposed[] = "ConvTranspose; Transpose around other layouts";

const struct tmk_relay_op tmk_relay_ops_convolve[] = {
    {"nn.conv1d", 2, 2, 0, ATTRS("[1]", "[0, 0]", "NCW", "OIW"), becomes, lower_conv, emit_conv},
    {"nn.conv1d_transpose", 2, 2, 0, ATTRS("[1]", "[0]", "NCW", "IOW") "; output_padding=[0]",
     becomes_transposed, lower_conv_transpose, emit_conv_transpose},
    {"nn.conv2d", 2, 2, 0, tmk_rl_conv2d_attrs, becomes, lower_conv, emit_conv},
    {"nn.conv2d_transpose", 2, 2, 0,
     ATTRS("[1, 1]", "[0, 0]", "NCHW", "IOHW") "; output_padding=[0, 0]", becomes_transposed,
     lower_conv_transpose, emit_conv_transpose},
    {"nn.conv3d", 2, 2, 0, ATTRS("[1, 1, 1]", "[0, 0, 0]", "NCDHW", "OIDHW") REWRITTEN, becomes,
     lower_conv, emit_conv},
    {"nn.conv3d_transpose", 2, 2, 0,
     ATTRS("[1, 1, 1]", "[0, 0, 0]", "NCDHW", "IODHW") "; output_padding=[0, 0, 0]",
     becomes_transposed, lower_conv_transpose, emit_conv_transpose},
    {0}};
