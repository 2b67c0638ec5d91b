/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory this process may take for what models and data ask for.
 *
 * Memory is the process's, so its limit is, too: the one thing that the library keeps for all of
 * its objects together. Counted are tensors, activations, scratch memory, graphs, statistics, what
 * a loop piles up and what data becomes when it is read; not the program itself, nor files that are
 * mapped. All calls are thread-safe.
 */
#ifndef TIDEMARK_MEMORY_H
#define TIDEMARK_MEMORY_H

#include <stdint.h>

#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From now on what would make more than so many bytes is refused: TMK_LIMIT, with its sizes, where
 * a model or data asked for it. 0, as at the start: no limit. What was taken before stays. */
TMK_API void tmk_memory_set_limit(uint64_t bytes);
/* 0: none. */
TMK_API uint64_t tmk_memory_limit(void);
/* Bytes that are counted now. */
TMK_API uint64_t tmk_memory_used(void);

#ifdef __cplusplus
}
#endif
#endif
