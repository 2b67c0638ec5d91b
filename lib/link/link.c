/* SPDX-License-Identifier: Apache-2.0 */
#include "link/link.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"

const char *tmk_link_evidence_name(enum tmk_link_evidence evidence) {
    switch (evidence) {
#define EVIDENCE_CASE(name, text, help)                                                            \
    case TMK_LINK_##name:                                                                          \
        return text;
        TMK_LINK_EVIDENCE_LIST(EVIDENCE_CASE)
#undef EVIDENCE_CASE
    case TMK_LINK_EVIDENCES:
        break;
    }
    return "?";
}

void tmk_link_destroy(struct tmk_link **slot) {
    struct tmk_link *link = slot ? *slot : NULL;
    if (!link)
        return;
    *slot = NULL;
    for (uint32_t i = 0; link->matches && i < link->record->n_originals; i++)
        free(link->matches[i].candidates);
    free(link->matches);
    tmk_lineage_record_destroy(&link->record);
    free(link);
}

/* ---- beginning ---- */

static enum tmk_status check_dense(const struct tmk_profile *profile, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < profile->n_tensors; i++)
        if (profile->tensors[i].id != i)
            return tmk_fail(diag, TMK_MISMATCH,
                            "the profile of %s has no record of p%" PRIu32
                            "; linking needs one of every value",
                            profile->model.file, i);
    return TMK_OK;
}

static enum tmk_status identify_value(struct tmk_lineage_record *record,
                                      const struct tmk_profile_tensor *t,
                                      struct tmk_lineage_identity *is, struct tmk_diag *diag) {
    *is = (struct tmk_lineage_identity){
        .fingerprint = t->fingerprint,
        .content = t->content,
        .ordinal = t->ordinal,
        .name = tmk_lineage_record_text(record, t->name),
        .path = tmk_lineage_record_text(record, t->path),
        .kind = t->kind,
        .dtype = t->dtype,
        .has_shape = t->has_shape,
        .shape = t->shape,
    };
    return is->name && is->path ? TMK_OK : tmk_nomem(diag);
}

uint32_t *tmk_linking_none(uint32_t n) {
    uint32_t *ids = malloc(((size_t)n + 1) * sizeof *ids);
    for (uint32_t i = 0; ids && i < n; i++)
        ids[i] = TMK_UNLINKED;
    return ids;
}

enum tmk_status tmk_linking_init(struct tmk_linking *l, const char *method,
                                 const struct tmk_profile *from, const struct tmk_profile *to,
                                 struct tmk_diag *diag) {
    *l = (struct tmk_linking){.from = from, .to = to, .diag = diag};
    TMK_TRY(check_dense(from, diag));
    TMK_TRY(check_dense(to, diag));
    l->link = calloc(1, sizeof *l->link);
    l->value_of = tmk_linking_none(from->n_tensors);
    l->original_of = tmk_linking_none(to->n_tensors);
    TMK_TRY_ALLOC(l->link && l->value_of && l->original_of, diag);
    l->link->method = method;
    TMK_TRY(tmk_lineage_record_create(from->n_tensors, to->n_tensors, &l->link->record, diag));
    l->link->matches = calloc((size_t)from->n_tensors + 1, sizeof *l->link->matches);
    TMK_TRY_ALLOC(l->link->matches, diag);
    struct tmk_lineage_record *record = l->link->record;
    record->producer = tmk_lineage_record_text(record, to->producer.version);
    record->original = (struct tmk_lineage_model){
        tmk_lineage_record_text(record, from->model.file),
        tmk_lineage_record_text(record, from->model.sha256), from->model.fingerprint};
    record->transformed = (struct tmk_lineage_model){
        tmk_lineage_record_text(record, to->model.file),
        tmk_lineage_record_text(record, to->model.sha256), to->model.fingerprint};
    TMK_TRY_ALLOC(record->producer && record->original.file && record->original.sha256 &&
                      record->transformed.file && record->transformed.sha256,
                  diag);
    for (uint32_t i = 0; i < from->n_tensors; i++)
        TMK_TRY(identify_value(record, &from->tensors[i], &record->originals[i].is, diag));
    for (uint32_t i = 0; i < to->n_tensors; i++)
        TMK_TRY(identify_value(record, &to->tensors[i], &record->values[i].is, diag));
    return tmk_linking_mark_different(l);
}

