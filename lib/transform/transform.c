/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over a model: observers are taken out, the passes run, observers go back on where their
 * values went, and the file is written and read again, so that the lineage describes the file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/guess.h>
#include <tidemark/profile.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/map.h"
#include "base/text.h"
#include "graph/print.h"
#include "model/onnx.h"
#include "pass/instrument.h"
#include "pass/pass.h"
#include "relay/relay.h"
#include "tmk_version.h"
#include "transform/model.h"

bool tmk_transform_pass(size_t i, const char **name, const char **help) {
    size_t n = 0;
    while (tmk_pass_list()[n])
        n++;
    if (i >= n)
        return false;
    *name = tmk_pass_list()[i]->name;
    *help = tmk_pass_list()[i]->help;
    return true;
}

bool tmk_is_relay_path(const char *path) {
    return tmk_ends_in(path, ".relay") && strcmp(path, ".relay") != 0;
}

struct transforming {
    const struct tmk_transform_options *options;
    struct tmk_graph *original; /* without observers */
    struct tmk_graph *graph;    /* that is transformed */
    struct tmk_lineage *lineage;
    const struct tmk_pass **passes;
    size_t n_passes;
    struct tmk_watched watched;
    struct tmk_channel_ranges *ranges; /* [n_ranges] by ID */
    uint32_t n_ranges;
    float *magnitudes;                /* that the ranges show */
    struct tmk_relay_written written; /* of Relay */
    struct tmk_transform_report report;
    bool failed; /* to print */
    struct tmk_diag *diag;
};

/* ---- which passes ---- */

/* Room is for every name to be "all". */
static enum tmk_status choose_passes(struct transforming *t, bool relay) {
    const struct tmk_pass *const *all = tmk_pass_list();
    size_t n = 1;
    while (all[n])
        n++;
    t->passes = calloc(t->options->n_passes * n + 1, sizeof(struct tmk_pass *));
    TMK_TRY_ALLOC(t->passes, t->diag);
    for (size_t i = 0; i < t->options->n_passes; i++) {
        const char *name = t->options->passes[i];
        if (strcmp(name, "all") == 0) {
            for (size_t k = 0; all[k]; k++)
                if (!(relay && all[k]->only_onnx) &&
                    !(all[k]->needs_ranges && !t->options->profile))
                    t->passes[t->n_passes++] = all[k];
            continue;
        }
        const struct tmk_pass *pass = tmk_pass_find(name);
        if (!pass) {
            struct tmk_known known = {.guess.wanted = name};
            for (size_t j = 0; all[j]; j++)
                tmk_known_add(&known, all[j]->name);
            return tmk_fail(t->diag, TMK_ARGUMENT,
                            "there is no pass '%s'%s; there are %s, all and none", name,
                            known.meant, known.names);
        }
        if (pass->needs_ranges && !t->options->profile)
            return tmk_fail(t->diag, TMK_ARGUMENT, "the pass %s needs a profile of the model",
                            name);
        t->passes[t->n_passes++] = pass;
    }
    return TMK_OK;
}

/* ---- running ---- */

static void print_after(void *context, const char *pass, bool progress, struct tmk_graph *graph,
                        const struct tmk_lineage *lineage) {
    struct transforming *t = context;
    struct tmk_text text = {0};
    tmk_graph_print(graph, TMK_INLINE_LIMIT, lineage, &text);
    t->failed = t->failed || text.failed;
    if (!text.failed)
        t->options->after(t->options->context, pass, progress, text.data);
    tmk_text_finish(&text);
}

static uint32_t count_nodes(const struct tmk_graph *graph) {
    uint32_t n = 0;
    for (const struct tmk_graph *g = graph; g; g = tmk_graph_next(graph, g))
        n += g->n_nodes;
    return n;
}

/* The largest magnitude of each channel, where the profile has channels. */
static enum tmk_status read_ranges(struct transforming *t) {
    const struct tmk_profile *profile = t->options->profile;
    size_t n = 0, used = 0;
    if (!profile)
        return TMK_OK;
    if (profile->model.fingerprint != tmk_graph_fingerprint(t->original))
        return tmk_fail(t->diag, TMK_MISMATCH, "the profile is of another network, %s",
                        profile->model.file);
    struct tmk_summary *summaries = calloc(profile->n_tensors + (size_t)1, sizeof *summaries);
    for (uint32_t i = 0; summaries && i < profile->n_tensors; i++) {
        if (profile->tensors[i].stats)
            tmk_stats_quick_summary(profile->tensors[i].stats, &summaries[i]);
        n += summaries[i].channels;
        t->n_ranges = profile->tensors[i].id + 1;
    }
    t->ranges = calloc(t->n_ranges + (size_t)1, sizeof *t->ranges);
    t->magnitudes = calloc(n + 1, sizeof *t->magnitudes);
    for (uint32_t i = 0; summaries && t->ranges && t->magnitudes && i < profile->n_tensors; i++) {
        const struct tmk_summary *s = &summaries[i];
        if (!s->channels)
            continue;
        t->ranges[profile->tensors[i].id] = (struct tmk_channel_ranges){
            t->magnitudes + used, (uint32_t)s->channels, s->channel_axis};
        for (size_t c = 0; c < s->channels; c++) {
            const bool some = s->channel_min[c] <= s->channel_max[c];
            t->magnitudes[used++] = some ? fmaxf(-s->channel_min[c], s->channel_max[c]) : 0;
        }
    }
    const bool made = summaries && t->ranges && t->magnitudes;
    free(summaries);
    return made ? TMK_OK : tmk_nomem(t->diag);
}

