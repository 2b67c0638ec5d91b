/* SPDX-License-Identifier: Apache-2.0 */
/* Linking by numbers, from beginning to end. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/link.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/size.h"
#include "base/text.h"
#include "data/source.h"
#include "link/choose.h"
#include "link/signature.h"
#include "session/running.h"
#include "tensor/shape.h"
#include "tmk_version.h"
#include "transform/model.h"

/* Where signatures come from: a run of a model, or arrays of a run by another program. */

/* ---- a run ---- */

struct sampling {
    const struct tmk_run_events *events; /* of the caller */
    const struct tmk_run_series *series; /* runs of both models */
    struct tmk_signatures *out;
    uint32_t n_inputs; /* IDs begin with the inputs */
    uint64_t sample;   /* where the batch at hand begins */
    bool began, over;  /* over: inputs have other shapes now */
    enum tmk_status status;
    struct tmk_diag *diag;
};

static bool has_other_shape(const struct sampling *s, uint32_t id,
                            const struct tmk_tensor *tensor) {
    const struct tmk_signature *input = &s->out->all[id];
    return id < s->n_inputs && input->batches && !tmk_shape_equal(&input->shape, &tensor->shape);
}

/* One worker: batches come in order. */
static void take_sample(void *context, const char *label, uint64_t sample,
                        const struct tmk_tensor *tensor) {
    struct sampling *s = context;
    unsigned long long id;
    if (s->over || s->status != TMK_OK || sscanf(label, "p%llu", &id) != 1 || id >= s->out->n)
        return;
    if (!s->began || sample != s->sample)
        s->out->batches++;
    s->began = true;
    s->sample = sample;
    s->over = has_other_shape(s, (uint32_t)id, tensor);
    if (s->over)
        s->out->batches--; /* that of the batches before stays */
    else
        s->status = tmk_signature_add(s->out, (uint32_t)id, s->out->batches - 1, tensor, s->diag);
}

/* The context of the caller's events is another. */
static bool asks_to_stop(void *context) {
    const struct tmk_run_events *events = ((const struct sampling *)context)->events;
    return events->stop(events->context);
}

static void report_progress(void *context, uint64_t done, uint64_t total) {
    const struct sampling *s = context;
    s->events->progress(s->events->context, s->series->done + done, s->series->runs * total);
}

static void note_waiting(void *context) {
    const struct tmk_run_events *events = ((const struct sampling *)context)->events;
    events->waiting(events->context);
}

/* Runs the model over the data: a signature for each value of its graph without observers, as long
 * as inputs have the shapes of the first batch. `run` has a limit. Not for constants. */
static enum tmk_status signatures_of_run(struct tmk_model *model, uint32_t n_inputs,
                                         const struct tmk_run_options *run,
                                         struct tmk_run_series *series, struct tmk_signatures *out,
                                         struct tmk_diag *diag) {
    static const char *const activations[] = {"activations"};
    const struct tmk_observe observe = {activations, 1, "print"};
    struct sampling sampling = {
        .out = out, .n_inputs = n_inputs, .events = &run->events, .series = series, .diag = diag};
    struct tmk_run_report report;
    struct tmk_run_options options = *run;
    struct tmk_profile *profile = NULL;
    options.limits.threads = 1;
    if (!options.data.batch)
        options.data.batch = 1; /* not what suits this model: it must be the same for both */
    options.events =
        (struct tmk_run_events){.progress = run->events.progress ? report_progress : NULL,
                                .stop = run->events.stop ? asks_to_stop : NULL,
                                .waiting = run->events.waiting ? note_waiting : NULL,
                                .print = take_sample,
                                .context = &sampling};
    TMK_TRY(tmk_model_profile(model, &options, &observe, &profile, &report, diag));
    tmk_profile_destroy(&profile);
    series->done += report.samples;
    return sampling.status;
}

/* ---- arrays ---- */

struct dump {
    struct tmk_source *source;
    const struct tmk_source_info *info;
    uint64_t samples;
};

