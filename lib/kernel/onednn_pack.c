/* SPDX-License-Identifier: Apache-2.0 */
/* Constant operands in the layout that a primitive wants. They are read a block at a time, and what
 * was read of a mapped file leaves memory: a weight is there once then, not twice. */
#include "kernel/onednn.h"

#include <string.h>

#include "base/memory.h"
#include "kernel/packs.h"
#include "tensor/elements.h"

/* UNIT: a multiple of oneDNN's blocks along any dimension. */
enum { ALIGNMENT = 64, UNIT = 64 };

/* ---- reorders that run once ---- */

/* In the library's scratch memory, which is the thread's. */
static dnnl_status_t describe_once(dnnl_engine_t engine, tmk_md from, tmk_md to,
                                   dnnl_primitive_desc_t *out) {
    return dnnl_reorder_primitive_desc_create(out, from, engine, to, engine, NULL);
}

static enum tmk_status can_reorder_once(const struct tmk_dn_request *r, tmk_md from, tmk_md to,
                                        bool *fits) {
    dnnl_primitive_desc_t desc = NULL;
    enum tmk_status status =
        tmk_dn_fits(describe_once(r->engine, from, to, &desc), fits, r->base.diag);
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    return status;
}

static dnnl_status_t create_once(dnnl_engine_t engine, tmk_md from, tmk_md to,
                                 dnnl_primitive_t *out) {
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status = describe_once(engine, from, to, &desc);
    if (status == dnnl_success)
        status = tmk_dn_primitive(out, desc);
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    return status;
}

static dnnl_status_t execute_once(dnnl_engine_t engine, dnnl_primitive_t reorder, tmk_md from,
                                  tmk_md to, const void *source, void *target) {
    dnnl_memory_t memory[2] = {NULL, NULL};
    dnnl_stream_t stream = NULL;
    dnnl_status_t status = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    if (status == dnnl_success)
        status = dnnl_memory_create(&memory[0], from, engine, (void *)source);
    if (status == dnnl_success)
        status = dnnl_memory_create(&memory[1], to, engine, target);
    if (status == dnnl_success) {
        const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, memory[0]}, {DNNL_ARG_TO, memory[1]}};
        status = dnnl_primitive_execute(reorder, stream, TMK_COUNT(args), args);
    }
    if (status == dnnl_success)
        status = dnnl_stream_wait(stream);
    for (size_t i = 0; i < TMK_COUNT(memory); i++)
        if (memory[i])
            dnnl_memory_destroy(memory[i]);
    if (stream)
        dnnl_stream_destroy(stream);
    return status;
}

static enum tmk_status reorder_once(dnnl_engine_t engine, tmk_md from, tmk_md to,
                                    const void *source, void *target, struct tmk_diag *diag) {
    dnnl_primitive_t reorder = NULL;
    dnnl_status_t status = create_once(engine, from, to, &reorder);
    if (status == dnnl_success)
        status = execute_once(engine, reorder, from, to, source, target);
    if (reorder)
        dnnl_primitive_destroy(reorder);
    return tmk_dn_ran(status, diag);
}

/* ---- blocks ---- */

/* A range of the source's outermost dimension, whose elements follow each other. */
struct block {
    int dim;
    int64_t first, n, extent, stride;
};

/* How the elements of a block lie, before and after, and the reorder between the two. */
struct step {
    struct tmk_layout from, to;
    dnnl_primitive_t reorder;
    int64_t n; /* 0: none was made */
};

static void finish_step(struct step *step) {
    tmk_layout_finish(&step->from);
    tmk_layout_finish(&step->to);
    if (step->reorder)
        dnnl_primitive_destroy(step->reorder);
    *step = (struct step){0};
}

static dnnl_status_t make_step(const struct tmk_argument *argument, const struct block *block,
                               struct step *step) {
    int64_t offset;
    finish_step(step);
    dnnl_status_t status = tmk_layout_part(&step->from, tmk_layout_md(&argument->outside),
                                           block->dim, 0, block->n, &offset);
    if (status == dnnl_success)
        status = tmk_layout_part(&step->to, argument->wanted, block->dim, block->first, block->n,
                                 &offset);
    if (status == dnnl_success)
        status = create_once(argument->dn->engine, tmk_layout_md(&step->from),
                             tmk_layout_md(&step->to), &step->reorder);
    step->n = status == dnnl_success ? block->n : 0;
    return status;
}

/* One reorder serves all blocks of one size: each begins `ahead` elements behind the block that it
 * was made for. */
