/* SPDX-License-Identifier: Apache-2.0 */
/* A profile by nodes: the values on each one's inputs and outputs, port by port. */
#include <stdlib.h>
#include <string.h>

#include <tidemark/patterns.h>

#include "command.h"
#include "show.h"
#include "table.h"

/* A node, identified by name and operator; a nameless one, known by its results only, has no
 * inputs here. */
struct node {
    const char *name, *op, *domain;
    const struct tmk_profile_tensor *result; /* of a nameless one; else NULL */
};

static bool is_node(const struct node *node, const char *name, const char *op) {
    return !node->result && strcmp(node->name, name) == 0 && strcmp(node->op, op) == 0;
}

static bool is_output_of(const struct node *node, const struct tmk_profile_tensor *t) {
    return t->has_producer &&
           (node->result ? node->result == t : is_node(node, t->producer.node, t->producer.op));
}

/* Each node once, in the order of its first value. nodes: space for n. */
static size_t list_nodes(const struct tmk_profile *profile, const uint32_t *chosen, uint32_t n,
                         struct node *nodes) {
    size_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct tmk_profile_tensor *t = &profile->tensors[chosen[i]];
        size_t k = 0;
        if (!t->has_producer)
            continue;
        while (k < used && !is_node(&nodes[k], t->producer.node, t->producer.op))
            k++;
        if (k < used && *t->producer.node)
            continue;
        nodes[used++] = (struct node){t->producer.node, t->producer.op, t->producer.domain,
                                      *t->producer.node ? NULL : t};
    }
    return used;
}

static bool range_of(const struct tmk_profile_tensor *t, double *min, double *max) {
    struct tmk_summary s = {0};
    if (t->stats)
        tmk_stats_quick_summary(t->stats, &s);
    *min = t->stats ? (double)s.min : (double)t->int_stats.min;
    *max = t->stats ? (double)s.max : (double)t->int_stats.max;
    return t->stats ? s.finite > 0 : t->has_int_stats && t->int_stats.count > 0;
}

static void print_port(const char *what, uint32_t port, const struct tmk_profile_tensor *t) {
    double min, max;
    print_out("  %-6s %-3u p%-5u ", what, port, t->id);
    print_name(t->name, 32);
    if (range_of(t, &min, &max))
        print_out(" %12.5g %12.5g", min, max);
    print_out("\n");
}

static void put_port(uint32_t port, const struct tmk_profile_tensor *t, bool first) {
    double min, max;
    print_out("%s{\"port\": %u, \"id\": \"p%u\", \"name\": ", first ? "" : ", ", port, t->id);
    put_quoted(stdout, t->name);
    if (range_of(t, &min, &max))
        print_out(", \"min\": %.9g, \"max\": %.9g", min, max);
    print_out("}");
}

/* Every use by a node of the node's name is one of its ports. */
static void each_input(const struct tmk_profile *profile, const struct node *node, bool json) {
    bool first = true;
    for (uint32_t i = 0; !node->result && i < profile->n_tensors; i++) {
        const struct tmk_profile_tensor *t = &profile->tensors[i];
        for (uint32_t k = 0; k < t->n_consumers; k++) {
            if (!is_node(node, t->consumers[k].node, t->consumers[k].op))
                continue;
            if (json)
                put_port(t->consumers[k].input, t, first);
            else
                print_port("input", t->consumers[k].input, t);
            first = false;
        }
    }
}

static void each_output(const struct tmk_profile *profile, const struct node *node, bool json) {
    bool first = true;
    for (uint32_t i = 0; i < profile->n_tensors; i++) {
        const struct tmk_profile_tensor *t = &profile->tensors[i];
        if (!is_output_of(node, t))
            continue;
        if (json)
            put_port(t->producer.output, t, first);
        else
            print_port("output", t->producer.output, t);
        first = false;
    }
}

static void show_node(const struct tmk_profile *profile, const struct node *node) {
    print_out("%s%s%s ", node->domain, *node->domain ? "::" : "", node->op);
    put_escaped(stdout, *node->name ? node->name : "(no name)");
    print_out("\n");
    each_input(profile, node, false);
    each_output(profile, node, false);
}

static void put_node(const struct tmk_profile *profile, const struct node *node) {
    print_out("{\"node\": ");
    put_quoted(stdout, node->name);
    print_out(", \"op\": ");
    put_quoted(stdout, node->op);
    print_out(", \"domain\": ");
    put_quoted(stdout, node->domain);
    print_out(", \"inputs\": [");
    each_input(profile, node, true);
    print_out("], \"outputs\": [");
    each_output(profile, node, true);
    print_out("]}");
}

enum tmk_status show_nodes(const struct tmk_profile *profile, const uint32_t *chosen, uint32_t n,
                           bool json) {
    struct node *nodes = calloc((size_t)n + 1, sizeof *nodes);
    if (!nodes)
        return TMK_NOMEM;
    const size_t n_nodes = list_nodes(profile, chosen, n, nodes);
    for (size_t i = 0; i < n_nodes; i++) {
        if (!json) {
            show_node(profile, &nodes[i]);
            continue;
        }
        print_out(i ? ",\n " : "[");
        put_node(profile, &nodes[i]);
    }
    if (json)
        print_out("%s]\n", n_nodes ? "" : "[");
    free(nodes);
    return TMK_OK;
}

/* A profile by patterns: which nodes `calibrate` leaves float together, and why. */

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