/* The first axis of most arrays, in batches of the original's. */
static enum tmk_status count_samples(const struct tmk_source_info *info,
                                     const struct tmk_signatures *like, uint64_t *out,
                                     struct tmk_diag *diag) {
    uint64_t *entries = malloc(((size_t)info->n_arrays + 1) * sizeof *entries), best = 0, slice = 1;
    TMK_TRY_ALLOC(entries, diag);
    for (uint32_t i = 0; i < info->n_arrays; i++)
        entries[i] = info->arrays[i].n_entries;
    qsort(entries, info->n_arrays, sizeof *entries, tmk_compare_u64);
    for (uint32_t i = 0, run = 0, most = 0; i < info->n_arrays; i++) {
        run = i && entries[i] == entries[i - 1] ? run + 1 : 1;
        if (run > most && entries[i]) {
            most = run;
            best = entries[i];
        }
    }
    free(entries);
    if (like->n && like->all[0].batches && !like->all[0].uneven && like->all[0].shape.rank)
        slice = (uint64_t)like->all[0].shape.dim[0]; /* p0 is the first input */
    *out = slice && best % slice == 0 ? best / slice : best;
    return TMK_OK;
}

/* Stacked on a new axis, or joined along the value's first one? */
static bool is_stacked(const struct tmk_profile_tensor *t, const struct tmk_tensor *entry) {
    enum { IMAGES_STACKED = 5 }; /* axes; where nothing is known of the value */
    if (entry->shape.rank < 2 || entry->shape.dim[0] != 1)
        return false;
    return t->has_shape ? t->shape.rank == entry->shape.rank - 1
                        : entry->shape.rank == IMAGES_STACKED && entry->shape.dim[1] == 1;
}

static enum tmk_status read_array(const struct dump *dump, uint32_t array,
                                  const struct tmk_profile_tensor *t, struct tmk_signatures *out,
                                  struct tmk_diag *diag) {
    const struct tmk_source_array *a = &dump->info->arrays[array];
    uint64_t step = a->n_entries / dump->samples;
    if (!step || a->n_entries % dump->samples || a->dtype == TMK_UNDEFINED)
        return TMK_OK;
    for (uint32_t batch = 0; batch < out->batches; batch++) {
        struct tmk_tensor entry;
        TMK_TRY(tmk_source_read(dump->source, array, batch * step, step, &entry, diag));
        if (is_stacked(t, &entry))
            tmk_shape_drop(&entry.shape, 0);
        enum tmk_status status = tmk_signature_add(out, t->id, batch, &entry, diag);
        tmk_tensor_finish(&entry);
        TMK_TRY(status);
    }
    return TMK_OK;
}

static enum tmk_status read_arrays(const struct dump *dump, const struct tmk_profile *to,
                                   struct tmk_signatures *out, struct tmk_diag *diag) {
    struct tmk_map names = {0};
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; status == TMK_OK && i < to->n_tensors; i++)
        if (!tmk_map_put(&names, to->tensors[i].name, &to->tensors[i]))
            status = tmk_nomem(diag);
    for (uint32_t i = 0; status == TMK_OK && i < dump->info->n_arrays; i++) {
        const struct tmk_profile_tensor *t = tmk_map_get(&names, dump->info->arrays[i].name);
        if (t)
            status = read_array(dump, i, t, out, diag);
    }
    tmk_map_finish(&names);
    return status;
}

/* Of arrays in a .npz: entry k of one is its value in sample k. `to` has the records with these
 * names, `like` what the run of the original left of the same data. */
