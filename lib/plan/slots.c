/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/diag.h"
#include "plan/plan.h"

struct listing {
    struct tmk_observer *observers; /* NULL: count only */
    uint32_t n;
};

static void list_observers(struct tmk_graph *graph, void *context) {
    struct listing *list = context;
    for (const struct tmk_node *node = graph->first; node; node = node->next) {
        if (!tmk_node_is_observer(node))
            continue;
        if (list->observers)
            list->observers[list->n] =
                (struct tmk_observer){node, tmk_node_string(node, "kind", "histogram"),
                                      tmk_node_string(node, "tensor_name", ""),
                                      tmk_node_int(node, "profile_id", -1), graph->parent != NULL};
        list->n++;
    }
}

enum tmk_status tmk_observer_slots(const struct tmk_graph *graph, struct tmk_observer **out,
                                   uint32_t *n, struct tmk_diag *diag) {
    struct tmk_graph *root = tmk_graph_root(graph); /* the walk changes nothing */
    struct listing list = {NULL, 0};
    tmk_graph_each(root, list_observers, &list);
    struct tmk_observer *observers = calloc(list.n + 1u, sizeof *observers);
    if (!observers)
        return tmk_nomem(diag);
    list = (struct listing){observers, 0};
    tmk_graph_each(root, list_observers, &list);
    *out = observers;
    *n = list.n;
    return TMK_OK;
}
