/* SPDX-License-Identifier: Apache-2.0 */
/* What the legs of a run have counted so far, stratum by stratum. */
#ifndef TMK_SESSION_SUMS_H
#define TMK_SESSION_SUMS_H

#include <tidemark/profile.h>
#include <tidemark/session.h>

/* Zero-initialised can be finished. */
struct tmk_sums {
    struct tmk_profile **profiles;           /* [n] of all legs; NULL: there was none */
    struct tmk_profile **before;             /* [n] from a checkpoint, until a leg is added to it */
    uint32_t n;                              /* strata; without labels 1 */
    const struct tmk_strata_options *strata; /* NULL: samples are not told apart */
    const char *checkpoint;                  /* a file; NULL: none */
};

/* `options` must outlive it. */
TMK_NODISCARD enum tmk_status
tmk_sums_init(struct tmk_sums *sums, const struct tmk_run_options *options, struct tmk_diag *diag);
void tmk_sums_finish(struct tmk_sums *sums);

/* The setting of a stratum's profile; NULL: all samples are of one. */
const char *tmk_sums_label(const struct tmk_sums *sums, uint32_t stratum);
/* The sum says of the data what `last` does, which is the profile of a later leg, as some of it is
 * known in the end alone: of a stream how long it was. */
TMK_NODISCARD enum tmk_status tmk_sums_follow(struct tmk_sums *sums, uint32_t stratum,
                                              const struct tmk_profile *last,
                                              struct tmk_diag *diag);
/* Adds the profile of a leg, which is the sum's from now on, or gone. */
TMK_NODISCARD enum tmk_status tmk_sums_add(struct tmk_sums *sums, uint32_t stratum,
                                           struct tmk_profile *leg, struct tmk_diag *diag);
/* Samples that ran. */
uint64_t tmk_sums_run(const struct tmk_sums *sums);

/* To the checkpoint, and back. TMK_MISMATCH: it is of other strata. */
TMK_NODISCARD enum tmk_status tmk_sums_write(const struct tmk_sums *sums, struct tmk_diag *diag);
TMK_NODISCARD enum tmk_status tmk_sums_read(struct tmk_sums *sums, struct tmk_diag *diag);
/* A profile without values that covers what the checkpoint does. */
TMK_NODISCARD enum tmk_status tmk_sums_covered(const struct tmk_sums *sums,
                                               struct tmk_profile **out, struct tmk_diag *diag);

/* A stratum is complete: hands its profile out, and adds it to *whole (NULL before the first),
 * where it ends. */
TMK_NODISCARD enum tmk_status tmk_sums_close(struct tmk_sums *sums, uint32_t stratum,
                                             struct tmk_profile **whole, struct tmk_diag *diag);

#endif
