/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between oneDNN 2 (from 2.6 on) and 3, in one place: memory descriptors are structs
 * there and handles here, and primitive descriptors are made from operation descriptors there and
 * directly here. Everything else of oneDNN is called by its own name. Statuses are oneDNN's. */
#pragma once

#include <stdbool.h>

#include <oneapi/dnnl/dnnl.h>

#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t tmk_md;
#else
typedef const dnnl_memory_desc_t *tmk_md;
#endif

/* One of this machine's processor. Any failure is one of memory. */
dnnl_status_t tmk_engine_create(dnnl_engine_t *out);

/* How the float32 elements of an operand lie in memory; owned. Zero-initialised is empty. Must not
 * move while its tmk_md is in use. */
struct tmk_layout {
    dnnl_memory_desc_t desc;
    bool made;
};

/* dnnl_format_tag_any leaves the choice to the primitive. */
dnnl_status_t tmk_layout_tag(struct tmk_layout *layout, int rank, const dnnl_dims_t dims,
                             dnnl_format_tag_t tag);
/* Strides in elements. */
dnnl_status_t tmk_layout_strided(struct tmk_layout *layout, int rank, const dnnl_dims_t dims,
                                 const dnnl_dims_t strides);
/* The same as md, owned. */
dnnl_status_t tmk_layout_copy(struct tmk_layout *layout, tmk_md md);
/* An empty one is allowed. */
void tmk_layout_finish(struct tmk_layout *layout);
tmk_md tmk_layout_md(const struct tmk_layout *layout);
/* The dimension along which a strided layout's elements are furthest apart, and by how many
 * elements; false where it has blocks. */
bool tmk_layout_outermost(tmk_md md, int *dim, int64_t *extent, int64_t *stride);
/* The part [first, first + n) along one dimension, `offset` elements behind the whole's first.
 * dnnl_unimplemented where a block of the layout would be cut. */
dnnl_status_t tmk_layout_part(struct tmk_layout *part, tmk_md whole, int dim, int64_t first,
                              int64_t n, int64_t *offset);

/* Operands of a primitive; bias and weights may be NULL where there is none. */
struct tmk_operands {
    const struct tmk_layout *src, *weights, *bias, *dst;
};

/* A window in oneDNN's terms: dilation 0 is none. */
struct tmk_sliding {
    dnnl_dims_t kernel, stride, dilation, begin, end;
};

/* The same attributes, of primitives that add their result to what is there; end *out with
 * dnnl_primitive_attr_destroy. */
dnnl_status_t tmk_attr_adding(const_dnnl_primitive_attr_t like, dnnl_primitive_attr_t *out);

/* All are for inference; end *out with dnnl_primitive_desc_destroy. Convolutions run the direct
 * algorithm. */
dnnl_status_t tmk_desc_convolution(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                                   const struct tmk_operands *operands,
                                   const struct tmk_sliding *sliding, bool transposed,
                                   dnnl_primitive_desc_t *out);
/* Winograd's F(2x2, 3x3) and no other of his: see winograd.c. dnnl_unimplemented where the library
 * has none that fits. */
dnnl_status_t tmk_desc_winograd(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                                const struct tmk_operands *operands,
                                const struct tmk_sliding *sliding, dnnl_primitive_desc_t *out);
dnnl_status_t tmk_desc_pooling(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                               dnnl_alg_kind_t kind, const struct tmk_operands *operands,
                               const struct tmk_sliding *sliding, dnnl_primitive_desc_t *out);
dnnl_status_t tmk_desc_inner_product(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                                     const struct tmk_operands *operands,
                                     dnnl_primitive_desc_t *out);
dnnl_status_t tmk_desc_matmul(dnnl_engine_t engine, dnnl_primitive_attr_t attr,
                              const struct tmk_operands *operands, dnnl_primitive_desc_t *out);
