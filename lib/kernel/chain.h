/* SPDX-License-Identifier: Apache-2.0 */
/* Pointwise operators that run together, tile by tile: a tile of every member's result stands in
 * the first-level cache while the next member reads it, and only those that other nodes read are
 * written to memory. An observer of an inner value gets every piece of it, whether it is
 * written or not.
 *
 * All members have the chain's shape as their result's shape ("the space"), float32. An operand of
 * a member is an earlier member, or a tensor in memory of the whole space, or one that is broadcast
 * over it: a scalar, or one that is constant over runs of equal length and repeats (as [C,1,1],
 * [n] at the end, and [...,1] do).
 *
 * Layout: with block > 1, which is 2, 4, 8 or 16, the space, all whole operands and all results lie
 * in blocks of axis 1 (as in tmk_stats_at): [dim 0][ceil(dim 1 / block)][dims 2...][block]. What
 * fills up the last block is written as +0, and may be anything in operands. Broadcast operands and
 * constants always lie row-major; constants of the whole space are not taken in blocks, unless they
 * have one place for each index of dims 0 and 1.
 *
 * Same bits wherever a tile begins: a result depends on the operands' elements only. (But for which
 * NaN a NaN is.) */
#pragma once

#include "ops/ops.h"

/* Elements in a tile, at most. */
enum { TMK_CHAIN_TILE = 2048 };

struct tmk_chain;

/* A tensor in memory that members read. One that several read is one operand: operands' memory does
 * not overlap. */
struct tmk_chain_operand {
    const struct tmk_shape *shape;
    const float *constant; /* its elements, where known; must stay; NULL: given to each run */
    bool watched;          /* whole ones only: shown to the watcher as they are read */
};

struct tmk_chain_member {
    const struct tmk_node *node;
    /* For each of the node's inputs, in order: an operand's number, or -1 - m for member m (an
     * earlier one), or TMK_CHAIN_ABSENT. Inputs that do not matter to a member (of Dropout, all but
     * input 0) may be absent here. */
    const int32_t *from;
    bool stored;  /* results get one entry for each stored member, in order */
    bool watched; /* shown to the watcher */
};
enum { TMK_CHAIN_ABSENT = INT32_MAX };

/* Can the node be a member of a chain over `space`, in blocks of `block` (0 or 1: row-major)? in:
 * its operands' dtypes and shapes as for infer, with data where constant. Depends on nothing else.
 * A node that makes more than output 0 is none, nor is anything over a space without elements. */
bool tmk_chain_supports(const struct tmk_node *node, const struct tmk_tensor *const *in,
                        const struct tmk_shape *space, uint32_t block);

/* Members in an order in which each can run; each was accepted by tmk_chain_supports. Everything is
 * copied, except nodes, and constants of more than a few elements. */
enum tmk_status tmk_chain_create(const struct tmk_shape *space, uint32_t block,
                                 const struct tmk_chain_operand *operands, uint32_t n_operands,
                                 const struct tmk_chain_member *members, uint32_t n_members,
                                 struct tmk_chain **out, struct tmk_diag *diag);
void tmk_chain_destroy(struct tmk_chain **chain);
/* Bytes of 64-byte aligned scratch memory that a run needs. */
size_t tmk_chain_scratch(const struct tmk_chain *chain);
/* May stored result `result` (by its position among the stored ones) stand in the memory of whole
 * operand `operand`? (One result an operand; what the operand held is gone, but has been shown.) */
bool tmk_chain_may_overwrite(const struct tmk_chain *chain, uint32_t result, uint32_t operand);

/* x[0, n) are the places [first, first + n) of value `which`: an operand's number, or n_operands +
 * the member's. Lanes that fill up a block may be anything. Places of one value come in ascending
 * order, a few tiles at a time; in blocks a piece may reach from one channel block into the next.
 */
struct tmk_chain_watcher {
    enum tmk_status (*see)(void *context, uint32_t which, const float *x, size_t first, size_t n,
                           struct tmk_diag *diag);
    void *context;
};

/* Runs in the calling thread. operands[i]: an operand's elements (ignored where constant); results:
 * one a stored member; no overlap but what tmk_chain_may_overwrite allows. watcher NULL: not
 * observed. May be run by many threads at a time, each with scratch of its own. */
enum tmk_status tmk_chain_run(const struct tmk_chain *chain, const float *const *operands,
                              float *const *results, void *scratch,
                              const struct tmk_chain_watcher *watcher, struct tmk_diag *diag);

/* The same for places [first, first + n) only, which are whole samples (indices of dim 0). */
enum tmk_status tmk_chain_run_part(const struct tmk_chain *chain, size_t first, size_t n,
                                   const float *const *operands, float *const *results,
                                   void *scratch, const struct tmk_chain_watcher *watcher,
                                   struct tmk_diag *diag);
/* Places of the space, and its samples. */
size_t tmk_chain_count(const struct tmk_chain *chain);
size_t tmk_chain_samples(const struct tmk_chain *chain);

/* ---- layouts ---- */

/* Elements that a tensor of this shape takes in blocks (block 0 or 1: as many as it has); false on
 * overflow. */
bool tmk_blocked_count(const struct tmk_shape *shape, uint32_t block, size_t *out);
/* Do both layouts of the shape have the same bytes? (E.g. [1,32,1,1].) */
bool tmk_blocked_same(const struct tmk_shape *shape, uint32_t block);
/* Row-major to blocks (what fills up is +0), and back. The shape has rank 2 or more; src and dst do
 * not overlap. */
void tmk_to_blocks(const float *src, float *dst, const struct tmk_shape *shape, uint32_t block);
void tmk_from_blocks(const float *src, float *dst, const struct tmk_shape *shape, uint32_t block);
