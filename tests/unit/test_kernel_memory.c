/* SPDX-License-Identifier: Apache-2.0 */
/* oneDNN without memory, in each of its calls that take some: that is an error, and never another
 * kernel or layout. */
#include "kernel_case.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/size.h"
#include "kernel/shim.h"

static atomic_int calls;
static int failing; /* the call that fails, from 1; 0: none */

/* These stand before the library's own, for the kernels too, which other tests run in threads. */
#define FAILS(name, parameters, arguments)                                                         \
    dnnl_status_t name parameters {                                                                \
        static _Atomic(void *) found;                                                              \
        dnnl_status_t(*own) parameters;                                                            \
        if (!found)                                                                                \
            found = dlsym(RTLD_NEXT, #name);                                                       \
        *(void **)&own = found;                                                                    \
        return ++calls == failing ? dnnl_out_of_memory : own arguments;                            \
    }

FAILS(dnnl_engine_create, (dnnl_engine_t * out, dnnl_engine_kind_t kind, size_t i), (out, kind, i))
FAILS(dnnl_primitive_attr_create, (dnnl_primitive_attr_t * out), (out))
FAILS(dnnl_primitive_attr_clone, (dnnl_primitive_attr_t * out, const_dnnl_primitive_attr_t attr),
      (out, attr))
FAILS(dnnl_primitive_attr_set_post_ops, (dnnl_primitive_attr_t attr, const_dnnl_post_ops_t ops),
      (attr, ops))
FAILS(dnnl_post_ops_create, (dnnl_post_ops_t * out), (out))
FAILS(dnnl_primitive_create, (dnnl_primitive_t * out, const_dnnl_primitive_desc_t desc),
      (out, desc))
FAILS(dnnl_reorder_primitive_desc_create,
      (dnnl_primitive_desc_t * out, tmk_md from, dnnl_engine_t from_engine, tmk_md to,
       dnnl_engine_t to_engine, const_dnnl_primitive_attr_t attr),
      (out, from, from_engine, to, to_engine, attr))
FAILS(dnnl_stream_create, (dnnl_stream_t * out, dnnl_engine_t engine, unsigned flags),
      (out, engine, flags))
FAILS(dnnl_memory_create, (dnnl_memory_t * out, tmk_md md, dnnl_engine_t engine, void *bytes),
      (out, md, engine, bytes))
#if DNNL_VERSION_MAJOR >= 3
FAILS(dnnl_memory_desc_create_with_tag,
      (dnnl_memory_desc_t * out, int rank, const dnnl_dims_t dims, dnnl_data_type_t type,
       dnnl_format_tag_t tag),
      (out, rank, dims, type, tag))
FAILS(dnnl_memory_desc_create_with_strides,
      (dnnl_memory_desc_t * out, int rank, const dnnl_dims_t dims, dnnl_data_type_t type,
       const dnnl_dims_t strides),
      (out, rank, dims, type, strides))
FAILS(dnnl_memory_desc_create_submemory,
      (dnnl_memory_desc_t * out, tmk_md whole, const dnnl_dims_t dims, const dnnl_dims_t offsets),
      (out, whole, dims, offsets))
FAILS(dnnl_memory_desc_clone, (dnnl_memory_desc_t * out, tmk_md md), (out, md))
FAILS(dnnl_primitive_desc_next_impl, (dnnl_primitive_desc_t desc), (desc))
FAILS(dnnl_convolution_forward_primitive_desc_create,
      (dnnl_primitive_desc_t * out, dnnl_engine_t engine, dnnl_prop_kind_t prop,
       dnnl_alg_kind_t kind, tmk_md src, tmk_md weights, tmk_md bias, tmk_md dst,
       const dnnl_dims_t strides, const dnnl_dims_t dilates, const dnnl_dims_t begin,
       const dnnl_dims_t end, const_dnnl_primitive_attr_t attr),
      (out, engine, prop, kind, src, weights, bias, dst, strides, dilates, begin, end, attr))
FAILS(dnnl_deconvolution_forward_primitive_desc_create,
      (dnnl_primitive_desc_t * out, dnnl_engine_t engine, dnnl_prop_kind_t prop,
       dnnl_alg_kind_t kind, tmk_md src, tmk_md weights, tmk_md bias, tmk_md dst,
       const dnnl_dims_t strides, const dnnl_dims_t dilates, const dnnl_dims_t begin,
       const dnnl_dims_t end, const_dnnl_primitive_attr_t attr),
      (out, engine, prop, kind, src, weights, bias, dst, strides, dilates, begin, end, attr))
FAILS(dnnl_pooling_forward_primitive_desc_create,
      (dnnl_primitive_desc_t * out, dnnl_engine_t engine, dnnl_prop_kind_t prop,
       dnnl_alg_kind_t kind, tmk_md src, tmk_md dst, const dnnl_dims_t strides,
       const dnnl_dims_t kernel, const dnnl_dims_t dilates, const dnnl_dims_t begin,
       const dnnl_dims_t end, const_dnnl_primitive_attr_t attr),
      (out, engine, prop, kind, src, dst, strides, kernel, dilates, begin, end, attr))
FAILS(dnnl_inner_product_forward_primitive_desc_create,
      (dnnl_primitive_desc_t * out, dnnl_engine_t engine, dnnl_prop_kind_t prop, tmk_md src,
       tmk_md weights, tmk_md bias, tmk_md dst, const_dnnl_primitive_attr_t attr),
      (out, engine, prop, src, weights, bias, dst, attr))
FAILS(dnnl_matmul_primitive_desc_create,
      (dnnl_primitive_desc_t * out, dnnl_engine_t engine, tmk_md src, tmk_md weights, tmk_md bias,
       tmk_md dst, const_dnnl_primitive_attr_t attr),
      (out, engine, src, weights, bias, dst, attr))
#else
FAILS(dnnl_primitive_desc_create,
      (dnnl_primitive_desc_t * out, const_dnnl_op_desc_t op, const_dnnl_primitive_attr_t attr,
       dnnl_engine_t engine, const_dnnl_primitive_desc_t hint),
      (out, op, attr, engine, hint))
FAILS(dnnl_primitive_desc_iterator_create,
      (dnnl_primitive_desc_iterator_t * out, const_dnnl_op_desc_t op,
       const_dnnl_primitive_attr_t attr, dnnl_engine_t engine, const_dnnl_primitive_desc_t hint),
      (out, op, attr, engine, hint))
FAILS(dnnl_primitive_desc_iterator_next, (dnnl_primitive_desc_iterator_t each), (each))
#endif

static enum tmk_status choose(struct fixture *f, struct tmk_packs *packs, uint32_t have) {
    enum tmk_status status =
        tmk_accel_preferred_layout(f->node, f->in_known, f->type, have, &f->layout, DIAG);
    return status == TMK_OK
               ? tmk_accel_create(f->node, f->in_known, f->type, f->layout, packs, &f->accel, DIAG)
               : status;
}

TEST(no_memory_is_never_another_kernel) {
    static const char *const nodes[] = {
        "input %x : f32[1,16,10,10]\n input %w : f32[16,16,3,3]\n"
        " %y = Conv(%x, %w) {pads=[1,1,1,1]}",
        "input %x : f32[1,3,10,10]\n input %w : f32[16,3,3,3]\n input %b : f32[16]\n"
        " %y = Conv(%x, %w, %b)",
        "input %x : f32[1,24,9,9]\n input %w : f32[24,1,3,3]\n %y = Conv(%x, %w) {group=24}",
        "input %x : f32[2,512,10,10]\n input %w : f32[16,512,3,3]\n"
        " %y = Conv(%x, %w) {pads=[1,1,1,1]}",
        "input %x : f32[1,16,7,7]\n input %w : f32[16,8,3,3]\n %y = ConvTranspose(%x, %w)",
        "input %x : f32[1,16,9,9]\n %y = MaxPool(%x) {kernel_shape=[3,3]}",
        "input %x : f32[12,40]\n input %w : f32[40,24]\n %y = MatMul(%x, %w)",
        "input %x : f32[3,12,40]\n input %w : f32[3,40,24]\n %y = MatMul(%x, %w)",
        "input %x : f32[12,40]\n input %w : f32[24,40]\n %y = Gemm(%x, %w) {transB=1}",
    };
    int most = 0;
    tmk_kernel_enter_thread();
    for (size_t i = 0; i < 2 * TMK_COUNT(nodes); i++) {
        char text[512];
        struct fixture f;
        struct tmk_packs *packs;
        bool told = true;
        snprintf(text, sizeof text, "graph \"g\" opset 17 {\n %s\n output %%y\n}\n", nodes[i / 2]);
        assert_true(set_up(&f, text, 6));
        must(tmk_packs_create(&packs, DIAG));
        for (int k = 1; told; k++) {
            calls = 0;
            failing = k;
            enum tmk_status status = choose(&f, packs, i % 2 ? tmk_kernel_block() : 0);
            failing = 0;
            told = calls >= k;
            if (status != (told ? TMK_NOMEM : TMK_OK))
                fail_msg("call %d of oneDNN fails: status %d\n%s", k, (int)status, text);
            tmk_accel_destroy(&f.accel);
            most = k > most ? k : most;
        }
        tear_down(&f);
        tmk_packs_destroy(&packs);
    }
    assert_true(most > 10);
}
