/* SPDX-License-Identifier: Apache-2.0 */
/* MaxPool without indices, and AveragePool, of blocks: numbers as the plain kernels give them, NaN
 * and infinities included. */
#include <stdlib.h>

#include "kernel/family.h"
#include "kernel/pool_node.h"
#include "kernel/simd.h"
#include "ops/kernel.h"
#include "ops/window.h"

enum { AXES = 3 };

struct pool {
    struct tmk_accel base;
    struct tmk_pool_blocked pool;
    tmk_pool_fn *fold;
    struct tmk_pool_span spans[]; /* of the three axes in turn */
};

static struct tmk_pool_span cut_window(const struct tmk_window *w, int32_t i, int64_t o) {
    int64_t start = o * w->stride[i] - w->begin[i], step = w->dilation[i];
    int64_t skipped = start < 0 ? (step - 1 - start) / step : 0;
    int64_t span_size = w->in[i] - 1 - start, wide = span_size + w->end[i];
    int64_t within = span_size < 0 ? 0 : span_size / step + 1,
            padded = wide < 0 ? 0 : wide / step + 1;
    int64_t count = (within < w->kernel[i] ? within : w->kernel[i]) - skipped;
    return (struct tmk_pool_span){.first = start + skipped * step,
                                  .count = count > 0 ? count : 0,
                                  .padded = padded < w->kernel[i] ? padded : w->kernel[i]};
}

/* The largest of nothing is left to the plain kernel. */
static bool has_empty_windows(const struct tmk_window *w) {
    for (int32_t i = 0; i < w->n; i++)
        for (int64_t o = 0; o < w->out[i]; o++)
            if (cut_window(w, i, o).count == 0)
                return true;
    return false;
}

static bool supports_request(const struct tmk_request *r, struct tmk_window *window) {
    const struct tmk_tensor *x = r->in[0];
    size_t count, result;
    return x->dtype == TMK_FLOAT32 && tmk_shape_count(&x->shape, &count) &&
           tmk_shape_count(&r->result->shape, &result) && count > 0 && result > 0 &&
           tmk_window_pool(r->node, &x->shape, window, NULL) == TMK_OK && window->n >= 1 &&
           window->n <= AXES && !(tmk_is_max_pool(r->node) && has_empty_windows(window));
}

static enum tmk_status preferred_layout(const struct tmk_request *r, uint32_t have,
                                        struct tmk_accel_layout *out) {
    uint32_t block = have ? have : tmk_kernel_block();
    struct tmk_window window;
    if (tmk_is_block(block) && supports_request(r, &window) &&
        (have || r->in[0]->shape.dim[1] >= block)) /* else mostly filling */
        *out = (struct tmk_accel_layout){block, block};
    return TMK_OK;
}

static enum tmk_status create_blocked(const struct tmk_request *r, struct tmk_accel **out) {
    const struct tmk_shape *x = &r->in[0]->shape;
    uint32_t block = r->layout.in;
    struct tmk_window w;
    size_t spans = 0, bytes;
    if (!tmk_is_block(block) || r->layout.out != block || !supports_request(r, &w))
        return TMK_OK;
    for (int32_t i = 0; i < AXES; i++)
        spans += i < w.n ? (size_t)w.out[i] : 1;
    TMK_TRY_ALLOC(tmk_mul_size(spans, sizeof(struct tmk_pool_span), &bytes) &&
                      tmk_add_size(bytes, sizeof(struct pool), &bytes),
                  r->diag);
    struct pool *pool = calloc(1, bytes);
    TMK_TRY_ALLOC(pool, r->diag);
    struct tmk_pool_blocked *p = &pool->pool;
    struct tmk_pool_span *span = pool->spans;
    p->planes = (size_t)x->dim[0] * (((size_t)x->dim[1] + block - 1) / block);
    p->padding_counts = tmk_node_int(r->node, "count_include_pad", 0) != 0;
    for (int32_t i = 0; i < AXES; i++) { /* axes that are not there come first, of one element */
        int32_t axis = i - (AXES - w.n);
        p->in[i] = axis < 0 ? 1 : w.in[axis];
        p->out[i] = axis < 0 ? 1 : w.out[axis];
        p->step[i] = axis < 0 ? 1 : w.dilation[axis];
        p->span[i] = span;
        for (int64_t o = 0; o < p->out[i]; o++)
            *span++ = axis < 0 ? (struct tmk_pool_span){0, 1, 1} : cut_window(&w, axis, o);
    }
    const struct tmk_simd *lanes = tmk_simd_find(block);
    pool->base.family = r->family;
    pool->base.node = r->node;
    pool->fold = tmk_is_max_pool(r->node) ? lanes->pool_max : lanes->pool_mean;
    tmk_simd_name(lanes, pool->base.name, sizeof pool->base.name);
    *out = &pool->base;
    return TMK_OK;
}

