/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/list.h"

#include <stdatomic.h>

#include "base/memory.h"
#include "base/size.h"

struct tmk_list {
    atomic_size_t refs;
    size_t n;
    struct tmk_tensor items[];
};

/* Rank 1 of length 0: read as a tensor, it has no elements. */
static const struct tmk_shape no_elements = {.rank = 1};

struct tmk_list *tmk_list_create(size_t n) {
    size_t bytes;
    if (!tmk_mul_size(n, sizeof(struct tmk_tensor), &bytes) ||
        !tmk_add_size(bytes, sizeof(struct tmk_list), &bytes))
        return NULL;
    struct tmk_list *list = tmk_memory_zeroed(bytes);
    if (!list)
        return NULL;
    atomic_init(&list->refs, 1);
    list->n = n;
    return list;
}

struct tmk_list *tmk_list_ref(struct tmk_list *list) {
    atomic_fetch_add_explicit(&list->refs, 1, memory_order_relaxed);
    return list;
}

void tmk_list_unref(struct tmk_list **slot) {
    struct tmk_list *list = *slot;
    *slot = NULL;
    if (!list || atomic_fetch_sub_explicit(&list->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < list->n; i++)
        tmk_tensor_finish(&list->items[i]);
    tmk_memory_free(list);
}

size_t tmk_list_length(const struct tmk_list *list) {
    return list->n;
}

const struct tmk_tensor *tmk_list_items(const struct tmk_list *list) {
    return list->items;
}

struct tmk_tensor *tmk_list_place(struct tmk_list *list, size_t i) {
    return &list->items[i];
}

void tmk_tensor_of_list(struct tmk_tensor *tensor, enum tmk_dtype dtype, struct tmk_list *list) {
    *tensor = (struct tmk_tensor){.dtype = dtype,
                                  .origin = dtype,
                                  .shape = no_elements,
                                  .kind = TMK_TYPE_SEQUENCE,
                                  .list = list};
}

void tmk_tensor_nothing(struct tmk_tensor *tensor, enum tmk_dtype dtype) {
    *tensor = (struct tmk_tensor){
        .dtype = dtype, .origin = dtype, .shape = no_elements, .kind = TMK_TYPE_OPTIONAL};
}

const char *tmk_type_kind_text(enum tmk_type_kind kind) {
    switch (kind) {
    case TMK_TYPE_TENSOR:
        return "a tensor";
    case TMK_TYPE_SEQUENCE:
        return "a sequence";
    case TMK_TYPE_OPTIONAL:
        return "an optional";
    case TMK_TYPE_OPTIONAL_SEQUENCE:
        return "an optional sequence";
    }
    return "unknown";
}

const char *tmk_tensor_what(const struct tmk_tensor *tensor) {
    return tensor->kind == TMK_TYPE_OPTIONAL ? "an optional that holds nothing"
                                             : tmk_type_kind_text(tensor->kind);
}
