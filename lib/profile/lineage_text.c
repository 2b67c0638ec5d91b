/* SPDX-License-Identifier: Apache-2.0 */
/* A lineage as text: the fate of each original, then the originals of each new value. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "profile/lineage_format.h"

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