static enum tmk_status signatures_of_dump(const char *path, const struct tmk_profile *to,
                                          const struct tmk_signatures *like,
                                          struct tmk_signatures *out, struct tmk_diag *diag) {
    struct dump dump = {0};
    TMK_TRY(tmk_source_open(path, NULL, &dump.source, diag));
    dump.info = tmk_source_info(dump.source);
    enum tmk_status status = count_samples(dump.info, like, &dump.samples, diag);
    if (status == TMK_OK && !dump.samples)
        status = tmk_fail(diag, TMK_FORMAT, "%s: its arrays have no samples along their first axis",
                          path);
    out->batches = dump.samples < like->batches ? (uint32_t)dump.samples : like->batches;
    TMK_THEN(status, read_arrays(&dump, to, out, diag));
    tmk_source_close(&dump.source);
    return status;
}

enum { SAMPLES = 16 };

/* ---- both sides' numbers ---- */

/* A copy whose inputs are called as the original's, so that data finds them. By position where
 * names differ. */
static enum tmk_status with_inputs_of(const struct tmk_graph *original,
                                      const struct tmk_model *model, struct tmk_model *out,
                                      struct tmk_diag *diag) {
    bool alike = true;
    *out = *model;
    out->graph = NULL;
    TMK_TRY(tmk_original(model, &out->graph, diag));
    struct tmk_graph *graph = out->graph;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const char *name = graph->inputs[i]->name;
        alike = alike && tmk_graph_input_named(original, name, strlen(name)) >= 0;
    }
    if (alike)
        return TMK_OK;
    if (graph->n_inputs != original->n_inputs)
        return tmk_fail(diag, TMK_MISMATCH,
                        "%s has %" PRIu32 " inputs, the original %" PRIu32
                        ", and not by the same names",
                        model->path, graph->n_inputs, original->n_inputs);
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        TMK_TRY(tmk_value_rename(graph->inputs[i], original->inputs[i]->name, diag));
    return TMK_OK;
}

struct sides {
    struct tmk_signatures originals, values;
    struct tmk_graph *original, *model;   /* without observers; model NULL: of a dump */
    bool *fixed_originals, *fixed_values; /* [id]: does it follow from weights alone? */
};

static enum tmk_status sample_sides(const struct tmk_linking *l,
                                    const struct tmk_link_numbers *numbers, struct sides *s) {
    struct tmk_run_options run = *numbers->run;
    struct tmk_run_series series = {.runs = numbers->tensors ? 1 : 2};
    uint32_t most =
        run.data.limit && run.data.limit < UINT32_MAX ? (uint32_t)run.data.limit : SAMPLES;
    run.data.limit = most;
    TMK_TRY(tmk_original(numbers->original, &s->original, l->diag));
    if (numbers->model)
        TMK_TRY(tmk_original(numbers->model, &s->model, l->diag));
    TMK_TRY(tmk_signatures_init(&s->originals, l->from->n_tensors, most, l->diag));
    TMK_TRY(tmk_signatures_init(&s->values, l->to->n_tensors, most, l->diag));
    TMK_TRY(signatures_of_run(numbers->original, s->original->n_inputs, &run, &series,
                              &s->originals, l->diag));
    if (numbers->tensors)
        return signatures_of_dump(numbers->tensors, l->to, &s->originals, &s->values, l->diag);
    struct tmk_model copy = {0};
    enum tmk_status status = with_inputs_of(s->original, numbers->model, &copy, l->diag);
    TMK_THEN(status,
             signatures_of_run(&copy, copy.graph->n_inputs, &run, &series, &s->values, l->diag));
    tmk_graph_destroy(&copy.graph);
    return status;
}

/* ---- matching ---- */

/* The profile is of the model that is run. */
static enum tmk_status check_original(const struct tmk_profile *from, struct tmk_model *original,
                                      struct tmk_diag *diag) {
    struct tmk_profile *is = NULL;
    TMK_TRY(tmk_model_skeleton(original, &is, diag));
    bool same = is->n_tensors == from->n_tensors;
    for (uint32_t i = 0; same && i < is->n_tensors; i++)
        same = is->tensors[i].fingerprint == from->tensors[i].fingerprint &&
               is->tensors[i].content == from->tensors[i].content;
    tmk_profile_destroy(&is);
    if (same)
        return TMK_OK;
    return tmk_fail(diag, TMK_MISMATCH, "%s is not the model of the profile, which is of %s",
                    original->path, from->model.file);
}

