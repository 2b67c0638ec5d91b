/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of a test group's own, in memory where there is such a place: files are synced. Needs
 * test.h before it. make_folder and remove_folder are the group's set-up and tear-down. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "remove.h"

static char folder[64];

static inline int make_folder(void **state) {
    (void)state;
    bool memory = access("/dev/shm", W_OK) == 0;
    strcpy(folder, memory ? "/dev/shm/tidemark-test-XXXXXX" : "/tmp/tidemark-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state) {
    (void)state;
    return remove_with_files(folder);
}

static inline const char *in_folder(const char *name, char out[128]) {
    snprintf(out, 128, "%s/%s", folder, name);
    return out;
}

/* A file as a terminated text, malloc'ed. */
static inline char *slurp(const char *path, size_t *len) {
    struct tmk_buf *buf = NULL;
    must(tmk_file_map(path, &buf, DIAG));
    *len = tmk_buf_size(buf);
    char *text = malloc(*len + 1);
    assert_non_null(text);
    memcpy(text, tmk_buf_data(buf), *len);
    text[*len] = '\0';
    tmk_buf_unref(&buf);
    return text;
}
