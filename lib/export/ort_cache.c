/* SPDX-License-Identifier: Apache-2.0 */
/* ort-cache: the calibration cache of ONNX Runtime: the range of each activation.
 *
 * Per tensor the format allows no keys but its own, so that IDs, what quantize_static is to be
 * asked for, and the nodes that the encodings leave float stand in one member of ours at the top.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "calib/encodings.h"
#include "calib/grid.h"
#include "export/qdq.h"
#include "export/rows.h"
#include "ops/ops.h"
#include "ops/shapes.h"

/* What most encodings are: quantize_static has one choice for all. */
struct most {
    enum tmk_dtype activation, weight;
    bool activation_symmetric, weight_symmetric, by_channel;
};

/* ---- what most are ---- */

static enum tmk_dtype most_common(const struct tmk_encodings *all, enum tmk_encoding_role role) {
    static const enum tmk_dtype types[] = {TMK_UINT8, TMK_INT8, TMK_UINT16,
                                           TMK_INT16, TMK_INT4, TMK_UINT4};
    uint32_t counts[TMK_COUNT(types)] = {0};
    size_t best = 0;
    for (uint32_t i = 0; i < all->n_items; i++)
        for (size_t t = 0; t < TMK_COUNT(types); t++)
            counts[t] += all->items[i].role == role && all->items[i].dtype == types[t];
    for (size_t t = 0; t < TMK_COUNT(types); t++)
        best = counts[t] > counts[best] ? t : best;
    return types[best];
}

static bool mostly_symmetric(const struct tmk_encodings *all, enum tmk_encoding_role role) {
    int64_t balance = 0;
    for (uint32_t i = 0; i < all->n_items; i++)
        if (all->items[i].role == role)
            balance += all->items[i].symmetric ? 1 : -1;
    return balance > 0;
}

static struct most find_most(const struct tmk_encodings *all) {
    struct most m = {.activation = most_common(all, TMK_ENCODING_ACTIVATION),
                     .weight = most_common(all, TMK_ENCODING_WEIGHT),
                     .activation_symmetric = mostly_symmetric(all, TMK_ENCODING_ACTIVATION),
                     .weight_symmetric = mostly_symmetric(all, TMK_ENCODING_WEIGHT)};
    for (uint32_t i = 0; i < all->n_items; i++)
        m.by_channel =
            m.by_channel || (all->items[i].role == TMK_ENCODING_WEIGHT && all->items[i].axis >= 0);
    return m;
}

/* quantize_static's name of a type. */
static const char *type_name(enum tmk_dtype dtype) {
    switch (dtype) {
    case TMK_UINT8:
        return "QUInt8";
    case TMK_INT8:
        return "QInt8";
    case TMK_UINT16:
        return "QUInt16";
    case TMK_INT16:
        return "QInt16";
    case TMK_UINT4:
        return "QUInt4";
    default:
        return "QInt4";
    }
}

/* Does ONNX Runtime compute the encoding from the range? */
static bool comes_back(const struct tmk_encoding *e, const struct most *m) {
    const bool is_signed = m->activation == TMK_INT8 || m->activation == TMK_INT16;
    const struct tmk_grid grid = {.dtype = m->activation,
                                  .symmetric = m->activation_symmetric,
                                  .narrow = m->activation_symmetric && is_signed};
    float low, high, scale;
    int32_t zero;
    tmk_export_range(e, &low, &high);
    return e->dtype == m->activation && e->n == 1 &&
           tmk_grid_fit(&grid, low, high, &scale, &zero, NULL) == TMK_OK && scale == e->scale[0] &&
           zero == e->zero_point[0];
}

static void remark_on_others(const struct tmk_export_job *job, const struct tmk_export_rows *rows,
                             const struct most *m) {
    size_t n = 0;
    for (size_t i = 0; i < rows->n; i++)
        n += !comes_back(rows->items[i].encoding, m);
    if (n)
        tmk_export_remark(job,
                          "ONNX Runtime makes another scale of %zu of %zu ranges than the "
                          "encodings have (other types, powers of two, channels): --to qdq keeps "
                          "them",
                          n, rows->n);
}

