/* SPDX-License-Identifier: Apache-2.0 */
#include <tidemark/lineage.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/text.h"
#include "profile/lineage_format.h"

/* Whether a lineage's entries make sense, each by itself and all together. */

bool tmk_lineage_is_view(const struct tmk_lineage_view *view) {
    return view->reshaped || view->rank != 0;
}

static enum tmk_status fail_check(struct tmk_diag *diag, const char *what) {
    return tmk_fail(diag, TMK_MISMATCH, "%s", what);
}

/* Which parts an original of each verdict has, or may have. */
static const struct parts {
    enum { NO_VALUE, MAY_VALUE, MUST_VALUE } value;
    bool may_view, view, affine, quantized;
} parts_of[TMK_LINEAGE_VERDICTS] = {
    [TMK_LINEAGE_SAME] = {.value = MUST_VALUE},
    [TMK_LINEAGE_VIEW] = {.value = MUST_VALUE, .may_view = true, .view = true},
    [TMK_LINEAGE_AFFINE] = {.value = MUST_VALUE, .may_view = true, .affine = true},
    [TMK_LINEAGE_QUANTIZED] = {.value = MUST_VALUE, .may_view = true, .quantized = true},
    [TMK_LINEAGE_MERGED] = {.value = MUST_VALUE},
    [TMK_LINEAGE_CONSTANT] = {.value = MAY_VALUE},
    [TMK_LINEAGE_ABSORBED] = {.value = MUST_VALUE},
    [TMK_LINEAGE_DEAD] = {.value = NO_VALUE},
};

static enum tmk_status check_view(const struct tmk_lineage_original *o,
                                  const struct tmk_lineage_value *value, struct tmk_diag *diag) {
    const struct tmk_lineage_view *view = &o->view;
    uint32_t seen = 0;
    if (view->reshaped)
        return view->rank == 0 ? TMK_OK : fail_check(diag, "a view is reshaped and permuted");
    if (view->rank < 0 || view->rank > TMK_MAX_RANK)
        return fail_check(diag, "a permutation has too many axes");
    for (int32_t i = 0; i < view->rank; i++) {
        if (view->perm[i] < 0 || view->perm[i] >= view->rank || (seen >> view->perm[i] & 1))
            return fail_check(diag, "a permutation names an axis twice, or one that is not there");
        seen |= UINT32_C(1) << view->perm[i];
    }
    if (view->rank && ((o->is.has_shape && o->is.shape.rank != view->rank) ||
                       (value->is.has_shape && value->is.shape.rank != view->rank)))
        return fail_check(diag, "a permutation has another rank than the shapes");
    return TMK_OK;
}

static enum tmk_status check_channels(uint32_t n, int32_t axis,
                                      const struct tmk_lineage_value *value,
                                      struct tmk_diag *diag) {
    if (n == 1)
        return TMK_OK;
    if (axis < 0 || axis >= TMK_MAX_RANK)
        return fail_check(diag, "the axis of channels is not there");
    if (!value->is.has_shape)
        return TMK_OK;
    if (axis >= value->is.shape.rank)
        return fail_check(diag, "the axis of channels is not there");
    if (value->is.shape.dim[axis] >= 0 && value->is.shape.dim[axis] != (int64_t)n)
        return fail_check(diag, "the axis of channels has another size");
    return TMK_OK;
}

static enum tmk_status check_numbers(const struct tmk_lineage_original *o, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < o->affine.n; i++)
        if (!isfinite(o->affine.scale[i]) || !isfinite(o->affine.shift[i]))
            return fail_check(diag, "a scale or a shift is not finite");
    for (uint32_t i = 0; i < o->quantized.n; i++)
        if (!isfinite(o->quantized.scale[i]))
            return fail_check(diag, "a scale is not finite");
    return TMK_OK;
}

static enum tmk_status check_ids(const uint32_t *ids, uint32_t n, uint32_t end,
                                 struct tmk_diag *diag) {
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] >= end || (i && ids[i] <= ids[i - 1]))
            return fail_check(diag,
                              "a list of IDs does not ascend, or names one that is not there");
    return TMK_OK;
}

