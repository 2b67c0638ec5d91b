/* SPDX-License-Identifier: Apache-2.0 */
/* A profile from one end of a lineage to the other. How statistics change on the way is in
 * transfer_stats.c; here is which original a value's statistics come from. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "profile/transfer.h"

static enum tmk_status same_value(const struct tmk_profile_tensor *t,
                                  const struct tmk_lineage_identity *is, struct tmk_diag *diag) {
    if (t->fingerprint == is->fingerprint && t->content == is->content)
        return TMK_OK;
    return tmk_fail(diag, TMK_MISMATCH,
                    "p%" PRIu32 " '%s' is not what the lineage has as p%" PRIu32 " '%s': %s", t->id,
                    t->name, t->id, is->name,
                    t->fingerprint == is->fingerprint ? "it has other weights"
                                                      : "it is another model");
}

static enum tmk_status same_end(const struct tmk_profile *profile,
                                const struct tmk_lineage_record *lineage, bool original,
                                struct tmk_diag *diag) {
    uint32_t n = original ? lineage->n_originals : lineage->n_values;
    if (profile->n_tensors != n)
        return tmk_fail(diag, TMK_MISMATCH,
                        "%s is another model: it has %" PRIu32 " values, the lineage's %s %" PRIu32,
                        profile->model.file, profile->n_tensors,
                        original ? "original" : "transformed model", n);
    for (uint32_t i = 0; i < n; i++)
        TMK_TRY(
            tmk_in(diag,
                   same_value(&profile->tensors[i],
                              original ? &lineage->originals[i].is : &lineage->values[i].is, diag),
                   "%s", profile->model.file));
    return TMK_OK;
}

/* ---- the header ---- */

/* ---- the source of a value's statistics ---- */

/* How much of the numbers a verdict keeps: less is better. */
static int loss_of(enum tmk_lineage_verdict verdict) {
    static const int losses[TMK_LINEAGE_VERDICTS] = {
        [TMK_LINEAGE_SAME] = 0,     [TMK_LINEAGE_MERGED] = 1, [TMK_LINEAGE_CONSTANT] = 2,
        [TMK_LINEAGE_VIEW] = 3,     [TMK_LINEAGE_AFFINE] = 4, [TMK_LINEAGE_QUANTIZED] = 5,
        [TMK_LINEAGE_ABSORBED] = 6, [TMK_LINEAGE_DEAD] = 6,
    };
    return losses[verdict];
}

static const struct tmk_lineage_original *source_of(const struct tmk_transfer *c, uint32_t id,
                                                    const struct tmk_profile_tensor **source) {
    if (!c->back) {
        /* The original whose verdict keeps most of the value's statistics; NULL: none. */
        const struct tmk_lineage_original *best = NULL;
        for (uint32_t i = 0; i < c->lineage->values[id].n_originals; i++) {
            const struct tmk_lineage_original *o =
                &c->lineage->originals[c->lineage->values[id].originals[i]];
            const struct tmk_profile_tensor *t =
                &c->from->tensors[c->lineage->values[id].originals[i]];
            if (!t->stats && !t->has_int_stats)
                continue;
            if (best && loss_of(o->verdict) >= loss_of(best->verdict))
                continue;
            best = o;
            *source = t;
        }
        return best;
    }
    const struct tmk_lineage_original *o = &c->lineage->originals[id];
    if (o->value < 0 || o->verdict == TMK_LINEAGE_ABSORBED)
        return NULL;
    *source = &c->from->tensors[o->value];
    return (*source)->stats || (*source)->has_int_stats ? o : NULL;
}

/* The value at the other end with exactly the numbers of `id` here; false: there is none. */
static bool equal_value_of(const struct tmk_transfer *c, uint32_t id, uint32_t *out) {
    if (!c->back) {
        const struct tmk_lineage_original *o = &c->lineage->originals[id];
        *out = (uint32_t)o->value;
        return o->verdict == TMK_LINEAGE_SAME || o->verdict == TMK_LINEAGE_MERGED;
    }
    const struct tmk_lineage_value *value = &c->lineage->values[id];
    for (uint32_t i = 0; i < value->n_originals; i++)
        if (c->lineage->originals[value->originals[i]].verdict == TMK_LINEAGE_SAME) {
            *out = value->originals[i];
            return true;
        }
    return false;
}

