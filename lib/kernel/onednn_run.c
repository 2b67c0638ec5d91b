/* SPDX-License-Identifier: Apache-2.0 */
/* Running a primitive. oneDNN takes longer to make a stream and the objects that hold the
 * arguments' addresses than it takes for a small layer; so they are kept, and a run borrows a set
 * that is not in use. */
#include "kernel/onednn.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { SPARES = 8 }; /* sets that are not in use */

struct set {
    dnnl_stream_t stream;
    dnnl_memory_t inner[TMK_MAX_ARGUMENTS], /* as the primitive has them */
        outer[TMK_MAX_ARGUMENTS],           /* as they lie outside, where a run reorders them */
        scratchpad;
};

struct tmk_dn_pool {
    _Atomic(struct set *) spare[SPARES];
};

static bool is_reordered(const struct tmk_argument *argument) {
    return argument->reorder && !argument->constant;
}

static void destroy_set(struct set *set) {
    if (!set)
        return;
    for (size_t i = 0; i < TMK_MAX_ARGUMENTS; i++) {
        if (set->inner[i])
            dnnl_memory_destroy(set->inner[i]);
        if (set->outer[i])
            dnnl_memory_destroy(set->outer[i]);
    }
    if (set->scratchpad)
        dnnl_memory_destroy(set->scratchpad);
    if (set->stream)
        dnnl_stream_destroy(set->stream);
    free(set);
}

static dnnl_status_t fill_set(const struct tmk_dn *dn, struct set *set) {
    dnnl_status_t status = dnnl_stream_create(&set->stream, dn->engine, dnnl_stream_default_flags);
    if (status == dnnl_success)
        status = dnnl_memory_create(
            &set->scratchpad, dnnl_primitive_desc_query_md(dn->desc, dnnl_query_scratchpad_md, 0),
            dn->engine, NULL);
    for (uint32_t i = 0; i < dn->n_arguments && status == dnnl_success; i++) {
        const struct tmk_argument *a = &dn->arguments[i];
        status = dnnl_memory_create(&set->inner[i], a->wanted, dn->engine, (void *)a->constant);
        if (status == dnnl_success && is_reordered(a))
            status =
                dnnl_memory_create(&set->outer[i], tmk_layout_md(&a->outside), dn->engine, NULL);
    }
    return status;
}

static enum tmk_status make_set(const struct tmk_dn *dn, struct set **out, struct tmk_diag *diag) {
    struct set *set = calloc(1, sizeof *set);
    TMK_TRY_ALLOC(set, diag);
    enum tmk_status status = tmk_dn_ran(fill_set(dn, set), diag);
    if (status == TMK_OK)
        *out = set;
    else
        destroy_set(set);
    return status;
}

enum tmk_status tmk_dn_pool_create(const struct tmk_dn *dn, struct tmk_dn_pool **out,
                                   struct tmk_diag *diag) {
    struct set *first;
    TMK_TRY(make_set(dn, &first, diag));
    struct tmk_dn_pool *pool = calloc(1, sizeof *pool);
    if (!pool) {
        destroy_set(first);
        return tmk_nomem(diag);
    }
    for (size_t i = 0; i < SPARES; i++)
        atomic_init(&pool->spare[i], i ? NULL : first);
    *out = pool;
    return TMK_OK;
}

void tmk_dn_pool_destroy(struct tmk_dn_pool *pool) {
    for (size_t i = 0; pool && i < SPARES; i++)
        destroy_set(atomic_load(&pool->spare[i]));
    free(pool);
}

static enum tmk_status borrow_set(const struct tmk_dn *dn, struct set **out,
                                  struct tmk_diag *diag) {
    for (size_t i = 0; i < SPARES; i++) {
        struct set *set = atomic_exchange(&dn->pool->spare[i], NULL);
        if (set) {
            *out = set;
            return TMK_OK;
        }
    }
    return make_set(dn, out, diag);
}

static void give_back(const struct tmk_dn *dn, struct set *set) {
    for (size_t i = 0; i < SPARES; i++) {
        struct set *none = NULL;
        if (atomic_compare_exchange_strong(&dn->pool->spare[i], &none, set))
            return;
    }
    destroy_set(set);
}

static dnnl_status_t set_pointers(const struct tmk_dn *dn, struct set *set, void *const *data,
                                  char *scratch) {
    dnnl_status_t status = dnnl_memory_set_data_handle(set->scratchpad, scratch);
    for (uint32_t i = 0; i < dn->n_arguments && status == dnnl_success; i++) {
        const struct tmk_argument *a = &dn->arguments[i];
        if (a->constant)
            continue;
        status = dnnl_memory_set_data_handle(set->inner[i], a->reorder ? scratch + a->at : data[i]);
        if (status == dnnl_success && a->reorder)
            status = dnnl_memory_set_data_handle(set->outer[i], data[i]);
    }
    return status;
}

static dnnl_status_t run_reorders(const struct tmk_dn *dn, const struct set *set, bool results) {
    dnnl_status_t status = dnnl_success;
    for (uint32_t i = 0; i < dn->n_arguments && status == dnnl_success; i++) {
        const struct tmk_argument *a = &dn->arguments[i];
        bool result = a->operand == TMK_RESULT;
        if (!is_reordered(a) || result != results)
            continue;
        const dnnl_exec_arg_t args[] = {
            {DNNL_ARG_FROM, result ? set->inner[i] : set->outer[i]},
            {DNNL_ARG_TO, result ? set->outer[i] : set->inner[i]},
        };
        status = dnnl_primitive_execute(a->reorder, set->stream, TMK_COUNT(args), args);
    }
    return status;
}

static dnnl_status_t run_primitive(const struct tmk_dn *dn, const struct set *set) {
    dnnl_exec_arg_t args[TMK_MAX_ARGUMENTS + 1];
    int n = 0;
    for (; n < (int)dn->n_arguments; n++)
        args[n] = (dnnl_exec_arg_t){dn->arguments[n].role, set->inner[n]};
    args[n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, set->scratchpad};
    return dnnl_primitive_execute(dn->primitive, set->stream, n, args);
}

enum tmk_status tmk_dn_execute(const struct tmk_dn *dn, void *const *data, void *scratch,
                               unsigned parts, struct tmk_diag *diag) {
    struct set *set = NULL;
    TMK_TRY(borrow_set(dn, &set, diag));
    dnnl_status_t status = set_pointers(dn, set, data, scratch);
    if (status == dnnl_success && parts & TMK_PART_IN)
        status = run_reorders(dn, set, false);
    if (status == dnnl_success && parts & TMK_PART_PRIMITIVE)
        status = run_primitive(dn, set);
    if (status == dnnl_success && parts & TMK_PART_OUT)
        status = run_reorders(dn, set, true);
    if (status == dnnl_success)
        status = dnnl_stream_wait(set->stream);
    give_back(dn, set);
    return tmk_dn_ran(status, diag);
}

enum tmk_status tmk_dn_run_once(const struct tmk_accel *accel, const struct tmk_tensor *const *in,
                                struct tmk_tensor *const *out, void *scratch,
                                struct tmk_diag *diag) {
    const struct tmk_dn *dn = (const struct tmk_dn *)accel;
    void *data[TMK_MAX_ARGUMENTS];
    for (uint32_t i = 0; i < dn->n_arguments; i++) {
        int32_t operand = dn->arguments[i].operand;
        data[i] = operand == TMK_RESULT ? out[0]->data : in[operand]->data;
    }
    return tmk_dn_execute(dn, data, scratch, TMK_PART_ALL, diag);
}
