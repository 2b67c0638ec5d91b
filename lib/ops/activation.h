/* SPDX-License-Identifier: Apache-2.0 */
/* Activations, for the operators that have one inside. */
#ifndef TMK_OPS_ACTIVATION_H
#define TMK_OPS_ACTIVATION_H

#include "ops/unary.h"

/* 0.5 x (1 + erf(x / sqrt 2)), and its approximation with tanh; no parameters. */
extern const struct tmk_unary tmk_gelu_exact, tmk_gelu_tanh;

/* ONNX's activation of that name, with its parameters' names and defaults; NULL: unknown. It takes
 * float32. */
const struct tmk_unary *tmk_activation_find(const char *name);

#endif
