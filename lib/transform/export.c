/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings, a model perhaps, names perhaps: everything that a format's row is handed. */
#include <tidemark/export.h>
#include <tidemark/guess.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/json.h"
#include "calib/target.h"
#include "export/exporter.h"
#include "graph/graph.h"
#include "graph/rewrite.h"
#include "ops/ops.h"
#include "relay/relay.h"
#include "transform/formats.h"
#include "transform/model.h"

bool tmk_export_format(size_t i, struct tmk_export_format *out) {
    size_t n = 0;
    while (tmk_exporter_list()[n])
        n++;
    if (i >= n)
        return false;
    const struct tmk_exporter *row = tmk_exporter_list()[i];
    *out = (struct tmk_export_format){.name = row->name,
                                      .endings = row->endings,
                                      .consumer = row->consumer,
                                      .settings = row->settings,
                                      .writes_model = row->writes_model,
                                      .needs_model = row->needs_graph,
                                      .needs_template = row->needs_template};
    return true;
}

/* ---- what was asked for ---- */

static enum tmk_status find_row(const char *name, const struct tmk_exporter **out,
                                struct tmk_diag *diag) {
    struct tmk_known known = {.guess.wanted = name};
    *out = tmk_exporter_find(name);
    if (*out)
        return TMK_OK;
    for (size_t i = 0; tmk_exporter_list()[i]; i++)
        tmk_known_add(&known, tmk_exporter_list()[i]->name);
    return tmk_fail(diag, TMK_ARGUMENT, "there is no format '%s'%s; there are %s", name,
                    known.meant, known.names);
}

/* The row's settings are words that begin with "KEY=". */
static bool knows_setting(const struct tmk_exporter *row, const char *setting) {
    const char *equals = strchr(setting, '=');
    size_t len = equals ? (size_t)(equals - setting) + 1 : 0;
    if (len < 2)
        return false;
    for (const char *word = row->settings; *word; word += strcspn(word, " "), word += *word == ' ')
        if (strncmp(word, setting, len) == 0)
            return true;
    return false;
}

static enum tmk_status check_request(const struct tmk_exporter *row,
                                     const struct tmk_export_options *options,
                                     const struct tmk_model *model, struct tmk_diag *diag) {
    for (size_t i = 0; i < options->n_settings; i++)
        if (!knows_setting(row, options->settings[i]))
            return tmk_fail(diag, TMK_ARGUMENT, "'%s' is no setting of %s; %s%s",
                            options->settings[i], row->name,
                            row->settings[0] ? "it has " : "it has none", row->settings);
    if (row->needs_graph && !model)
        return tmk_fail(diag, TMK_ARGUMENT, "%s needs the model that was profiled: --model",
                        row->name);
    if (row->needs_template && !options->template_file)
        return tmk_fail(diag, TMK_ARGUMENT,
                        "%s needs a template: the consumer's own file, whose numbers it changes",
                        row->name);
    return tmk_check_ending(options->path, row->endings, diag);
}

/* ---- the model ---- */

static enum tmk_status check_value(const struct tmk_by_id *values, uint32_t id,
                                   uint64_t fingerprint, const char *name, const char *file,
                                   struct tmk_diag *diag) {
    const struct tmk_value *value = tmk_by_id_get(values, id);
    if (!value)
        return tmk_fail(diag, TMK_MISMATCH, "it has no value p%u, '%s' of the encodings' model %s",
                        id, name, file);
    if (value->fingerprint != fingerprint)
        return tmk_fail(diag, TMK_MISMATCH,
                        "p%u is '%s', computed otherwise (%016" PRIx64 ") than '%s' (%016" PRIx64
                        ") of the encodings' model %s",
                        id, value->name, value->fingerprint, name, fingerprint, file);
    return TMK_OK;
}