/* Keeps the rule by which the source's statistics were derived, if its inputs are there too. */
static enum tmk_status transfer_rule(const struct tmk_transfer *c,
                                     const struct tmk_profile_tensor *source,
                                     struct tmk_profile_tensor *t) {
    uint32_t id;
    for (uint32_t i = 0; i < source->n_sources; i++)
        if (!equal_value_of(c, source->sources[i], &id) || id == t->id)
            return TMK_OK;
    for (uint32_t i = 0; i < source->n_sources; i++)
        if (equal_value_of(c, source->sources[i], &id))
            TMK_TRY(tmk_profile_add_derivation(t, id, c->diag));
    t->rule = tmk_profile_text(c->to, source->rule);
    return t->rule ? TMK_OK : tmk_nomem(c->diag);
}

static enum tmk_status transfer_value(struct tmk_transfer *c, struct tmk_profile_tensor *t,
                                      struct tmk_transfer_report *report) {
    const struct tmk_profile_tensor *source = NULL;
    if (t->stats || t->has_int_stats) {
        report->own++;
        return TMK_OK;
    }
    const struct tmk_lineage_original *o = source_of(c, t->id, &source);
    bool known = false;
    if (o)
        TMK_TRY(tmk_transfer_stats(c, o, source, t, &known));
    if (!known) {
        report->unknown++;
        return TMK_OK;
    }
    const bool derived = tmk_profile_is_transferred(t);
    if (!derived && *source->rule)
        TMK_TRY(transfer_rule(c, source, t));
    report->derived += derived;
    report->same += !derived;
    t->status = tmk_profile_status_of(t);
    return TMK_OK;
}

enum tmk_status tmk_profile_transfer(const struct tmk_profile *from,
                                     const struct tmk_lineage_record *lineage, bool back,
                                     struct tmk_profile *to, struct tmk_transfer_report *report,
                                     struct tmk_diag *diag) {
    struct tmk_transfer c = {
        .from = from, .lineage = lineage, .back = back, .to = to, .diag = diag};
    struct tmk_transfer_report counts = {0};
    TMK_TRY(same_end(from, lineage, !back, diag));
    TMK_TRY(same_end(to, lineage, back, diag));
    for (uint32_t i = 0; i < from->n_sources; i++)
        TMK_TRY(tmk_profile_add_source(to, from->sources[i].input, from->sources[i].source,
                                       from->sources[i].samples, from->sources[i].hash, diag));
    for (uint32_t i = 0; i < from->n_settings; i++)
        if (strcmp(from->settings[i].key, "carried-from") != 0)
            TMK_TRY(
                tmk_profile_add_setting(to, from->settings[i].key, from->settings[i].value, diag));
    TMK_TRY(tmk_profile_add_setting(to, "carried-from", from->model.file, diag));
    for (uint32_t i = 0; i < from->n_bad; i++)
        TMK_TRY(tmk_profile_add_bad(to, from->bad[i].sample, from->bad[i].file, from->bad[i].why,
                                    diag));
    if (from->coverage.n_ranges)
        TMK_TRY(tmk_profile_set_ranges(to, from->coverage.ranges, from->coverage.n_ranges, diag));
    to->ledger = from->ledger;
    to->coverage.total = from->coverage.total;
    to->producer.name = tmk_profile_text(to, from->producer.name);
    to->producer.version = tmk_profile_text(to, from->producer.version);
    to->producer.isa = tmk_profile_text(to, from->producer.isa);
    to->producer.kernels = tmk_profile_text(to, from->producer.kernels);
    if (!to->producer.name || !to->producer.version || !to->producer.isa || !to->producer.kernels)
        return tmk_nomem(diag);
    TMK_TRY(tmk_profile_bins_init(&c.bins, diag));
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; i < to->n_tensors && status == TMK_OK; i++)
        status = tmk_in(diag, transfer_value(&c, &to->tensors[i], &counts), "p%" PRIu32 " '%s'",
                        to->tensors[i].id, to->tensors[i].name);
    tmk_profile_bins_finish(&c.bins);
    TMK_TRY(status);
    if (report)
        *report = counts;
    return tmk_profile_validate(to, diag);
}
