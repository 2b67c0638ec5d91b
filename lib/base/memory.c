/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#ifdef __linux__
#include <malloc.h>
#endif
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/size.h"

/* The process's, as is what malloc keeps; see <tidemark/memory.h>. */
static _Atomic uint64_t limit, used_bytes, refused;

void tmk_memory_set_limit(uint64_t bytes) {
    atomic_store(&refused, 0);
    atomic_store(&limit, bytes);
}

uint64_t tmk_memory_limit(void) {
    return atomic_load(&limit);
}

uint64_t tmk_memory_used(void) {
    return atomic_load(&used_bytes);
}

/* Would `now` used bytes and so many more keep the limit? */
static bool fits_limit(uint64_t now, size_t bytes) {
    uint64_t most = atomic_load_explicit(&limit, memory_order_relaxed);
    return !most || (now <= most && bytes <= most - now);
}

static bool charge_system(size_t bytes) {
    uint64_t before = atomic_fetch_add_explicit(&used_bytes, bytes, memory_order_relaxed);
    if (fits_limit(before, bytes))
        return true;
    tmk_memory_uncharge(bytes);
    return false;
}

bool tmk_memory_charge(size_t bytes) {
    if (bytes > PTRDIFF_MAX) /* so that no sum of what is counted can wrap */
        return false;
    if (charge_system(bytes) || (tmk_spare_drop() && charge_system(bytes)))
        return true;
    atomic_store_explicit(&refused, bytes, memory_order_relaxed);
    return false;
}

void tmk_memory_uncharge(size_t bytes) {
    atomic_fetch_sub_explicit(&used_bytes, bytes, memory_order_relaxed);
}

uint64_t tmk_memory_refused(void) {
    return atomic_load_explicit(&refused, memory_order_relaxed);
}

static bool system_has(size_t bytes) {
    return fits_limit(atomic_load_explicit(&used_bytes, memory_order_relaxed), bytes);
}

bool tmk_memory_fits(size_t bytes) {
    return system_has(bytes) || (tmk_spare_drop() && system_has(bytes));
}

uint64_t tmk_memory_resident(void) {
    unsigned long long pages = 0, all;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file) {
        if (fscanf(file, "%llu %llu", &all, &pages) != 2)
            pages = 0;
        fclose(file);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void tmk_memory_trim(void) {
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

/* ---- blocks that know their size ---- */

enum { MEMORY_ALIGN = 64 };

/* Stands before the block, and keeps its alignment. */
struct head {
    _Alignas(MEMORY_ALIGN) size_t bytes; /* with the head */
    bool mapped;
    atomic_uint others; /* owners, but for one */
};
_Static_assert(sizeof(struct head) == MEMORY_ALIGN, "keeps the block's alignment");

static struct head *head_of(const void *memory) {
    return (struct head *)(uintptr_t)memory - 1;
}

static void *fill_head(struct head *head, size_t bytes, bool mapped) {
    if (!head) {
        tmk_memory_uncharge(bytes);
        return NULL;
    }
    head->bytes = bytes;
    head->mapped = mapped;
    atomic_init(&head->others, 0);
    return head + 1;
}

/* The head and `bytes` bytes in whole lines, taken; false where they can't be. */
static bool take_whole(size_t bytes, size_t *total) {
    size_t padded;
    if (!tmk_add_size(bytes, sizeof(struct head) + MEMORY_ALIGN - 1, &padded))
        return false;
    *total = padded & ~(size_t)(MEMORY_ALIGN - 1);
    return tmk_memory_charge(*total);
}

void *tmk_memory_zeroed(size_t bytes) {
    size_t total;
    if (!take_whole(bytes, &total))
        return NULL;
    return fill_head(calloc(1, total), total, false);
}

void *tmk_memory_aligned(size_t bytes) {
    size_t total;
    if (!take_whole(bytes, &total))
        return NULL;
    return fill_head(aligned_alloc(MEMORY_ALIGN, total), total, false);
}

void *tmk_memory_mapped(size_t bytes) {
    size_t total;
    if (bytes < TMK_SPARE_LARGE || TMK_UNDER_ASAN) {
        void *block = tmk_memory_aligned(bytes);
        return block ? memset(block, 0, bytes) : NULL;
    }
    if (!take_whole(bytes, &total))
        return NULL;
    return fill_head(tmk_spare_map(total), total, true);
}

void *tmk_memory_resized(void *old, size_t bytes) {
    size_t total, before = old ? head_of(old)->bytes : 0;
    if (!take_whole(bytes, &total))
        return NULL;
    struct head *head = realloc(old ? head_of(old) : NULL, total);
    if (!head) {
        tmk_memory_uncharge(total);
        return NULL;
    }
    tmk_memory_uncharge(before);
    return fill_head(head, total, false);
}

void tmk_memory_free(void *memory) {
    if (!memory)
        return;
    struct head *head = head_of(memory);
    const size_t bytes = head->bytes;
    if (atomic_load(&head->others) && atomic_fetch_sub(&head->others, 1))
        return;
    if (head->mapped)
        munmap(head, bytes);
    else
        free(head);
    tmk_memory_uncharge(bytes);
}

void *tmk_memory_share(void *memory) {
    if (memory)
        atomic_fetch_add(&head_of(memory)->others, 1);
    return memory;
}

bool tmk_memory_is_shared(const void *memory) {
    return memory && atomic_load(&head_of(memory)->others);
}

/* ---- messages ---- */

static const char *size_text(uint64_t bytes, char out[32]) {
    if (bytes < 1 << 20)
        snprintf(out, 32, "%llu bytes", (unsigned long long)bytes);
    else
        snprintf(out, 32, "%llu MiB", (unsigned long long)(bytes >> 20));
    return out;
}

bool tmk_nomem_by_limit(struct tmk_diag *diag) {
    char more[32], most[32];
    if (tmk_memory_refused())
        tmk_diag_set(diag, TMK_LIMIT, "%s more would be beyond the memory limit of %s",
                     size_text(tmk_memory_refused(), more), size_text(tmk_memory_limit(), most));
    else
        tmk_diag_set(diag, TMK_NOMEM, "out of memory");
    return tmk_memory_refused() != 0;
}

enum tmk_status tmk_memory_fail(struct tmk_diag *diag, size_t bytes, const char *fmt, ...) {
    char what[512], need[32], most[32], now[32];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    size_text(bytes, need);
    const size_t block = bytes < PTRDIFF_MAX ? bytes + sizeof(struct head) + MEMORY_ALIGN : bytes;
    if (tmk_memory_fits(block))
        return tmk_fail(diag, TMK_NOMEM, "out of memory for %s (%s)", what, need);
    return tmk_fail(diag, TMK_LIMIT,
                    "%s takes %s, and with the %s that are in use that is more than the memory "
                    "limit of %s",
                    what, need, size_text(tmk_memory_used(), now),
                    size_text(tmk_memory_limit(), most));
}

bool tmk_grow(void *array, size_t used, size_t *size, size_t element) {
    size_t larger, bytes;
    void *items;
    if (used < *size)
        return true;
    if (!tmk_mul_size(*size ? *size : 8, 2, &larger) || !tmk_mul_size(larger, element, &bytes))
        return false;
    memcpy(&items, array, sizeof items);
    void *grown = realloc(items, bytes);
    if (!grown)
        return false;
    memcpy(array, &grown, sizeof grown);
    *size = larger;
    return true;
}

/* ---- spare blocks ---- */

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
