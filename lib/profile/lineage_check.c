/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a lineage's entries make sense, each by itself and all together. */
#include <inttypes.h>
#include <math.h>

#include "base/diag.h"
#include "profile/lineage_format.h"

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
