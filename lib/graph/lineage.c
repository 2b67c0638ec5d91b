/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/lineage.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"

struct tmk_lineage {
    struct tmk_arena arena; /* names, scales and shifts */
    struct tmk_origin *origins;
    uint32_t n;
};

const char *tmk_fate_name(enum tmk_lineage_verdict fate) {
    static const char *const names[] = {
#define FATE_NAME(name, number, text) [number] = text,
        TMK_LINEAGE_VERDICT_LIST(FATE_NAME)
#undef FATE_NAME
    };
    return names[fate];
}

/* ---- which originals a value stands for ---- */

static void attach_origin(struct tmk_origin *origin, struct tmk_value *value) {
    origin->value = value;
    origin->next = value->origins;
    value->origins = origin->id + 1;
}

/* link: 1 + ID; 0: none */
static struct tmk_origin *origin_of(const struct tmk_lineage *lineage, uint32_t link) {
    return link ? &lineage->origins[link - 1] : NULL;
}

/* All originals of the value, taken off it: the first, linked by `next`. */
static struct tmk_origin *detach_origins(struct tmk_lineage *lineage, struct tmk_value *value) {
    struct tmk_origin *first = origin_of(lineage, value->origins);
    value->origins = 0;
    value->profile_id = -1;
    return first;
}

const struct tmk_origin *tmk_lineage_first(const struct tmk_lineage *lineage,
                                           const struct tmk_value *value) {
    return origin_of(lineage, value->origins);
}

const struct tmk_origin *tmk_lineage_next(const struct tmk_lineage *lineage,
                                          const struct tmk_origin *origin) {
    return origin_of(lineage, origin->next);
}

/* ---- making ---- */

struct making {
    struct tmk_lineage *lineage;
    bool failed, holes;
};

static void enter_values(struct tmk_graph *graph, struct making *m) {
    for (uint32_t i = 0; i < graph->n_values && !m->failed; i++) {
        struct tmk_value *value = graph->values[i];
        if (!tmk_value_alive(value))
            continue;
        if (value->profile_id < 0 || value->profile_id >= m->lineage->n ||
            m->lineage->origins[value->profile_id].value) {
            m->holes = true;
            return;
        }
        struct tmk_origin *origin = &m->lineage->origins[value->profile_id];
        *origin = (struct tmk_origin){.id = (uint32_t)value->profile_id,
                                      .fate = TMK_LINEAGE_SAME,
                                      .pass = "",
                                      .remark = "",
                                      .name = tmk_arena_strdup(&m->lineage->arena, value->name),
                                      .kind = value->kind,
                                      .type = value->type,
                                      .fingerprint = value->fingerprint,
                                      .content = value->content,
                                      .ordinal = value->ordinal};
        memset(origin->type.symbol, 0, sizeof origin->type.symbol);
        if (value->kind == TMK_VALUE_INITIALIZER)
            tmk_tensor_share(&origin->constant, &value->data);
        m->failed = !origin->name;
        value->origins = 0;
        attach_origin(origin, value);
    }
}

enum tmk_status tmk_lineage_create(struct tmk_graph *graph, struct tmk_lineage **out,
                                   struct tmk_diag *diag) {
    struct making m = {.lineage = calloc(1, sizeof *m.lineage)};
    TMK_TRY_ALLOC(m.lineage, diag);
    for (const struct tmk_graph *g = graph; g; g = tmk_graph_next(graph, g))
        for (uint32_t i = 0; i < g->n_values; i++)
            m.lineage->n += tmk_value_alive(g->values[i]);
    m.lineage->origins = calloc((size_t)m.lineage->n + 1, sizeof *m.lineage->origins);
    m.failed = !m.lineage->origins;
    for (struct tmk_graph *g = graph; g && !m.failed; g = tmk_graph_next(graph, g))
        enter_values(g, &m);
    enum tmk_status status = TMK_OK;
    if (m.failed)
        status = tmk_nomem(diag);
    else if (m.holes)
        status = tmk_fail(diag, TMK_GRAPH, "the graph's profile IDs are not dense");
    if (status == TMK_OK)
        *out = m.lineage;
    else
        tmk_lineage_destroy(&m.lineage);
    return status;
}

