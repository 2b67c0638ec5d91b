/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a model, and writing it with observers. */
#include "transform/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <tidemark/guess.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "export/codes.h"
#include "graph/graph.h"
#include "graph/rewrite.h"
#include "model/onnx.h"
#include "ops/ops.h"
#include "plan/plan.h"
#include "tmk_version.h"
#include "transform/formats.h"

/* The numbers of a model's constants. */

enum { DEEPEST = 8 }; /* operators on constants behind each other */

struct constant_codes {
    bool looked_for;
    struct tmk_encoding encoding; /* n = 0: it has none */
};

struct tmk_constants {
    struct tmk_graph *graph; /* without observers */
    struct tmk_by_id by_id;
    struct tmk_tensor *made;      /* [by_id.n] those that were asked for */
    struct constant_codes *codes; /* [by_id.n] the same */
    struct tmk_arena arena;       /* of codes */
};

/* What initializers alone make; false: it is more than that. */
static bool compute_constant(const struct tmk_value *value, int depth, struct tmk_tensor *out) {
    const struct tmk_tensor *held = tmk_value_constant(value);
    const struct tmk_node *node = value->producer;
    if (held) {
        tmk_tensor_share(out, held);
        return true;
    }
    if (!node || depth == DEEPEST || node->n_outputs != 1 || !node->row ||
        (node->row->flags & TMK_OP_IMPURE))
        return false;
    struct tmk_tensor *operands = calloc(node->n_inputs + 1, sizeof *operands);
    const struct tmk_tensor **in = calloc(node->n_inputs + 1, sizeof *in);
    bool known = operands && in;
    for (uint32_t i = 0; known && i < node->n_inputs; i++) {
        known = !node->inputs[i] || compute_constant(node->inputs[i], depth + 1, &operands[i]);
        in[i] = node->inputs[i] ? &operands[i] : NULL;
    }
    known = known && tmk_op_run(node, in, out, NULL) == TMK_OK;
    for (uint32_t i = 0; operands && i < node->n_inputs; i++)
        tmk_tensor_finish(&operands[i]);
    free(in);
    free(operands);
    return known;
}

/* NULL is allowed. */
static void constants_destroy(struct tmk_constants **slot) {
    struct tmk_constants *constants = *slot;
    if (!constants)
        return;
    *slot = NULL;
    for (size_t i = 0; constants->made && i < constants->by_id.n; i++)
        tmk_tensor_finish(&constants->made[i]);
    free(constants->made);
    free(constants->codes);
    tmk_arena_finish(&constants->arena);
    tmk_by_id_finish(&constants->by_id);
    tmk_graph_destroy(&constants->graph);
    free(constants);
}

static struct tmk_constants *create_constants(const struct tmk_model *model) {
    struct tmk_constants *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    if (tmk_original(model, &made->graph, NULL) == TMK_OK &&
        tmk_codes_fold(made->graph, false, NULL) == TMK_OK &&
        tmk_by_id_init(&made->by_id, made->graph, NULL) == TMK_OK) {
        made->made = calloc(made->by_id.n + 1, sizeof *made->made);
        made->codes = calloc(made->by_id.n + 1, sizeof *made->codes);
    }
    if (!made->made || !made->codes)
        constants_destroy(&made);
    return made;
}

static const struct tmk_value *find_value(struct tmk_model *model, uint32_t id) {
    if (!model->constants)
        model->constants = create_constants(model);
    return model->constants ? tmk_by_id_get(&model->constants->by_id, id) : NULL;
}

const struct tmk_tensor *tmk_model_constant(void *of, uint32_t id) {
    struct tmk_model *model = of;
    const struct tmk_value *value = find_value(model, id);
    if (!value)
        return NULL;
    struct tmk_tensor *made = &model->constants->made[id];
    if (!made->data && !compute_constant(value, 0, made))
        return NULL;
    return made->kind == TMK_TYPE_TENSOR && made->dtype == TMK_FLOAT32 ? made : NULL;
}

static bool are_scales(const struct tmk_encoding *e) {
    for (uint32_t i = 0; i < e->n; i++)
        if (!(e->scale[i] > 0) || !isfinite(e->scale[i]))
            return false;
    return true;
}

