/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/window.h"

#include <string.h>

#include "ops/kernel.h"

/* Attributes up to 2^31 - 1 and inputs up to 2^60 leave space for every sum and product below. */
static const int64_t attribute_limit = INT32_MAX, input_limit = INT64_C(1) << 60;

/* `count` integers of at least `min`, or `otherwise` everywhere when the attribute is absent or
 * empty. */
static enum tmk_status read_ints(const struct tmk_node *node, const char *name, size_t count,
                                 int64_t min, int64_t otherwise, int64_t *out,
                                 struct tmk_diag *diag) {
    size_t n;
    const int64_t *values = tmk_node_ints(node, name, &n);
    if (n && n != count)
        return tmk_fail(diag, TMK_SHAPE, "attribute '%s' has %zu entries, not %zu", name, n, count);
    for (size_t i = 0; i < count; i++) {
        int64_t value = n ? values[i] : otherwise;
        if (value < min || value > attribute_limit)
            return tmk_fail(diag, TMK_RANGE, "attribute '%s' holds %lld, not in [%lld, %lld]", name,
                            (long long)value, (long long)min, (long long)attribute_limit);
        out[i] = value;
    }
    return TMK_OK;
}

enum padding { PAD_EXPLICIT, PAD_UPPER, PAD_LOWER, PAD_VALID };

static enum tmk_status read_auto_pad(const struct tmk_node *node, enum padding *out,
                                     struct tmk_diag *diag) {
    int i = PAD_EXPLICIT;
    if (*tmk_node_string(node, "auto_pad", ""))
        TMK_TRY(tmk_choice(node, "auto_pad", "NOTSET SAME_UPPER SAME_LOWER VALID", &i, diag));
    *out = (enum padding)i;
    return TMK_OK;
}

static int64_t tap_reach(const struct tmk_window *window, int32_t i) {
    return (window->kernel[i] - 1) * window->dilation[i] + 1;
}

/* Spatial axes of x, strides, dilations, explicit pads and auto_pad; the kernel is there. */
static enum tmk_status read_common(const struct tmk_node *node, const struct tmk_shape *x,
                                   struct tmk_window *window, enum padding *padding,
                                   struct tmk_diag *diag) {
    size_t n = (size_t)window->n;
    for (size_t i = 0; i < n; i++) {
        window->in[i] = x->dim[i + 2];
        if (window->in[i] < 0 || window->in[i] > input_limit)
            return tmk_fail(diag, TMK_RANGE, "spatial axis %zu of the input has %lld elements", i,
                            (long long)window->in[i]);
    }
    TMK_TRY(read_ints(node, "strides", n, 1, 1, window->stride, diag));
    TMK_TRY(read_ints(node, "dilations", n, 1, 1, window->dilation, diag));
    TMK_TRY(read_auto_pad(node, padding, diag));
    int64_t pads[2 * TMK_WINDOW_RANK] = {0};
    if (*padding == PAD_EXPLICIT)
        TMK_TRY(read_ints(node, "pads", 2 * n, 0, 0, pads, diag));
    memcpy(window->begin, pads, n * sizeof *pads);
    memcpy(window->end, pads + n, n * sizeof *pads);
    return TMK_OK;
}

static enum tmk_status slide_window(struct tmk_window *window, enum padding padding, bool ceil_mode,
                                    struct tmk_diag *diag) {
    for (int32_t i = 0; i < window->n; i++) {
        int64_t in = window->in[i], stride = window->stride[i], *begin = &window->begin[i],
                *end = &window->end[i], *out = &window->out[i];
        if (padding == PAD_UPPER || padding == PAD_LOWER) {
            *out = in / stride + (in % stride != 0);
            int64_t total = *out ? (*out - 1) * stride + tap_reach(window, i) - in : 0;
            if (total < 0)
                total = 0;
            *begin = padding == PAD_UPPER ? total / 2 : total - total / 2;
            *end = total - *begin;
            continue;
        }
        int64_t padded = in + *begin + *end - tap_reach(window, i);
        *out = padded < 0 ? 0 : padded / stride + 1;
        if (ceil_mode && padded > -stride && padded % stride != 0 && *out * stride < in + *begin)
            ++*out;
        if (*out == 0)
            return tmk_fail(diag, TMK_SHAPE,
                            "a window of %lld elements does not fit into spatial axis %d: %lld "
                            "elements, with padding %lld",
                            (long long)tap_reach(window, i), (int)i, (long long)in,
                            (long long)(in + *begin + *end));
    }
    return TMK_OK;
}

