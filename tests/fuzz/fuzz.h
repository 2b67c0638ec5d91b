/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets share. A target is one file, fuzz_NAME.c, with FUZZ_TARGET(NAME);
 * libFuzzer's main feeds it mutations, replay.c's the files that are checked in. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/status.h>

/* Gives 0. The bytes are the caller's. */
typedef int fuzz_target(const uint8_t *data, size_t size);
#define FUZZ_TARGET(name)                                                                          \
    fuzz_target fuzz_##name;                                                                       \
    int fuzz_##name(const uint8_t *data, size_t size)

/* The chosen target, at first the first one of the program. */
fuzz_target LLVMFuzzerTestOneInput;
/* False: the program has no target of that name. */
bool fuzz_choose(const char *name);

/* Writes the bytes as a file of that name, over the one from before, into a folder of the process's
 * own, which goes when it exits. Gives its path, good until the next call. */
const char *fuzz_file(const char *name, const uint8_t *data, size_t size);

/* The first byte, which is taken away; 0 when there is none. Bytes that choose options stand first.
 */
uint8_t fuzz_take(const uint8_t **data, size_t *size);

/* Stops with the place and the text when a promise of the library's is broken. */
#define fuzz_check(holds, diag) ((holds) ? (void)0 : fuzz_fail(__FILE__, __LINE__, #holds, (diag)))
_Noreturn void fuzz_fail(const char *file, int line, const char *what, const struct tmk_diag *diag);

/* An outcome: a failure must have a text, in this very diag; a lack of memory is none of
 * hostile bytes' business, unless fuzz_ran_out. */
bool fuzz_ok(enum tmk_status status, const struct tmk_diag *diag);
/* How many were successes, and in all. */
extern unsigned long fuzz_successes, fuzz_outcomes;
/* An outcome that has no other reason to be a failure. */
bool fuzz_done(enum tmk_status status, const struct tmk_diag *diag);

/* An allocation was made to fail (alloc.c) while this input was read. */
extern bool fuzz_ran_out;
