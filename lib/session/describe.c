/* SPDX-License-Identifier: Apache-2.0 */
#include "session/describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "kernel/accel.h"
#include "profile/format.h"
#include "tmk_version.h"

static const char *cpu_isa(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
        return "x86_64 avx512";
    return __builtin_cpu_supports("avx2") ? "x86_64 avx2" : "x86_64";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "other";
#endif
}

static const char *copy_text(struct tmk_profile *profile, const char *text, bool *ok) {
    const char *c = tmk_profile_text(profile, text);
    *ok &= c != NULL;
    return c;
}

enum tmk_status tmk_describe_model(struct tmk_profile *profile, const struct tmk_model *model,
                                   const struct tmk_graph *original, struct tmk_diag *diag) {
    bool ok = true;
    const struct tmk_graph *graph = model->graph;
    if (graph->structure_only)
        return tmk_fail(diag, TMK_ARGUMENT, "%s was opened for plans only", model->path);
    profile->producer.name = copy_text(profile, "tidemark", &ok);
    profile->producer.version = copy_text(profile, TMK_VERSION, &ok);
    profile->producer.isa = copy_text(profile, cpu_isa(), &ok);
    profile->producer.kernels = copy_text(profile, tmk_kernel_library(), &ok);
    profile->model.file = copy_text(profile, tmk_base_name(model->path), &ok);
    profile->model.sha256 = copy_text(profile, model->sha256, &ok);
    profile->model.format = copy_text(profile, model->format, &ok);
    profile->model.ir_version = graph->ir_version;
    profile->model.fingerprint = tmk_graph_fingerprint(original);
    for (uint32_t i = 0; i < graph->n_opsets; i++)
        TMK_TRY(tmk_profile_add_opset(profile, graph->opsets[i].domain, graph->opsets[i].version,
                                      diag));
    return ok ? TMK_OK : tmk_nomem(diag);
}

static enum tmk_status add_number(struct tmk_profile *profile, const char *key, uint64_t number,
                                  struct tmk_diag *diag) {
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    return tmk_profile_add_setting(profile, key, text, diag);
}

/* Parts of which nothing was looked at are none. */
static enum tmk_status describe_coverage(struct tmk_profile *profile,
                                         const struct tmk_segment *segment, uint32_t stratum,
                                         struct tmk_diag *diag) {
    const struct tmk_sample_counts *counts = tmk_feed_counts(segment->feed, stratum);
    struct tmk_profile_range *ranges = calloc((size_t)counts->n_ranges + 1, sizeof *ranges);
    uint32_t n = 0;
    if (!ranges)
        return tmk_nomem(diag);
    for (uint32_t i = 0; i < counts->n_ranges; i++)
        if (counts->ranges[i].begin < counts->ranges[i].end)
            ranges[n++] = counts->ranges[i];
    enum tmk_status status = tmk_profile_set_ranges(profile, ranges, n, diag);
    free(ranges);
    profile->coverage.total = tmk_feed_begin(segment->feed, UINT64_MAX);
    if (!profile->coverage.total) /* a stream, which ended */
        profile->coverage.total = tmk_feed_reached(segment->feed);
    return status;
}

static enum tmk_status describe_recurrence(struct tmk_profile *profile,
                                           const struct tmk_data_options *data,
                                           struct tmk_diag *diag) {
    const struct tmk_recurrence *recurrence = &data->recurrence;
    if (data->generate.steps)
        TMK_TRY(add_number(profile, "generate", data->generate.steps, diag));
    for (size_t i = 0; data->generate.steps && i < data->generate.n_stop; i++)
        TMK_TRY(add_number(profile, "eos", (uint64_t)data->generate.stop[i], diag));
    for (size_t i = 0; i < recurrence->n_feedback; i++)
        TMK_TRY(tmk_profile_add_setting(profile, "feedback", recurrence->feedback[i], diag));
    if (!recurrence->n_feedback || data->generate.steps)
        return TMK_OK;
    return tmk_profile_add_setting(profile, "reset",
                                   recurrence->reset ? recurrence->reset : "never", diag);
}

