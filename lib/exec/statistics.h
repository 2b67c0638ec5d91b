/* SPDX-License-Identifier: Apache-2.0 */
/* The sink that counts what observers see: every worker has accounts of its own, by group, which
 * are added up at the end of a segment. */
#ifndef TMK_EXEC_STATISTICS_H
#define TMK_EXEC_STATISTICS_H

#include "exec/account.h"
#include "exec/cache.h"
#include "exec/sink.h"

struct tmk_statistics_config {
    const struct tmk_slot_config *slots;
    uint32_t n_slots;
    uint32_t groups;                 /* of batches that are counted apart; 0: 1 */
    struct tmk_print print;          /* for slots with `print`; .print NULL: none */
    struct tmk_position_seeds seeds; /* with them, elements are excluded where the mask is 0 */
};

/* What ran of a group. */
struct tmk_exec_tally {
    uint64_t samples, batches;
    bool ran; /* a batch, or a block of one: there may be accounts */
};

/* The accounts of all groups. */
struct tmk_counted {
    struct tmk_account *accounts;   /* [n_groups][n_slots] */
    struct tmk_exec_tally *tallies; /* [n_groups] */
    uint32_t n_slots, n_groups;
};
void tmk_counted_finish(struct tmk_counted *counted);

struct tmk_statistics;
/* The slots must outlive it. */
TMK_NODISCARD enum tmk_status tmk_statistics_create(const struct tmk_statistics_config *config,
                                                    uint32_t workers, struct tmk_statistics **out,
                                                    struct tmk_diag *diag);
void tmk_statistics_destroy(struct tmk_statistics **statistics);
struct tmk_sink tmk_statistics_sink(struct tmk_statistics *statistics);
/* Adds up what all workers counted, and the constants of the cache's plans; the workers begin anew.
 * On success finish *out. */
TMK_NODISCARD enum tmk_status tmk_statistics_take(struct tmk_statistics *statistics,
                                                  struct tmk_cache *cache, struct tmk_counted *out,
                                                  struct tmk_diag *diag);

#endif