const struct tmk_encoding *tmk_model_codes(void *of, uint32_t id) {
    struct tmk_model *model = of;
    const struct tmk_value *value = find_value(model, id);
    if (!value)
        return NULL;
    struct constant_codes *found = &model->constants->codes[id];
    if (!found->looked_for && tmk_codes_are_constant(value) &&
        (tmk_codes_encoding(value, &model->constants->arena, &found->encoding, NULL) != TMK_OK ||
         !are_scales(&found->encoding)))
        found->encoding.n = 0;
    found->looked_for = true;
    return found->encoding.n ? &found->encoding : NULL;
}

const char *tmk_version(void) {
    return TMK_VERSION;
}

/* The hash of both in hex, one after the other; out may be `first`. */
static enum tmk_status join_hashes(const char *first, const char *second, char out[TMK_SHA256_HEX],
                                   struct tmk_diag *diag) {
    struct tmk_sha256 *hash = tmk_sha256_create();
    TMK_TRY_ALLOC(hash, diag);
    tmk_sha256_update(hash, first, strlen(first));
    tmk_sha256_update(hash, second, strlen(second));
    tmk_sha256_finish(&hash, out);
    return TMK_OK;
}

enum tmk_status tmk_model_sha256(const char *path, const char *params, char hex[TMK_SHA256_HEX],
                                 struct tmk_diag *diag) {
    char of_params[TMK_SHA256_HEX];
    TMK_TRY(tmk_file_sha256(path, hex, diag));
    if (!params)
        return TMK_OK;
    TMK_TRY(tmk_file_sha256(params, of_params, diag));
    return join_hashes(hex, of_params, hex, diag);
}

const char *tmk_features(void) {
    return TMK_FEATURES;
}

enum tmk_status tmk_model_open(const char *path, bool keep_unknown, struct tmk_model **out,
                               struct tmk_diag *diag) {
    return tmk_model_open_params(path, NULL, keep_unknown, out, diag);
}

static enum tmk_status load_graph(const struct tmk_model_reader *reader,
                                  const struct tmk_model *model, bool keep_unknown, bool to_plan,
                                  struct tmk_graph **out, struct tmk_diag *diag) {
    return to_plan && reader->load_structure
               ? reader->load_structure(model->path, model->params, out, diag)
               : reader->load(model->path, model->params, keep_unknown, out, diag);
}

static enum tmk_status open_model_file(const char *path, const char *params, bool keep_unknown,
                                       bool to_plan, struct tmk_model **out,
                                       struct tmk_diag *diag) {
    const struct tmk_model_reader *reader = NULL;
    struct tmk_model *model = calloc(1, sizeof *model);
    TMK_TRY_ALLOC(model, diag);
    model->path = strdup(path);
    model->params = params ? strdup(params) : NULL;
    enum tmk_status status = model->path && (model->params || !params) ? TMK_OK : tmk_nomem(diag);
    if (status == TMK_OK && !to_plan)
        status = tmk_model_sha256(path, params, model->of_file, diag);
    TMK_THEN(status, tmk_model_reader_find(path, &reader, diag));
    TMK_THEN(status,
             tmk_explain_file_kind(
                 diag, load_graph(reader, model, keep_unknown, to_plan, &model->graph, diag), path,
                 TMK_FILE_MODEL));
    if (status == TMK_OK) {
        model->format = reader->name;
        memcpy(model->sha256, model->of_file, sizeof model->sha256);
    }
    if (status == TMK_OK && model->graph->external_hash[0])
        status = join_hashes(model->of_file, model->graph->external_hash, model->sha256, diag);
    if (status == TMK_OK)
        *out = model;
    else
        tmk_model_close(&model);
    return status;
}

enum tmk_status tmk_model_open_params(const char *path, const char *params, bool keep_unknown,
                                      struct tmk_model **out, struct tmk_diag *diag) {
    return open_model_file(path, params, keep_unknown, false, out, diag);
}

bool tmk_model_is_profiled(const struct tmk_model *model, const char *sha256) {
    return strcmp(model->sha256, sha256) == 0 || strcmp(model->of_file, sha256) == 0;
}

