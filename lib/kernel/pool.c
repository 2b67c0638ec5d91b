/* SPDX-License-Identifier: Apache-2.0 */
/* MaxPool without indices, and AveragePool.
 *
 * oneDNN pools quickly in blocked layouts only. It skips NaN and gives -FLT_MAX for windows of
 * -infinity, where the plain kernels keep both; so a maximum looks at its input first, and runs the
 * plain kernel when there is a NaN or an infinity in it. Averages over large windows stay with the
 * plain kernel, which adds in double precision; so do the global pools, whose plain kernels are as
 * fast as the reorder alone (measured on 2048 channels of 7x7).
 */
#include "kernel/onednn.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_TAPS = 1024 }; /* of an average in float32 */

static bool is_max(const struct tmk_node *node) {
    return strcmp(node->op, "MaxPool") == 0;
}

static bool matches(const struct tmk_node *node) {
    if (is_max(node))
        return node->n_outputs == 1 || !node->outputs[1];
    return strcmp(node->op, "AveragePool") == 0;
}

/* oneDNN has the window, with the same meaning. */
static bool expressible(const struct tmk_node *node, const struct tmk_window *w,
                        dnnl_alg_kind_t *kind) {
    bool padding_counts = tmk_node_int(node, "count_include_pad", 0) != 0;
    *kind = is_max(node)     ? dnnl_pooling_max
            : padding_counts ? dnnl_pooling_avg_include_padding
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
    return is_max(node) || taps <= MOST_TAPS;
}

static enum tmk_status create(const struct tmk_request *r, struct tmk_accel **out) {
    const struct tmk_shape *x = &r->in[0]->shape;
    struct tmk_window window;
    struct tmk_spatial s;
    dnnl_alg_kind_t kind;
    TMK_TRY(tmk_window_pool(r->node, x, &window, r->diag));
    if (!expressible(r->node, &window, &kind) || !tmk_spatial_of(&window, &s))
        return TMK_OK;
    dnnl_dims_t src_dims, dst_dims;
    int rank = tmk_spatial_dims(&s, x->dim[0], x->dim[1], s.in, src_dims);
    tmk_spatial_dims(&s, x->dim[0], x->dim[1], s.out, dst_dims);
    struct tmk_layout src = {0}, dst = {0};
    struct tmk_operands operands = {.src = &src, .dst = &dst};
    struct tmk_argument a[] = {{.role = DNNL_ARG_SRC, .operand = 0},
                               {.role = DNNL_ARG_DST, .operand = TMK_RESULT}};
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status = tmk_layout_form(&src, rank, src_dims, TMK_FORM_BLOCKED);
    if (status == dnnl_success)
        status = tmk_layout_form(&dst, rank, dst_dims, TMK_FORM_BLOCKED);
    if (status == dnnl_success)
        status = tmk_desc_pooling(r->engine, r->attr, kind, &operands, &s.sliding, &desc);
    if (status == dnnl_success && !tmk_dn_fast(desc))
        status = dnnl_unimplemented;
    if (status == dnnl_success)
        status = tmk_layout_form(&a[0].plain, rank, src_dims, TMK_FORM_PLAIN);
    if (status == dnnl_success)
        status = tmk_layout_form(&a[1].plain, rank, dst_dims, TMK_FORM_PLAIN);
    tmk_layout_finish(&src);
    tmk_layout_finish(&dst);
    if (status == dnnl_success)
        return tmk_accel_build(r, sizeof(struct tmk_accel), desc, a, TMK_COUNT(a), out);
    bool fits;
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    tmk_layout_finish(&a[0].plain);
    tmk_layout_finish(&a[1].plain);
    return tmk_dn_fits(status, &fits, r->diag);
}

static bool all_finite(const float *x, size_t n) {
    enum { EXPONENT = 0x7f800000 };
    uint32_t found = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        found |= (bits & EXPONENT) == EXPONENT;
    }
    return !found;
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
    enum tmk_status status = accel->node->row->run(&run);
    while (blocks) {
        struct block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
    return status;
}

static enum tmk_status run(const struct tmk_accel *accel, const struct tmk_tensor *const *in,
                           struct tmk_tensor *const *out, void *scratch, struct tmk_diag *diag) {
    if (is_max(accel->node) && !all_finite(in[0]->data, tmk_tensor_count(in[0])))
        return run_plain(accel, in, out, diag);
    return tmk_accel_run_once(accel, in, out, scratch, diag);
}

const struct tmk_family tmk_family_pool = {matches, create, run};