void tmk_linking_finish(struct tmk_linking *l) {
    tmk_link_destroy(&l->link);
    free(l->value_of);
    free(l->original_of);
    free(l->differs);
    *l = (struct tmk_linking){0};
}

/* ---- matching ---- */

void tmk_linking_relate(struct tmk_linking *l, uint32_t original, uint32_t value,
                        enum tmk_link_evidence evidence) {
    l->link->record->originals[original].value = value;
    l->value_of[original] = value;
    if (l->original_of[value] == TMK_UNLINKED)
        l->original_of[value] = original;
    l->link->matches[original].evidence = evidence;
    l->link->matches[original].ambiguous = false;
}

void tmk_linking_match(struct tmk_linking *l, uint32_t original, uint32_t value,
                       enum tmk_link_evidence evidence) {
    const struct tmk_lineage_original *originals = l->link->record->originals;
    uint32_t before = l->original_of[value];
    bool first = before == TMK_UNLINKED || originals[before].verdict != TMK_LINEAGE_SAME;
    l->link->record->originals[original].verdict = first ? TMK_LINEAGE_SAME : TMK_LINEAGE_MERGED;
    tmk_linking_relate(l, original, value, evidence);
    if (first)
        l->original_of[value] = original;
}

enum tmk_status tmk_linking_add_candidate(struct tmk_linking *l, uint32_t original,
                                          uint32_t value) {
    struct tmk_link_match *match = &l->link->matches[original];
    for (uint32_t i = 0; i < match->n_candidates; i++)
        if (match->candidates[i] == value)
            return TMK_OK;
    uint32_t *candidates =
        realloc(match->candidates, ((size_t)match->n_candidates + 1) * sizeof *candidates);
    TMK_TRY_ALLOC(candidates, l->diag);
    match->candidates = candidates;
    match->candidates[match->n_candidates++] = value;
    return TMK_OK;
}

bool tmk_linking_shapes_differ(const struct tmk_profile_tensor *a,
                               const struct tmk_profile_tensor *b) {
    if (a->dtype != b->dtype && a->dtype != TMK_UNDEFINED && b->dtype != TMK_UNDEFINED)
        return true;
    if (!a->has_shape || !b->has_shape)
        return false;
    if (a->shape.rank != b->shape.rank)
        return true;
    for (int32_t i = 0; i < a->shape.rank; i++)
        if (a->shape.dim[i] >= 0 && b->shape.dim[i] >= 0 && a->shape.dim[i] != b->shape.dim[i])
            return true;
    return false;
}

bool tmk_linking_same_op(const struct tmk_profile_tensor *a, const struct tmk_profile_tensor *b) {
    return a->has_producer && b->has_producer && a->producer.output == b->producer.output &&
           strcmp(a->producer.op, b->producer.op) == 0 &&
           strcmp(a->producer.domain, b->producer.domain) == 0;
}

/* ---- ending ---- */

/* Where each original that is not matched went: the one value at which all ways from it towards
 * results first meet a match. */
struct ways {
    uint32_t *to; /* [original]: TMK_UNLINKED: none meets one */
    bool *fork;   /* [original]: they meet several */
    uint32_t *stack, n;
};

/* A way from this original meets `value`, or several where fork. */
static void add_way(struct ways *w, uint32_t original, uint32_t value, bool fork) {
    if (w->fork[original] || (!fork && w->to[original] == value))
        return;
    w->fork[original] = fork || w->to[original] != TMK_UNLINKED;
    w->to[original] = value;
    w->stack[w->n++] = original;
}

/* All that a reader reads goes where it goes. */
static void add_ways_of(const struct tmk_linking *l, struct ways *w, uint32_t reader,
                        uint32_t value, bool fork) {
    const struct tmk_profile_tensor *t = &l->from->tensors[reader];
    for (uint32_t k = 0; k < t->n_operands; k++)
        if (t->operands[k] < l->from->n_tensors && l->value_of[t->operands[k]] == TMK_UNLINKED)
            add_way(w, t->operands[k], value, fork);
}

