/* SPDX-License-Identifier: Apache-2.0 */
/* Types and tensors in the graph's text form (graph/print.h). */
#pragma once

#include "graph/print.h"
#include "graph_text/lex.h"
#include "graph_text/pool.h"

/* Symbols live in the lexer's arena. */
enum tmk_status read_type(struct lex *lex, struct tmk_type *out);
/* A float as an attribute. */
enum tmk_status read_float_attr(struct lex *lex, float *out);
/* "{1, 2}" or "#k" (of the pool) as a tensor of that type, which stands at `type_at`. End it with
 * tmk_tensor_finish. */
enum tmk_status read_tensor_elements(struct lex *lex, const char *type_at,
                                     const struct tmk_type *type, const struct tensor_pool *pool,
                                     struct tmk_tensor *out);
