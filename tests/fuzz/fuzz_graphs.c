/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs made of the bytes (graph_maker.h), run with plain and with accelerated kernels, on several
 * threads, in legs, and after passes; see graph_run.h. */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"
#include "graph_run.h"

FUZZ_TARGET(graphs) {
    struct made_graph made;
    struct graph_tally tally = {0};
    struct tmk_text why = {0};
    graph_make(data, size, &made);
    if (!graph_check(&made, &tally, &why)) {
        fprintf(stderr, "%s\n%s", why.data, made.text.data);
        abort();
    }
    tmk_text_finish(&why);
    made_graph_finish(&made);
    return 0;
}
