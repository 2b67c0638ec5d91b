/* SPDX-License-Identifier: Apache-2.0 */
/* The limit on the operations that running a model may take in this process.
 *
 * Operations are estimated from shapes before a node runs: one for each element of operands and
 * results, and one for each multiply-add, comparison or visit of a window's element where there are
 * more of these. They bound the time that a file can make a run take; they do not measure it. The
 * limit holds for one run of a graph (a batch), with the graphs inside its nodes, and for each node
 * that is computed when a model is opened. It is global, for all objects of the library together.
 * All calls are thread-safe. */
#ifndef TIDEMARK_OPERATIONS_H
#define TIDEMARK_OPERATIONS_H

#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the limit is at first: some hours to days on one processor. */
#define TMK_MAX_OPERATIONS 1e15

/* From now on what takes more fails with TMK_LIMIT, before it is begun. 0: no limit. */
TMK_API void tmk_operations_set_limit(double operations);
/* 0: none. */
TMK_API double tmk_operations_limit(void);

#ifdef __cplusplus
}
#endif
#endif
