/* SPDX-License-Identifier: Apache-2.0 */
/* What carrying a profile over a lineage shares between its files. */
#ifndef TMK_PROFILE_CARRY_H
#define TMK_PROFILE_CARRY_H

#include <tidemark/lineage.h>

#include "profile/format.h"

struct tmk_carrying {
    const struct tmk_profile *from;
    const struct tmk_lineage_record *lineage;
    bool back;
    struct tmk_profile *to;
    struct tmk_profile_bins bins; /* scratch */
    struct tmk_diag *diag;
};

/* Gives `t` the shapes that ran, and what the relation of `o` leaves of the teller's statistics;
 * the rule too where it is a lineage's. *known false: nothing is left, and t is as it was. */
TMK_NODISCARD enum tmk_status tmk_carry_stats(struct tmk_carrying *c,
                                              const struct tmk_lineage_original *o,
                                              const struct tmk_profile_tensor *teller,
                                              struct tmk_profile_tensor *t, bool *known);

#endif
