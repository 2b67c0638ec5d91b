/* SPDX-License-Identifier: Apache-2.0 */
/* What quantization has to know of operators, by ONNX's names, and how others call them. Pure;
 * thread-safe. */
#ifndef TMK_CALIB_OPCLASS_H
#define TMK_CALIB_OPCLASS_H

#include <stdbool.h>
#include <stdint.h>

/* How an operator of integers would work. */
enum tmk_op_class {
    TMK_OP_OTHER,      /* on floats */
    TMK_OP_MACC,       /* multiplies and accumulates: its result's scale is a product */
    TMK_OP_NORM,       /* normalizes, then multiplies by a weight and adds a bias */
    TMK_OP_DIRECT,     /* gives its input's numbers, or some of them, or means: same codes do */
    TMK_OP_CONCAT,     /* gives the numbers of all its inputs */
    TMK_OP_CLAMP,      /* Relu, Clip: its range can be its operand's */
    TMK_OP_SUM,        /* operands are brought to the result's scale, then added, compared ... */
    TMK_OP_PRODUCT,    /* of two operands */
    TMK_OP_RESCALE,    /* a function of one operand that only brings it to another scale */
    TMK_OP_UNIT_RANGE, /* a function into [0, 1] */
};

struct tmk_op_row {
    const char *op; /* ONNX's name */
    enum tmk_op_class class;
    uint32_t weights; /* bit i: input i is multiplied by, where it is a constant */
    int32_t bias;     /* the input that is added to the accumulator; -1: none */
    uint32_t numbers; /* bit i: a constant on input i is an operand like an activation; bit 31: so
                         are all from there on */
};

/* A row for operators that are not known, too. */
const struct tmk_op_row *tmk_op_class_of(const char *domain, const char *op);
bool tmk_op_is_weight(const struct tmk_op_row *row, uint32_t input);
bool tmk_op_is_number(const struct tmk_op_row *row, uint32_t input);

/* Does `word` (of a config) mean this operator? ONNX's name, or Relay's or Keras', in capitals or
 * not. "dense" and "bias_add" mean only some nodes of their operators: *only says which. */
enum tmk_op_only { TMK_OP_ALL, TMK_OP_ONLY_DENSE, TMK_OP_ONLY_BIAS };
bool tmk_op_is_called(const char *op, const char *word, enum tmk_op_only *only);

#endif
