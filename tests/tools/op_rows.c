/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/op_rows.h"

#include <assert.h>
#include <string.h>

static const struct tmk_op *rows[512];

/* Before any thread is started. */
__attribute__((constructor)) static void list_rows(void) {
    size_t n = 0;
    for (const struct tmk_op *const *list = tmk_op_list(); *list; list++)
        for (const struct tmk_op *row = *list; row->name; row++) {
            assert(n + 1 < sizeof rows / sizeof *rows);
            rows[n++] = row;
        }
}

const struct tmk_op *const *op_rows(void) {
    return rows;
}

const char *op_sample(const struct tmk_op *row) {
    for (const struct op_sample *sample = op_samples; sample->name; sample++)
        if (sample->since == row->since && strcmp(sample->name, row->name) == 0 &&
            strcmp(sample->domain, row->domain) == 0)
            return sample->graph;
    return NULL;
}
