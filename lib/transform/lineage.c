/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "model/onnx.h"
#include "pass/instrument.h"
#include "transform/model.h"

struct making {
    const struct tmk_lineage_ends *ends;
    struct tmk_lineage_record *record;
    struct tmk_value **in_file; /* by number in the graph */
    struct tmk_diag *diag;
};

/* ---- a graph and what its file reads as ---- */

static enum tmk_status fail_differing(struct making *m, const char *what) {
    return tmk_fail(m->diag, TMK_GRAPH, "what was written reads as another graph: %s", what);
}

static void pair_values(struct making *m, const struct tmk_value *value,
                        struct tmk_value *in_file) {
    m->in_file[value->index] = in_file;
}

/* The next initializer from *at on that goes to files, as used ones do; NULL: no more. */
static struct tmk_value *next_initializer(const struct tmk_graph *graph, uint32_t *at) {
    while (*at < graph->n_values) {
        struct tmk_value *value = graph->values[(*at)++];
        if (value->kind == TMK_VALUE_INITIALIZER && tmk_value_alive(value) &&
            (value->n_uses || value->n_graph_outputs))
            return value;
    }
    return NULL;
}

/* The file may have nodes before the first, for inputs whose types are widened, behind those that
 * round to half precision, and behind the last: for widened outputs, and copies of those that are
 * there twice. */
static enum tmk_status pair_graphs(struct making *m, const struct tmk_graph *graph,
                                   const struct tmk_graph *file) {
    const struct tmk_node *node = graph->first, *in_file = file->first;
    uint32_t at = 0, file_at = 0;
    for (uint32_t n = graph == m->ends->graph ? tmk_onnx_leading_casts(graph) : 0; n && in_file;
         n--)
        in_file = in_file->next;
    if (graph->n_inputs != file->n_inputs)
        return fail_differing(m, "its inputs");
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        pair_values(m, graph->inputs[i], file->inputs[i]);
    for (struct tmk_value *value; (value = next_initializer(graph, &at));) {
        struct tmk_value *other = next_initializer(file, &file_at);
        if (!other)
            return fail_differing(m, value->name);
        pair_values(m, value, other);
    }
    for (; node; node = node->next, in_file = in_file->next) {
        if (!in_file)
            return fail_differing(m, node->op);
        if (!tmk_node_is(node, in_file->domain, in_file->op))
            return fail_differing(m, node->op);
        const struct tmk_node *last = in_file;
        for (uint32_t n = tmk_onnx_casts_behind(node); n && last; n--)
            last = last->next;
        for (uint32_t i = 0; i < node->n_outputs; i++) {
            const struct tmk_node *made_by = i == 0 ? last : in_file;
            if (!node->outputs[i])
                continue;
            if (!made_by || i >= made_by->n_outputs || !made_by->outputs[i])
                return fail_differing(m, node->op);
            pair_values(m, node->outputs[i], made_by->outputs[i]);
        }
        for (uint32_t i = 0; i < node->n_attrs; i++) {
            const struct tmk_attr *attr = &node->attrs[i],
                                  *other = tmk_node_attr(in_file, node->attrs[i].name);
            const size_t n = tmk_attr_graphs(attr);
            if (!n)
                continue;
            if (!other || other->kind != attr->kind || other->n != attr->n)
                return fail_differing(m, node->op);
            for (size_t k = 0; k < n; k++)
                TMK_TRY(pair_graphs(m, attr->graphs[k], other->graphs[k]));
        }
        in_file = last;
    }
    return TMK_OK;
}

static void pair_matches(struct making *m) {
    const struct tmk_graph *graph = m->ends->graph;
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (tmk_value_alive(graph->values[i]))
            pair_values(m, graph->values[i], tmk_ptrmap_get(m->ends->matches, graph->values[i]));
}

/* ---- what values are ---- */

static enum tmk_status describe_values(struct making *m, const struct tmk_by_id *values,
                                       bool originals) {
    for (size_t id = 0; id < values->n; id++) {
        if (!values->values[id])
            return tmk_fail(m->diag, TMK_GRAPH, "profile IDs are not dense");
        const struct tmk_value *value = values->values[id];
        struct tmk_lineage_identity *is =
            originals ? &m->record->originals[id].is : &m->record->values[id].is;
        char path[TMK_GRAPH_PATH];
        tmk_graph_path(value->graph, path);
        *is = (struct tmk_lineage_identity){
            .fingerprint = value->fingerprint,
            .content = value->content,
            .ordinal = value->ordinal,
            .name = tmk_lineage_record_text(m->record, value->name),
            .path = tmk_lineage_record_text(m->record, path),
            .kind = tmk_value_kind_of(value),
            .dtype = value->type.dtype,
            .has_shape = value->type.has_shape,
            .shape = value->type.shape,
        };
        TMK_TRY_ALLOC(is->name && is->path, m->diag);
    }
    return TMK_OK;
}

