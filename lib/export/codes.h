/* SPDX-License-Identifier: Apache-2.0 */
/* Codes that a model has already, as a QDQ model has them of its weights. */
#pragma once

#include <tidemark/encodings.h>

#include "base/arena.h"
#include "base/map.h"
#include "graph/graph.h"

/* Operators that are followed behind each other: what follows recurs as deep. */
enum { TMK_CODES_DEEPEST = 8 };

/* QuantizeLinear or DequantizeLinear, of ONNX or of Microsoft. */
bool tmk_codes_is(const struct tmk_node *node, const char *op);
/* The DequantizeLinear that computes the value, alone or before operators that move elements; NULL:
 * none does. */
const struct tmk_node *tmk_codes_origin(const struct tmk_value *value);
/* There is one, and the codes that it reads are a constant, and so are scale and zero point. */
bool tmk_codes_are_constant(const struct tmk_value *value);
/* What one of these operators, all of whose inputs but the first are constants, makes of `from`. */
enum tmk_status tmk_codes_move(const struct tmk_node *node, const struct tmk_tensor *from,
                               struct tmk_arena *arena, struct tmk_tensor *out,
                               struct tmk_diag *diag);
/* Of such a value: type, axis, block, scales and zero points of its codes; out->n stays 0 where
 * they are no constants of float32 and integers, or are no longer along one axis. The scales may be
 * 0. */
enum tmk_status tmk_codes_encoding(const struct tmk_value *value, struct tmk_arena *arena,
                                   struct tmk_encoding *out, struct tmk_diag *diag);
/* The same of the codes that QuantizeLinear makes of its operand, by itself. */
enum tmk_status tmk_codes_made(const struct tmk_node *node, struct tmk_arena *arena,
                               struct tmk_encoding *out, struct tmk_diag *diag);
/* Nothing but QuantizeLinear reads the value in its graph, directly or behind operators that move
 * or clip it. */
bool tmk_codes_quantized_only(const struct tmk_value *value);
/* What the node makes of its first operand is codes of that one, if it has one scale. */
bool tmk_codes_pass(const struct tmk_node *node);
/* QuantizeLinear of a constant, or of what DequantizeLinear makes of constant codes, becomes an
 * initializer of codes: quantization-aware training leaves both before each weight. `drop`:
 * initializers that nothing reads any more are dropped. */
enum tmk_status tmk_codes_fold(struct tmk_graph *graph, bool drop, struct tmk_diag *diag);
/* The other way round, where codes are made by other means: what DequantizeLinear makes of constant
 * codes becomes initializers where it has an encoding, or is a bias. `kept`: initializer -> struct
 * tmk_encoding of the graph's arena, under which its codes are these. */
enum tmk_status tmk_codes_to_constants(struct tmk_graph *graph,
                                       const struct tmk_encodings *encodings,
                                       struct tmk_ptrmap *kept, struct tmk_diag *diag);
