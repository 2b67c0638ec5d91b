/* SPDX-License-Identifier: Apache-2.0 */
/* From a lineage between graphs to a record that needs none. */
#ifndef TMK_TRANSFORM_LINEAGE_H
#define TMK_TRANSFORM_LINEAGE_H

#include <tidemark/lineage.h>

#include "base/map.h"
#include "graph/lineage.h"

struct tmk_lineage_ends {
    struct tmk_graph *original; /* as the lineage was made of it; identified */
    struct tmk_graph *graph;    /* that the lineage points into */
    struct tmk_graph *file;     /* what the file of `graph` is when it is read; identified */
    const struct tmk_lineage *lineage;
    /* Of a file in another form than the graph: value of `graph` -> value of `file` with the same
     * numbers in the same shape, and as keys the results that depend on no input. NULL: the file
     * has the graph's own nodes, in their order. */
    const struct tmk_ptrmap *matches, *constants;
};
/* One original for each value of `original`, one value for each of `file`; both get outputs for
 * what lies inside their operators (pass/inner.h). The models' files and the passes are left to the
 * caller. Numbers the graphs anew. TMK_GRAPH: `file` is not `graph`. */
TMK_NODISCARD enum tmk_status tmk_lineage_record_of(const struct tmk_lineage_ends *ends,
                                                    struct tmk_lineage_record **out,
                                                    struct tmk_diag *diag);

#endif
