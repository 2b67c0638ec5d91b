/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/shim.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static tmk_md md_or_null(const struct tmk_layout *layout) {
    return layout ? tmk_layout_md(layout) : NULL;
}

static bool is_small_winograd(dnnl_primitive_desc_t desc) {
    const char *info = "";
    return dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &info) == dnnl_success &&
           strstr(info, "wino_2x3");
}

/* How a layout is given by strides and blocks. */
struct form {
    int rank, blocks;
    const dnnl_dim_t *dims, *strides;
};

static bool read_form(tmk_md md, struct form *out);
static dnnl_status_t make_part(struct tmk_layout *part, tmk_md whole, const dnnl_dims_t dims,
                               const dnnl_dims_t offsets, int64_t *offset);

bool tmk_layout_outermost(tmk_md md, int *dim, int64_t *extent, int64_t *stride) {
    struct form form;
    if (!read_form(md, &form) || form.blocks)
        return false;
    *dim = 0;
    for (int i = 1; i < form.rank; i++)
        if (form.dims[i] > 1 && (form.dims[*dim] == 1 || form.strides[i] > form.strides[*dim]))
            *dim = i;
    *extent = form.dims[*dim];
    *stride = form.strides[*dim];
    return true;
}

dnnl_status_t tmk_layout_part(struct tmk_layout *part, tmk_md whole, int dim, int64_t first,
                              int64_t n, int64_t *offset) {
    dnnl_dims_t dims = {0}, offsets = {0};
    struct form form;
    if (!read_form(whole, &form))
        return dnnl_unimplemented;
    memcpy(dims, form.dims, (size_t)form.rank * sizeof *dims);
    dims[dim] = n;
    offsets[dim] = first;
    return make_part(part, whole, dims, offsets, offset);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops) {
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef);
#else
    return dnnl_post_ops_append_sum(ops, 1);
#endif
}

dnnl_status_t tmk_attr_adding(const_dnnl_primitive_attr_t like, dnnl_primitive_attr_t *out) {
    dnnl_post_ops_t ops;
    dnnl_status_t status = dnnl_post_ops_create(&ops);
    if (status != dnnl_success)
        return status;
    status = append_sum(ops);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_clone(out, like);
    if (status == dnnl_success) {
        status = dnnl_primitive_attr_set_post_ops(*out, ops);
        if (status != dnnl_success)
            dnnl_primitive_attr_destroy(*out);
    }
    dnnl_post_ops_destroy(ops);
    return status;
}

#if DNNL_VERSION_MAJOR >= 3

/* It prints its errors to standard output, where answers go. */
static void silence(void) {
    if (!getenv("ONEDNN_VERBOSE") && !getenv("DNNL_VERBOSE"))
        dnnl_set_verbose(0);
}

dnnl_status_t tmk_engine_create(dnnl_engine_t *out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, silence);
    dnnl_status_t status = dnnl_engine_create(out, dnnl_cpu, 0);
    /* its answer where it has no memory for what makes engines */
    return status == dnnl_invalid_arguments ? dnnl_out_of_memory : status;
}

dnnl_status_t tmk_layout_tag(struct tmk_layout *layout, int rank, const dnnl_dims_t dims,
                             dnnl_format_tag_t tag) {
    dnnl_status_t status =
        dnnl_memory_desc_create_with_tag(&layout->desc, rank, dims, dnnl_f32, tag);
    layout->made = status == dnnl_success;
    return status;
}

dnnl_status_t tmk_layout_strided(struct tmk_layout *layout, int rank, const dnnl_dims_t dims,
                                 const dnnl_dims_t strides) {
    dnnl_status_t status =
        dnnl_memory_desc_create_with_strides(&layout->desc, rank, dims, dnnl_f32, strides);
    layout->made = status == dnnl_success;
    return status;
}

dnnl_status_t tmk_layout_copy(struct tmk_layout *layout, tmk_md md) {
    dnnl_status_t status = dnnl_memory_desc_clone(&layout->desc, md);
    layout->made = status == dnnl_success;
    return status;
}

void tmk_layout_finish(struct tmk_layout *layout) {
    if (layout->made)
        dnnl_memory_desc_destroy(layout->desc);
    layout->made = false;
}

tmk_md tmk_layout_md(const struct tmk_layout *layout) {
    return layout->desc;
}

static bool read_form(tmk_md md, struct form *out) {
    dnnl_format_kind_t kind;
    const dnnl_dims_t *dims, *strides;
    if (dnnl_memory_desc_query(md, dnnl_query_format_kind, &kind) != dnnl_success ||
        kind != dnnl_blocked ||
        dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &out->rank) != dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_inner_nblks_s32, &out->blocks) != dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_dims, &dims) != dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_strides, &strides) != dnnl_success)
        return false;
    out->dims = *dims;
    out->strides = *strides;
    return true;
}