/* Is the model that was profiled in this folder ("": the current one; else it ends in a slash)? */
static enum tmk_status open_profiled(const struct tmk_profile *profile, const char *folder,
                                     size_t len, const char *params, struct tmk_model **out,
                                     struct tmk_diag *diag) {
    const char *name = tmk_base_name(profile->model.file);
    char sha256[TMK_SHA256_HEX];
    struct tmk_diag ignored = {0};
    char *joined;
    TMK_TRY_ALLOC(asprintf(&joined, "%.*s%s", (int)len, folder, name) >= 0, diag);
    enum tmk_status status = TMK_OK;
    if (*name && tmk_model_sha256(joined, params, sha256, &ignored) == TMK_OK) {
        const bool found = strcmp(sha256, profile->model.sha256) == 0;
        status = tmk_model_open_params(joined, params, true, out, found ? diag : &ignored);
        if (!found)
            status = TMK_OK; /* no model that was profiled */
        if (*out && !tmk_model_is_profiled(*out, profile->model.sha256))
            tmk_model_close(out);
    }
    free(joined);
    return status;
}

enum tmk_status tmk_model_open_profiled(const struct tmk_profile *profile, const char *beside,
                                        const char *params, struct tmk_model **out,
                                        struct tmk_diag *diag) {
    const size_t len = (size_t)(tmk_base_name(beside) - beside);
    *out = NULL;
    TMK_TRY(open_profiled(profile, beside, len, params, out, diag));
    return *out || !len ? TMK_OK : open_profiled(profile, "", 0, params, out, diag);
}

enum tmk_status tmk_model_open_to_plan(const char *path, const char *params, struct tmk_model **out,
                                       struct tmk_diag *diag) {
    return open_model_file(path, params, false, true, out, diag);
}

static uint64_t bytes_on_disk(const char *path) {
    struct stat file;
    return path && stat(path, &file) == 0 ? (uint64_t)file.st_size : 0;
}

uint64_t tmk_model_file_bytes(const struct tmk_model *model) {
    return bytes_on_disk(model->path) + bytes_on_disk(model->params) + model->graph->external_bytes;
}

void tmk_model_close(struct tmk_model **slot) {
    struct tmk_model *model = slot ? *slot : NULL;
    if (!model)
        return;
    *slot = NULL;
    constants_destroy(&model->constants);
    tmk_graph_destroy(&model->graph);
    free(model->path);
    free(model->params);
    free(model);
}

const char *const *tmk_observer_kinds(void) {
    static const char *const kinds[] = {
#define TMK_OBSERVER_KIND_HELP(name, text, help) text, help,
        TMK_OBSERVER_KINDS(TMK_OBSERVER_KIND_HELP)
#undef TMK_OBSERVER_KIND_HELP
            NULL,
    };
    return kinds;
}

uint64_t tmk_graph_fingerprint(const struct tmk_graph *graph) {
    uint64_t hash = 0;
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        hash = tmk_hash64(&graph->outputs[i]->fingerprint, sizeof hash, hash);
    return hash;
}

static enum tmk_status clone_model(const struct tmk_model *model, bool to_run,
                                   struct tmk_graph **out, struct tmk_diag *diag) {
    return to_run ? tmk_graph_clone_lazy(model->graph, out, diag)
                  : tmk_graph_clone(model->graph, out, diag);
}

static enum tmk_status make_original(const struct tmk_model *model, bool to_run,
                                     struct tmk_graph **out, struct tmk_diag *diag) {
    struct tmk_graph *graph = NULL;
    uint32_t removed = 0;
    TMK_TRY(clone_model(model, to_run, &graph, diag));
    enum tmk_status status = tmk_strip_observers(graph, &removed, diag);
    if (status == TMK_OK && removed)
        status = tmk_graph_identify(graph, NULL, diag);
    if (status == TMK_OK)
        *out = graph;
    else
        tmk_graph_destroy(&graph);
    return status;
}

enum tmk_status tmk_original(const struct tmk_model *model, struct tmk_graph **out,
                             struct tmk_diag *diag) {
    return make_original(model, false, out, diag);
}

enum tmk_status tmk_original_to_run(const struct tmk_model *model, struct tmk_graph **out,
                                    struct tmk_diag *diag) {
    return make_original(model, true, out, diag);
}

