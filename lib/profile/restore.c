/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics from what a file says of them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/size.h"
#include "profile/format.h"

enum tmk_status tmk_profile_bins_init(struct tmk_profile_bins *bins, struct tmk_diag *diag) {
    *bins = (struct tmk_profile_bins){
        malloc(TMK_PROFILE_MAX_BINS * sizeof *bins->bin),
        malloc(TMK_PROFILE_MAX_BINS * sizeof *bins->count),
        malloc(TMK_PROFILE_MAX_BINS * sizeof *bins->low),
        malloc(TMK_PROFILE_MAX_BINS * sizeof *bins->squares),
    };
    if (bins->bin && bins->count && bins->low && bins->squares)
        return TMK_OK;
    tmk_profile_bins_finish(bins);
    return tmk_nomem(diag);
}

void tmk_profile_bins_finish(struct tmk_profile_bins *bins) {
    free(bins->bin);
    free(bins->count);
    free(bins->low);
    free(bins->squares);
    *bins = (struct tmk_profile_bins){0};
}

enum tmk_status tmk_profile_add_read(struct tmk_profile *profile, uint32_t id,
                                     struct tmk_profile_tensor **out, struct tmk_diag *diag) {
    enum tmk_status status = tmk_profile_add_tensor(profile, id, out, diag);
    if (status != TMK_ARGUMENT)
        return status;
    if (diag) /* an argument to the call, but here it is the file's */
        diag->status = TMK_FORMAT;
    return TMK_FORMAT;
}

static enum tmk_status differs(struct tmk_diag *diag, const char *key, const char *says,
                               const char *is) {
    return tmk_fail(diag, TMK_MISMATCH, "'%s' is %s, but the histogram gives %s", key, says, is);
}

/* What else follows from the histogram. NaN: the file doesn't say. Not to the bit, since other
 * releases may estimate otherwise inside the bracket of the squares. */
static enum tmk_status derived_numbers_fit(const struct tmk_summary *facts,
                                           const struct tmk_summary *is, struct tmk_diag *diag) {
    const double close = 1e-6;
    const struct {
        const char *key;
        double says, is, slack;
    } numbers[] = {
        {"mean", facts->mean, is->mean, close * fabs(is->mean)},
        {"std", facts->std, is->std, close * (fabs(is->mean) + is->std)},
        {"sum_squares: low", facts->sumsq_lo, is->sumsq_lo, close * is->sumsq_hi},
        {"sum_squares: high", facts->sumsq_hi, is->sumsq_hi, close * is->sumsq_hi},
    };
    for (size_t i = 0; i < TMK_COUNT(numbers); i++) {
        char a[32], b[32];
        if (isnan(numbers[i].says) || fabs(numbers[i].says - numbers[i].is) <= numbers[i].slack)
            continue;
        snprintf(a, sizeof a, "%.17g", numbers[i].says);
        snprintf(b, sizeof b, "%.17g", numbers[i].is);
        return differs(diag, numbers[i].key, a, b);
    }
    return TMK_OK;
}

enum tmk_status tmk_profile_set_stats(struct tmk_profile_tensor *tensor,
                                      const struct tmk_summary *facts,
                                      const struct tmk_profile_bins *bins, struct tmk_diag *diag) {
    struct tmk_summary is;
    char a[32], b[32];
    TMK_TRY(tmk_stats_restore(facts, bins->bin, bins->count, bins->low, &tensor->stats, diag));
    tmk_stats_summary(tensor->stats, &is);
    if (facts->denormals != is.denormals || facts->negatives != is.negatives) {
        bool which = facts->denormals != is.denormals;
        snprintf(a, sizeof a, "%" PRIu64, which ? facts->denormals : facts->negatives);
        snprintf(b, sizeof b, "%" PRIu64, which ? is.denormals : is.negatives);
        return differs(diag, which ? "denormals" : "negatives", a, b);
    }
    bool unknown = isnan(facts->sum) && isnan(is.sum); /* at a level without bins */
    if (facts->sum != is.sum && !unknown) {
        snprintf(a, sizeof a, "%.17g", facts->sum);
        snprintf(b, sizeof b, "%.17g", is.sum);
        return differs(diag, "sum", a, b);
    }
    return derived_numbers_fit(facts, &is, diag);
}
