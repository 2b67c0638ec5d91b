/* SPDX-License-Identifier: Apache-2.0 */
/* Types and tensors in the graph's text form (print.h), read and written. */
#ifndef TMK_GRAPH_LITERAL_H
#define TMK_GRAPH_LITERAL_H

#include "graph/lex.h"
#include "graph/print.h"

/* The short name of an element type, "?" for none. */
const char *tmk_literal_dtype(enum tmk_dtype dtype);

void tmk_literal_put_type(struct tmk_text *text, const struct tmk_type *type);
/* A float as an attribute: "0.5f", "-inf", "nan:0x7fc00001". */
void tmk_literal_put_float(struct tmk_text *text, float value);
/* The type of a tensor, without its elements. */
void tmk_literal_put_tensor_type(struct tmk_text *text, const struct tmk_tensor *tensor);
/* "{1, 2}", "#k" (the tensor goes to the pool) or, without a pool, "...". */
void tmk_literal_put_elements(struct tmk_text *text, const struct tmk_tensor *tensor,
                              size_t inline_limit, struct tmk_pool *pool);

/* Symbols live in the lexer's arena. */
TMK_NODISCARD enum tmk_status tmk_literal_type(struct tmk_lex *lex, struct tmk_type *out);
/* What put_float writes. */
TMK_NODISCARD enum tmk_status tmk_literal_float(struct tmk_lex *lex, float *out);
/* What put_elements writes, as a tensor of that type. End it with tmk_tensor_finish. */
TMK_NODISCARD enum tmk_status tmk_literal_elements(struct tmk_lex *lex, const char *type_at,
                                                   const struct tmk_type *type,
                                                   const struct tmk_pool *pool,
                                                   struct tmk_tensor *out);

/* Adds a reference to the tensor; false when memory ran out. */
bool tmk_pool_add(struct tmk_pool *pool, const struct tmk_tensor *tensor);

#endif
