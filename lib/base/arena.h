/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that lives and dies together. Not thread-safe. */
#pragma once

#include <stddef.h>

#include <tidemark/status.h>

struct tmk_arena_block;

/* Zero-initialised is ready to use. */
struct tmk_arena {
    struct tmk_arena_block *last;
};

/* Zeroed, 16-byte aligned memory that lives until finish; NULL when there is none left. size 0 is
 * valid. */
void *tmk_arena_alloc(struct tmk_arena *arena, size_t size);
/* The same for `count` elements of `size` bytes; NULL on overflow too. */
void *tmk_arena_array(struct tmk_arena *arena, size_t count, size_t size);
/* A copy; NULL in gives NULL out. */
char *tmk_arena_strdup(struct tmk_arena *arena, const char *text);
/* A terminated copy of `len` bytes. */
char *tmk_arena_strndup(struct tmk_arena *arena, const char *text, size_t len);
/* What printf would print; NULL when there is no memory left. */
char *tmk_arena_printf(struct tmk_arena *arena, const char *fmt, ...) TMK_PRINTF(2, 3);
/* Frees everything and leaves a ready, empty arena. */
void tmk_arena_finish(struct tmk_arena *arena);
