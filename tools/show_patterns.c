/* SPDX-License-Identifier: Apache-2.0 */
/* A profile by patterns: which nodes `calibrate` leaves float together, and why. */
#include <stdlib.h>

#include <tidemark/patterns.h>

#include "command.h"
#include "show.h"
#include "table.h"

static void print_rows(const struct tmk_pattern_node *nodes, size_t n) {
    static const struct table_column columns[] = {
        {"pattern", 11}, {"no.", 4, .right = true}, {"operator", 18}, {"id", 6}, {"node", 0}};
    struct table table;
    table_begin(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < n; i++) {
        char occurrence[16], id[16];
        const char *const cells[] = {nodes[i].pattern, occurrence, nodes[i].op, id, nodes[i].node};
        snprintf(occurrence, sizeof occurrence, "%u", nodes[i].occurrence);
        snprintf(id, sizeof id, "p%u", nodes[i].id);
        table_row(&table, cells, HUE_NONE);
    }
}

static void put_rows(const struct tmk_pattern_node *nodes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        print_out(i ? ",\n " : "[");
        print_out("{\"pattern\": ");
        put_quoted(stdout, nodes[i].pattern);
        print_out(", \"occurrence\": %u, \"op\": ", nodes[i].occurrence);
        put_quoted(stdout, nodes[i].op);
        print_out(", \"node\": ");
        put_quoted(stdout, nodes[i].node);
        print_out(", \"id\": \"p%u\"}", nodes[i].id);
    }
    print_out("%s]\n", n ? "" : "[");
}

void print_patterns(const struct tmk_pattern_node *nodes, size_t n, bool json) {
    (json ? put_rows : print_rows)(nodes, n);
}

enum tmk_status show_patterns(const struct tmk_profile *profile, const uint32_t *chosen, uint32_t n,
                              bool json, struct tmk_diag *diag) {
    struct tmk_pattern_node *nodes = NULL;
    size_t all = 0, kept = 0;
    uint32_t at = 0;
    const enum tmk_status status = tmk_patterns_list(profile, &nodes, &all, diag);
    if (status != TMK_OK)
        return status;
    for (size_t i = 0; i < all; i++) {
        while (at < n && profile->tensors[chosen[at]].id < nodes[i].id)
            at++;
        if (at < n && profile->tensors[chosen[at]].id == nodes[i].id)
            nodes[kept++] = nodes[i];
    }
    print_patterns(nodes, kept, json);
    free(nodes);
    return TMK_OK;
}
