/* SPDX-License-Identifier: Apache-2.0 */
/* What others call ONNX's operators. Pure; thread-safe. */
#ifndef TMK_CALIB_OP_NAMES_H
#define TMK_CALIB_OP_NAMES_H

#include <stdbool.h>

/* Does `word` (of a config) mean this operator? ONNX's name, or Relay's or Keras', in capitals or
 * not. "dense" and "bias_add" mean only some nodes of their operators: *only says which. */
enum tmk_op_only { TMK_OP_ALL, TMK_OP_ONLY_DENSE, TMK_OP_ONLY_BIAS };
bool tmk_op_is_called(const char *op, const char *word, enum tmk_op_only *only);

#endif
