/* SPDX-License-Identifier: Apache-2.0 */
/* What a sequence holds: tensors, in order, of one element type.
 *
 * The count of references is atomic. A list is filled by its creator and read-only once shared. */
#pragma once

#include <tidemark/tensor.h>

struct tmk_list;

/* n places for tensors, all "no tensor"; count 1. NULL when memory ran out. */
struct tmk_list *tmk_list_create(size_t n);
struct tmk_list *tmk_list_ref(struct tmk_list *list);
/* Drops a reference and sets *list to NULL; the last one finishes the tensors. NULL is allowed. */
void tmk_list_unref(struct tmk_list **list);

size_t tmk_list_length(const struct tmk_list *list);
/* The tensors, to be read. */
const struct tmk_tensor *tmk_list_items(const struct tmk_list *list);
/* The place of tensor i, to be filled with one that owns its bytes, before the list is shared. */
struct tmk_tensor *tmk_list_place(struct tmk_list *list, size_t i);

/* The sequence of that list, whose reference it takes. `dtype` is that of its tensors. */
void tmk_tensor_of_list(struct tmk_tensor *tensor, enum tmk_dtype dtype, struct tmk_list *list);
/* An optional that holds nothing; `dtype` is of what it might hold, or TMK_UNDEFINED. */
void tmk_tensor_nothing(struct tmk_tensor *tensor, enum tmk_dtype dtype);
/* For messages: "a tensor", "a sequence", "an optional", "an optional sequence". */
const char *tmk_type_kind_text(enum tmk_type_kind kind);
/* For messages: "a tensor", "a sequence", "an optional that holds nothing". */
const char *tmk_tensor_what(const struct tmk_tensor *tensor);
