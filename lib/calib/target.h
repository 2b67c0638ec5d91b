/* SPDX-License-Identifier: Apache-2.0 */
/* A target's table as it is kept in memory. */
#pragma once

#include <tidemark/target.h>

#include "base/arena.h"
#include "base/json.h"

/* Which zero points a type may have. */
enum tmk_target_scheme { TMK_TARGET_ANY_SCHEME, TMK_TARGET_SYMMETRIC, TMK_TARGET_ASYMMETRIC };

struct tmk_target_type {
    enum tmk_dtype dtype;
    enum tmk_target_scheme scheme;
};

enum { TMK_TARGET_MOST_TYPES = 8 };

/* What an operator takes of one role; the first type and granularity is what calibrate chooses. */
struct tmk_target_limits {
    struct tmk_target_type types[TMK_TARGET_MOST_TYPES];
    uint32_t n_types; /* 0: it stays float */
    bool tensor, channel;
    bool depthwise; /* activations: by channel where a depthwise convolution reads them */
    bool prefers_channel;
};

/* Which operands and results have the same scale and zero point. */
enum tmk_target_sharing { TMK_TARGET_SHARES_NONE, TMK_TARGET_SHARES_INPUT, TMK_TARGET_SHARES_ALL };

struct tmk_target_row {
    const char *op;                     /* the type of ONNX */
    struct tmk_target_limits limits[3]; /* by enum tmk_encoding_role */
    enum tmk_target_sharing sharing;
    uint32_t least_channels; /* that a product's weight has: fewer are no quicker in codes */
};

struct tmk_target {
    const char *name, *title;
    const char **exports; /* [n_exports] */
    uint32_t n_exports;
    struct tmk_target_limits defaults[3]; /* by enum tmk_encoding_role */
    struct tmk_target_row *rows;
    uint32_t n_rows;
    const char *(*fused)[2]; /* [n_fused] operators; what is between has no codes of its own */
    uint32_t n_fused;
    cJSON *config; /* further entries of a config; NULL: none */
    struct tmk_arena arena;
};

/* NULL: the target has no kernel of codes for it, or is NULL. */
const struct tmk_target_row *tmk_target_find_row(const struct tmk_target *target, const char *op);
bool tmk_target_fuses(const struct tmk_target *target, const char *first, const char *second);

/* ---- checking, an operator at a time ---- */

struct tmk_target_check {
    const struct tmk_target *target;
    const struct tmk_encodings *encodings;
    void (*tell)(void *context, const char *text); /* NULL: they are only counted */
    void *context;
    uint32_t found;
};
/* A `tell` that keeps the first of them in char[TMK_FINDING_SIZE], which is "" before. */
enum { TMK_FINDING_SIZE = 1024 };
void tmk_target_keep_first(void *context, const char *text);

/* A node by the IDs of what it reads and computes; UINT32_MAX: nothing is there. */
struct tmk_target_node {
    const char *op, *name; /* the name as in struct tmk_encoding_use */
    const uint32_t *inputs, *outputs;
    uint32_t n_inputs, n_outputs;
    bool depthwise; /* a convolution, each channel by itself */
};

void tmk_target_check_node(struct tmk_target_check *check, const struct tmk_target_node *node);
/* Without a network: each encoding with what any row has. */
void tmk_target_check_types(struct tmk_target_check *check);