static enum tmk_status run_passes(struct transforming *t) {
    TMK_TRY(tmk_check_names(t->original, t->diag));
    TMK_TRY(read_ranges(t));
    const struct tmk_pass_options options = {
        .pinned = t->options->barrier ? t->watched.ids : NULL,
        .n_pinned = t->options->barrier ? t->watched.n : 0,
        .ranges = t->ranges,
        .n_ranges = t->n_ranges,
        .after = t->options->after ? print_after : NULL,
        .context = t,
    };
    TMK_TRY(tmk_graph_clone(t->original, &t->graph, t->diag));
    TMK_TRY(tmk_lineage_create(t->graph, &t->lineage, t->diag));
    t->report.nodes_before = count_nodes(t->graph);
    TMK_TRY(tmk_passes_run(t->graph, t->lineage, t->passes, t->n_passes, &options,
                           &t->report.progress, t->diag));
    t->report.nodes_after = count_nodes(t->graph);
    return t->failed ? tmk_nomem(t->diag) : TMK_OK;
}

/* ---- the file, and the record ---- */

/* Passes were given shapes that are evidence only; a file's reader would share memory by them. What
 * the original declares goes to the file, of other results their element type. */
static enum tmk_status declare_types(struct tmk_graph *graph, const struct tmk_by_id *original,
                                     struct tmk_diag *diag) {
    for (uint32_t i = 0; i < graph->n_values; i++) {
        struct tmk_value *value = graph->values[i];
        if (!tmk_value_alive(value) || value->kind != TMK_VALUE_RESULT ||
            (value->n_graph_outputs && !graph->parent))
            continue;
        struct tmk_type type = value->type;
        type.has_shape = false;
        if (value->profile_id >= 0)
            type = original->values[value->profile_id]->type;
        TMK_TRY(tmk_value_set_type(value, &type, diag));
    }
    return TMK_OK;
}

static enum tmk_status describe_models(struct transforming *t, const struct tmk_model *model,
                                       const char *path, const char *sha256,
                                       const struct tmk_graph *file,
                                       struct tmk_lineage_record *record) {
    record->producer = tmk_lineage_record_text(record, TMK_VERSION);
    record->original = (struct tmk_lineage_model){
        tmk_lineage_record_text(record, tmk_base_name(model->path)),
        tmk_lineage_record_text(record, model->sha256), tmk_graph_fingerprint(t->original)};
    record->transformed = (struct tmk_lineage_model){
        tmk_lineage_record_text(record, tmk_base_name(path)),
        tmk_lineage_record_text(record, sha256), tmk_graph_fingerprint(file)};
    TMK_TRY_ALLOC(record->producer && record->original.file && record->original.sha256 &&
                      record->transformed.file && record->transformed.sha256,
                  t->diag);
    for (size_t i = 0; i < t->n_passes; i++)
        TMK_TRY(tmk_lineage_record_add_pass(record, t->passes[i]->name, t->diag));
    return TMK_OK;
}

/* The graph that the file reads as. */
static enum tmk_status read_onnx(struct transforming *t, const char *path, struct tmk_graph **file,
                                 char sha256[65]) {
    struct tmk_model *written = NULL;
    enum tmk_status status = tmk_model_open(path, false, &written, t->diag);
    TMK_THEN(status, tmk_original(written, file, t->diag));
    if (status == TMK_OK)
        memcpy(sha256, written->sha256, sizeof written->sha256);
    tmk_model_close(&written);
    return status;
}

/* The same, and the values of the transformed graph in it. */
static enum tmk_status read_written_relay(struct transforming *t, const char *path,
                                          struct tmk_graph **file, struct tmk_ptrmap *matches,
                                          char sha256[65]) {
    struct tmk_relay_module *module = NULL;
    struct tmk_relay_params *params = NULL;
    enum tmk_status status =
        tmk_relay_open(path, t->options->params_path, false, &module, &params, file, t->diag);
    TMK_THEN(status, tmk_relay_match(&t->written, module, *file, matches, t->diag));
    TMK_THEN(status, tmk_model_sha256(path, t->options->params_path, sha256, t->diag));
    tmk_relay_module_destroy(&module);
    tmk_relay_params_destroy(&params);
    return status;
}