static dnnl_status_t find_ahead(const struct tmk_argument *argument, const struct block *block,
                                int64_t *ahead) {
    struct tmk_layout part = {0};
    dnnl_status_t status =
        tmk_layout_part(&part, argument->wanted, block->dim, block->first, block->n, ahead);
    tmk_layout_finish(&part);
    return status;
}

static size_t elements_of(const struct tmk_argument *argument, const struct block *block,
                          size_t *first) {
    const size_t count = tmk_tensor_count(&argument->source),
                 n = (size_t)(block->n * block->stride);
    *first = argument->first + (size_t)(block->first * block->stride);
    return n < count - *first ? n : count - *first;
}

static dnnl_status_t fill_block(const struct tmk_argument *argument, const struct block *block,
                                struct step *step, void *scratch, float *to) {
    int64_t ahead = 0;
    size_t first;
    const size_t n = elements_of(argument, block, &first);
    dnnl_status_t status = block->n == step->n ? find_ahead(argument, block, &ahead)
                                               : make_step(argument, block, step);
    if (status == dnnl_success)
        status = execute_once(argument->dn->engine, step->reorder, tmk_layout_md(&step->from),
                              tmk_layout_md(&step->to),
                              tmk_elements(&argument->source, first, n, scratch), to + ahead);
    if (status == dnnl_success)
        tmk_elements_rest(&argument->source, first, n);
    return status;
}

static dnnl_status_t fill_each(const struct tmk_argument *argument, struct block *block,
                               int64_t most, void *scratch, float *to) {
    struct step step = {0};
    dnnl_status_t status = dnnl_success;
    for (; status == dnnl_success && block->first < block->extent; block->first += block->n) {
        block->n = block->extent - block->first < most ? block->extent - block->first : most;
        status = fill_block(argument, block, &step, scratch, to);
    }
    finish_step(&step);
    return status;
}

/* dnnl_unimplemented: its layouts cannot be divided. */
static dnnl_status_t fill_blocks(const struct tmk_argument *argument, float *to) {
    struct block block = {0};
    if (!tmk_elements_mapped(&argument->source) ||
        !tmk_layout_outermost(tmk_layout_md(&argument->outside), &block.dim, &block.extent,
                              &block.stride))
        return dnnl_unimplemented;
    const int64_t units = TMK_ELEMENTS_BLOCK / UNIT / block.stride,
                  most = units > 1 ? units * UNIT : UNIT,
                  rows = most < block.extent ? most : block.extent;
    const size_t bytes = tmk_elements_scratch(&argument->source, (size_t)(rows * block.stride));
    void *scratch = tmk_memory_mapped(bytes);
    if (!scratch)
        return dnnl_out_of_memory;
    dnnl_status_t status = fill_each(argument, &block, most, scratch, to);
    tmk_memory_free(scratch);
    return status;
}

/* ---- packs ---- */

/* In two steps. */
static enum tmk_status fill_gathered(const struct tmk_argument *argument, const float *source,
                                     void *to, struct tmk_diag *diag) {
    tmk_md outside = tmk_layout_md(&argument->outside),
           between = tmk_layout_md(&argument->gathered);
    const size_t bytes = dnnl_memory_desc_get_size(between);
    void *dense = tmk_memory_mapped(bytes);
    if (!dense)
        return tmk_memory_fail(diag, bytes, "a copy of weights to be transformed");
    dnnl_engine_t engine = argument->dn->engine;
    enum tmk_status status = reorder_once(engine, outside, between, source, dense, diag);
    TMK_THEN(status, reorder_once(engine, between, argument->wanted, dense, to, diag));
    tmk_memory_free(dense);
    return status;
}

/* Block by block, where its elements are widened or leave a mapped file again. */
static void copy_as_it_is(const struct tmk_argument *argument, float *to) {
    const struct tmk_tensor *source = &argument->source;
    const size_t count = dnnl_memory_desc_get_size(argument->wanted) / sizeof *to;
    for (size_t i = 0; i < count; i += TMK_ELEMENTS_BLOCK) {
        const size_t n = count - i < TMK_ELEMENTS_BLOCK ? count - i : (size_t)TMK_ELEMENTS_BLOCK;
        const float *from = tmk_elements(source, argument->first + i, n, to + i);
        if (from != to + i)
            memcpy(to + i, from, n * sizeof *to);
        tmk_elements_rest(source, argument->first + i, n);
    }
}

