/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TMK_EXPORT_TARGET_H
#define TMK_EXPORT_TARGET_H

#include <tidemark/target.h>

#include "graph/graph.h"

/* TMK_MISMATCH, with the first finding and their number, where the encodings use what the target's
 * table does not allow. graph NULL: only types and granularity are compared. */
TMK_NODISCARD enum tmk_status tmk_export_check_target(const struct tmk_target *target,
                                                      const struct tmk_encodings *encodings,
                                                      const struct tmk_graph *graph,
                                                      struct tmk_diag *diag);

#endif