static enum tmk_status run_blocked(const struct tmk_accel *accel,
                                   const struct tmk_tensor *const *in,
                                   struct tmk_tensor *const *out, void *scratch,
                                   struct tmk_diag *diag) {
    const struct pool *pool = (const struct pool *)accel;
    (void)scratch, (void)diag;
    pool->fold(&pool->pool, in[0]->data, out[0]->data);
    return TMK_OK;
}

static void destroy_blocked(struct tmk_accel *accel) {
    free(accel);
}

const struct tmk_family tmk_family_pool_blocked = {tmk_is_pool, preferred_layout, create_blocked,
                                                   run_blocked, destroy_blocked};

/* GlobalAveragePool, GlobalMaxPool and ReduceMean over all spatial axes, of blocks: each vector
 * adds up as many channels as it has lanes. The result is row-major. */

struct global {
    struct tmk_accel base;
    size_t batch, channels, places;
    tmk_global_fn *fold;
};

static bool is_reduction(const struct tmk_node *node) {
    return tmk_node_is(node, TMK_DOMAIN_ONNX, "ReduceMean");
}

static bool is_max(const struct tmk_node *node) {
    return tmk_node_is(node, TMK_DOMAIN_ONNX, "GlobalMaxPool");
}

static bool matches_global(const struct tmk_node *node) {
    return tmk_node_is(node, TMK_DOMAIN_ONNX, "GlobalAveragePool") || is_max(node) ||
           is_reduction(node);
}

/* Are all axes but the first two reduced, and no other? */
static bool spatial_axes(const struct tmk_request *r) {
    const struct tmk_node *node = r->node;
    int64_t read[TMK_MAX_RANK];
    size_t n = 0;
    int32_t rank = r->in[0]->shape.rank;
    const int64_t *axes = tmk_node_ints(node, "axes", &n);
    bool seen[TMK_MAX_RANK] = {false};
    if (node->n_inputs > 1 && r->in[1]) {
        axes = read;
        if (!r->in[1]->data ||
            tmk_read_ints(r->in[1], "the axes", TMK_MAX_RANK, read, &n, NULL) != TMK_OK)
            return false;
    }
    if (n != (size_t)rank - 2)
        return false;
    for (size_t i = 0; i < n; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (axis < 2 || axis >= rank || seen[axis])
            return false;
        seen[axis] = true;
    }
    return true;
}

static bool supports_block(const struct tmk_request *r, uint32_t block) {
    size_t count;
    return tmk_is_block(block) && r->in[0]->dtype == TMK_FLOAT32 && r->in[0]->shape.rank > 2 &&
           tmk_shape_count(&r->in[0]->shape, &count) && count > 0 &&
           (!is_reduction(r->node) || spatial_axes(r));
}

static enum tmk_status preferred_layout_global(const struct tmk_request *r, uint32_t have,
                                               struct tmk_accel_layout *out) {
    out->in = supports_block(r, have) ? have : 0;
    return TMK_OK;
}

static enum tmk_status create_global(const struct tmk_request *r, struct tmk_accel **out) {
    const struct tmk_shape *x = &r->in[0]->shape;
    if (r->layout.out || !supports_block(r, r->layout.in))
        return TMK_OK;
    struct global *global = calloc(1, sizeof *global);
    TMK_TRY_ALLOC(global, r->diag);
    *global = (struct global){.base = {.family = r->family, .node = r->node},
                              .batch = (size_t)x->dim[0],
                              .channels = (size_t)x->dim[1],
                              .places = tmk_shape_product(x, 2, x->rank)};
    const struct tmk_simd *lanes = tmk_simd_find(r->layout.in);
    global->fold = is_max(r->node) ? lanes->global_max : lanes->global_mean;
    tmk_simd_name(lanes, global->base.name, sizeof global->base.name);
    *out = &global->base;
    return TMK_OK;
}

static enum tmk_status run_global(const struct tmk_accel *accel, const struct tmk_tensor *const *in,
                                  struct tmk_tensor *const *out, void *scratch,
                                  struct tmk_diag *diag) {
    const struct global *global = (const struct global *)accel;
    (void)scratch, (void)diag;
    global->fold(in[0]->data, out[0]->data, global->batch, global->channels, global->places);
    return TMK_OK;
}

static void destroy_global(struct tmk_accel *accel) {
    free(accel);
}

const struct tmk_family tmk_family_pool_global = {matches_global, preferred_layout_global,
                                                  create_global, run_global, destroy_global};
