/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/size.h"

enum { FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20, ARENA_ALIGN = 16 };

struct tmk_arena_block {
    struct tmk_arena_block *previous;
    size_t used, size;
    _Alignas(16) unsigned char bytes[];
};

void *tmk_arena_alloc(struct tmk_arena *arena, size_t size) {
    size_t need;
    if (!tmk_add_size(size, ARENA_ALIGN - 1, &need))
        return NULL;
    need &= ~(size_t)(ARENA_ALIGN - 1);
    struct tmk_arena_block *block = arena->last;
    if (!block || block->size - block->used < need) {
        size_t grown = block ? block->size * 2 : FIRST_BLOCK;
        if (grown > LARGEST_BLOCK)
            grown = LARGEST_BLOCK;
        size_t capacity = need > grown ? need : grown, total;
        if (!tmk_add_size(capacity, sizeof *block, &total))
            return NULL;
        block = tmk_memory_zeroed(total);
        if (!block)
            return NULL;
        block->size = capacity;
        block->previous = arena->last;
        arena->last = block;
    }
    void *p = block->bytes + block->used;
    block->used += need;
    return p;
}

void *tmk_arena_array(struct tmk_arena *arena, size_t count, size_t size) {
    size_t total;
    return tmk_mul_size(count, size, &total) ? tmk_arena_alloc(arena, total) : NULL;
}

char *tmk_arena_strndup(struct tmk_arena *arena, const char *text, size_t len) {
    size_t total;
    char *copy = tmk_add_size(len, 1, &total) ? tmk_arena_alloc(arena, total) : NULL;
    if (copy && len)
        memcpy(copy, text, len);
    return copy;
}

char *tmk_arena_strdup(struct tmk_arena *arena, const char *text) {
    return text ? tmk_arena_strndup(arena, text, strlen(text)) : NULL;
}

char *tmk_arena_printf(struct tmk_arena *arena, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int len = vsnprintf(NULL, 0, fmt, args);
    char *text = len < 0 ? NULL : tmk_arena_alloc(arena, (size_t)len + 1);
    if (text)
        vsnprintf(text, (size_t)len + 1, fmt, again);
    va_end(again);
    va_end(args);
    return text;
}

void tmk_arena_finish(struct tmk_arena *arena) {
    for (struct tmk_arena_block *block = arena->last; block;) {
        struct tmk_arena_block *previous = block->previous;
        tmk_memory_free(block);
        block = previous;
    }
    arena->last = NULL;
}
