/* SPDX-License-Identifier: Apache-2.0 */
/* Activations, for the operators that have one inside. */
#ifndef TMK_OPS_ACTIVATION_H
#define TMK_OPS_ACTIVATION_H

#include "ops/unary.h"

/* ONNX's activation of that name, with its parameters' names and defaults; NULL: unknown. It takes
 * float32. */
const struct tmk_unary *tmk_activation_find(const char *name);

#endif
