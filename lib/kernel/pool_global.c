/* SPDX-License-Identifier: Apache-2.0 */
/* GlobalAveragePool, GlobalMaxPool and ReduceMean over all spatial axes, of blocks: each vector
 * adds up as many channels as it has lanes. The result is row-major. */
#include <stdlib.h>

#include "kernel/family.h"
#include "kernel/simd.h"
#include "ops/kernel.h"

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

static struct tmk_accel_layout preferred_layout(const struct tmk_request *r, uint32_t have) {
    return (struct tmk_accel_layout){supports_block(r, have) ? have : 0, 0};
}

static enum tmk_status create_global(const struct tmk_request *r, struct tmk_accel **out) {
    const struct tmk_shape *x = &r->in[0]->shape;
    if (r->layout.out || !supports_block(r, r->layout.in))
        return TMK_OK;
    struct global *global = calloc(1, sizeof *global);
    if (!global)
        return tmk_nomem(r->diag);
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

const struct tmk_family tmk_family_pool_global = {matches_global, preferred_layout, create_global,
                                                  run_global, destroy_global};
