/* SPDX-License-Identifier: Apache-2.0 */
/* Names, strings, types and tensors in the graph's text form (print.h). */
#pragma once

#include "graph/print.h"

/* Writes n bytes as they stand inside a string: printable ASCII and well-formed UTF-8 as they
 * are, the rest escaped. */
void tmk_literal_put_escaped(struct tmk_text *text, const char *bytes, size_t n);
/* The same between quotes. */
void tmk_literal_put_string(struct tmk_text *text, const char *bytes, size_t n);
/* Writes a name as a word (with `dotted`: as words with dots between them) if it is one, else as a
 * string. */
void tmk_literal_put_name(struct tmk_text *text, const char *name, bool dotted);

/* The short name of an element type, "?" for none. */
const char *tmk_literal_dtype(enum tmk_dtype dtype);

void tmk_literal_put_type(struct tmk_text *text, const struct tmk_type *type);
/* A float as an attribute: "0.5f", "-inf", "nan:0x7fc00001". */
void tmk_literal_put_float(struct tmk_text *text, float value);
/* The type of a tensor, without its elements. */
void tmk_literal_put_tensor_type(struct tmk_text *text, const struct tmk_tensor *tensor);
/* "{1, 2}", or "..." beyond the limit. */
void tmk_literal_put_elements(struct tmk_text *text, const struct tmk_tensor *tensor,
                              size_t inline_limit);
