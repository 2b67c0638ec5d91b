/* SPDX-License-Identifier: Apache-2.0 */
/* What holds the helper programs, for whoever wants to know before a file comes. */
#include <stdio.h>
#include <string.h>

#include <tidemark/session.h>

#include "base/diag.h"
#include "sandbox/helper.h"
#include "tmk_version.h"

enum { SHARED = 4096, MEMORY = 1 << 26 };

enum tmk_status tmk_helper_confinement(const char *reads, char text[TMK_CONFINEMENT_SIZE],
                                       struct tmk_diag *diag) {
    char program[64];
    struct tmk_helper helper;
    if (strcmp(reads, "archives") != 0 && !strstr(TMK_FEATURES, reads))
        return tmk_fail(diag, TMK_UNSUPPORTED, "this build reads no %s", reads);
    snprintf(program, sizeof program, "tidemark-read-%s", reads);
    const struct tmk_helper_kind kind = {program, reads, program};
    TMK_TRY(tmk_helper_begin(&kind, -1, SHARED, MEMORY, &helper, diag));
    const struct tmk_helper_ready *ready = &helper.ready;
    int at = snprintf(text, TMK_CONFINEMENT_SIZE, "%s", ready->seccomp ? "seccomp, " : "");
    if (ready->landlock)
        at += snprintf(text + at, TMK_CONFINEMENT_SIZE - (size_t)at, "Landlock %u, ",
                       ready->landlock);
    snprintf(text + at, TMK_CONFINEMENT_SIZE - (size_t)at, "limits");
    tmk_helper_end(&helper);
    return TMK_OK;
}
