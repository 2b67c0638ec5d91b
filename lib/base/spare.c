/* SPDX-License-Identifier: Apache-2.0 */
#include "base/spare.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"

/* AddressSanitizer should see the use of what was freed. */
#if defined __SANITIZE_ADDRESS__
#define SEEN 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define SEEN 1
#endif
#endif
#ifndef SEEN
#define SEEN 0
#endif

enum { SPARES = 4, MOST = 1 << 24 };

/* The first word of a block that is kept tells its size. */
static _Atomic(void *) spares[SPARES];
static atomic_uint turn;

static size_t size_of(const void *block) {
    return *(const size_t *)block;
}

static void release(void *block) {
    size_t bytes = size_of(block);
    munmap(block, bytes);
    tmk_memory_give(bytes);
}

void *tmk_spare_take(size_t bytes) {
    for (unsigned i = 0; i < SPARES; i++) {
        void *block = atomic_exchange(&spares[i], NULL), *nothing = NULL;
        if (!block)
            continue;
        if (size_of(block) == bytes)
            return memset(block, 0, bytes);
        if (!atomic_compare_exchange_strong(&spares[i], &nothing, block))
            release(block);
    }
    return NULL;
}

bool tmk_spare_keep(void *block, size_t bytes) {
    if (SEEN || bytes > MOST)
        return false;
    *(size_t *)block = bytes;
    for (unsigned i = 0; i < SPARES; i++) {
        void *nothing = NULL;
        if (atomic_compare_exchange_strong(&spares[i], &nothing, block))
            return true;
    }
    void *other = atomic_exchange(&spares[atomic_fetch_add(&turn, 1) % SPARES], block);
    if (other)
        release(other);
    return true;
}

bool tmk_spare_drop(void) {
    bool dropped = false;
    for (unsigned i = 0; i < SPARES; i++) {
        void *block = atomic_exchange(&spares[i], NULL);
        if (!block)
            continue;
        release(block);
        dropped = true;
    }
    return dropped;
}
