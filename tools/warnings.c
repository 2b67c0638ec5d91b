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
    tmk_stats_quick_summary(t->stats, &s);
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

/* A value that is named for others. */
struct example {
    const struct tmk_profile_tensor *tensor;
    struct tmk_flags flags;
    uint32_t n; /* it and the others */
};

static void count_example(struct example *example, bool is, const struct tmk_profile_tensor *tensor,
                          const struct tmk_flags *flags) {
    if (is && !example->n++) {
        example->tensor = tensor;
        example->flags = *flags;
    }
}

static void remark_on_sentinels(const struct example *like) {
    const struct tmk_profile_tensor *t = like->tensor;
    struct tmk_summary s;
    char more[48] = "", exclude[64] = "";
    tmk_stats_quick_summary(t->stats, &s);
    float value = like->flags.min_is ? s.min : s.max;
    if (like->n > 1)
        snprintf(more, sizeof more, ", and %" PRIu32 " more value%s like it", like->n - 1,
                 like->n == 2 ? " is" : "s are");
    if (tmk_sentinel(value))
        snprintf(exclude, sizeof exclude, "; --exclude=%.9g leaves it out", (double)value);
    warn_of("p%" PRIu32 " '%s' reaches %.9g, %s%s%s", t->id, t->name, (double)value,
            like->flags.min_is ? like->flags.min_is : like->flags.max_is, more, exclude);
}

static void remark_on_flags(const struct tmk_profile *profile) {
    uint32_t saturated = 0, with_dead = 0;
    size_t dead = 0;
    struct example sentinel = {0}, spike = {0};
    for (uint32_t i = 0; i < profile->n_tensors; i++) {
        const struct tmk_profile_tensor *t = &profile->tensors[i];
        if (t->kind == TMK_PROFILE_WEIGHT)
            continue;
        const struct tmk_flags flags = tmk_profile_flags(t);
        count_example(&sentinel, flags.min_is || flags.max_is, t, &flags);
        count_example(&spike, flags.at_spike && !flags.saturated, t, &flags);
        saturated += flags.saturated;
        with_dead += !flags.constant && flags.dead_channels > 0;
        dead += flags.constant ? 0 : flags.dead_channels;
    }
    char of_dead[64] = "", of_saturated[32] = "";
    if (with_dead)
        snprintf(of_dead, sizeof of_dead, "%" PRIu32 " with dead channels (%zu in all)", with_dead,
                 dead);
    if (saturated)
        snprintf(of_saturated, sizeof of_saturated, "%" PRIu32 " saturated", saturated);
    if (saturated + with_dead)
        warn_of("%s%s%s: `tidemark show` marks them", of_dead, with_dead && saturated ? ", " : "",
                of_saturated);
    if (sentinel.n)
        remark_on_sentinels(&sentinel);
    if (spike.n)
        warn_of("%" PRIu32
                " value%s one number, not 0, in a tenth of the elements or more: p%" PRIu32
                " '%s' is %.9g in %" PRIu64,
                spike.n, spike.n == 1 ? " has" : "s have", spike.tensor->id, spike.tensor->name,
                (double)spike.flags.spike, spike.flags.at_spike);
}

void remark_on_thinned(const struct tmk_profile *profile) {
    char text[512];
    if (tmk_profile_thinned(profile, text, sizeof text))
        print_remark("%s", text);
}

void remark_on_numbers(const struct tmk_profile *profile) {
    if (is_quiet())
        return;
    remark_on_nonfinite(profile);
    remark_on_flags(profile);
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
        print_remark("stable: enough after %" PRIu64 " samples", to);
    if (worst.share > 0)
        print_remark("from %" PRIu64 " to %" PRIu64 " samples, thresholds of %" PRIu32
                     " of %" PRIu32
                     " values moved by more than %g %% of their range; most that of p%" PRIu32
                     " '%s': its %s by %.2g %%",
                     from, to, n, tmk_meter_values(meter, last), 100 * STILL_MOVING, worst.id,
                     worst.name, worst.threshold, 100 * worst.share);
    else
        print_remark("from %" PRIu64 " to %" PRIu64 " samples, no threshold moved", from, to);
}
