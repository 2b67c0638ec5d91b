/* SPDX-License-Identifier: Apache-2.0 */
/* A graph that runs in blocks, one after the other, each over many batches: where it is cut, and
 * what of a batch is kept from block to block. */
#pragma once

#include "plan/plan.h"

/* Nodes of a graph with which blocks begin; the same for all plans of it. */
struct tmk_cuts {
    const struct tmk_node **first; /* [n], malloc'ed; first[0] NULL: the start */
    uint32_t n;                    /* blocks */
};

/* Blocks of steps whose bytes (weights that they read) come to at most `most`, or that are a single
 * node. *largest: bytes of the largest block. */
enum tmk_status tmk_cuts_choose(const struct tmk_plan *plan, const uint64_t *bytes, uint64_t most,
                                struct tmk_cuts *out, uint64_t *largest, struct tmk_diag *diag);
void tmk_cuts_finish(struct tmk_cuts *cuts);

/* The cuts of one plan. Immutable. */
struct tmk_blocks;
enum tmk_status tmk_blocks_create(const struct tmk_plan *plan, const struct tmk_cuts *cuts,
                                  struct tmk_blocks **out, struct tmk_diag *diag);
void tmk_blocks_destroy(struct tmk_blocks **blocks);
/* The steps [*first, *end) of a block. */
void tmk_blocks_steps(const struct tmk_blocks *blocks, uint32_t block, uint32_t *first,
                      uint32_t *end);
/* The most bytes of activations of known shape that are kept of a batch. */
size_t tmk_blocks_kept(const struct tmk_blocks *blocks);

/* Activations of a batch that later blocks read. */
struct tmk_saved;
void tmk_saved_destroy(struct tmk_saved **saved);

/* What is to run of a batch. */
struct tmk_part {
    uint32_t block;
    bool more;                /* blocks follow */
    struct tmk_saved **saved; /* what is kept of the batch; NULL: all of the graph runs */
};

struct tmk_worker;
/* After the block: *saved, which is NULL, gets what later ones read, dynamic values leave the
 * worker. */
enum tmk_status tmk_block_save(struct tmk_worker *worker, const struct tmk_blocks *blocks,
                               uint32_t block, struct tmk_saved **saved, struct tmk_diag *diag);
/* Before a block: back to where it was; *saved becomes NULL. */
void tmk_block_restore(struct tmk_worker *worker, const struct tmk_blocks *blocks, uint32_t block,
                       struct tmk_saved **saved);
