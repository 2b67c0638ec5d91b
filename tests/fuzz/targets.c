/* SPDX-License-Identifier: Apache-2.0 */
/* The targets of a program: FUZZ_TARGETS is X(NAME) for each; the build defines it. */
#include <string.h>

#include "fuzz.h"
#include "mutate.h"

#define X(name) fuzz_target fuzz_##name;
FUZZ_TARGETS
#undef X

static const struct {
    const char *name;
    fuzz_target *run;
} targets[] = {
#define X(name) {#name, fuzz_##name},
    FUZZ_TARGETS
#undef X
};
static size_t chosen;

bool fuzz_choose(const char *name) {
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strcmp(targets[i].name, name) == 0) {
            chosen = i;
            return true;
        }
    return false;
}

const char *fuzz_chosen(void) {
    return targets[chosen].name;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return targets[chosen].run(data, size);
}
