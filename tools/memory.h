/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that this process may take, that a run is expected to take, as a table, and that it
 * took. */
#pragma once

#include <tidemark/memory.h>
#include <tidemark/session.h>

#include "command.h"

/* Takes nine tenths of what the machine, and the control groups that the process is in, have left
 * for the limit of this process's memory. Where neither sets one, there is none. */
void limit_memory_to_machine(void);
/* Takes "400M", "2G", "1.5GiB" or "1000000" (bytes; K, M, G and T are powers of 1024) for it. False
 * after printing an error. */
bool limit_memory(const struct command *command, const char *word);
/* The limit that was set last; 0: none. */
uint64_t memory_limit_asked(void);
void print_memory_plan(const struct tmk_memory_plan *plan);
/* Peak memory of this process so far (VmHWM); 0: unknown. */
uint64_t peak_bytes(void);
