/* SPDX-License-Identifier: Apache-2.0 */
/* Relay's pools.
 *
 * With ceil_mode Relay keeps windows that begin past the input, which ONNX drops: an average there
 * is 0, a maximum the lowest number. They are put behind ONNX's result by padding. Pools of
 * integers that ONNX has not are made of their taps: slices of the input, one a place of the
 * window. */
#include <float.h>
#include <string.h>

#include "relay/convolve.h"

enum { AXES = 3, MAX_TAPS = 256 };

struct window {
    int32_t axes;
    int64_t size[AXES], stride[AXES], dilation[AXES], pads[2 * AXES];
    int64_t in[AXES], out[AXES], kept[AXES]; /* kept: results that ONNX's operator makes */
    bool ceil, whole;                        /* whole: it makes all */
};

/* Extents that are not known stay 0; with ceil_mode they must be known. */
static void measure_axis(struct tmk_relay_call *call, const struct tmk_value *x, int32_t i,
                         struct window *w) {
    const int64_t limit = 1 << 30;
    int64_t n = x->type.shape.dim[i + 2], k = w->size[i], s = w->stride[i], d = w->dilation[i];
    int64_t before = w->pads[i], after = w->pads[w->axes + i];
    if (k < 1 || s < 1 || d < 1 || k > limit || s > limit || d > limit || before < 0 || after < 0 ||
        before > limit || after > limit || n > limit) {
        tmk_rl_fail(call, TMK_RANGE, "a window of %lld by %lld, dilated by %lld, padded by %lld",
                    (long long)k, (long long)s, (long long)d, (long long)before);
        return;
    }
    if (n < 0) {
        if (w->ceil)
            tmk_rl_dims(call, x);
        return;
    }
    int64_t windows = n + before + after - (k - 1) * d - 1;
    if (windows < 0) {
        tmk_rl_fail(call, TMK_SHAPE, "a window larger than its input");
        return;
    }
    w->in[i] = n;
    w->out[i] = w->kept[i] = (windows + (w->ceil ? s - 1 : 0)) / s + 1;
    int64_t begin_inside = n + before < 1 ? 1 : (n + before - 1) / s + 1;
    if (w->ceil && w->kept[i] > begin_inside)
        w->kept[i] = begin_inside;
    w->whole &= w->kept[i] == w->out[i];
}

/* The window over x, whose axes of space come last. */
static bool measure_window(struct tmk_relay_call *call, const struct tmk_value *x, int32_t axes,
                           struct window *w) {
    const struct tmk_shape *shape = tmk_rl_shape(call, x);
    *w = (struct window){.axes = axes, .whole = true};
    w->ceil = tmk_rl_bool(call, "ceil_mode");
    tmk_rl_exactly(call, "pool_size", w->size, (size_t)axes);
    tmk_rl_exactly(call, "strides", w->stride, (size_t)axes);
    tmk_rl_padding(call, axes, w->pads);
    for (int32_t i = 0; i < axes; i++)
        w->dilation[i] = 1;
    if (tmk_rl_has_attr(call, "dilation"))
        tmk_rl_exactly(call, "dilation", w->dilation, (size_t)axes);
    if (call->status == TMK_OK && shape->rank != axes + 2)
        tmk_rl_fail(call, TMK_SHAPE, "an operand of rank %d", (int)shape->rank);
    for (int32_t i = 0; i < axes && call->status == TMK_OK; i++)
        measure_axis(call, x, i, w);
    return call->status == TMK_OK;
}

/* ---- by ONNX's own operators ---- */

/* What must be put behind an axis so that there are so many windows without ceil_mode, of which
 * runtimes have different opinions. */
static int64_t padding_for(const struct window *w, int32_t i, int64_t windows) {
    int64_t reach = (windows - 1) * w->stride[i] + (w->size[i] - 1) * w->dilation[i] + 1;
    int64_t behind = reach - w->in[i] - w->pads[i];
    return behind > 0 ? behind : 0;
}