static enum tmk_status fill_whole(const struct tmk_argument *argument, void *to,
                                  struct tmk_diag *diag) {
    const size_t count = tmk_tensor_count(&argument->source) - argument->first;
    const size_t bytes = tmk_elements_scratch(&argument->source, count);
    void *scratch = tmk_memory_mapped(bytes);
    if (!scratch)
        return tmk_memory_fail(diag, bytes, "weights to be packed");
    const float *source = tmk_elements(&argument->source, argument->first, count, scratch);
    enum tmk_status status = TMK_OK;
    if (argument->gathered.made)
        status = fill_gathered(argument, source, to, diag);
    else
        status = reorder_once(argument->dn->engine, tmk_layout_md(&argument->outside),
                              argument->wanted, source, to, diag);
    tmk_memory_free(scratch);
    return status;
}

/* tmk_pack_writer.write */
static enum tmk_status fill_pack(void *context, void *to, struct tmk_diag *diag) {
    const struct tmk_argument *argument = context;
    if (!tmk_memory_charge(argument->workspace))
        return tmk_memory_fail(diag, argument->workspace, "transforming weights");
    dnnl_status_t done = dnnl_success;
    if (argument->gathered.made)
        done = dnnl_unimplemented;
    else if (argument->as_it_is)
        copy_as_it_is(argument, to);
    else
        done = fill_blocks(argument, to);
    enum tmk_status status =
        done == dnnl_unimplemented ? fill_whole(argument, to, diag) : tmk_dn_ran(done, diag);
    tmk_elements_rest(&argument->source, argument->first,
                      tmk_tensor_count(&argument->source) - argument->first);
    tmk_memory_uncharge(argument->workspace);
    return status;
}

enum tmk_status tmk_dn_settle(const struct tmk_dn_request *request, struct tmk_dn *dn,
                              struct tmk_argument *argument, const struct tmk_tensor *operand,
                              bool *fits) {
    const struct tmk_request *r = &request->base;
    const bool lazy = tmk_tensor_is_lazy(operand);
    const float *data = lazy ? NULL : (const float *)operand->data + argument->first;
    *fits = true;
    if (data && argument->as_it_is && (uintptr_t)data % ALIGNMENT == 0) {
        argument->constant = data;
        return TMK_OK;
    }
    if (!argument->as_it_is)
        TMK_TRY(can_reorder_once(request, tmk_dn_reordered(argument), argument->wanted, fits));
    if (!*fits)
        return TMK_OK;
    bool made;
    /* parts of a lazy operand are told apart by a byte for each element */
    const void *source =
        lazy ? (const char *)tmk_elements_address(operand) + argument->first : (const void *)data;
    TMK_TRY(tmk_pack_get(r->packs, source, tmk_layout_md(&argument->outside), argument->wanted,
                         &argument->pack, &made, r->diag));
    argument->constant = tmk_pack_bytes(argument->pack);
    if (argument->operand < 32)
        dn->base.packed |= 1u << argument->operand;
    tmk_tensor_share(&argument->source, operand);
    argument->dn = dn;
    if (!made)
        return TMK_OK;
    dn->base.held += dnnl_memory_desc_get_size(argument->wanted);
    const struct tmk_pack_writer writer = {fill_pack, argument, r->node};
    return tmk_pack_write(argument->pack, &writer, r->diag);
}

/* ---- loading ---- */

enum tmk_status tmk_dn_load(struct tmk_accel *accel, struct tmk_diag *diag) {
    struct tmk_dn *dn = (struct tmk_dn *)accel;
    for (uint32_t i = 0; i < dn->n_arguments; i++) {
        struct tmk_argument *argument = &dn->arguments[i];
        const struct tmk_pack_writer writer = {fill_pack, argument, accel->node};
        if (!argument->pack)
            continue;
        TMK_TRY(tmk_pack_load(argument->pack, &writer, diag));
        argument->constant = tmk_pack_bytes(argument->pack);
    }
    tmk_dn_pool_destroy(dn->pool); /* it has the constants' addresses */
    dn->pool = NULL;
    return tmk_dn_pool_create(dn, &dn->pool, diag);
}

void tmk_dn_unload(struct tmk_accel *accel) {
    struct tmk_dn *dn = (struct tmk_dn *)accel;
    for (uint32_t i = 0; i < dn->n_arguments; i++) {
        if (!dn->arguments[i].pack)
            continue;
        tmk_pack_unload(dn->arguments[i].pack);
        dn->arguments[i].constant = NULL;
    }
}
