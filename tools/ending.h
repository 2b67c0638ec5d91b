/* SPDX-License-Identifier: Apache-2.0 */
/* How the program begins and ends with what it was handed: streams, signals. */
#pragma once

/* For the first line of main. Streams that are closed become ones that refuse, so that no file
 * takes their number; a closed pipe and a limit on file sizes are errors of writing instead of
 * signals; and a signal that ends the program leaves no progress line and no temporary file. */
void begin_program(void);
/* Removes what is to be removed, and dies of the signal. Safe in signal handlers. */
void die_of_signal(int number);
/* Standard output is flushed. The exit status, which is `status`, unless that is success and not
 * everything could be printed. Where the reader is gone, the program dies of SIGPIPE here, without
 * a word. */
int end_program(int status);

/* Libraries that end the process when memory runs out. */

/* From now on an uncaught C++ exception of a library prints one line and
 * EXIT_MACHINE, and a library that calls exit gives that status. */
void handle_terminate(void);
/* For the end of main: gives `status`, which is the program's own. */
int mark_own_exit(int status);

/* Models and some data are read through mappings; where such a file becomes shorter meanwhile, or
 * its disk fails, the system sends SIGBUS. */

/* From now on SIGBUS is one line that names the file, and the exit status of bad input. */
void handle_sigbus(void);
