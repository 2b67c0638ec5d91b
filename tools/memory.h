/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes as people type them, the memory that a run is expected to take as a table, and the memory
 * that it took. */
#ifndef TMK_TOOLS_MEMORY_H
#define TMK_TOOLS_MEMORY_H

#include <tidemark/session.h>

#include "command.h"

/* "400M", "2G", "1.5GiB", "1000000": bytes; K, M, G and T are powers of 1024. False after saying
 * what is wrong. word NULL: 0. */
bool parse_size(const struct command *command, const char *option, const char *word, uint64_t *out);
void print_memory_plan(const struct tmk_memory_plan *plan);
/* The most that this process has held so far (VmHWM); 0: the system does not say. */
uint64_t peak_bytes(void);

#endif
