/* SPDX-License-Identifier: Apache-2.0 */
#include "base/spare.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"

enum { SPARES = 4, MOST = 1 << 24 };

/* The first word of a kept block is its size. */
static _Atomic(void *) spares[SPARES];
static atomic_uint turn;

static size_t size_of(const void *block) {
    return *(const size_t *)block;
}

static void release_block(void *block) {
    size_t bytes = size_of(block);
    munmap(block, bytes);
    tmk_memory_uncharge(bytes);
}

void *tmk_spare_take(size_t bytes) {
    for (unsigned i = 0; i < SPARES; i++) {
        void *block = atomic_exchange(&spares[i], NULL), *nothing = NULL;
        if (!block)
            continue;
        if (size_of(block) == bytes)
            return memset(block, 0, bytes);
        if (!atomic_compare_exchange_strong(&spares[i], &nothing, block))
            release_block(block);
    }
    return NULL;
}

bool tmk_spare_keep(void *block, size_t bytes) {
    if (TMK_UNDER_ASAN || bytes > MOST)
        return false;
    *(size_t *)block = bytes;
    for (unsigned i = 0; i < SPARES; i++) {
        void *nothing = NULL;
        if (atomic_compare_exchange_strong(&spares[i], &nothing, block))
            return true;
    }
    void *other = atomic_exchange(&spares[atomic_fetch_add(&turn, 1) % SPARES], block);
    if (other)
        release_block(other);
    return true;
}

bool tmk_spare_drop(void) {
    bool dropped = false;
    for (unsigned i = 0; i < SPARES; i++) {
        void *block = atomic_exchange(&spares[i], NULL);
        if (!block)
            continue;
        release_block(block);
        dropped = true;
    }
    return dropped;
}

void *tmk_spare_map(size_t bytes) {
    void *data;
    do
        data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    while (data == MAP_FAILED && tmk_spare_drop());
    return data == MAP_FAILED ? NULL : data;
}
