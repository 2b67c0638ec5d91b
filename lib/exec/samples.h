/* SPDX-License-Identifier: Apache-2.0 */
/* Extremes of each sample of a value, kept apart. Grows with the number of samples. */
#ifndef TMK_EXEC_SAMPLES_H
#define TMK_EXEC_SAMPLES_H

#include <tidemark/stats.h>

/* Zero-initialised is empty. */
struct tmk_samples {
    uint64_t *sample;         /* absolute indices, ascending */
    struct tmk_minmax *range; /* of each */
    size_t n, size;
};

/* The ranges of `samples` samples from `first` on; those that were not there are added, without
 * elements. *out is good until the next call. TMK_ARGUMENT when they would have to be added between
 * others. */
TMK_NODISCARD enum tmk_status tmk_samples_open(struct tmk_samples *samples, uint64_t first,
                                               uint64_t n, struct tmk_minmax **out,
                                               struct tmk_diag *diag);
/* dst becomes the ranges of both. */
TMK_NODISCARD enum tmk_status
tmk_samples_merge(struct tmk_samples *dst, const struct tmk_samples *src, struct tmk_diag *diag);
void tmk_samples_clamp(struct tmk_samples *samples, const struct tmk_clamp *clamp);
void tmk_samples_finish(struct tmk_samples *samples);

#endif
