/* SPDX-License-Identifier: Apache-2.0 */
/* SIGINT, SIGTERM, SIGHUP and the end of --timeout: the first requests the run to stop, the second
 * ends the program at once. So does the first where the run has not stopped soon.
 */
#pragma once

#include <stdbool.h>

/* From now on; signals that are ignored (as of a job in the background) stay so. `patient`: however
 * long it takes. */
void watch_for_stop(bool patient);
/* For tmk_run_events.stopping: what is kept may take its time. */
void stop_is_kept(void *context);
/* From now on the run is over and its files are written: one signal more changes nothing, so that
 * all are written; the second ends the program. */
void stop_waits_for_files(void);
/* --timeout: takes "10", "5m", "1h" from now. False after an error message. */
struct command;
bool limit_time(const struct command *command, const char *word);
/* 90, 90s, 1.5m, 2h; false: it is none. */
bool read_duration(const char *word, double *seconds);
/* For tmk_run_events.stop. */
bool stop_was_asked(void *context);
/* The exit status that shells expect of a program that a signal ended. */
int stop_exit_status(void);
