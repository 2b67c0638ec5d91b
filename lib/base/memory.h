/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that counts against the process's limit (<tidemark/memory.h>). Thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <tidemark/memory.h>

/* Counts so many bytes; false, and nothing is counted, where that would be more than the limit. */
bool tmk_memory_charge(size_t bytes);
/* What was taken, once it is freed. */
void tmk_memory_uncharge(size_t bytes);
/* Could so many bytes be taken now? */
bool tmk_memory_fits(size_t bytes);

/* What was refused last since the limit was set, in bytes; 0: nothing. */
uint64_t tmk_memory_refused(void);

/* Bytes of memory that the process holds now, counted or not: the program and its libraries, too. 0
 * where the system does not report it. */
uint64_t tmk_memory_resident(void);
/* Gives the system what malloc keeps of freed blocks: each thread's heap keeps its own, which
 * others cannot use. */
void tmk_memory_trim(void);

/* calloc, 64-byte aligned malloc, and a free for all of these, with their bytes counted.
 * NULL when there is none left, or none that may be taken. */
void *tmk_memory_zeroed(size_t bytes);
void *tmk_memory_aligned(size_t bytes);
/* Zeroed, too; and the system has a large one again as soon as it is freed (TMK_SPARE_LARGE): for
 * packed weights, activations and the like, which come and go with every run. What lives for a
 * moment is faster on the heap, whose pages are there. */
void *tmk_memory_mapped(size_t bytes);
/* realloc of what tmk_memory_zeroed or this made; NULL leaves `old` as it was. */
void *tmk_memory_resized(void *old, size_t bytes);
void tmk_memory_free(void *memory);
/* One more owner of the block, which is there until all have freed it. While there are several,
 * nobody writes to it, nor resizes it. */
void *tmk_memory_share(void *memory);
bool tmk_memory_is_shared(const void *memory); /* NULL is not */

/* Why there were no `bytes` bytes: TMK_LIMIT or TMK_NOMEM. The format says of what: "a tensor". */
enum tmk_status tmk_memory_fail(struct tmk_diag *diag, size_t bytes, const char *fmt, ...)
    TMK_PRINTF(3, 4);

/* Arrays that grow by one element at a time. */

/* Makes space for one more element behind `used` of a malloc'ed array, for which `size` fit. Both
 * are set anew when it moves; the array may be NULL. False when memory ran out: then both are as
 * they were. */
#define TMK_GROW(array, used, size) tmk_grow(&(array), (used), &(size), sizeof *(array))
bool tmk_grow(void *array, size_t used, size_t *size, size_t element); /* array: its address */

/* A few mapped blocks that were given back, for the next request of the same size: the system
 * would take each page away and give it back by a fault. Thread-safe, and safe in a process that
 * was forked while another thread was in here. */

/* AddressSanitizer should see the use of what was freed, and steps beyond an end. */
#if defined __SANITIZE_ADDRESS__
#define TMK_UNDER_ASAN 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define TMK_UNDER_ASAN 1
#endif
#endif
#ifndef TMK_UNDER_ASAN
#define TMK_UNDER_ASAN 0
#endif

/* A block of so many bytes, zeroed, which the caller unmaps or keeps again; NULL: there is none. It
 * was counted against the memory limit all the time. */
void *tmk_spare_take(size_t bytes);
/* Keeps a counted block of at least a page, perhaps in place of another. False: it stays the
 * caller's. */
bool tmk_spare_keep(void *block, size_t bytes);
/* Unmaps what is kept, and counts it no more. Was there something? */
bool tmk_spare_drop(void);

/* From so many bytes on a block that comes and goes is worth pages of its own: a heap keeps what
 * was freed in pieces, and the process would grow with the number of its batches and runs. */
enum { TMK_SPARE_LARGE = 1 << 18 };

/* Zeroed pages, which may replace kept blocks; NULL when there are none left. To be unmapped by
 * munmap; not counted against the memory limit. */
void *tmk_spare_map(size_t bytes);
