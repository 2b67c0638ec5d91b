/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics from a file's record. */
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

static enum tmk_status fail_differs(struct tmk_diag *diag, const char *key, const char *written,
                                    const char *is) {
    return tmk_fail(diag, TMK_MISMATCH, "'%s' is %s, but the histogram gives %s", key, written, is);
}

/* What else follows from the histogram. NaN: not in the file. Not to the bit, since other releases
 * may estimate otherwise inside the bracket of the squares. */
static enum tmk_status derived_numbers_fit(const struct tmk_summary *summary,
                                           const struct tmk_summary *is, struct tmk_diag *diag) {
    const double close = 1e-6;
    const struct {
        const char *key;
        double written, is, slack;
    } numbers[] = {
        {"mean", summary->mean, is->mean, close * fabs(is->mean)},
        {"std", summary->std, is->std, close * (fabs(is->mean) + is->std)},
        {"sum_squares: low", summary->sumsq_lo, is->sumsq_lo, close * is->sumsq_hi},
        {"sum_squares: high", summary->sumsq_hi, is->sumsq_hi, close * is->sumsq_hi},
    };
    for (size_t i = 0; i < TMK_COUNT(numbers); i++) {
        char a[32], b[32];
        if (isnan(numbers[i].written) ||
            fabs(numbers[i].written - numbers[i].is) <= numbers[i].slack)
            continue;
        snprintf(a, sizeof a, "%.17g", numbers[i].written);
        snprintf(b, sizeof b, "%.17g", numbers[i].is);
        return fail_differs(diag, numbers[i].key, a, b);
    }
    return TMK_OK;
}

enum tmk_status tmk_profile_set_stats(struct tmk_profile_tensor *tensor,
                                      const struct tmk_summary *summary,
                                      const struct tmk_profile_bins *bins, struct tmk_diag *diag) {
    struct tmk_summary is;
    char a[32], b[32];
    TMK_TRY(tmk_stats_restore(summary, bins->bin, bins->count, bins->low, &tensor->stats, diag));
    tmk_stats_summary(tensor->stats, &is);
    if (summary->denormals != is.denormals || summary->negatives != is.negatives) {
        bool which = summary->denormals != is.denormals;
        snprintf(a, sizeof a, "%" PRIu64, which ? summary->denormals : summary->negatives);
        snprintf(b, sizeof b, "%" PRIu64, which ? is.denormals : is.negatives);
        return fail_differs(diag, which ? "denormals" : "negatives", a, b);
    }
    bool unknown = isnan(summary->sum) && isnan(is.sum); /* at a level without bins */
    if (summary->sum != is.sum && !unknown) {
        snprintf(a, sizeof a, "%.17g", summary->sum);
        snprintf(b, sizeof b, "%.17g", is.sum);
        return fail_differs(diag, "sum", a, b);
    }
    return derived_numbers_fit(summary, &is, diag);
}