/* Ranks, `kernel_shape` and `group` of a convolution. */
static enum tmk_status read_weights(const struct tmk_node *node, const struct tmk_shape *x,
                                    const struct tmk_shape *w, struct tmk_window *window,
                                    struct tmk_diag *diag) {
    TMK_TRY(tmk_want_rank(x, 3, diag));
    if (w->rank != x->rank)
        return tmk_fail(diag, TMK_SHAPE, "the weights have rank %d, the input %d", (int)w->rank,
                        (int)x->rank);
    window->n = x->rank - 2;
    int64_t declared[TMK_WINDOW_RANK] = {0};
    TMK_TRY(read_ints(node, "kernel_shape", (size_t)window->n, 1, 1, declared, diag));
    size_t given;
    (void)tmk_node_ints(node, "kernel_shape", &given);
    for (int32_t i = 0; i < window->n; i++) {
        window->kernel[i] = w->dim[i + 2];
        if (window->kernel[i] < 1 || window->kernel[i] > attribute_limit)
            return tmk_fail(diag, TMK_SHAPE, "the weights have %lld elements on spatial axis %d",
                            (long long)window->kernel[i], (int)i);
        if (given && declared[i] != window->kernel[i])
            return tmk_fail(diag, TMK_SHAPE,
                            "attribute 'kernel_shape' says %lld on spatial axis %d, the weights "
                            "have %lld",
                            (long long)declared[i], (int)i, (long long)window->kernel[i]);
    }
    int64_t group = tmk_node_int(node, "group", 1), inputs;
    if (group < 1 || group > attribute_limit)
        return tmk_fail(diag, TMK_RANGE, "attribute 'group' is %lld", (long long)group);
    bool fits = window->transposed
                    ? w->dim[0] == x->dim[1] && x->dim[1] % group == 0
                    : w->dim[0] % group == 0 && tmk_mul_i64(w->dim[1], group, &inputs) &&
                          inputs == x->dim[1];
    if (!fits)
        return tmk_fail(diag, TMK_SHAPE, "weights %s do not fit input %s in %lld groups",
                        TMK_SHAPE_TEXT(w), TMK_SHAPE_TEXT(x), (long long)group);
    return TMK_OK;
}

enum tmk_status tmk_window_conv(const struct tmk_node *node, const struct tmk_shape *x,
                                const struct tmk_shape *w, struct tmk_window *out,
                                struct tmk_diag *diag) {
    struct tmk_window window = {0};
    enum padding padding;
    TMK_TRY(read_weights(node, x, w, &window, diag));
    TMK_TRY(read_common(node, x, &window, &padding, diag));
    TMK_TRY(slide_window(&window, padding, false, diag));
    *out = window;
    return TMK_OK;
}

enum tmk_status tmk_window_pool(const struct tmk_node *node, const struct tmk_shape *x,
                                struct tmk_window *out, struct tmk_diag *diag) {
    struct tmk_window window = {0};
    enum padding padding;
    TMK_TRY(tmk_want_rank(x, 3, diag));
    window.n = x->rank - 2;
    size_t given;
    (void)tmk_node_ints(node, "kernel_shape", &given);
    if (!given)
        return tmk_fail(diag, TMK_GRAPH, "attribute 'kernel_shape' is missing");
    TMK_TRY(read_ints(node, "kernel_shape", (size_t)window.n, 1, 1, window.kernel, diag));
    TMK_TRY(read_common(node, x, &window, &padding, diag));
    for (int32_t i = 0; i < window.n; i++)
        if (window.begin[i] >= tap_reach(&window, i) || window.end[i] >= tap_reach(&window, i))
            return tmk_fail(diag, TMK_RANGE,
                            "attribute 'pads' holds %lld and %lld on spatial axis %d, as wide as "
                            "the window",
                            (long long)window.begin[i], (long long)window.end[i], (int)i);
    TMK_TRY(slide_window(&window, padding, tmk_node_int(node, "ceil_mode", 0) != 0, diag));
    *out = window;
    return TMK_OK;
}

/* One spatial axis of a transposed window: out from pads, or pads from a wanted out (`wanted` < 0:
 * none). */
static enum tmk_status transpose_axis(struct tmk_window *window, int32_t i, int64_t extra,
                                      int64_t wanted, enum padding padding, struct tmk_diag *diag) {
    int64_t full = 0, same = 0;
    if (!tmk_mul_i64(window->stride[i], window->in[i] - 1, &full) ||
        !tmk_add_i64(full, extra + tap_reach(window, i), &full) ||
        !tmk_mul_i64(window->stride[i], window->in[i], &same))
        return tmk_fail(diag, TMK_RANGE, "the output of spatial axis %d is too large", (int)i);
    if (wanted < 0 && (padding == PAD_UPPER || padding == PAD_LOWER))
        wanted = same;
    if (wanted < 0) {
        window->out[i] = full - window->begin[i] - window->end[i];
        if (window->out[i] < 0 || window->in[i] == 0)
            return tmk_fail(diag, TMK_SHAPE,
                            "spatial axis %d: padding of %lld and %lld leaves nothing of %lld "
                            "elements",
                            (int)i, (long long)window->begin[i], (long long)window->end[i],
                            (long long)full);
        return TMK_OK;
    }
    int64_t total = full - wanted;
    window->out[i] = wanted;
    window->begin[i] = total <= 0 ? 0 : padding == PAD_UPPER ? total / 2 : total - total / 2;
    window->end[i] = total - window->begin[i];
    return TMK_OK;
}

