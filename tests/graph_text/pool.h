/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that a graph's text refers to by number: "#1" stands in the place of elements. */
#pragma once

#include <tidemark/tensor.h>

/* Zero-initialised is empty. Holds references. */
struct tensor_pool {
    struct tmk_tensor *tensors;
    size_t n, size;
};

/* False when memory ran out. */
bool tensor_pool_add(struct tensor_pool *pool, const struct tmk_tensor *tensor);
void tensor_pool_finish(struct tensor_pool *pool);