static dnnl_status_t make_part(struct tmk_layout *part, tmk_md whole, const dnnl_dims_t dims,
                               const dnnl_dims_t offsets, int64_t *offset) {
    dnnl_status_t status = dnnl_memory_desc_create_submemory(&part->desc, whole, dims, offsets);
    part->made = status == dnnl_success;
    return part->made ? dnnl_memory_desc_query(part->desc, dnnl_query_submemory_offset_s64, offset)
                      : status;
}

dnnl_status_t tmk_desc_convolution(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                                   const struct tmk_operands *operands,
                                   const struct tmk_sliding *sliding, bool transposed,
                                   dnnl_primitive_desc_t *out) {
    tmk_md src = tmk_layout_md(operands->src), weights = tmk_layout_md(operands->weights),
           bias = md_or_null(operands->bias), dst = tmk_layout_md(operands->dst);
    if (transposed)
        return dnnl_deconvolution_forward_primitive_desc_create(
            out, engine, dnnl_forward_inference, dnnl_deconvolution_direct, src, weights, bias, dst,
            sliding->stride, sliding->dilation, sliding->begin, sliding->end, attr);
    return dnnl_convolution_forward_primitive_desc_create(
        out, engine, dnnl_forward_inference, dnnl_convolution_direct, src, weights, bias, dst,
        sliding->stride, sliding->dilation, sliding->begin, sliding->end, attr);
}

dnnl_status_t tmk_desc_winograd(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                                const struct tmk_operands *operands,
                                const struct tmk_sliding *sliding, dnnl_primitive_desc_t *out) {
    dnnl_primitive_desc_t desc;
    dnnl_status_t status = dnnl_convolution_forward_primitive_desc_create(
        &desc, engine, dnnl_forward_inference, dnnl_convolution_winograd,
        tmk_layout_md(operands->src), tmk_layout_md(operands->weights), md_or_null(operands->bias),
        tmk_layout_md(operands->dst), sliding->stride, sliding->dilation, sliding->begin,
        sliding->end, attr);
    if (status != dnnl_success)
        return status;
    while (status == dnnl_success && !is_small_winograd(desc))
        status = dnnl_primitive_desc_next_impl(desc);
    if (status == dnnl_success)
        *out = desc;
    else
        dnnl_primitive_desc_destroy(desc);
    return status == dnnl_last_impl_reached ? dnnl_unimplemented : status;
}

dnnl_status_t tmk_desc_pooling(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                               dnnl_alg_kind_t kind, const struct tmk_operands *operands,
                               const struct tmk_sliding *sliding, dnnl_primitive_desc_t *out) {
    return dnnl_pooling_forward_primitive_desc_create(
        out, engine, dnnl_forward_inference, kind, tmk_layout_md(operands->src),
        tmk_layout_md(operands->dst), sliding->stride, sliding->kernel, sliding->dilation,
        sliding->begin, sliding->end, attr);
}

dnnl_status_t tmk_desc_inner_product(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                                     const struct tmk_operands *operands,
                                     dnnl_primitive_desc_t *out) {
    return dnnl_inner_product_forward_primitive_desc_create(
        out, engine, dnnl_forward_inference, tmk_layout_md(operands->src),
        tmk_layout_md(operands->weights), md_or_null(operands->bias), tmk_layout_md(operands->dst),
        attr);
}

dnnl_status_t tmk_desc_matmul(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                              const struct tmk_operands *operands, dnnl_primitive_desc_t *out) {
    return dnnl_matmul_primitive_desc_create(
        out, engine, tmk_layout_md(operands->src), tmk_layout_md(operands->weights),
        md_or_null(operands->bias), tmk_layout_md(operands->dst), attr);
}

#else

dnnl_status_t tmk_engine_create(dnnl_engine_t *out) {
    return dnnl_engine_create(out, dnnl_cpu, 0);
}

dnnl_status_t tmk_layout_tag(struct tmk_layout *layout, int rank, const dnnl_dims_t dims,
                             dnnl_format_tag_t tag) {
    dnnl_status_t status = dnnl_memory_desc_init_by_tag(&layout->desc, rank, dims, dnnl_f32, tag);
    layout->made = status == dnnl_success;
    return status;
}

dnnl_status_t tmk_layout_strided(struct tmk_layout *layout, int rank, const dnnl_dims_t dims,
                                 const dnnl_dims_t strides) {
    dnnl_status_t status =
        dnnl_memory_desc_init_by_strides(&layout->desc, rank, dims, dnnl_f32, strides);
    layout->made = status == dnnl_success;
    return status;
}

dnnl_status_t tmk_layout_copy(struct tmk_layout *layout, tmk_md md) {
    layout->desc = *md;
    layout->made = true;
    return dnnl_success;
}

void tmk_layout_finish(struct tmk_layout *layout) {
    layout->made = false;
}

