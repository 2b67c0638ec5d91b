/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../unit/remove.h"

bool fuzz_ran_out;
unsigned long fuzz_successes, fuzz_outcomes;

static char folder[256];

static void remove_folder(void) {
    (void)remove_with_files(folder);
}

const char *fuzz_file(const char *name, const uint8_t *data, size_t size) {
    static char path[sizeof folder + 64];
    if (!*folder) {
        const char *parent = getenv("TMPDIR");
        if (!parent)
            parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
        snprintf(folder, sizeof folder, "%s/tidemark-fuzz-XXXXXX", parent);
        if (!mkdtemp(folder) || atexit(remove_folder) != 0) {
            perror(folder);
            exit(2);
        }
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(2);
    }
    return path;
}

uint8_t fuzz_take(const uint8_t **data, size_t *size) {
    if (!*size)
        return 0;
    --*size;
    return *(*data)++;
}

void fuzz_fail(const char *file, int line, const char *what, const struct tmk_diag *diag) {
    fprintf(stderr, "%s:%d: does not hold: %s; %s\n", file, line, what, diag ? diag->text : "");
    abort();
}

bool fuzz_ok(enum tmk_status status, const struct tmk_diag *diag) {
    fuzz_check(status != TMK_NOMEM || fuzz_ran_out, diag);
    fuzz_check(status == TMK_OK || (diag->status != TMK_OK && *diag->text), diag);
    fuzz_outcomes++;
    fuzz_successes += status == TMK_OK;
    if (status != TMK_OK && getenv("TIDEMARK_FUZZ_SAY"))
        fprintf(stderr, "%s\n", diag->text);
    return status == TMK_OK;
}

bool fuzz_done(enum tmk_status status, const struct tmk_diag *diag) {
    const bool machine = status == TMK_NOMEM || status == TMK_WRITE || status == TMK_MACHINE;
    fuzz_check(status == TMK_OK || (machine && fuzz_ran_out), diag);
    return status == TMK_OK;
}
