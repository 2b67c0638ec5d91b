/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the report's page. */
#ifndef TMK_EXPORT_REPORT_PARTS_H
#define TMK_EXPORT_REPORT_PARTS_H

#include <tidemark/diff.h>
#include <tidemark/report.h>

#include "base/json.h"

/* Made from lib/export/report/ when this is built: terminated texts. */
extern const char tmk_report_frame[], tmk_report_css[], tmk_report_js[];

/* One value: its figures, its histogram, what each method would choose. `drift` NULL: none. */
TMK_NODISCARD enum tmk_status tmk_report_value(const struct tmk_profile_tensor *tensor,
                                               const struct tmk_encodings *encodings,
                                               const struct tmk_diff_item *drift,
                                               struct tmk_json_out *out, struct tmk_diag *diag);
/* What a person should look at first: a list of {level, text, ids}. */
TMK_NODISCARD enum tmk_status tmk_report_warnings(const struct tmk_profile *profile,
                                                  struct tmk_json_out *out, struct tmk_diag *diag);

#endif
