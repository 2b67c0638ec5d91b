/* SPDX-License-Identifier: Apache-2.0 */
/* Any operator of the table, by the sample that its row has: names and operands are exchanged for
 * the graph's own. */
#include "graph_maker_parts.h"
#include "graph_text/read.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/op_rows.h"

enum { MOST_SAMPLE_NAMES = 96, MOST_NAME = 32 };

struct renaming {
    struct {
        char from[MOST_NAME], to[MOST_NAME];
    } names[MOST_SAMPLE_NAMES];
    size_t n;
};

static const char *renamed(struct renaming *r, const char *from, size_t len) {
    for (size_t i = 0; i < r->n; i++)
        if (strlen(r->names[i].from) == len && memcmp(r->names[i].from, from, len) == 0)
            return r->names[i].to;
    return NULL;
}

static const char *rename_to(struct renaming *r, const char *from, size_t len, const char *prefix,
                             int number) {
    if (r->n == MOST_SAMPLE_NAMES || len >= MOST_NAME)
        return "";
    memcpy(r->names[r->n].from, from, len);
    r->names[r->n].from[len] = '\0';
    snprintf(r->names[r->n].to, MOST_NAME, "%s%d", prefix, number);
    return r->names[r->n++].to;
}

static size_t word_length(const char *at) {
    size_t n = 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '_' || at[n] == '.')
        n++;
    return n;
}

/* An input's type is a tensor's, whole. */
static bool takes_input(struct maker *m, struct renaming *r, const struct tmk_value *input) {
    const struct tmk_type *type = &input->type;
    const struct thing *fit[MOST_THINGS];
    uint32_t n = 0;
    if (type->kind != TMK_TYPE_TENSOR || !type->has_shape)
        return false;
    for (int32_t i = 0; i < type->shape.rank; i++)
        if (type->shape.dim[i] < 0)
            return false;
    for (uint32_t i = 0; i < m->n_things; i++)
        if (m->things[i].dtype == type->dtype && !m->things[i].loose &&
            tmk_shape_equal(&m->things[i].shape, &type->shape))
            fit[n++] = &m->things[i];
    const struct thing *t =
        n && draw(m, 4) ? fit[draw(m, n)] : maker_input(m, type->dtype, &type->shape, false);
    if (t)
        (void)rename_to(r, input->name, strlen(input->name), "v", t->name);
    return t;
}

static bool is_output(const struct tmk_graph *graph, const char *name, size_t len) {
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        if (strlen(graph->outputs[i]->name) == len &&
            memcmp(graph->outputs[i]->name, name, len) == 0)
            return true;
    return false;
}

/* What stands between the sample's outer braces, without its inputs and outputs. */
static void copy_body(struct maker *m, struct renaming *r, const struct tmk_graph *graph,
                      const char *at) {
    int depth = 0;
    bool quoted = false;
    for (; *at; at++) {
        quoted ^= *at == '"';
        if (!quoted && (*at == '}' && --depth == 0))
            return;
        if (depth == 1 && !quoted && isalpha((unsigned char)*at)) {
            const size_t len = word_length(at);
            const bool input = len == 5 && memcmp(at, "input", 5) == 0,
                       output = len == 6 && memcmp(at, "output", 6) == 0;
            if (input || output) {
                at += strcspn(at, "\n");
            } else {
                tmk_text_append(&m->line, at, len);
                at += len - 1;
            }
            continue;
        }
        if (depth && *at == '%' && !quoted) {
            const size_t len = word_length(at + 1);
            const char *to = renamed(r, at + 1, len);
            if (!to)
                to = is_output(graph, at + 1, len) ? rename_to(r, at + 1, len, "v", maker_result(m))
                                                   : rename_to(r, at + 1, len, "s", m->names++);
            LINE(m, "%%%s", to);
            at += len;
            continue;
        }
        if (depth)
            tmk_text_append(&m->line, at, 1);
        depth += !quoted && *at == '{';
    }
}

static void copy_sample(struct maker *m, const struct tmk_op *row) {
    struct tmk_graph *graph = NULL;
    struct tmk_diag diag = {0};
    struct renaming *r = calloc(1, sizeof *r);
    if (!r || parse_graph(op_sample(row), NULL, &graph, &diag) != TMK_OK) {
        fprintf(stderr, "%s: %s\n", row->name, diag.text);
        abort();
    }
    bool good = true;
    for (uint32_t i = 0; good && i < graph->n_inputs; i++)
        good = takes_input(m, r, graph->inputs[i]);
    if (good) {
        copy_body(m, r, graph, op_sample(row));
        LINE(m, "\n");
    }
    tmk_graph_destroy(&graph);
    free(r);
}

void make_row(struct maker *m) {
    const struct tmk_op *const *list = op_rows();
    uint32_t fit[512], n = 0;
    for (uint32_t i = 0; list[i] && n < TMK_COUNT(fit); i++)
        if (*list[i]->domain ||
            (m->made->opset >= list[i]->since && m->made->opset <= list[i]->until))
            fit[n++] = i;
    if (n)
        copy_sample(m, list[fit[draw(m, n)]]);
}
