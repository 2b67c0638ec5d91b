/* SPDX-License-Identifier: Apache-2.0 */
/* Linking by numbers, from beginning to end. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/link.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "data/source.h"
#include "link/choose.h"
#include "link/weights.h"
#include "tmk_version.h"
#include "transform/model.h"

enum { SAMPLES = 16 };

/* ---- both sides' numbers ---- */

static bool has_input(const struct tmk_graph *graph, const char *name) {
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        if (strcmp(graph->inputs[i]->name, name) == 0)
            return true;
    return false;
}

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
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        alike = alike && has_input(original, graph->inputs[i]->name);
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
    uint32_t most =
        run.data.limit && run.data.limit < UINT32_MAX ? (uint32_t)run.data.limit : SAMPLES;
    run.data.limit = most;
    TMK_TRY(tmk_original(numbers->original, &s->original, l->diag));
    if (numbers->model)
        TMK_TRY(tmk_original(numbers->model, &s->model, l->diag));
    TMK_TRY(tmk_signatures_init(&s->originals, l->from->n_tensors, most, l->diag));
    TMK_TRY(tmk_signatures_init(&s->values, l->to->n_tensors, most, l->diag));
    TMK_TRY(tmk_signatures_of_run(numbers->original, s->original->n_inputs, &run, &s->originals,
                                  l->diag));
    if (numbers->tensors)
        return tmk_signatures_of_dump(numbers->tensors, l->to, &s->originals, &s->values, l->diag);
    struct tmk_model copy = {0};
    enum tmk_status status = with_inputs_of(s->original, numbers->model, &copy, l->diag);
    if (status == TMK_OK)
        status = tmk_signatures_of_run(&copy, copy.graph->n_inputs, &run, &s->values, l->diag);
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
    if (!s->fixed_originals || !s->fixed_values)
        return tmk_nomem(l->diag);
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
    enum tmk_status status = tmk_linking_init(&l, "numbers", from, to, diag);
    if (status == TMK_OK)
        status = match_numbers(&l, numbers, &sides);
    if (status == TMK_OK)
        status = tmk_linking_end(&l, "link:numbers", out);
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
    if (!profile->model.file || !profile->model.sha256)
        return tmk_nomem(diag);
    for (uint32_t i = 0; i < info->n_arrays; i++) {
        struct tmk_profile_tensor *t;
        TMK_TRY(tmk_profile_add_tensor(profile, i, &t, diag));
        t->name = tmk_profile_text(profile, info->arrays[i].name);
        if (!t->name)
            return tmk_nomem(diag);
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
    if (status == TMK_OK)
        status = add_arrays(profile, path, tmk_source_info(source), diag);
    tmk_source_close(&source);
    if (status == TMK_OK)
        *out = profile;
    else
        tmk_profile_destroy(&profile);
    return status;
}