/* ---- accumulators ---- */

static const struct tmk_encoding *encoding_of(const struct tmk_encodings *all,
                                              const struct tmk_value *value) {
    return value && value->profile_id >= 0
               ? tmk_encodings_find(all, (uint32_t)value->profile_id, NULL, 0)
               : NULL;
}

/* The value is a product to which a bias is added, so that it has no encoding. ONNX Runtime wants a
 * range of it all the same: that of the sum, less the bias; what lies beyond is clipped behind the
 * addition. */
static bool accumulator_range(const struct tmk_encodings *all, const struct tmk_value *value,
                              float *low, float *high) {
    const struct tmk_node *add = value && value->n_uses == 1 ? value->uses[0].node : NULL;
    if (!add || !value->producer || !tmk_op_is_product(value->producer) ||
        encoding_of(all, value) || !tmk_node_is(add, TMK_DOMAIN_ONNX, "Add") ||
        add->graph != value->graph)
        return false;
    const struct tmk_value *bias = add->inputs[1 - value->uses[0].input];
    const struct tmk_encoding *of_bias = encoding_of(all, bias),
                              *sum = encoding_of(all, add->outputs[0]);
    if (!of_bias || !sum || of_bias->dtype != TMK_INT32 || bias->kind != TMK_VALUE_INITIALIZER ||
        bias->data.dtype != TMK_FLOAT32 || !tmk_tensor_count(&bias->data))
        return false;
    const float *data = bias->data.data;
    float min = data[0], most = data[0];
    for (size_t i = 1; i < tmk_tensor_count(&bias->data); i++) {
        min = data[i] < min ? data[i] : min;
        most = data[i] > most ? data[i] : most;
    }
    tmk_export_range(sum, low, high);
    *low -= most;
    *high -= min;
    return isfinite(*low) && isfinite(*high) && *low <= *high;
}

/* ---- which nodes ---- */

static bool is_computed(const struct tmk_value *value) {
    return value->kind != TMK_VALUE_INITIALIZER;
}

static bool is_float(const struct tmk_value *value) {
    return value && value->profile_id >= 0 && value->type.dtype == TMK_FLOAT32;
}

/* ONNX Runtime quantizes these initializers, too, where it quantizes the node. */
static bool is_operand(const struct tmk_node *node, uint32_t at) {
    static const char *const all[] = {"Add", "Mul", "Concat"};
    for (size_t i = 0; i < TMK_COUNT(all); i++)
        if (tmk_node_is(node, TMK_DOMAIN_ONNX, all[i]))
            return true;
    return at == 1 && tmk_op_is_product(node);
}

/* Everything that it reads has an encoding for it. */
static bool reads_codes(const struct tmk_encodings *all, const struct tmk_node *node) {
    float low, high;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct tmk_value *value = node->inputs[i];
        if (is_float(value) && (is_computed(value) || is_operand(node, i)) &&
            !tmk_export_encoding(all, node, i) && !accumulator_range(all, value, &low, &high))
            return false;
    }
    return true;
}

static bool makes_float(const struct tmk_encodings *all, const struct tmk_node *node) {
    float low, high;
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (is_float(node->outputs[i]) && !encoding_of(all, node->outputs[i]) &&
            !accumulator_range(all, node->outputs[i], &low, &high))
            return true;
    return false;
}

struct plan {
    const struct tmk_encodings *all;
    bool by_channel; /* scales of weights */
    bool converts;   /* to an operator set where Softmax is another */
};

/* ONNX Runtime (1.32) fails over the bias, which has more elements than the weight has scales. */
static bool is_beyond_it(const struct plan *plan, const struct tmk_node *node) {
    return plan->by_channel && tmk_node_is(node, TMK_DOMAIN_ONNX, "ConvTranspose") &&
           tmk_node_int(node, "group", 1) > 1 && node->n_inputs > 2 && node->inputs[2];
}

