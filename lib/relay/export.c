/* SPDX-License-Identifier: Apache-2.0 */
/* relay: the network as Relay text, with what is to be known of each edge in the text itself and
 * next to it; or quantized, as integers.
 *
 * OUT.relay, OUT.edges.json (the edges, by profile ID and by name), OUT.params and OUT.params.json
 * (what each of its entries is). docs/relay.md describes them. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/map.h"
#include "ops/ops.h"
#include "relay/ast.h"
#include "relay/builder.h"
#include "relay/export.h"
#include "relay/relay.h"

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
    TMK_TRY(
        tmk_relay_companion_text(job, files->params, files->quantized, &texts[COMPANION], diag));
    TMK_TRY(tmk_relay_edges_text(job, &files->edges, files->form, &texts[EDGES], diag));
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
        paths[i] = i == TEXT ? strdup(job->path) : tmk_relay_sibling(job->path, endings[i]);
        status = paths[i] ? TMK_OK : tmk_nomem(diag);
    }
    if (status == TMK_OK)
        status = check_path(job, paths[PARAMS], diag);
    if (status == TMK_OK)
        status = print_all(job, files, texts, diag);
    for (int i = 0; i < FILES; i++)
        contents[i] = (struct tmk_file_content){paths[i], texts[i].data, texts[i].len};
    if (status == TMK_OK)
        status = tmk_files_write(contents, FILES, diag);
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
    if (status == TMK_OK)
        status = tmk_relay_annotate(job, files.module, codes ? &coding : NULL, &files.edges, diag);
    if (codes)
        files.params = coding.to;
    if (status == TMK_OK)
        count_edges(job, &files.edges);
    if (status == TMK_OK)
        status = write_files(job, &files, diag);
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
    if (status == TMK_OK)
        status = tmk_relay_export(quantized.graph, &qnn, &files.module, &params, diag);
    files.params = params;
    if (status == TMK_OK)
        status = find_edges(job, files.module, &quantized, &arena, &files.edges, diag);
    if (status == TMK_OK)
        count_edges(job, &files.edges);
    if (status == TMK_OK)
        status = write_files(job, &files, diag);
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
