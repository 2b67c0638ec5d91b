/* SPDX-License-Identifier: Apache-2.0 */
/* The limit on memory that models and data may take in this process.
 *
 * The limit is global, for all objects of the library together. Counted are tensors, activations,
 * scratch memory, graphs, statistics, results of loops and data that were read; not the program
 * itself, nor mapped files. All calls are thread-safe. */
#ifndef TIDEMARK_MEMORY_H
#define TIDEMARK_MEMORY_H

#include <stdint.h>

#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From now on allocations beyond so many bytes fail with TMK_LIMIT, and a text with the sizes.
 * 0 (the default): no limit. Memory in use stays. */
TMK_API void tmk_memory_set_limit(uint64_t bytes);
/* 0: none. */
TMK_API uint64_t tmk_memory_limit(void);
/* Bytes counted at present. */
TMK_API uint64_t tmk_memory_used(void);

#ifdef __cplusplus
}
#endif
#endif