/* Of the older Softmax the converter makes Flatten, Softmax and Reshape, unless it finds that the
 * last dimension is meant. What Flatten makes has a name of its own, and only the range of its
 * operand. */
static bool is_flattened(const struct plan *plan, const struct tmk_node *node) {
    return plan->converts && tmk_node_is(node, TMK_DOMAIN_ONNX, "Softmax");
}

/* Operators that only move elements are quantized for their result alone. */
static bool is_wanted(const struct plan *plan, const struct tmk_node *node) {
    if (!tmk_qdq_knows(node) || !reads_codes(plan->all, node) || is_beyond_it(plan, node) ||
        (tmk_qdq_moves(node) && makes_float(plan->all, node)))
        return false;
    const struct tmk_node *before = node->inputs[0] ? node->inputs[0]->producer : NULL;
    return !is_flattened(plan, node) || !before ||
           (tmk_qdq_knows(before) && reads_codes(plan->all, before));
}

/* Of the operators of this kind, those that are to be quantized, and are not. */
struct kind {
    uint32_t wanted, unwanted, float_results, lost;
};

/* Will some reader have it quantized? */
static bool is_read_as_codes(const struct plan *plan, const struct tmk_value *value) {
    for (uint32_t i = 0; i < value->n_uses; i++)
        if (!tmk_qdq_moves(value->uses[i].node) && is_wanted(plan, value->uses[i].node))
            return true;
    return false;
}

static struct kind kind_of(const struct plan *plan, const struct tmk_graph *typed, const char *op) {
    struct kind kind = {0};
    for (const struct tmk_node *node = typed->first; node; node = node->next) {
        if (!tmk_qdq_knows(node) || strcmp(node->op, op) != 0)
            continue;
        const bool wanted = is_wanted(plan, node);
        kind.wanted += wanted;
        kind.unwanted += !wanted;
        kind.float_results += wanted && makes_float(plan->all, node);
        kind.lost += wanted && is_float(node->outputs[0]) &&
                     encoding_of(plan->all, node->outputs[0]) &&
                     !is_read_as_codes(plan, node->outputs[0]);
    }
    return kind;
}

static bool stood_before(const struct tmk_graph *graph, const struct tmk_node *node) {
    for (const struct tmk_node *one = graph->first; one != node; one = one->next)
        if (strcmp(one->op, node->op) == 0 && strcmp(one->domain, node->domain) == 0)
            return true;
    return false;
}

struct choice {
    struct tmk_json_out types, without_output, exclude;
    uint32_t nameless, lost, beyond;
};

/* op_types_to_quantize, OpTypesToExcludeOutputQuantization and nodes_to_exclude. */
static struct choice choose_nodes(const struct plan *plan, const struct tmk_graph *typed) {
    struct choice choice = {
        tmk_json_new_array(), tmk_json_new_array(), tmk_json_new_array(), 0, 0, 0};
    for (const struct tmk_node *node = typed->first; node; node = node->next) {
        if (!tmk_qdq_knows(node) || stood_before(typed, node))
            continue;
        const struct kind kind = kind_of(plan, typed, node->op);
        if (!kind.wanted)
            continue;
        tmk_json_put_text(&choice.types, NULL, node->op);
        if (kind.float_results) {
            tmk_json_put_text(&choice.without_output, NULL, node->op);
            choice.lost += kind.lost;
        }
        for (const struct tmk_node *one = node; kind.unwanted && one; one = one->next) {
            if (!tmk_qdq_knows(one) || strcmp(one->op, node->op) != 0 || is_wanted(plan, one))
                continue;
            choice.beyond += is_beyond_it(plan, one);
            if (one->name[0])
                tmk_json_put_text(&choice.exclude, NULL, one->name);
            else
                choice.nameless++;
        }
    }
    return choice;
}

