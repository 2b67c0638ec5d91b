/* SPDX-License-Identifier: Apache-2.0 */
/* A graph made ready to run at fixed input shapes: an immutable list of steps with memory for every
 * value.
 *
 * Values whose elements are known while planning (weights, Constant nodes, arithmetic on shapes)
 * are computed then, by the plain kernels, and held by the plan. All other values of known shape
 * live in one arena, where values that are never alive at the same time share bytes. Values whose
 * shape depends on elements seen only while running are `dynamic`: the executor infers and
 * allocates them as it goes.
 *
 * A step is a node, or a chain of pointwise nodes that run together tile by tile (kernel/chain.h):
 * then it is at the position of the last of them, and values that only the chain itself reads are
 * never written to memory. Activations lie row-major or in blocks of channels, as the kernels that
 * make and read them like it; where they disagree, a step of its own reorders. Concat costs nothing
 * for those operands that could be written to their places in it; of a batch, sample by sample, so
 * that their samples are not adjacent.
 *
 * EdgeObserver nodes are no steps: an observer's result is its operand, and a `tap` states that it
 * is observed. Taps know slots (observer_slots below), not profile IDs. */
#pragma once

#include "base/map.h"
#include "graph/graph.h"
#include "kernel/accel.h"
#include "kernel/chain.h"
#include "ops/ops.h"
#include "tensor/positions.h"

enum { TMK_NO_VALUE = UINT32_MAX, TMK_PLAN_ALIGN = 64 };

enum tmk_place {
    TMK_PLACE_NOWHERE,  /* in a sub-graph, or unused, or only in tiles of a chain or an operator */
    TMK_PLACE_CONSTANT, /* tensor in `constant` */
    TMK_PLACE_INPUT,    /* the batch's input number `offset` */
    TMK_PLACE_ARENA,    /* `offset` bytes into the arena */
    TMK_PLACE_DYNAMIC   /* shape known only at run time, or no tensor at all */
};

struct tmk_plan_value {
    enum tmk_place place;
    enum tmk_type_kind kind; /* of INPUT, as the batch's; all else that is placed is a tensor */
    size_t offset;
    enum tmk_dtype dtype;
    struct tmk_shape shape; /* not for DYNAMIC; the logical one, however it lies */
    uint32_t block;         /* 0: row-major; else in blocks of so many channels */
    /* Elements from one index of dim 0 to the next, where others' are between them; 0: they follow
     * each other. Only chains and joins make such values and read them. */
    size_t pitch;
    int32_t channel_axis; /* -1: none */
    bool initializer;     /* constant, and there once, not once a run */
    struct tmk_tensor constant;
};

/* Samples that a JOIN which makes the value puts together one by one: those of a batch in blocks of
 * channels. */
static inline size_t tmk_plan_rounds(const struct tmk_plan_value *value) {
    return value->block ? (size_t)value->shape.dim[0] : 1;
}

enum tmk_step_kind {
    TMK_STEP_NODE,  /* the row's plain kernel */
    TMK_STEP_ACCEL, /* an accelerated one */
    TMK_STEP_CHAIN,
    TMK_STEP_JOIN, /* Concat of whole stretches: what is already in its place stays */
    TMK_STEP_TO_BLOCKS,
    TMK_STEP_FROM_BLOCKS
};

struct tmk_plan_step {
    enum tmk_step_kind kind;
    const struct tmk_node *node; /* of a chain the last, of a reorder the one it is done for */
    struct tmk_accel *accel;
    struct tmk_chain *chain;
    bool dynamic; /* some operand or result is dynamic: infer before running */
    /* In `refs`, values under their observers. NODE and ACCEL: one an input and one an output of
     * the node, TMK_NO_VALUE where absent. */
    uint32_t first_in, n_in, first_out, n_out;
    uint32_t first_tap, n_taps;   /* to be looked at once the step has run */
    uint32_t first_seen, n_seen;  /* CHAIN, and inner values of a NODE, in `taps` too: to be looked
                                     at piece by piece */
    uint32_t first_which;         /* with n_seen: in `which`: see tmk_plan.which */
    uint32_t first_free, n_free;  /* dynamic values that are not needed after this step */
    uint32_t first_node, n_nodes; /* CHAIN: its members, in `members` */
    uint32_t block;               /* CHAIN: how its values lie */
};

