/* SPDX-License-Identifier: Apache-2.0 */
/* Files for the tests of lib/data, in a folder of their own. Needs test.h before it. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "data/source.h"

/* Made by make_folder, the group's set-up. */
static char folder[64];

static inline int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/tidemark-data-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static inline const char *in_folder(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static inline void put(const char *name, const void *bytes, size_t len) {
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    fclose(file);
}

static inline void append(struct tmk_text *text, const void *bytes, size_t len) {
    tmk_text_append(text, bytes, len);
    assert_false(text->failed);
}

/* A .npy file of a version, its header as given, and its elements. */
static inline void compose(struct tmk_text *out, int version, const char *header,
                           const void *elements, size_t size) {
    size_t n = strlen(header);
    char preamble[12] = {(char)0x93,      'N',           'U', 'M', 'P', 'Y', (char)version, 0,
                         (char)(n & 255), (char)(n >> 8)};
    tmk_text_finish(out);
    append(out, preamble, version == 1 ? 10 : 12);
    append(out, header, n);
    append(out, elements, size);
}

/* Opens what was put; the status, with the message in *diag. */
static inline enum tmk_status open_bytes(const char *name, const struct tmk_text *bytes,
                                         struct tmk_source **out, struct tmk_diag *diag) {
    tmk_diag_reset(diag);
    put(name, bytes->data, bytes->len);
    return tmk_source_open(in_folder(name), NULL, out, diag);
}

static inline void assert_says(const struct tmk_diag *diag, const char *part) {
    if (!strstr(diag->text, part))
        fail_msg("\"%s\" does not say \"%s\"", diag->text, part);
}
