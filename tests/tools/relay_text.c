/* SPDX-License-Identifier: Apache-2.0 */
/* Reads Relay files, and says what it found. */
#include <stdio.h>

#include "base/buf.h"
#include "base/file.h"
#include "model/relay_ast.h"

int main(int argc, char **argv) {
    int bad = 0;
    for (int i = 1; i < argc; i++) {
        struct tmk_buf *file;
        struct tmk_relay_module *module;
        struct tmk_diag diag = {0};
        if (tmk_file_map(argv[i], &file, &diag) != TMK_OK ||
            tmk_relay_parse(tmk_buf_data(file), tmk_buf_size(file), argv[i], &module, &diag) !=
                TMK_OK) {
            printf("%s\n", diag.text);
            bad++;
            continue;
        }
        printf("%s: %u functions, %u constants, main %u bindings\n", argv[i], module->n_functions,
               module->n_constants,
               tmk_relay_function(module, "main") ? tmk_relay_function(module, "main")->body.n : 0);
        tmk_relay_module_destroy(&module);
        tmk_buf_unref(&file);
    }
    return bad > 0;
}
