/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to transferring a profile over a lineage. */
#ifndef TMK_PROFILE_TRANSFER_H
#define TMK_PROFILE_TRANSFER_H

#include <tidemark/lineage.h>

#include "profile/format.h"

struct tmk_transfer {
    const struct tmk_profile *from;
    const struct tmk_lineage_record *lineage;
    bool back;
    struct tmk_profile *to;
    struct tmk_profile_bins bins; /* scratch */
    struct tmk_diag *diag;
};

/* Gives `t` the shapes that ran, and what the relation of `o` keeps of the source's statistics; the
 * rule too where it is a lineage's. *known false: nothing is left, and t is as it was. */
TMK_NODISCARD enum tmk_status tmk_transfer_stats(struct tmk_transfer *c,
                                                 const struct tmk_lineage_original *o,
                                                 const struct tmk_profile_tensor *source,
                                                 struct tmk_profile_tensor *t, bool *known);

#endif
