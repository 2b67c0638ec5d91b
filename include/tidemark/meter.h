/* SPDX-License-Identifier: Apache-2.0 */
/* Convergence: how far the thresholds of each value moved from one snapshot of a run to the next.
 * Snapshots are taken after 1, 2, 4, 8, ... samples (at the end of the batch that holds the last of
 * them) and at the end, each of exactly the samples up to there, whatever the threads.
 *
 * A value's thresholds are its min and max over finite elements and, where it has a histogram,
 * the two ends between which 99.99 % of its elements lie: its quantiles 0.00005 and 0.99995. How
 * far one moved is a share of the value's range (max - min) at the later snapshot; a
 * value that had no number at the earlier one moved by 1. Weights are left out.
 *
 * Calls that take a const meter only read it. */
#ifndef TIDEMARK_METER_H
#define TIDEMARK_METER_H

#include <stddef.h>
#include <stdint.h>

#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opaque. */
struct tmk_meter;

/* NULL is allowed. */
TMK_API void tmk_meter_destroy(struct tmk_meter **meter);

/* How many snapshots there are, and after how many samples offered (run, or failed) the i-th was
 * taken; ascending. */
TMK_API size_t tmk_meter_snapshots(const struct tmk_meter *meter);
TMK_API uint64_t tmk_meter_offered(const struct tmk_meter *meter, size_t snapshot);

/* Some threshold of a value. The texts live as long as the meter. */
struct tmk_movement {
    uint32_t id;
    const char *name;
    const char *threshold; /* "min", "max", "p0.005", "p99.995" */
    double share;          /* by which it moved; 0: none did */
};
/* How many values have a threshold that moved by more than `share` from the one snapshot to the
 * other, and what moved most (of equal movements the lowest ID); `worst` may be NULL. */
TMK_API uint32_t tmk_meter_moved(const struct tmk_meter *meter, size_t from, size_t to,
                                 double share, struct tmk_movement *worst);
/* The count of values that had a finite number at that snapshot. */
TMK_API uint32_t tmk_meter_values(const struct tmk_meter *meter, size_t snapshot);

/* Writes everything as JSON, whole or not at all; docs/profile-format.md, "Snapshots". */
TMK_API enum tmk_status tmk_meter_write(const struct tmk_meter *meter, const char *path,
                                        struct tmk_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