static void remark_on_choice(const struct tmk_export_job *job, const struct choice *choice) {
    if (choice->nameless)
        tmk_export_remark(job,
                          "%u nodes that stay float have no name, so that quantize_static can't "
                          "be told to leave them out: --to qdq leaves them out",
                          choice->nameless);
    if (choice->beyond)
        tmk_export_remark(job,
                          "%u grouped ConvTranspose stay float: ONNX Runtime (1.32) fails to "
                          "quantize their bias where weights have scales by channel",
                          choice->beyond);
    if (choice->lost)
        tmk_export_remark(job,
                          "%u results that have an encoding stay float: quantize_static leaves "
                          "out results by type of operator only; --to qdq keeps them",
                          choice->lost);
}

/* ---- operator sets ---- */

enum { BY_CHANNEL = 13, WIDE = 21, LEAST = 10, CONVERTED = 11 };

/* That quantize_static converts the model to. */
static int64_t converted_opset(const struct tmk_graph *graph, const struct most *m) {
    const int64_t has = tmk_graph_opset(graph, TMK_DOMAIN_ONNX);
    if (TMK_EXPORT_TYPE(m->activation) & TMK_EXPORT_16 ||
        TMK_EXPORT_TYPE(m->weight) & TMK_EXPORT_16)
        return has > WIDE ? has : WIDE;
    return has < LEAST ? CONVERTED : has;
}

static bool has_bias_encodings(const struct tmk_encodings *all) {
    bool any = false;
    for (uint32_t i = 0; i < all->n_items; i++)
        any = any || all->items[i].role == TMK_ENCODING_BIAS;
    return any;
}

/* ---- the file ---- */

/* typed: the graph with the types of its values. */
static void put_call(const struct tmk_export_job *job, const struct tmk_graph *typed,
                     const struct most *m, struct tmk_json_out *to) {
    struct tmk_json_out call = tmk_json_new_object(), extra = tmk_json_new_object();
    const int64_t opset = converted_opset(typed, m);
    const bool by_channel = m->by_channel && opset >= BY_CHANNEL;
    const struct plan plan = {job->encodings, by_channel,
                              opset >= BY_CHANNEL &&
                                  tmk_graph_opset(typed, TMK_DOMAIN_ONNX) < BY_CHANNEL};
    struct choice choice = choose_nodes(&plan, typed);
    for (const struct tmk_node *node = typed->first; node; node = node->next)
        if (is_flattened(&plan, node)) {
            tmk_json_put_text(&choice.types, NULL, "Flatten");
            tmk_json_put_text(&choice.types, NULL, "Reshape");
            break;
        }
    tmk_json_put_text(&call, "activation_type", type_name(m->activation));
    tmk_json_put_text(&call, "weight_type", type_name(m->weight));
    tmk_json_put(&call, "per_channel", cJSON_CreateBool(by_channel));
    tmk_json_put(&extra, "ActivationSymmetric", cJSON_CreateBool(m->activation_symmetric));
    tmk_json_put(&extra, "WeightSymmetric", cJSON_CreateBool(m->weight_symmetric));
    tmk_json_put(&extra, "QuantizeBias", cJSON_CreateBool(has_bias_encodings(job->encodings)));
    tmk_json_put_child(&extra, "OpTypesToExcludeOutputQuantization", &choice.without_output);
    tmk_json_put_child(&call, "extra_options", &extra);
    tmk_json_put_child(&call, "op_types_to_quantize", &choice.types);
    tmk_json_put_child(&call, "nodes_to_exclude", &choice.exclude);
    tmk_json_put_child(to, "quantize_static", &call);
    remark_on_choice(job, &choice);
    if (m->by_channel && !by_channel)
        tmk_export_remark(job,
                          "weights get one scale: the model is of operator set %lld, and scales by "
                          "channel need 13; convert it (onnx.version_converter) and profile it "
                          "again, or take --to qdq",
                          (long long)tmk_graph_opset(typed, TMK_DOMAIN_ONNX));
}

