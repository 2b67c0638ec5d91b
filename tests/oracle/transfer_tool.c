/* SPDX-License-Identifier: Apache-2.0 */
/* For test_lineage.py: transfers a profile over a lineage.
 *
 * transfer_tool there|back PROFILE MODEL LINEAGE OUT: the profile of MODEL, the other end. */
#include <stdio.h>
#include <string.h>

#include <tidemark/lineage.h>
#include <tidemark/session.h>

int main(int argc, char **argv) {
    struct tmk_diag diag = {0};
    struct tmk_profile *from = NULL, *to = NULL;
    struct tmk_lineage_record *lineage = NULL;
    struct tmk_model *model = NULL;
    struct tmk_transfer_report report;
    if (argc != 6)
        return 2;
    enum tmk_status status = tmk_profile_read(argv[2], &from, &diag);
    if (status == TMK_OK)
        status = tmk_model_open(argv[3], false, &model, &diag);
    if (status == TMK_OK)
        status = tmk_lineage_record_read(argv[4], &lineage, &diag);
    if (status == TMK_OK)
        status = tmk_model_skeleton(model, &to, &diag);
    if (status == TMK_OK)
        status =
            tmk_profile_transfer(from, lineage, strcmp(argv[1], "back") == 0, to, &report, &diag);
    if (status == TMK_OK)
        status = tmk_profile_write(to, argv[5], &diag);
    if (status == TMK_OK)
        printf("%u own, %u same, %u derived, %u unknown\n", report.own, report.same, report.derived,
               report.unknown);
    else
        fprintf(stderr, "%s\n", diag.text);
    tmk_profile_destroy(&from);
    tmk_profile_destroy(&to);
    tmk_lineage_record_destroy(&lineage);
    tmk_model_close(&model);
    return status == TMK_OK ? 0 : 1;
}
