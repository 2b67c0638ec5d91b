/* SPDX-License-Identifier: Apache-2.0 */
/* A target without a fuzzer: every file of the given folders goes through it once.
 *
 *     replay TARGET FOLDER...      one that is not there has no files
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "fuzz.h"

static int by_name(const struct dirent **a, const struct dirent **b) {
    return alphasort(a, b);
}

static int is_file(const struct dirent *entry) {
    return entry->d_type != DT_DIR;
}

static bool replay(const char *folder, const char *name) {
    char path[4096];
    struct tmk_diag diag = {0};
    struct tmk_buf *buf = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    printf("%s\n", path);
    fflush(stdout); /* the last line names it */
    if (tmk_file_map(path, &buf, &diag) != TMK_OK) {
        fprintf(stderr, "%s\n", diag.text);
        return false;
    }
    (void)LLVMFuzzerTestOneInput(tmk_buf_data(buf), tmk_buf_size(buf));
    tmk_buf_unref(&buf);
    return true;
}

int main(int argc, char **argv) {
    int replayed = 0;
    bool good = true;
    if (argc < 2 || !fuzz_choose(argv[1])) {
        fprintf(stderr, "usage: %s TARGET FOLDER...\n", argv[0]);
        return 2;
    }
    (void)LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 2; i < argc; i++) {
        struct dirent **entries = NULL;
        int n = scandir(argv[i], &entries, is_file, by_name);
        for (int j = 0; j < n; j++) {
            good = replay(argv[i], entries[j]->d_name) && good;
            replayed++;
            free(entries[j]);
        }
        free(entries);
    }
    printf("%d files, %lu of %lu readings succeed\n", replayed, fuzz_successes, fuzz_outcomes);
    /* Seeds of a format that is read no more find nothing. */
    return good && replayed && (fuzz_successes || !fuzz_outcomes) ? 0 : 1;
}
