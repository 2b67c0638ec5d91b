/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that a run will take, estimated before it begins. */
#ifndef TMK_SESSION_LIMITS_H
#define TMK_SESSION_LIMITS_H

#include <tidemark/session.h>

#include "exec/account.h"
#include "exec/blocks.h"
#include "graph/graph.h"

/* What is to run. */
struct tmk_memory_request {
    const char *path;              /* of the model, for errors */
    const struct tmk_graph *graph; /* as tmk_plan_create wants it; with observers, or bare */
    const struct tmk_run_options *options;
    const struct tmk_slot_config *slots;
    const struct tmk_slot_config *unruled; /* the same without rules, for a run in blocks; NULL: it
                                              must not run so */
    uint32_t n_slots, threads;
};

/* Is the source, a path or NAME=PATH as data.sources of the options has it, standard input? */
bool tmk_data_is_stream(const char *source);

/* Opens the data, plans the largest of its first batches and adds up. What statistics take is an
 * estimate, from what they were measured to take: how many bins are used is known only once the
 * data was seen. With options->limits.memory: fewer workers first, which change no result, then
 * batches half as large, where the model leaves them free, then blocks of the graph (*cuts; finish
 * it; n 0: as a whole), until the sum fits; TMK_LIMIT when nothing does. cuts NULL: they are only
 * counted. TMK_UNSUPPORTED for data that comes as a stream, since it could be read only once. */
TMK_NODISCARD enum tmk_status tmk_memory_planned(const struct tmk_memory_request *request,
                                                 struct tmk_memory_plan *out, struct tmk_cuts *cuts,
                                                 struct tmk_diag *diag);

#endif
