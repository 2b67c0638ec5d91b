/* SPDX-License-Identifier: Apache-2.0 */
#include "session/partials.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "profile/checkpoint.h"
#include "profile/format.h"
#include "tensor/shape.h"

enum tmk_status tmk_partials_init(struct tmk_partials *partials,
                                  const struct tmk_run_options *options, struct tmk_diag *diag) {
    const struct tmk_strata *labels = options->data.strata;
    uint32_t n = labels ? tmk_strata_count(labels) : 1;
    *partials = (struct tmk_partials){.profiles = calloc(n, sizeof(struct tmk_profile *)),
                                      .before = calloc(n, sizeof(struct tmk_profile *)),
                                      .n = n,
                                      .labels = labels,
                                      .strata = options->strata,
                                      .checkpoint = options->checkpoint.path};
    return partials->profiles && partials->before ? TMK_OK : tmk_nomem(diag);
}

void tmk_partials_finish(struct tmk_partials *partials) {
    for (uint32_t i = 0; i < partials->n; i++) {
        if (partials->profiles)
            tmk_profile_destroy(&partials->profiles[i]);
        if (partials->before)
            tmk_profile_destroy(&partials->before[i]);
    }
    free(partials->profiles);
    free(partials->before);
    *partials = (struct tmk_partials){0};
}

const char *tmk_partials_label(const struct tmk_partials *partials, uint32_t stratum) {
    return partials->n > 1 ? tmk_strata_label(partials->labels, stratum) : NULL;
}

enum tmk_status tmk_partials_follow(struct tmk_partials *partials, uint32_t stratum,
                                    const struct tmk_profile *last, struct tmk_diag *diag) {
    struct tmk_profile *sum = partials->profiles[stratum];
    sum->coverage.total = tmk_profile_total(last);
    for (uint32_t i = 0; i < sum->n_sources; i++) {
        sum->sources[i].samples = last->sources[i].samples;
        sum->sources[i].hash = tmk_profile_text(sum, last->sources[i].hash);
        TMK_TRY_ALLOC(sum->sources[i].hash, diag);
    }
    return TMK_OK;
}

enum tmk_status tmk_partials_add(struct tmk_partials *partials, uint32_t stratum,
                                 struct tmk_profile *segment, struct tmk_diag *diag) {
    struct tmk_profile **sum = &partials->profiles[stratum], **before = &partials->before[stratum];
    enum tmk_status status = TMK_OK;
    if (*sum) {
        status = tmk_partials_follow(partials, stratum, segment, diag);
        TMK_THEN(status, tmk_profile_merge(*sum, segment, diag));
        tmk_profile_destroy(&segment);
        return status;
    }
    *sum = segment;
    if (*before)
        status = tmk_in(diag, tmk_checkpoint_add(segment, *before, diag),
                        "%s (the second) is the checkpoint of another run than this (the first)",
                        partials->checkpoint);
    tmk_profile_destroy(before);
    return status;
}

static uint64_t run_of(const struct tmk_profile *profile) {
    return profile ? profile->ledger.run : 0;
}

uint64_t tmk_partials_run(const struct tmk_partials *partials) {
    uint64_t run = 0;
    for (uint32_t i = 0; i < partials->n; i++)
        run += run_of(partials->profiles[i]) + run_of(partials->before[i]);
    return run;
}

/* ---- checkpoints ---- */

enum tmk_status tmk_partials_write(const struct tmk_partials *partials, struct tmk_diag *diag) {
    return tmk_checkpoint_write(partials->profiles, partials->n, partials->checkpoint, diag);
}

static enum tmk_status stratum_of(const struct tmk_partials *partials,
                                  const struct tmk_profile *profile, uint32_t *out,
                                  struct tmk_diag *diag) {
    const char *label = tmk_profile_setting_text(profile, TMK_PROFILE_STRATUM);
    uint32_t i = 0;
    if (!label && partials->n > 1)
        return tmk_fail(diag, TMK_MISMATCH, "%s: the checkpoint of a run without strata",
                        partials->checkpoint);
    if (label && partials->n == 1)
        return tmk_fail(diag, TMK_MISMATCH, "%s: the checkpoint of a run with strata",
                        partials->checkpoint);
    while (label && i < partials->n && strcmp(tmk_partials_label(partials, i), label) != 0)
        i++;
    if (i == partials->n)
        return tmk_fail(diag, TMK_MISMATCH,
                        "%s: the checkpoint of a run with the stratum '%s', which the labels do "
                        "not name",
                        partials->checkpoint, label);
    if (partials->before[i])
        return tmk_fail(diag, TMK_FORMAT, "%s: the checkpoint is damaged: it has a part twice",
                        partials->checkpoint);
    *out = i;
    return TMK_OK;
}

enum tmk_status tmk_partials_read(struct tmk_partials *partials, struct tmk_diag *diag) {
    struct tmk_profile **found;
    size_t n;
    TMK_TRY(tmk_checkpoint_read(partials->checkpoint, &found, &n, diag));
    enum tmk_status status = TMK_OK;
    for (size_t i = 0; i < n; i++) {
        uint32_t stratum;
        TMK_THEN(status, stratum_of(partials, found[i], &stratum, diag));
        if (status == TMK_OK)
            partials->before[stratum] = found[i];
        else
            tmk_profile_destroy(&found[i]);
    }
    free(found);
    return status;
}

