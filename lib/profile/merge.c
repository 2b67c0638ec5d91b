/* SPDX-License-Identifier: Apache-2.0 */
/* Shards of one run, put together. Everything is compared before anything changes. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "profile/checkpoint.h"
#include "profile/format.h"
#include "stats/state.h"

/* ---- are they of one run? ---- */

static enum tmk_status same_text(const char *what, const char *a, const char *b,
                                 struct tmk_diag *diag) {
    if (strcmp(a, b) == 0)
        return TMK_OK;
    return tmk_fail(diag, TMK_MISMATCH, "%s is '%s' in the first and '%s' in the second", what, a,
                    b);
}

static enum tmk_status same_number(const char *what, uint64_t a, uint64_t b,
                                   struct tmk_diag *diag) {
    if (a == b)
        return TMK_OK;
    return tmk_fail(diag, TMK_MISMATCH,
                    "%s is %" PRIu64 " in the first and %" PRIu64 " in the second", what, a, b);
}

static enum tmk_status same_hash(const char *what, uint64_t a, uint64_t b, struct tmk_diag *diag) {
    char x[17], y[17];
    snprintf(x, sizeof x, "%016" PRIx64, a);
    snprintf(y, sizeof y, "%016" PRIx64, b);
    return same_text(what, x, y, diag);
}

/* The i-th setting or the first behind it that must be the same in both. */
static uint32_t setting_from(const struct tmk_profile *profile, uint32_t i) {
    while (i < profile->n_settings && strcmp(profile->settings[i].key, TMK_PROFILE_STRATUM) == 0)
        i++;
    return i;
}

static enum tmk_status same_settings(const struct tmk_profile *a, const struct tmk_profile *b,
                                     struct tmk_diag *diag) {
    uint32_t i = setting_from(a, 0), k = setting_from(b, 0);
    for (; i < a->n_settings && k < b->n_settings;
         i = setting_from(a, i + 1), k = setting_from(b, k + 1)) {
        const struct tmk_profile_setting *x = &a->settings[i], *y = &b->settings[k];
        if (!tmk_profile_setting_text(b, x->key) || !tmk_profile_setting_text(a, y->key))
            break;
        TMK_TRY(same_text("a setting's name", x->key, y->key, diag));
        if (strcmp(x->value, y->value) != 0)
            return tmk_fail(diag, TMK_MISMATCH,
                            "the setting '%s' is '%s' in the first and '%s' in the second", x->key,
                            x->value, y->value);
    }
    if (i == a->n_settings && k == b->n_settings)
        return TMK_OK;
    const bool first = k == b->n_settings ||
                       (i < a->n_settings && !tmk_profile_setting_text(b, a->settings[i].key));
    return tmk_fail(diag, TMK_MISMATCH, "the setting '%s' is in the %s only",
                    first ? a->settings[i].key : b->settings[k].key, first ? "first" : "second");
}

enum tmk_status tmk_profile_same_run(const struct tmk_profile *a, const struct tmk_profile *b,
                                     struct tmk_diag *diag) {
    TMK_TRY(same_text("the model's sha256", a->model.sha256, b->model.sha256, diag));
    TMK_TRY(same_hash("the model's fingerprint", a->model.fingerprint, b->model.fingerprint, diag));
    TMK_TRY(same_text("the model's format", a->model.format, b->model.format, diag));
    TMK_TRY(same_number("the model's IR version", (uint64_t)a->model.ir_version,
                        (uint64_t)b->model.ir_version, diag));
    TMK_TRY(same_number("the number of the model's operator sets", a->model.n_opsets,
                        b->model.n_opsets, diag));
    for (uint32_t i = 0; i < a->model.n_opsets; i++) {
        const struct tmk_profile_opset *x = &a->model.opsets[i], *y = &b->model.opsets[i];
        TMK_TRY(same_text("an operator set of the model", x->domain, y->domain, diag));
        TMK_TRY(same_number("the version of an operator set of the model", (uint64_t)x->version,
                            (uint64_t)y->version, diag));
    }
    TMK_TRY(same_number("the number of data sources", a->n_sources, b->n_sources, diag));
    for (uint32_t i = 0; i < a->n_sources; i++) {
        const struct tmk_profile_source *x = &a->sources[i], *y = &b->sources[i];
        enum tmk_status status = same_text("the input", x->input, y->input, diag);
        TMK_THEN(status, same_text("the data's hash", x->hash, y->hash, diag));
        TMK_THEN(status,
                 same_number("the number of the data's entries", x->samples, y->samples, diag));
        TMK_TRY(tmk_in(diag, status, "input '%s'", x->input));
    }
    TMK_TRY(same_settings(a, b, diag));
    TMK_TRY(same_number("the number of samples in all", tmk_profile_total(a), tmk_profile_total(b),
                        diag));
    TMK_TRY(same_text("the producer", a->producer.name, b->producer.name, diag));
    TMK_TRY(same_text("the producer's version", a->producer.version, b->producer.version, diag));
    TMK_TRY(same_text("the instruction set", a->producer.isa, b->producer.isa, diag));
    return same_text("the kernels' library", a->producer.kernels, b->producer.kernels, diag);
}

