/* SPDX-License-Identifier: Apache-2.0 */
#include "export/quantized.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/size.h"
#include "base/text.h"
#include "export/integer.h"
#include "export/qdq.h"
#include "ops/ops.h"

void tmk_quantized_finish(struct tmk_quantized_graph *quantized) {
    tmk_graph_destroy(&quantized->graph);
    free(quantized->values);
    *quantized = (struct tmk_quantized_graph){0};
}

/* Values without readers may be gone. */
static enum tmk_status check_model(const struct tmk_graph *graph,
                                   const struct tmk_encodings *encodings, struct tmk_diag *diag) {
    struct tmk_by_id all;
    TMK_TRY(tmk_by_id_init(&all, graph, diag));
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; status == TMK_OK && i < encodings->n_items; i++) {
        const struct tmk_encoding *e = &encodings->items[i];
        const struct tmk_value *value = tmk_by_id_get(&all, e->id);
        if (value && value->fingerprint != e->fingerprint)
            status = tmk_fail(diag, TMK_MISMATCH,
                              "the encodings are of another model: p%u is '%s' (%016" PRIx64
                              ") there, and '%s' (%016" PRIx64 ") here",
                              e->id, e->name, e->fingerprint, value->name, value->fingerprint);
    }
    tmk_by_id_finish(&all);
    return status;
}

/* ---- QDQ ---- */

void tmk_qdq_remark(struct tmk_qdq *q, const char *format, ...) {
    va_list args;
    va_start(args, format);
    tmk_pass_remark(q->options->remark, q->options->context, format, args);
    va_end(args);
}

enum tmk_status tmk_qdq_report(struct tmk_qdq *q, const struct tmk_encoding *encoding,
                               const char *why) {
    if (q->options->report)
        q->options->report(q->options->context, encoding, why);
    void *how = why ? (void *)(uintptr_t)encoding : q;
    return tmk_ptrmap_put(&q->reported, encoding, how) ? TMK_OK : tmk_nomem(q->diag);
}

/* Of an encoding without a report so far. */
static const char *why_not(const struct tmk_qdq *q, const struct tmk_by_id *all,
                           const struct tmk_encoding *e) {
    const struct tmk_value *value = tmk_by_id_get(all, e->id);
    for (uint32_t i = 0; i < q->n_marks; i++)
        if (q->marks[i]->id == e->id)
            return q->marks[i]->value && q->marks[i]->has_codes
                       ? "it has codes already, by the model's QuantizeLinear or DequantizeLinear"
                   : q->marks[i]->value ? "nothing reads the value under this encoding"
                                        : "the codes of its Relu's or Clip's result clip it";
    if (value && value->graph != q->graph)
        return "it is in a sub-graph, where everything stays float";
    return "nothing that ONNX Runtime's quantizer quantizes computes with it";
}

static enum tmk_status report_rest(struct tmk_qdq *q) {
    struct tmk_by_id all;
    TMK_TRY(tmk_by_id_init(&all, q->graph, q->diag));
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; status == TMK_OK && i < q->encodings->n_items; i++) {
        const struct tmk_encoding *e = &q->encodings->items[i];
        const struct tmk_encoding *result = tmk_ptrmap_get(&q->folded, e);
        for (const struct tmk_encoding *next = result; next;
             next = tmk_ptrmap_get(&q->folded, next))
            result = next;
        const bool in_result = result && tmk_ptrmap_get(&q->reported, result) == q;
        if (!tmk_ptrmap_get(&q->reported, e))
            status = tmk_qdq_report(q, e, in_result ? NULL : why_not(q, &all, e));
    }
    tmk_by_id_finish(&all);
    return status;
}

/* Values without an encoding can be read where they are. */
static enum tmk_status list_values(const struct tmk_qdq *q, struct tmk_quantized_graph *out) {
    struct tmk_by_id all;
    uint32_t n = 0;
    TMK_TRY(tmk_by_id_init(&all, q->graph, q->diag));
    struct tmk_quantized_value *list = calloc(all.n + q->n_marks + 1, sizeof *list);
    enum tmk_status status = list ? TMK_OK : tmk_nomem(q->diag);
    for (uint32_t i = 0; list && i < q->n_marks; i++) {
        const struct tmk_qdq_mark *mark = q->marks[i];
        if (!mark->value || !mark->placed)
            continue;
        list[n++] = (struct tmk_quantized_value){(uint32_t)mark->id, mark->real, mark->codes,
                                                 mark->encoding};
        if (mark->id < (int64_t)all.n)
            all.values[mark->id] = NULL;
    }
    for (uint32_t id = 0; list && id < all.n; id++) {
        struct tmk_value *value = all.values[id];
        if (value && (value->type.dtype == TMK_FLOAT32 || value->type.dtype == TMK_UNDEFINED))
            list[n++] = (struct tmk_quantized_value){id, value, NULL, NULL};
    }
    if (list)
        qsort(list, n, sizeof *list, tmk_compare_u32);
    tmk_by_id_finish(&all);
    out->values = list;
    out->n = n;
    return status;
}

static enum tmk_status build_qdq(struct tmk_qdq *q) {
    TMK_TRY(tmk_qdq_prepare(q));
    TMK_TRY(tmk_qdq_mark_all(q));
    TMK_TRY(tmk_qdq_widen_scales(q));
    TMK_TRY(tmk_qdq_place_all(q));
    TMK_TRY(report_rest(q));
    TMK_TRY(tmk_graph_sort(q->graph, q->diag));
    TMK_TRY(tmk_ops_bind(q->graph, q->diag));
    return tmk_graph_verify(q->graph, q->diag);
}

static enum tmk_status quantize_qdq(const struct tmk_graph *graph,
                                    const struct tmk_encodings *encodings,
                                    const struct tmk_quantize_options *options,
                                    struct tmk_quantized_graph *out, struct tmk_diag *diag) {
    struct tmk_qdq q = {.encodings = encodings, .options = options, .diag = diag};
    struct tmk_quantized_graph made = {0};
    TMK_TRY(tmk_graph_clone(graph, &made.graph, diag));
    q.graph = made.graph;
    enum tmk_status status = build_qdq(&q);
    TMK_THEN(status, list_values(&q, &made));
    tmk_ptrmap_finish(&q.by_value);
    tmk_ptrmap_finish(&q.enlarged);
    tmk_ptrmap_finish(&q.derived);
    tmk_ptrmap_finish(&q.folded);
    tmk_ptrmap_finish(&q.reported);
    tmk_arena_finish(&q.arena);
    if (status == TMK_OK)
        *out = made;
    else
        tmk_quantized_finish(&made);
    return status;
}

enum tmk_status tmk_quantize_goes_on(const struct tmk_quantize_options *options,
                                     struct tmk_diag *diag) {
    return options->stop && options->stop(options->of)
               ? tmk_fail(diag, TMK_INTERRUPTED, "stopped while weights were quantized")
               : TMK_OK;
}

enum tmk_status tmk_quantize_graph(const struct tmk_graph *graph,
                                   const struct tmk_encodings *encodings,
                                   const struct tmk_quantize_options *options,
                                   struct tmk_quantized_graph *out, struct tmk_diag *diag) {
    TMK_TRY(check_model(graph, encodings, diag));
    if (options->integer)
        return tmk_quantize_integer(graph, encodings, options, out, diag);
    return quantize_qdq(graph, encodings, options, out, diag);
}
