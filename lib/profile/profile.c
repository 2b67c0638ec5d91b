/* SPDX-License-Identifier: Apache-2.0 */
#include <tidemark/profile.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/size.h"
#include "base/text.h"
#include "profile/format.h"
#include "tensor/shape.h"

enum tmk_status tmk_profile_create(struct tmk_profile **out, struct tmk_diag *diag) {
    struct tmk_profile *profile = calloc(1, sizeof *profile);
    TMK_TRY_ALLOC(profile, diag);
    profile->arena = calloc(1, sizeof *profile->arena);
    if (!profile->arena) {
        free(profile);
        return tmk_nomem(diag);
    }
    profile->version.major = TMK_PROFILE_MAJOR;
    profile->version.minor = TMK_PROFILE_MINOR;
    profile->producer.name = profile->producer.version = "";
    profile->producer.isa = profile->producer.kernels = "";
    profile->model.file = profile->model.sha256 = profile->model.format = "";
    *out = profile;
    return TMK_OK;
}

void tmk_profile_destroy(struct tmk_profile **slot) {
    struct tmk_profile *profile = *slot;
    *slot = NULL;
    if (!profile)
        return;
    for (uint32_t i = 0; i < profile->n_tensors; i++) {
        struct tmk_profile_tensor *t = &profile->tensors[i];
        free(t->runs);
        free(t->consumers);
        free(t->operands);
        free(t->sources);
        free(t->sample_min);
        free(t->sample_max);
        tmk_stats_destroy(&t->stats);
    }
    free(profile->tensors);
    free(profile->model.opsets);
    free(profile->sources);
    free(profile->settings);
    free(profile->coverage.ranges);
    free(profile->bad);
    tmk_arena_finish(profile->arena);
    free(profile->arena);
    free(profile);
}

const char *tmk_profile_text(struct tmk_profile *profile, const char *text) {
    return *text ? tmk_arena_strdup(profile->arena, text) : "";
}

bool tmk_profile_grow(void *array, uint32_t n, size_t size) {
    size_t bytes;
    void *items;
    if (n & (n - 1))
        return true;
    if (n > UINT32_MAX / 2 || !tmk_mul_size(n ? (size_t)n * 2 : 1, size, &bytes))
        return false;
    memcpy(&items, array, sizeof items);
    void *grown = realloc(items, bytes);
    if (grown)
        memcpy(array, &grown, sizeof grown);
    return grown != NULL;
}

enum tmk_status tmk_profile_add_opset(struct tmk_profile *profile, const char *domain,
                                      int64_t version, struct tmk_diag *diag) {
    TMK_TRY_ALLOC(TMK_PROFILE_GROW(profile->model.opsets, profile->model.n_opsets), diag);
    struct tmk_profile_opset opset = {tmk_profile_text(profile, domain), version};
    TMK_TRY_ALLOC(opset.domain, diag);
    profile->model.opsets[profile->model.n_opsets++] = opset;
    return TMK_OK;
}

enum tmk_status tmk_profile_add_source(struct tmk_profile *profile, const char *input,
                                       const char *source, uint64_t samples, const char *hash,
                                       struct tmk_diag *diag) {
    TMK_TRY_ALLOC(TMK_PROFILE_GROW(profile->sources, profile->n_sources), diag);
    struct tmk_profile_source added = {tmk_profile_text(profile, input),
                                       tmk_profile_text(profile, source), samples,
                                       tmk_profile_text(profile, hash)};
    TMK_TRY_ALLOC(added.input && added.source && added.hash, diag);
    profile->sources[profile->n_sources++] = added;
    return TMK_OK;
}

enum tmk_status tmk_profile_add_bad(struct tmk_profile *profile, uint64_t sample, const char *file,
                                    const char *why, struct tmk_diag *diag) {
    TMK_TRY_ALLOC(TMK_PROFILE_GROW(profile->bad, profile->n_bad), diag);
    struct tmk_profile_bad added = {sample, tmk_profile_text(profile, file),
                                    tmk_profile_text(profile, why)};
    TMK_TRY_ALLOC(added.file && added.why, diag);
    profile->bad[profile->n_bad++] = added;
    return TMK_OK;
}