static struct tmk_json_out make_tidemark(const struct tmk_export_job *job,
                                         const struct tmk_graph *typed,
                                         const struct tmk_export_rows *rows, const struct most *m) {
    struct tmk_json_out to = tmk_json_new_object(), ids = tmk_json_new_object();
    char id[16];
    tmk_json_put_text(&to, "producer", job->encodings->producer.name);
    tmk_json_put_text(&to, "version", job->encodings->producer.version);
    tmk_json_put_text(&to, "model", job->encodings->model.file);
    tmk_json_put_text(&to, "sha256", job->encodings->model.sha256);
    tmk_json_put_u64(&to, "samples", job->encodings->samples);
    put_call(job, typed, m, &to);
    for (size_t i = 0; i < rows->n; i++) {
        snprintf(id, sizeof id, "p%u", rows->items[i].encoding->id);
        tmk_json_put_text(&ids, rows->items[i].name, id);
    }
    tmk_json_put_child(&to, "ids", &ids);
    return to;
}

static enum tmk_status put_range(const char *name, float low, float high, bool first,
                                 struct tmk_text *out, struct tmk_diag *diag) {
    tmk_text_puts(out, first ? "" : ",\n");
    TMK_TRY(tmk_export_quote(out, name, diag));
    tmk_text_puts(out, ":{\"CLS\":\"TensorData\",\"lowest\":");
    tmk_json_float_text(out, low);
    tmk_text_puts(out, ",\"highest\":");
    tmk_json_float_text(out, high);
    tmk_text_puts(out, "}");
    return TMK_OK;
}

static enum tmk_status put_encoding(const char *name, const struct tmk_encoding *e, bool first,
                                    struct tmk_text *out, struct tmk_diag *diag) {
    float low, high;
    tmk_export_range(e, &low, &high);
    return put_range(name, low, high, first, out, diag);
}

/* The converter to a newer operator set calls by it what Softmax makes of a flattened operand. */
static enum tmk_status put_intermediate(const struct tmk_value *value, const char *name, float low,
                                        float high, struct tmk_text *out, struct tmk_diag *diag) {
    struct tmk_text longer = {0};
    if (!value->producer || !tmk_node_is(value->producer, TMK_DOMAIN_ONNX, "Softmax") ||
        value->producer->version >= BY_CHANNEL)
        return TMK_OK;
    tmk_text_printf(&longer, "%s_intermediate", name);
    enum tmk_status status =
        longer.failed ? tmk_nomem(diag) : put_range(longer.data, low, high, false, out, diag);
    tmk_text_finish(&longer);
    return status;
}

/* ONNX Runtime wants a range of whatever is computed: a weight that an operator makes is no
 * initializer there, and what stays float here may be asked for. */
static enum tmk_status put_other(const struct tmk_export_job *job, const struct tmk_value *value,
                                 struct tmk_text *out, struct tmk_diag *diag) {
    const struct tmk_encoding *e =
        value->profile_id >= 0 ? encoding_of(job->encodings, value) : NULL;
    const struct tmk_left_float *left =
        value->profile_id >= 0 ? tmk_encodings_left(job->encodings, (uint32_t)value->profile_id)
                               : NULL;
    const char *name = value->profile_id >= 0
                           ? tmk_export_name(job, (uint32_t)value->profile_id, value->name)
                           : NULL;
    float low, high;
    if (!name || !is_float(value))
        return TMK_OK;
    if (e)
        tmk_export_range(e, &low, &high);
    else if (!accumulator_range(job->encodings, value, &low, &high)) {
        if (!left || isnan(left->observed_min))
            return TMK_OK;
        low = left->observed_min;
        high = left->observed_max;
    }
    TMK_TRY(put_intermediate(value, name, low, high, out, diag));
    if (e && e->role == TMK_ENCODING_ACTIVATION)
        return TMK_OK;
    if (e)
        tmk_export_wrote(job, e);
    return put_range(name, low, high, false, out, diag);
}

