/* SPDX-License-Identifier: Apache-2.0 */
/* aimet: encodings of AIMET, QNN and SNPE.
 *
 * Versions before 2.0.0 count codes from 0 whatever the type: real = (code + offset) * scale, so
 * that offset = -(zero point + 128) for int8 and -zero point for uint8. No reader notices a wrong
 * sign. 2.0.0 has ONNX's zero points. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/forest.h"
#include "base/size.h"
#include "calib/encodings.h"
#include "export/rows.h"
#include "ops/ops.h"

/* ---- values within the operators that AIMET fuses ---- */

/* Its simulation fuses normalizations that are spelled out, and a MatMul with its bias, and refuses
 * encodings of what lies within. */

enum { MOST = 8 };

/* Nodes between the input of a normalization and its quotient, each with its first output. */
struct norm {
    const struct tmk_node *quotient, *nodes[MOST];
    uint32_t n;
};

struct counts {
    uint32_t *within, n;
};

static const struct tmk_node *made_by(const struct tmk_value *value, const char *op) {
    return value && value->producer && tmk_node_is(value->producer, TMK_DOMAIN_ONNX, op)
               ? value->producer
               : NULL;
}

static bool is_stored(const struct tmk_value *value) {
    return value && value->kind == TMK_VALUE_INITIALIZER;
}

/* The operand of a node that is added; NULL, and nothing is added, where there is no node. */
static const struct tmk_value *enter_node(struct norm *norm, const struct tmk_node *node,
                                          uint32_t side) {
    if (!node || norm->n == MOST)
        return NULL;
    norm->nodes[norm->n++] = node;
    return node->inputs[side];
}

/* The x of mean(x * x) + epsilon or mean(Pow(x, 2)) + epsilon. */
static const struct tmk_value *enter_mean_square(struct norm *norm, const struct tmk_value *value) {
    const struct tmk_node *add = made_by(value, "Add");
    for (uint32_t side = 0; add && side < 2; side++) {
        if (!made_by(add->inputs[side], "ReduceMean") || !is_stored(add->inputs[1 - side]))
            continue;
        const struct tmk_value *mean = enter_node(norm, add, side);
        const struct tmk_value *square = enter_node(norm, made_by(mean, "ReduceMean"), 0);
        const struct tmk_node *product = made_by(square, "Mul"), *power = made_by(square, "Pow");
        if (product && product->inputs[0] == product->inputs[1])
            return enter_node(norm, product, 0);
        return power && is_stored(power->inputs[1]) ? enter_node(norm, power, 0) : NULL;
    }
    return NULL;
}

/* Under the root that the quotient's operand is, or is the reciprocal of. */
static const struct tmk_value *enter_root(struct norm *norm, const struct tmk_value *value) {
    const struct tmk_node *reciprocal = made_by(value, "Reciprocal"), *div = made_by(value, "Div");
    const struct tmk_node *power = made_by(value, "Pow");
    if (tmk_node_is(norm->quotient, TMK_DOMAIN_ONNX, "Mul")) {
        if (power && is_stored(power->inputs[1]))
            return enter_node(norm, power, 0);
        value = reciprocal                         ? enter_node(norm, reciprocal, 0)
                : div && is_stored(div->inputs[0]) ? enter_node(norm, div, 1)
                                                   : NULL;
    }
    return enter_node(norm, made_by(value, "Sqrt"), 0);
}

static bool is_within(const struct norm *norm, const struct tmk_node *node) {
    bool found = node == norm->quotient;
    for (uint32_t i = 0; i < norm->n; i++)
        found = found || node == norm->nodes[i];
    return found;
}

/* Does nothing else read what is within? */
static bool is_closed(const struct norm *norm) {
    for (uint32_t i = 0; i < norm->n; i++) {
        const struct tmk_value *value = norm->nodes[i]->outputs[0];
        if (value->n_graph_outputs)
            return false;
        for (uint32_t k = 0; k < value->n_uses; k++)
            if (!is_within(norm, value->uses[k].node))
                return false;
    }
    return true;
}