enum tmk_status tmk_profile_add_setting(struct tmk_profile *profile, const char *key,
                                        const char *value, struct tmk_diag *diag) {
    TMK_TRY_ALLOC(TMK_PROFILE_GROW(profile->settings, profile->n_settings), diag);
    struct tmk_profile_setting added = {tmk_profile_text(profile, key),
                                        tmk_profile_text(profile, value)};
    TMK_TRY_ALLOC(added.key && added.value, diag);
    profile->settings[profile->n_settings++] = added;
    return TMK_OK;
}

enum tmk_status tmk_profile_add_tensor(struct tmk_profile *profile, uint32_t id,
                                       struct tmk_profile_tensor **out, struct tmk_diag *diag) {
    if (profile->n_tensors && id <= profile->tensors[profile->n_tensors - 1].id)
        return tmk_fail(diag, TMK_ARGUMENT,
                        "p%" PRIu32 " does not come after p%" PRIu32
                        ": records are added in the order of their IDs",
                        id, profile->tensors[profile->n_tensors - 1].id);
    TMK_TRY_ALLOC(TMK_PROFILE_GROW(profile->tensors, profile->n_tensors), diag);
    struct tmk_profile_tensor *added = &profile->tensors[profile->n_tensors++];
    *added = (struct tmk_profile_tensor){
        .id = id,
        .name = "",
        .path = "",
        .rule = "",
        .producer = {"", "", "", 0},
    };
    *out = added;
    return TMK_OK;
}

enum tmk_status tmk_profile_add_consumer(struct tmk_profile *profile,
                                         struct tmk_profile_tensor *tensor, const char *node,
                                         const char *op, const char *domain, uint32_t input,
                                         struct tmk_diag *diag) {
    TMK_TRY_ALLOC(TMK_PROFILE_GROW(tensor->consumers, tensor->n_consumers), diag);
    struct tmk_profile_consumer added = {tmk_profile_text(profile, node),
                                         tmk_profile_text(profile, op),
                                         tmk_profile_text(profile, domain), input};
    TMK_TRY_ALLOC(added.node && added.op && added.domain, diag);
    tensor->consumers[tensor->n_consumers++] = added;
    return TMK_OK;
}

enum tmk_status tmk_profile_add_operand(struct tmk_profile_tensor *tensor, uint32_t operand,
                                        struct tmk_diag *diag) {
    for (uint32_t i = 0; i < tensor->n_operands; i++)
        if (tensor->operands[i] == operand)
            return TMK_OK;
    TMK_TRY_ALLOC(TMK_PROFILE_GROW(tensor->operands, tensor->n_operands), diag);
    tensor->operands[tensor->n_operands++] = operand;
    return TMK_OK;
}

enum tmk_status tmk_profile_add_derivation(struct tmk_profile_tensor *tensor, uint32_t source,
                                           struct tmk_diag *diag) {
    TMK_TRY_ALLOC(TMK_PROFILE_GROW(tensor->sources, tensor->n_sources), diag);
    tensor->sources[tensor->n_sources++] = source;
    return TMK_OK;
}

/* Keeping the first shapes in a fixed order, not the first that came, makes the list independent of
 * schedule and merge order: a shape that is among the first of all is among the first of every
 * part, so its count is whole. */
static enum tmk_status insert_run(struct tmk_profile_tensor *tensor, uint32_t at,
                                  const struct tmk_profile_run *run, struct tmk_diag *diag) {
    if (at == TMK_PROFILE_MAX_RUNS) {
        tensor->more_runs = true;
        return TMK_OK;
    }
    if (tensor->n_runs == TMK_PROFILE_MAX_RUNS) {
        tensor->more_runs = true;
        tensor->n_runs--;
    } else {
        TMK_TRY_ALLOC(TMK_PROFILE_GROW(tensor->runs, tensor->n_runs), diag);
    }
    memmove(&tensor->runs[at + 1], &tensor->runs[at], (tensor->n_runs - at) * sizeof *run);
    tensor->runs[at] = *run;
    tensor->n_runs++;
    return TMK_OK;
}

