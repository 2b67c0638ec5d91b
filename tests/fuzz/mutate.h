/* SPDX-License-Identifier: Apache-2.0 */
/* Mutations that keep the form of an input, where bytes changed at random would hardly get past the
 * parser. All follow from the seed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The target's inputs are JSON. */
bool fuzz_has_mutator(const char *target);
/* Mutates the input, of `size` bytes in memory of `most`, by a few steps; where it is no JSON, it
 * becomes a document made from the target's schema. Returns its new size; 0: the result would not
 * fit. */
size_t fuzz_mutate(const char *target, uint8_t *data, size_t size, size_t most, unsigned seed);

/* The target that is chosen. */
const char *fuzz_chosen(void);
