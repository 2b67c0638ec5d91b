/* SPDX-License-Identifier: Apache-2.0 */
/* Goes between a fuzzer and a target whose allocations are wrapped by the linker (--wrap): an input
 * goes through the target as it is, and then again and again with an allocation that fails. Which
 * ones follows from the bytes, or with TIDEMARK_FUZZ_POINTS=N from the first to the last, N of
 * them. Allocations within shared libraries don't fail. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "fuzz.h"

enum { POINTS = 2 };

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): --wrap's names */
int __real_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* the target's */
int __wrap_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static atomic_ulong calls;
static unsigned long failing; /* from 1; 0: none */
static bool ever_after;

static bool fails(void) {
    unsigned long n = atomic_fetch_add(&calls, 1) + 1;
    bool yes = failing && (n == failing || (ever_after && n > failing));
    if (yes) {
        fuzz_ran_out = true;
        errno = ENOMEM;
    }
    return yes;
}

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): --wrap's names */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **out, size_t alignment, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

void *__wrap_malloc(size_t size) {
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size) {
    return fails() ? NULL : __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t size) {
    return fails() ? ENOMEM : __real_posix_memalign(out, alignment, size);
}

char *__wrap_strdup(const char *text) {
    return fails() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t size) {
    return fails() ? NULL : __real_strndup(text, size);
}

static void run_once(const uint8_t *data, size_t size, unsigned long n, bool all) {
    atomic_store(&calls, 0);
    failing = n;
    ever_after = all;
    (void)__real_LLVMFuzzerTestOneInput(data, size);
    failing = 0;
    fuzz_ran_out = false;
}

int __wrap_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *asked = getenv("TIDEMARK_FUZZ_POINTS");
    run_once(data, size, 0, false);
    const unsigned long most = atomic_load(&calls), wanted = asked ? strtoul(asked, NULL, 10) : 0,
                        points = wanted < most ? wanted : most;
    for (unsigned long k = 0; k < points; k++)
        run_once(data, size, 1 + k * most / points, false);
    if (asked)
        return 0;
    for (unsigned k = 0; k < POINTS && most; k++) {
        const uint64_t hash = XXH64(data, size, k);
        run_once(data, size, 1 + hash % most, hash >> 63);
    }
    return 0;
}
