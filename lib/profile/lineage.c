/* SPDX-License-Identifier: Apache-2.0 */
#include <tidemark/lineage.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/diag.h"

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
    if (!text || !passes)
        return tmk_nomem(diag);
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
