/* SPDX-License-Identifier: Apache-2.0 */
/* Models and some data are read through mappings; where such a file becomes shorter meanwhile, or
 * its disk fails, the system sends SIGBUS. */
#ifndef TMK_TOOLS_SIGBUS_H
#define TMK_TOOLS_SIGBUS_H

/* From now on SIGBUS is one line that names the file, and the exit status of bad input. */
void handle_sigbus(void);

#endif