/* x = y - mean(y), with axes as operator sets before 18 have them. */
static void enter_centred(struct norm *norm, const struct tmk_value *x) {
    struct norm more = *norm;
    const struct tmk_node *sub = made_by(x, "Sub");
    const struct tmk_node *mean = sub ? made_by(sub->inputs[1], "ReduceMean") : NULL;
    if (!mean || mean->n_inputs != 1 || mean->inputs[0] != sub->inputs[0])
        return;
    enter_node(&more, sub, 0);
    enter_node(&more, mean, 0);
    if (is_closed(&more))
        *norm = more;
}

static bool find_norm(struct norm *norm, const struct tmk_node *quotient, uint32_t side) {
    const struct tmk_value *x = quotient->inputs[1 - side];
    *norm = (struct norm){.quotient = quotient};
    return enter_mean_square(norm, enter_root(norm, quotient->inputs[side])) == x && x &&
           is_closed(norm);
}

static void add_uses(const struct counts *counts, const struct tmk_value *value, uint32_t uses) {
    if (value && value->profile_id >= 0 && value->profile_id < counts->n)
        counts->within[value->profile_id] += uses;
}

/* The only node that reads it, if the operator is that. */
static const struct tmk_node *only_reader(const struct tmk_value *value, const char *op) {
    return value && value->n_uses == 1 && !value->n_graph_outputs &&
                   tmk_node_is(value->uses[0].node, TMK_DOMAIN_ONNX, op)
               ? value->uses[0].node
               : NULL;
}

static void count_norm(const struct counts *counts, struct norm *norm, const struct tmk_value *x) {
    const uint32_t n = norm->n;
    enter_centred(norm, x);
    for (uint32_t i = 0; i < norm->n; i++) {
        add_uses(counts, norm->nodes[i]->outputs[0], norm->nodes[i]->outputs[0]->n_uses);
        for (uint32_t k = 0; k < norm->nodes[i]->n_inputs; k++)
            if (is_stored(norm->nodes[i]->inputs[k]))
                add_uses(counts, norm->nodes[i]->inputs[k], 1);
    }
    const struct tmk_value *y = norm->quotient->outputs[0];
    /* Back to a narrow type that a Cast came from. */
    const struct tmk_node *cast = made_by(x, "Cast") ? only_reader(y, "Cast") : NULL;
    const struct tmk_node *scale = only_reader(cast ? cast->outputs[0] : y, "Mul");
    if (!scale)
        return;
    add_uses(counts, y, 1);
    if (cast)
        add_uses(counts, cast->outputs[0], 1);
    if (norm->n > n && only_reader(scale->outputs[0], "Add"))
        add_uses(counts, scale->outputs[0], 1);
}

/* MatMul(x, weights) + bias, the weights perhaps behind a Transpose. */
static void count_product(const struct counts *counts, const struct tmk_node *product) {
    const struct tmk_value *y = product->outputs[0], *weights = product->inputs[1];
    const struct tmk_node *add = only_reader(y, "Add"), *move = made_by(weights, "Transpose");
    const struct tmk_value *bias = add ? add->inputs[1 - y->uses[0].input] : NULL;
    const struct tmk_value *stored = move ? move->inputs[0] : weights;
    if (!is_stored(bias) || bias->type.shape.rank != 1 || !is_stored(stored) ||
        stored->type.shape.rank != 2)
        return;
    add_uses(counts, y, 1);
    if (move && only_reader(weights, "MatMul"))
        add_uses(counts, weights, 1);
}

/* Adds to within[ID] how many of a value's uses are within, for IDs below n: all of them where
 * AIMET's graph does not have it. Follows aimet_onnx 2.42, graph_passes/fusions. */
static void count_fused(const struct tmk_graph *graph, uint32_t *within, uint32_t n) {
    const struct counts counts = {within, n};
    struct norm norm;
    for (const struct tmk_node *node = graph->first; node; node = node->next) {
        if (tmk_node_is(node, TMK_DOMAIN_ONNX, "MatMul"))
            count_product(&counts, node);
        const bool div = tmk_node_is(node, TMK_DOMAIN_ONNX, "Div");
        if (!div && !tmk_node_is(node, TMK_DOMAIN_ONNX, "Mul"))
            continue;
        for (uint32_t side = div; side < 2; side++)
            if (find_norm(&norm, node, side)) {
                count_norm(&counts, &norm, node->inputs[1 - side]);
                break;
            }
    }
}

/* ---- values that AIMET has one quantizer for ---- */

