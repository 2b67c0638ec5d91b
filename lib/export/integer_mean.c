/* SPDX-License-Identifier: Apache-2.0 */
/* Means: a sum in 32 bits, and a Requantize that divides by the count. */
#include <math.h>
#include <string.h>

#include "base/diag.h"
#include "export/integer.h"
#include "graph/rewrite.h"

enum { MOST_COUNT = 8388607 }; /* of 8-bit codes: sums stay below 2^31 */

struct mean {
    struct tmk_node *node;
    const struct tmk_encoding *x, *y;
    int64_t count; /* of elements that are summed */
};

static bool match_mean(struct tmk_integer *g, struct tmk_node *node, struct mean *m) {
    m->node = node;
    m->x = tmk_integer_plain(g, node->inputs[0], node, 0, 8, "its input");
    m->y = m->x ? tmk_integer_plain(g, node->outputs[0], NULL, 0, 16, "its result") : NULL;
    return m->y != NULL;
}

/* By shifts alone nothing can be divided by any count: the sum is multiplied by 2^22 / count first,
 * which leaves 30 bits of 8-bit codes. */
static enum tmk_status finish_mean(struct tmk_integer *g, const struct mean *m,
                                   struct tmk_value *sum) {
    enum { FACTOR_BITS = 22 };
    const char *name = m->node->outputs[0]->name;
    double real = (double)m->x->scale[0] / (double)m->count / (double)m->y->scale[0];
    const struct tmk_rescale rescale = {.n = 1, .real = &real};
    int32_t lowest, highest;
    tmk_encoding_codes(m->y, &lowest, &highest);
    if (g->options->pow2) {
        const int32_t factor = (int32_t)rint(ldexp(1, FACTOR_BITS) / (double)m->count);
        struct tmk_value *constant = NULL;
        TMK_TRY(tmk_integer_constant(g, TMK_INT32, NULL, &factor, name, "_factor", &constant));
        TMK_TRY(tmk_integer_plain_node(g, "Mul", 13, sum, constant, name, "_scaled", &sum));
        real = ldexp((double)m->x->scale[0] / (double)m->y->scale[0], -FACTOR_BITS);
    }
    TMK_TRY(tmk_integer_requantize(g, sum, &rescale, m->y, lowest, highest,
                                   m->node->outputs[0]->name, "_quantized", &sum));
    TMK_TRY(tmk_integer_replaced(g, m->node));
    return tmk_integer_made(g, m->node->outputs[0], sum, m->y);
}

/* ---- over whole axes ---- */

/* Over these axes of the input, which are as many as `n`. */
static enum tmk_status reduce_axes(struct tmk_integer *g, struct mean *m, int64_t *axes, size_t n,
                                   bool keep) {
    const struct tmk_type *type = &m->node->inputs[0]->type;
    const char *name = m->node->outputs[0]->name;
    struct tmk_value *x = NULL;
    struct tmk_node *sum = NULL;
    m->count = 1;
    for (size_t i = 0; i < n; i++) {
        axes[i] += axes[i] < 0 ? type->shape.rank : 0;
        const int64_t size =
            axes[i] >= 0 && axes[i] < type->shape.rank ? type->shape.dim[axes[i]] : -1;
        if (size <= 0 || size > MOST_COUNT / m->count)
            return tmk_integer_stays(g, size < 0 ? "how many numbers it averages is not known"
                                                 : "its sums may leave 32 bits");
        m->count *= size;
    }
    TMK_TRY(tmk_integer_codes_of(g, m->node->inputs[0], m->x, &x));
    TMK_TRY(tmk_integer_centred(g, x, m->x, m->node->inputs[0]->name, &x));
    TMK_TRY(tmk_integer_node(g, TMK_DOMAIN_ONNX, "ReduceSum", 11, &x, 1, name, "_sum", &sum));
    TMK_TRY(tmk_integer_set_ints(g, sum, "axes", axes, n));
    TMK_TRY(tmk_integer_set_int(g, sum, "keepdims", keep));
    return finish_mean(g, m, sum->outputs[0]);
}

enum tmk_status tmk_integer_global_average(struct tmk_integer *g, struct tmk_node *node) {
    const struct tmk_type *type = &node->inputs[0]->type;
    int64_t axes[TMK_MAX_RANK];
    size_t n = 0;
    struct mean m;
    if (!match_mean(g, node, &m))
        return TMK_OK;
    for (int32_t i = 2; type->has_shape && i < type->shape.rank; i++)
        axes[n++] = i;
    return n ? reduce_axes(g, &m, axes, n, true)
             : tmk_integer_stays(g, "its input's rank is not known");
}