static enum tmk_status put_others(const struct tmk_export_job *job, const struct tmk_graph *typed,
                                  struct tmk_text *out, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < typed->n_inputs; i++)
        TMK_TRY(put_other(job, typed->inputs[i], out, diag));
    for (const struct tmk_node *node = typed->first; node; node = node->next)
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (node->outputs[i])
                TMK_TRY(put_other(job, node->outputs[i], out, diag));
    return TMK_OK;
}

static enum tmk_status put_ranges(const struct tmk_export_job *job, const struct tmk_graph *typed,
                                  const struct tmk_export_rows *rows, struct tmk_text *out,
                                  struct tmk_diag *diag) {
    tmk_text_puts(out, "{\"CLS\":\"TensorsData\",\"data\":{\n");
    for (size_t i = 0; i < rows->n; i++)
        TMK_TRY(put_encoding(rows->items[i].name, rows->items[i].encoding, i == 0, out, diag));
    TMK_TRY(put_others(job, typed, out, diag));
    tmk_text_puts(out, "\n},\n\"calibration_method\":{\"CLS\":\"CalibrationMethod\",\"value\":"
                       "\"CalibrationMethod.MinMax\"},\n\"smooth_quant\":false,\n\"tidemark\":");
    return TMK_OK;
}

static enum tmk_status write_rows(const struct tmk_export_job *job, const struct tmk_graph *typed,
                                  const struct tmk_export_rows *rows, struct tmk_text *out,
                                  struct tmk_diag *diag) {
    const struct most m = find_most(job->encodings);
    struct tmk_json_out ours = make_tidemark(job, typed, rows, &m);
    enum tmk_status status = put_ranges(job, typed, rows, out, diag);
    if (status == TMK_OK)
        status = tmk_json_finish(&ours, out, diag);
    else
        cJSON_Delete(ours.item);
    TMK_TRY(status);
    tmk_text_puts(out, "}\n");
    TMK_TRY(tmk_export_write(job, out, diag));
    remark_on_others(job, rows, &m);
    return TMK_OK;
}

/* Its quantizer takes types of scales from the ranges, which a cache has in one type. */
static void remark_on_half(const struct tmk_export_job *job) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < job->graph->n_values; i++) {
        const struct tmk_value *value = job->graph->values[i];
        n += (value->kind == TMK_VALUE_INPUT || value->kind == TMK_VALUE_INITIALIZER) &&
             value->type.origin == TMK_FLOAT16;
    }
    if (n)
        tmk_export_remark(job,
                          "%u inputs and constants are float16, of which ONNX Runtime (1.32) makes "
                          "a model from a cache that it does not load; take --to qdq",
                          n);
}

static enum tmk_status write_ort_cache(const struct tmk_export_job *job, struct tmk_diag *diag) {
    static const struct tmk_export_requirements wants = {0};
    struct tmk_graph *typed = NULL;
    struct tmk_export_rows rows = {0};
    struct tmk_text out = {0};
    TMK_TRY(tmk_export_rows_make(job, &wants, &rows, diag));
    enum tmk_status status = tmk_graph_clone(job->graph, &typed, diag);
    TMK_THEN(status, tmk_fill_types(typed, diag));
    TMK_THEN(status, write_rows(job, typed, &rows, &out, diag));
    if (status == TMK_OK)
        remark_on_half(job);
    tmk_graph_destroy(&typed);
    tmk_text_finish(&out);
    tmk_export_rows_finish(&rows);
    return status;
}

const struct tmk_exporter tmk_exporter_ort_cache = {
    .name = "ort-cache",
    .endings = "json",
    .consumer = "ONNX Runtime 1.27 and later: quantize_static(calibration_cache_path=)",
    .settings = "",
    .needs_graph = true,
    .limits = {.activations = TMK_EXPORT_INTEGERS, .one_scale = true},
    .write = write_ort_cache,
};
