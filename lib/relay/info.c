/* SPDX-License-Identifier: Apache-2.0 */
/* What a params dictionary and a text do not have: tables of the edges and of the params' entries.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/map.h"
#include "base/text.h"
#include "calib/encodings.h"
#include "export/rows.h"
#include "relay/builder.h"
#include "relay/export.h"

char *tmk_relay_sibling(const char *path, const char *ending) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    const size_t stem =
        dot && dot != (slash ? slash + 1 : path) ? (size_t)(dot - path) : strlen(path);
    const size_t size = stem + strlen(ending) + 1;
    char *made = malloc(size);
    if (made)
        snprintf(made, size, "%.*s%s", (int)stem, path, ending);
    return made;
}

static enum tmk_status finish_text(struct tmk_json_out *json, struct tmk_text *out,
                                   struct tmk_diag *diag) {
    TMK_TRY(tmk_json_finish(json, out, diag));
    tmk_text_puts(out, "\n");
    return out->failed ? tmk_nomem(diag) : TMK_OK;
}

static void put_zeros(struct tmk_json_out *to, const struct tmk_encoding *e) {
    struct tmk_json_out array = tmk_json_new_array();
    for (uint32_t i = 0; i < e->n; i++)
        tmk_json_put_i64(&array, NULL, e->zero_point[i]);
    tmk_json_put_child(to, "zero_points", &array);
}

static void put_axis(struct tmk_json_out *to, const struct tmk_encoding *e) {
    tmk_json_put(to, "axis", e->axis < 0 ? cJSON_CreateNull() : cJSON_CreateNumber(e->axis));
}

/* ---- the edges ---- */

static void put_edge(struct tmk_json_out *to, const struct tmk_relay_edge *edge) {
    struct tmk_json_out item = tmk_json_new_object();
    char id[16];
    snprintf(id, sizeof id, "p%" PRIu32, edge->id);
    tmk_json_put_text(&item, "profile_id", id);
    tmk_json_put_text(&item, "name", edge->name);
    tmk_json_put_text(&item, "relay_name", edge->spelled);
    if (edge->span)
        tmk_json_put_text(&item, "span", edge->span);
    tmk_json_put_text(&item, "kind", edge->kind);
    if (edge->encoding) {
        const struct tmk_encoding *e = edge->encoding;
        tmk_json_put_text(&item, "dtype", tmk_dtype_name(e->dtype));
        /* ndom_scale * 2^(nbit - sign): the number that relay.quantize would have divided. */
        const bool is_signed = tmk_export_is_signed(e) || e->dtype == TMK_INT32;
        const uint32_t nbit = e->dtype == TMK_INT32 ? 32 : tmk_export_bits(e);
        int32_t lowest, highest;
        if (nbit) {
            tmk_encoding_codes(e, &lowest, &highest);
            tmk_json_put_u64(&item, "nbit", nbit);
            tmk_json_put(&item, "sign", cJSON_CreateBool(is_signed));
            if (e->n == 1) {
                tmk_json_put_float(&item, "ndom_scale", e->scale[0]);
                /* The bits of a scale, exact where decimals are not trusted. */
                float value = e->scale[0];
                char text[32];
                snprintf(text, sizeof text, "%a", (double)value);
                tmk_json_put_text(&item, "ndom_scale_hex", text);
                tmk_json_put_i64(&item, "zero_point", e->zero_point[0]);
                tmk_json_put_double(&item, "threshold",
                                    ldexp((double)e->scale[0], (int)nbit - is_signed));
            } else {
                tmk_json_put_floats(&item, "scale_per_channel", e->scale, e->n);
                put_zeros(&item, e);
            }
            tmk_json_put_i64(&item, "nclip_min", lowest);
            tmk_json_put_i64(&item, "nclip_max", highest);
        }
        put_axis(&item, e);
        tmk_json_put_floats(&item, "clip_min", e->clip_min, e->n);
        tmk_json_put_floats(&item, "clip_max", e->clip_max, e->n);
        tmk_json_put_float(&item, "min", e->observed_min);
        tmk_json_put_float(&item, "max", e->observed_max);
        tmk_json_put_text(&item, "calibrator", e->method);
        if (e->rule[0])
            tmk_json_put_text(&item, "rule", e->rule);
        tmk_json_put_uses(&item, e);
    } else {
        tmk_json_put_text(&item, "dtype", "float32");
        tmk_json_put_text(&item, "reason", edge->left->reason);
        tmk_json_put_float(&item, "min", edge->left->observed_min);
        tmk_json_put_float(&item, "max", edge->left->observed_max);
    }
    tmk_json_put_child(to, id, &item);
}