/* ---- what became of originals ---- */

static void *copy_ids(struct making *m, const void *from, uint32_t n, size_t size) {
    void *to = tmk_lineage_record_array(m->record, n, size);
    if (to)
        memcpy(to, from, n * size);
    return to;
}

static enum tmk_status relate_original(struct making *m, const struct tmk_relation *how,
                                       struct tmk_lineage_original *o) {
    const struct tmk_lineage_affine *a = &how->affine;
    const struct tmk_lineage_quantized *q = &how->quantized;
    if (how->view.reshaped)
        o->view.reshaped = true;
    else
        o->view = how->view;
    if (a->n) {
        o->affine = (struct tmk_lineage_affine){a->n, a->n > 1 ? a->axis : 0,
                                                copy_ids(m, a->scale, a->n, sizeof *a->scale),
                                                copy_ids(m, a->shift, a->n, sizeof *a->shift)};
        TMK_TRY_ALLOC(o->affine.scale && o->affine.shift, m->diag);
    }
    if (q->n) {
        o->quantized = (struct tmk_lineage_quantized){
            q->dtype, q->n, q->n > 1 ? q->axis : 0, copy_ids(m, q->scale, q->n, sizeof *q->scale),
            copy_ids(m, q->zero_point, q->n, sizeof *q->zero_point)};
        TMK_TRY_ALLOC(o->quantized.scale && o->quantized.zero_point, m->diag);
    }
    return TMK_OK;
}

/* The originals whose numbers these values have, each once, ascending. */
static enum tmk_status list_originals(struct making *m, struct tmk_value *const *values,
                                      uint32_t n_values, uint32_t **out, uint32_t *out_n) {
    const struct tmk_lineage *lineage = m->ends->lineage;
    uint32_t *ids = NULL, n = 0, unique = 0;
    for (int turn = 0; turn < 2; turn++) {
        n = 0;
        for (uint32_t i = 0; i < n_values; i++) {
            const struct tmk_origin *o = values[i] ? tmk_lineage_first(lineage, values[i]) : NULL;
            for (; o; o = tmk_lineage_next(lineage, o)) {
                if (o->fate == TMK_LINEAGE_ABSORBED)
                    continue;
                if (ids)
                    ids[n] = o->id;
                n++;
            }
        }
        if (turn == 0 && n && !(ids = tmk_lineage_record_array(m->record, n, sizeof *ids)))
            return tmk_nomem(m->diag);
    }
    if (n)
        qsort(ids, n, sizeof *ids, tmk_compare_u32);
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || ids[i] != ids[i - 1])
            ids[unique++] = ids[i];
    *out = ids;
    *out_n = unique;
    return TMK_OK;
}

static enum tmk_status name_absorber(struct making *m, const struct tmk_origin *origin,
                                     struct tmk_lineage_original *o) {
    const struct tmk_node *node = origin->value->producer;
    struct tmk_lineage_absorber *by = &o->absorber;
    if (!node)
        return TMK_OK;
    by->node = tmk_lineage_record_text(m->record, node->name);
    by->op = tmk_lineage_record_text(m->record, node->op);
    by->domain = tmk_lineage_record_text(m->record, node->domain);
    TMK_TRY_ALLOC(by->node && by->op && by->domain, m->diag);
    TMK_TRY(list_originals(m, node->inputs, node->n_inputs, &by->inputs, &by->n_inputs));
    return list_originals(m, node->outputs, node->n_outputs, &by->outputs, &by->n_outputs);
}

static bool is_constant(const struct making *m, const struct tmk_origin *origin) {
    return origin->constant.data ||
           (m->ends->constants && tmk_ptrmap_get(m->ends->constants, origin->value));
}

static bool keeps_numbers(const struct making *m, const struct tmk_value *value) {
    const enum tmk_lineage_verdict fate =
        tmk_lineage_origin(m->ends->lineage, (uint32_t)value->profile_id)->fate;
    return fate == TMK_LINEAGE_SAME || fate == TMK_LINEAGE_MERGED || fate == TMK_LINEAGE_CONSTANT;
}

