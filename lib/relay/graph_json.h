/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TMK_RELAY_GRAPH_JSON_H
#define TMK_RELAY_GRAPH_JSON_H

#include "relay/ast.h"

/* The graph executor's JSON, for tmk_relay_parse: hostile. Nodes without inputs are parameters of
 * @main; kernels are calls whose span is the kernel's name. Those that are not plain operators are
 * TMK_UNSUPPORTED, all in one line; else failures are TMK_FORMAT "name: node N: what". */
TMK_NODISCARD enum tmk_status tmk_relay_parse_graph(const char *text, size_t len, const char *name,
                                                    struct tmk_relay_module **out,
                                                    struct tmk_diag *diag);

#endif