void tmk_lineage_destroy(struct tmk_lineage **slot) {
    struct tmk_lineage *lineage = slot ? *slot : NULL;
    if (!lineage)
        return;
    *slot = NULL;
    for (uint32_t i = 0; lineage->origins && i < lineage->n; i++)
        tmk_tensor_finish(&lineage->origins[i].constant);
    free(lineage->origins);
    tmk_arena_finish(&lineage->arena);
    free(lineage);
}

uint32_t tmk_lineage_size(const struct tmk_lineage *lineage) {
    return lineage->n;
}

const struct tmk_origin *tmk_lineage_origin(const struct tmk_lineage *lineage, uint32_t id) {
    return &lineage->origins[id];
}

/* ---- one relation after another ---- */

static bool is_plain(const struct tmk_lineage_view *view) {
    return !view->reshaped && !view->rank;
}

/* *first, then `then`. False: it cannot be expressed. */
static bool compose_views(struct tmk_lineage_view *first, const struct tmk_lineage_view *then) {
    if (is_plain(then))
        return true;
    if (is_plain(first)) {
        *first = *then;
        return true;
    }
    if (first->reshaped != then->reshaped || (!then->reshaped && first->rank != then->rank))
        return false;
    struct tmk_lineage_view both = *first;
    for (int32_t i = 0; !then->reshaped && i < then->rank; i++)
        both.perm[i] = first->perm[then->perm[i]];
    *first = both;
    return true;
}

/* Where `axis` of the value before is in the value after; -1: dissolved. */
static int32_t axis_after(const struct tmk_lineage_view *view, int32_t axis) {
    if (is_plain(view))
        return axis;
    for (int32_t i = 0; !view->reshaped && i < view->rank; i++)
        if (view->perm[i] == axis)
            return i;
    return -1;
}

static double number_at(const double *numbers, uint32_t n, uint32_t i) {
    return numbers[n == 1 ? 0 : i];
}

static bool copy_affine(struct tmk_lineage *lineage, struct tmk_lineage_affine *out,
                        const struct tmk_lineage_affine *first,
                        const struct tmk_lineage_affine *then) {
    uint32_t n = first->n > then->n ? first->n : then->n;
    double *scale = tmk_arena_array(&lineage->arena, n, sizeof *scale);
    double *shift = tmk_arena_array(&lineage->arena, n, sizeof *shift);
    if (!scale || !shift)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        double s = first->n ? number_at(first->scale, first->n, i) : 1;
        double b = first->n ? number_at(first->shift, first->n, i) : 0;
        double s2 = then->n ? number_at(then->scale, then->n, i) : 1;
        double b2 = then->n ? number_at(then->shift, then->n, i) : 0;
        scale[i] = s * s2;
        shift[i] = b * s2 + b2;
    }
    *out = (struct tmk_lineage_affine){n, first->n > 1 ? first->axis : then->axis, scale, shift};
    return true;
}

static bool copy_quantized(struct tmk_lineage *lineage, struct tmk_lineage_quantized *out,
                           const struct tmk_lineage_quantized *from) {
    double *scale = tmk_arena_array(&lineage->arena, from->n, sizeof *scale);
    int64_t *zero = tmk_arena_array(&lineage->arena, from->n, sizeof *zero);
    if (!scale || !zero)
        return false;
    memcpy(scale, from->scale, from->n * sizeof *scale);
    memcpy(zero, from->zero_point, from->n * sizeof *zero);
    *out = *from;
    out->scale = scale;
    out->zero_point = zero;
    return true;
}

enum composed { COMPOSED, UNSAYABLE, OUT_OF_MEMORY };

