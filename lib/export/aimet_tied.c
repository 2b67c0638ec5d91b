/* SPDX-License-Identifier: Apache-2.0 */
#include "export/aimet_tied.h"

#include <stdlib.h>

#include "base/diag.h"
#include "base/size.h"
#include "calib/encodings.h"
#include "calib/grid.h"

enum { INITIAL_H = 5, INITIAL_C = 6, Y = 0, Y_H = 1, Y_C = 2 };

bool tmk_aimet_keeps_grid(const struct tmk_node *node) {
    static const char *const ops[] = {
        "Col2Im", "Compress",       "DepthToSpace", "Dropout",  "Expand",    "Flatten",
        "Gather", "GatherElements", "GatherND",     "Identity", "MaxPool",   "MaxRoiPool",
        "Pad",    "ReduceMax",      "ReduceMin",    "Reshape",  "Slice",     "SpaceToDepth",
        "Split",  "Squeeze",        "Tile",         "TopK",     "Transpose", "Unsqueeze"};
    for (size_t i = 0; node && i < TMK_COUNT(ops); i++)
        if (tmk_node_is(node, TMK_DOMAIN_ONNX, ops[i]))
            return true;
    return false;
}

static bool is_recurrent(const struct tmk_node *node) {
    return tmk_node_is(node, TMK_DOMAIN_ONNX, "LSTM") ||
           tmk_node_is(node, TMK_DOMAIN_ONNX, "GRU") || tmk_node_is(node, TMK_DOMAIN_ONNX, "RNN");
}

/* ---- sets of values, by ID: each has the ID of another, the first has its own ---- */

struct sets {
    uint32_t *of;
    size_t n;
};

static uint32_t first_of(const struct sets *sets, uint32_t id) {
    while (sets->of[id] != id)
        id = sets->of[id];
    return id;
}

static const struct tmk_value *known(const struct sets *sets, const struct tmk_value *value) {
    return value && value->profile_id >= 0 && (size_t)value->profile_id < sets->n ? value : NULL;
}

static void unite(struct sets *sets, const struct tmk_value *a, const struct tmk_value *b) {
    if (known(sets, a) && known(sets, b))
        sets->of[first_of(sets, (uint32_t)a->profile_id)] = first_of(sets, (uint32_t)b->profile_id);
}

static const struct tmk_value *input_of(const struct tmk_node *node, uint32_t at) {
    return at < node->n_inputs ? node->inputs[at] : NULL;
}

static const struct tmk_value *output_of(const struct tmk_node *node, uint32_t at) {
    return at < node->n_outputs ? node->outputs[at] : NULL;
}

/* Values that moved elements share the quantizer of what these were. */
static void find_sets(const struct tmk_graph *graph, struct sets *sets) {
    for (const struct tmk_node *node = graph->first; node; node = node->next) {
        for (uint32_t i = 0; i < node->n_outputs && tmk_aimet_keeps_grid(node); i++)
            unite(sets, node->outputs[i], input_of(node, 0));
        if (!is_recurrent(node))
            continue;
        unite(sets, input_of(node, 0), output_of(node, Y));
        unite(sets, input_of(node, INITIAL_H), output_of(node, Y));
        unite(sets, output_of(node, Y_H), output_of(node, Y));
        unite(sets, input_of(node, INITIAL_C), output_of(node, Y_C));
    }
}

/* ---- encodings ---- */

struct tmk_tied {
    struct tmk_encoding encoding;
    float scale, low, high, clip_min, clip_max;
    int32_t zero_point;
    bool used, differ, recurrent;
};

static bool can_tie(const struct tmk_encoding *e) {
    return e->axis < 0 && e->n == 1 && tmk_export_bits(e);
}