/* Observe `value` (an index of `values`) for observer `slot`. */
struct tmk_plan_tap {
    uint32_t slot, value;
};

struct tmk_plan {
    const struct tmk_graph
        *graph; /* numbered by tmk_graph_number; must outlive the plan unchanged */
    struct tmk_plan_value *values; /* by tmk_value.index; behind those, the same in other layouts */
    uint32_t n_values;
    struct tmk_plan_step *steps;
    uint32_t n_steps;
    uint32_t *refs;                     /* values, for steps' first_in and first_out */
    struct tmk_plan_tap *taps;          /* of steps */
    struct tmk_plan_tap *input_taps;    /* graph inputs: before the first step */
    struct tmk_plan_tap *constant_taps; /* values known while planning */
    uint32_t n_taps, n_input_taps, n_constant_taps;
    /* The taps [which[w], which[w + 1]) among a step's observed ones are of value w: of a chain
     * counted as in tmk_chain_watcher, of a node output w. */
    uint32_t *which;
    const struct tmk_node **members;
    uint32_t *free_list;     /* value indices, for steps' first_free */
    uint32_t *last_use;      /* by value under its observers: the last step that reads it, also in a
                                graph inside its node, or TMK_NO_VALUE */
    struct tmk_ptrmap slots; /* observer node -> its slot + 1; of sub-graphs too */
    size_t arena_bytes, scratch_bytes;
    struct tmk_positions *positions; /* by slot, with options->seeds: see plan/build.h */
    uint32_t n_positions;            /* slots behind these: nothing is known */
    double operations;      /* of a run, without steps that are dynamic and graphs inside nodes */
    bool gives_tables_back; /* large ones in mapped files leave memory while rows are gathered */
};

/* What the observer of a slot needs. */
enum tmk_tap_need {
    TMK_TAP_PIECES, /* every element once, in any layout and order */
    TMK_TAP_WHOLE,  /* the whole tensor in memory, row-major */
    TMK_TAP_SHAPE   /* float32: only its shape, once it was made, and with it the elements as they
                       lie, unless a chain made it; else WHOLE */
};

struct tmk_plan_options {
    const uint8_t *needs;    /* by slot; NULL: PIECES everywhere */
    struct tmk_packs *packs; /* that plans of the graph share; must outlive them. NULL: none */
    struct tmk_position_seeds seeds;
    bool plain; /* plain kernels only, row-major, node by node: to compare with */
};

/* Plans a bound, sorted and numbered graph for inputs of these kinds, dtypes and shapes (data and
 * list NULL: not known; graph inputs in order). options NULL: none. Errors name the node. The graph
 * is only read. */
enum tmk_status tmk_plan_create(const struct tmk_graph *graph, const struct tmk_tensor *inputs,
                                const struct tmk_plan_options *options, struct tmk_plan **out,
                                struct tmk_diag *diag);
void tmk_plan_destroy(struct tmk_plan **plan);

/* ---- slots ---- */

/* One observer of a graph. */
struct tmk_observer {
    const struct tmk_node *node;
    const char *kind, *tensor_name; /* attributes; owned by the graph */
    int64_t profile_id;
    bool in_subgraph;
};

/* All EdgeObserver nodes, sub-graphs included, in order of appearance; a position is a slot. *out
 * is malloc'ed. */
enum tmk_status tmk_observer_slots(const struct tmk_graph *graph, struct tmk_observer **out,
                                   uint32_t *n, struct tmk_diag *diag);

/* ---- the memory planner, plain data ---- */

/* A block of `bytes` that is alive during steps [first, last]; the planner sets `offset`. */
struct tmk_block {
    size_t bytes;
    uint32_t first, last;
    size_t offset; /* a multiple of TMK_PLAN_ALIGN */
};

/* Places blocks so that no two that are alive at the same time overlap: largest first, each in the
 * lowest gap that holds it. Returns TMK_RANGE on overflow. *arena_bytes is the end of the highest
 * block. Deterministic. */
enum tmk_status tmk_place_blocks(struct tmk_block *blocks, size_t n, size_t *arena_bytes,
                                 struct tmk_diag *diag);
