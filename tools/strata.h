/* SPDX-License-Identifier: Apache-2.0 */
/* --strata: labels of samples, and a profile a stratum next to each output. */
#ifndef TMK_TOOLS_STRATA_H
#define TMK_TOOLS_STRATA_H

#include <tidemark/session.h>

#include "command.h"

/* Zero-initialised is: none. */
struct strata {
    struct tmk_strata *labels;
    const struct words *outputs;
    uint32_t written;
};

/* Reads the labels (path NULL: nothing happens), sees that their profiles can be written next to
 * the outputs, and has the run distinguish them. TMK_ARGUMENT: a stratum's file is named by another
 * option. `out` and `outputs` must outlive the run. */
TMK_NODISCARD enum tmk_status open_strata(struct strata *out, const char *path,
                                          const struct words *outputs,
                                          struct tmk_run_options *options, struct tmk_diag *diag);
void close_strata(struct strata *strata);

#endif
