/* SPDX-License-Identifier: Apache-2.0 */
/* Mutants of every file of the given folders go through a target (mutate.h), so many of each, the
 * same in every run; of a target whose bytes are choices, bytes drawn at random.
 * TIDEMARK_FUZZ_KEEP names a file that gets each mutant before it is read.
 *
 *     replay_mutants TARGET COUNT FOLDER...      one that is not there has no files
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "fuzz.h"
#include "mutate.h"

enum {
    MOST = 200000,
    CHAIN = 4 /* a mutant in so many begins with the file itself */,
    CHOICES = 48
};

static int by_name(const struct dirent **a, const struct dirent **b) {
    return alphasort(a, b);
}

static int is_file(const struct dirent *entry) {
    return entry->d_type != DT_DIR;
}

static void keep(const uint8_t *data, size_t size) {
    const char *path = getenv("TIDEMARK_FUZZ_KEEP");
    FILE *file = path ? fopen(path, "wb") : NULL;
    if (file) {
        (void)fwrite(data, 1, size, file);
        fclose(file);
    }
}

static size_t draw_choices(uint8_t *data, unsigned seed) {
    uint64_t random = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < CHOICES; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        data[i] = (uint8_t)(random >> 40);
    }
    return 1 + (random >> 33) % CHOICES;
}

/* Returns how many there were. */
static int replay(const struct tmk_buf *buf, const char *target, int count) {
    static uint8_t data[MOST];
    size_t size = 0;
    int ran = 0;
    for (int i = 0; i < count && tmk_buf_size(buf) <= MOST; i++) {
        if (i % CHAIN == 0 || !size) {
            size = tmk_buf_size(buf);
            memcpy(data, tmk_buf_data(buf), size);
        }
        size = fuzz_has_mutator(target) ? fuzz_mutate(target, data, size, MOST, (unsigned)i)
                                        : draw_choices(data, (unsigned)i);
        if (!size)
            continue;
        keep(data, size);
        (void)LLVMFuzzerTestOneInput(data, size);
        ran++;
    }
    return ran;
}

int main(int argc, char **argv) {
    int ran = 0, files = 0;
    if (argc < 4 || !fuzz_choose(argv[1])) {
        fprintf(stderr, "usage: %s TARGET COUNT FOLDER...\n", argv[0]);
        return 2;
    }
    for (int i = 3; i < argc; i++) {
        struct dirent **entries = NULL;
        const int n = scandir(argv[i], &entries, is_file, by_name);
        for (int j = 0; j < n; j++) {
            char path[4096];
            struct tmk_diag diag = {0};
            struct tmk_buf *buf = NULL;
            snprintf(path, sizeof path, "%s/%s", argv[i], entries[j]->d_name);
            printf("%s\n", path);
            fflush(stdout); /* the last line names it */
            if (tmk_file_map(path, &buf, &diag) == TMK_OK) {
                ran += replay(buf, argv[1], atoi(argv[2]));
                files++;
            }
            tmk_buf_unref(&buf);
            free(entries[j]);
        }
        free(entries);
    }
    printf("%d mutants of %d files\n", ran, files);
    return ran ? 0 : 1;
}
