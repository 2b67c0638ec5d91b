/* SPDX-License-Identifier: Apache-2.0 */
/* Relay files there and back.
 *
 *   relay_text [-o OUT] FILE...
 *
 * Says of each whether what was printed reads back equal, and whether it is the same bytes up to
 * the metadata section; with -o it also writes what was printed. FILE.params is read and printed as
 * parameters, which must give the same bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "relay/ast.h"
#include "relay_equal.h"

/* Of the text before its metadata section. */
static size_t body_length(const char *text, size_t len) {
    static const char *const marks[] = {"\n#[metadata]", "\nMETADATA:"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        const char *mark = memmem(text, len, marks[i], strlen(marks[i]));
        if (mark)
            return (size_t)(mark - text);
    }
    return len;
}

static enum tmk_status text_there_and_back(const char *path, const char *text, size_t len,
                                           struct tmk_text *printed, struct tmk_diag *diag) {
    struct tmk_relay_module *module = NULL, *again = NULL;
    enum tmk_status status = tmk_relay_parse(text, len, path, &module, diag);
    if (status == TMK_OK)
        status = tmk_relay_print(module, printed, diag);
    if (status == TMK_OK)
        status = tmk_relay_parse(printed->data, printed->len, "printed", &again, diag);
    if (status == TMK_OK && !relay_equal(module, again, true, diag))
        status = TMK_MISMATCH;
    if (status == TMK_OK) {
        size_t body = body_length(text, len);
        bool exact =
            body == body_length(printed->data, printed->len) && !memcmp(text, printed->data, body);
        printf("%s: equal%s, %u functions, %u constants\n", path, exact ? ", exact" : "",
               module->n_functions, module->n_constants);
    }
    tmk_relay_module_destroy(&module);
    tmk_relay_module_destroy(&again);
    return status;
}

static enum tmk_status params_there_and_back(const char *path, const char *bytes, size_t len,
                                             struct tmk_text *printed, struct tmk_diag *diag) {
    struct tmk_relay_params *params = NULL;
    enum tmk_status status = tmk_relay_params_parse(bytes, len, path, &params, diag);
    if (status == TMK_OK)
        status = tmk_relay_params_print(params, printed, diag);
    if (status == TMK_OK) {
        bool exact = printed->len == len && !memcmp(printed->data, bytes, len);
        printf("%s: %s, %u tensors\n", path, exact ? "exact" : "OTHER BYTES", params->n);
    }
    tmk_relay_params_destroy(&params);
    return status;
}

static enum tmk_status there_and_back(const char *path, const char *out, struct tmk_diag *diag) {
    struct tmk_buf *file = NULL;
    struct tmk_text printed = {0};
    const char *dot = strrchr(path, '.');
    enum tmk_status status = tmk_file_map(path, &file, diag);
    if (status == TMK_OK)
        status = (dot && !strcmp(dot, ".params") ? params_there_and_back : text_there_and_back)(
            path, tmk_buf_data(file), tmk_buf_size(file), &printed, diag);
    if (status == TMK_OK && out)
        status = tmk_file_write(out, printed.data, printed.len, diag);
    tmk_text_finish(&printed);
    tmk_buf_unref(&file);
    return status;
}

int main(int argc, char **argv) {
    int bad = 0, first = 1;
    const char *out = NULL;
    if (argc > 2 && !strcmp(argv[1], "-o")) {
        out = argv[2];
        first = 3;
    }
    for (int i = first; i < argc; i++) {
        struct tmk_diag diag = {0};
        if (there_and_back(argv[i], out, &diag) != TMK_OK) {
            printf("%s\n", diag.text);
            bad++;
        }
    }
    return bad > 0;
}
