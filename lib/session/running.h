/* SPDX-License-Identifier: Apache-2.0 */
/* A model that runs over data: its graph with observers, what they do, and the data. */
#ifndef TMK_SESSION_RUNNING_H
#define TMK_SESSION_RUNNING_H

#include "exec/run.h"
#include "session/exclude.h"
#include "session/feed.h"
#include "session/limits.h"
#include "session/model.h"

/* Zero-initialised but for options, and for timing where it is wanted. */
struct tmk_running {
    const struct tmk_run_options *options;
    struct tmk_run_options limited;     /* what options points at, where memory is limited */
    uint64_t done, to_run;              /* samples before this run, and in all; the latter 0: not
                                           known */
    struct tmk_graph *original, *graph; /* without and with observers */
    struct tmk_session_feed *feed;
    struct tmk_observer *observers;
    struct tmk_slot_config *slots;
    char (*labels)[300];
    struct tmk_excluded excluded;
    struct tmk_watched watched; /* by the model's own observers, unless `observe` names a kind */
    uint32_t n_slots;
    struct tmk_exec_result result;
    struct tmk_run_report report;
    bool timing;
};

/* The graph that runs, and what its observers do; observe NULL: there are none. */
TMK_NODISCARD enum tmk_status tmk_running_graph(struct tmk_running *run,
                                                const struct tmk_model *model,
                                                const struct tmk_observe *observe,
                                                struct tmk_diag *diag);
/* That, and the data, opened. */
TMK_NODISCARD enum tmk_status tmk_running_prepare(struct tmk_running *run,
                                                  const struct tmk_model *model,
                                                  const struct tmk_observe *observe,
                                                  struct tmk_diag *diag);
/* Of what is prepared; `run` must outlive what they are given to. */
struct tmk_exec_options tmk_running_exec_options(struct tmk_running *run, bool observe);
struct tmk_memory_request tmk_running_memory(const struct tmk_running *run,
                                             const struct tmk_model *model);
/* Adds what ran, and took so many seconds, to the report. */
void tmk_running_note(struct tmk_running *run, double seconds);
void tmk_running_finish(struct tmk_running *run);

/* Those that this process may use. */
uint32_t tmk_running_processors(void);
/* Seconds, of a clock that never goes back. */
double tmk_running_now(void);

#endif
