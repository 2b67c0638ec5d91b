/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers that a run leaves out. */
#ifndef TMK_SESSION_EXCLUDE_H
#define TMK_SESSION_EXCLUDE_H

#include <tidemark/session.h>

struct tmk_excluded {
    uint32_t *bits; /* of the numbers: ascending, each once */
    size_t n;
};

/* Those of the options. TMK_ARGUMENT: one of them is not finite. On success end with
 * tmk_excluded_finish. */
TMK_NODISCARD enum tmk_status tmk_excluded_of(const struct tmk_run_options *options,
                                              struct tmk_excluded *out, struct tmk_diag *diag);
void tmk_excluded_finish(struct tmk_excluded *excluded);

/* As settings of a profile. */
TMK_NODISCARD enum tmk_status tmk_excluded_describe(const struct tmk_excluded *excluded,
                                                    struct tmk_profile *profile,
                                                    struct tmk_diag *diag);

#endif