static struct tmk_value *onnx_pool(struct tmk_relay_call *call, const char *result,
                                   struct tmk_value *x, const struct window *w, bool average) {
    size_t n = (size_t)w->axes;
    bool counts_padding = average && tmk_rl_bool(call, "count_include_pad");
    int64_t padding[2 * AXES];
    for (int32_t i = 0; i < w->axes; i++) {
        padding[i] = w->pads[i];
        padding[w->axes + i] = w->pads[w->axes + i];
        if (w->ceil && !counts_padding)
            padding[w->axes + i] = padding_for(w, i, w->kept[i]);
    }
    tmk_rl_set_ints(call, "kernel_shape", w->size, n);
    tmk_rl_set_ints(call, "strides", w->stride, n);
    tmk_rl_set_ints(call, "pads", padding, 2 * n);
    tmk_rl_set_ints(call, "dilations", w->dilation, n);
    if (w->ceil && counts_padding)
        tmk_rl_set_int(call, "ceil_mode", 1);
    if (average)
        tmk_rl_set_int(call, "count_include_pad", counts_padding);
    const char *op = average ? "AveragePool" : "MaxPool";
    if (w->whole)
        return tmk_rl_1(call, result, op, x);
    struct tmk_value *y = tmk_rl_1(call, "pool", op, x);
    enum tmk_dtype dtype = tmk_rl_type_of(call, x);
    double past = average ? 0 : dtype == TMK_FLOAT32 ? (double)-FLT_MAX : -0x1p63;
    int64_t pads[2 * (AXES + 2)] = {0};
    for (int32_t i = 0; i < w->axes; i++)
        pads[w->axes + 2 + 2 + i] = w->out[i] - w->kept[i];
    struct tmk_value *value = tmk_rl_scalar(call, "past_value", dtype, past);
    return tmk_rl_3(call, result, "Pad", y, tmk_rl_list(call, "past", pads, 2 * (n + 2)), value);
}

/* ---- of integers, by taps ---- */

/* How many elements of the input a window counts, as an array that broadcasts to the result. */
static struct tmk_value *window_counts(struct tmk_relay_call *call, const struct window *w,
                                       enum tmk_dtype dtype) {
    bool padding_counts = tmk_rl_bool(call, "count_include_pad");
    struct tmk_shape shape = {.rank = w->axes};
    size_t total;
    for (int32_t i = 0; i < w->axes; i++)
        shape.dim[i] = w->out[i];
    if (!tmk_shape_count(&shape, &total) || total > TMK_RL_CONSTANT)
        return tmk_rl_fail(call, TMK_RANGE, "a result that is too large");
    double *values = tmk_arena_array(&call->to->scratch, total + 1, sizeof *values);
    if (!values)
        return tmk_rl_nomem(call);
    for (size_t at = 0; at < total; at++) {
        size_t rest = at;
        values[at] = 1;
        for (int32_t i = w->axes - 1; i >= 0; i--) {
            int64_t o = (int64_t)(rest % (size_t)w->out[i]), n = 0;
            rest /= (size_t)w->out[i];
            for (int64_t k = 0; k < w->size[i]; k++) {
                int64_t place = o * w->stride[i] - w->pads[i] + k * w->dilation[i];
                bool inside = place >= 0 && place < w->in[i];
                n += inside || (padding_counts && place < w->in[i] + w->pads[w->axes + i]);
            }
            values[at] *= (double)n;
        }
        values[at] = values[at] < 1 ? 1 : values[at];
    }
    return tmk_rl_array(call, "counts", dtype, &shape, values);
}

/* The slice of the padded input that holds the tap `at` of every window. */
static struct tmk_value *tap_slice(struct tmk_relay_call *call, struct tmk_value *padded,
                                   const struct window *w, int64_t number, const int64_t *at) {
    int64_t begin[AXES], end[AXES], axes[AXES];
    size_t n = (size_t)w->axes;
    for (int32_t i = 0; i < w->axes; i++) {
        begin[i] = at[i] * w->dilation[i];
        end[i] = begin[i] + (w->out[i] - 1) * w->stride[i] + 1;
        axes[i] = i + 2;
    }
    struct tmk_relay_lowering *l = call->to;
    const char *name = tmk_rl_text(l, "tap%lld", (long long)number);
    struct tmk_value *in[] = {
        padded,
        tmk_rl_list(call, tmk_rl_text(l, "%s_begin", name), begin, n),
        tmk_rl_list(call, tmk_rl_text(l, "%s_end", name), end, n),
        tmk_rl_list(call, tmk_rl_text(l, "%s_axes", name), axes, n),
        tmk_rl_list(call, tmk_rl_text(l, "%s_steps", name), w->stride, n),
    };
    return tmk_rl_n(call, name, "Slice", in, 5);
}