static enum tmk_status describe_counts(struct tmk_profile *profile,
                                       const struct tmk_segment *segment, uint32_t stratum,
                                       struct tmk_diag *diag) {
    const struct tmk_sample_counts *counts = tmk_feed_counts(segment->feed, stratum);
    for (size_t i = 0; i < counts->n_bad; i++)
        TMK_TRY(tmk_profile_add_bad(profile, counts->bad[i].sample, counts->bad[i].file,
                                    counts->bad[i].why, diag));
    profile->ledger.offered = counts->run + counts->skipped + counts->failed;
    profile->ledger.skipped = counts->skipped;
    profile->ledger.failed = counts->failed;
    if (segment->tallies) {
        profile->ledger.run = segment->tallies[stratum].samples;
        profile->ledger.batches = segment->tallies[stratum].batches;
    }
    return describe_coverage(profile, segment, stratum, diag);
}

static enum tmk_status describe_data(struct tmk_profile *profile, const struct tmk_segment *segment,
                                     struct tmk_diag *diag) {
    const char *image = segment->options->data.image;
    bool images = false;
    for (uint32_t i = 0; i < segment->original->n_inputs; i++) {
        const struct tmk_source_info *info = tmk_feed_source(segment->feed, i);
        char hash[sizeof "xxh128:" + TMK_HASH128_HEX];
        if (!info)
            continue;
        images |= strcmp(info->kind, "images") == 0;
        snprintf(hash, sizeof hash, "xxh128:%s",
                 segment->hashes[tmk_feed_source_of(segment->feed, i)]);
        TMK_TRY(tmk_profile_add_source(profile, segment->original->inputs[i]->name, info->label,
                                       tmk_feed_entries(segment->feed, i), hash, diag));
    }
    if (images)
        TMK_TRY(
            tmk_profile_add_setting(profile, "image", image && *image ? image : "default", diag));
    TMK_TRY(describe_recurrence(profile, &segment->options->data, diag));
    if (segment->options->data.skip)
        TMK_TRY(add_number(profile, "skip", segment->options->data.skip, diag));
    if (segment->options->data.every > 1)
        TMK_TRY(add_number(profile, "sample-every", segment->options->data.every, diag));
    return TMK_OK;
}

static enum tmk_status add_share(struct tmk_profile *profile, uint32_t share,
                                 struct tmk_diag *diag) {
    char text[16];
    snprintf(text, sizeof text, "1/%u", (unsigned)share);
    return tmk_profile_add_setting(profile, "histogram-share", text, diag);
}

static enum tmk_status describe_settings(struct tmk_profile *profile,
                                         const struct tmk_segment *segment, const char *label,
                                         struct tmk_diag *diag) {
    const struct tmk_observe *observe = segment->observe;
    TMK_TRY(add_number(profile, "batch", tmk_feed_plan(segment->feed).batch, diag));
    TMK_TRY(tmk_profile_add_setting(profile, "kind",
                                    observe && observe->kind ? observe->kind : "histogram", diag));
    if (segment->options->round_half)
        TMK_TRY(tmk_profile_add_setting(profile, "round-half", "true", diag));
    TMK_TRY(tmk_excluded_describe(segment->excluded, profile, diag));
    if (segment->options->statistics.histogram_share > 1)
        TMK_TRY(add_share(profile, segment->options->statistics.histogram_share, diag));
    const char *mask = segment->options->statistics.exclude_padding;
    if (mask)
        TMK_TRY(tmk_profile_add_setting(profile, "exclude-padding", mask, diag));
    if (!observe || !observe->n_patterns)
        TMK_TRY(tmk_profile_add_setting(profile, "observe", "all", diag));
    for (size_t i = 0; observe && i < observe->n_patterns; i++)
        TMK_TRY(tmk_profile_add_setting(profile, "observe", observe->patterns[i], diag));
    return label ? tmk_profile_add_setting(profile, TMK_PROFILE_STRATUM, label, diag) : TMK_OK;
}

enum tmk_status tmk_segment_describe(const struct tmk_segment *segment, uint32_t stratum,
                                     const char *label, struct tmk_profile **out,
                                     struct tmk_diag *diag) {
    struct tmk_profile *profile = NULL;
    TMK_TRY(tmk_profile_create(&profile, diag));
    enum tmk_status status = tmk_describe_model(profile, segment->model, segment->original, diag);
    if (status == TMK_OK)
        status = describe_data(profile, segment, diag);
    if (status == TMK_OK)
        status = describe_counts(profile, segment, stratum, diag);
    if (status == TMK_OK)
        status = describe_settings(profile, segment, label, diag);
    if (status == TMK_OK)
        *out = profile;
    else
        tmk_profile_destroy(&profile);
    return status;
}
