/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/onednn.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

/* ---- making ---- */

enum tmk_status tmk_dn_fits(dnnl_status_t status, bool *fits, struct tmk_diag *diag) {
    *fits = status == dnnl_success;
    switch (status) {
    case dnnl_success:
    case dnnl_unimplemented:
    case dnnl_invalid_arguments: /* as the check of shapes of a primitive says "not with me" */
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
                              enum tmk_form form) {
    bool wide =
        (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
    dnnl_format_tag_t plain = rank == 4 ? dnnl_nchw : dnnl_ncdhw,
                      blocked8 = rank == 4 ? dnnl_nChw8c : dnnl_nCdhw8c,
                      blocked16 = rank == 4 ? dnnl_nChw16c : dnnl_nCdhw16c;
    switch (form) {
    case TMK_FORM_PLAIN:
        return tmk_layout_tag(layout, rank, dims, plain);
    case TMK_FORM_BLOCKED:
        return tmk_layout_tag(layout, rank, dims, wide ? blocked16 : blocked8);
    case TMK_FORM_ANY:
        break;
    }
    return tmk_layout_tag(layout, rank, dims, dnnl_format_tag_any);
}

/* What the primitive wants of an argument. */
static tmk_md wanted(dnnl_primitive_desc_t desc, int role) {
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

/* *fits becomes false too when the reorder would need scratch memory of its own. */
static enum tmk_status make_reorder(const struct tmk_request *r, tmk_md from, tmk_md to,
                                    dnnl_primitive_t *out, bool *fits) {
    dnnl_primitive_desc_t desc;
    TMK_TRY(tmk_dn_fits(
        dnnl_reorder_primitive_desc_create(&desc, from, r->engine, to, r->engine, r->attr), fits,
        r->diag));
    if (!*fits)
        return TMK_OK;
    enum tmk_status status = TMK_OK;
    *fits = dnnl_memory_desc_get_size(
                dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0)) == 0;
    if (*fits)
        status = tmk_dn_fits(dnnl_primitive_create(out, desc), fits, r->diag);
    dnnl_primitive_desc_destroy(desc);
    return status;
}

/* Adds `bytes` to the scratch memory. */
static enum tmk_status reserve(struct tmk_accel *accel, size_t bytes, size_t *at,
                               struct tmk_diag *diag) {
    size_t end;
    if (!tmk_add_size(accel->scratch, bytes, &end) || !tmk_add_size(end, ALIGNMENT - 1, &end))
        return tmk_nomem(diag);
    *at = accel->scratch;
    accel->scratch = end & ~(size_t)(ALIGNMENT - 1);
    return TMK_OK;
}

static dnnl_status_t run_reorder(const struct tmk_accel *accel, dnnl_stream_t stream,
                                 dnnl_primitive_t reorder, tmk_md from, tmk_md to, void *source,
                                 void *target) {
    dnnl_memory_t memory[2] = {NULL, NULL};
    dnnl_status_t status = dnnl_memory_create(&memory[0], from, accel->engine, source);
    if (status == dnnl_success)
        status = dnnl_memory_create(&memory[1], to, accel->engine, target);
    if (status == dnnl_success) {
        const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, memory[0]}, {DNNL_ARG_TO, memory[1]}};
        status = dnnl_primitive_execute(reorder, stream, 2, args);
    }
    for (size_t i = 0; i < TMK_COUNT(memory); i++)
        if (memory[i])
            dnnl_memory_destroy(memory[i]);
    return status;
}

static enum tmk_status run_failure(dnnl_status_t status, struct tmk_diag *diag) {
    if (status == dnnl_success)
        return TMK_OK;
    return status == dnnl_out_of_memory
               ? tmk_nomem(diag)
               : tmk_fail(diag, TMK_MACHINE, "oneDNN answers %d while running", (int)status);
}

