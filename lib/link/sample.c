/* SPDX-License-Identifier: Apache-2.0 */
/* Where signatures come from: a run of a model, or arrays of a run by another program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/map.h"
#include "data/source.h"
#include "link/signature.h"
#include "tensor/shape.h"

/* ---- a run ---- */

struct sampling {
    const struct tmk_run_events *events; /* of the caller */
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

static void note_waiting(void *context) {
    const struct tmk_run_events *events = ((const struct sampling *)context)->events;
    events->waiting(events->context);
}

enum tmk_status tmk_signatures_of_run(struct tmk_model *model, uint32_t n_inputs,
                                      const struct tmk_run_options *run, struct tmk_signatures *out,
                                      struct tmk_diag *diag) {
    static const char *const activations[] = {"activations"};
    const struct tmk_observe observe = {activations, 1, "print"};
    struct sampling sampling = {
        .out = out, .n_inputs = n_inputs, .events = &run->events, .diag = diag};
    struct tmk_run_options options = *run;
    struct tmk_profile *profile = NULL;
    options.limits.threads = 1;
    if (!options.data.batch)
        options.data.batch = 1; /* not what suits this model: it must be the same for both */
    options.events = (struct tmk_run_events){.stop = run->events.stop ? asks_to_stop : NULL,
                                             .waiting = run->events.waiting ? note_waiting : NULL,
                                             .print = take_sample,
                                             .context = &sampling};
    TMK_TRY(tmk_model_profile(model, &options, &observe, &profile, NULL, diag));
    tmk_profile_destroy(&profile);
    return sampling.status;
}

/* ---- arrays ---- */

struct dump {
    struct tmk_source *source;
    const struct tmk_source_info *info;
    uint64_t samples;
};

static int compare_samples(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The first axis of most arrays, in batches of the original's. */
static enum tmk_status count_samples(const struct tmk_source_info *info,
                                     const struct tmk_signatures *like, uint64_t *out,
                                     struct tmk_diag *diag) {
    uint64_t *entries = malloc(((size_t)info->n_arrays + 1) * sizeof *entries), best = 0, slice = 1;
    if (!entries)
        return tmk_nomem(diag);
    for (uint32_t i = 0; i < info->n_arrays; i++)
        entries[i] = info->arrays[i].n_entries;
    qsort(entries, info->n_arrays, sizeof *entries, compare_samples);
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
            tmk_shape_drop_first(&entry.shape);
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

enum tmk_status tmk_signatures_of_dump(const char *path, const struct tmk_profile *to,
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
    if (status == TMK_OK)
        status = read_arrays(&dump, to, out, diag);
    tmk_source_close(&dump.source);
    return status;
}
