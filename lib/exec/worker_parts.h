/* SPDX-License-Identifier: Apache-2.0 */
/* What running a plan and running a graph inside a node share. */
#pragma once

#include "exec/worker.h"

enum { TMK_MAX_SCRATCH = 64 };

struct tmk_scratch_block {
    void *bytes;
    size_t size;
};

struct tmk_worker {
    const struct tmk_plan *plan;          /* of the last run */
    const struct tmk_watch *watch;        /* of the run at hand, or NULL */
    struct tmk_timing *timing;            /* NULL: not asked for */
    const atomic_bool *stop;              /* NULL: never */
    uint64_t iterations, most_iterations; /* of graphs inside nodes, in the run at hand */
    double operations; /* of dynamic steps and graphs inside nodes, and the plan's */
    unsigned char *arena;
    size_t arena_size;
    void *step_scratch;
    size_t step_scratch_size;
    struct tmk_scratch_block
        scratch[TMK_MAX_SCRATCH]; /* kept from node to node, in the order asked for */
    uint32_t n_scratch;
    struct tmk_tensor
        *values; /* by value index; arena and constants borrowed, dynamic ones owned */
    uint32_t values_size;
    const struct tmk_tensor **in; /* of the step at hand */
    struct tmk_tensor **out;
};

/* The context of a kernel's scratch, alloc and call. */
struct tmk_step_context {
    struct tmk_worker *worker;
    struct tmk_tensor *const *out;
    const struct tmk_plan_step *step; /* NULL: in a graph inside a node, where all have memory */
};

/* TMK_INTERRUPTED: it is to stop. */
enum tmk_status tmk_worker_goes_on(const struct tmk_worker *worker, struct tmk_diag *diag);

/* Runs a graph inside a node, node by node, with plain kernels; see tmk_run.call. */
enum tmk_status tmk_worker_call(void *context, const struct tmk_graph *body,
                                const struct tmk_tensor *inputs, struct tmk_tensor *outputs,
                                struct tmk_diag *diag);

/* Runs a chain on what was arranged; its values are seen piece by piece. watch NULL: nothing is
 * watched. */
enum tmk_status tmk_worker_chain(struct tmk_worker *worker, const struct tmk_plan_step *step,
                                 const struct tmk_watch *watch, struct tmk_diag *diag);

/* Runs a NODE step on what was arranged; inner values without memory are seen piece by piece. watch
 * NULL: nothing is watched. */
enum tmk_status tmk_worker_node(struct tmk_worker *worker, const struct tmk_plan_step *step,
                                const struct tmk_watch *watch, struct tmk_diag *diag);
/* A kernel's `show`. */
enum tmk_status tmk_worker_show(void *context, uint32_t output, const float *x, size_t first,
                                size_t n, struct tmk_diag *diag);

/* Where a value really is: observers only forward. */
struct tmk_tensor *tmk_worker_tensor(const struct tmk_worker *worker,
                                     const struct tmk_value *value);
/* Infers with the elements there are, counts operations against the limit, and allocates the wanted
 * outputs whose shapes are known; of inner values that are seen in pieces only the shape is kept.
 */
enum tmk_status tmk_worker_infer(struct tmk_worker *worker, const struct tmk_node *node,
                                 const struct tmk_tensor *const *in, struct tmk_tensor *const *out,
                                 struct tmk_diag *diag);

/* Points in and out at the node's operands and wanted results; NULL where absent. */
void tmk_worker_arrange(const struct tmk_worker *worker, const struct tmk_node *node,
                        const struct tmk_tensor **in, struct tmk_tensor **out);
/* Runs the plain kernel on what was arranged and, where shapes were not planned, inferred. step: of
 * the plan, or NULL. */
enum tmk_status tmk_worker_plain(struct tmk_worker *worker, const struct tmk_node *node,
                                 const struct tmk_tensor *const *in, struct tmk_tensor *const *out,
                                 const struct tmk_plan_step *step, struct tmk_diag *diag);
