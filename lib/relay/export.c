/* SPDX-License-Identifier: Apache-2.0 */
/* relay: the network as Relay text, with what is to be known of each edge in the text itself and
 * next to it; or quantized, as integers.
 *
 * OUT.relay, OUT.edges.json (the edges, by profile ID and by name), OUT.params and OUT.params.json
 * (what each of its entries is). docs/relay.md describes them. */
#include "relay/export.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/map.h"
#include "base/text.h"
#include "calib/encodings.h"
#include "export/rows.h"
#include "ops/ops.h"
#include "relay/ast.h"
#include "relay/builder.h"
#include "relay/relay.h"

/* ---- the files beside a module ---- */

/* What a params dictionary and a text do not have: tables of the edges and of the params' entries.
 */

/* `path` with its ending replaced ("out.relay" -> "out.params.json"); to be freed. NULL when memory
 * ran out. */
static char *sibling_path(const char *path, const char *ending) {
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

/* OUT.edges.json: everything of the edges. */
static enum tmk_status edges_text(const struct tmk_export_job *job,
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

/* OUT.params.json: what each entry of the params file is. `quantized` (may be NULL) is the integer
 * form that they are of, with the names of the originals. */
static enum tmk_status companion_text(const struct tmk_export_job *job,
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

/* ---- the files ---- */

struct files {
    struct tmk_relay_module *module;       /* that is written */
    const struct tmk_relay_params *params; /* the same */
    const struct tmk_quantized_graph *quantized;
    struct tmk_relay_edges edges;
    const char *form;
};

static bool is_same_file(const char *a, const char *b) {
    struct stat sa, sb;
    if (strcmp(a, b) == 0)
        return true;
    return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
           sa.st_ino == sb.st_ino;
}

/* Codes in the place of the only floats could not be taken back. */
static enum tmk_status check_path(const struct tmk_export_job *job, const char *params_path,
                                  struct tmk_diag *diag) {
    if (strcmp(params_path, job->path) == 0)
        return tmk_fail(diag, TMK_ARGUMENT, "%s: the text and its params would be one file",
                        job->path);
    if (job->relay_params_path && is_same_file(params_path, job->relay_params_path))
        return tmk_fail(diag, TMK_ARGUMENT,
                        "%s holds the model's own weights: give the text another name",
                        params_path);
    return TMK_OK;
}

enum { TEXT, PARAMS, COMPANION, EDGES, FILES };

static enum tmk_status print_all(const struct tmk_export_job *job, const struct files *files,
                                 struct tmk_text texts[FILES], struct tmk_diag *diag) {
    TMK_TRY(tmk_relay_print(files->module, &texts[TEXT], diag));
    TMK_TRY(tmk_relay_params_print(files->params, &texts[PARAMS], diag));
    TMK_TRY(companion_text(job, files->params, files->quantized, &texts[COMPANION], diag));
    TMK_TRY(edges_text(job, &files->edges, files->form, &texts[EDGES], diag));
    for (int i = 0; i < FILES; i++)
        if (texts[i].failed)
            return tmk_nomem(diag);
    return TMK_OK;
}

static enum tmk_status write_files(const struct tmk_export_job *job, const struct files *files,
                                   struct tmk_diag *diag) {
    static const char *const endings[FILES] = {"", ".params", ".params.json", ".edges.json"};
    struct tmk_text texts[FILES] = {{0}};
    struct tmk_file_content contents[FILES];
    char *paths[FILES] = {0};
    enum tmk_status status = TMK_OK;
    for (int i = 0; status == TMK_OK && i < FILES; i++) {
        paths[i] = i == TEXT ? strdup(job->path) : sibling_path(job->path, endings[i]);
        status = paths[i] ? TMK_OK : tmk_nomem(diag);
    }
    TMK_THEN(status, check_path(job, paths[PARAMS], diag));
    TMK_THEN(status, print_all(job, files, texts, diag));
    for (int i = 0; i < FILES; i++)
        contents[i] = (struct tmk_file_content){paths[i], texts[i].data, texts[i].len};
    TMK_THEN(status, tmk_files_write(contents, FILES, diag));
    for (int i = 0; i < FILES; i++) {
        free(paths[i]);
        tmk_text_finish(&texts[i]);
    }
    return status;
}

static void count_edges(const struct tmk_export_job *job, const struct tmk_relay_edges *edges) {
    const struct tmk_encodings *encodings = job->encodings;
    for (uint32_t i = 0; i < encodings->n_items; i++) {
        bool there = false;
        for (size_t k = 0; !there && k < edges->n; k++)
            there = edges->items[k].encoding == &encodings->items[i];
        if (there)
            tmk_export_wrote(job, &encodings->items[i]);
        else
            tmk_export_skip(job, &encodings->items[i],
                            "the text has no edge for it: it was computed beforehand, or stands in "
                            "an inner function");
    }
}

static enum tmk_status write_annotated(const struct tmk_export_job *job, struct tmk_diag *diag) {
    static const struct tmk_relay_params none = {0};
    struct tmk_relay_module *raised = NULL;
    struct tmk_relay_params *params = NULL;
    struct files files = {.form = "annotated"};
    const char *weights = tmk_export_setting(job, "weights", "float");
    struct tmk_relay_coding coding = {.diag = diag};
    const bool codes = strcmp(weights, "codes") == 0;
    if (!codes && strcmp(weights, "float") != 0)
        return tmk_fail(diag, TMK_ARGUMENT, "weights=%s: there are float and codes", weights);
    if (!job->relay)
        TMK_TRY(tmk_relay_export(job->graph, NULL, &raised, &params, diag));
    files.params = params ? params : job->relay_params ? job->relay_params : &none;
    coding.from = files.params;
    files.module = raised ? raised : job->relay;
    enum tmk_status status = codes ? tmk_relay_params_create(&coding.to, diag) : TMK_OK;
    TMK_THEN(status,
             tmk_relay_annotate(job, files.module, codes ? &coding : NULL, &files.edges, diag));
    if (codes)
        files.params = coding.to;
    if (status == TMK_OK)
        count_edges(job, &files.edges);
    TMK_THEN(status, write_files(job, &files, diag));
    tmk_relay_edges_finish(&files.edges);
    tmk_relay_module_destroy(&raised);
    tmk_relay_params_destroy(&params);
    tmk_relay_params_destroy(&coding.to);
    return status;
}

/* ---- integers ---- */

static void pass_remark(void *context, const char *text) {
    tmk_export_remark(context, "%s", text);
}

static bool rounding_of(const struct tmk_export_job *job, enum tmk_rounding *out) {
    *out = job->encodings->rounding;
    const char *wanted = tmk_export_setting(job, "rounding", NULL);
    return !wanted || tmk_rounding_by_name(wanted, out);
}

static const char *spell_value(const struct tmk_ptrmap *names, const struct tmk_value *value,
                               struct tmk_arena *arena) {
    const char *name = value ? tmk_ptrmap_get(names, value) : NULL;
    const char *text = name ? tmk_arena_printf(arena, "%%%s", name) : NULL;
    return text ? text : "";
}

static enum tmk_status find_edges(const struct tmk_export_job *job,
                                  const struct tmk_relay_module *module,
                                  const struct tmk_quantized_graph *quantized,
                                  struct tmk_arena *arena, struct tmk_relay_edges *out,
                                  struct tmk_diag *diag) {
    struct tmk_ptrmap names = {0};
    /* Where the values of the integer graph stand in the text: "%5". */
    const struct tmk_relay_function *main_fn = tmk_relay_function(module, "main");
    bool fits = true;
    for (uint32_t i = 0; fits && i < main_fn->body.n; i++) {
        const struct tmk_relay_binding *binding = main_fn->body.bindings[i];
        if (binding->expr->value)
            fits = tmk_ptrmap_put(&names, binding->expr->value, (void *)(uintptr_t)binding->name);
    }
    for (uint32_t i = 0; fits && i < quantized->graph->n_values; i++) {
        const struct tmk_value *value = quantized->graph->values[i];
        const char *name =
            value->kind == TMK_VALUE_RESULT ? "" : tmk_relay_escape(arena, value->name);
        fits = name && (!name[0] || tmk_ptrmap_put(&names, value, (void *)(uintptr_t)name));
    }
    enum tmk_status status = fits ? TMK_OK : tmk_nomem(diag);
    out->items = calloc(quantized->n + 1u, sizeof *out->items);
    if (status == TMK_OK && !out->items)
        status = tmk_nomem(diag);
    for (uint32_t i = 0; status == TMK_OK && i < quantized->n; i++) {
        const struct tmk_quantized_value *value = &quantized->values[i];
        const struct tmk_encoding *e = value->codes ? value->encoding : NULL;
        const struct tmk_left_float *left = tmk_relay_left(job->encodings, value->id);
        if (!e && !left)
            continue;
        out->items[out->n++] = (struct tmk_relay_edge){
            .id = value->id,
            .name = e ? e->name : left->name,
            .spelled = spell_value(&names, e ? value->codes : value->real, arena),
            .kind = tmk_relay_kind(job->graph, value->id, e),
            .encoding = e,
            .left = left,
        };
    }
    tmk_ptrmap_finish(&names);
    return status;
}

static enum tmk_status write_integer(const struct tmk_export_job *job, struct tmk_diag *diag) {
    struct tmk_quantize_options options = {
        .integer = true, .pow2 = job->encodings->pow2_requant, .remark = pass_remark};
    const struct tmk_relay_export_options qnn = {
        .qnn = strcmp(tmk_export_setting(job, "quantize", "exact"), "qnn") == 0};
    struct tmk_quantized_graph quantized = {0};
    struct tmk_relay_params *params = NULL;
    struct files files = {.form = "integer", .quantized = &quantized};
    struct tmk_arena arena = {0};
    options.context = (void *)(uintptr_t)job;
    if (!rounding_of(job, &options.rounding))
        return tmk_fail(diag, TMK_ARGUMENT, "rounding=%s: there is no such rounding",
                        tmk_export_setting(job, "rounding", ""));
    TMK_TRY(tmk_quantize_graph(job->graph, job->encodings, &options, &quantized, diag));
    enum tmk_status status = tmk_relay_keep_names(job->graph, job->encodings, &quantized, diag);
    TMK_THEN(status, tmk_relay_export(quantized.graph, &qnn, &files.module, &params, diag));
    files.params = params;
    TMK_THEN(status, find_edges(job, files.module, &quantized, &arena, &files.edges, diag));
    if (status == TMK_OK)
        count_edges(job, &files.edges);
    TMK_THEN(status, write_files(job, &files, diag));
    if (status == TMK_OK) {
        for (const struct tmk_node *node = quantized.graph->first; node; node = node->next)
            if (tmk_op_is_product(node))
                tmk_export_remark(job, "%s stays float: it is not quantized on all sides",
                                  TMK_NODE_LABEL(node));
    }
    tmk_relay_edges_finish(&files.edges);
    tmk_relay_module_destroy(&files.module);
    tmk_relay_params_destroy(&params);
    tmk_quantized_finish(&quantized);
    tmk_arena_finish(&arena);
    return status;
}

static enum tmk_status write_relay(const struct tmk_export_job *job, struct tmk_diag *diag) {
    const char *form = tmk_export_setting(job, "form", "annotated");
    if (job->names)
        tmk_export_remark(job, "relay: the text keeps its own names; the map is not looked at");
    if (strcmp(form, "annotated") == 0)
        return write_annotated(job, diag);
    if (strcmp(form, "integer") == 0)
        return write_integer(job, diag);
    return tmk_fail(diag, TMK_ARGUMENT, "form=%s: there are annotated and integer", form);
}

const struct tmk_exporter tmk_exporter_relay = {
    .name = "relay",
    .endings = "relay txt",
    .writes_model = true,
    .consumer = "TVM 0.7 to 0.19 and back-ends built on Relay: annotated or quantized text, params",
    .settings =
        "form=annotated|integer weights=float|codes rounding=single_half_up|single_half_away "
        "quantize=exact|qnn",
    .needs_graph = true,
    .wants_relay = true,
    .write = write_relay,
};
