/* SPDX-License-Identifier: Apache-2.0 */
/* MaxPool without indices, and AveragePool, of row-major tensors (pool_blocked.c has the others).
 *
 * oneDNN pools quickly in blocked layouts only. It skips NaN and gives -FLT_MAX for windows of
 * -infinity, where the plain kernels keep both; so a maximum looks at its input first, and runs the
 * plain kernel when there is a NaN or an infinity in it. Averages over large windows stay with the
 * plain kernel, which adds in double precision, and those whose sums in float32 overflow are taken
 * again by it; so do the global pools stay, whose plain kernels are as fast as the reorder alone
 * (measured on 2048 channels of 7x7). */
#include "kernel/onednn.h"

#include <stdlib.h>

#include "kernel/pool_node.h"

enum { MOST_TAPS = 1024 }; /* of an average in float32 */

/* oneDNN has the window, with the same meaning. */
static bool is_expressible(const struct tmk_node *node, const struct tmk_window *w,
                           dnnl_alg_kind_t *kind) {
    bool padding_counts = tmk_node_int(node, "count_include_pad", 0) != 0;
    *kind = tmk_is_max_pool(node) ? dnnl_pooling_max
            : padding_counts      ? dnnl_pooling_avg_include_padding
                                  : dnnl_pooling_avg_exclude_padding;
    size_t taps = 1;
    for (int32_t i = 0; i < w->n; i++) {
        int64_t last = (w->out[i] - 1) * w->stride[i] - w->begin[i];
        if (w->dilation[i] != 1 || !tmk_mul_size(taps, (size_t)w->kernel[i], &taps))
            return false;
        /* The part of ceil_mode's last window that is beyond the padding counts with oneDNN, but
         * not with ONNX. */
        if (padding_counts && last + w->kernel[i] > w->in[i] + w->end[i])
            return false;
    }
    return tmk_is_max_pool(node) || taps <= MOST_TAPS;
}

static enum tmk_status make_pool(const struct tmk_dn_request *r, struct tmk_dn **out) {
    const struct tmk_shape *x = &r->base.in[0]->shape;
    struct tmk_window window;
    struct tmk_spatial s;
    dnnl_alg_kind_t kind;
    int32_t block = (int32_t)tmk_kernel_block();
    TMK_TRY(tmk_window_pool(r->base.node, x, &window, r->base.diag));
    if (!is_expressible(r->base.node, &window, &kind) || !tmk_spatial_of(&window, &s))
        return TMK_OK;
    dnnl_dims_t src_dims, dst_dims;
    int rank = tmk_spatial_dims(&s, x->dim[0], x->dim[1], s.in, src_dims);
    tmk_spatial_dims(&s, x->dim[0], x->dim[1], s.out, dst_dims);
    struct tmk_layout src = {0}, dst = {0};
    struct tmk_operands operands = {.src = &src, .dst = &dst};
    struct tmk_argument a[] = {{.role = DNNL_ARG_SRC, .operand = 0},
                               {.role = DNNL_ARG_DST, .operand = TMK_RESULT}};
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status = tmk_layout_form(&src, rank, src_dims, block);
    if (status == dnnl_success)
        status = tmk_layout_form(&dst, rank, dst_dims, block);
    if (status == dnnl_success)
        status = tmk_desc_pooling(r->engine, r->attr, kind, &operands, &s.sliding, &desc);
    if (status == dnnl_success && !tmk_dn_fast(desc))
        status = dnnl_unimplemented;
    if (status == dnnl_success)
        status = tmk_layout_form(&a[0].outside, rank, src_dims, 0);
    if (status == dnnl_success)
        status = tmk_layout_form(&a[1].outside, rank, dst_dims, 0);
    tmk_layout_finish(&src);
    tmk_layout_finish(&dst);
    if (status == dnnl_success)
        return tmk_dn_build(r, sizeof(struct tmk_dn), desc, a, TMK_COUNT(a), out);
    bool fits;
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    tmk_layout_finish(&a[0].outside);
    tmk_layout_finish(&a[1].outside);
    return tmk_dn_fits(status, &fits, r->base.diag);
}

/* Scratch memory of a plain kernel: blocks in a list. */
struct block {
    struct block *next;
    _Alignas(64) unsigned char bytes[];
};

static void *block_alloc(void *context, size_t bytes) {
    struct block **list = context;
    size_t size;
    if (!tmk_add_size(bytes, sizeof(struct block) + 63, &size))
        return NULL;
    struct block *block = aligned_alloc(64, size & ~(size_t)63);
    if (!block)
        return NULL;
    block->next = *list;
    *list = block;
    return block->bytes;
}

static enum tmk_status run_plain(const struct tmk_accel *accel, const struct tmk_tensor *const *in,
                                 struct tmk_tensor *const *out, struct tmk_diag *diag) {
    struct block *blocks = NULL;
    struct tmk_run run = {.node = accel->node,
                          .n_in = accel->node->n_inputs,
                          .n_out = accel->node->n_outputs,
                          .in = in,
                          .out = out,
                          .scratch = block_alloc,
                          .context = &blocks,
                          .diag = diag};
    enum tmk_status status = tmk_run_kernel(&run);
    while (blocks) {
        struct block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
    return status;
}

static enum tmk_status run_pool(const struct tmk_accel *accel, const struct tmk_tensor *const *in,
                                struct tmk_tensor *const *out, void *scratch,
                                struct tmk_diag *diag) {
    const bool averages = !tmk_is_max_pool(accel->node);
    if (!averages && !tmk_all_finite(in[0]->data, tmk_tensor_count(in[0])))
        return run_plain(accel, in, out, diag);
    TMK_TRY(tmk_dn_run_once(accel, in, out, scratch, diag));
    if (averages && !tmk_all_finite(out[0]->data, tmk_tensor_count(out[0])))
        return run_plain(accel, in, out, diag);
    return TMK_OK;
}

static enum tmk_status create_pool(const struct tmk_request *r, struct tmk_accel **out) {
    return tmk_dn_create(r, make_pool, out);
}

const struct tmk_family tmk_family_pool = {tmk_is_pool, NULL, create_pool, run_pool,
                                           tmk_dn_destroy};