enum tmk_status tmk_window_conv_transpose(const struct tmk_node *node, const struct tmk_shape *x,
                                          const struct tmk_shape *w, struct tmk_window *out,
                                          struct tmk_diag *diag) {
    struct tmk_window window = {.transposed = true};
    enum padding padding;
    TMK_TRY(read_weights(node, x, w, &window, diag));
    TMK_TRY(read_common(node, x, &window, &padding, diag));
    size_t n = (size_t)window.n, n_shape;
    int64_t extra[TMK_WINDOW_RANK], wanted[TMK_WINDOW_RANK + 2];
    TMK_TRY(read_ints(node, "output_padding", n, 0, 0, extra, diag));
    (void)tmk_node_ints(node, "output_shape", &n_shape);
    const size_t before = n_shape == n + 2 ? 2 : 0; /* the first releases counted N and C, too */
    TMK_TRY(read_ints(node, "output_shape", n + before, n_shape ? 0 : -1, -1, wanted, diag));
    for (int32_t i = 0; i < window.n; i++) {
        int64_t limit =
            window.stride[i] > window.dilation[i] ? window.stride[i] : window.dilation[i];
        if (extra[i] >= limit)
            return tmk_fail(diag, TMK_RANGE,
                            "attribute 'output_padding' holds %lld, not less than stride or "
                            "dilation %lld",
                            (long long)extra[i], (long long)limit);
        TMK_TRY(transpose_axis(&window, i, extra[i], wanted[before + (size_t)i], padding, diag));
    }
    *out = window;
    return TMK_OK;
}

void tmk_window_shape(const struct tmk_window *window, int64_t batch, int64_t channels,
                      struct tmk_shape *out) {
    *out = (struct tmk_shape){.rank = window->n + 2, .dim = {batch, channels}};
    memcpy(out->dim + 2, window->out, (size_t)window->n * sizeof *window->out);
}

static size_t dims_product(const int64_t *values, int32_t n) {
    size_t result = 1;
    for (int32_t i = 0; i < n; i++)
        result *= (size_t)values[i];
    return result;
}

size_t tmk_window_taps(const struct tmk_window *window) {
    return dims_product(window->kernel, window->n);
}

size_t tmk_window_in(const struct tmk_window *window) {
    return dims_product(window->in, window->n);
}

size_t tmk_window_out(const struct tmk_window *window) {
    return dims_product(window->out, window->n);
}

/* Position on one axis under tap k of output o, or -1. */
static int64_t tap_position(const struct tmk_window *window, int32_t i, int64_t o, int64_t k) {
    int64_t at;
    if (window->transposed) {
        at = o + window->begin[i] - k * window->dilation[i];
        if (at < 0 || at % window->stride[i] != 0)
            return -1;
        at /= window->stride[i];
    } else {
        at = o * window->stride[i] - window->begin[i] + k * window->dilation[i];
    }
    return at < 0 || at >= window->in[i] ? -1 : at;
}

void tmk_window_gather(const struct tmk_window *window, size_t first, size_t n, int64_t *table) {
    int64_t place[TMK_WINDOW_BLOCK][TMK_WINDOW_RANK];
    for (size_t j = 0; j < n; j++) {
        size_t rest = first + j;
        for (int32_t i = window->n - 1; i >= 0; i--) {
            place[j][i] = (int64_t)(rest % (size_t)window->out[i]);
            rest /= (size_t)window->out[i];
        }
        table[j] = 0;
    }
    /* Axis by axis: row t of the taps so far becomes rows t * kernel ... ; from the back, so that
     * no row is overwritten before it was read. */
    size_t taps = 1;
    for (int32_t i = 0; i < window->n; i++) {
        size_t kernel = (size_t)window->kernel[i];
        for (size_t t = taps; t-- > 0;)
            for (size_t k = kernel; k-- > 0;)
                for (size_t j = 0; j < n; j++) {
                    int64_t outer = table[t * n + j],
                            at = tap_position(window, i, place[j][i], (int64_t)k);
                    table[(t * kernel + k) * n + j] =
                        outer < 0 || at < 0 ? -1 : outer * window->in[i] + at;
                }
        taps *= kernel;
    }
}
