/* SPDX-License-Identifier: Apache-2.0 */
#include "model/finish.h"

#include "base/diag.h"
#include "graph/identify.h"
#include "ops/ops.h"

enum tmk_status tmk_model_finish(struct tmk_graph *graph, bool keep_unknown,
                                 struct tmk_diag *diag) {
    struct tmk_diag unknown = {0};
    enum tmk_status status = tmk_ops_bind(graph, keep_unknown ? &unknown : diag);
    if (keep_unknown && status != TMK_OK && status != TMK_UNSUPPORTED)
        return tmk_fail(diag, status, "%s", unknown.text);
    if (!keep_unknown)
        TMK_TRY(status);
    TMK_TRY(tmk_graph_identify(graph, NULL, diag));
    return tmk_graph_verify(graph, diag);
}
