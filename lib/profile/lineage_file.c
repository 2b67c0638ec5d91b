/* SPDX-License-Identifier: Apache-2.0 */
/* Lineages as files. */
#include "base/diag.h"
#include "profile/artefact.h"
#include "profile/lineage_format.h"

static enum tmk_status write_json(const void *record, struct tmk_outfile *out,
                                  struct tmk_diag *diag) {
    return tmk_lineage_write_json(record, out, diag);
}

static enum tmk_status write_hdf5(const void *record, struct tmk_outfile *out,
                                  struct tmk_diag *diag) {
    return tmk_lineage_write_hdf5(record, out, diag);
}

/* What is read is made by its reader: `slot` is a struct tmk_lineage_record **. */
static enum tmk_status read_json(const char *text, size_t len, void *slot, struct tmk_diag *diag) {
    return tmk_lineage_read_json(text, len, slot, diag);
}

static enum tmk_status read_hdf5(const char *path, void *slot, struct tmk_diag *diag) {
    return tmk_lineage_read_hdf5(path, slot, diag);
}

static enum tmk_status check_record(const void *slot, struct tmk_diag *diag) {
    return tmk_lineage_record_check(*(struct tmk_lineage_record *const *)slot, diag);
}

static const struct tmk_artefact artefact = {TMK_FILE_LINEAGE, write_json, write_hdf5, read_json,
                                             read_hdf5};

enum tmk_status tmk_lineage_record_can_write(const char *path, struct tmk_diag *diag) {
    return tmk_artefact_can_write(&artefact, path, diag);
}

enum tmk_status tmk_lineage_record_write(const struct tmk_lineage_record *record, const char *path,
                                         struct tmk_diag *diag) {
    TMK_TRY(tmk_in(diag, tmk_lineage_record_check(record, diag), "%s is not written", path));
    return tmk_artefact_write(&artefact, record, path, diag);
}

enum tmk_status tmk_lineage_record_read(const char *path, struct tmk_lineage_record **out,
                                        struct tmk_diag *diag) {
    struct tmk_lineage_record *record = NULL;
    enum tmk_status status = tmk_artefact_read(&artefact, path, &record, check_record, diag);
    if (status == TMK_OK)
        *out = record;
    else
        tmk_lineage_record_destroy(&record);
    return status;
}