/* Of LSTM, GRU and RNN the input, the hidden states and the results, and apart from these the cell
 * states. Each of their encodings that it reads replaces the one before. Follows aimet_onnx 2.42,
 * QuantizationSimModel._tie_rnn_hidden_state_quantizers. */

enum { INITIAL_H = 5, INITIAL_C = 6, Y = 0, Y_H = 1, Y_C = 2 };

/* Is it in AIMET's list of operators that keep the grid of their operand? NULL is none. */
static bool keeps_grid(const struct tmk_node *node) {
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
        for (uint32_t i = 0; i < node->n_outputs && keeps_grid(node); i++)
            unite(parent, node->outputs[i], tmk_node_input(node, 0));
        if (!tmk_node_has(node, TMK_TRAIT_RECURRENT))
            continue;
        unite(parent, tmk_node_input(node, 0), tmk_node_output(node, Y));
        unite(parent, tmk_node_input(node, INITIAL_H), tmk_node_output(node, Y));
        unite(parent, tmk_node_output(node, Y_H), tmk_node_output(node, Y));
        unite(parent, tmk_node_input(node, INITIAL_C), tmk_node_output(node, Y_C));
    }
}

struct tied_encoding {
    struct tmk_encoding encoding;
    struct tmk_one_scale numbers;
    float low, high;
    bool used, differ, recurrent;
};

static bool can_tie(const struct tmk_encoding *e) {
    return e->axis < 0 && e->n == 1 && tmk_export_bits(e);
}

