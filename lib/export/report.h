/* SPDX-License-Identifier: Apache-2.0 */
/* tmk_report_write for those who have attributes and no model. */
#ifndef TMK_EXPORT_REPORT_H
#define TMK_EXPORT_REPORT_H

#include <tidemark/report.h>

/* attributes [n_tensors]: of the node that computes each value, a line each; NULL, of one or all:
 * not known. options->model is not read. */
TMK_NODISCARD enum tmk_status tmk_report_page(const struct tmk_profile *profile,
                                              const struct tmk_report_options *options,
                                              const char *const *attributes, const char *path,
                                              struct tmk_diag *diag);

#endif
