/* SPDX-License-Identifier: Apache-2.0 */
/* A made graph, run by the executor's parts in several ways and held against the operators' plain
 * kernels and against naive counts. */
#pragma once

#include "exec/account.h"
#include "exec/worker.h"
#include "graph_maker.h"

/* One tensor that an observer was shown, row-major; data NULL: only its shape. */
struct seen {
    struct tmk_tensor tensor;
    uint64_t sample, samples;
    int32_t axis;
    uint32_t batch;
    bool whole, initializer;
};

struct slot_log {
    struct seen *items;
    uint32_t n, size;
    float *open; /* between begin and end: as it lies in memory */
};

struct scene {
    const struct made_graph *made;
    struct tmk_graph *bare, *graph; /* as made; with observers */
    struct tmk_observer *observers;
    struct tmk_slot_config *configs;
    uint8_t *needs;
    uint32_t n_slots;
    uint64_t first[MOST_MADE_BATCHES]; /* sample of each batch */
};

/* What came of it, added up. */
struct graph_tally {
    uint64_t graphs, failed_alike, nodes, near, elements, recounts, derived, blocked, chains,
        accels, passes, pass_outputs, unstable;
    uint64_t rows[512]; /* by place in op_rows: nodes that ran */
};

/* All of it; if not, false, and `why` has what does not hold. */
bool graph_check(const struct made_graph *made, struct graph_tally *tally, struct tmk_text *why);

/* ---- parts ---- */

struct check {
    struct scene scene;
    struct graph_tally *tally;
    struct tmk_text *why;
};

TMK_PRINTF(2, 3) bool says(struct check *c, const char *fmt, ...); /* false */
/* graph_recount.c: the account of a slot is that of its tensors, counted one by one. */
bool recount_agrees(struct check *c, uint32_t slot, const struct slot_log *log,
                    const struct tmk_account *account);
/* graph_kernels.c: the node's outputs against its plain kernel, on the very operands that it had.
 */
bool node_agrees(struct check *c, const struct tmk_node *node, const struct tmk_tensor *const *in,
                 uint32_t output, const struct tmk_tensor *want, const struct tmk_tensor *got,
                 bool exact);
bool same_bits(const struct tmk_tensor *a, const struct tmk_tensor *b);
/* graph_passes.c: outputs after passes, where they are not ill-conditioned. */
bool passes_agree(struct check *c);