enum tmk_status tmk_profile_add_runs(struct tmk_profile_tensor *tensor,
                                     const struct tmk_shape *shape, uint64_t runs,
                                     struct tmk_diag *diag) {
    size_t count;
    uint64_t elements, expected;
    if (!tmk_shape_count(shape, &count) || __builtin_mul_overflow(count, runs, &elements) ||
        __builtin_add_overflow(tensor->expected_count, elements, &expected))
        return tmk_fail(diag, TMK_RANGE, "p%" PRIu32 ": %" PRIu64 " runs of %s overflow its count",
                        tensor->id, runs, TMK_SHAPE_TEXT(shape));
    if (runs == 0)
        return TMK_OK;
    uint32_t at = 0;
    int order = 1;
    while (at < tensor->n_runs && (order = tmk_compare_shapes(&tensor->runs[at].shape, shape)) < 0)
        at++;
    if (at < tensor->n_runs && order == 0) {
        if (__builtin_add_overflow(tensor->runs[at].runs, runs, &runs))
            return tmk_fail(diag, TMK_RANGE, "p%" PRIu32 ": too many runs of %s", tensor->id,
                            TMK_SHAPE_TEXT(shape));
        tensor->runs[at].runs = runs;
    } else {
        struct tmk_profile_run run = {{.rank = shape->rank}, runs};
        memcpy(run.shape.dim, shape->dim, (size_t)shape->rank * sizeof shape->dim[0]);
        TMK_TRY(insert_run(tensor, at, &run, diag));
    }
    tensor->expected_count = expected;
    return TMK_OK;
}

enum tmk_profile_status tmk_profile_status_of(const struct tmk_profile_tensor *tensor) {
    if (!tensor->stats && !tensor->has_int_stats)
        return tensor->n_runs && tensor->dtype != TMK_FLOAT32 &&
                       !tmk_int_stats_supports(tensor->dtype)
                   ? TMK_PROFILE_INTEGER
                   : TMK_PROFILE_NEVER;
    if (tensor->has_int_stats)
        return TMK_PROFILE_INTEGER;
    if (tensor->kind == TMK_PROFILE_WEIGHT)
        return TMK_PROFILE_CONSTANT;
    struct tmk_summary summary;
    tmk_stats_quick_summary(tensor->stats, &summary);
    bool one_number =
        summary.finite && summary.finite == summary.count && summary.min == summary.max;
    if (one_number)
        return TMK_PROFILE_DEAD;
    bool by_rule = tensor->n_sources || (tensor->rule && tmk_profile_is_transferred(tensor));
    return by_rule ? TMK_PROFILE_DERIVED : TMK_PROFILE_OBSERVED;
}

const struct tmk_profile_tensor *tmk_profile_by_id(const struct tmk_profile *profile, uint32_t id) {
    const size_t at =
        tmk_lower_bound(profile->tensors, profile->n_tensors, sizeof *profile->tensors, id);
    return at < profile->n_tensors && profile->tensors[at].id == id ? &profile->tensors[at] : NULL;
}

bool tmk_profile_id_of_text(const char *text, uint32_t *out) {
    uint64_t id;
    if (text[0] != 'p' || (text[1] == '0' && text[2]) ||
        !tmk_read_digits(text + 1, strlen(text + 1), &id) || id > UINT32_MAX)
        return false;
    *out = (uint32_t)id;
    return true;
}

uint32_t tmk_profile_find(const struct tmk_profile *profile, const char *pattern, uint32_t from) {
    uint32_t id;
    const struct tmk_profile_tensor *keyed =
        tmk_profile_id_of_text(pattern, &id) ? tmk_profile_by_id(profile, id) : NULL;
    if (keyed) {
        uint32_t at = (uint32_t)(keyed - profile->tensors);
        return at >= from ? at : profile->n_tensors;
    }
    while (from < profile->n_tensors && strcmp(profile->tensors[from].name, pattern) != 0 &&
           !tmk_glob(pattern, profile->tensors[from].name))
        from++;
    return from;
}
