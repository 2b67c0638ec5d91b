/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX test sets: inputs in, outputs compared. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "model/onnx.h"
#include "session/running.h"
#include "tensor/float8.h"
#include "tensor/list.h"
#include "tensor/shape.h"

enum { MOST_TENSORS = 4096 };

/* input_0.pb, input_1.pb, ... of a folder. */
struct files {
    struct tmk_tensor *tensors;
    char **names;
    uint32_t n;
};

static void finish_files(struct files *files) {
    for (uint32_t i = 0; i < files->n; i++) {
        tmk_tensor_finish(&files->tensors[i]);
        free(files->names[i]);
    }
    free(files->tensors);
    free(files->names);
    *files = (struct files){0};
}

/* The files' types are those that the graph declares for its values in their order. */
static enum tmk_status load_files(const char *directory, const char *stem,
                                  struct tmk_value *const *values, uint32_t n_values,
                                  struct files *files, struct tmk_diag *diag) {
    const struct tmk_type tensor = {.kind = TMK_TYPE_TENSOR};
    files->tensors = calloc(MOST_TENSORS, sizeof *files->tensors);
    files->names = calloc(MOST_TENSORS, sizeof(char *));
    TMK_TRY_ALLOC(files->tensors && files->names, diag);
    for (; files->n < MOST_TENSORS; files->n++) {
        char path[4096];
        int len = snprintf(path, sizeof path, "%s/%s_%u.pb", directory, stem, files->n);
        if (len < 0 || (size_t)len >= sizeof path)
            return tmk_fail(diag, TMK_READ, "%s: the path is too long", directory);
        if (access(path, F_OK) != 0)
            break;
        TMK_TRY(tmk_onnx_load_value(path, files->n < n_values ? &values[files->n]->type : &tensor,
                                    &files->tensors[files->n], &files->names[files->n], diag));
    }
    return TMK_OK;
}

/* ---- comparing ---- */

/* Two steps between neighbours of a narrow type, relative to the number: what a result may be off
 * by that was computed in this type, however exact ours is. */
static double steps_of(enum tmk_dtype origin) {
    return origin == TMK_BFLOAT16 ? 0x1p-6 : origin == TMK_FLOAT16 ? 0x1p-9 : 0;
}

static double type_tolerance(double want, enum tmk_dtype origin,
                             const struct tmk_verify_options *options) {
    return options->atol + fmax(options->rtol, steps_of(origin)) * fabs(want);
}

static void compare_floats(const struct tmk_tensor *got, const struct tmk_tensor *want,
                           const struct tmk_verify_options *options, struct tmk_verdict *verdict) {
    const float *x = got->data, *y = want->data;
    size_t n = tmk_tensor_count(got), bad = 0, first = 0;
    for (size_t i = 0; i < n; i++) {
        if ((isnan(x[i]) && isnan(y[i])) || x[i] == y[i])
            continue;
        double error =
            fabs((double)x[i] - (double)y[i]) / type_tolerance((double)y[i], want->origin, options);
        if (!(error <= 1)) { /* also where either is not finite */
            if (!bad++)
                first = i;
        }
        if (!(error <= verdict->worst))
            verdict->worst = error;
    }
    verdict->ok = !bad;
    if (bad)
        snprintf(verdict->why, sizeof verdict->why,
                 "%zu of %zu elements differ; first element %zu: got %.9g, want %.9g", bad, n,
                 first, (double)x[first], (double)y[first]);
}

/* Types of 8-bit floats have several codes of NaN. */
static bool is_nan_code(enum tmk_dtype dtype, const uint8_t *code) {
    return tmk_float8_is_written(dtype) && isnan(tmk_float8_value(dtype, *code));
}

static void compare_bytes(const struct tmk_tensor *got, const struct tmk_tensor *want,
                          struct tmk_verdict *verdict) {
    size_t size = tmk_dtype_size(got->dtype), n = tmk_tensor_count(got), bad = 0, first = 0;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *x = (const uint8_t *)got->data + i * size,
                      *y = (const uint8_t *)want->data + i * size;
        if (memcmp(x, y, size) != 0 && !(is_nan_code(got->dtype, x) && is_nan_code(got->dtype, y)))
            if (!bad++)
                first = i;
    }
    verdict->ok = !bad;
    verdict->worst = bad ? INFINITY : 0;
    if (bad)
        snprintf(verdict->why, sizeof verdict->why, "%zu of %zu elements differ, first element %zu",
                 bad, n, first);
}

static void compare_tensors(const struct tmk_tensor *got, const struct tmk_tensor *want,
                            const struct tmk_verify_options *options, struct tmk_verdict *verdict) {
    if (got->dtype != want->dtype)
        snprintf(verdict->why, sizeof verdict->why, "got %s, want %s", tmk_dtype_name(got->dtype),
                 tmk_dtype_name(want->dtype));
    else if (!tmk_shape_equal(&got->shape, &want->shape))
        snprintf(verdict->why, sizeof verdict->why, "got shape %s, want %s",
                 TMK_SHAPE_TEXT(&got->shape), TMK_SHAPE_TEXT(&want->shape));
    else if (got->dtype == TMK_FLOAT32)
        compare_floats(got, want, options, verdict);
    else
        compare_bytes(got, want, verdict);
}

