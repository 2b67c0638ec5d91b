/* SPDX-License-Identifier: Apache-2.0 */
#include "export/aimet_tied.h"

#include <stdlib.h>

#include "base/diag.h"
#include "base/forest.h"
#include "base/size.h"
#include "calib/encodings.h"
#include "calib/grid.h"
#include "ops/ops.h"

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

/* ---- sets of values, by ID ---- */

static bool has_id(const struct tmk_value *value) {
    return value && value->profile_id >= 0;
}

static void unite(uint32_t *parent, const struct tmk_value *a, const struct tmk_value *b) {
    if (has_id(a) && has_id(b))
        tmk_forest_join(parent, (uint32_t)a->profile_id, (uint32_t)b->profile_id);
}

/* Values that moved elements share the quantizer of what these were. */
static void find_sets(const struct tmk_graph *graph, uint32_t *parent) {
    for (const struct tmk_node *node = graph->first; node; node = node->next) {
        for (uint32_t i = 0; i < node->n_outputs && tmk_aimet_keeps_grid(node); i++)
            unite(parent, node->outputs[i], tmk_node_input(node, 0));
        if (!tmk_node_has(node, TMK_TRAIT_RECURRENT))
            continue;
        unite(parent, tmk_node_input(node, 0), tmk_node_output(node, Y));
        unite(parent, tmk_node_input(node, INITIAL_H), tmk_node_output(node, Y));
        unite(parent, tmk_node_output(node, Y_H), tmk_node_output(node, Y));
        unite(parent, tmk_node_input(node, INITIAL_C), tmk_node_output(node, Y_C));
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

static void mark_recurrent(const struct tmk_graph *graph, uint32_t *parent, struct tmk_tied *tied) {
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        for (uint32_t i = 0; i < node->n_outputs && tmk_node_has(node, TMK_TRAIT_RECURRENT); i++)
            if (has_id(node->outputs[i]))
                tied[tmk_forest_root(parent, (uint32_t)node->outputs[i]->profile_id)].recurrent =
                    true;
}

static enum tmk_status tie_rows(const struct tmk_export_job *job, struct tmk_export_rows *rows,
                                size_t n, uint32_t *parent, struct tmk_tied *tied,
                                struct tmk_diag *diag) {
    uint32_t changed = 0;
    mark_recurrent(job->graph, parent, tied);
    for (size_t i = 0; i < rows->n; i++) {
        const struct tmk_encoding *e = rows->items[i].encoding;
        if (e->id < n && can_tie(e))
            include(&tied[tmk_forest_root(parent, e->id)], e);
    }
    for (size_t i = 0; i < n; i++)
        if (tied[i].differ && tied[i].recurrent)
            TMK_TRY(fit(&tied[i], diag));
    for (size_t i = 0; i < rows->n; i++) {
        const struct tmk_encoding *e = rows->items[i].encoding;
        if (e->id >= n || !can_tie(e))
            continue;
        const struct tmk_tied *t = &tied[tmk_forest_root(parent, e->id)];
        if (!t->differ || !t->recurrent)
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

enum tmk_status tmk_aimet_tie(const struct tmk_export_job *job, size_t n,
                              struct tmk_export_rows *rows, struct tmk_tied **out,
                              struct tmk_diag *diag) {
    uint32_t *parent = calloc(n + 1, sizeof *parent);
    *out = calloc(n + 1, sizeof **out);
    enum tmk_status status = parent && *out ? TMK_OK : tmk_nomem(diag);
    for (uint32_t i = 0; status == TMK_OK && i < n; i++)
        parent[i] = i;
    if (status == TMK_OK) {
        find_sets(job->graph, parent);
        status = tie_rows(job, rows, n, parent, *out, diag);
    }
    free(parent);
    return status;
}
