/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the report's page. */
#pragma once

#include <tidemark/diff.h>
#include <tidemark/report.h>

#include "base/json.h"

/* Made from lib/export/report/ when this is built: terminated texts. */
extern const char tmk_report_frame[], tmk_report_css[], tmk_report_js[];

/* The members of a value's array; ends with NULL. */
extern const char *const tmk_report_columns[];

/* What is reported of a value. */
struct tmk_report_item {
    const struct tmk_profile *profile; /* of the tensor */
    const struct tmk_profile_tensor *tensor;
    const struct tmk_encodings *encodings;      /* NULL: none */
    const char *left;                           /* why they leave it float; NULL: they do not */
    const char *attributes;                     /* of the node that computes it; NULL: not known */
    const struct tmk_diff_item *const *earlier; /* [n_earlier] against each earlier profile; NULL:
                                                   the value is not in it */
    size_t n_earlier;
    bool begins;          /* NaN or infinity begins here */
    bool searched;        /* by the methods that search, too */
    bool topk;            /* put the largest and smallest numbers */
    size_t most_channels; /* put together above */
};

/* One value: its figures, its histogram, what each method would choose. */
enum tmk_status tmk_report_value(const struct tmk_report_item *item, struct tmk_json_out *out,
                                 struct tmk_diag *diag);

/* tmk_report_write for those who have attributes and no model. */

/* attributes [n_tensors]: of the node that computes each value, a line each; NULL, of one or all:
 * not known. options->model is not read. */
enum tmk_status tmk_report_page(const struct tmk_profile *profile,
                                const struct tmk_report_options *options,
                                const char *const *attributes, const char *path,
                                struct tmk_diag *diag);