static struct tmk_value *pool_by_taps(struct tmk_relay_call *call, const char *result,
                                      struct tmk_value *x, const struct window *w, bool average) {
    enum tmk_dtype dtype = tmk_rl_type_of(call, x);
    int64_t pads[2 * (AXES + 2)] = {0}, taps = 1;
    tmk_rl_dims(call, x);
    for (int32_t i = 0; i < w->axes; i++) {
        pads[2 + i] = w->pads[i];
        pads[w->axes + 4 + i] = padding_for(w, i, w->out[i]);
        taps = taps > MAX_TAPS ? taps : taps * w->size[i];
    }
    if (taps > MAX_TAPS)
        return tmk_rl_fail(call, TMK_UNSUPPORTED,
                           "a window of more than %d elements over integers of type %s", MAX_TAPS,
                           tmk_dtype_name(dtype));
    struct tmk_value *sum = NULL;
    struct tmk_value *value = tmk_rl_scalar(call, "padding", dtype, average ? 0 : -0x1p63);
    struct tmk_value *padded =
        tmk_rl_3(call, "padded", "Pad", x,
                 tmk_rl_list(call, "pads", pads, 2 * ((size_t)w->axes + 2)), value);
    for (int64_t i = 0; i < taps && call->status == TMK_OK; i++) {
        int64_t at[AXES], rest = i;
        for (int32_t k = w->axes - 1; k >= 0; k--) {
            at[k] = rest % w->size[k];
            rest /= w->size[k];
        }
        struct tmk_value *next = tap_slice(call, padded, w, i, at);
        const char *part = i + 1 == taps && !average ? result
                           : i + 1 == taps           ? "sum"
                                           : tmk_rl_text(call->to, "taps%lld", (long long)i);
        sum = i > 0                   ? tmk_rl_2(call, part, average ? "Add" : "Max", sum, next)
              : taps == 1 && !average ? tmk_rl_1(call, part, "Identity", next)
                                      : next;
    }
    return average ? tmk_rl_2(call, result, "Div", sum, window_counts(call, w, dtype)) : sum;
}

/* ---- rows ---- */

/* What the rows' rules work on: the operand in ONNX's order, and how the result lies. */
struct pool {
    struct tmk_value *x;
    struct tmk_relay_layouts layouts;
    int32_t axes;
    bool average;
};

static struct pool enter_pool(struct tmk_relay_call *call) {
    struct pool p = {.layouts = tmk_rl_layouts(call, "layout"),
                     .axes = tmk_rl_space(call),
                     .average = strstr(call->op->name, "avg") != NULL};
    p.x = tmk_rl_reorder(call, "input", tmk_rl_in(call, 0), p.layouts.in, p.layouts.order);
    return p;
}

static struct tmk_value *lower_pool(struct tmk_relay_call *call) {
    const struct pool p = enter_pool(call);
    const enum tmk_dtype dtype = tmk_rl_type_of(call, p.x);
    struct window w;
    if (!measure_window(call, p.x, p.axes, &w))
        return NULL;
    const bool direct =
        dtype == TMK_FLOAT32 || (!p.average && (dtype == TMK_INT8 || dtype == TMK_UINT8));
    return tmk_rl_laid_out(call, &p.layouts,
                           direct ? onnx_pool(call, p.layouts.part, p.x, &w, p.average)
                                  : pool_by_taps(call, p.layouts.part, p.x, &w, p.average));
}

static struct tmk_value *global_pool(struct tmk_relay_call *call, const struct pool *p) {
    return tmk_rl_1(call, p->layouts.part, p->average ? "GlobalAveragePool" : "GlobalMaxPool",
                    p->x);
}

static struct tmk_value *lower_global_pool(struct tmk_relay_call *call) {
    const struct pool p = enter_pool(call);
    int64_t axes[AXES];
    if (tmk_rl_is_float(call, p.x))
        return tmk_rl_laid_out(call, &p.layouts, global_pool(call, &p));
    for (int32_t i = 0; i < p.axes; i++)
        axes[i] = i + 2;
    tmk_rl_set_int(call, "keepdims", 1);
    struct tmk_value *list = tmk_rl_list(call, "axes", axes, (size_t)p.axes);
    return tmk_rl_laid_out(
        call, &p.layouts,
        tmk_rl_2(call, p.layouts.part, p.average ? "ReduceMean" : "ReduceMax", p.x, list));
}

/* One result: the global pool. As many as divide the input: a pool of equal windows. Else windows
 * differ in size, and each axis is a row of slices, reduced and put together. */