void tmk_watched_finish(struct tmk_watched *watched) {
    free(watched->ids);
    free(watched->kinds);
    *watched = (struct tmk_watched){0};
}

/* IDs are given once the observers are out: the values stand in `sources` until then. */
static enum tmk_status take_observers_out(struct tmk_graph *graph,
                                          const struct tmk_observer *observers,
                                          const struct tmk_value **sources,
                                          struct tmk_watched *watched, struct tmk_diag *diag) {
    uint32_t removed = 0;
    for (uint32_t i = 0; i < watched->n; i++) {
        sources[i] = tmk_value_source(observers[i].node->outputs[0]);
        if (!tmk_observer_kind_by_name(observers[i].kind, &watched->kinds[i]))
            return tmk_fail(diag, TMK_UNSUPPORTED,
                            "the model holds an observer of kind '%s', which is not known",
                            observers[i].kind);
    }
    TMK_TRY(tmk_strip_observers(graph, &removed, diag));
    if (removed)
        TMK_TRY(tmk_graph_identify(graph, NULL, diag));
    for (uint32_t i = 0; i < watched->n; i++)
        watched->ids[i] = (uint32_t)sources[i]->profile_id;
    return TMK_OK;
}

enum tmk_status tmk_original_watched(const struct tmk_model *model, bool to_run,
                                     struct tmk_graph **out, struct tmk_watched *watched,
                                     struct tmk_diag *diag) {
    struct tmk_observer *observers = NULL;
    struct tmk_graph *graph = NULL;
    TMK_TRY(clone_model(model, to_run, &graph, diag));
    enum tmk_status status = tmk_observer_slots(graph, &observers, &watched->n, diag);
    const struct tmk_value **sources = calloc(watched->n + 1u, sizeof(struct tmk_value *));
    watched->ids = calloc(watched->n + 1u, sizeof *watched->ids);
    watched->kinds = calloc(watched->n + 1u, sizeof *watched->kinds);
    if (status == TMK_OK && !(sources && watched->ids && watched->kinds))
        status = tmk_nomem(diag);
    TMK_THEN(status, take_observers_out(graph, observers, sources, watched, diag));
    free(sources);
    free(observers);
    if (status == TMK_OK)
        *out = graph;
    else
        tmk_graph_destroy(&graph);
    return status;
}

enum tmk_status tmk_instrumented(const struct tmk_graph *original,
                                 const struct tmk_observe *observe, struct tmk_graph **out,
                                 uint32_t *n_observers, struct tmk_diag *diag) {
    struct tmk_instrument_options options = {observe ? observe->patterns : NULL,
                                             observe ? observe->n_patterns : 0,
                                             TMK_OBSERVER_HISTOGRAM};
    if (observe && observe->kind && !tmk_observer_kind_by_name(observe->kind, &options.kind)) {
        struct tmk_known known = {.guess.wanted = observe->kind};
        for (const char *const *kind = tmk_observer_kinds(); *kind; kind += 2)
            tmk_known_add(&known, *kind);
        return tmk_fail(diag, TMK_ARGUMENT, "'%s'%s is no kind of observer; there are %s",
                        observe->kind, known.meant, known.names);
    }
    struct tmk_graph *graph = NULL;
    TMK_TRY(tmk_graph_clone(original, &graph, diag));
    enum tmk_status status = tmk_instrument(graph, &options, n_observers, diag);
    TMK_THEN(status, tmk_graph_verify(graph, diag));
    if (status == TMK_OK)
        *out = graph;
    else
        tmk_graph_destroy(&graph);
    return status;
}

enum tmk_status tmk_model_instrument(struct tmk_model *model, const struct tmk_observe *observe,
                                     const char *path, uint32_t *n_observers,
                                     struct tmk_diag *diag) {
    struct tmk_graph *graph = NULL;
    TMK_TRY(tmk_in(diag, tmk_instrumented(model->graph, observe, &graph, n_observers, diag), "%s",
                   model->path));
    enum tmk_status status = tmk_onnx_save(graph, path, diag);
    tmk_graph_destroy(&graph);
    return status;
}
