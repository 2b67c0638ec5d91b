/* SPDX-License-Identifier: Apache-2.0 */
/* Lineage checked, and lineage as it prints. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "graph/lineage.h"

/* ---- audit ---- */

struct audit {
    const struct tmk_lineage *lineage;
    struct tmk_graph *graph;
    struct tmk_diag *diag;
    enum tmk_status status;
    uint32_t listed; /* originals that values list */
};

TMK_PRINTF(3, 4)
static void report_error(struct audit *audit, uint32_t id, const char *fmt, ...);

static void report_error(struct audit *audit, uint32_t id, const char *fmt, ...) {
    char why[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    if (audit->status != TMK_OK)
        return;
    const struct tmk_origin *origin = tmk_lineage_origin(audit->lineage, id);
    audit->status = tmk_fail(audit->diag, TMK_GRAPH, "lineage of p%u '%s' (%s): %s", id,
                             origin->name, tmk_fate_name(origin->fate), why);
}

static bool fits_axis(const struct tmk_value *value, uint32_t n, int32_t axis) {
    const struct tmk_type *type = &value->type;
    const struct tmk_shape *shape =
        value->kind == TMK_VALUE_INITIALIZER ? &value->data.shape : &type->shape;
    if (n <= 1 || (value->kind != TMK_VALUE_INITIALIZER && !type->has_shape))
        return true;
    return axis >= 0 && axis < shape->rank &&
           (shape->dim[axis] < 0 || shape->dim[axis] == (int64_t)n);
}

static void check_origin(struct audit *audit, const struct tmk_origin *origin) {
    const bool points = origin->fate <= TMK_LINEAGE_MERGED ||
                        origin->fate == TMK_LINEAGE_ABSORBED ||
                        (origin->fate == TMK_LINEAGE_CONSTANT && origin->value);
    if (!points) {
        if (origin->value)
            report_error(audit, origin->id, "it points to '%s'", origin->value->name);
        if (origin->fate == TMK_LINEAGE_CONSTANT && !origin->constant.data)
            report_error(audit, origin->id, "its numbers are lost");
        return;
    }
    const struct tmk_value *value = origin->value;
    if (!value || !tmk_value_alive(value) || tmk_graph_root(value->graph) != audit->graph) {
        report_error(audit, origin->id, "no pass recorded what became of '%s'",
                     value ? value->name : "it");
        return;
    }
    if ((origin->fate == TMK_LINEAGE_SAME) != (value->profile_id == (int64_t)origin->id))
        report_error(audit, origin->id, "'%s' carries p%lld", value->name,
                     (long long)value->profile_id);
    if (!fits_axis(value, origin->how.affine.n, origin->how.affine.axis) ||
        !fits_axis(value, origin->how.quantized.n, origin->how.quantized.axis))
        report_error(audit, origin->id, "its channels are not those of '%s'", value->name);
}

static void check_values(struct tmk_graph *graph, void *context) {
    struct audit *audit = context;
    const uint32_t n = tmk_lineage_size(audit->lineage);
    for (uint32_t i = 0; i < graph->n_values && audit->status == TMK_OK; i++) {
        const struct tmk_value *value = graph->values[i];
        if (!tmk_value_alive(value))
            continue;
        if (value->profile_id >= (int64_t)n) {
            audit->status =
                tmk_fail(audit->diag, TMK_GRAPH, "'%s' carries p%lld, which the original has not",
                         value->name, (long long)value->profile_id);
            return;
        }
        if (value->profile_id >= 0 &&
            tmk_lineage_origin(audit->lineage, (uint32_t)value->profile_id)->value != value)
            report_error(audit, (uint32_t)value->profile_id, "'%s' carries its ID", value->name);
        const struct tmk_origin *origin = tmk_lineage_first(audit->lineage, value);
        for (; origin && audit->listed <= n; origin = tmk_lineage_next(audit->lineage, origin)) {
            audit->listed++;
            if (origin->value != value)
                report_error(audit, origin->id, "it is listed with '%s'", value->name);
        }
    }
}

enum tmk_status tmk_lineage_audit(const struct tmk_lineage *lineage, struct tmk_graph *graph,
                                  struct tmk_diag *diag) {
    struct audit audit = {lineage, graph, diag, TMK_OK, 0};
    uint32_t pointing = 0;
    for (uint32_t i = 0; i < tmk_lineage_size(lineage) && audit.status == TMK_OK; i++) {
        check_origin(&audit, tmk_lineage_origin(lineage, i));
        pointing += tmk_lineage_origin(lineage, i)->value != NULL;
    }
    tmk_graph_each(graph, check_values, &audit);
    if (audit.status == TMK_OK && audit.listed != pointing)
        audit.status = tmk_fail(diag, TMK_GRAPH, "%u originals point to values, which list %u",
                                pointing, audit.listed);
    return audit.status;
}

/* ---- print ---- */

static void put_affine(const struct tmk_lineage_affine *affine, struct tmk_text *text) {
    if (affine->n > 1) {
        tmk_text_puts(text, "*s+b");
        return;
    }
    char number[32];
    tmk_format_double(affine->scale[0], number);
    tmk_text_printf(text, "*%s", number);
    if (affine->shift[0] != 0) {
        tmk_format_double(affine->shift[0], number);
        tmk_text_printf(text, "%s%s", affine->shift[0] > 0 ? "+" : "", number);
    }
}

static void put_origin(const struct tmk_origin *origin, struct tmk_text *text) {
    const bool viewed = origin->how.view.reshaped || origin->how.view.rank;
    const char *mark = origin->fate == TMK_LINEAGE_MERGED     ? "="
                       : origin->fate == TMK_LINEAGE_ABSORBED ? "~"
                       : origin->fate == TMK_LINEAGE_CONSTANT ? "#"
                                                              : "";
    tmk_text_printf(text, " @%sp%u", mark, origin->id);
    if (origin->how.affine.n)
        put_affine(&origin->how.affine, text);
    if (origin->how.quantized.n)
        tmk_text_printf(text, ":%s", tmk_dtype_name(origin->how.quantized.dtype));
    if (viewed)
        tmk_text_puts(text, ":view");
}

void tmk_lineage_put(const struct tmk_lineage *lineage, const struct tmk_value *value,
                     struct tmk_text *text) {
    const struct tmk_origin *origin = tmk_lineage_first(lineage, value);
    for (; origin; origin = tmk_lineage_next(lineage, origin))
        if (origin->fate == TMK_LINEAGE_SAME)
            put_origin(origin, text);
    for (origin = tmk_lineage_first(lineage, value); origin;
         origin = tmk_lineage_next(lineage, origin))
        if (origin->fate != TMK_LINEAGE_SAME)
            put_origin(origin, text);
}
