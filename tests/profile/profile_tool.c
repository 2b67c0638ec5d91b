/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests that are not in C, and for refreshing the golden files:
 *     profile_tool sample OUT...     writes the sample profile
 *     profile_tool samples OUT...    the same with extremes of each sample
 *     profile_tool convert IN OUT    reads one profile and writes it
 * The exit status is the enum tmk_status, its text goes to stderr. */
#include <stdio.h>
#include <string.h>

#include <tidemark/profile.h>

#include "base/diag.h"
#include "profile/sample.h"

static enum tmk_status run(int argc, char **argv, struct tmk_profile **profile,
                           struct tmk_diag *diag) {
    int first = 2;
    if (argc == 4 && strcmp(argv[1], "convert") == 0) {
        TMK_TRY(tmk_profile_read(argv[2], profile, diag));
        first = 3;
    } else if (argc >= 3 && strncmp(argv[1], "sample", 6) == 0) {
        TMK_TRY(sample_profile(strcmp(argv[1], "samples") == 0, profile, diag));
    } else {
        return tmk_fail(diag, TMK_ARGUMENT, "sample OUT... | samples OUT... | convert IN OUT");
    }
    for (int i = first; i < argc; i++)
        TMK_TRY(tmk_profile_write(*profile, argv[i], diag));
    return TMK_OK;
}

int main(int argc, char **argv) {
    struct tmk_diag diag = {0};
    struct tmk_profile *profile = NULL;
    enum tmk_status status = run(argc, argv, &profile, &diag);
    if (status != TMK_OK)
        fprintf(stderr, "%s\n", diag.text);
    tmk_profile_destroy(&profile);
    return (int)status;
}
