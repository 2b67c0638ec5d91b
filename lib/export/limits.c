/* SPDX-License-Identifier: Apache-2.0 */
/* Every exporter's way in and out: what the consumer can't hold is taken out or changed before the
 * writer sees it, and of every encoding that was given it is known whether it was written, or why
 * not. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/text.h"
#include "calib/encodings.h"
#include "export/rows.h"

struct tmk_export_counts {
    struct tmk_encodings held; /* what the writer sees: without what the consumer can't hold */
    uint32_t *given;           /* [held.n_items]: the number among those given */
    const char **why;          /* [n given]: why not; NULL: it was written, or not reported */
    bool *written;             /* [n given] */
    uint32_t one_scale, asymmetric, activations;
    struct tmk_arena arena;
};

/* ---- what the writer reports ---- */

/* The encoding's number among those given; false: it is none of them. */
static bool find_source(const struct tmk_export_job *job, const struct tmk_encoding *e,
                        uint32_t *out) {
    const struct tmk_export_counts *counts = job->counts;
    const uintptr_t first = counts ? (uintptr_t)counts->held.items : 0;
    if (!counts || (uintptr_t)e < first ||
        (uintptr_t)e >= (uintptr_t)(counts->held.items + counts->held.n_items))
        return false;
    *out = counts->given[e - counts->held.items];
    return true;
}

void tmk_export_wrote(const struct tmk_export_job *job, const struct tmk_encoding *e) {
    uint32_t at;
    if (find_source(job, e, &at))
        job->counts->written[at] = true;
}

void tmk_export_skip(const struct tmk_export_job *job, const struct tmk_encoding *e,
                     const char *why) {
    uint32_t at;
    if (!find_source(job, e, &at))
        return;
    job->counts->written[at] = false;
    job->counts->why[at] = tmk_arena_strdup(&job->counts->arena, why);
}

bool tmk_export_is_written(const struct tmk_export_job *job, const struct tmk_encoding *e) {
    uint32_t at;
    return find_source(job, e, &at) && job->counts->written[at];
}

static uint32_t count_written(const struct tmk_export_job *job, uint32_t n) {
    uint32_t written = 0;
    for (uint32_t i = 0; i < n; i++)
        written += job->counts->written[i];
    return written;
}

static enum tmk_status fail_nothing(const struct tmk_encodings *given,
                                    const struct tmk_export_counts *counts, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < given->n_items; i++)
        if (counts->why[i])
            return tmk_fail(diag, TMK_NOTFOUND,
                            "none of %u encodings could be written; nothing was (p%u '%s': %s)",
                            given->n_items, given->items[i].id, given->items[i].name,
                            counts->why[i]);
    if (!given->n_items)
        return tmk_fail(diag, TMK_NOTFOUND,
                        "there are no encodings to write: all %u values stay float "
                        "(`tidemark calibrate --list` gives the reasons)",
                        given->n_left);
    return tmk_fail(diag, TMK_NOTFOUND, "none of %u encodings could be written; nothing was",
                    given->n_items);
}

enum tmk_status tmk_export_ready(const struct tmk_export_job *job, struct tmk_diag *diag) {
    if (!job->counts || count_written(job, job->given->n_items))
        return TMK_OK;
    return fail_nothing(job->given, job->counts, diag);
}

/* ---- what the consumer can hold ---- */

/* "int8 and uint8" */
static const char *list_types(uint32_t types, struct tmk_arena *arena) {
    struct tmk_text text = {0};
    uint32_t left = 0, done = 0;
    for (uint32_t t = 0; t < 32; t++)
        left += types >> t & 1;
    tmk_text_puts(&text, "the format knows ");
    for (uint32_t t = 0; t < 32; t++)
        if (types >> t & 1)
            tmk_text_printf(&text, "%s%s",
                            !done++        ? ""
                            : done == left ? " and "
                                           : ", ",
                            tmk_dtype_name((enum tmk_dtype)t));
    tmk_text_puts(&text, " only");
    const char *out = text.failed ? NULL : tmk_arena_strdup(arena, text.data);
    tmk_text_finish(&text);
    return out;
}

/* One scale for the range over all channels. */
static enum tmk_status join_channels(struct tmk_encoding *e, struct tmk_arena *arena,
                                     struct tmk_diag *diag) {
    struct tmk_one_scale *numbers = tmk_arena_alloc(arena, sizeof *numbers);
    float low = 0, high = 0;
    TMK_TRY_ALLOC(numbers, diag);
    for (uint32_t i = 0; i < e->n; i++) { /* a range of nothing adds nothing */
        low = fminf(low, e->low[i]);
        high = fmaxf(high, e->high[i]);
    }
    e->axis = -1;
    e->n = 1;
    return tmk_encoding_cover(e, low, high, numbers, diag);
}