/* Brings a constant operand into the layout wanted. Its own bytes serve where they lie well. */
static enum tmk_status settle_constant(struct tmk_accel *accel, struct tmk_argument *argument,
                                       const void *data, struct tmk_diag *diag) {
    if (!argument->reorder && (uintptr_t)data % ALIGNMENT == 0) {
        argument->constant = data;
        return TMK_OK;
    }
    size_t bytes = dnnl_memory_desc_get_size(argument->wanted), rounded;
    if (!tmk_add_size(bytes, ALIGNMENT - 1, &rounded))
        return tmk_nomem(diag);
    argument->owned = aligned_alloc(ALIGNMENT, rounded & ~(size_t)(ALIGNMENT - 1));
    if (!argument->owned)
        return tmk_nomem(diag);
    argument->constant = argument->owned;
    if (!argument->reorder) {
        memcpy(argument->owned, data, bytes);
        return TMK_OK;
    }
    memset(argument->owned, 0, bytes);
    dnnl_stream_t stream;
    TMK_TRY(
        run_failure(dnnl_stream_create(&stream, accel->engine, dnnl_stream_default_flags), diag));
    dnnl_status_t status =
        run_reorder(accel, stream, argument->reorder, tmk_layout_md(&argument->plain),
                    argument->wanted, (void *)data, argument->owned);
    if (status == dnnl_success)
        status = dnnl_stream_wait(stream);
    dnnl_stream_destroy(stream);
    return run_failure(status, diag);
}

static enum tmk_status settle_argument(const struct tmk_request *r, struct tmk_accel *accel,
                                       struct tmk_argument *argument, bool *fits) {
    bool result = argument->operand == TMK_RESULT;
    tmk_md plain = tmk_layout_md(&argument->plain);
    argument->wanted = wanted(accel->desc, argument->role);
    *fits = true;
    bool same = dnnl_memory_desc_equal(plain, argument->wanted);
    if (!same)
        TMK_TRY(make_reorder(r, result ? argument->wanted : plain,
                             result ? plain : argument->wanted, &argument->reorder, fits));
    if (!*fits)
        return TMK_OK;
    const void *data = result || argument->moves ? NULL : r->in[argument->operand]->data;
    if (data)
        return settle_constant(accel, argument, data, r->diag);
    if (same)
        return TMK_OK;
    return reserve(accel, dnnl_memory_desc_get_size(argument->wanted), &argument->at, r->diag);
}

static enum tmk_status build(const struct tmk_request *r, struct tmk_accel *accel, bool *fits) {
    TMK_TRY(tmk_dn_fits(dnnl_primitive_create(&accel->primitive, accel->desc), fits, r->diag));
    size_t start;
    TMK_TRY(reserve(accel,
                    dnnl_memory_desc_get_size(
                        dnnl_primitive_desc_query_md(accel->desc, dnnl_query_scratchpad_md, 0)),
                    &start, r->diag));
    for (uint32_t i = 0; i < accel->n_arguments && *fits; i++)
        TMK_TRY(settle_argument(r, accel, &accel->arguments[i], fits));
    const char *info = "?";
    dnnl_primitive_desc_query(accel->desc, dnnl_query_impl_info_str, 0, &info);
    strcpy(accel->name, "onednn ");
    strncat(accel->name, info, sizeof accel->name - sizeof "onednn ");
    return TMK_OK;
}

enum tmk_status tmk_accel_build(const struct tmk_request *r, size_t size,
                                dnnl_primitive_desc_t desc, struct tmk_argument *arguments,
                                uint32_t n, struct tmk_accel **out) {
    struct tmk_accel *accel = calloc(1, size);
    if (!accel) {
        dnnl_primitive_desc_destroy(desc);
        for (uint32_t i = 0; i < n; i++)
            tmk_layout_finish(&arguments[i].plain);
        return tmk_nomem(r->diag);
    }
    accel->family = r->family;
    accel->node = r->node;
    accel->engine = r->engine;
    accel->desc = desc;
    accel->n_arguments = n;
    memcpy(accel->arguments, arguments, n * sizeof *arguments);
    bool fits = true;
    enum tmk_status status = build(r, accel, &fits);
    if (status == TMK_OK && fits)
        *out = accel;
    else
        tmk_accel_destroy(&accel);
    return status;
}

