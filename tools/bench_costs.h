/* SPDX-License-Identifier: Apache-2.0 */
/* `bench --per-op`: where the time of a run goes. */
#ifndef TMK_TOOLS_BENCH_COSTS_H
#define TMK_TOOLS_BENCH_COSTS_H

#include <stdbool.h>

#include <tidemark/session.h>

/* Operators that run alike together, dearest first: milliseconds a sample, without and for their
 * observers. False when memory ran out. */
bool print_costs(const struct tmk_costs *costs, uint64_t samples);
/* `"per_op": [...]`, a row a step, in the order of the run. */
void print_costs_json(const struct tmk_costs *costs, uint64_t samples);

#endif
