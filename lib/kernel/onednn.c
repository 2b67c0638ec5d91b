/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/onednn.h"

#include <oneapi/dnnl/dnnl_debug.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "kernel/packs.h"
#include "tensor/elements.h"

/* CODE is about what oneDNN generates for one primitive, and keeps with it; ROOM is eight times
 * the address space that kept digits.onnx from crashing, and the stacks of two threads. */
enum { ALIGNMENT = 64, CODE = 64 << 10, ROOM = 32 << 20 };

/* ---- making ---- */

/* oneDNN 2.6 checks no allocation of its own, of code or of objects, and ends by SIGSEGV without:
 * so there must be room for all that one call may take, and other threads meanwhile. */
static bool has_room(void) {
    void *room = mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return false;
    munmap(room, ROOM);
    return true;
}

dnnl_status_t tmk_dn_primitive(dnnl_primitive_t *out, const_dnnl_primitive_desc_t desc) {
    return has_room() ? dnnl_primitive_create(out, desc) : dnnl_out_of_memory;
}

static dnnl_status_t create_engine(dnnl_engine_t *out) {
    return has_room() ? tmk_engine_create(out) : dnnl_out_of_memory;
}

enum tmk_status tmk_dn_fits(dnnl_status_t status, bool *fits, struct tmk_diag *diag) {
    *fits = status == dnnl_success;
    switch (status) {
    case dnnl_success:
    case dnnl_unimplemented:
    case dnnl_invalid_arguments: /* as a primitive's check of shapes rejects them */
        return TMK_OK;
    case dnnl_out_of_memory:
        return tmk_nomem(diag);
    default:
        return tmk_fail(diag, TMK_MACHINE, "oneDNN answers %d while preparing a kernel",
                        (int)status);
    }
}

bool tmk_dn_fast(dnnl_primitive_desc_t desc) {
    const char *info = "";
    if (dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &info) != dnnl_success)
        return false;
    return !strstr(info, "ref") && !strstr(info, "simple");
}

dnnl_status_t tmk_layout_form(struct tmk_layout *layout, int rank, const dnnl_dims_t dims,
                              int32_t block) {
    switch (block) {
    case TMK_ANY:
        return tmk_layout_tag(layout, rank, dims, dnnl_format_tag_any);
    case 0:
        return tmk_layout_tag(layout, rank, dims, rank == 4 ? dnnl_nchw : dnnl_ncdhw);
    case 8:
        return tmk_layout_tag(layout, rank, dims, rank == 4 ? dnnl_nChw8c : dnnl_nCdhw8c);
    case 16:
        return tmk_layout_tag(layout, rank, dims, rank == 4 ? dnnl_nChw16c : dnnl_nCdhw16c);
    default:
        return dnnl_unimplemented;
    }
}

/* What the primitive wants of an argument. */
static tmk_md query_layout(dnnl_primitive_desc_t desc, int role) {
    switch (role) {
    case DNNL_ARG_SRC:
        return dnnl_primitive_desc_query_md(desc, dnnl_query_src_md, 0);
    case DNNL_ARG_WEIGHTS:
        return dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
    case DNNL_ARG_BIAS:
        return dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 1);
    default:
        return dnnl_primitive_desc_query_md(desc, dnnl_query_dst_md, 0);
    }
}

/* Of what runs again and again; `*fits` becomes false too where it would need scratch memory of its
 * own in each run. */
static enum tmk_status make_reorder(const struct tmk_dn_request *r, tmk_md from, tmk_md to,
                                    dnnl_primitive_t *out, bool *fits) {
    dnnl_primitive_desc_t desc;
    TMK_TRY(tmk_dn_fits(
        dnnl_reorder_primitive_desc_create(&desc, from, r->engine, to, r->engine, r->attr), fits,
        r->base.diag));
    if (!*fits)
        return TMK_OK;
    enum tmk_status status = TMK_OK;
    *fits = dnnl_memory_desc_get_size(
                dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0)) == 0;
    if (*fits)
        status = tmk_dn_fits(tmk_dn_primitive(out, desc), fits, r->base.diag);
    dnnl_primitive_desc_destroy(desc);
    return status;
}

/* Adds `bytes` to the scratch memory. */
static enum tmk_status reserve_scratch(struct tmk_dn *dn, size_t bytes, size_t *at,
                                       struct tmk_diag *diag) {
    size_t end;
    TMK_TRY_ALLOC(tmk_add_size(dn->base.scratch, bytes, &end) &&
                      tmk_add_size(end, ALIGNMENT - 1, &end),
                  diag);
    *at = dn->base.scratch;
    dn->base.scratch = end & ~(size_t)(ALIGNMENT - 1);
    return TMK_OK;
}

static void finish_argument(struct tmk_argument *argument) {
    tmk_layout_finish(&argument->outside);
    tmk_layout_finish(&argument->gathered);
    tmk_tensor_finish(&argument->source);
}

tmk_md tmk_dn_reordered(const struct tmk_argument *argument) {
    return tmk_layout_md(argument->gathered.made ? &argument->gathered : &argument->outside);
}