static enum tmk_status check_original(const struct tmk_lineage_record *record,
                                      const struct tmk_lineage_original *o, struct tmk_diag *diag) {
    static const struct tmk_lineage_value none;
    const struct parts *parts = &parts_of[o->verdict];
    TMK_TRY(tmk_fields_check_texts(&tmk_lineage_original_fields, o, diag));
    if (o->value < -1 || o->value >= (int64_t)record->n_values)
        return fail_check(diag, "its value is not there");
    if (o->value < 0 ? parts->value == MUST_VALUE : parts->value == NO_VALUE)
        return fail_check(diag, o->value < 0 ? "it has no value" : "it has a value");
    bool is_view = tmk_lineage_is_view(&o->view);
    if (is_view ? !parts->may_view : parts->view)
        return fail_check(diag, is_view ? "it has a view" : "it has no view");
    if ((o->affine.n != 0) != parts->affine)
        return fail_check(diag, o->affine.n ? "it has scales" : "it has no scales");
    if ((o->quantized.n != 0) != parts->quantized)
        return fail_check(diag, o->quantized.n ? "it has an encoding" : "it has no encoding");
    const struct tmk_lineage_value *value = o->value < 0 ? &none : &record->values[o->value];
    TMK_TRY(check_view(o, value, diag));
    if (o->affine.n)
        TMK_TRY(check_channels(o->affine.n, o->affine.axis, value, diag));
    if (o->quantized.n)
        TMK_TRY(check_channels(o->quantized.n, o->quantized.axis, value, diag));
    TMK_TRY(check_numbers(o, diag));
    const struct tmk_lineage_absorber *by = &o->absorber;
    if (o->verdict != TMK_LINEAGE_ABSORBED && (*by->op || by->n_inputs || by->n_outputs))
        return fail_check(diag, "it is not absorbed, but has an absorber");
    TMK_TRY(check_ids(by->inputs, by->n_inputs, record->n_originals, diag));
    return check_ids(by->outputs, by->n_outputs, record->n_originals, diag);
}

static enum tmk_status check_value(const struct tmk_lineage_record *record, uint32_t id,
                                   struct tmk_diag *diag) {
    const struct tmk_lineage_value *value = &record->values[id];
    bool same = false;
    TMK_TRY(tmk_fields_check_texts(&tmk_lineage_value_fields, value, diag));
    TMK_TRY(check_ids(value->originals, value->n_originals, record->n_originals, diag));
    for (uint32_t i = 0; i < value->n_originals; i++) {
        const struct tmk_lineage_original *o = &record->originals[value->originals[i]];
        if (o->value != (int64_t)id || o->verdict == TMK_LINEAGE_ABSORBED)
            return tmk_fail(diag, TMK_MISMATCH, "it lists p%" PRIu32 ", which says otherwise",
                            value->originals[i]);
        if (o->verdict == TMK_LINEAGE_SAME && same)
            return fail_check(diag, "two originals say that they are the same");
        same = same || o->verdict == TMK_LINEAGE_SAME;
    }
    return TMK_OK;
}

enum tmk_status tmk_lineage_record_check(const struct tmk_lineage_record *record,
                                         struct tmk_diag *diag) {
    uint64_t with_value = 0, listed = 0;
    for (uint32_t i = 0; i < record->n_originals; i++) {
        const struct tmk_lineage_original *o = &record->originals[i];
        TMK_TRY(tmk_in(diag, check_original(record, o, diag), "original p%" PRIu32 " (%s, %s)", i,
                       o->is.name, tmk_lineage_verdict_name(o->verdict)));
        with_value += o->value >= 0 && o->verdict != TMK_LINEAGE_ABSORBED;
    }
    for (uint32_t i = 0; i < record->n_values; i++) {
        TMK_TRY(tmk_in(diag, check_value(record, i, diag), "value p%" PRIu32 " (%s)", i,
                       record->values[i].is.name));
        listed += record->values[i].n_originals;
    }
    if (with_value != listed)
        return tmk_fail(diag, TMK_MISMATCH,
                        "%" PRIu64 " originals have a value, but values list %" PRIu64, with_value,
                        listed);
    return TMK_OK;
}