void tmk_accel_destroy(struct tmk_accel **accel) {
    struct tmk_accel *a = accel ? *accel : NULL;
    if (!a)
        return;
    for (uint32_t i = 0; i < a->n_arguments; i++) {
        if (a->arguments[i].reorder)
            dnnl_primitive_destroy(a->arguments[i].reorder);
        tmk_layout_finish(&a->arguments[i].plain);
        free(a->arguments[i].owned);
    }
    if (a->primitive)
        dnnl_primitive_destroy(a->primitive);
    dnnl_primitive_desc_destroy(a->desc);
    if (a->owns_engine)
        dnnl_engine_destroy(a->engine);
    free(a);
    *accel = NULL;
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

/* ---- running ---- */

static dnnl_status_t run_reorders(const struct tmk_accel *accel, dnnl_stream_t stream, bool results,
                                  void *const *data, char *scratch) {
    dnnl_status_t status = dnnl_success;
    for (uint32_t i = 0; i < accel->n_arguments && status == dnnl_success; i++) {
        const struct tmk_argument *a = &accel->arguments[i];
        tmk_md plain = tmk_layout_md(&a->plain);
        bool result = a->operand == TMK_RESULT;
        if (!a->reorder || a->constant || result != results)
            continue;
        status = result ? run_reorder(accel, stream, a->reorder, a->wanted, plain, scratch + a->at,
                                      data[i])
                        : run_reorder(accel, stream, a->reorder, plain, a->wanted, data[i],
                                      scratch + a->at);
    }
    return status;
}

static dnnl_status_t run_primitive(const struct tmk_accel *accel, dnnl_stream_t stream,
                                   void *const *data, char *scratch) {
    dnnl_exec_arg_t args[TMK_MAX_ARGUMENTS + 1];
    int n = 0;
    dnnl_status_t status = dnnl_success;
    for (uint32_t i = 0; i <= accel->n_arguments && status == dnnl_success; i++) {
        const struct tmk_argument *a = &accel->arguments[i];
        bool own = i == accel->n_arguments; /* its scratchpad */
        tmk_md md = own ? dnnl_primitive_desc_query_md(accel->desc, dnnl_query_scratchpad_md, 0)
                        : a->wanted;
        void *bytes = own           ? scratch
                      : a->constant ? (void *)a->constant
                      : a->reorder  ? scratch + a->at
                                    : data[i];
        args[n].arg = own ? DNNL_ARG_SCRATCHPAD : a->role;
        status = dnnl_memory_create(&args[n].memory, md, accel->engine, bytes);
        n += status == dnnl_success;
    }
    if (status == dnnl_success)
        status = dnnl_primitive_execute(accel->primitive, stream, n, args);
    while (n)
        dnnl_memory_destroy(args[--n].memory);
    return status;
}

enum tmk_status tmk_accel_execute(const struct tmk_accel *accel, void *const *data, void *scratch,
                                  unsigned parts, struct tmk_diag *diag) {
    dnnl_stream_t stream;
    dnnl_status_t status = dnnl_stream_create(&stream, accel->engine, dnnl_stream_default_flags);
    if (status != dnnl_success)
        return run_failure(status, diag);
    if (parts & TMK_PART_IN)
        status = run_reorders(accel, stream, false, data, scratch);
    if (status == dnnl_success && parts & TMK_PART_PRIMITIVE)
        status = run_primitive(accel, stream, data, scratch);
    if (status == dnnl_success && parts & TMK_PART_OUT)
        status = run_reorders(accel, stream, true, data, scratch);
    if (status == dnnl_success)
        status = dnnl_stream_wait(stream);
    dnnl_stream_destroy(stream);
    return run_failure(status, diag);
}

enum tmk_status tmk_accel_run_once(const struct tmk_accel *accel,
                                   const struct tmk_tensor *const *in,
                                   struct tmk_tensor *const *out, void *scratch,
                                   struct tmk_diag *diag) {
    void *data[TMK_MAX_ARGUMENTS];
    for (uint32_t i = 0; i < accel->n_arguments; i++) {
        int32_t operand = accel->arguments[i].operand;
        data[i] = operand == TMK_RESULT ? out[0]->data : in[operand]->data;
    }
    return tmk_accel_execute(accel, data, scratch, TMK_PART_ALL, diag);
}