/* The axes of a reduction, by attribute or by a constant; false: all, or not known. */
static bool read_axes(const struct tmk_node *node, int64_t axes[TMK_MAX_RANK], size_t *n) {
    const int64_t *given = tmk_node_ints(node, "axes", n);
    if (!given && node->n_inputs > 1 && node->inputs[1]) {
        const struct tmk_tensor *t = tmk_value_constant(node->inputs[1]);
        if (!t || t->dtype != TMK_INT64)
            return false;
        given = t->data;
        *n = tmk_tensor_count(t);
    }
    if (!given || !*n || *n > TMK_MAX_RANK)
        return false;
    memcpy(axes, given, *n * sizeof *axes);
    return true;
}

enum tmk_status tmk_integer_mean(struct tmk_integer *g, struct tmk_node *node) {
    int64_t axes[TMK_MAX_RANK];
    size_t n = 0;
    struct mean m;
    if (!match_mean(g, node, &m))
        return TMK_OK;
    if (!node->inputs[0]->type.has_shape || !read_axes(node, axes, &n))
        return tmk_integer_stays(g, "its axes are not known");
    return reduce_axes(g, &m, axes, n, tmk_node_int(node, "keepdims", 1) != 0);
}

/* ---- over windows ---- */

static bool all_are(const int64_t *values, size_t n, int64_t value) {
    for (size_t i = 0; i < n; i++)
        if (values[i] != value)
            return false;
    return true;
}

/* Every window averages as many numbers: its padding counts, or it has none. */
static bool counts_alike(const struct tmk_node *node) {
    const char *pad = tmk_node_string(node, "auto_pad", "NOTSET");
    size_t n;
    const int64_t *pads = tmk_node_ints(node, "pads", &n);
    if (tmk_node_int(node, "ceil_mode", 0))
        return false;
    if (strcmp(pad, "VALID") == 0 || tmk_node_int(node, "count_include_pad", 0))
        return true;
    return strcmp(pad, "NOTSET") == 0 && all_are(pads, n, 0);
}

/* A convolution of each channel with ones. */
static enum tmk_status sum_windows(struct tmk_integer *g, const struct mean *m, int64_t channels,
                                   const int64_t *kernel, size_t n, struct tmk_value **out) {
    static const char *const but[] = {"ceil_mode", "count_include_pad", NULL};
    struct tmk_shape shape = {.rank = (int32_t)n + 2, .dim = {channels, 1}};
    const char *name = m->node->outputs[0]->name;
    struct tmk_value *inputs[3];
    struct tmk_node *conv = NULL;
    size_t count;
    for (size_t i = 0; i < n; i++)
        shape.dim[i + 2] = kernel[i];
    if (!tmk_shape_count(&shape, &count))
        return tmk_fail(g->diag, TMK_RANGE, "'%s': its kernel is too large", name);
    int32_t *ones = tmk_arena_array(&g->arena, count, sizeof *ones);
    if (!ones)
        return tmk_nomem(g->diag);
    for (size_t i = 0; i < count; i++)
        ones[i] = 1;
    TMK_TRY(tmk_integer_codes_of(g, m->node->inputs[0], m->x, &inputs[0]));
    TMK_TRY(tmk_integer_constant(g, TMK_INT8, &shape, ones, name, "_ones", &inputs[1]));
    TMK_TRY(tmk_integer_zero(g, m->x, m->node->inputs[0]->name, &inputs[2]));
    TMK_TRY(
        tmk_integer_node(g, TMK_DOMAIN_ONNX, "ConvInteger", 10, inputs, 3, name, "_sum", &conv));
    TMK_TRY(tmk_node_copy_attrs(conv, m->node, but, g->diag));
    *out = conv->outputs[0];
    return tmk_integer_set_int(g, conv, "group", channels);
}

enum tmk_status tmk_integer_average_pool(struct tmk_integer *g, struct tmk_node *node) {
    const struct tmk_type *type = &node->inputs[0]->type;
    struct tmk_value *sum = NULL;
    struct mean m;
    size_t n;
    const int64_t *kernel = tmk_node_ints(node, "kernel_shape", &n);
    if (!match_mean(g, node, &m))
        return TMK_OK;
    if (!type->has_shape || type->shape.rank < 3 || type->shape.dim[1] <= 0 ||
        (size_t)type->shape.rank != n + 2)
        return tmk_integer_stays(g, "how many channels it has is not known");
    if (!counts_alike(node))
        return tmk_integer_stays(g, "its windows average different counts of numbers");
    m.count = 1;
    for (size_t i = 0; i < n; i++) {
        if (kernel[i] <= 0 || kernel[i] > MOST_COUNT / m.count)
            return tmk_integer_stays(g, "its sums may leave 32 bits");
        m.count *= kernel[i];
    }
    TMK_TRY(sum_windows(g, &m, type->shape.dim[1], kernel, n, &sum));
    return finish_mean(g, &m, sum);
}