/* The widest type, and a range around all. */
static void include(struct tied_encoding *tied, const struct tmk_encoding *e) {
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

static void mark_recurrent(const struct tmk_graph *graph, uint32_t *parent,
                           struct tied_encoding *tied) {
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        for (uint32_t i = 0; i < node->n_outputs && tmk_node_has(node, TMK_TRAIT_RECURRENT); i++)
            if (has_id(node->outputs[i]))
                tied[tmk_forest_root(parent, (uint32_t)node->outputs[i]->profile_id)].recurrent =
                    true;
}

static enum tmk_status tie_rows(const struct tmk_export_job *job, struct tmk_export_rows *rows,
                                size_t n, uint32_t *parent, struct tied_encoding *tied,
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
            TMK_TRY(tmk_encoding_cover(&tied[i].encoding, tied[i].low, tied[i].high,
                                       &tied[i].numbers, diag));
    for (size_t i = 0; i < rows->n; i++) {
        const struct tmk_encoding *e = rows->items[i].encoding;
        if (e->id >= n || !can_tie(e))
            continue;
        const struct tied_encoding *t = &tied[tmk_forest_root(parent, e->id)];
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

/* Gives rows of values that share a quantizer an encoding that covers all of their ranges, and
 * reports how many differ from their own. All IDs of job->graph are below n. *out: malloc'ed,
 * whatever is returned; it holds these encodings. */
static enum tmk_status tie_values(const struct tmk_export_job *job, size_t n,
                                  struct tmk_export_rows *rows, struct tied_encoding **out,
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

/* ---- bits and offsets ---- */

static double first_code(const struct tmk_encoding *e) {
    return tmk_export_is_signed(e) ? -(double)(1u << (tmk_export_bits(e) - 1)) : 0;
}

static double offset_of(const struct tmk_encoding *e, uint32_t channel) {
    return first_code(e) - e->zero_point[channel];
}

static bool is_weight(const struct tmk_export_row *row) {
    return row->encoding->role == TMK_ENCODING_WEIGHT;
}

/* Activations of one kind in a section, weights in the other: how wide, for quantizer_args. */
static uint32_t max_bits(const struct tmk_export_rows *rows, bool weights) {
    uint32_t bits = 0;
    for (size_t i = 0; i < rows->n; i++)
        if (is_weight(&rows->items[i]) == weights &&
            tmk_export_bits(rows->items[i].encoding) > bits)
            bits = tmk_export_bits(rows->items[i].encoding);
    return bits ? bits : 8;
}

static struct tmk_json_out quantizer_args(const struct tmk_export_rows *rows) {
    struct tmk_json_out args = tmk_json_new_object();
    bool symmetric = true, by_channel = false;
    for (size_t i = 0; i < rows->n; i++)
        if (is_weight(&rows->items[i])) {
            symmetric = symmetric && rows->items[i].encoding->symmetric;
            by_channel = by_channel || rows->items[i].encoding->n > 1;
        }
    tmk_json_put_u64(&args, "activation_bitwidth", max_bits(rows, false));
    tmk_json_put_u64(&args, "param_bitwidth", max_bits(rows, true));
    tmk_json_put_text(&args, "dtype", "int");
    tmk_json_put(&args, "is_symmetric", cJSON_CreateBool(symmetric));
    tmk_json_put(&args, "per_channel_quantization", cJSON_CreateBool(by_channel));
    tmk_json_put_text(&args, "quant_scheme", "min_max");
    return args;
}

/* ---- 0.6.1: an array for each name ---- */

static enum tmk_status put_061(const struct tmk_export_row *row, struct tmk_text *out,
                               struct tmk_diag *diag) {
    const struct tmk_encoding *e = row->encoding;
    struct tmk_json_out array = tmk_json_new_array();
    double codes = (double)((UINT32_C(1) << tmk_export_bits(e)) - 1);
    for (uint32_t i = 0; i < e->n; i++) {
        struct tmk_json_out one = tmk_json_new_object();
        tmk_json_put_u64(&one, "bitwidth", tmk_export_bits(e));
        tmk_json_put_text(&one, "dtype", "int");
        tmk_json_put_text(&one, "is_symmetric", e->symmetric ? "True" : "False");
        tmk_json_put_double(&one, "max", (codes + offset_of(e, i)) * e->scale[i]);
        tmk_json_put_double(&one, "min", offset_of(e, i) * e->scale[i]);
        tmk_json_put_i64(&one, "offset", (int64_t)offset_of(e, i));
        tmk_json_put_float(&one, "scale", e->scale[i]);
        tmk_json_put_child(&array, NULL, &one);
    }
    enum tmk_status status = tmk_export_quote(out, row->name, diag);
    tmk_text_puts(out, ":");
    enum tmk_status finished = tmk_json_finish(&array, out, diag);
    return status == TMK_OK ? finished : status;
}

/* ---- 1.0.0 and 2.0.0: one object each ---- */

static enum tmk_status put_100(const struct tmk_export_row *row, struct tmk_text *out,
                               struct tmk_diag *diag) {
    const struct tmk_encoding *e = row->encoding;
    struct tmk_json_out one = tmk_json_new_object(), scales = tmk_json_new_array(),
                        offsets = tmk_json_new_array();
    for (uint32_t i = 0; i < e->n; i++) {
        tmk_json_put_float(&scales, NULL, e->scale[i]);
        tmk_json_put_i64(&offsets, NULL, (int64_t)offset_of(e, i));
    }
    tmk_json_put_text(&one, "name", row->name);
    tmk_json_put_text(&one, "dtype", "INT");
    tmk_json_put_u64(&one, "bw", tmk_export_bits(e));
    tmk_json_put(&one, "is_sym", cJSON_CreateBool(e->symmetric));
    tmk_json_put_text(&one, "enc_type", e->axis < 0 ? "PER_TENSOR" : "PER_CHANNEL");
    tmk_json_put_child(&one, "scale", &scales);
    tmk_json_put_child(&one, "offset", &offsets);
    return tmk_json_finish(&one, out, diag);
}

static bool has_zero_point(const struct tmk_encoding *e) {
    for (uint32_t i = 0; i < e->n; i++)
        if (e->zero_point[i])
            return true;
    return false;
}

static enum tmk_status put_200(const struct tmk_export_row *row, struct tmk_text *out,
                               struct tmk_diag *diag) {
    const struct tmk_encoding *e = row->encoding;
    struct tmk_json_out one = tmk_json_new_object();
    tmk_json_put_text(&one, "name", row->name);
    tmk_json_put_text(&one, "output_dtype", tmk_dtype_name(e->dtype));
    if (e->axis < 0) {
        tmk_json_put_float(&one, "y_scale", e->scale[0]);
        if (e->zero_point[0])
            tmk_json_put_i64(&one, "y_zero_point", e->zero_point[0]);
        return tmk_json_finish(&one, out, diag);
    }
    struct tmk_json_out scales = tmk_json_new_array(), zero_points = tmk_json_new_array();
    for (uint32_t i = 0; i < e->n; i++) {
        tmk_json_put_float(&scales, NULL, e->scale[i]);
        tmk_json_put_i64(&zero_points, NULL, e->zero_point[i]);
    }
    tmk_json_put_child(&one, "y_scale", &scales);
    if (has_zero_point(e))
        tmk_json_put_child(&one, "y_zero_point", &zero_points);
    else
        cJSON_Delete(zero_points.item);
    tmk_json_put_i64(&one, "axis", e->axis);
    return tmk_json_finish(&one, out, diag);
}

/* ---- the file ---- */

/* "KEY": open, the rows of one kind on a line each, close. */
static enum tmk_status put_section(const struct tmk_export_rows *rows, bool weights,
                                   tmk_export_putter *put, const char *key, const char *brackets,
                                   struct tmk_text *out, struct tmk_diag *diag) {
    bool any = false;
    tmk_text_printf(out, "%s%c", key, brackets[0]);
    for (size_t i = 0; i < rows->n; i++) {
        if (is_weight(&rows->items[i]) != weights)
            continue;
        tmk_text_puts(out, any ? ",\n" : "\n");
        TMK_TRY(put(&rows->items[i], out, diag));
        any = true;
    }
    tmk_text_printf(out, "\n%c", brackets[1]);
    return TMK_OK;
}

static enum tmk_status put_sections(const struct tmk_export_rows *rows, const char *version,
                                    struct tmk_text *out, struct tmk_diag *diag) {
    bool is_061 = strcmp(version, "0.6.1") == 0;
    tmk_export_putter *put = is_061 ? put_061 : put_100;
    const char *brackets = is_061 ? "{}" : "[]";
    struct tmk_json_out args = quantizer_args(rows);
    enum tmk_status status =
        put_section(rows, false, put, "\"activation_encodings\":", brackets, out, diag);
    TMK_THEN(status, put_section(rows, true, put, ",\n\"param_encodings\":", brackets, out, diag));
    tmk_text_puts(out, ",\n\"excluded_layers\":[],\n\"quantizer_args\":");
    enum tmk_status finished = tmk_json_finish(&args, out, diag);
    return status == TMK_OK ? finished : status;
}

static enum tmk_status put_list(const struct tmk_export_rows *rows, struct tmk_text *out,
                                struct tmk_diag *diag) {
    tmk_text_puts(out, "\"encodings\":[");
    for (size_t i = 0; i < rows->n; i++) {
        tmk_text_puts(out, i ? ",\n" : "\n");
        TMK_TRY(put_200(&rows->items[i], out, diag));
    }
    tmk_text_puts(out, "\n]");
    return TMK_OK;
}

/* ---- tensors that AIMET has no quantizer for ---- */

/* AIMET and the converters fold a BatchNormalization into the convolution before it: there is no
 * value in between, and a quantizer that was off would be turned on. */
static bool is_folded(const struct tmk_value *value) {
    static const char *const ops[] = {"Conv", "ConvTranspose", "Gemm"};
    bool product = false;
    for (size_t i = 0; value->producer && i < TMK_COUNT(ops); i++)
        product = product || tmk_node_is(value->producer, TMK_DOMAIN_ONNX, ops[i]);
    return product && value->n_uses == 1 && !value->n_graph_outputs &&
           tmk_node_is(value->uses[0].node, TMK_DOMAIN_ONNX, "BatchNormalization");
}

/* Reading a name that AIMET's graph has not, it fails; with 2.0.0 also at an encoding where it has
 * no quantizer, unless it finds the same behind the operators that keep the grid. */
static const char *why_no_quantizer(const struct tmk_export_job *job, const struct tmk_value *value,
                                    const struct tmk_encoding *e, bool is_200) {
    if (!value->n_uses && !value->n_graph_outputs)
        return "nothing reads it: AIMET's graph does not have it";
    if (is_folded(value))
        return "the BatchNormalization behind it is folded: AIMET quantizes its result";
    for (const struct tmk_value *v = value; is_200 && v && keeps_grid(v->producer);) {
        v = v->producer->inputs[0];
        const struct tmk_encoding *theirs =
            v && v->profile_id >= 0
                ? tmk_encodings_find(job->encodings, (uint32_t)v->profile_id, NULL, 0)
                : NULL;
        if (!theirs || theirs->axis >= 0 || !tmk_encoding_same_codes(theirs, e))
            return "AIMET has no quantizer behind an operator that keeps the grid of an operand "
                   "that is float or has another encoding; version=1.0.0 can hold it";
    }
    return NULL;
}

/* Takes their rows out. */
static enum tmk_status drop_unquantized(const struct tmk_export_job *job,
                                        const struct tmk_by_id *all, struct tmk_export_rows *rows,
                                        bool is_200, struct tmk_diag *diag) {
    size_t kept = 0;
    uint32_t *within = calloc(all->n + 1, sizeof *within);
    TMK_TRY_ALLOC(within, diag);
    count_fused(job->graph, within, (uint32_t)all->n);
    for (size_t i = 0; i < rows->n; i++) {
        const struct tmk_encoding *e = rows->items[i].encoding;
        const struct tmk_value *value = tmk_by_id_get(all, e->id);
        const bool here = value && value->graph == job->graph;
        const char *why = NULL;
        if (here && within[e->id] && within[e->id] >= value->n_uses && !value->n_graph_outputs)
            why = "AIMET fuses the normalization, or MatMul and bias, that it is within";
        else if (here && value->kind == TMK_VALUE_RESULT && !is_weight(&rows->items[i]))
            why = why_no_quantizer(job, value, e, is_200);
        if (why)
            tmk_export_skip(job, e, why);
        else
            rows->items[kept++] = rows->items[i];
    }
    rows->n = kept;
    free(within);
    return TMK_OK;
}

/* Rows and encodings that AIMET's quantizers can take; *tied as tie_values has it. */
static enum tmk_status fit_rows(const struct tmk_export_job *job, struct tmk_export_rows *rows,
                                bool is_200, struct tied_encoding **tied, struct tmk_diag *diag) {
    struct tmk_by_id all;
    TMK_TRY(tmk_by_id_init(&all, job->graph, diag));
    enum tmk_status status = drop_unquantized(job, &all, rows, is_200, diag);
    TMK_THEN(status, tie_values(job, all.n, rows, tied, diag));
    tmk_by_id_finish(&all);
    return status;
}

static const char *version_of(const struct tmk_export_job *job) {
    return tmk_export_setting(job, "version", "0.6.1");
}

static enum tmk_status put_aimet(const struct tmk_export_job *job, struct tmk_export_rows *rows,
                                 struct tmk_text *out, struct tmk_diag *diag) {
    const char *version = version_of(job);
    const bool is_200 = strcmp(version, "2.0.0") == 0;
    struct tied_encoding *tied = NULL;
    enum tmk_status status = TMK_OK;
    if (job->graph)
        status = fit_rows(job, rows, is_200, &tied, diag);
    else if (is_200)
        tmk_export_remark(job, "AIMET refuses 2.0.0 where it has no quantizer for an encoding: "
                               "with --model such encodings are left out");
    tmk_text_printf(out, "{\"version\":\"%s\",\n", version);
    TMK_THEN(status, is_200 ? put_list(rows, out, diag) : put_sections(rows, version, out, diag));
    tmk_text_puts(out, "}\n");
    free(tied);
    return status;
}

static enum tmk_status write_aimet(const struct tmk_export_job *job, struct tmk_diag *diag) {
    static const struct tmk_export_text text = {
        .wants = {.weights = true, .fused = true, .unfit = tmk_export_unfit_codes},
        .put = put_aimet};
    const char *version = version_of(job);
    if (strcmp(version, "0.6.1") != 0 && strcmp(version, "1.0.0") != 0 &&
        strcmp(version, "2.0.0") != 0)
        return tmk_fail(diag, TMK_ARGUMENT, "there is no version '%s' of it: 0.6.1, 1.0.0, 2.0.0",
                        version);
    return tmk_export_text_write(job, &text, diag);
}

const struct tmk_exporter tmk_exporter_aimet = {
    .name = "aimet",
    .endings = "encodings json yaml yml",
    .consumer = "AIMET, and the converters of QNN and SNPE (--quantization_overrides)",
    .settings = "version=0.6.1|1.0.0|2.0.0",
    .limits = {.activations = TMK_EXPORT_INTEGERS,
               .weights = TMK_EXPORT_INTEGERS,
               .one_scale = true},
    .write = write_aimet,
};