enum tmk_status tmk_lineage_record_create(uint32_t n_originals, uint32_t n_values,
                                          struct tmk_lineage_record **out, struct tmk_diag *diag) {
    struct tmk_lineage_record *record = calloc(1, sizeof *record);
    struct tmk_arena *arena = calloc(1, sizeof *arena);
    if (!record || !arena) {
        free(record);
        free(arena);
        return tmk_nomem(diag);
    }
    *record = (struct tmk_lineage_record){
        .version = {TMK_LINEAGE_MAJOR, TMK_LINEAGE_MINOR},
        .producer = "",
        .original = {"", "", 0},
        .transformed = {"", "", 0},
        .originals = tmk_arena_array(arena, n_originals, sizeof *record->originals),
        .n_originals = n_originals,
        .values = tmk_arena_array(arena, n_values, sizeof *record->values),
        .n_values = n_values,
        .arena = arena,
    };
    if ((n_originals && !record->originals) || (n_values && !record->values)) {
        tmk_lineage_record_destroy(&record);
        return tmk_nomem(diag);
    }
    for (uint32_t i = 0; i < n_originals; i++) {
        struct tmk_lineage_original *o = &record->originals[i];
        o->is.name = o->is.path = o->pass = o->remark = "";
        o->absorber.node = o->absorber.op = o->absorber.domain = "";
        o->verdict = TMK_LINEAGE_DEAD;
        o->value = -1;
    }
    for (uint32_t i = 0; i < n_values; i++)
        record->values[i].is.name = record->values[i].is.path = "";
    *out = record;
    return TMK_OK;
}

void tmk_lineage_record_destroy(struct tmk_lineage_record **slot) {
    struct tmk_lineage_record *record = *slot;
    *slot = NULL;
    if (!record)
        return;
    tmk_arena_finish(record->arena);
    free(record->arena);
    free(record);
}

const char *tmk_lineage_record_text(struct tmk_lineage_record *record, const char *text) {
    return *text ? tmk_arena_strdup(record->arena, text) : "";
}

void *tmk_lineage_record_array(struct tmk_lineage_record *record, size_t count, size_t size) {
    return tmk_arena_array(record->arena, count, size);
}

enum tmk_status tmk_lineage_record_add_pass(struct tmk_lineage_record *record, const char *pass,
                                            struct tmk_diag *diag) {
    const uint32_t n = record->n_passes;
    const char *text = tmk_lineage_record_text(record, pass), **passes = record->passes;
    if ((n & (n - 1)) == 0) { /* capacity doubles at powers of two */
        passes = tmk_arena_array(record->arena, n ? (size_t)n * 2 : 1, sizeof *passes);
        if (passes && n)
            memcpy(passes, record->passes, n * sizeof *passes);
    }
    TMK_TRY_ALLOC(text && passes, diag);
    passes[n] = text;
    record->passes = passes;
    record->n_passes = n + 1;
    return TMK_OK;
}

/* Does the value have the original's numbers, by their relation? */
static bool stands_for(const struct tmk_lineage_original *o) {
    return o->value >= 0 && o->verdict != TMK_LINEAGE_ABSORBED;
}

enum tmk_status tmk_lineage_record_finalize(struct tmk_lineage_record *record,
                                            struct tmk_diag *diag) {
    for (uint32_t v = 0; v < record->n_values; v++)
        record->values[v].n_originals = 0;
    for (uint32_t i = 0; i < record->n_originals; i++)
        if (stands_for(&record->originals[i]) && record->originals[i].value < record->n_values)
            record->values[record->originals[i].value].n_originals++;
    for (uint32_t v = 0; v < record->n_values; v++) {
        struct tmk_lineage_value *value = &record->values[v];
        value->originals = tmk_arena_array(record->arena, value->n_originals, sizeof(uint32_t));
        if (!value->originals && value->n_originals)
            return tmk_nomem(diag);
        value->n_originals = 0;
    }
    for (uint32_t i = 0; i < record->n_originals; i++)
        if (stands_for(&record->originals[i]) && record->originals[i].value < record->n_values) {
            struct tmk_lineage_value *value = &record->values[record->originals[i].value];
            value->originals[value->n_originals++] = i;
        }
    return tmk_lineage_record_check(record, diag);
}

void tmk_lineage_record_count(const struct tmk_lineage_record *record,
                              uint32_t counts[TMK_LINEAGE_VERDICTS]) {
    memset(counts, 0, TMK_LINEAGE_VERDICTS * sizeof *counts);
    for (uint32_t i = 0; i < record->n_originals; i++)
        counts[record->originals[i].verdict]++;
}

/* A lineage as text: the fate of each original, then the originals of each new value. */

static void put_number(struct tmk_text *text, const char *sign, double number) {
    char digits[32];
    tmk_format_double(number, digits);
    tmk_text_printf(text, "%s%s", sign, digits);
}

static void put_edges(const char *what, const uint32_t *ids, uint32_t n, struct tmk_text *text) {
    for (uint32_t i = 0; i < n; i++)
        tmk_text_printf(text, "%sp%" PRIu32, i ? ", " : what, ids[i]);
}

