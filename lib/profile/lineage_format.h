/* SPDX-License-Identifier: Apache-2.0 */
/* What the two formats of a lineage share. docs/lineage-format.md says what the fields mean. */
#ifndef TMK_PROFILE_LINEAGE_FORMAT_H
#define TMK_PROFILE_LINEAGE_FORMAT_H

#include <tidemark/lineage.h>

#include "base/file.h"
#include "base/json.h"

/* Not as they lay. */
bool tmk_lineage_is_view(const struct tmk_lineage_view *view);

/* The header's members, in order, and the reading of them; the lists of entries may stand there
 * too. TMK_UNSUPPORTED for a newer major version. */
void tmk_lineage_put_header(struct tmk_json_out *to, const struct tmk_lineage_record *record);
TMK_NODISCARD enum tmk_status tmk_lineage_get_header(struct tmk_lineage_record *record,
                                                     const cJSON *header, struct tmk_diag *diag);
/* Unknown keys are errors in files that this library should know all of. */
bool tmk_lineage_is_strict(const struct tmk_lineage_record *record);

/* Fields that are JSON in both formats. View: null, "reshaped" or the permutation. */
void tmk_lineage_put_view(struct tmk_json_out *to, const char *key,
                          const struct tmk_lineage_view *view);
TMK_NODISCARD enum tmk_status tmk_lineage_get_view(const cJSON *item, struct tmk_lineage_view *out,
                                                   struct tmk_diag *diag);
void tmk_lineage_put_shape(struct tmk_json_out *to, const char *key, bool has_shape,
                           const struct tmk_shape *shape);
TMK_NODISCARD enum tmk_status tmk_lineage_get_shape(const cJSON *item, bool *has_shape,
                                                    struct tmk_shape *out, struct tmk_diag *diag);
TMK_NODISCARD enum tmk_status
tmk_lineage_verdict_by_name(const char *name, enum tmk_lineage_verdict *out, struct tmk_diag *diag);
/* A copy of the text that lives as long as the record. */
TMK_NODISCARD enum tmk_status tmk_lineage_keep(struct tmk_lineage_record *record, const char *text,
                                               const char **out, struct tmk_diag *diag);

/* Appends what became of each original, a line each, then what each value stands for. */
void tmk_lineage_text(const struct tmk_lineage_record *record, struct tmk_text *text);

/* The formats: writers append to an outfile that has begun. Readers make *out, which is settled. */
TMK_NODISCARD enum tmk_status tmk_lineage_write_json(const struct tmk_lineage_record *record,
                                                     struct tmk_outfile *out,
                                                     struct tmk_diag *diag);
TMK_NODISCARD enum tmk_status tmk_lineage_read_json(const char *text, size_t len,
                                                    struct tmk_lineage_record **out,
                                                    struct tmk_diag *diag);
/* TMK_UNSUPPORTED in a build without HDF5. */
TMK_NODISCARD enum tmk_status tmk_lineage_write_hdf5(const struct tmk_lineage_record *record,
                                                     struct tmk_outfile *out,
                                                     struct tmk_diag *diag);
TMK_NODISCARD enum tmk_status
tmk_lineage_read_hdf5(const char *path, struct tmk_lineage_record **out, struct tmk_diag *diag);

#endif
