/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a Relay module. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/diag.h"
#include "base/memory.h"
#include "relay/ast.h"

enum { SLOT = 16, SLOTS = 256 };

/* Scalars lie many to a buf, one to a slot. */
struct tmk_relay_pool {
    struct tmk_buf **bufs;
    size_t n, size, used; /* slots of the last buf */
};

enum tmk_status tmk_relay_module_create(struct tmk_relay_module **out, struct tmk_diag *diag) {
    struct tmk_relay_module *module = calloc(1, sizeof *module);
    struct tmk_relay_pool *pool = calloc(1, sizeof *pool);
    if (!module || !pool) {
        free(module);
        free(pool);
        return tmk_nomem(diag);
    }
    module->version[2] = 5;
    module->pool = pool;
    *out = module;
    return TMK_OK;
}

void tmk_relay_module_destroy(struct tmk_relay_module **module) {
    struct tmk_relay_module *gone = *module;
    if (!gone)
        return;
    for (uint32_t i = 0; i < gone->n_constants; i++)
        tmk_tensor_finish(&gone->constants[i].data);
    tmk_memory_free(gone->constants);
    for (size_t i = 0; i < gone->pool->n; i++)
        tmk_buf_unref(&gone->pool->bufs[i]);
    free(gone->pool->bufs);
    free(gone->pool);
    tmk_map_finish(&gone->by_name);
    tmk_arena_finish(&gone->arena);
    free(gone);
    *module = NULL;
}

enum tmk_status tmk_relay_add_constant(struct tmk_relay_module *module,
                                       const struct tmk_tensor *data, const char *dtype,
                                       struct tmk_diag *diag) {
    if (module->n_constants == module->constants_size) {
        const size_t size = 2 * module->constants_size + 8;
        void *grown = tmk_memory_resized(module->constants, size * sizeof *module->constants);
        TMK_TRY_ALLOC(grown, diag);
        module->constants = grown;
        module->constants_size = size;
    }
    struct tmk_relay_constant *constant = &module->constants[module->n_constants++];
    constant->dtype = dtype;
    tmk_tensor_share(&constant->data, data);
    return TMK_OK;
}

enum tmk_status tmk_relay_scalar(struct tmk_relay_module *module, enum tmk_dtype dtype,
                                 const void *value, struct tmk_tensor *out, struct tmk_diag *diag) {
    struct tmk_relay_pool *pool = module->pool;
    if (!pool->n || pool->used == SLOTS) {
        TMK_TRY_ALLOC(TMK_GROW(pool->bufs, pool->n, pool->size), diag);
        struct tmk_buf *buf = tmk_buf_create((size_t)SLOT * SLOTS);
        TMK_TRY_ALLOC(buf, diag);
        pool->bufs[pool->n++] = buf;
        pool->used = 0;
    }
    struct tmk_buf *buf = pool->bufs[pool->n - 1];
    char *slot = (char *)tmk_buf_data(buf) + SLOT * pool->used++;
    memcpy(slot, value, tmk_dtype_size(dtype));
    const struct tmk_shape scalar = {0};
    tmk_tensor_borrow(out, dtype, &scalar, slot);
    out->buf = buf;
    return TMK_OK;
}

enum tmk_dtype tmk_relay_dtype(const char *name) {
    enum tmk_dtype dtype = !strcmp(name, "uint1") ? TMK_BOOL : tmk_dtype_by_name(name);
    return tmk_dtype_size(dtype) ? dtype : TMK_UNDEFINED;
}

struct tmk_relay_function *tmk_relay_function(const struct tmk_relay_module *module,
                                              const char *name) {
    if (module->by_name.used)
        return tmk_map_get(&module->by_name, name);
    for (uint32_t i = 0; i < module->n_functions; i++)
        if (!strcmp(module->functions[i]->name, name))
            return module->functions[i];
    return NULL;
}
