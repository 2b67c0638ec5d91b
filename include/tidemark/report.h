/* SPDX-License-Identifier: Apache-2.0 */
/* A profile as one self-contained HTML page. Names from the model are escaped.
 *
 * Thread-safety: as of profiles. */
#ifndef TIDEMARK_REPORT_H
#define TIDEMARK_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include <tidemark/encodings.h>
#include <tidemark/profile.h>
#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tmk_model;

/* Zero-initialised: the profile alone. */
struct tmk_report_options {
    /* Earlier profiles, oldest first: a time line of each value, and the drift since the first. */
    const struct tmk_profile *const *earlier;
    size_t n_earlier;
    const struct tmk_encodings *encodings; /* of the same model, drawn in; NULL: none. TMK_MISMATCH:
                                              of another */
    const char *title;                     /* NULL: the model's file name */
    /* Files of what `tidemark simulate --json` printed, with and without --rank and --search: one
     * of each kind. TMK_FORMAT; TMK_MISMATCH: of another model. */
    const char *const *results;
    size_t n_results;
    /* For the attributes of its nodes; NULL: none. TMK_MISMATCH: it is not the profile's. */
    const struct tmk_model *model;
    /* Asked before each value and each earlier profile: true ends it with TMK_INTERRUPTED. May be
     * NULL. */
    bool (*stop)(void *context);
    void *context;
};

/* Writes the page, whole or not at all. */
TMK_API enum tmk_status tmk_report_write(const struct tmk_profile *profile,
                                         const struct tmk_report_options *options, const char *path,
                                         struct tmk_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