static enum tmk_status check_model(const struct tmk_encodings *encodings, struct tmk_graph *graph,
                                   struct tmk_diag *diag) {
    struct tmk_by_id values;
    TMK_TRY(tmk_by_id_init(&values, graph, diag));
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; status == TMK_OK && i < encodings->n_items; i++) {
        const struct tmk_encoding *e = &encodings->items[i];
        status = check_value(&values, e->id, e->fingerprint, e->name, encodings->model.file, diag);
    }
    tmk_by_id_finish(&values);
    if (status == TMK_OK && tmk_graph_fingerprint(graph) != encodings->model.fingerprint)
        status = tmk_fail(diag, TMK_MISMATCH,
                          "it computes its outputs otherwise (%016" PRIx64
                          ") than the encodings' model %s (%016" PRIx64 ")",
                          tmk_graph_fingerprint(graph), encodings->model.file,
                          encodings->model.fingerprint);
    return status;
}

/* An equal network in another file may have other weights. */
static void compare_files(const struct tmk_export_job *job, const struct tmk_model *model) {
    const char *profiled = job->encodings->model.sha256;
    if (profiled[0] && !tmk_model_is_profiled(model, profiled))
        tmk_export_remark(job,
                          "%s is not the file that was profiled (%s): the same network, perhaps "
                          "with other weights",
                          model->path, job->encodings->model.file);
}

/* ---- all together ---- */

static enum tmk_status write_in_c_locale(const struct tmk_exporter *row,
                                         const struct tmk_export_job *job, struct tmk_diag *diag) {
    locale_t saved[2];
    TMK_TRY(tmk_locale_begin(saved, diag));
    enum tmk_status status = tmk_export_run(row, job, diag);
    tmk_locale_end(saved);
    return status;
}

/* The text of a Relay model, for formats that add to it. */
struct relay_text {
    struct tmk_relay_module *module;
    struct tmk_relay_params *params;
    struct tmk_graph *graph; /* that its expressions know the values of */
};

static enum tmk_status open_relay_text(const struct tmk_exporter *row,
                                       const struct tmk_model *model, struct relay_text *out,
                                       struct tmk_diag *diag) {
    if (!model || !row->wants_relay || strcmp(model->format, "relay") != 0)
        return TMK_OK;
    return tmk_relay_open(model->path, model->params, true, &out->module, &out->params, &out->graph,
                          diag);
}

/* ---- for a target ---- */

static uint32_t id_of(const struct tmk_value *value) {
    return value && value->profile_id >= 0 ? (uint32_t)value->profile_id : UINT32_MAX;
}

static bool is_depthwise(const struct tmk_node *node) {
    const struct tmk_value *weight = node->n_inputs > 1 ? node->inputs[1] : NULL;
    const struct tmk_shape *shape = weight ? &weight->type.shape : NULL;
    return tmk_node_is(node, TMK_DOMAIN_ONNX, "Conv") && tmk_node_int(node, "group", 1) > 1 &&
           shape && weight->type.has_shape && shape->rank > 2 && shape->dim[1] == 1;
}

static enum tmk_status check_for_target(struct tmk_target_check *check, const struct tmk_node *node,
                                        struct tmk_arena *arena, struct tmk_diag *diag) {
    char key[24] = "";
    uint32_t *ids = tmk_arena_array(arena, (size_t)node->n_inputs + node->n_outputs, sizeof *ids);
    TMK_TRY_ALLOC(ids, diag);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct tmk_value *x = node->inputs[i];
        const bool reads =
            x && (!tmk_value_constant(x) || tmk_input_has_codes(tmk_node_traits(node), i));
        ids[i] = reads ? id_of(x) : UINT32_MAX;
    }
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        ids[node->n_inputs + i] = id_of(node->outputs[i]);
        if (!*key && node->outputs[i])
            snprintf(key, sizeof key, "p%" PRId64, node->outputs[i]->profile_id);
    }
    const struct tmk_target_node seen = {.op = node->op,
                                         .name = *node->name ? node->name : key,
                                         .inputs = ids,
                                         .outputs = ids + node->n_inputs,
                                         .n_inputs = node->n_inputs,
                                         .n_outputs = node->n_outputs,
                                         .depthwise = is_depthwise(node)};
    tmk_target_check_node(check, &seen);
    return TMK_OK;
}