enum tmk_status tmk_dn_ran(dnnl_status_t status, struct tmk_diag *diag) {
    if (status == dnnl_success)
        return TMK_OK;
    return status == dnnl_out_of_memory
               ? tmk_nomem(diag)
               : tmk_fail(diag, TMK_MACHINE, "oneDNN answers %d while running", (int)status);
}

static enum tmk_status fix_argument(const struct tmk_dn_request *r, struct tmk_dn *dn,
                                    struct tmk_argument *argument, bool *fits) {
    bool result = argument->operand == TMK_RESULT;
    tmk_md outside = tmk_dn_reordered(argument);
    argument->wanted = query_layout(dn->desc, argument->role);
    argument->as_it_is = dnnl_memory_desc_equal(outside, argument->wanted);
    *fits = true;
    const struct tmk_tensor *operand =
        result || argument->moves ? NULL : r->base.in[argument->operand];
    if (operand && tmk_tensor_has_elements(operand))
        return tmk_dn_settle(r, dn, argument, operand, fits);
    if (argument->as_it_is)
        return TMK_OK;
    TMK_TRY(make_reorder(r, result ? argument->wanted : outside,
                         result ? outside : argument->wanted, &argument->reorder, fits));
    if (!*fits)
        return TMK_OK;
    return reserve_scratch(dn, dnnl_memory_desc_get_size(argument->wanted), &argument->at,
                           r->base.diag);
}

static enum tmk_status build_primitive(const struct tmk_dn_request *r, struct tmk_dn *dn,
                                       bool *fits) {
    if (!tmk_memory_charge(CODE))
        return tmk_memory_fail(r->base.diag, CODE, "a kernel of oneDNN");
    dn->base.held = dn->base.code = CODE;
    TMK_TRY(tmk_dn_fits(tmk_dn_primitive(&dn->primitive, dn->desc), fits, r->base.diag));
    size_t start;
    TMK_TRY(reserve_scratch(dn,
                            dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(
                                dn->desc, dnnl_query_scratchpad_md, 0)),
                            &start, r->base.diag));
    for (uint32_t i = 0; i < dn->n_arguments && *fits; i++)
        TMK_TRY(fix_argument(r, dn, &dn->arguments[i], fits));
    if (*fits)
        TMK_TRY(tmk_dn_pool_create(dn, &dn->pool, r->base.diag));
    const char *info = "?";
    dnnl_primitive_desc_query(dn->desc, dnnl_query_impl_info_str, 0, &info);
    strcpy(dn->base.name, "onednn ");
    strncat(dn->base.name, info, sizeof dn->base.name - sizeof "onednn ");
    return TMK_OK;
}

enum tmk_status tmk_dn_build(const struct tmk_dn_request *r, size_t size,
                             dnnl_primitive_desc_t desc, struct tmk_argument *arguments, uint32_t n,
                             struct tmk_dn **out) {
    struct tmk_dn *dn = calloc(1, size);
    if (!dn) {
        dnnl_primitive_desc_destroy(desc);
        for (uint32_t i = 0; i < n; i++)
            finish_argument(&arguments[i]);
        return tmk_nomem(r->base.diag);
    }
    dn->base.family = r->base.family;
    dn->base.node = r->base.node;
    dn->engine = r->engine;
    dn->desc = desc;
    dn->n_arguments = n;
    memcpy(dn->arguments, arguments, n * sizeof *arguments);
    bool fits = true;
    enum tmk_status status = build_primitive(r, dn, &fits);
    if (status == TMK_OK && fits)
        *out = dn;
    else
        tmk_dn_destroy(&dn->base);
    return status;
}

/* oneDNN's generated code has 32-bit offsets, in bytes. */
static bool suits_library(enum tmk_dtype dtype, const struct tmk_shape *shape) {
    enum { WIDEST = 16 };
    struct tmk_shape filled = *shape;
    size_t count;
    if (filled.rank > 2 && filled.dim[1] <= INT32_MAX)
        filled.dim[1] = (filled.dim[1] + WIDEST - 1) / WIDEST * WIDEST;
    return dtype == TMK_FLOAT32 && tmk_shape_count(&filled, &count) && count > 0 &&
           count <= INT32_MAX / sizeof(float);
}

static bool all_suit(const struct tmk_request *r) {
    if (!suits_library(r->result->dtype, &r->result->shape))
        return false;
    for (uint32_t i = 0; i < r->node->n_inputs; i++)
        if (r->in[i] && !suits_library(r->in[i]->dtype, &r->in[i]->shape))
            return false;
    return true;
}

/* User scratchpads let threads share a primitive; strict: no bfloat16 or TF32 in between. */
static dnnl_status_t make_attr(dnnl_primitive_attr_t *out) {
    dnnl_status_t status = dnnl_primitive_attr_create(out);
    if (status != dnnl_success)
        return status;
    status = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_fpmath_mode(*out, dnnl_fpmath_mode_strict);
    if (status != dnnl_success)
        dnnl_primitive_attr_destroy(*out);
    return status;
}

