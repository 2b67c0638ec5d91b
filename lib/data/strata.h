/* SPDX-License-Identifier: Apache-2.0 */
/* Strata, sample by sample. */
#pragma once

#include <tidemark/strata.h>

/* The stratum that all samples [first, end) are of (first < end). TMK_NOTFOUND names the first that
 * has no label, TMK_MISMATCH the first two that are of different strata: they were to run together.
 */
enum tmk_status tmk_strata_of(const struct tmk_strata *strata, uint64_t first, uint64_t end,
                              uint32_t *out, struct tmk_diag *diag);
/* One behind the last sample that has a label. */
uint64_t tmk_strata_end(const struct tmk_strata *strata);
/* As it was read from, for messages. */
const char *tmk_strata_path(const struct tmk_strata *strata);
