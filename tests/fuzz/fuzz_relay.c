/* SPDX-License-Identifier: Apache-2.0 */
/* Relay's text, lowered. The first byte: bit 0 keeps unknown operators. */
#include "base/diag.h"
#include "fuzz.h"
#include "graph/graph.h"
#include "relay/relay.h"

FUZZ_TARGET(relay) {
    uint8_t how = fuzz_take(&data, &size);
    struct tmk_relay_module *module = NULL;
    struct tmk_graph *graph = NULL;
    struct tmk_diag diag = {0};
    if (fuzz_ok(tmk_relay_parse((const char *)data, size, "fuzz.relay", &module, &diag), &diag) &&
        fuzz_ok(tmk_relay_lower(module, NULL, how & 1, &graph, &diag), &diag))
        tmk_graph_destroy(&graph);
    tmk_relay_module_destroy(&module);
    return 0;
}