static enum composed compose_relations(struct tmk_lineage *lineage, struct tmk_relation *how,
                                       const struct tmk_relation *then) {
    if ((then->affine.n || then->quantized.n) && how->quantized.n)
        return UNSAYABLE;
    if (then->quantized.n && how->affine.n)
        return UNSAYABLE;
    if (!compose_views(&how->view, &then->view))
        return UNSAYABLE;
    if (how->affine.n > 1 && (how->affine.axis = axis_after(&then->view, how->affine.axis)) < 0)
        return UNSAYABLE;
    if (how->quantized.n > 1 &&
        (how->quantized.axis = axis_after(&then->view, how->quantized.axis)) < 0)
        return UNSAYABLE;
    if (then->affine.n) {
        if (how->affine.n > 1 && then->affine.n > 1 &&
            (how->affine.n != then->affine.n || how->affine.axis != then->affine.axis))
            return UNSAYABLE;
        if (!copy_affine(lineage, &how->affine, &how->affine, &then->affine))
            return OUT_OF_MEMORY;
    }
    if (then->quantized.n && !copy_quantized(lineage, &how->quantized, &then->quantized))
        return OUT_OF_MEMORY;
    return COMPOSED;
}

/* Scales of 1, shifts of 0 and axes in their own places are no relation. */
static void simplify_relation(struct tmk_relation *how) {
    bool moved = how->view.reshaped, scaled = false;
    for (int32_t i = 0; i < how->view.rank; i++)
        moved = moved || how->view.perm[i] != i;
    for (uint32_t i = 0; i < how->affine.n; i++)
        scaled = scaled || how->affine.scale[i] != 1 || how->affine.shift[i] != 0;
    if (!moved)
        how->view = (struct tmk_lineage_view){0};
    if (!scaled)
        how->affine = (struct tmk_lineage_affine){0};
}

/* ---- fates ---- */

static void set_remark(struct tmk_origin *origin, struct tmk_value *value, const char *pass) {
    origin->pass = pass;
    if (origin->how.affine.n)
        origin->fate = TMK_LINEAGE_AFFINE;
    else if (origin->how.quantized.n)
        origin->fate = TMK_LINEAGE_QUANTIZED;
    else if (!is_plain(&origin->how.view))
        origin->fate = TMK_LINEAGE_VIEW;
    else if (value->profile_id < 0) {
        origin->fate = TMK_LINEAGE_SAME;
        value->profile_id = origin->id;
    } else
        origin->fate = TMK_LINEAGE_MERGED;
    attach_origin(origin, value);
}

static void lose_value(struct tmk_origin *origin, struct tmk_value *into, const char *pass) {
    origin->fate = TMK_LINEAGE_ABSORBED;
    origin->how = (struct tmk_relation){0};
    origin->pass = pass;
    attach_origin(origin, into);
}

static void end_origin(struct tmk_origin *origin, const char *pass) {
    bool known = origin->constant.data != NULL;
    origin->fate = known ? TMK_LINEAGE_CONSTANT : TMK_LINEAGE_DEAD;
    origin->how = (struct tmk_relation){0};
    origin->value = NULL;
    origin->next = 0;
    origin->pass = pass;
}

enum tmk_status tmk_lineage_move(struct tmk_lineage *lineage, struct tmk_value *from,
                                 struct tmk_value *to, const struct tmk_relation *how,
                                 const char *pass, struct tmk_diag *diag) {
    static const struct tmk_relation equal;
    /* The one that carries the ID goes first, so that it stays SAME where it can. */
    const int64_t own = from->profile_id;
    struct tmk_origin *list = detach_origins(lineage, from);
    for (int turn = 0; turn < 2; turn++) {
        struct tmk_origin *next, *rest = NULL;
        for (struct tmk_origin *origin = list; origin; origin = next) {
            next = origin_of(lineage, origin->next);
            if ((turn == 0) != ((int64_t)origin->id == own)) {
                origin->next = rest ? rest->id + 1 : 0;
                rest = origin;
                continue;
            }
            if (origin->fate == TMK_LINEAGE_ABSORBED) {
                lose_value(origin, to, origin->pass);
                continue;
            }
            if (origin->fate == TMK_LINEAGE_CONSTANT) {
                if (how && (how->affine.n || how->quantized.n || !is_plain(&how->view)))
                    end_origin(origin, origin->pass);
                else
                    attach_origin(origin, to);
                continue;
            }
            switch (compose_relations(lineage, &origin->how, how ? how : &equal)) {
            case COMPOSED:
                simplify_relation(&origin->how);
                set_remark(origin, to, pass);
                break;
            case UNSAYABLE:
                lose_value(origin, to, pass);
                break;
            case OUT_OF_MEMORY:
                return tmk_nomem(diag);
            }
        }
        list = rest;
    }
    return TMK_OK;
}