static void put_model(struct tmk_json_out *to, const struct tmk_encodings *encodings) {
    struct tmk_json_out model = tmk_json_new_object();
    tmk_json_put_text(&model, "file", encodings->model.file);
    tmk_json_put_text(&model, "sha256", encodings->model.sha256);
    tmk_json_put_text(&model, "format", encodings->model.format);
    tmk_json_put_child(to, "model", &model);
    tmk_json_put_u64(to, "n_samples", encodings->samples);
    tmk_json_put_text(to, "rounding", tmk_rounding_name(encodings->rounding));
}

enum tmk_status tmk_relay_edges_text(const struct tmk_export_job *job,
                                     const struct tmk_relay_edges *edges, const char *form,
                                     struct tmk_text *out, struct tmk_diag *diag) {
    struct tmk_json_out all = tmk_json_new_object(), values = tmk_json_new_object(),
                        names = tmk_json_new_object(), spelled = tmk_json_new_object();
    struct tmk_map seen = {0};
    char id[16];
    tmk_json_put_text(&all, "format", "tidemark-relay-quantize-info");
    tmk_json_put_text(&all, "version", "1.0");
    put_model(&all, job->encodings);
    tmk_json_put_text(&all, "relay", tmk_base_name(job->path));
    tmk_json_put_text(&all, "form", form);
    for (size_t i = 0; i < edges->n; i++) {
        const struct tmk_relay_edge *edge = &edges->items[i];
        snprintf(id, sizeof id, "p%" PRIu32, edge->id);
        if (!cJSON_HasObjectItem(values.item, id))
            put_edge(&values, edge);
        if (edge->name[0] && !tmk_map_get(&seen, edge->name)) {
            tmk_json_put_text(&names, edge->name, id);
            all.failed |= !tmk_map_put(&seen, edge->name, (void *)(uintptr_t)edge);
        }
        if (edge->spelled[0] == '%')
            tmk_json_put_text(&spelled, edge->spelled, id);
    }
    tmk_json_put_child(&all, "values", &values);
    tmk_json_put_child(&all, "names", &names);
    tmk_json_put_child(&all, "relay_names", &spelled);
    tmk_map_finish(&seen);
    return finish_text(&all, out, diag);
}

/* ---- the params ---- */

/* The value whose numbers the entry holds. */
static const struct tmk_value *origin_of(const struct tmk_map *by_name,
                                         const struct tmk_relay_param *param) {
    struct tmk_arena arena = {0};
    const struct tmk_value *value = tmk_map_get(by_name, param->name);
    const char *name = value ? NULL : tmk_relay_unescape(&arena, param->name);
    if (name)
        value = tmk_map_get(by_name, name);
    tmk_arena_finish(&arena);
    return value;
}

/* Of codes under the original's name. */
static const struct tmk_encoding *encoding_of_codes(const struct tmk_export_job *job,
                                                    const struct tmk_quantized_graph *quantized,
                                                    const struct tmk_value *value) {
    for (uint32_t i = 0; i < quantized->n; i++)
        if (quantized->values[i].codes == value)
            return quantized->values[i].encoding;
    for (uint32_t i = 0; i < job->encodings->n_items; i++) {
        const struct tmk_encoding *e = &job->encodings->items[i];
        if (e->role == TMK_ENCODING_BIAS && value->data.dtype == e->dtype &&
            strcmp(tmk_relay_bias_name(job->graph, e), value->name) == 0)
            return e;
    }
    return NULL;
}

/* What an entry is: `id` is -1 for what the model does not have. */
struct meaning {
    const char *name;
    int64_t id;
    const struct tmk_encoding *encoding;
    bool codes;
};