/* The widest type, and a range around all. */
static void include(struct tmk_tied *tied, const struct tmk_encoding *e) {
    float low, high;
    tmk_export_range(e, &low, &high);
    if (!tied->used) {
        tied->encoding = *e;
        tied->low = low;
        tied->high = high;
        tied->used = true;
        return;
    }
    tied->differ = tied->differ || !tmk_encoding_same_codes(&tied->encoding, e);
    if (tmk_export_bits(e) > tmk_export_bits(&tied->encoding))
        tied->encoding = *e;
    tied->low = low < tied->low ? low : tied->low;
    tied->high = high > tied->high ? high : tied->high;
}

static enum tmk_status fit(struct tmk_tied *tied, struct tmk_diag *diag) {
    struct tmk_encoding *e = &tied->encoding;
    const struct tmk_grid grid = {e->dtype, e->symmetric, e->narrow, e->pow2};
    TMK_TRY(tmk_grid_fit(&grid, tied->low, tied->high, &tied->scale, &tied->zero_point, diag));
    e->scale = &tied->scale;
    e->zero_point = &tied->zero_point;
    e->low = &tied->low;
    e->high = &tied->high;
    e->clip_min = &tied->clip_min;
    e->clip_max = &tied->clip_max;
    tmk_encoding_set_clip(e);
    return TMK_OK;
}

static void mark_recurrent(const struct tmk_graph *graph, const struct sets *sets,
                           struct tmk_tied *tied) {
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        for (uint32_t i = 0; i < node->n_outputs && is_recurrent(node); i++)
            if (known(sets, node->outputs[i]))
                tied[first_of(sets, (uint32_t)node->outputs[i]->profile_id)].recurrent = true;
}

static enum tmk_status tie_rows(const struct tmk_export_job *job, struct tmk_export_rows *rows,
                                const struct sets *sets, struct tmk_tied *tied,
                                struct tmk_diag *diag) {
    uint32_t changed = 0;
    mark_recurrent(job->graph, sets, tied);
    for (size_t i = 0; i < rows->n; i++) {
        const struct tmk_encoding *e = rows->items[i].encoding;
        if (e->id < sets->n && can_tie(e))
            include(&tied[first_of(sets, e->id)], e);
    }
    for (size_t i = 0; i < sets->n; i++)
        if (tied[i].used && tied[i].differ && tied[i].recurrent)
            TMK_TRY(fit(&tied[i], diag));
    for (size_t i = 0; i < rows->n; i++) {
        const struct tmk_encoding *e = rows->items[i].encoding;
        const struct tmk_tied *t =
            e->id < sets->n && can_tie(e) ? &tied[first_of(sets, e->id)] : NULL;
        if (!t || !t->differ || !t->recurrent)
            continue;
        changed += !tmk_encoding_same_codes(&t->encoding, e);
        rows->items[i].encoding = &t->encoding;
    }
    if (changed)
        tmk_export_remark(
            job,
            "AIMET has one quantizer for the input, the hidden states and the results "
            "of an LSTM, GRU or RNN: %u encodings were widened to all of their ranges",
            changed);
    return TMK_OK;
}

enum tmk_status tmk_aimet_tie(const struct tmk_export_job *job, struct tmk_export_rows *rows,
                              struct tmk_aimet_ties *ties, struct tmk_diag *diag) {
    struct tmk_by_id all;
    TMK_TRY(tmk_by_id_init(&all, job->graph, diag));
    struct sets sets = {.of = calloc(all.n + 1, sizeof *sets.of), .n = all.n};
    ties->items = calloc(all.n + 1, sizeof *ties->items);
    ties->n = all.n;
    tmk_by_id_finish(&all);
    enum tmk_status status = sets.of && ties->items ? TMK_OK : tmk_nomem(diag);
    for (uint32_t i = 0; status == TMK_OK && i < sets.n; i++)
        sets.of[i] = i;
    if (status == TMK_OK) {
        find_sets(job->graph, &sets);
        status = tie_rows(job, rows, &sets, ties->items, diag);
    }
    free(sets.of);
    return status;
}

void tmk_aimet_ties_finish(struct tmk_aimet_ties *ties) {
    free(ties->items);
    *ties = (struct tmk_aimet_ties){0};
}