enum tmk_status tmk_partials_covered(const struct tmk_partials *partials, struct tmk_profile **out,
                                     struct tmk_diag *diag) {
    struct tmk_profile *covered;
    enum tmk_status status = TMK_OK;
    TMK_TRY(tmk_profile_create(&covered, diag));
    for (uint32_t i = 0; status == TMK_OK && i < partials->n; i++) {
        struct tmk_profile_range *ranges;
        uint32_t n;
        if (!partials->before[i])
            continue;
        status =
            tmk_in(diag, tmk_profile_join_ranges(covered, partials->before[i], &ranges, &n, diag),
                   "%s: the checkpoint is damaged", partials->checkpoint);
        if (status == TMK_OK) {
            status = tmk_profile_set_ranges(covered, ranges, n, diag);
            free(ranges);
        }
    }
    if (status == TMK_OK)
        *out = covered;
    else
        tmk_profile_destroy(&covered);
    return status;
}

/* ---- the end ---- */

static enum tmk_status finish_stratum(const struct tmk_partials *partials, uint32_t stratum,
                                      struct tmk_diag *diag) {
    const struct tmk_strata_options *strata = &partials->strata;
    const struct tmk_profile *profile = partials->profiles[stratum];
    struct tmk_profile_range any;
    if (!partials->labels || !strata->take || !tmk_profile_range(profile, 0, &any))
        return TMK_OK;
    const char *label = tmk_strata_label(partials->labels, stratum);
    TMK_TRY(tmk_in(diag, tmk_profile_validate(profile, diag), "the stratum '%s'", label));
    return strata->take(strata->context, label, profile, diag);
}

enum tmk_status tmk_partials_close(struct tmk_partials *partials, uint32_t stratum,
                                   struct tmk_profile **whole, struct tmk_diag *diag) {
    struct tmk_profile **profile = &partials->profiles[stratum];
    if (!*profile)
        return TMK_OK;
    TMK_TRY(finish_stratum(partials, stratum, diag));
    if (!*whole) {
        tmk_profile_drop_setting(*profile, TMK_PROFILE_STRATUM);
        *whole = *profile;
        *profile = NULL;
        return TMK_OK;
    }
    enum tmk_status status = tmk_profile_merge(*whole, *profile, diag);
    tmk_profile_destroy(profile);
    return status;
}

enum tmk_status tmk_gathered_append(struct tmk_gathered *gathered, const struct tmk_tensor *tensor,
                                    bool join, struct tmk_diag *diag) {
    struct tmk_shape shape = tensor->shape;
    join = join && shape.rank > 0;
    if (gathered->batches) {
        if (join)
            shape.dim[0] = gathered->shape.dim[0];
        if (gathered->dtype != tensor->dtype || !tmk_shape_equal(&shape, &gathered->shape))
            return tmk_fail(diag, TMK_SHAPE,
                            "'%s' is %s in one batch and %s in another, and is to be one array; "
                            "--skip and --limit choose samples",
                            gathered->name, TMK_SHAPE_TEXT(&gathered->shape),
                            TMK_SHAPE_TEXT(&tensor->shape));
        if (join)
            gathered->shape.dim[0] += tensor->shape.dim[0];
    } else {
        gathered->dtype = tensor->dtype;
        gathered->shape = shape;
    }
    size_t bytes = tmk_tensor_bytes(tensor), need;
    TMK_TRY_ALLOC(tmk_add_size(gathered->used, bytes, &need), diag);
    if (need > gathered->size) {
        size_t size = gathered->size ? gathered->size : 4096;
        while (size < need && tmk_mul_size(size, 2, &size)) {
        }
        unsigned char *grown = size >= need ? realloc(gathered->bytes, size) : NULL;
        TMK_TRY_ALLOC(grown, diag);
        gathered->bytes = grown;
        gathered->size = size;
    }
    if (bytes)
        memcpy(gathered->bytes + gathered->used, tensor->data, bytes);
    gathered->used = need;
    gathered->batches++;
    return TMK_OK;
}

enum tmk_status tmk_gathered_tensor(const struct tmk_gathered *gathered, bool join,
                                    struct tmk_tensor *out, struct tmk_diag *diag) {
    struct tmk_shape shape = gathered->shape;
    if (!join || !shape.rank) {
        if (shape.rank == TMK_MAX_RANK)
            return tmk_fail(diag, TMK_SHAPE, "'%s' has too many axes to stack", gathered->name);
        tmk_shape_insert(&shape, 0, (int64_t)gathered->batches);
    }
    tmk_tensor_borrow(out, gathered->dtype, &shape, gathered->bytes);
    return TMK_OK;
}

void tmk_gathered_finish(struct tmk_gathered *gathered) {
    free(gathered->bytes);
    gathered->bytes = NULL;
}