static void put_original(const struct tmk_lineage_record *record, uint32_t id,
                         struct tmk_text *text) {
    const struct tmk_lineage_original *o = &record->originals[id];
    tmk_text_printf(text, "  p%-5" PRIu32 " %-9s ", id, tmk_lineage_verdict_name(o->verdict));
    if (o->value >= 0)
        tmk_text_printf(text, "p%-5" PRId64, o->value);
    else
        tmk_text_puts(text, "-     ");
    tmk_text_printf(text, " %s", *o->is.name ? o->is.name : "(no name)");
    if (o->value >= 0 && strcmp(o->is.name, record->values[o->value].is.name) != 0)
        tmk_text_printf(text, " -> %s", record->values[o->value].is.name);
    if (o->view.reshaped)
        tmk_text_puts(text, " reshaped");
    for (int32_t i = 0; i < o->view.rank; i++)
        tmk_text_printf(text, "%s%" PRId32, i ? "," : " axes [", o->view.perm[i]);
    if (o->view.rank)
        tmk_text_puts(text, "]");
    if (o->affine.n > 1)
        tmk_text_printf(text, " *s+b, %" PRIu32 " channels on axis %" PRId32, o->affine.n,
                        o->affine.axis);
    else if (o->affine.n) {
        put_number(text, " *", o->affine.scale[0]);
        if (o->affine.shift[0] != 0)
            put_number(text, o->affine.shift[0] > 0 ? "+" : "", o->affine.shift[0]);
    }
    if (o->quantized.n) {
        tmk_text_printf(text, " %s", tmk_dtype_name(o->quantized.dtype));
        if (o->quantized.n > 1)
            tmk_text_printf(text, ", %" PRIu32 " channels on axis %" PRId32, o->quantized.n,
                            o->quantized.axis);
        else {
            put_number(text, " scale ", o->quantized.scale[0]);
            tmk_text_printf(text, " zero point %" PRId64, o->quantized.zero_point[0]);
        }
    }
    if (*o->absorber.op) {
        tmk_text_printf(text, " in %s '%s'", o->absorber.op, o->absorber.node);
        put_edges(" from ", o->absorber.inputs, o->absorber.n_inputs, text);
        put_edges(" to ", o->absorber.outputs, o->absorber.n_outputs, text);
    }
    if (*o->pass)
        tmk_text_printf(text, " (%s)", o->pass);
    tmk_text_puts(text, "\n");
}

static void put_value(const struct tmk_lineage_record *record, uint32_t id, struct tmk_text *text) {
    const struct tmk_lineage_value *value = &record->values[id];
    tmk_text_printf(text, "  p%-5" PRIu32 " %s =", id,
                    *value->is.name ? value->is.name : "(no name)");
    for (uint32_t i = 0; i < value->n_originals; i++) {
        const struct tmk_lineage_original *o = &record->originals[value->originals[i]];
        tmk_text_printf(text, "%s p%" PRIu32, i ? "," : "", value->originals[i]);
        if (o->verdict != TMK_LINEAGE_SAME)
            tmk_text_printf(text, " %s", tmk_lineage_verdict_name(o->verdict));
    }
    tmk_text_puts(text, value->n_originals ? "\n" : " nothing of the original\n");
}

void tmk_lineage_text(const struct tmk_lineage_record *record, struct tmk_text *text) {
    uint32_t counts[TMK_LINEAGE_VERDICTS];
    tmk_lineage_record_count(record, counts);
    tmk_text_printf(text, "%s -> %s, by", record->original.file, record->transformed.file);
    for (uint32_t i = 0; i < record->n_passes; i++)
        tmk_text_printf(text, "%s %s", i ? "," : "", record->passes[i]);
    tmk_text_printf(text, "\n%" PRIu32 " original values:", record->n_originals);
    const char *comma = "";
    for (int v = 0; v < TMK_LINEAGE_VERDICTS; v++) {
        if (!counts[v])
            continue;
        tmk_text_printf(text, "%s %" PRIu32 " %s", comma, counts[v],
                        tmk_lineage_verdict_name((enum tmk_lineage_verdict)v));
        comma = ",";
    }
    tmk_text_puts(text, "\n");
    for (uint32_t i = 0; i < record->n_originals; i++)
        put_original(record, i, text);
    tmk_text_printf(text, "%" PRIu32 " values:\n", record->n_values);
    for (uint32_t i = 0; i < record->n_values; i++)
        put_value(record, i, text);
}
