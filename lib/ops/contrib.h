/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of ONNX Runtime's own domain, whose one version is 1. Their meaning is that of
 * https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md and, where that page
 * is silent, of its CPU kernels. */
#pragma once

#include "ops/cost.h"
#include "ops/kernel.h"

#define TMK_DOMAIN_MICROSOFT "com.microsoft"

#define TMK_OP_CONTRIB(name_) TMK_OP_KEY(TMK_DOMAIN_MICROSOFT, name_, 1, INT32_MAX)

/* Code i of packed ones of 2, 4 or 8 bits, the lowest bits first. */
static inline unsigned tmk_contrib_code(const uint8_t *packed, size_t i, size_t bits) {
    const size_t bit = i * bits;
    return packed[bit / 8] >> bit % 8 & ((1u << bits) - 1);
}

/* out[i] = (code i - zero) * scale, for n codes. */
void tmk_contrib_widen(const uint8_t *packed, size_t n, size_t bits, float zero, float scale,
                       float *out);

/* TMK_GRAPH when input i, which stands after optional ones, is absent. */
static inline enum tmk_status tmk_contrib_need(const struct tmk_infer *infer, uint32_t i,
                                               const char *what) {
    return tmk_infer_in(infer, i) ? TMK_OK
                                  : tmk_fail(infer->diag, TMK_GRAPH,
                                             "needs its input %u, %s, which is absent", i, what);
}
