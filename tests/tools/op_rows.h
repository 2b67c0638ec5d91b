/* SPDX-License-Identifier: Apache-2.0 */
/* The operator table as one list, and a sample of each row. */
#pragma once

#include "ops/ops.h"

/* Made of op_samples.txt; a row without a name ends it. */
extern const struct op_sample {
    const char *domain, *name;
    int32_t since;
    const char *graph;
} op_samples[];

/* Every row, in the order of the lists; NULL at the end. Thread-safe. */
const struct tmk_op *const *op_rows(void);
/* A graph in text form (graph/print.h) with one node of the row; NULL: op_samples.txt lacks it. */
const char *op_sample(const struct tmk_op *row);
