/* SPDX-License-Identifier: Apache-2.0 */
/* What surrounds the float operators of a quantized model: codes that are dequantized, results that
 * are quantized again. Scales and zero points are constants, or it does not count. */
#ifndef TMK_PASS_QDQ_H
#define TMK_PASS_QDQ_H

#include "graph/rewrite.h"

enum { TMK_QDQ_MAX = 16 }; /* operands of an operator that are looked at */

/* The result of a DequantizeLinear: scale * (codes - zero). */
struct tmk_qdq_operand {
    struct tmk_node *dequantize;
    struct tmk_value *codes, *scale, *zero; /* zero may be NULL: zeros */
    enum tmk_dtype dtype;                   /* of the codes: int8, uint8, int32 */
    uint32_t n;                             /* scales: 1, or one a channel */
    int32_t axis;                           /* of the codes; n > 1 only */
};

/* A QuantizeLinear with one scale behind some value. */
struct tmk_qdq_result {
    struct tmk_node *quantize;
    struct tmk_node *relu; /* between, which the zero point makes superfluous; NULL: none */
    struct tmk_value *scale, *zero;
    enum tmk_dtype dtype; /* int8 or uint8 */
};

/* False: the value is no such thing; *out is then zero. */
bool tmk_qdq_operand_of(const struct tmk_value *value, struct tmk_qdq_operand *out);
/* Whether all that becomes of the value is to be quantized, perhaps behind a Relu. */
bool tmk_qdq_result_of(const struct tmk_rewrite *rw, const struct tmk_value *value,
                       struct tmk_qdq_result *out);
/* What this QuantizeLinear does, if it has one scale. */
bool tmk_qdq_result_at(struct tmk_node *quantize, struct tmk_qdq_result *out);

/* Of channel i; the only one where there is one. */
double tmk_qdq_scale(const struct tmk_qdq_operand *operand, uint32_t i);
int64_t tmk_qdq_zero_of(const struct tmk_qdq_operand *operand, uint32_t i);
/* One scale and zero point, equal, and the same type of codes. */
bool tmk_qdq_same(const struct tmk_qdq_operand *operand, const struct tmk_qdq_result *result);
/* A new initializer: the scalar 0 of this type. */
TMK_NODISCARD enum tmk_status tmk_qdq_zero(struct tmk_rewrite *rw, struct tmk_graph *graph,
                                           enum tmk_dtype dtype, struct tmk_value **out);

#endif