/* Tensor by tensor, up to the first that differs. */
static void compare_lists(const struct tmk_list *got, const struct tmk_list *want,
                          const struct tmk_verify_options *options, struct tmk_verdict *verdict) {
    size_t n = tmk_list_length(got);
    if (n != tmk_list_length(want)) {
        snprintf(verdict->why, sizeof verdict->why, "got a sequence of %zu tensors, want %zu", n,
                 tmk_list_length(want));
        return;
    }
    verdict->ok = true;
    for (size_t i = 0; verdict->ok && i < n; i++) {
        struct tmk_verdict one = {.worst = verdict->worst};
        compare_tensors(&tmk_list_items(got)[i], &tmk_list_items(want)[i], options, &one);
        verdict->ok = one.ok;
        verdict->worst = one.worst;
        if (!one.ok)
            snprintf(verdict->why, sizeof verdict->why, "tensor %zu: %.220s", i, one.why);
    }
}

/* ---- one set ---- */

struct test_set {
    char *path;
    struct files wanted; /* from loading to comparing */
};

struct verifying {
    struct tmk_graph *graph;
    const struct tmk_verify_options *options;
    void (*report)(void *context, const struct tmk_verdict *verdict);
    void *context;
    struct test_set *sets;
    uint32_t n, loaded, failed;
};

static int32_t input_named(const struct tmk_graph *graph, const char *name) {
    return name ? tmk_graph_input_named(graph, name, strlen(name)) : -1;
}

static bool all_named(const struct tmk_graph *graph, const struct files *files) {
    for (uint32_t i = 0; i < files->n; i++) {
        int32_t input = input_named(graph, files->names[i]);
        for (uint32_t k = 0; input >= 0 && k < i; k++)
            if (input_named(graph, files->names[k]) == input)
                input = -1;
        if (input < 0)
            return false;
    }
    return true;
}

static enum tmk_status arrange_inputs(const struct tmk_graph *graph, const struct files *files,
                                      struct tmk_tensor *inputs, struct tmk_diag *diag) {
    bool by_name = all_named(graph, files);
    for (uint32_t i = 0; i < files->n; i++) {
        int32_t input = by_name ? input_named(graph, files->names[i]) : (int32_t)i;
        if ((uint32_t)input < graph->n_inputs)
            tmk_tensor_share(&inputs[input], &files->tensors[i]);
    }
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        if (!inputs[i].data && inputs[i].kind == TMK_TYPE_TENSOR)
            return tmk_fail(diag, TMK_NOTFOUND, "has no file for input '%s'",
                            graph->inputs[i]->name);
    return TMK_OK;
}

static enum tmk_status load_set(const struct tmk_graph *graph, struct test_set *set,
                                struct tmk_batch *out, struct tmk_diag *diag) {
    struct files given = {0};
    enum tmk_status status =
        load_files(set->path, "input", graph->inputs, graph->n_inputs, &given, diag);
    TMK_THEN(status,
             load_files(set->path, "output", graph->outputs, graph->n_outputs, &set->wanted, diag));
    if (status == TMK_OK && !set->wanted.n)
        status = tmk_fail(diag, TMK_NOTFOUND, "%s: has no output_0.pb to compare with", set->path);
    TMK_THEN(status,
             tmk_in(diag, arrange_inputs(graph, &given, out->inputs, diag), "%s", set->path));
    finish_files(&given);
    return status;
}

/* A batch is a set. */
static enum tmk_status next_set(void *context, struct tmk_batch *out, bool *more,
                                struct tmk_diag *diag) {
    struct verifying *v = context;
    *more = v->loaded < v->n;
    if (!*more)
        return TMK_OK;
    struct test_set *set = &v->sets[v->loaded];
    struct tmk_batch batch = {.sample = v->loaded++,
                              .samples = 1,
                              .inputs = calloc(v->graph->n_inputs + 1u, sizeof *batch.inputs),
                              .n_inputs = v->graph->n_inputs,
                              .label = set->path};
    enum tmk_status status = batch.inputs ? load_set(v->graph, set, &batch, diag) : tmk_nomem(diag);
    if (status == TMK_OK)
        *out = batch;
    else
        tmk_batch_finish(&batch);
    return status;
}

/* The record of a set: one verdict an output that has a file. */
struct verdicts {
    uint32_t n;
    struct tmk_verdict all[];
};

