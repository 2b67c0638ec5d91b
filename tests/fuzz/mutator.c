/* SPDX-License-Identifier: Apache-2.0 */
/* What libFuzzer asks for a mutation: of the form, where the target has one, and of bytes. */
#include "mutate.h"

/* Of libFuzzer: by its rules, and the reverse. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    enum { IN_BYTES = 4 }; /* one in so many */
    const size_t mutated = fuzz_has_mutator(fuzz_chosen()) && seed % IN_BYTES
                               ? fuzz_mutate(fuzz_chosen(), data, size, most, seed)
                               : 0;
    return mutated ? mutated : LLVMFuzzerMutate(data, size, most);
}