/* A shard that is cut inside a batch ran batches that the whole run does not have. */
static enum tmk_status is_cut_at_batches(const struct tmk_profile *profile, const char *which,
                                         struct tmk_diag *diag) {
    uint64_t batch = tmk_profile_setting_number(profile, "batch", 1);
    uint64_t first = tmk_profile_setting_number(profile, "skip", 0);
    uint64_t total = tmk_profile_total(profile);
    struct tmk_profile_range range;
    for (uint32_t i = 0; batch > 1 && tmk_profile_range(profile, i, &range); i++)
        if ((range.begin % batch && range.begin != first) ||
            (range.end % batch && range.end != total))
            return tmk_fail(diag, TMK_MISMATCH,
                            "samples %" PRIu64 " to %" PRIu64 " of the %s are not cut at the ends "
                            "of batches of %" PRIu64 "; --shard cuts there, and --batch 1 anywhere",
                            range.begin, range.end, which, batch);
    return TMK_OK;
}

/* ---- are the values the same? ---- */

static bool has_numbers(const struct tmk_profile_tensor *t) {
    return t->stats || t->has_int_stats;
}

/* An initializer: it is counted once whatever runs, in every shard. */
static bool is_counted_once(const struct tmk_profile_tensor *t) {
    return t->kind == TMK_PROFILE_WEIGHT && !t->has_producer;
}

static bool same_shape(const struct tmk_profile_tensor *a, const struct tmk_profile_tensor *b) {
    if (a->has_shape != b->has_shape)
        return false;
    if (a->has_shape && !tmk_shape_equal(&a->shape, &b->shape))
        return false;
    for (int32_t i = 0; a->has_shape && i < a->shape.rank; i++)
        if (strcmp(a->symbol[i] ? a->symbol[i] : "", b->symbol[i] ? b->symbol[i] : "") != 0)
            return false;
    return true;
}

static bool same_ends(const struct tmk_profile_tensor *a, const struct tmk_profile_tensor *b) {
    if (a->has_producer != b->has_producer || a->n_consumers != b->n_consumers ||
        strcmp(a->producer.node, b->producer.node) != 0 ||
        strcmp(a->producer.op, b->producer.op) != 0 ||
        strcmp(a->producer.domain, b->producer.domain) != 0 ||
        a->producer.output != b->producer.output)
        return false;
    for (uint32_t i = 0; i < a->n_consumers; i++) {
        const struct tmk_profile_consumer *x = &a->consumers[i], *y = &b->consumers[i];
        if (strcmp(x->node, y->node) != 0 || strcmp(x->op, y->op) != 0 ||
            strcmp(x->domain, y->domain) != 0 || x->input != y->input)
            return false;
    }
    return true;
}

/* Profiles before version 1.2 don't know them. */
static bool same_operands(const struct tmk_profile_tensor *a, const struct tmk_profile_tensor *b) {
    if (!a->n_operands || !b->n_operands)
        return true;
    return a->n_operands == b->n_operands &&
           memcmp(a->operands, b->operands, a->n_operands * sizeof *a->operands) == 0;
}

