/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that end the process when memory runs out. */
#ifndef TMK_TOOLS_GAVE_UP_H
#define TMK_TOOLS_GAVE_UP_H

/* From now on an uncaught C++ exception of a library prints one line and
 * EXIT_MACHINE, and whoever calls exit gives that status. */
void watch_for_giving_up(void);
/* For the end of main: gives `status`, which is the program's own. */
int ends_by_itself(int status);

#endif
