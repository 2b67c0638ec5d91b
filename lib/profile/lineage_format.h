/* SPDX-License-Identifier: Apache-2.0 */
/* What the two formats of a lineage share. docs/lineage-format.md defines the fields. */
#pragma once

#include <tidemark/lineage.h>

#include "profile/format.h"

/* Not as they lay. */
bool tmk_lineage_is_view(const struct tmk_lineage_view *view);

/* The file, its header alone, and its entries. */
extern const struct tmk_fields tmk_lineage_fields, tmk_lineage_header_fields,
    tmk_lineage_original_fields, tmk_lineage_value_fields;
struct tmk_field_reader tmk_lineage_reader(struct tmk_lineage_record *record,
                                           struct tmk_diag *diag);

/* Appends the fate of each original, a line each, then the originals of each value. */
void tmk_lineage_text(const struct tmk_lineage_record *record, struct tmk_text *text);

/* The formats: writers append to an outfile that has begun. Readers make *out, which is
 * finalized. */
enum tmk_status tmk_lineage_write_json(const struct tmk_lineage_record *record,
                                       struct tmk_outfile *out, struct tmk_diag *diag);
enum tmk_status tmk_lineage_read_json(const char *text, size_t len, struct tmk_lineage_record **out,
                                      struct tmk_diag *diag);
/* TMK_UNSUPPORTED in a build without HDF5. */
enum tmk_status tmk_lineage_write_hdf5(const struct tmk_lineage_record *record,
                                       struct tmk_outfile *out, struct tmk_diag *diag);
enum tmk_status tmk_lineage_read_hdf5(const char *path, struct tmk_lineage_record **out,
                                      struct tmk_diag *diag);
