/* SPDX-License-Identifier: Apache-2.0 */
#include "session/sums.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "profile/checkpoint.h"
#include "profile/format.h"

enum tmk_status tmk_sums_init(struct tmk_sums *sums, const struct tmk_run_options *options,
                              struct tmk_diag *diag) {
    uint32_t n = options->strata ? tmk_strata_count(options->strata->labels) : 1;
    *sums = (struct tmk_sums){.profiles = calloc(n, sizeof(struct tmk_profile *)),
                              .before = calloc(n, sizeof(struct tmk_profile *)),
                              .n = n,
                              .strata = options->strata,
                              .checkpoint = options->checkpoint};
    return sums->profiles && sums->before ? TMK_OK : tmk_nomem(diag);
}

void tmk_sums_finish(struct tmk_sums *sums) {
    for (uint32_t i = 0; i < sums->n; i++) {
        if (sums->profiles)
            tmk_profile_destroy(&sums->profiles[i]);
        if (sums->before)
            tmk_profile_destroy(&sums->before[i]);
    }
    free(sums->profiles);
    free(sums->before);
    *sums = (struct tmk_sums){0};
}

const char *tmk_sums_label(const struct tmk_sums *sums, uint32_t stratum) {
    return sums->n > 1 ? tmk_strata_label(sums->strata->labels, stratum) : NULL;
}

enum tmk_status tmk_sums_follow(struct tmk_sums *sums, uint32_t stratum,
                                const struct tmk_profile *last, struct tmk_diag *diag) {
    struct tmk_profile *sum = sums->profiles[stratum];
    sum->coverage.total = tmk_profile_total(last);
    for (uint32_t i = 0; i < sum->n_sources; i++) {
        sum->sources[i].samples = last->sources[i].samples;
        sum->sources[i].hash = tmk_profile_text(sum, last->sources[i].hash);
        if (!sum->sources[i].hash)
            return tmk_nomem(diag);
    }
    return TMK_OK;
}

enum tmk_status tmk_sums_add(struct tmk_sums *sums, uint32_t stratum, struct tmk_profile *leg,
                             struct tmk_diag *diag) {
    struct tmk_profile **sum = &sums->profiles[stratum], **before = &sums->before[stratum];
    enum tmk_status status = TMK_OK;
    if (*sum) {
        status = tmk_sums_follow(sums, stratum, leg, diag);
        if (status == TMK_OK)
            status = tmk_profile_merge(*sum, leg, diag);
        tmk_profile_destroy(&leg);
        return status;
    }
    *sum = leg;
    if (*before)
        status = tmk_in(diag, tmk_checkpoint_add(leg, *before, diag),
                        "%s (the second) is the checkpoint of another run than this (the first)",
                        sums->checkpoint);
    tmk_profile_destroy(before);
    return status;
}

static uint64_t run_of(const struct tmk_profile *profile) {
    return profile ? profile->ledger.run : 0;
}

uint64_t tmk_sums_run(const struct tmk_sums *sums) {
    uint64_t run = 0;
    for (uint32_t i = 0; i < sums->n; i++)
        run += run_of(sums->profiles[i]) + run_of(sums->before[i]);
    return run;
}

/* ---- checkpoints ---- */

enum tmk_status tmk_sums_write(const struct tmk_sums *sums, struct tmk_diag *diag) {
    return tmk_checkpoint_write(sums->profiles, sums->n, sums->checkpoint, diag);
}

static enum tmk_status stratum_of(const struct tmk_sums *sums, const struct tmk_profile *profile,
                                  uint32_t *out, struct tmk_diag *diag) {
    const char *label = tmk_profile_setting_text(profile, TMK_PROFILE_STRATUM);
    uint32_t i = 0;
    if (!label && sums->n > 1)
        return tmk_fail(diag, TMK_MISMATCH, "%s: the checkpoint of a run without strata",
                        sums->checkpoint);
    if (label && sums->n == 1)
        return tmk_fail(diag, TMK_MISMATCH, "%s: the checkpoint of a run with strata",
                        sums->checkpoint);
    while (label && i < sums->n && strcmp(tmk_sums_label(sums, i), label) != 0)
        i++;
    if (i == sums->n)
        return tmk_fail(diag, TMK_MISMATCH,
                        "%s: the checkpoint of a run with the stratum '%s', which the labels do "
                        "not name",
                        sums->checkpoint, label);
    if (sums->before[i])
        return tmk_fail(diag, TMK_FORMAT, "%s: the checkpoint is damaged: it has a part twice",
                        sums->checkpoint);
    *out = i;
    return TMK_OK;
}

enum tmk_status tmk_sums_read(struct tmk_sums *sums, struct tmk_diag *diag) {
    struct tmk_profile **found;
    size_t n;
    TMK_TRY(tmk_checkpoint_read(sums->checkpoint, &found, &n, diag));
    enum tmk_status status = TMK_OK;
    for (size_t i = 0; i < n; i++) {
        uint32_t stratum;
        if (status == TMK_OK)
            status = stratum_of(sums, found[i], &stratum, diag);
        if (status == TMK_OK)
            sums->before[stratum] = found[i];
        else
            tmk_profile_destroy(&found[i]);
    }
    free(found);
    return status;
}

enum tmk_status tmk_sums_covered(const struct tmk_sums *sums, struct tmk_profile **out,
                                 struct tmk_diag *diag) {
    struct tmk_profile *covered;
    enum tmk_status status = TMK_OK;
    TMK_TRY(tmk_profile_create(&covered, diag));
    for (uint32_t i = 0; status == TMK_OK && i < sums->n; i++) {
        struct tmk_profile_range *ranges;
        uint32_t n;
        if (!sums->before[i])
            continue;
        status = tmk_in(diag, tmk_profile_join_ranges(covered, sums->before[i], &ranges, &n, diag),
                        "%s: the checkpoint is damaged", sums->checkpoint);
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

static enum tmk_status hand_out(const struct tmk_sums *sums, uint32_t stratum,
                                struct tmk_diag *diag) {
    const struct tmk_strata_options *strata = sums->strata;
    const struct tmk_profile *profile = sums->profiles[stratum];
    struct tmk_profile_range any;
    if (!strata || !strata->take || !tmk_profile_range(profile, 0, &any))
        return TMK_OK;
    const char *label = tmk_strata_label(strata->labels, stratum);
    TMK_TRY(tmk_in(diag, tmk_profile_balance(profile, diag), "the stratum '%s'", label));
    return strata->take(strata->context, label, profile, diag);
}

enum tmk_status tmk_sums_close(struct tmk_sums *sums, uint32_t stratum, struct tmk_profile **whole,
                               struct tmk_diag *diag) {
    struct tmk_profile **profile = &sums->profiles[stratum];
    if (!*profile)
        return TMK_OK;
    TMK_TRY(hand_out(sums, stratum, diag));
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
