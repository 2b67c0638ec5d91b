/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_text/pool.h"

#include <stdlib.h>

#include "base/memory.h"

bool tensor_pool_add(struct tensor_pool *pool, const struct tmk_tensor *tensor) {
    if (!TMK_GROW(pool->tensors, pool->n, pool->size))
        return false;
    tmk_tensor_share(&pool->tensors[pool->n++], tensor);
    return true;
}

void tensor_pool_finish(struct tensor_pool *pool) {
    for (size_t i = 0; i < pool->n; i++)
        tmk_tensor_finish(&pool->tensors[i]);
    free(pool->tensors);
    *pool = (struct tensor_pool){0};
}
