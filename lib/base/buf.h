/* SPDX-License-Identifier: Apache-2.0 */
/* Reference-counted bytes: heap memory, or a view into something that stays alive as long (a mapped
 * file). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/inputs.h"

/* The count is atomic: a buf may be shared by threads; its bytes are read-only once shared. */
struct tmk_buf;

/* 64-byte aligned, zeroed, count 1; its bytes count against the memory limit. NULL when memory ran
 * out; tmk_memory_fail reports which. */
struct tmk_buf *tmk_buf_create(size_t size);
/* A view of bytes that `owner` keeps alive (it takes a reference of its own; NULL: static memory).
 * Count 1. */
struct tmk_buf *tmk_buf_view(const void *bytes, size_t size, struct tmk_buf *owner);
/* Memory mapped elsewhere, count 1: munmap and drop the file when the last reference goes. */
struct tmk_buf *tmk_buf_mapped(void *bytes, size_t size, const struct tmk_input *file);
/* Bytes of another owner, count 1: release(owner) when the last reference goes. */
struct tmk_buf *tmk_buf_borrowed(const void *bytes, size_t size, void (*release)(void *owner),
                                 void *owner);
/* The owner of bytes that were borrowed with this release; NULL of all others, and of NULL. */
void *tmk_buf_lender(const struct tmk_buf *buf, void (*release)(void *owner));
/* Tells the system that the bytes are not needed soon: pages of a mapped file leave memory, and
 * come back when they are read. Others stay. */
void tmk_buf_rest(const struct tmk_buf *buf);
/* The same for `size` of the buf's bytes from `first` on; NULL is allowed. The page in which they
 * end stays, so that bytes may be given back piece by piece while they are read. */
void tmk_buf_rest_part(const struct tmk_buf *buf, const void *first, size_t size);
/* Are the bytes a mapped file's? NULL is not. */
bool tmk_buf_is_mapped(const struct tmk_buf *buf);
struct tmk_buf *tmk_buf_ref(struct tmk_buf *buf);
/* Drops a reference and sets *buf to NULL; NULL is allowed. */
void tmk_buf_unref(struct tmk_buf **buf);
void *tmk_buf_data(const struct tmk_buf *buf);
size_t tmk_buf_size(const struct tmk_buf *buf);
