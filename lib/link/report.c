/* SPDX-License-Identifier: Apache-2.0 */
/* A link for people and scripts: one entry a line. */
#include <inttypes.h>
#include <stdio.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/json.h"
#include "link/link.h"

static void put_id(struct tmk_json_out *to, const char *key, uint64_t id) {
    char text[24];
    snprintf(text, sizeof text, "p%" PRIu64, id);
    tmk_json_put_text(to, key, text);
}

static enum tmk_status put_original(const struct tmk_link *link, uint32_t id, struct tmk_text *out,
                                    struct tmk_diag *diag) {
    const struct tmk_lineage_original *o = &link->record->originals[id];
    const struct tmk_link_match *match = &link->matches[id];
    struct tmk_json_out to = tmk_json_new_object();
    put_id(&to, "id", id);
    tmk_json_put_text(&to, "name", o->is.name);
    tmk_json_put_text(&to, "verdict", tmk_lineage_verdict_name(o->verdict));
    if (match->evidence != TMK_LINK_NONE) {
        uint32_t value = match->left_out ? match->candidates[0] : (uint32_t)o->value;
        put_id(&to, "value", value);
        tmk_json_put_text(&to, "value_name", link->record->values[value].is.name);
        tmk_json_put_text(&to, "evidence", tmk_link_evidence_name(match->evidence));
    }
    if (match->points) {
        tmk_json_put_double(&to, "residual", match->residual);
        tmk_json_put_u64(&to, "points", match->points);
    }
    if (match->n_candidates && !match->left_out) {
        const char *key = match->evidence == TMK_LINK_NONE ? "candidates" : "alternatives";
        struct tmk_json_out array = tmk_json_new_array();
        for (uint32_t i = 0; i < match->n_candidates; i++)
            put_id(&array, NULL, match->candidates[i]);
        tmk_json_put_child(&to, key, &array);
    }
    return tmk_json_finish(&to, out, diag);
}

enum part { MATCHES, LEFT_OUT, AMBIGUOUS, UNMATCHED };

static enum part part_of(const struct tmk_link_match *match) {
    return match->left_out                    ? LEFT_OUT
           : match->evidence != TMK_LINK_NONE ? MATCHES
           : match->ambiguous                 ? AMBIGUOUS
                                              : UNMATCHED;
}

static enum tmk_status put_originals(const struct tmk_link *link, enum part part, const char *key,
                                     struct tmk_text *out, struct tmk_diag *diag) {
    const char *before = "\n";
    tmk_text_printf(out, "\"%s\": [", key);
    for (uint32_t i = 0; i < link->record->n_originals; i++) {
        if (part_of(&link->matches[i]) != part)
            continue;
        tmk_text_puts(out, before);
        TMK_TRY(put_original(link, i, out, diag));
        before = ",\n";
    }
    tmk_text_puts(out, "],\n");
    return TMK_OK;
}

static enum tmk_status print_table(const struct tmk_link *link, struct tmk_text *out,
                                   struct tmk_diag *diag) {
    struct tmk_link_counts counts;
    struct tmk_json_out models = tmk_json_new_object(), numbers = tmk_json_new_object();
    tmk_link_count(link, &counts);
    tmk_json_put_text(&models, "original", link->record->original.file);
    tmk_json_put_text(&models, "model", link->record->transformed.file);
    tmk_json_put_u64(&numbers, "originals", counts.originals);
    tmk_json_put_u64(&numbers, "values", counts.values);
    tmk_json_put_u64(&numbers, "values_found", counts.found);
    tmk_json_put_u64(&numbers, "ambiguous", counts.ambiguous);
    tmk_json_put_u64(&numbers, "left_out", counts.left_out);
    for (int e = 0; e < TMK_LINK_EVIDENCES; e++)
        tmk_json_put_u64(&numbers, tmk_link_evidence_name((enum tmk_link_evidence)e), counts.by[e]);
    tmk_text_printf(out, "{\n\"method\": \"%s\",\n", link->method);
    if (link->tolerance > 0)
        tmk_text_printf(out, "\"tolerance\": %.9g,\n", link->tolerance);
    tmk_text_puts(out, "\"models\": ");
    enum tmk_status status = tmk_json_finish(&models, out, diag);
    tmk_text_puts(out, ",\n\"counts\": ");
    enum tmk_status then = tmk_json_finish(&numbers, out, diag);
    tmk_text_puts(out, ",\n");
    TMK_TRY(status != TMK_OK ? status : then);
    TMK_TRY(put_originals(link, MATCHES, "matches", out, diag));
    TMK_TRY(put_originals(link, LEFT_OUT, "left_out", out, diag));
    TMK_TRY(put_originals(link, AMBIGUOUS, "ambiguous", out, diag));
    TMK_TRY(put_originals(link, UNMATCHED, "unmatched", out, diag));
    const char *before = "\n";
    tmk_text_puts(out, "\"unmatched_values\": [");
    for (uint32_t i = 0; i < link->record->n_values; i++) {
        if (link->record->values[i].n_originals)
            continue;
        tmk_text_puts(out, before);
        struct tmk_json_out to = tmk_json_new_object();
        put_id(&to, "id", i);
        tmk_json_put_text(&to, "name", link->record->values[i].is.name);
        tmk_json_put_text(&to, "kind", tmk_profile_kind_name(link->record->values[i].is.kind));
        TMK_TRY(tmk_json_finish(&to, out, diag));
        before = ",\n";
    }
    tmk_text_puts(out, "]\n}\n");
    return out->failed ? tmk_nomem(diag) : TMK_OK;
}

enum tmk_status tmk_link_write_report(const struct tmk_link *link, const char *path,
                                      struct tmk_diag *diag) {
    struct tmk_text text = {0};
    locale_t saved[2];
    TMK_TRY(tmk_check_ending(path, "json", diag));
    TMK_TRY(tmk_locale_begin(saved, diag));
    enum tmk_status status = print_table(link, &text, diag);
    tmk_locale_end(saved);
    TMK_THEN(status, tmk_file_write(path, text.data, text.len, diag));
    tmk_text_finish(&text);
    return status;
}
