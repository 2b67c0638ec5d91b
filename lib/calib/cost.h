/* SPDX-License-Identifier: Apache-2.0 */
/* What a network under encodings costs, as far as a profile tells: shapes, no attributes. */
#pragma once

#include <tidemark/encodings.h>
#include <tidemark/profile.h>

#include "calib/net.h"

struct tmk_cost {
    double bytes;  /* of all weights: their codes, or float32 */
    double share8; /* of the multiplications of Conv, Gemm and MatMul: both operands have 8 bits or
                      less; 1 where there are none */
};
/* Multiplications of a Conv, Gemm or MatMul; 0: the node is none, or computes a constant. */
double tmk_products_of(const struct tmk_net *net, uint32_t node);
/* Both of its operands have 8 bits or less. */
bool tmk_is_8_bit_product(const struct tmk_net *net, const struct tmk_encodings *encodings,
                          uint32_t node);
enum tmk_status tmk_cost_of(const struct tmk_profile *profile,
                            const struct tmk_encodings *encodings, struct tmk_cost *out,
                            struct tmk_diag *diag);
