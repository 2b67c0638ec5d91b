/* SPDX-License-Identifier: Apache-2.0 */
/* Activations, for the operators that have one inside. */
#pragma once

#include "ops/unary.h"

/* ONNX's activation of that name, with its parameters' names and defaults; NULL: unknown. It takes
 * float32. */
const struct tmk_unary *tmk_activation_find(const char *name);