/* Marks what is no weight and has no numbers to compare: it did not run in all batches, or in
 * several shapes. */
static bool *mark_unseen(const struct tmk_signatures *side, const struct tmk_profile *profile) {
    bool *marks = calloc((size_t)side->n + 1, sizeof *marks);
    for (uint32_t i = 0; marks && i < side->n; i++)
        marks[i] = (side->all[i].uneven || side->all[i].batches < side->batches) &&
                   profile->tensors[i].kind != TMK_PROFILE_WEIGHT;
    return marks;
}

static enum tmk_status match_unseen(struct tmk_linking *l, const struct sides *s) {
    bool *originals = mark_unseen(&s->originals, l->from), *values = mark_unseen(&s->values, l->to);
    enum tmk_status status =
        originals && values ? tmk_linking_namesakes(l, originals, values) : tmk_nomem(l->diag);
    free(originals);
    free(values);
    return status;
}

/* Half a unit in the last place. 0: of float32 and wider types, and of what is no float. */
static double rounding_of_type(enum tmk_dtype type) {
    switch (type) {
    case TMK_FLOAT16:
        return 0x1p-11;
    case TMK_BFLOAT16:
        return 0x1p-8;
    case TMK_FLOAT8E4M3FN:
    case TMK_FLOAT8E4M3FNUZ:
        return 0x1p-4;
    case TMK_FLOAT8E5M2:
    case TMK_FLOAT8E5M2FNUZ:
        return 0x1p-3;
    default:
        return 0;
    }
}

/* What rounding to the coarsest type of the file makes of a number, of that number, or of the range
 * where that is held in 8 bits. */
static double rounding_of(const struct tmk_profile *profile) {
    double most = 0;
    for (uint32_t i = 0; i < profile->n_tensors; i++) {
        const struct tmk_profile_tensor *t = &profile->tensors[i];
        double rounding = rounding_of_type(t->origin);
        if (tmk_link_has(t, TMK_TRAIT_QUANTIZED))
            rounding = 0x1p-8;
        most = rounding > most ? rounding : most;
    }
    return most;
}

static enum tmk_status match_numbers(struct tmk_linking *l, const struct tmk_link_numbers *numbers,
                                     struct sides *s) {
    TMK_TRY(check_original(l->from, numbers->original, l->diag));
    TMK_TRY(sample_sides(l, numbers, s));
    s->fixed_originals = calloc((size_t)l->from->n_tensors + 1, sizeof *s->fixed_originals);
    s->fixed_values = calloc((size_t)l->to->n_tensors + 1, sizeof *s->fixed_values);
    TMK_TRY_ALLOC(s->fixed_originals && s->fixed_values, l->diag);
    tmk_linking_mark_fixed(l->from, s->fixed_originals);
    tmk_linking_mark_fixed(l->to, s->fixed_values);
    /* Roundings add up over the depth of a network, to some tens of them; a quarter of the signal
     * is as much as values can lose and be distinguished from others. */
    const double depth = 64, largest = 0.25;
    double a = rounding_of(l->from), b = rounding_of(l->to), noise = depth * (a > b ? a : b);
    l->link->tolerance = noise < largest ? noise : largest;
    const struct tmk_choosing choosing = {.l = l,
                                          .noise = l->link->tolerance,
                                          .fixed_originals = s->fixed_originals,
                                          .fixed_values = s->fixed_values,
                                          .originals = &s->originals,
                                          .values = &s->values,
                                          .batches = s->originals.batches < s->values.batches
                                                         ? s->originals.batches
                                                         : s->values.batches,
                                          .made = numbers->model != NULL};
    if (!choosing.batches)
        return tmk_fail(l->diag, TMK_ARGUMENT, "there is no sample to compare the models by");
    /* Weights have no other numbers than their bytes, and what follows from them is known from
     * them. */
    bool *wanted = calloc((size_t)l->from->n_tensors + 1, sizeof *wanted);
    for (uint32_t i = 0; wanted && i < l->from->n_tensors; i++)
        wanted[i] = s->fixed_originals[i] || !tmk_link_is_sampled(&s->originals, i);
    enum tmk_status status = wanted ? tmk_linking_content(l, wanted) : tmk_nomem(l->diag);
    free(wanted);
    TMK_TRY(status);
    if (choosing.noise > 0) {
        /* Weights have no equal bytes in other types: they are compared as all other values are. */
        TMK_TRY(tmk_link_sample_weights(l, s->original, true, &s->originals));
        if (s->model)
            TMK_TRY(tmk_link_sample_weights(l, s->model, false, &s->values));
    }
    TMK_TRY(tmk_link_choose_equal(&choosing));
    TMK_TRY(tmk_link_choose_integers(&choosing));
    TMK_TRY(tmk_link_choose_affine(&choosing));
    TMK_TRY(match_unseen(l, s));
    return s->model ? tmk_link_weights(l, s->original, s->model) : TMK_OK;
}