tmk_md tmk_layout_md(const struct tmk_layout *layout) {
    return &layout->desc;
}

static bool read_form(tmk_md md, struct form *out) {
    if (md->format_kind != dnnl_blocked)
        return false;
    *out = (struct form){md->ndims, md->format_desc.blocking.inner_nblks, md->dims,
                         md->format_desc.blocking.strides};
    return true;
}

static dnnl_status_t make_part(struct tmk_layout *part, tmk_md whole, const dnnl_dims_t dims,
                               const dnnl_dims_t offsets, int64_t *offset) {
    dnnl_status_t status = dnnl_memory_desc_init_submemory(&part->desc, whole, dims, offsets);
    part->made = status == dnnl_success;
    *offset = part->made ? part->desc.offset0 : 0;
    return status;
}

dnnl_status_t tmk_desc_convolution(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                                   const struct tmk_operands *operands,
                                   const struct tmk_sliding *sliding, bool transposed,
                                   dnnl_primitive_desc_t *out) {
    tmk_md src = tmk_layout_md(operands->src), weights = tmk_layout_md(operands->weights),
           bias = md_or_null(operands->bias), dst = tmk_layout_md(operands->dst);
    union {
        dnnl_convolution_desc_t forward;
        dnnl_deconvolution_desc_t transposed;
    } op;
    dnnl_status_t status =
        transposed
            ? dnnl_dilated_deconvolution_forward_desc_init(
                  &op.transposed, dnnl_forward_inference, dnnl_deconvolution_direct, src, weights,
                  bias, dst, sliding->stride, sliding->dilation, sliding->begin, sliding->end)
            : dnnl_dilated_convolution_forward_desc_init(
                  &op.forward, dnnl_forward_inference, dnnl_convolution_direct, src, weights, bias,
                  dst, sliding->stride, sliding->dilation, sliding->begin, sliding->end);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &op, attr, engine, NULL)
                                  : status;
}

dnnl_status_t tmk_desc_winograd(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                                const struct tmk_operands *operands,
                                const struct tmk_sliding *sliding, dnnl_primitive_desc_t *out) {
    dnnl_convolution_desc_t op;
    dnnl_primitive_desc_iterator_t each;
    dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(
        &op, dnnl_forward_inference, dnnl_convolution_winograd, tmk_layout_md(operands->src),
        tmk_layout_md(operands->weights), md_or_null(operands->bias), tmk_layout_md(operands->dst),
        sliding->stride, sliding->dilation, sliding->begin, sliding->end);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_iterator_create(&each, &op, attr, engine, NULL);
    if (status != dnnl_success)
        return status;
    for (bool found = false; status == dnnl_success && !found;) {
        dnnl_primitive_desc_t desc = dnnl_primitive_desc_iterator_fetch(each);
        found = desc && is_small_winograd(desc);
        if (found)
            *out = desc;
        else if (desc)
            dnnl_primitive_desc_destroy(desc);
        if (!found)
            status = desc ? dnnl_primitive_desc_iterator_next(each) : dnnl_out_of_memory;
    }
    dnnl_primitive_desc_iterator_destroy(each);
    return status == dnnl_iterator_ends ? dnnl_unimplemented : status;
}

dnnl_status_t tmk_desc_pooling(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                               dnnl_alg_kind_t kind, const struct tmk_operands *operands,
                               const struct tmk_sliding *sliding, dnnl_primitive_desc_t *out) {
    dnnl_pooling_v2_desc_t op;
    dnnl_status_t status = dnnl_pooling_v2_forward_desc_init(
        &op, dnnl_forward_inference, kind, tmk_layout_md(operands->src),
        tmk_layout_md(operands->dst), sliding->stride, sliding->kernel, sliding->dilation,
        sliding->begin, sliding->end);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &op, attr, engine, NULL)
                                  : status;
}

dnnl_status_t tmk_desc_inner_product(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                                     const struct tmk_operands *operands,
                                     dnnl_primitive_desc_t *out) {
    dnnl_inner_product_desc_t op;
    dnnl_status_t status = dnnl_inner_product_forward_desc_init(
        &op, dnnl_forward_inference, tmk_layout_md(operands->src), tmk_layout_md(operands->weights),
        md_or_null(operands->bias), tmk_layout_md(operands->dst));
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &op, attr, engine, NULL)
                                  : status;
}

dnnl_status_t tmk_desc_matmul(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                              const struct tmk_operands *operands, dnnl_primitive_desc_t *out) {
    dnnl_matmul_desc_t op;
    dnnl_status_t status =
        dnnl_matmul_desc_init(&op, tmk_layout_md(operands->src), tmk_layout_md(operands->weights),
                              md_or_null(operands->bias), tmk_layout_md(operands->dst));
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &op, attr, engine, NULL)
                                  : status;
}

#endif
