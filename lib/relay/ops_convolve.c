/* SPDX-License-Identifier: Apache-2.0 */
/* Relay's convolutions, of floats and of 8-bit integers, in any plain layout. */
#include <string.h>

#include "relay/convolve.h"
#include "relay/window.h"

/* The letters of a layout: batch and channels first, then as many axes as there are. */
const char *const tmk_rl_orders[] = {"NCW", "NCHW", "NCDHW"};
static const char *const kernel_orders[] = {"OIW", "OIHW", "OIDHW"};

bool tmk_rl_padding(struct tmk_relay_call *call, const char *name, int32_t axes, int64_t *pads) {
    size_t n;
    const int64_t *given = tmk_rl_ints(call, name, &n);
    size_t want = (size_t)axes;
    if (given && n != 1 && n != want && n != 2 * want)
        tmk_rl_fail(call, TMK_GRAPH, "padding of %zu numbers", n);
    for (size_t i = 0; i < 2 * want; i++)
        pads[i] = call->status != TMK_OK ? 0 : given[n == 1 ? 0 : n == want ? i % want : i];
    return call->status == TMK_OK;
}

struct tmk_value *tmk_rl_in_order(struct tmk_relay_call *call, const char *part,
                                  struct tmk_value *v, const char *layout, const char *order) {
    int64_t perm[TMK_RL_LETTERS];
    int32_t n;
    return tmk_rl_layout(call, layout, order, perm, &n) ? tmk_rl_transpose(call, part, v, perm, n)
                                                        : NULL;
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

struct tmk_value *tmk_rl_back(struct tmk_relay_call *call, struct tmk_value *y, const char *order,
                              const char *layout) {
    int64_t perm[TMK_RL_LETTERS];
    int32_t n;
    return tmk_rl_layout(call, order, layout, perm, &n) ? tmk_rl_transpose(call, NULL, y, perm, n)
                                                        : NULL;
}

static const char *out_layout(struct tmk_relay_call *call, const char *data) {
    const char *out = tmk_rl_string(call, "out_layout");
    return *out ? out : data;
}

/* The axes of space in the operator's name, "nn.conv2d": 2. */
static int32_t axes_of(struct tmk_relay_call *call) {
    const char *d = strstr(call->op->name, "d_transpose");
    size_t len = strlen(call->op->name);
    return (d ? d[-1] : call->op->name[len - 2]) - '0';
}

static const struct tmk_value *cast_from(const struct tmk_value *v) {
    const struct tmk_node *node = v ? v->producer : NULL;
    return node && tmk_node_is(node, TMK_DOMAIN_ONNX, "Cast") ? node->inputs[0] : NULL;
}

static bool is_narrow(const struct tmk_value *v) {
    return v && (v->type.dtype == TMK_INT8 || v->type.dtype == TMK_UINT8);
}

/* ConvInteger takes codes of 8 bits. Wider integers may be such, cast, less a zero point. */
static struct tmk_value *codes_of(struct tmk_relay_call *call, const char *part,
                                  struct tmk_value *v, struct tmk_value **zero) {
    const struct tmk_node *node = v ? v->producer : NULL;
    const bool shifted = node && tmk_node_is(node, TMK_DOMAIN_ONNX, "Sub");
    const struct tmk_value *codes = cast_from(shifted ? node->inputs[0] : v);
    const struct tmk_value *from = shifted ? node->inputs[1] : NULL;
    size_t n;
    if (*zero || is_narrow(v) || !is_narrow(codes))
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

struct tmk_value *tmk_rl_convolve(struct tmk_relay_call *call, struct tmk_value *x_zero,
                                  struct tmk_value *w_zero) {
    int32_t axes = axes_of(call);
    const char *order = tmk_rl_orders[axes - 1], *layout = tmk_rl_string(call, "data_layout");
    const char *out = out_layout(call, layout);
    int64_t pads[6], strides[3], dilations[3], groups = tmk_rl_int(call, "groups");
    struct tmk_value *x = tmk_rl_in_order(
        call, "input", codes_of(call, "input_zero", tmk_rl_in(call, 0), &x_zero), layout, order);
    struct tmk_value *w =
        tmk_rl_in_order(call, "weight", codes_of(call, "weight_zero", tmk_rl_in(call, 1), &w_zero),
                        tmk_rl_string(call, "kernel_layout"), kernel_orders[axes - 1]);
    tmk_rl_padding(call, "padding", axes, pads);
    tmk_rl_exactly(call, "strides", strides, (size_t)axes);
    tmk_rl_exactly(call, "dilation", dilations, (size_t)axes);
    if (call->status == TMK_OK && groups > 1 && tmk_rl_rank(call, x) > 1 &&
        x->type.shape.dim[1] == groups)
        w = flatten_depthwise(call, w, groups);
    if (call->status != TMK_OK)
        return NULL;
    bool integer = !tmk_rl_is_float(call, x), same = strcmp(out, order) == 0;
    if (integer && tmk_rl_dtype_attr(call, "out_dtype", tmk_rl_type_of(call, x)) != TMK_INT32)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "integers convolved into %s; only into int32",
                           tmk_rl_string(call, "out_dtype"));
    tmk_rl_set_ints(call, "pads", pads, 2 * (size_t)axes);
    tmk_rl_set_ints(call, "strides", strides, (size_t)axes);
    tmk_rl_set_ints(call, "dilations", dilations, (size_t)axes);
    tmk_rl_set_int(call, "group", groups);
    struct tmk_value *in[] = {x, w, x_zero, w_zero};
    struct tmk_value *y =
        tmk_rl_n(call, same ? NULL : "output", integer ? "ConvInteger" : "Conv", in,
                 w_zero   ? 4
                 : x_zero ? 3
                          : 2);
    return same ? y : tmk_rl_back(call, y, order, out);
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
    static const char *const orders[] = {"IOW", "IOHW", "IODHW"};
    int32_t axes = axes_of(call);
    const char *order = tmk_rl_orders[axes - 1], *layout = tmk_rl_string(call, "data_layout");
    const char *out = out_layout(call, layout), *kernel = tmk_rl_string(call, "kernel_layout");
    int64_t pads[6], strides[3], dilations[3], extra[3];
    struct tmk_value *x = tmk_rl_in_order(call, "input", tmk_rl_in(call, 0), layout, order);
    struct tmk_value *w = tmk_rl_in(call, 1);
    if (!is_mislabelled(call, kernel, axes, x, w))
        w = tmk_rl_in_order(call, "weight", w, kernel, orders[axes - 1]);
    tmk_rl_padding(call, "padding", axes, pads);
    tmk_rl_exactly(call, "strides", strides, (size_t)axes);
    tmk_rl_exactly(call, "dilation", dilations, (size_t)axes);
    tmk_rl_exactly(call, "output_padding", extra, (size_t)axes);
    bool same = strcmp(out, order) == 0;
    if (call->status != TMK_OK)
        return NULL;
    tmk_rl_set_ints(call, "pads", pads, 2 * (size_t)axes);
    tmk_rl_set_ints(call, "strides", strides, (size_t)axes);
    tmk_rl_set_ints(call, "dilations", dilations, (size_t)axes);
    tmk_rl_set_ints(call, "output_padding", extra, (size_t)axes);
    tmk_rl_set_int(call, "group", tmk_rl_int(call, "groups"));
    struct tmk_value *y = tmk_rl_2(call, same ? NULL : "output", "ConvTranspose", x, w);
    return same ? y : tmk_rl_back(call, y, order, out);
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
    if (!tmk_re_window(e, &w->dim[2], false))
        return NULL;
    const int64_t groups = tmk_re_int(e, "group", 1),
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
