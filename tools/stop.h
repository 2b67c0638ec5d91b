/* SPDX-License-Identifier: Apache-2.0 */
/* SIGINT, SIGTERM and SIGHUP: the first requests the run to stop, the second ends the program at
 * once.
 */
#ifndef TMK_TOOLS_STOP_H
#define TMK_TOOLS_STOP_H

#include <stdbool.h>

/* From now on; signals that are ignored (as of a job in the background) stay so. */
void watch_for_stop(void);
/* For tmk_run_events.stop. */
bool stop_was_asked(void *context);
/* The exit status that shells expect of a program that a signal ended. */
int stop_exit_status(void);

#endif