enum tmk_status tmk_link_by_numbers(const struct tmk_profile *from, const struct tmk_profile *to,
                                    const struct tmk_link_numbers *numbers, struct tmk_link **out,
                                    struct tmk_diag *diag) {
    struct tmk_linking l;
    struct sides sides = {0};
    TMK_TRY(tmk_data_can_repeat(&numbers->run->data, diag));
    enum tmk_status status = tmk_linking_init(&l, "numbers", from, to, diag);
    TMK_THEN(status, match_numbers(&l, numbers, &sides));
    TMK_THEN(status, tmk_linking_end(&l, "link:numbers", out));
    tmk_signatures_finish(&sides.originals);
    tmk_signatures_finish(&sides.values);
    tmk_graph_destroy(&sides.original);
    tmk_graph_destroy(&sides.model);
    free(sides.fixed_originals);
    free(sides.fixed_values);
    tmk_linking_finish(&l);
    return status;
}

/* ---- arrays without a model ---- */

static enum tmk_status add_arrays(struct tmk_profile *profile, const char *path,
                                  const struct tmk_source_info *info, struct tmk_diag *diag) {
    char sha256[TMK_SHA256_HEX];
    TMK_TRY(tmk_file_sha256(path, sha256, diag));
    profile->producer.name = "tidemark";
    profile->producer.version = TMK_VERSION;
    profile->model.file = tmk_profile_text(profile, tmk_base_name(path));
    profile->model.sha256 = tmk_profile_text(profile, sha256);
    profile->model.format = info->kind;
    TMK_TRY_ALLOC(profile->model.file && profile->model.sha256, diag);
    for (uint32_t i = 0; i < info->n_arrays; i++) {
        struct tmk_profile_tensor *t;
        TMK_TRY(tmk_profile_add_tensor(profile, i, &t, diag));
        t->name = tmk_profile_text(profile, info->arrays[i].name);
        TMK_TRY_ALLOC(t->name, diag);
        t->fingerprint = t->content =
            tmk_hash64(info->arrays[i].name, strlen(info->arrays[i].name), 0);
        t->kind = TMK_PROFILE_ACTIVATION;
        t->dtype = t->origin = info->arrays[i].dtype;
    }
    return TMK_OK;
}

enum tmk_status tmk_tensors_skeleton(const char *path, struct tmk_profile **out,
                                     struct tmk_diag *diag) {
    struct tmk_source *source = NULL;
    struct tmk_profile *profile = NULL;
    TMK_TRY(tmk_source_open(path, NULL, &source, diag));
    enum tmk_status status = tmk_profile_create(&profile, diag);
    TMK_THEN(status, add_arrays(profile, path, tmk_source_info(source), diag));
    tmk_source_close(&source);
    if (status == TMK_OK)
        *out = profile;
    else
        tmk_profile_destroy(&profile);
    return status;
}