static bool keeps_channels(const struct tmk_exporter *row, const struct tmk_export_job *job) {
    return !row->limits.one_scale ||
           strcmp(tmk_export_setting(job, "activations", "tensor"), "channel") == 0;
}

static enum tmk_status hold_layer(const struct tmk_exporter *row, const struct tmk_export_job *job,
                                  uint32_t at, struct tmk_export_counts *counts,
                                  struct tmk_diag *diag) {
    const struct tmk_encoding *e = &job->encodings->items[at];
    const uint32_t types = e->role == TMK_ENCODING_BIAS     ? 0
                           : e->role == TMK_ENCODING_WEIGHT ? row->limits.weights
                                                            : row->limits.activations;
    if (types && !(types & TMK_EXPORT_TYPE(e->dtype))) {
        counts->why[at] = list_types(types, &counts->arena);
        return counts->why[at] ? TMK_OK : tmk_nomem(diag);
    }
    if (e->block && !row->limits.blocks) {
        counts->why[at] = "the format has no scales by block";
        return TMK_OK;
    }
    struct tmk_encoding *held = &counts->held.items[counts->held.n_items];
    counts->given[counts->held.n_items++] = at;
    *held = *e;
    if (e->role != TMK_ENCODING_ACTIVATION)
        return TMK_OK;
    counts->activations++;
    counts->asymmetric += !e->symmetric;
    if (e->axis < 0 || keeps_channels(row, job))
        return TMK_OK;
    counts->one_scale++;
    return join_channels(held, &counts->arena, diag);
}

static enum tmk_status begin_copy(const struct tmk_exporter *row, const struct tmk_export_job *job,
                                  struct tmk_export_counts *out, struct tmk_diag *diag) {
    const uint32_t n = job->encodings->n_items;
    out->held = *job->encodings;
    out->held.n_items = 0;
    out->held.items = tmk_arena_array(&out->arena, n + 1u, sizeof *out->held.items);
    out->given = tmk_arena_array(&out->arena, n + 1u, sizeof *out->given);
    out->why = tmk_arena_array(&out->arena, n + 1u, sizeof *out->why);
    out->written = tmk_arena_array(&out->arena, n + 1u, sizeof *out->written);
    TMK_TRY_ALLOC(out->held.items && out->given && out->why && out->written, diag);
    for (uint32_t i = 0; i < n; i++)
        TMK_TRY(hold_layer(row, job, i, out, diag));
    return n && !out->held.n_items ? fail_nothing(job->encodings, out, diag) : TMK_OK;
}

/* ---- all together ---- */

static void report_left_out(const struct tmk_export_job *job,
                            const struct tmk_export_counts *counts) {
    for (uint32_t i = 0; job->skip && counts->written && i < job->encodings->n_items; i++)
        if (!counts->written[i])
            job->skip(job->context, job->encodings->items[i].id, job->encodings->items[i].name,
                      counts->why[i] ? counts->why[i] : "the format has no place for it");
}

static void report_changes(const struct tmk_exporter *row, const struct tmk_export_job *job,
                           const struct tmk_export_counts *counts) {
    if (counts->one_scale)
        tmk_export_remark(
            job,
            "%u of %u activations had scales by channel, which the readers of %s "
            "can't take: each has one scale here, for the range over its channels%s",
            counts->one_scale, counts->activations, row->name,
            strstr(row->settings, "activations=") ? "; --set activations=channel keeps them" : "");
    if (row->limits.symmetric && counts->asymmetric)
        tmk_export_remark(job,
                          "%u of %u activations are asymmetric, and %s has symmetric scales only: "
                          "each gets that of its largest magnitude; calibrate with --dtype int8 "
                          "--scheme symmetric to choose ranges for it",
                          counts->asymmetric, counts->activations, row->name);
}

enum tmk_status tmk_export_run(const struct tmk_exporter *row, const struct tmk_export_job *asked,
                               struct tmk_diag *diag) {
    struct tmk_export_counts counts = {0};
    struct tmk_export_job job = *asked;
    enum tmk_status status = begin_copy(row, asked, &counts, diag);
    job.encodings = &counts.held;
    job.given = asked->encodings;
    job.counts = &counts;
    TMK_THEN(status,
             row->text ? tmk_export_text_write(&job, row->text, diag) : row->write(&job, diag));
    if (status == TMK_OK)
        report_changes(row, asked, &counts);
    if (status == TMK_OK || status == TMK_NOTFOUND)
        report_left_out(asked, &counts);
    tmk_arena_finish(&counts.arena);
    return status;
}