/* What lies inside an operator goes with it, if its operands and a result are as they were. */
static enum tmk_status follow_inner(struct making *m, const struct tmk_value *value,
                                    struct tmk_lineage_original *o) {
    const struct tmk_node *node = value->producer;
    uint32_t i = 0;
    while (!node->outputs[i] || node->outputs[i]->inner)
        i++;
    const struct tmk_origin *origin =
        tmk_lineage_origin(m->ends->lineage, (uint32_t)node->outputs[i]->profile_id);
    const struct tmk_value *result = origin->value ? m->in_file[origin->value->index] : NULL;
    const struct tmk_node *made_by = result ? result->producer : NULL;
    bool same = made_by && keeps_numbers(m, node->outputs[i]) &&
                tmk_node_is(made_by, node->domain, node->op) && value->output < made_by->n_outputs;
    for (uint32_t k = 0; same && k < node->n_inputs; k++)
        same = !node->inputs[k] || keeps_numbers(m, node->inputs[k]);
    const struct tmk_value *in_file = same ? made_by->outputs[value->output] : NULL;
    o->verdict = in_file ? origin->fate : TMK_LINEAGE_DEAD;
    o->value = in_file ? in_file->profile_id : -1;
    o->pass = tmk_lineage_record_text(m->record, origin->pass);
    o->remark = tmk_lineage_record_text(m->record, origin->remark);
    return o->pass && o->remark ? TMK_OK : tmk_nomem(m->diag);
}

static bool denies_channels(const struct tmk_lineage_identity *value, uint32_t n, int32_t axis) {
    return value->has_shape && n > 1 &&
           (axis >= value->shape.rank ||
            (value->shape.dim[axis] >= 0 && value->shape.dim[axis] != (int64_t)n));
}

static bool denies_view(const struct tmk_lineage_identity *is,
                        const struct tmk_lineage_view *view) {
    return is->has_shape && view->rank && is->shape.rank != view->rank;
}

/* A model may declare what is false of its values; passes know better, and nothing is said of these
 * shapes. */
static void drop_denied_shapes(struct tmk_lineage_record *record, struct tmk_lineage_original *o) {
    if (o->value < 0)
        return;
    struct tmk_lineage_identity *value = &record->values[o->value].is;
    if (denies_channels(value, o->affine.n, o->affine.axis) ||
        denies_channels(value, o->quantized.n, o->quantized.axis) || denies_view(value, &o->view))
        value->has_shape = false;
    if (denies_view(&o->is, &o->view))
        o->is.has_shape = false;
}

static enum tmk_status make_record(struct making *m, const struct tmk_by_id *originals,
                                   const struct tmk_by_id *values) {
    m->in_file = calloc((size_t)tmk_graph_number(m->ends->graph) + 1, sizeof(struct tmk_value *));
    TMK_TRY_ALLOC(m->in_file, m->diag);
    if (m->ends->matches)
        pair_matches(m);
    else
        TMK_TRY(pair_graphs(m, m->ends->graph, m->ends->file));
    TMK_TRY(tmk_lineage_record_create((uint32_t)originals->n, (uint32_t)values->n, &m->record,
                                      m->diag));
    TMK_TRY(describe_values(m, originals, true));
    TMK_TRY(describe_values(m, values, false));
    for (uint32_t id = 0; id < m->record->n_originals; id++) {
        struct tmk_lineage_original *o = &m->record->originals[id];
        if (originals->values[id]->inner) {
            TMK_TRY(follow_inner(m, originals->values[id], o));
            continue;
        }
        const struct tmk_origin *origin = tmk_lineage_origin(m->ends->lineage, id);
        o->verdict = origin->fate;
        /* -1: it has no value, or one that the file is without. */
        const struct tmk_value *in_file = origin->value ? m->in_file[origin->value->index] : NULL;
        o->value = in_file ? in_file->profile_id : -1;
        o->pass = tmk_lineage_record_text(m->record, origin->pass);
        o->remark = tmk_lineage_record_text(m->record, origin->remark);
        TMK_TRY_ALLOC(o->pass && o->remark, m->diag);
        if (origin->value && o->value < 0) /* nothing in the file uses it */
            o->verdict = is_constant(m, origin) ? TMK_LINEAGE_CONSTANT : TMK_LINEAGE_DEAD;
        else if (origin->fate == TMK_LINEAGE_ABSORBED)
            TMK_TRY(name_absorber(m, origin, o));
        else
            TMK_TRY(relate_original(m, &origin->how, o));
        drop_denied_shapes(m->record, o);
    }
    return tmk_lineage_record_finalize(m->record, m->diag);
}

enum tmk_status tmk_lineage_record_of(const struct tmk_lineage_ends *ends,
                                      struct tmk_lineage_record **out, struct tmk_diag *diag) {
    struct making m = {.ends = ends, .diag = diag};
    struct tmk_by_id originals, values;
    TMK_TRY(tmk_show_inner(ends->original, diag));
    TMK_TRY(tmk_show_inner(ends->file, diag));
    TMK_TRY(tmk_by_id_init(&originals, ends->original, diag));
    enum tmk_status status = tmk_by_id_init(&values, ends->file, diag);
    if (status == TMK_OK) {
        status = make_record(&m, &originals, &values);
        tmk_by_id_finish(&values);
    }
    tmk_by_id_finish(&originals);
    free(m.in_file);
    if (status == TMK_OK)
        *out = m.record;
    else
        tmk_lineage_record_destroy(&m.record);
    return status;
}
