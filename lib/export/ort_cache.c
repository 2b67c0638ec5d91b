/* SPDX-License-Identifier: Apache-2.0 */
/* ort-cache: the calibration cache of ONNX Runtime (FORMATS 3.1): the range of each activation.
 *
 * Per tensor the format allows no keys but its own, so that IDs, what quantize_static is to be
 * asked for, and the nodes that the encodings leave float stand in one member of ours at the top.
 */
#include <math.h>
#include <stdio.h>

#include "base/diag.h"
#include "calib/grid.h"
#include "export/qdq.h"
#include "export/rows.h"
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
    uint32_t counts[sizeof types / sizeof *types] = {0};
    size_t best = 0;
    for (uint32_t i = 0; i < all->n_items; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            counts[t] += all->items[i].role == role && all->items[i].dtype == types[t];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
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

/* Does ONNX Runtime make of the range what the encoding says? */
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

static bool is_product(const struct tmk_node *node) {
    static const char *const products[] = {"Conv", "ConvTranspose", "Gemm", "MatMul"};
    for (size_t i = 0; node && i < sizeof products / sizeof *products; i++)
        if (tmk_node_is(node, TMK_DOMAIN_ONNX, products[i]))
            return true;
    return false;
}

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
    if (!add || !is_product(value->producer) || encoding_of(all, value) ||
        !tmk_node_is(add, TMK_DOMAIN_ONNX, "Add") || add->graph != value->graph)
        return false;
    const struct tmk_value *bias = add->inputs[1 - value->uses[0].input];
    const struct tmk_encoding *of_bias = encoding_of(all, bias),
                              *sum = encoding_of(all, add->outputs[0]);
    if (!of_bias || !sum || of_bias->dtype != TMK_INT32 || bias->kind != TMK_VALUE_INITIALIZER ||
        bias->data.dtype != TMK_FLOAT32 || !tmk_tensor_count(&bias->data))
        return false;
    const float *data = bias->data.data;
    float least = data[0], most = data[0];
    for (size_t i = 1; i < tmk_tensor_count(&bias->data); i++) {
        least = data[i] < least ? data[i] : least;
        most = data[i] > most ? data[i] : most;
    }
    tmk_export_range(sum, low, high);
    *low -= most;
    *high -= least;
    return isfinite(*low) && isfinite(*high) && *low <= *high;
}

/* ---- nodes that stay float ---- */

static bool stays_float(const struct tmk_encodings *all, const struct tmk_value *value) {
    if (!value || value->profile_id < 0 || value->type.dtype != TMK_FLOAT32)
        return false;
    float low, high;
    for (uint32_t i = 0; i < all->n_items; i++)
        if (all->items[i].id == value->profile_id)
            return false;
    return !accumulator_range(all, value, &low, &high);
}

/* ONNX Runtime has no range for what is computed and stays float; of initializers those that are
 * multiplied by count. */
static bool is_left_out(const struct tmk_encodings *all, const struct tmk_node *node) {
    const bool product = is_product(node);
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (stays_float(all, node->outputs[i]))
            return true;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct tmk_value *value = node->inputs[i];
        if (value && (value->kind != TMK_VALUE_INITIALIZER || (product && i == 1)) &&
            stays_float(all, value))
            return true;
    }
    return false;
}

static void put_left_out(const struct tmk_export_job *job, const struct tmk_graph *typed,
                         struct tmk_json_out *to) {
    struct tmk_json_out list = tmk_json_new_array();
    uint32_t nameless = 0;
    for (const struct tmk_node *node = typed->first; node; node = node->next) {
        if (!tmk_qdq_knows(node) || !is_left_out(job->encodings, node))
            continue;
        if (node->name[0])
            tmk_json_put_text(&list, NULL, node->name);
        else
            nameless++;
    }
    tmk_json_put_child(to, "nodes_to_exclude", &list);
    if (nameless)
        tmk_export_remark(job,
                          "%u nodes that stay float have no name, so that quantize_static can't "
                          "be told to leave them out: --to qdq leaves them out",
                          nameless);
}

/* ---- the file ---- */

/* typed: the graph with the types of its values; NULL: none was given. */
static void put_call(const struct tmk_export_job *job, const struct tmk_graph *typed,
                     const struct most *m, struct tmk_json_out *to) {
    struct tmk_json_out call = tmk_json_new_object(), extra = tmk_json_new_object();
    tmk_json_put_text(&call, "activation_type", type_name(m->activation));
    tmk_json_put_text(&call, "weight_type", type_name(m->weight));
    tmk_json_put(&call, "per_channel", cJSON_CreateBool(m->by_channel));
    tmk_json_put(&extra, "ActivationSymmetric", cJSON_CreateBool(m->activation_symmetric));
    tmk_json_put(&extra, "WeightSymmetric", cJSON_CreateBool(m->weight_symmetric));
    tmk_json_put_child(&call, "extra_options", &extra);
    if (typed)
        put_left_out(job, typed, &call);
    tmk_json_put_child(to, "quantize_static", &call);
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

/* A weight that an operator makes is no initializer: ONNX Runtime wants a range of it too. */
static enum tmk_status put_others(const struct tmk_export_job *job, const struct tmk_graph *typed,
                                  struct tmk_text *out, struct tmk_diag *diag) {
    for (const struct tmk_node *node = typed ? typed->first : NULL; node; node = node->next)
        for (uint32_t i = 0; i < node->n_outputs; i++) {
            const struct tmk_value *value = node->outputs[i];
            const struct tmk_encoding *e = encoding_of(job->encodings, value);
            float low, high;
            const char *name = value && value->profile_id >= 0
                                   ? tmk_export_name(job, (uint32_t)value->profile_id, value->name)
                                   : NULL;
            if (name && e && e->role != TMK_ENCODING_ACTIVATION) {
                TMK_TRY(put_encoding(name, e, false, out, diag));
                tmk_export_wrote(job, e);
            } else if (name && accumulator_range(job->encodings, value, &low, &high)) {
                TMK_TRY(put_range(name, low, high, false, out, diag));
            }
        }
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

static enum tmk_status write_ort_cache(const struct tmk_export_job *job, struct tmk_diag *diag) {
    static const struct tmk_export_wants wants = {0};
    struct tmk_graph *typed = NULL;
    struct tmk_export_rows rows = {0};
    struct tmk_text out = {0};
    TMK_TRY(tmk_export_rows_make(job, &wants, &rows, diag));
    enum tmk_status status = job->graph ? tmk_graph_clone(job->graph, &typed, diag) : TMK_OK;
    if (status == TMK_OK && typed)
        status = tmk_fill_types(typed, diag);
    if (status == TMK_OK)
        status = write_rows(job, typed, &rows, &out, diag);
    tmk_graph_destroy(&typed);
    tmk_text_finish(&out);
    tmk_export_rows_finish(&rows);
    return status;
}

const struct tmk_exporter tmk_exporter_ort_cache = {
    .name = "ort-cache",
    .consumer = "ONNX Runtime 1.27 and later: quantize_static(calibration_cache_path=)",
    .settings = "",
    .limits = {.activations = TMK_EXPORT_INTEGERS, .one_scale = true},
    .write = write_ort_cache,
};
