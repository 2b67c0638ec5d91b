/* SPDX-License-Identifier: Apache-2.0 */
/* Taking snapshots for a meter. */
#pragma once

#include <tidemark/meter.h>
#include <tidemark/profile.h>

/* The fewest samples at which a run is reported as stable. */
enum { TMK_METER_MIN_SAMPLES = 8 };

/* Without snapshots. */
enum tmk_status tmk_meter_create(struct tmk_meter **out, struct tmk_diag *diag);
/* Notes the thresholds of all values; the profile is of the run so far, has the values that it had
 * at the snapshots before, and more samples offered. */
enum tmk_status tmk_meter_take(struct tmk_meter *meter, const struct tmk_profile *profile,
                               struct tmk_diag *diag);
/* After how many samples the next one is due. */
uint64_t tmk_meter_next(const struct tmk_meter *meter);
/* Did no threshold move by more than this share since the snapshot before the last? */
bool tmk_meter_is_stable(const struct tmk_meter *meter, double share);