void tmk_lineage_absorb(struct tmk_lineage *lineage, struct tmk_value *value,
                        struct tmk_value *into, const char *pass) {
    struct tmk_origin *next;
    for (struct tmk_origin *origin = detach_origins(lineage, value); origin; origin = next) {
        next = origin_of(lineage, origin->next);
        if (origin->constant.data)
            end_origin(origin, pass);
        else
            lose_value(origin, into, pass);
    }
}

void tmk_lineage_fold(struct tmk_lineage *lineage, struct tmk_value *from,
                      struct tmk_value *initializer, const char *pass) {
    struct tmk_origin *next;
    for (struct tmk_origin *origin = detach_origins(lineage, from); origin; origin = next) {
        next = origin_of(lineage, origin->next);
        if (origin->fate == TMK_LINEAGE_SAME || origin->fate == TMK_LINEAGE_MERGED) {
            origin->fate = TMK_LINEAGE_CONSTANT;
            origin->pass = pass;
            tmk_tensor_finish(&origin->constant);
            tmk_tensor_share(&origin->constant, &initializer->data);
        }
        attach_origin(origin, initializer);
    }
}

bool tmk_lineage_remark(struct tmk_lineage *lineage, const struct tmk_value *value,
                        const char *remark) {
    const char *copy = tmk_arena_strdup(&lineage->arena, remark);
    struct tmk_origin *origin = origin_of(lineage, value->origins);
    for (; copy && origin; origin = origin_of(lineage, origin->next))
        origin->remark = copy;
    return copy != NULL;
}

void tmk_lineage_end(struct tmk_lineage *lineage, struct tmk_value *value, const char *pass) {
    struct tmk_origin *next;
    for (struct tmk_origin *origin = detach_origins(lineage, value); origin; origin = next) {
        next = origin_of(lineage, origin->next);
        end_origin(origin, origin->fate == TMK_LINEAGE_CONSTANT ? origin->pass : pass);
    }
}

/* Lineage checked, and lineage as it prints. */

/* ---- audit ---- */

struct audit {
    const struct tmk_lineage *lineage;
    struct tmk_graph *graph;
    struct tmk_diag *diag;
    enum tmk_status status;
    uint32_t listed; /* originals that values list */
};

static void TMK_PRINTF(3, 4) report_error(struct audit *audit, uint32_t id, const char *fmt, ...) {
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

static void check_values(const struct tmk_graph *graph, struct audit *audit) {
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
    for (const struct tmk_graph *g = graph; g; g = tmk_graph_next(graph, g))
        check_values(g, &audit);
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
    const char *mark = origin->fate == TMK_LINEAGE_MERGED     ? "="
                       : origin->fate == TMK_LINEAGE_ABSORBED ? "~"
                       : origin->fate == TMK_LINEAGE_CONSTANT ? "#"
                                                              : "";
    tmk_text_printf(text, " @%sp%u", mark, origin->id);
    if (origin->how.affine.n)
        put_affine(&origin->how.affine, text);
    if (origin->how.quantized.n)
        tmk_text_printf(text, ":%s", tmk_dtype_name(origin->how.quantized.dtype));
    if (!is_plain(&origin->how.view))
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
