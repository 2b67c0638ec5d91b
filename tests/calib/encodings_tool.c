/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests that are not in C, and for refreshing the golden file:
 *     encodings_tool sample OUT
 *     encodings_tool convert IN OUT   reads encodings and writes them
 * The exit status is the enum tmk_status, its text goes to stderr. */
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "calib/sample.h"

static enum tmk_status run(int argc, char **argv, struct tmk_encodings **encodings,
                           struct tmk_diag *diag) {
    if (argc == 4 && strcmp(argv[1], "convert") == 0)
        TMK_TRY(tmk_encodings_read(argv[2], encodings, diag));
    else if (argc == 3 && strcmp(argv[1], "sample") == 0)
        TMK_TRY(sample_encodings(encodings, diag));
    else
        return tmk_fail(diag, TMK_ARGUMENT, "sample OUT | convert IN OUT");
    return tmk_encodings_write(*encodings, argv[argc - 1], diag);
}

int main(int argc, char **argv) {
    struct tmk_diag diag = {0};
    struct tmk_encodings *encodings = NULL;
    enum tmk_status status = run(argc, argv, &encodings, &diag);
    if (status != TMK_OK)
        fprintf(stderr, "%s\n", diag.text);
    tmk_encodings_destroy(&encodings);
    return (int)status;
}