static struct tmk_value *reduced_piece(struct tmk_relay_call *call, struct tmk_value *x,
                                       int32_t axis, int64_t i, int64_t out, bool average) {
    int64_t in = tmk_rl_dims(call, x)->dim[axis];
    int64_t begin = i * in / out, end = ((i + 1) * in + out - 1) / out, list = axis;
    struct tmk_relay_lowering *l = call->to;
    const char *name = tmk_rl_text(l, "axis%d_%lld", (int)axis, (long long)i);
    struct tmk_value *axes = tmk_rl_list(call, tmk_rl_text(l, "%s_axes", name), &list, 1);
    struct tmk_value *piece[] = {x, tmk_rl_list(call, tmk_rl_text(l, "%s_begin", name), &begin, 1),
                                 tmk_rl_list(call, tmk_rl_text(l, "%s_end", name), &end, 1), axes};
    struct tmk_value *slice = tmk_rl_n(call, tmk_rl_text(l, "%s_in", name), "Slice", piece, 4);
    tmk_rl_set_int(call, "keepdims", 1);
    return tmk_rl_2(call, name, average ? "ReduceMean" : "ReduceMax", slice, axes);
}

static struct tmk_value *lower_adaptive_pool(struct tmk_relay_call *call) {
    const struct pool p = enter_pool(call);
    const int32_t axes = p.axes;
    int64_t size[AXES];
    size_t n;
    const int64_t *given = tmk_rl_ints(call, "output_size", &n);
    const struct tmk_shape *shape = tmk_rl_dims(call, p.x);
    if (given && n != 0 && n != 1 && n != (size_t)axes)
        tmk_rl_fail(call, TMK_GRAPH, "output_size has %zu numbers", n);
    if (call->status != TMK_OK)
        return NULL;
    bool one = true, even = tmk_rl_is_float(call, p.x);
    struct window w = {.axes = axes, .whole = true};
    for (int32_t i = 0; i < axes; i++) {
        int64_t in = shape->dim[i + 2];
        size[i] = n == 0 ? in : given[n == 1 ? 0 : i];
        if (size[i] < 1 || size[i] > MAX_TAPS || in < 1)
            return tmk_rl_fail(call, TMK_UNSUPPORTED, "output_size %lld of %lld",
                               (long long)size[i], (long long)in);
        one &= size[i] == 1;
        even &= in % size[i] == 0;
        w.size[i] = w.stride[i] = in / size[i];
        w.dilation[i] = 1;
    }
    struct tmk_value *y = p.x;
    if (one && tmk_rl_is_float(call, p.x)) {
        y = global_pool(call, &p);
    } else if (even) {
        tmk_rl_set_ints(call, "kernel_shape", w.size, (size_t)axes);
        tmk_rl_set_ints(call, "strides", w.stride, (size_t)axes);
        y = tmk_rl_1(call, p.layouts.part, p.average ? "AveragePool" : "MaxPool", p.x);
    } else {
        for (int32_t axis = 2; axis < axes + 2 && call->status == TMK_OK; axis++) {
            struct tmk_value *pieces[MAX_TAPS];
            for (int64_t i = 0; i < size[axis - 2]; i++)
                pieces[i] = reduced_piece(call, y, axis, i, size[axis - 2], p.average);
            tmk_rl_set_int(call, "axis", axis);
            y = tmk_rl_n(call,
                         axis == axes + 1 ? p.layouts.part
                                          : tmk_rl_text(call->to, "axis%d", (int)axis),
                         "Concat", pieces, (uint32_t)size[axis - 2]);
        }
    }
    return tmk_rl_laid_out(call, &p.layouts, y);
}

/* ---- writing ---- */

static bool is_average(const struct tmk_relay_emit *e) {
    return strstr(e->node->op, "Average") != NULL;
}

static struct tmk_relay_expr *emit_pool(struct tmk_relay_emit *e) {
    static const char *const ops[2][AXES] = {{"nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"},
                                             {"nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"}};
    const struct tmk_shape *x = tmk_re_shape(e, 0);
    struct tmk_relay_expr *operand = tmk_re_in(e, 0);
    size_t n;
    const int64_t *kernel = tmk_node_ints(e->node, "kernel_shape", &n);
    if (!x || !kernel || x->rank < 3 || x->rank > 2 + AXES || n != (size_t)x->rank - 2)
        return tmk_re_fail(e, "only one to three spatial axes can be written");
    if (tmk_re_wanted(e, 1))
        return tmk_re_fail(e, "the places of its maxima are asked for");
    tmk_rb_set_ints(e->b, "pool_size", kernel, n);
    if (!tmk_re_window(e, true))
        return NULL;
    if (is_average(e) && tmk_node_int(e->node, "count_include_pad", 0))
        tmk_rb_set_bool(e->b, "count_include_pad", true);
    return tmk_re_1(e, ops[is_average(e)][n - 1], operand);
}