enum tmk_status tmk_dn_open(const struct tmk_request *request, struct tmk_dn_request *out,
                            bool *fits) {
    struct tmk_dn_request r = {.base = *request};
    *fits = all_suit(request);
    if (!*fits)
        return TMK_OK;
    TMK_TRY(tmk_dn_fits(create_engine(&r.engine), fits, request->diag));
    if (!*fits)
        return TMK_OK;
    enum tmk_status status = tmk_dn_fits(make_attr(&r.attr), fits, request->diag);
    if (status == TMK_OK && *fits)
        *out = r;
    else
        dnnl_engine_destroy(r.engine);
    return status;
}

void tmk_dn_close(struct tmk_dn_request *request) {
    dnnl_primitive_attr_destroy(request->attr);
    dnnl_engine_destroy(request->engine);
}

enum tmk_status tmk_dn_create(const struct tmk_request *request,
                              enum tmk_status (*make)(const struct tmk_dn_request *request,
                                                      struct tmk_dn **dn),
                              struct tmk_accel **out) {
    struct tmk_dn_request r;
    struct tmk_dn *dn = NULL;
    bool fits;
    TMK_TRY(tmk_dn_open(request, &r, &fits));
    if (!fits)
        return TMK_OK;
    enum tmk_status status = make(&r, &dn);
    if (!dn) {
        tmk_dn_close(&r);
        return status;
    }
    dnnl_primitive_attr_destroy(r.attr);
    dn->owns_engine = true;
    *out = &dn->base;
    return status;
}

void tmk_dn_destroy(struct tmk_accel *accel) {
    struct tmk_dn *dn = (struct tmk_dn *)accel;
    tmk_dn_pool_destroy(dn->pool);
    for (uint32_t i = 0; i < dn->n_arguments; i++) {
        tmk_pack_finalize(dn->arguments[i].pack);
        if (dn->arguments[i].reorder)
            dnnl_primitive_destroy(dn->arguments[i].reorder);
        finish_argument(&dn->arguments[i]);
        tmk_pack_release(dn->arguments[i].pack);
    }
    if (dn->primitive)
        dnnl_primitive_destroy(dn->primitive);
    dnnl_primitive_desc_destroy(dn->desc);
    tmk_memory_uncharge(dn->base.code);
    if (dn->owns_engine)
        dnnl_engine_destroy(dn->engine);
    free(dn);
}

/* ---- windows ---- */

bool tmk_spatial_of(const struct tmk_window *window, struct tmk_spatial *out) {
    enum { LIMIT = 1 << 20 };
    if (window->n < 1 || window->n > 3)
        return false;
    struct tmk_spatial s = {.rank = window->n == 1 ? 2 : window->n};
    struct tmk_sliding *w = &s.sliding;
    s.in[0] = s.out[0] = w->kernel[0] = w->stride[0] = 1;
    for (int32_t i = 0; i < window->n; i++) {
        int to = s.rank - window->n + i;
        s.in[to] = window->in[i];
        s.out[to] = window->out[i];
        w->kernel[to] = window->kernel[i];
        w->stride[to] = window->stride[i];
        w->dilation[to] = window->dilation[i] - 1;
        w->begin[to] = window->begin[i];
        /* oneDNN checks its padding against the shapes: more of it where the last window of
         * ceil_mode reaches beyond `end`, none where an output has elements at its end that no
         * window reaches. */
        int64_t reach = (window->kernel[i] - 1) * window->dilation[i] + 1,
                beyond = (window->out[i] - 1) * window->stride[i] + reach - window->in[i] -
                         window->begin[i],
                end = window->transposed ? 0 : beyond;
        w->end[to] = end > window->end[i] ? end : window->end[i];
        if (reach > LIMIT || window->stride[i] > LIMIT || window->begin[i] > LIMIT ||
            w->end[to] > LIMIT)
            return false;
    }
    *out = s;
    return true;
}

int tmk_spatial_dims(const struct tmk_spatial *spatial, int64_t batch, int64_t channels,
                     const dnnl_dims_t axes, dnnl_dims_t dims) {
    dims[0] = batch;
    dims[1] = channels;
    memcpy(dims + 2, axes, (size_t)spatial->rank * sizeof *axes);
    return spatial->rank + 2;
}

/* oneDNN as a whole: which families it serves, and its version and settings. */

const struct tmk_family *const tmk_library_families[] = {
    &tmk_family_conv, &tmk_family_conv_transpose, &tmk_family_matmul,
    &tmk_family_gemm, &tmk_family_pool,           NULL,
};

uint32_t tmk_kernel_block(void) {
    bool wide =
        (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
    return wide ? 16 : 8;
}

const char *tmk_kernel_library(void) {
    static _Thread_local char text[64];
    static const char prefix[] = "cpu_isa_";
    const dnnl_version_t *version = dnnl_version();
    const char *isa = dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa());
    if (strncmp(isa, prefix, sizeof prefix - 1) == 0)
        isa += sizeof prefix - 1;
    snprintf(text, sizeof text, "oneDNN %d.%d.%d (%s)", version->major, version->minor,
             version->patch, isa);
    return text;
}
