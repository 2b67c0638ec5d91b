/* SPDX-License-Identifier: Apache-2.0 */
/* A few mapped blocks that were given back, for the next request of the same size: the system
 * would take each page away and give it back by a fault. Thread-safe, and safe in a process that
 * was forked while another thread was in here. */
#ifndef TMK_BASE_SPARE_H
#define TMK_BASE_SPARE_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
