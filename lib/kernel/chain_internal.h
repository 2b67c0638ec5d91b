/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a chain share. */
#pragma once

#include "base/arena.h"
#include "kernel/chain.h"
#include "kernel/chain_loops.h"
#include "kernel/chain_math.h"

/* How an operand lies over the space. */
struct tmk_chain_spread {
    bool whole;
    /* Row-major: element i of the space meets element i / run % period. */
    size_t run, period;
    /* In blocks: index n of dim 0 and c of dim 1 meet element n * per_sample + c * per_channel. */
    size_t per_sample, per_channel;
};

/* A member's meaning: loop(x, p, q), and `math` of that. */
struct tmk_chain_spec {
    enum tmk_chain_kind loop, math; /* TMK_CHAIN_COPY: none */
    enum { TMK_CHAIN_P_NONE, TMK_CHAIN_P_INPUT, TMK_CHAIN_P_SCALARS, TMK_CHAIN_P_CHANNELS } p_from;
    uint32_t x, p;                  /* positions among the node's inputs */
    struct tmk_chain_spread spread; /* of p, or of the channels' factors and offsets */
    float scalar[2];                /* p and q */
    float param;                    /* of math */
};

/* False: the node is not for a chain. in: as for tmk_chain_supports; infer has accepted them. */
bool tmk_chain_spec(const struct tmk_node *node, const struct tmk_tensor *const *in,
                    const struct tmk_shape *space, uint32_t block, struct tmk_chain_spec *out);

/* Where a step finds an operand. */
struct tmk_chain_arg {
    enum {
        TMK_CHAIN_ARG_NONE,
        TMK_CHAIN_ARG_SLOT,    /* a tile in scratch memory */
        TMK_CHAIN_ARG_WINDOW,  /* a window in scratch memory */
        TMK_CHAIN_ARG_RESULT,  /* an earlier stored member */
        TMK_CHAIN_ARG_OPERAND, /* a whole one */
        TMK_CHAIN_ARG_LANES,   /* a pattern, or one a channel block */
        TMK_CHAIN_ARG_LIVE,    /* a pattern in scratch memory, made for each channel block */
        TMK_CHAIN_ARG_PERIODIC /* row-major */
    } kind;
    uint32_t at;                    /* the slot, the window, the result or the operand */
    uint32_t live;                  /* position among the live patterns */
    const float *data;              /* elements or patterns that are known; NULL: of operand `at` */
    size_t stride;                  /* LANES: floats from one channel block's pattern to the next */
    struct tmk_chain_spread spread; /* LIVE and PERIODIC */
    bool padded; /* PERIODIC with runs of one: the first TMK_CHAIN_TILE elements follow once more */
};

struct tmk_chain_step {
    tmk_chain_loop lanes, vary; /* NULL: none */
    tmk_chain_math math;        /* NULL: none */
    float param;
    struct tmk_chain_arg x, p, q;
    bool passes; /* computes nothing: only shows x to the watcher */
    bool stored, windowed, clean, watched;
    uint32_t to; /* the result's position, a window, or a slot */
    uint32_t which;
    uint32_t member;
};

struct tmk_chain {
    size_t count;  /* elements of the space, fillings included */
    size_t groups; /* parts that tiles do not reach across: dim 0 times channel blocks, or 1 */
    size_t channels, block, channel_blocks; /* 1 each when row-major */
    struct tmk_chain_step *steps;
    uint32_t n_steps;
    const float **constants; /* by operand; NULL: given to each run */
    uint32_t n_operands;
    uint32_t *watched; /* operands */
    uint32_t n_watched;
    uint32_t n_slots, n_windows, n_live;
    size_t window; /* elements */
    bool spreads;  /* two more tiles for broadcast operands */
    tmk_chain_loop mask;
    float lanes_used[TMK_CHAIN_LANES]; /* bits of the last channel block that are no filling */
    /* for tmk_chain_may_overwrite */
    bool *whole;
    uint32_t *last_read; /* by operand: the member, or 0 without a reader */
    uint32_t *stored_by; /* by result: the member */
    float **tables;      /* all that was allocated for constants */
    uint32_t n_tables;
    struct tmk_arena arena; /* of all but the tables themselves */
};
