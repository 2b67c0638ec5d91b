/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic that several operators spell out and that 8 bits ruin: normalizations, activation
 * functions, positions, spectra, box decoding. Found from operators and how they are connected,
 * never from names. Attributes are not known (calib/net.h): constants are, by their min and max. */
#pragma once

#include "calib/net.h"

/* X(NAME, "name", "nodes that it means"). A node belongs to the first pattern that matches it, in
 * the order in which patterns are searched (tmk_patterns_init). */
#define TMK_PATTERN_LIST(X)                                                                        \
    X(LAYER_NORM, "layer-norm", "mean, variance, square root and division of LayerNorm")           \
    X(RMS_NORM, "rms-norm", "mean square, square root and division of RMSNorm")                    \
    X(GROUP_NORM, "group-norm", "GroupNorm and InstanceNorm")                                      \
    X(L2_NORM, "l2-norm", "division by an L2 norm")                                                \
    X(GELU, "gelu", "GELU by erf, tanh or sigmoid")                                                \
    X(SILU, "silu", "x sigmoid(x), and Mish")                                                      \
    X(HARD_SWISH, "hard-swish", "x clip(x + 3, 0, 6) / 6")                                         \
    X(SOFTMAX, "softmax", "Softmax, LogSoftmax, also in single operators")                         \
    X(ATTENTION, "attention", "scales and masks between the products of attention")                \
    X(POSITION, "position", "positional and rotary arithmetic")                                    \
    X(INPUT_NORM, "input-norm", "scaling of the model's inputs")                                   \
    X(SPECTRUM, "spectrum", "from samples of a signal to magnitudes or a log spectrum")            \
    X(BOX_DECODE, "box-decode", "from what detection heads compute to boxes")                      \
    X(INDEX, "index", "what becomes an index, an order, a count or a condition")                   \
    X(MATH, "math", "Exp, Log, Pow, Sqrt, Reciprocal, Div and other functions of real numbers")
enum tmk_pattern {
    TMK_PATTERN_NONE,
#define TMK_PATTERN_ENUM(name, text, help) TMK_PATTERN_##name,
    TMK_PATTERN_LIST(TMK_PATTERN_ENUM)
#undef TMK_PATTERN_ENUM
        TMK_PATTERNS
};
/* "layer-norm"; NULL for TMK_PATTERN_NONE. */
const char *tmk_pattern_name(enum tmk_pattern pattern);

struct tmk_patterns {
    uint8_t *of;        /* [n_nodes] enum tmk_pattern */
    uint32_t *instance; /* [n_nodes] which occurrence, from 1; 0: of no pattern */
    struct tmk_arena arena;
};
/* TMK_NOMEM. Time grows with the number of nodes. End with finish, also after a failure. */
enum tmk_status tmk_patterns_init(struct tmk_patterns *patterns, const struct tmk_net *net,
                                  struct tmk_diag *diag);
void tmk_patterns_finish(struct tmk_patterns *patterns);