/* TMK_MISMATCH, with the first finding and their number, where the encodings use what the target's
 * table does not allow. graph NULL: only types and granularity are compared. */
static enum tmk_status check_target(const struct tmk_target *target,
                                    const struct tmk_encodings *encodings,
                                    const struct tmk_graph *graph, struct tmk_diag *diag) {
    char first[TMK_FINDING_SIZE] = "";
    struct tmk_target_check check = {target, encodings, tmk_target_keep_first, first, 0};
    struct tmk_arena arena = {0};
    enum tmk_status status = TMK_OK;
    if (!graph)
        tmk_target_check_types(&check);
    for (const struct tmk_node *node = graph ? graph->first : NULL; status == TMK_OK && node;
         node = node->next)
        status = check_for_target(&check, node, &arena, diag);
    tmk_arena_finish(&arena);
    if (status == TMK_OK && check.found)
        status = tmk_fail(diag, TMK_MISMATCH,
                          "%s (%" PRIu32 " such findings); nothing was written: calibrate with "
                          "--target %s, or export without it",
                          first, check.found, target->name);
    return status;
}

static enum tmk_status export_encodings(const struct tmk_encodings *encodings,
                                        const struct tmk_model *model,
                                        const struct tmk_export_options *options,
                                        struct tmk_diag *diag) {
    const struct tmk_exporter *row = NULL;
    struct tmk_export_names names = {0};
    struct tmk_graph *graph = NULL;
    struct relay_text relay = {0};
    TMK_TRY(find_row(options->format, &row, diag));
    TMK_TRY(check_request(row, options, model, diag));
    if (options->names)
        TMK_TRY(tmk_export_names_read(options->names, encodings, &names, diag));
    names.keep = options->keep_names;
    enum tmk_status status = TMK_OK;
    if (model) {
        status = tmk_original(model, &graph, diag);
        TMK_THEN(status, check_model(encodings, graph, diag));
        status = tmk_in(diag, status, "%s", model->path);
    }
    if (status == TMK_OK && options->target)
        status = check_target(options->target, encodings, graph, diag);
    TMK_THEN(status, open_relay_text(row, model, &relay, diag));
    const struct tmk_export_job job = {
        .encodings = encodings,
        .graph = graph,
        .relay = relay.module,
        .relay_params = relay.params,
        .relay_params_path = model ? model->params : NULL,
        .path = options->path,
        .template = options->template_file,
        .names = options->names ? &names : NULL,
        .settings = options->settings,
        .n_settings = options->n_settings,
        .skip = options->skip,
        .remark = options->remark,
        .context = options->context,
    };
    if (status == TMK_OK && model)
        compare_files(&job, model);
    if (status == TMK_OK && names.strangers)
        tmk_export_remark(&job, "%s: %u of its keys are no value of the encodings, '%s' among them",
                          options->names, names.strangers, names.stranger ? names.stranger : "?");
    TMK_THEN(status, write_in_c_locale(row, &job, diag));
    if (status == TMK_UNSUPPORTED && model &&
        !options->template_file) /* the format cannot express something of the model */
        status = tmk_in(diag, status, "%s", model->path);
    tmk_relay_module_destroy(&relay.module);
    tmk_relay_params_destroy(&relay.params);
    tmk_graph_destroy(&relay.graph);
    tmk_graph_destroy(&graph);
    tmk_export_names_finish(&names);
    return status;
}

enum tmk_status tmk_export(const struct tmk_encodings *encodings, const struct tmk_model *model,
                           const struct tmk_export_options *options, struct tmk_diag *diag) {
    tmk_inputs_begin();
    enum tmk_status status = export_encodings(encodings, model, options, diag);
    tmk_inputs_end();
    return status;
}
