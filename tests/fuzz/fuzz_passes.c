/* SPDX-License-Identifier: Apache-2.0 */
/* Graph passes over ONNX models, folding included. The first byte: bits 0-5 a pass's number from 1
 * on, as the library lists them, else all; bit 6 prints and parses the graph after each. Passes
 * meet no unknown operators. */
#include "base/diag.h"
#include "fuzz.h"
#include "graph_text/read.h"
#include "model/onnx.h"
#include "pass/pass.h"

FUZZ_TARGET(passes) {
    uint8_t how = fuzz_take(&data, &size);
    struct tmk_graph *graph = NULL;
    struct tmk_lineage *lineage = NULL;
    struct tmk_diag diag = {0};
    const char *path = fuzz_file("model.onnx", data, size);
    if (!fuzz_ok(tmk_onnx_load(path, NULL, &graph, &diag), &diag))
        return 0;
    const struct tmk_pass *const *passes = tmk_pass_list();
    size_t n = 0, one = how & 63;
    while (passes[n])
        n++;
    bool all = !one || one > n;
    passes += all ? 0 : one - 1;
    n = all ? n : 1;
    if (fuzz_ok(tmk_lineage_create(graph, &lineage, &diag), &diag))
        (void)fuzz_ok(how & 64 ? run_passes_reparsed(&graph, lineage, passes, n, NULL, NULL, &diag)
                               : tmk_passes_run(graph, lineage, passes, n, NULL, NULL, &diag),
                      &diag);
    tmk_lineage_destroy(&lineage);
    tmk_graph_destroy(&graph);
    return 0;
}
