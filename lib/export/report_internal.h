/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the report's page. */
#ifndef TMK_EXPORT_REPORT_INTERNAL_H
#define TMK_EXPORT_REPORT_INTERNAL_H

#include <tidemark/diff.h>
#include <tidemark/report.h>

#include "base/json.h"

/* Made from lib/export/report/ when this is built: terminated texts. */
extern const char tmk_report_frame[], tmk_report_css[], tmk_report_js[];

/* What is reported of a value. */
struct tmk_report_item {
    const struct tmk_profile *profile; /* of the tensor */
    const struct tmk_profile_tensor *tensor;
    const struct tmk_encodings *encodings; /* NULL: none */
    const char *left;                      /* why they leave it float; NULL: they do not */
    const struct tmk_diff_item *drift;     /* NULL: none */
    bool searched;                         /* by the methods that search, too */
};

/* One value: its figures, its histogram, what each method would choose. */
TMK_NODISCARD enum tmk_status tmk_report_value(const struct tmk_report_item *item,
                                               struct tmk_json_out *out, struct tmk_diag *diag);
/* What a person should look at first: a list of {level, text, ids}. */
TMK_NODISCARD enum tmk_status tmk_report_warnings(const struct tmk_profile *profile,
                                                  struct tmk_json_out *out, struct tmk_diag *diag);

#endif
