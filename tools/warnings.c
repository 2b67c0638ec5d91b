/* SPDX-License-Identifier: Apache-2.0 */
#include "warnings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "command.h"

#define STILL_MOVING 0.01

static const char *what_it_is(const struct tmk_profile_tensor *t, char *out, size_t size) {
    if (t->has_producer)
        snprintf(out, size, "output %" PRIu32 " of %s '%s'", t->producer.output, t->producer.op,
                 t->producer.node);
    else
        snprintf(out, size, "%s %s",
                 t->kind == TMK_PROFILE_WEIGHT ? "a"
                 : t->path[0]                  ? "of a sub-graph an"
                                               : "an",
                 tmk_profile_kind_name(t->kind));
    return out;
}

static void remark_on_nonfinite(const struct tmk_profile *profile) {
    struct tmk_nonfinite *all;
    uint32_t n, first = 0, began = 0, inherited = 0;
    if (tmk_profile_nonfinite(profile, &all, &n, NULL) != TMK_OK || !n)
        return;
    for (uint32_t i = n; i-- > 0;) {
        first = all[i].n_from ? first : i;
        began += !all[i].n_from;
        inherited += all[i].downstream;
    }
    const struct tmk_profile_tensor *t = tmk_profile_by_id(profile, all[first].id);
    struct tmk_summary s;
    char what[512], more[96] = "";
    tmk_stats_facts(t->stats, &s);
    if (began > 1)
        snprintf(more, sizeof more, "; more begins in %" PRIu32 " other%s", began - 1,
                 began == 2 ? "" : "s");
    warn_of("NaN or infinity begins in p%" PRIu32 " '%s', %s: first at sample %" PRIu64
            ", element %" PRIu64 " (%" PRIu64 " NaN, %" PRIu64 " infinite in all); %" PRIu32
            " value%s downstream inherit%s it%s",
            t->id, t->name, what_it_is(t, what, sizeof what), s.first_nonfinite.sample,
            s.first_nonfinite.index, s.nan, s.posinf + s.neginf, inherited,
            inherited == 1 ? "" : "s", inherited == 1 ? "s" : "", more);
    free(all);
}

static void remark_on_flags(const struct tmk_profile *profile) {
    uint32_t saturated = 0, with_dead = 0;
    size_t dead = 0;
    for (uint32_t i = 0; i < profile->n_tensors; i++) {
        const struct tmk_profile_tensor *t = &profile->tensors[i];
        struct tmk_flags flags;
        if (t->kind == TMK_PROFILE_WEIGHT || tmk_profile_flags(t, &flags, NULL) != TMK_OK ||
            flags.constant)
            continue;
        saturated += flags.saturated;
        with_dead += flags.dead_channels > 0;
        dead += flags.dead_channels;
    }
    if (saturated + with_dead)
        warn_of("%" PRIu32 " with dead channels (%zu in all), %" PRIu32
                " saturated: `tidemark show` marks them",
                with_dead, dead, saturated);
}

/* Numbers that stand for something else, and numbers that are most of a value. */
static void remark_on_sentinels(const struct tmk_profile *profile) {
    const struct tmk_profile_tensor *first = NULL, *spiked = NULL;
    struct tmk_flags of_first = {0}, of_spiked = {0};
    uint32_t sentinels = 0, spikes = 0;
    for (uint32_t i = 0; i < profile->n_tensors; i++) {
        const struct tmk_profile_tensor *t = &profile->tensors[i];
        struct tmk_flags flags;
        if (tmk_profile_flags(t, &flags, NULL) != TMK_OK)
            continue;
        if ((flags.min_is || flags.max_is) && !sentinels++) {
            first = t;
            of_first = flags;
        }
        if (flags.at_spike && !flags.saturated && !spikes++) {
            spiked = t;
            of_spiked = flags;
        }
    }
    if (first) {
        struct tmk_summary s;
        char more[48] = "", exclude[64] = "";
        tmk_stats_facts(first->stats, &s);
        float value = of_first.min_is ? s.min : s.max;
        if (sentinels > 1)
            snprintf(more, sizeof more, ", and %" PRIu32 " more values are like it", sentinels - 1);
        if (tmk_sentinel(value))
            snprintf(exclude, sizeof exclude, "; --exclude=%.9g leaves it out", (double)value);
        remark("p%" PRIu32 " '%s' reaches %.9g, %s%s%s", first->id, first->name, (double)value,
               of_first.min_is ? of_first.min_is : of_first.max_is, more, exclude);
    }
    if (spiked)
        remark("%" PRIu32
               " value%s one number, not 0, in a tenth of the elements or more: p%" PRIu32
               " '%s' is %.9g in %" PRIu64,
               spikes, spikes == 1 ? " has" : "s have", spiked->id, spiked->name,
               (double)of_spiked.spike, of_spiked.at_spike);
}

void remark_on_numbers(const struct tmk_profile *profile) {
    if (is_quiet())
        return;
    remark_on_nonfinite(profile);
    remark_on_flags(profile);
    remark_on_sentinels(profile);
}

void remark_on_meter(const struct tmk_meter *meter, bool stable) {
    size_t last = tmk_meter_snapshots(meter), before;
    struct tmk_movement worst;
    if (is_quiet() || last < 2)
        return;
    for (before = --last; before > 0; before--) /* to the last doubling */
        if (before < last && 2 * tmk_meter_offered(meter, before) <= tmk_meter_offered(meter, last))
            break;
    uint64_t from = tmk_meter_offered(meter, before), to = tmk_meter_offered(meter, last);
    uint32_t n = tmk_meter_moved(meter, before, last, STILL_MOVING, &worst);
    if (stable)
        remark("stable: enough after %" PRIu64 " samples", to);
    if (worst.share > 0)
        remark("from %" PRIu64 " to %" PRIu64 " samples, thresholds of %" PRIu32 " of %" PRIu32
               " values moved by more than %g %% of their range; most that of p%" PRIu32
               " '%s': its %s by %.2g %%",
               from, to, n, tmk_meter_values(meter, last), 100 * STILL_MOVING, worst.id, worst.name,
               worst.threshold, 100 * worst.share);
    else
        remark("from %" PRIu64 " to %" PRIu64 " samples, no threshold moved", from, to);
}
