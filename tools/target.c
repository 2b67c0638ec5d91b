/* SPDX-License-Identifier: Apache-2.0 */
#include "target.h"

#include <string.h>

#include "command.h"

bool wants_targets(const char *name) {
    return name && strcmp(name, "help") == 0;
}

int list_targets(void) {
    const char *name;
    for (size_t i = 0; (name = tmk_target_built_in(i)); i++) {
        struct tmk_diag diag = {0};
        struct tmk_target *target = NULL;
        enum tmk_status status = tmk_target_open(name, &target, &diag);
        if (status != TMK_OK)
            return report_error(status, &diag);
        print_out("%-10s %s; --to %s", name, tmk_target_title(target),
                  tmk_target_export(target, 0));
        for (size_t k = 1; tmk_target_export(target, k); k++)
            print_out(", %s", tmk_target_export(target, k));
        print_out("\n");
        tmk_target_close(&target);
    }
    return EXIT_DONE;
}

enum tmk_status open_target(const char *name, struct tmk_target **out, struct tmk_diag *diag) {
    return name ? tmk_target_open(name, out, diag) : TMK_OK;
}
