/* SPDX-License-Identifier: Apache-2.0 */
/* Which values must share scale and zero point, and which take their range from elsewhere. */
#ifndef TMK_CALIB_TIES_H
#define TMK_CALIB_TIES_H

#include "calib/select.h"

struct tmk_ties {
    /* By pick: */
    uint32_t *parent;  /* of a forest; ask tmk_tie_root */
    bool *covered;     /* its numbers are those of others of its group, or lie between them */
    const char **unit; /* the rule by which it is in [0, 1]; NULL: none */
    uint32_t *takes;   /* the pick whose encoding it takes over; TMK_NET_NONE: none */
    uint32_t *numbers; /* the value whose numbers are its range: its own, or that of a Relu's result
                          which stays float */
    const char **rule; /* that tied it; NULL: none */
    struct tmk_arena arena;
};

/* TMK_NOMEM. End with finish, also after a failure. */
TMK_NODISCARD enum tmk_status tmk_ties_init(struct tmk_ties *ties,
                                            const struct tmk_selection *selection,
                                            const struct tmk_config *config, struct tmk_diag *diag);
void tmk_ties_finish(struct tmk_ties *ties);

/* The same for all of a group, and one of them. */
uint32_t tmk_tie_root(const struct tmk_ties *ties, uint32_t pick);

#endif