static enum tmk_status make_lineage_record(struct transforming *t, const struct tmk_model *model,
                                           const char *path, struct tmk_lineage_record **out) {
    const bool relay = tmk_is_relay_path(path);
    struct tmk_graph *file = NULL;
    struct tmk_ptrmap matches = {0};
    struct tmk_lineage_record *record = NULL;
    char sha256[65];
    enum tmk_status status = relay ? read_written_relay(t, path, &file, &matches, sha256)
                                   : read_onnx(t, path, &file, sha256);
    if (status == TMK_OK) {
        const struct tmk_lineage_ends ends = {.original = t->original,
                                              .graph = t->graph,
                                              .file = file,
                                              .lineage = t->lineage,
                                              .matches = relay ? &matches : NULL,
                                              .constants = relay ? &t->written.constants : NULL};
        status = tmk_in(t->diag, tmk_lineage_record_of(&ends, &record, t->diag), "%s", path);
    }
    TMK_THEN(status, describe_models(t, model, path, sha256, file, record));
    if (status == TMK_OK)
        *out = record;
    else
        tmk_lineage_record_destroy(&record);
    tmk_graph_destroy(&file);
    tmk_ptrmap_finish(&matches);
    return status == TMK_READ ? TMK_MACHINE : status; /* it was we who wrote it */
}

/* The file has the observers, the graph is left without. */
static enum tmk_status save_model(struct transforming *t, const char *path) {
    if (tmk_path_is_stream(path))
        return tmk_fail(t->diag, TMK_ARGUMENT,
                        "%s: is no regular file; the lineage describes the model as it is read "
                        "from its file",
                        path);
    struct tmk_by_id original;
    TMK_TRY(tmk_by_id_init(&original, t->original, t->diag));
    enum tmk_status status = TMK_OK;
    for (struct tmk_graph *g = t->graph; g && status == TMK_OK; g = tmk_graph_next(t->graph, g))
        status = declare_types(g, &original, t->diag);
    tmk_by_id_finish(&original);
    TMK_TRY(status);
    if (tmk_is_relay_path(path))
        return tmk_relay_save(t->graph, path, t->options->params_path, &t->written, t->diag);
    if (t->options->params_path)
        return tmk_fail(t->diag, TMK_ARGUMENT, "%s is not Relay: its weights stand in it", path);
    struct tmk_observer_place *list = calloc(t->watched.n + 1u, sizeof *list);
    uint32_t n = 0;
    TMK_TRY_ALLOC(list, t->diag);
    for (uint32_t i = 0; i < t->watched.n; i++) {
        const struct tmk_origin *origin = tmk_lineage_origin(t->lineage, t->watched.ids[i]);
        if (!origin->value || origin->fate == TMK_LINEAGE_ABSORBED)
            continue;
        /* a weight that nothing uses any more is not written */
        if (origin->value->kind == TMK_VALUE_INITIALIZER && !origin->value->n_uses &&
            !origin->value->n_graph_outputs)
            continue;
        bool same = origin->fate == TMK_LINEAGE_SAME;
        list[n++] =
            (struct tmk_observer_place){origin->value, origin->id, t->watched.kinds[i],
                                        same ? NULL : tmk_lineage_verdict_name(origin->fate)};
    }
    t->report.observers_after = n;
    status = n ? tmk_observe_values(t->graph, list, n, t->diag) : TMK_OK;
    free(list);
    TMK_TRY(status);
    TMK_TRY(tmk_graph_verify(t->graph, t->diag));
    TMK_TRY(tmk_onnx_save(t->graph, path, t->diag));
    return tmk_strip_observers(t->graph, NULL, t->diag);
}

enum tmk_status tmk_model_transform(struct tmk_model *model,
                                    const struct tmk_transform_options *options, const char *path,
                                    struct tmk_lineage_record **out,
                                    struct tmk_transform_report *report, struct tmk_diag *diag) {
    struct transforming t = {.options = options, .diag = diag};
    enum tmk_status status = choose_passes(&t, tmk_is_relay_path(path));
    TMK_THEN(status, tmk_original_watched(model, false, &t.original, &t.watched, diag));
    t.report.observers_before = t.watched.n;
    TMK_THEN(status, tmk_in(diag, run_passes(&t), "%s", model->path));
    TMK_THEN(status, save_model(&t, path));
    if (status == TMK_OK && out)
        status = make_lineage_record(&t, model, path, out);
    if (status == TMK_OK && report)
        *report = t.report;
    tmk_lineage_destroy(&t.lineage);
    tmk_graph_destroy(&t.graph);
    tmk_graph_destroy(&t.original);
    free(t.passes);
    free(t.ranges);
    free(t.magnitudes);
    tmk_watched_finish(&t.watched);
    tmk_relay_written_finish(&t.written);
    return status;
}