static enum tmk_status find_ways(const struct tmk_linking *l, struct ways *w) {
    const uint32_t n = l->from->n_tensors;
    w->to = tmk_linking_none(n);
    w->fork = calloc((size_t)n + 1, sizeof *w->fork);
    w->stack = malloc(((size_t)n * 2 + 1) * sizeof *w->stack); /* first one value, then several */
    TMK_TRY_ALLOC(w->to && w->fork && w->stack, l->diag);
    for (uint32_t i = n; i-- > 0;) {
        if (l->value_of[i] != TMK_UNLINKED)
            add_ways_of(l, w, i, l->value_of[i], false);
        while (w->n) {
            uint32_t at = w->stack[--w->n];
            add_ways_of(l, w, at, w->to[at], w->fork[at]);
        }
    }
    return TMK_OK;
}

/* The originals that these values stand for, each once, ascending. */
static enum tmk_status list_originals(struct tmk_linking *l, const uint32_t *values, uint32_t n,
                                      uint32_t **out, uint32_t *out_n) {
    uint32_t *ids = tmk_lineage_record_array(l->link->record, n, sizeof *ids);
    uint32_t used = 0;
    if (!ids && n)
        return tmk_nomem(l->diag);
    for (uint32_t i = 0; i < n; i++)
        if (values[i] < l->to->n_tensors && l->original_of[values[i]] != TMK_UNLINKED)
            ids[used++] = l->original_of[values[i]];
    if (used)
        qsort(ids, used, sizeof *ids, tmk_compare_u32);
    *out = ids;
    *out_n = 0;
    for (uint32_t i = 0; i < used; i++)
        if (!i || ids[i] != ids[i - 1])
            ids[(*out_n)++] = ids[i];
    return TMK_OK;
}

/* Inside of the operator that makes `value`, if all that this reads is accounted for. */
static enum tmk_status absorb_value(struct tmk_linking *l, uint32_t original, uint32_t value) {
    const struct tmk_profile_tensor *v = &l->to->tensors[value];
    struct tmk_lineage_record *record = l->link->record;
    struct tmk_lineage_original *o = &record->originals[original];
    if (!v->has_producer)
        return TMK_OK;
    for (uint32_t i = 0; i < v->n_operands; i++)
        if (v->operands[i] < l->to->n_tensors &&
            l->to->tensors[v->operands[i]].kind != TMK_PROFILE_WEIGHT &&
            l->original_of[v->operands[i]] == TMK_UNLINKED)
            return TMK_OK;
    struct tmk_lineage_absorber by = {tmk_lineage_record_text(record, v->producer.node),
                                      tmk_lineage_record_text(record, v->producer.op),
                                      tmk_lineage_record_text(record, v->producer.domain),
                                      NULL,
                                      NULL,
                                      0,
                                      0};
    TMK_TRY_ALLOC(by.node && by.op && by.domain, l->diag);
    TMK_TRY(list_originals(l, v->operands, v->n_operands, &by.inputs, &by.n_inputs));
    TMK_TRY(list_originals(l, &value, 1, &by.outputs, &by.n_outputs));
    o->absorber = by;
    o->verdict = TMK_LINEAGE_ABSORBED;
    o->value = value;
    return TMK_OK;
}

/* Operands have lesser IDs, but in loops. */
void tmk_linking_mark_fixed(const struct tmk_profile *profile, bool *fixed) {
    for (uint32_t i = 0; i < profile->n_tensors; i++) {
        const struct tmk_profile_tensor *t = &profile->tensors[i];
        fixed[i] = t->kind == TMK_PROFILE_WEIGHT ||
                   (t->kind != TMK_PROFILE_INPUT && t->n_operands > 0 && !*t->path);
        for (uint32_t k = 0; k < t->n_operands && fixed[i]; k++)
            fixed[i] = t->operands[k] < i && fixed[t->operands[k]];
    }
}

