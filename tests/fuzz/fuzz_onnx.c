/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX models. The first byte: bit 0 keeps unknown operators, bit 1 emits what was read in
 * Relay. It is printed and encoded in any case. */
#include "base/diag.h"
#include "fuzz.h"
#include "graph/print.h"
#include "model/onnx.h"
#include "relay/relay.h"

FUZZ_TARGET(onnx) {
    uint8_t how = fuzz_take(&data, &size);
    struct tmk_onnx_options options = {.keep_unknown = how & 1};
    struct tmk_graph *graph = NULL;
    struct tmk_diag diag = {0};
    const char *path = fuzz_file("model.onnx", data, size);
    if (!fuzz_ok(tmk_onnx_load(path, &options, &graph, &diag), &diag))
        return 0;
    struct tmk_text text = {0};
    tmk_graph_print(graph, 8, NULL, &text);
    tmk_text_finish(&text);
    text = (struct tmk_text){0};
    (void)fuzz_ok(tmk_onnx_encode(graph, &text, &diag), &diag);
    tmk_text_finish(&text);
    if (how & 2) {
        struct tmk_relay_module *module = NULL;
        struct tmk_relay_params *params = NULL;
        diag = (struct tmk_diag){0};
        (void)fuzz_ok(tmk_relay_export(graph, NULL, &module, &params, &diag), &diag);
        tmk_relay_module_destroy(&module);
        tmk_relay_params_destroy(&params);
    }
    tmk_graph_destroy(&graph);
    return 0;
}
