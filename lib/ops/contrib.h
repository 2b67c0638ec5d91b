/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of ONNX Runtime's own domain, whose one version is 1. Their meaning is that of
 * https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md and, where that page
 * is silent, of its CPU kernels. */
#ifndef TMK_OPS_CONTRIB_H
#define TMK_OPS_CONTRIB_H

#include "ops/cost.h"
#include "ops/kernel.h"

#define TMK_DOMAIN_MICROSOFT "com.microsoft"

/* A row with one sure output. `lines` are the sample's, each with its line end. */
#define TMK_CONTRIB_ROW(Name, inputs_min, inputs_max, outputs_max, flag_set, channels, rules,      \
                        infers, runs, lines)                                                       \
    TMK_CONTRIB_COST_ROW(Name, inputs_min, inputs_max, outputs_max, flag_set, channels, rules,     \
                         infers, NULL, runs, lines)
/* One with a cost of its own. */
#define TMK_CONTRIB_COST_ROW(Name, inputs_min, inputs_max, outputs_max, flag_set, channels, rules, \
                             infers, costs, runs, lines)                                           \
    const struct tmk_op tmk_op_ms_##Name##_1 = {                                                   \
        TMK_OP_KEY(TMK_DOMAIN_MICROSOFT, #Name, 1, INT32_MAX),                                     \
        TMK_OP_COUNTS(inputs_min, inputs_max, 1, outputs_max),                                     \
        .flags = flag_set,                                                                         \
        .channel = channels,                                                                       \
        .attrs = rules,                                                                            \
        .infer = infers,                                                                           \
        .cost = costs,                                                                             \
        .run = runs,                                                                               \
        .sample = "graph \"sample\" opset 17 \"com.microsoft\" 1 {\n" lines "  output %y\n"        \
                  "}\n",                                                                           \
    };

/* Code i of packed ones of 2, 4 or 8 bits, the lowest bits first. */
static inline unsigned tmk_contrib_code(const uint8_t *packed, size_t i, size_t bits) {
    const size_t bit = i * bits;
    return packed[bit / 8] >> bit % 8 & ((1u << bits) - 1);
}

/* TMK_GRAPH when input i, which stands after optional ones, is absent. */
static inline enum tmk_status tmk_contrib_need(const struct tmk_infer *infer, uint32_t i,
                                               const char *what) {
    return tmk_infer_in(infer, i) ? TMK_OK
                                  : tmk_fail(infer->diag, TMK_GRAPH,
                                             "needs its input %u, %s, which is absent", i, what);
}

#endif
