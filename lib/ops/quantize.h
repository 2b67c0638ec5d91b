/* SPDX-License-Identifier: Apache-2.0 */
/* Quantizing and dequantizing, for the operators of other domains and those that quantize inside.
 */
#ifndef TMK_OPS_QUANTIZE_H
#define TMK_OPS_QUANTIZE_H

#include "ops/ops.h"

/* QuantizeLinear and DequantizeLinear, of the newest operator set. */
TMK_NODISCARD enum tmk_status tmk_infer_quantize(struct tmk_infer *infer);
TMK_NODISCARD enum tmk_status tmk_run_quantize(struct tmk_run *run);
TMK_NODISCARD enum tmk_status tmk_infer_dequantize(struct tmk_infer *infer);
TMK_NODISCARD enum tmk_status tmk_run_dequantize(struct tmk_run *run);

struct tmk_dynamic {
    float scale;
    int32_t zero; /* 0 to 255 */
};
/* DynamicQuantizeLinear: the range with 0 in it, to uint8; y may be NULL. */
struct tmk_dynamic tmk_quantize_dynamic(size_t n, const float *x, uint8_t *y);

#endif