static bool same_bytes(const struct tmk_text *a, const struct tmk_text *b) {
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

static enum tmk_status same_constant(const struct tmk_profile_tensor *a,
                                     const struct tmk_profile_tensor *b, struct tmk_diag *diag) {
    struct tmk_text x = {0}, y = {0};
    bool same = (a->stats != NULL) == (b->stats != NULL);
    if (same && a->stats) {
        tmk_stats_encode(a->stats, &x);
        tmk_stats_encode(b->stats, &y);
    } else if (same) {
        tmk_int_stats_encode(&a->int_stats, &x);
        tmk_int_stats_encode(&b->int_stats, &y);
    }
    bool failed = x.failed || y.failed;
    same = same && !failed && same_bytes(&x, &y);
    tmk_text_finish(&x);
    tmk_text_finish(&y);
    if (failed)
        return tmk_nomem(diag);
    return same ? TMK_OK : tmk_fail(diag, TMK_MISMATCH, "the weight has other numbers");
}

static enum tmk_status same_numbers(const struct tmk_profile_tensor *a,
                                    const struct tmk_profile_tensor *b, struct tmk_diag *diag) {
    bool both = has_numbers(a) && has_numbers(b);
    if (both || (!has_numbers(a) && !has_numbers(b))) {
        TMK_TRY(same_text("its type", tmk_dtype_name(a->dtype), tmk_dtype_name(b->dtype), diag));
        TMK_TRY(same_text("its type in the model", tmk_dtype_name(a->origin),
                          tmk_dtype_name(b->origin), diag));
    }
    if (!both)
        return TMK_OK;
    TMK_TRY(same_text("its level", tmk_profile_level_name(a), tmk_profile_level_name(b), diag));
    TMK_TRY(same_text("its rule", a->rule, b->rule, diag));
    TMK_TRY(same_number("the number of values it derives from", a->n_sources, b->n_sources, diag));
    for (uint32_t i = 0; i < a->n_sources; i++)
        TMK_TRY(same_number("the ID it derives from", a->sources[i], b->sources[i], diag));
    if ((a->sample_min != NULL) != (b->sample_min != NULL))
        return tmk_fail(diag, TMK_MISMATCH, "only one has the extremes of each sample");
    return is_counted_once(a) ? same_constant(a, b, diag) : TMK_OK;
}

static enum tmk_status same_value(const struct tmk_profile_tensor *a,
                                  const struct tmk_profile_tensor *b, struct tmk_diag *diag) {
    TMK_TRY(same_number("the ID", a->id, b->id, diag));
    TMK_TRY(same_hash("its fingerprint", a->fingerprint, b->fingerprint, diag));
    TMK_TRY(same_hash("its content's fingerprint", a->content, b->content, diag));
    TMK_TRY(same_number("its ordinal", a->ordinal, b->ordinal, diag));
    TMK_TRY(same_text("its name", a->name, b->name, diag));
    TMK_TRY(same_text("its path", a->path, b->path, diag));
    TMK_TRY(same_text("its kind", tmk_profile_kind_name(a->kind), tmk_profile_kind_name(b->kind),
                      diag));
    if (!same_shape(a, b))
        return tmk_fail(diag, TMK_MISMATCH, "its shape differs");
    if (!same_ends(a, b) || !same_operands(a, b))
        return tmk_fail(diag, TMK_MISMATCH, "its producer or its consumers differ");
    return same_numbers(a, b, diag);
}

/* As far as a checkpoint has them. */
static enum tmk_status same_value_so_far(const struct tmk_profile_tensor *a,
                                         const struct tmk_profile_tensor *b,
                                         struct tmk_diag *diag) {
    TMK_TRY(same_number("the ID", a->id, b->id, diag));
    TMK_TRY(same_hash("its fingerprint", a->fingerprint, b->fingerprint, diag));
    TMK_TRY(same_text("its kind", tmk_profile_kind_name(a->kind), tmk_profile_kind_name(b->kind),
                      diag));
    if (a->has_producer != b->has_producer)
        return tmk_fail(diag, TMK_MISMATCH, "only one has a producer");
    return same_numbers(a, b, diag);
}

typedef enum tmk_status same_fn(const struct tmk_profile_tensor *a,
                                const struct tmk_profile_tensor *b, struct tmk_diag *diag);

static enum tmk_status same_values(const struct tmk_profile *a, const struct tmk_profile *b,
                                   same_fn *same, struct tmk_diag *diag) {
    TMK_TRY(same_number("the number of values", a->n_tensors, b->n_tensors, diag));
    for (uint32_t i = 0; i < a->n_tensors; i++)
        TMK_TRY(tmk_in(diag, same(&a->tensors[i], &b->tensors[i], diag), "p%" PRIu32 " '%s'",
                       a->tensors[i].id, a->tensors[i].name));
    return TMK_OK;
}

/* ---- adding up ---- */

static bool add_count(uint64_t *to, uint64_t more) {
    return !__builtin_add_overflow(*to, more, to);
}

/* The lesser name, so that the order of merging does not show. */
static enum tmk_status keep_lesser(struct tmk_profile *dst, const char **kept, const char *other,
                                   struct tmk_diag *diag) {
    if (strcmp(*kept, other) <= 0)
        return TMK_OK;
    const char *copy = tmk_profile_text(dst, other);
    TMK_TRY_ALLOC(copy, diag);
    *kept = copy;
    return TMK_OK;
}

static enum tmk_status add_header(struct tmk_profile *dst, const struct tmk_profile *src,
                                  struct tmk_diag *diag) {
    TMK_TRY(keep_lesser(dst, &dst->model.file, src->model.file, diag));
    for (uint32_t i = 0; i < dst->n_sources; i++)
        TMK_TRY(keep_lesser(dst, &dst->sources[i].source, src->sources[i].source, diag));
    /* Samples of two strata are of none. */
    const char *a = tmk_profile_setting_text(dst, TMK_PROFILE_STRATUM);
    const char *b = tmk_profile_setting_text(src, TMK_PROFILE_STRATUM);
    if (a && (!b || strcmp(a, b) != 0))
        tmk_profile_drop_setting(dst, TMK_PROFILE_STRATUM);
    if (!add_count(&dst->ledger.offered, src->ledger.offered) ||
        !add_count(&dst->ledger.run, src->ledger.run) ||
        !add_count(&dst->ledger.skipped, src->ledger.skipped) ||
        !add_count(&dst->ledger.failed, src->ledger.failed) ||
        !add_count(&dst->ledger.batches, src->ledger.batches))
        return tmk_fail(diag, TMK_RANGE, "more samples than can be counted");
    return TMK_OK;
}

static enum tmk_status add_value(struct tmk_profile *profile, struct tmk_profile_tensor *dst,
                                 const struct tmk_profile_tensor *src, struct tmk_diag *diag) {
    if (has_numbers(dst) && is_counted_once(dst))
        return TMK_OK;
    if (has_numbers(src) && !has_numbers(dst)) {
        /* Only src observed the value: its run-time fields are src's. */
        dst->dtype = src->dtype;
        dst->origin = src->origin;
        dst->rule = tmk_profile_text(profile, src->rule);
        TMK_TRY_ALLOC(dst->rule, diag);
        for (uint32_t i = 0; i < src->n_sources; i++)
            TMK_TRY(tmk_profile_add_derivation(dst, src->sources[i], diag));
        if (src->stats)
            TMK_TRY(tmk_stats_create(tmk_stats_level_of(src->stats), &dst->stats, diag));
        dst->has_int_stats = src->has_int_stats;
    }
    uint64_t expected = dst->expected_count;
    if (!add_count(&expected, src->expected_count))
        return tmk_fail(diag, TMK_RANGE, "more elements than can be counted");
    for (uint32_t i = 0; i < src->n_runs; i++)
        TMK_TRY(tmk_profile_add_runs(dst, &src->runs[i].shape, src->runs[i].runs, diag));
    dst->more_runs |= src->more_runs;
    dst->expected_count = expected; /* shapes that were not kept are in it too */
    tmk_topk_merge(&dst->topk, dst->stats, &src->topk, src->stats);
    if (src->stats)
        TMK_TRY(tmk_stats_merge(dst->stats, src->stats, diag));
    if (src->has_int_stats)
        TMK_TRY(tmk_int_stats_merge(&dst->int_stats, &src->int_stats, diag));
    if (has_numbers(dst))
        dst->status = tmk_profile_status_of(dst);
    else if (dst->status == TMK_PROFILE_NEVER)
        dst->status = src->status;
    return TMK_OK;
}

/* ---- extremes of each sample ---- */

static void place_samples(float *to, uint64_t first, const struct tmk_profile *part,
                          const float *from) {
    const struct tmk_profile_ledger *ledger = &part->ledger;
    struct tmk_profile_range range;
    for (uint32_t i = 0; from && tmk_profile_range(part, i, &range); i++)
        memcpy(to + (range.begin - first), from + (range.begin - ledger->first_sample),
               (size_t)(range.end - range.begin) * sizeof *to);
}

/* `dst` has its old coverage still. */
static enum tmk_status join_samples(const struct tmk_profile *dst, const struct tmk_profile *src,
                                    uint32_t at, uint64_t first, uint64_t end,
                                    struct tmk_diag *diag) {
    struct tmk_profile_tensor *to = &dst->tensors[at];
    const struct tmk_profile_tensor *from = &src->tensors[at];
    size_t bytes;
    if (!to->sample_min && !from->sample_min)
        return TMK_OK;
    if (end - first > SIZE_MAX / sizeof(float) ||
        !tmk_mul_size((size_t)(end - first), sizeof(float), &bytes))
        return tmk_nomem(diag);
    float *min = malloc(bytes ? bytes : 1), *max = malloc(bytes ? bytes : 1);
    if (!min || !max) {
        free(min);
        free(max);
        return tmk_nomem(diag);
    }
    for (uint64_t s = 0; s < end - first; s++)
        min[s] = max[s] = NAN;
    place_samples(min, first, dst, to->sample_min);
    place_samples(max, first, dst, to->sample_max);
    place_samples(min, first, src, from->sample_min);
    place_samples(max, first, src, from->sample_max);
    free(to->sample_min);
    free(to->sample_max);
    to->sample_min = min;
    to->sample_max = max;
    to->n_samples = end - first;
    return TMK_OK;
}

/* ---- samples that failed ---- */

/* Those of both, ascending; of more than are listed the first, so that the order of merging does
 * not show. */
static enum tmk_status join_bad(struct tmk_profile *dst, const struct tmk_profile *src,
                                struct tmk_diag *diag) {
    const struct tmk_profile_bad *a = dst->bad, *b = src->bad;
    uint32_t of_a = dst->n_bad, of_b = src->n_bad, i = 0, k = 0;
    enum tmk_status status = TMK_OK;
    if (!of_b)
        return TMK_OK;
    dst->bad = NULL;
    dst->n_bad = 0;
    while (status == TMK_OK && (i < of_a || k < of_b) && dst->n_bad < TMK_PROFILE_MAX_BAD) {
        bool first = k == of_b || (i < of_a && a[i].sample < b[k].sample);
        const struct tmk_profile_bad *bad = first ? &a[i++] : &b[k++];
        status = tmk_profile_add_bad(dst, bad->sample, bad->file, bad->why, diag);
    }
    free((void *)(uintptr_t)a);
    return status;
}

static enum tmk_status add_up(struct tmk_profile *dst, const struct tmk_profile *src,
                              const struct tmk_profile_range *ranges, uint32_t n,
                              struct tmk_diag *diag) {
    uint64_t first = n ? ranges[0].begin : 0, end = n ? ranges[n - 1].end : 0,
             total = tmk_profile_total(dst);
    for (uint32_t i = 0; i < dst->n_tensors; i++) {
        struct tmk_profile_tensor *t = &dst->tensors[i];
        enum tmk_status status = join_samples(dst, src, i, first, end, diag);
        TMK_THEN(status, add_value(dst, t, &src->tensors[i], diag));
        TMK_TRY(tmk_in(diag, status, "p%" PRIu32 " '%s'", t->id, t->name));
    }
    /* In one run, what follows from a value without squares has none. */
    for (bool again = true; again;) {
        again = false;
        for (uint32_t i = 0; i < dst->n_tensors; i++) {
            struct tmk_profile_tensor *t = &dst->tensors[i];
            bool narrow = t->stats && tmk_stats_is_narrow(t->stats) && t->stats->n_wide;
            for (uint32_t k = 0; k < t->n_sources && narrow; k++) {
                const struct tmk_profile_tensor *from = tmk_profile_by_id(dst, t->sources[k]);
                if (!from || !from->stats || tmk_stats_is_narrow(from->stats))
                    continue;
                tmk_stats_coarsen(t->stats);
                narrow = false;
                again = true;
            }
        }
    }
    TMK_TRY(add_header(dst, src, diag));
    TMK_TRY(join_bad(dst, src, diag));
    TMK_TRY(tmk_profile_set_ranges(dst, ranges, n, diag));
    dst->coverage.total = total;
    return TMK_OK;
}

static enum tmk_status merge_profiles(struct tmk_profile *dst, const struct tmk_profile *src,
                                      same_fn *same, struct tmk_diag *diag) {
    struct tmk_profile_range *ranges;
    uint32_t n;
    TMK_TRY(tmk_profile_same_run(dst, src, diag));
    TMK_TRY(is_cut_at_batches(dst, "first", diag));
    TMK_TRY(is_cut_at_batches(src, "second", diag));
    TMK_TRY(tmk_profile_join_ranges(dst, src, &ranges, &n, diag));
    enum tmk_status status = same_values(dst, src, same, diag);
    TMK_THEN(status, add_up(dst, src, ranges, n, diag));
    free(ranges);
    return status;
}

enum tmk_status tmk_profile_merge(struct tmk_profile *dst, const struct tmk_profile *src,
                                  struct tmk_diag *diag) {
    return merge_profiles(dst, src, same_value, diag);
}

enum tmk_status tmk_checkpoint_add(struct tmk_profile *profile,
                                   const struct tmk_profile *checkpoint, struct tmk_diag *diag) {
    return merge_profiles(profile, checkpoint, same_value_so_far, diag);
}

/* ---- files ---- */

/* What each file covered, to name the one that a later one overlaps. */
struct covered {
    struct tmk_profile **files; /* without values */
    size_t n;
};

static enum tmk_status note_ranges(struct covered *covered, const struct tmk_profile *profile,
                                   struct tmk_diag *diag) {
    struct tmk_profile *file;
    TMK_TRY(tmk_profile_create(&file, diag));
    covered->files[covered->n++] = file;
    file->ledger = profile->ledger;
    if (!profile->coverage.n_ranges)
        return TMK_OK;
    return tmk_profile_set_ranges(file, profile->coverage.ranges, profile->coverage.n_ranges, diag);
}

static const char *other_of(const struct covered *covered, const char *const *paths,
                            const struct tmk_profile *profile) {
    for (size_t i = 0; i < covered->n; i++) {
        struct tmk_profile_range *ranges = NULL;
        uint32_t n;
        if (tmk_profile_join_ranges(covered->files[i], profile, &ranges, &n, NULL) != TMK_OK)
            return paths[i];
        free(ranges);
    }
    return paths[0];
}

static enum tmk_status merge_next(struct tmk_profile **whole, struct covered *covered,
                                  const char *const *paths, const char *path,
                                  struct tmk_diag *diag) {
    struct tmk_profile *part;
    TMK_TRY(tmk_profile_read(path, &part, diag));
    enum tmk_status status = note_ranges(covered, part, diag);
    if (status == TMK_OK && !*whole) {
        *whole = part;
        return TMK_OK;
    }
    if (status == TMK_OK) {
        covered->n--; /* of those before it */
        status = tmk_profile_merge(*whole, part, diag);
        status = tmk_in(diag, status, "%s and %s", other_of(covered, paths, part), path);
        covered->n++;
    }
    tmk_profile_destroy(&part);
    return status;
}

enum tmk_status tmk_profile_merge_files(const char *const *paths, size_t n,
                                        struct tmk_profile **out, struct tmk_diag *diag) {
    struct tmk_profile *whole = NULL;
    if (n == 0)
        return tmk_fail(diag, TMK_ARGUMENT, "there is nothing to merge");
    struct covered covered = {calloc(n, sizeof(struct tmk_profile *)), 0};
    enum tmk_status status = covered.files ? TMK_OK : tmk_nomem(diag);
    for (size_t i = 0; status == TMK_OK && i < n; i++)
        status = merge_next(&whole, &covered, paths, paths[i], diag);
    for (size_t i = 0; i < covered.n; i++)
        tmk_profile_destroy(&covered.files[i]);
    free(covered.files);
    if (status == TMK_OK)
        *out = whole;
    else
        tmk_profile_destroy(&whole);
    return status;
}