static struct meaning meaning_of(const struct tmk_export_job *job,
                                 const struct tmk_quantized_graph *quantized,
                                 const struct tmk_value *value,
                                 const struct tmk_relay_param *param) {
    struct meaning m = {.name = value ? value->name : param->name, .id = -1};
    if (!value)
        return m;
    if (quantized)
        m.encoding = encoding_of_codes(job, quantized, value);
    else if (value->profile_id >= 0)
        m.encoding = tmk_relay_encoding(job->encodings, (uint32_t)value->profile_id);
    m.codes = m.encoding && (quantized || param->tensor.dtype == m.encoding->dtype);
    m.id = m.encoding ? (int64_t)m.encoding->id : value->profile_id;
    if (m.encoding && m.encoding->role == TMK_ENCODING_BIAS)
        m.name = tmk_relay_bias_name(job->graph, m.encoding);
    else if (m.encoding)
        m.name = m.encoding->name;
    return m;
}

static void put_param(struct tmk_json_out *to, const struct tmk_relay_param *param,
                      const struct meaning *m) {
    struct tmk_json_out item = tmk_json_new_object(), shape = tmk_json_new_array();
    const struct tmk_encoding *e = m->encoding;
    tmk_json_put_text(&item, "name", m->name);
    if (m->id >= 0)
        tmk_json_put_id(&item, "profile_id", (uint32_t)m->id);
    tmk_json_put_text(&item, "stored_dtype", param->dtype);
    for (int32_t i = 0; i < param->rank; i++)
        tmk_json_put_i64(&shape, NULL, param->dims[i]);
    tmk_json_put_child(&item, "shape", &shape);
    tmk_json_put(&item, "holds_codes", cJSON_CreateBool(m->codes));
    tmk_json_put_text(&item, "role",
                      e            ? tmk_encoding_role_name(e->role)
                      : m->id >= 0 ? "weight"
                                   : "constant");
    tmk_json_put_text(&item, "dtype", e ? tmk_dtype_name(e->dtype) : param->dtype);
    if (e) {
        tmk_json_put_floats(&item, "scale", e->scale, e->n);
        put_zeros(&item, e);
        put_axis(&item, e);
        tmk_json_put_float(&item, "min", e->observed_min);
        tmk_json_put_float(&item, "max", e->observed_max);
    } else {
        /* Of float32 numbers that are not NaN. */
        const size_t n = param->tensor.dtype == TMK_FLOAT32 ? tmk_tensor_count(&param->tensor) : 0;
        const float *x = param->tensor.data;
        float low = NAN, high = NAN;
        for (size_t i = 0; i < n; i++) {
            low = fminf(low, x[i]);
            high = fmaxf(high, x[i]);
        }
        if (n) {
            tmk_json_put_float(&item, "min", low);
            tmk_json_put_float(&item, "max", high);
        }
    }
    tmk_json_put_child(to, param->name, &item);
}

enum tmk_status tmk_relay_companion_text(const struct tmk_export_job *job,
                                         const struct tmk_relay_params *params,
                                         const struct tmk_quantized_graph *quantized,
                                         struct tmk_text *out, struct tmk_diag *diag) {
    const struct tmk_graph *graph = quantized ? quantized->graph : job->graph;
    struct tmk_json_out all = tmk_json_new_object(), entries = tmk_json_new_object();
    struct tmk_map by_name = {0};
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (graph->values[i]->kind == TMK_VALUE_INITIALIZER)
            all.failed |= !tmk_map_put(&by_name, graph->values[i]->name, graph->values[i]);
    tmk_json_put_text(&all, "format", "tidemark-relay-params");
    tmk_json_put_text(&all, "version", "1.0");
    put_model(&all, job->encodings);
    for (uint32_t i = 0; i < params->n; i++) {
        const struct tmk_value *value = origin_of(&by_name, &params->items[i]);
        const struct meaning m = meaning_of(job, quantized, value, &params->items[i]);
        put_param(&entries, &params->items[i], &m);
    }
    tmk_json_put_child(&all, "params", &entries);
    tmk_map_finish(&by_name);
    return finish_text(&all, out, diag);
}
