/* SPDX-License-Identifier: Apache-2.0 */
/* A profile as one self-contained HTML page. Names from the model are escaped.
 *
 * Thread-safety: as of profiles.
 */
#ifndef TIDEMARK_REPORT_H
#define TIDEMARK_REPORT_H

#include <tidemark/encodings.h>
#include <tidemark/profile.h>
#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Zero-initialised: the profile alone. */
struct tmk_report_options {
    const struct tmk_profile *other;       /* an earlier one, to show the drift since; NULL: none */
    const struct tmk_encodings *encodings; /* of the same model, drawn in; NULL: none. TMK_MISMATCH:
                                              of another */
    const char *title;                     /* NULL: the model's file name */
};

/* Writes the page, whole or not at all. */
TMK_API TMK_NODISCARD enum tmk_status tmk_report_write(const struct tmk_profile *profile,
                                                       const struct tmk_report_options *options,
                                                       const char *path, struct tmk_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