static struct tmk_relay_expr *emit_global(struct tmk_relay_emit *e) {
    const struct tmk_shape *x = tmk_re_shape(e, 0);
    struct tmk_relay_expr *operand = tmk_re_in(e, 0);
    int64_t axes[TMK_MAX_RANK];
    if (!x || x->rank < 3)
        return tmk_re_fail(e, "the rank of its input is not known");
    if (x->rank == 4)
        return tmk_re_1(e, e->op->name, operand);
    for (int32_t i = 2; i < x->rank; i++)
        axes[i - 2] = i;
    tmk_rb_set_ints(e->b, "axis", axes, (size_t)x->rank - 2);
    tmk_rb_set_bool(e->b, "keepdims", true);
    return tmk_re_1(e, is_average(e) ? "mean" : "max", operand);
}

#define WINDOW(ones, zeros, order)                                                                 \
    "pool_size; strides=" ones "; dilation=" ones "; padding=" zeros "; layout='" order            \
    "'; out_layout=''; ceil_mode=False"
#define WINDOW1 WINDOW("[1]", "[0]", "NCW")
#define WINDOW2 WINDOW("[1, 1]", "[0, 0]", "NCHW")
#define WINDOW3 WINDOW("[1, 1, 1]", "[0, 0, 0]", "NCDHW")
#define COUNTS "; count_include_pad=False"
#define ADAPTIVE(order) "output_size=[]; layout='" order "'; out_layout=''"

static const char max[] = "MaxPool; of wide integers Pad, Slice, Max";
static const char avg[] = "AveragePool; of integers Pad, Slice, Add, Div";
static const char adaptive_max[] = "GlobalMaxPool, MaxPool, or Slice, ReduceMax, Concat";
static const char adaptive_avg[] = "GlobalAveragePool, AveragePool, or Slice, ReduceMean, Concat";

const struct tmk_relay_op tmk_relay_ops_pool[] = {
    {"nn.max_pool1d", 1, 1, 0, WINDOW1, max, lower_pool, emit_pool},
    {"nn.avg_pool1d", 1, 1, 0, WINDOW1 COUNTS, avg, lower_pool, emit_pool},
    {"nn.adaptive_avg_pool1d", 1, 1, 0, ADAPTIVE("NCW"), adaptive_avg, lower_adaptive_pool},
    {"nn.adaptive_max_pool1d", 1, 1, 0, ADAPTIVE("NCW"), adaptive_max, lower_adaptive_pool},
    {"nn.max_pool2d", 1, 1, 0, WINDOW2, max, lower_pool, emit_pool},
    {"nn.avg_pool2d", 1, 1, 0, WINDOW2 COUNTS, avg, lower_pool, emit_pool},
    {"nn.adaptive_avg_pool2d", 1, 1, 0, ADAPTIVE("NCHW"), adaptive_avg, lower_adaptive_pool},
    {"nn.adaptive_max_pool2d", 1, 1, 0, ADAPTIVE("NCHW"), adaptive_max, lower_adaptive_pool},
    {"nn.max_pool3d", 1, 1, 0, WINDOW3, max, lower_pool, emit_pool},
    {"nn.avg_pool3d", 1, 1, 0, WINDOW3 COUNTS, avg, lower_pool, emit_pool},
    {"nn.adaptive_avg_pool3d", 1, 1, 0, ADAPTIVE("NCDHW"), adaptive_avg, lower_adaptive_pool},
    {"nn.adaptive_max_pool3d", 1, 1, 0, ADAPTIVE("NCDHW"), adaptive_max, lower_adaptive_pool},
    {"nn.global_avg_pool2d", 1, 1, 0, "layout='NCHW'; out_layout=''",
     "GlobalAveragePool; of integers ReduceMean", lower_global_pool, emit_global},
    {"nn.global_max_pool2d", 1, 1, 0, "layout='NCHW'; out_layout=''",
     "GlobalMaxPool; of integers ReduceMax", lower_global_pool, emit_global},
    {0}};