static enum tmk_status compare_set(void *context, const struct tmk_ran *ran, void *record,
                                   struct tmk_diag *diag) {
    const struct verifying *v = context;
    struct test_set *set = &v->sets[ran->batch->sample];
    struct verdicts *verdicts = record;
    (void)diag;
    for (uint32_t i = 0; i < set->wanted.n && i < v->graph->n_outputs; i++) {
        struct tmk_verdict *verdict = &verdicts->all[verdicts->n++];
        const struct tmk_tensor got = tmk_worker_value(ran->workers[0], v->graph->outputs[i]);
        *verdict = (struct tmk_verdict){.set = set->path, .output = v->graph->outputs[i]->name};
        if (got.kind != set->wanted.tensors[i].kind)
            snprintf(verdict->why, sizeof verdict->why, "got %s, want %s", tmk_tensor_what(&got),
                     tmk_tensor_what(&set->wanted.tensors[i]));
        else if (got.kind == TMK_TYPE_TENSOR)
            compare_tensors(&got, &set->wanted.tensors[i], v->options, verdict);
        else if (got.kind == TMK_TYPE_SEQUENCE)
            compare_lists(got.list, set->wanted.tensors[i].list, v->options, verdict);
        else
            verdict->ok = true;
    }
    finish_files(&set->wanted);
    return TMK_OK;
}

static enum tmk_status report_verdicts(void *context, const void *record, struct tmk_diag *diag) {
    struct verifying *v = context;
    const struct verdicts *verdicts = record;
    (void)diag;
    for (uint32_t i = 0; i < verdicts->n; i++) {
        v->failed += !verdicts->all[i].ok;
        if (v->report)
            v->report(v->context, &verdicts->all[i]);
    }
    return TMK_OK;
}

/* ---- a folder: a set itself, or a folder of sets ---- */

static int is_set(const struct dirent *entry) {
    return strncmp(entry->d_name, "test_data_set_", 14) == 0;
}

static enum tmk_status list_sets(struct verifying *v, const char *directory,
                                 struct tmk_diag *diag) {
    struct dirent **entries = NULL;
    int n = scandir(directory, &entries, is_set, versionsort);
    if (n < 0)
        return tmk_cannot_read(diag, directory);
    v->sets = calloc((size_t)n + 1, sizeof *v->sets);
    v->n = v->sets ? (uint32_t)(n ? n : 1) : 0;
    bool ok = v->sets != NULL;
    if (ok && !n)
        ok = (v->sets[0].path = strdup(directory)) != NULL;
    for (int i = 0; i < n; i++) {
        ok = ok && asprintf(&v->sets[i].path, "%s/%s", directory, entries[i]->d_name) >= 0;
        free(entries[i]);
    }
    free(entries);
    return ok ? TMK_OK : tmk_nomem(diag);
}

static enum tmk_status control_sets(void *context, bool *pause, struct tmk_diag *diag) {
    (void)pause;
    return tmk_running_goes_on(&((const struct verifying *)context)->options->events, diag);
}

static enum tmk_status sets_go_on(void *context, struct tmk_diag *diag) {
    return control_sets(context, NULL, diag);
}

static void note_waiting(void *context, uint64_t sets_done) {
    const struct tmk_run_events *events = &((const struct verifying *)context)->options->events;
    (void)sets_done;
    events->waiting(events->context);
}

static enum tmk_status run_sets(struct verifying *v, struct tmk_diag *diag) {
    const uint32_t threads = tmk_running_threads(&v->options->limits);
    const struct tmk_batch_source source = {next_set, v};
    const struct tmk_exec_options options = {
        .threads = threads < v->n ? threads : v->n,
        .sink = {.record = compare_set,
                 .record_bytes =
                     sizeof(struct verdicts) + v->graph->n_outputs * sizeof(struct tmk_verdict),
                 .merge = report_verdicts,
                 .context = v},
        .control = {control_sets, sets_go_on, v},
        .progress = v->options->events.waiting ? note_waiting : NULL,
        .progress_context = v,
        .max_iterations = v->options->limits.iterations};
    struct tmk_exec_result result;
    TMK_TRY(tmk_exec_run(&v->graph, 1, &source, &options, &result, diag));
    tmk_exec_result_finish(&result);
    return TMK_OK;
}

enum tmk_status tmk_model_verify(struct tmk_model *model, const char *directory,
                                 const struct tmk_verify_options *options,
                                 void (*report)(void *context, const struct tmk_verdict *verdict),
                                 void *context, uint32_t *failed, struct tmk_diag *diag) {
    struct verifying v = {.options = options, .report = report, .context = context};
    enum tmk_status status = tmk_graph_clone(model->graph, &v.graph, diag);
    TMK_THEN(status, list_sets(&v, directory, diag));
    if (status == TMK_OK) {
        tmk_graph_number(v.graph);
        status = run_sets(&v, diag);
    }
    if (status == TMK_OK)
        *failed = v.failed;
    for (uint32_t i = 0; i < v.n; i++) {
        finish_files(&v.sets[i].wanted);
        free(v.sets[i].path);
    }
    free(v.sets);
    tmk_graph_destroy(&v.graph);
    return status;
}