static enum tmk_status record_rest(struct tmk_linking *l, const struct ways *ways, bool *constant) {
    tmk_linking_mark_fixed(l->from, constant);
    for (uint32_t i = 0; i < l->from->n_tensors; i++) {
        if (l->value_of[i] != TMK_UNLINKED)
            continue;
        if (constant[i] && l->from->tensors[i].kind != TMK_PROFILE_WEIGHT)
            l->link->record->originals[i].verdict = TMK_LINEAGE_CONSTANT;
        else if (ways->to[i] != TMK_UNLINKED && !ways->fork[i])
            TMK_TRY(absorb_value(l, i, ways->to[i]));
    }
    return TMK_OK;
}

enum tmk_status tmk_linking_end(struct tmk_linking *l, const char *pass, struct tmk_link **out) {
    struct tmk_lineage_record *record = l->link->record;
    struct ways ways = {0};
    bool *constant = calloc((size_t)l->from->n_tensors + 1, sizeof *constant);
    enum tmk_status status = constant ? find_ways(l, &ways) : tmk_nomem(l->diag);
    TMK_THEN(status, record_rest(l, &ways, constant));
    free(ways.to);
    free(ways.fork);
    free(ways.stack);
    free(constant);
    TMK_TRY(status);
    const char *text = tmk_lineage_record_text(record, pass);
    TMK_TRY_ALLOC(text, l->diag);
    for (uint32_t i = 0; i < record->n_originals; i++)
        record->originals[i].pass = text;
    TMK_TRY(tmk_lineage_record_add_pass(record, pass, l->diag));
    TMK_TRY(tmk_lineage_record_finalize(record, l->diag));
    *out = l->link;
    l->link = NULL;
    return TMK_OK;
}

/* ---- by a lineage ---- */

static enum tmk_status check_model(const struct tmk_profile *profile,
                                   const struct tmk_lineage_model *model, const char *path,
                                   const char *end, struct tmk_diag *diag) {
    if (profile->model.fingerprint == model->fingerprint)
        return TMK_OK; /* values' contents are compared when numbers are carried */
    return tmk_fail(diag, TMK_MISMATCH, "%s is not of %s: its %s is %s", path, profile->model.file,
                    end, model->file);
}

enum tmk_status tmk_link_by_lineage(const struct tmk_profile *from, const struct tmk_profile *to,
                                    const char *path, struct tmk_link **out,
                                    struct tmk_diag *diag) {
    struct tmk_link *link = calloc(1, sizeof *link);
    TMK_TRY_ALLOC(link, diag);
    link->method = "lineage";
    enum tmk_status status = tmk_lineage_record_read(path, &link->record, diag);
    if (status != TMK_OK) {
        free(link);
        return status;
    }
    status = check_model(from, &link->record->original, path, "original", diag);
    TMK_THEN(status, check_model(to, &link->record->transformed, path, "transformed model", diag));
    if (status == TMK_OK) {
        link->matches = calloc((size_t)link->record->n_originals + 1, sizeof *link->matches);
        status = link->matches ? TMK_OK : tmk_nomem(diag);
    }
    for (uint32_t i = 0; status == TMK_OK && i < link->record->n_originals; i++)
        if (link->record->originals[i].value >= 0 &&
            link->record->originals[i].verdict != TMK_LINEAGE_ABSORBED)
            link->matches[i].evidence = TMK_LINK_LINEAGE;
    if (status == TMK_OK)
        *out = link;
    else
        tmk_link_destroy(&link);
    return status;
}

void tmk_link_count(const struct tmk_link *link, struct tmk_link_counts *out) {
    *out = (struct tmk_link_counts){.originals = link->record->n_originals,
                                    .values = link->record->n_values};
    for (uint32_t i = 0; i < out->originals; i++) {
        out->by[link->matches[i].left_out ? TMK_LINK_NONE : link->matches[i].evidence]++;
        out->ambiguous += link->matches[i].ambiguous;
        out->left_out += link->matches[i].left_out;
    }
    for (uint32_t i = 0; i < out->values; i++)
        out->found += link->record->values[i].n_originals > 0;
}
