/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that end the process when memory runs out. */
#ifndef TMK_TOOLS_TERMINATE_H
#define TMK_TOOLS_TERMINATE_H

/* From now on an uncaught C++ exception of a library prints one line and
 * EXIT_MACHINE, and a library that calls exit gives that status. */
void handle_terminate(void);
/* For the end of main: gives `status`, which is the program's own. */
int mark_own_exit(int status);

#endif
