/* SPDX-License-Identifier: Apache-2.0 */
/* A lineage as JSON: one member of the header a line, one entry a line. */
#include "base/diag.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "profile/lineage_format.h"

enum tmk_status tmk_lineage_write_json(const struct tmk_lineage_record *record,
                                       struct tmk_outfile *out, struct tmk_diag *diag) {
    struct tmk_text text = {0};
    tmk_text_puts(&text, "{\n");
    enum tmk_status status = tmk_fields_text(&tmk_lineage_fields, record, ",\n", &text, diag);
    tmk_text_puts(&text, "\n}\n");
    if (status == TMK_OK && text.failed)
        status = tmk_nomem(diag);
    if (status == TMK_OK)
        status = tmk_outfile_write(out, text.data, text.len, diag);
    tmk_text_finish(&text);
    return status;
}

static enum tmk_status read_tree(const cJSON *tree, struct tmk_lineage_record **out,
                                 struct tmk_diag *diag) {
    struct tmk_lineage_record *record;
    TMK_TRY(tmk_lineage_record_create(
        (uint32_t)cJSON_GetArraySize(tmk_json_member(tree, "originals")),
        (uint32_t)cJSON_GetArraySize(tmk_json_member(tree, "values")), &record, diag));
    struct tmk_field_reader r = tmk_lineage_reader(record, diag);
    enum tmk_status status = tmk_fields_get(&r, &tmk_lineage_fields, tree, record);
    if (status == TMK_OK)
        *out = record;
    else
        tmk_lineage_record_destroy(&record);
    return status;
}

enum tmk_status tmk_lineage_read_json(const char *text, size_t len, struct tmk_lineage_record **out,
                                      struct tmk_diag *diag) {
    cJSON *tree;
    size_t held = 0;
    TMK_TRY(tmk_utf8_check(text, len, diag));
    TMK_TRY(tmk_json_parse_object(text, len, &tree, &held, diag));
    enum tmk_status status = read_tree(tree, out, diag);
    cJSON_Delete(tree);
    tmk_memory_uncharge(held);
    return status;
}
