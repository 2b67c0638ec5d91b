/* SPDX-License-Identifier: Apache-2.0 */
/* openvino: FakeQuantize operations put into an IR that OpenVINO wrote, which so need
 * not be understood: each named tensor gets one, and the tensor's consumers read its output. The
 * limits are the reals of the first and the last code, so that 0 has a code.
 *
 * Weights that the IR keeps in half precision get theirs behind the conversion to float32. The name
 * of a tensor that is an output of the network moves to the FakeQuantize. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "export/openvino_ir.h"
#include "export/pair.h"
#include "export/rows.h"

enum { ALIGNMENT = 64, FQ_OUTPUT = 5 };

struct writing {
    const struct tmk_export_job *job;
    struct tmk_ir ir;
    struct tmk_export_rows rows;
    struct tmk_text layers, edges; /* new ones */
    struct tmk_text bin;           /* the template's, and new ones behind it */
    uint64_t *fq;                  /* [ports] the id of its FakeQuantize + 1; 0: none */
    bool *moved;                   /* [ports] its names are the FakeQuantize's */
    size_t n;
    struct tmk_diag *diag;
};

/* ---- finding the tensor ---- */

static bool is_from(const struct writing *w, const struct tmk_ir_edge *edge, size_t port) {
    const struct tmk_ir_port *p = &w->ir.ports[port];
    return edge->from_layer == w->ir.layers[p->layer].id && edge->from_port == p->id;
}

static const struct tmk_ir_layer *layer_by_id(const struct writing *w, uint64_t id) {
    for (size_t i = 0; i < w->ir.n_layers; i++)
        if (w->ir.layers[i].id == id)
            return &w->ir.layers[i];
    return NULL;
}

/* Where the numbers are float32: the port itself, or that of the one Convert behind it. */
static const char *find_float(const struct writing *w, size_t *port) {
    if (w->ir.ports[*port].is_float32)
        return NULL;
    for (size_t i = 0; i < w->ir.n_edges; i++) {
        const struct tmk_ir_layer *to =
            is_from(w, &w->ir.edges[i], *port) ? layer_by_id(w, w->ir.edges[i].to_layer) : NULL;
        for (size_t k = 0; to && strcmp(to->type, "Convert") == 0 && k < w->ir.n_ports; k++)
            if (&w->ir.layers[w->ir.ports[k].layer] == to && w->ir.ports[k].is_float32) {
                *port = k;
                return NULL;
            }
    }
    return "the IR does not have it as float32";
}

static const char *find_port(const struct writing *w, const struct tmk_export_row *row,
                             size_t *port) {
    const struct tmk_encoding *e = row->encoding;
    for (*port = 0; *port < w->ir.n_ports; ++*port)
        if (tmk_ir_is_named(&w->ir.ports[*port], row->name))
            break;
    if (*port == w->ir.n_ports)
        return "the IR has no tensor of this name";
    const char *why = find_float(w, port);
    const struct tmk_shape *shape = &w->ir.ports[*port].shape;
    if (!why && w->fq[*port])
        why = "it is the same tensor of the IR as another value";
    if (!why && e->axis >= 0 && (e->axis >= shape->rank || shape->dim[e->axis] != (int64_t)e->n))
        why = "the tensor has another shape in the IR, and this encoding is by channel";
    return why;
}

/* ---- writing ---- */

static void put_dims(struct tmk_text *out, const struct tmk_encoding *e, int32_t rank) {
    for (int32_t i = 0; i < rank; i++)
        tmk_text_printf(out, "<dim>%u</dim>", i == e->axis ? e->n : 1);
}

/* A Const of the encoding's limits; its id. */
static uint64_t put_const(struct writing *w, const struct tmk_encoding *e, const float *values,
                          int32_t rank) {
    static const char zeros[ALIGNMENT];
    uint64_t id = w->ir.next_id++;
    size_t size = e->n * sizeof *values;
    tmk_text_append(&w->bin, zeros, -w->bin.len & (ALIGNMENT - 1));
    tmk_text_printf(&w->layers,
                    "<layer id=\"%" PRIu64 "\" name=\"tidemark/%" PRIu64
                    "\" type=\"Const\" version=\"opset1\"><data element_type=\"f32\" shape=\"",
                    id, id);
    for (int32_t i = 0; i < rank; i++)
        tmk_text_printf(&w->layers, "%s%u", i ? ", " : "", i == e->axis ? e->n : 1);
    tmk_text_printf(&w->layers,
                    "\" offset=\"%zu\" size=\"%zu\"/><output><port id=\"0\" precision=\"FP32\">",
                    w->bin.len, size);
    put_dims(&w->layers, e, rank);
    tmk_text_puts(&w->layers, "</port></output></layer>\n");
    tmk_text_append(&w->bin, (const char *)values, size);
    return id;
}

static void put_edge(struct writing *w, uint64_t from, uint64_t from_port, uint64_t to,
                     uint64_t to_port) {
    tmk_text_printf(&w->edges,
                    "<edge from-layer=\"%" PRIu64 "\" from-port=\"%" PRIu64 "\" to-layer=\"%" PRIu64
                    "\" to-port=\"%" PRIu64 "\"/>\n",
                    from, from_port, to, to_port);
}

static bool is_output(const struct writing *w, size_t port) {
    for (size_t i = 0; i < w->ir.n_edges; i++) {
        const struct tmk_ir_layer *to =
            is_from(w, &w->ir.edges[i], port) ? layer_by_id(w, w->ir.edges[i].to_layer) : NULL;
        if (to && strcmp(to->type, "Result") == 0)
            return true;
    }
    return false;
}

static void put_fake_quantize(struct writing *w, const struct tmk_encoding *e, size_t port) {
    const struct tmk_ir_port *p = &w->ir.ports[port];
    const char *file = tmk_buf_data(w->ir.file);
    int32_t lowest, highest, rank = e->axis < 0 ? 0 : p->shape.rank;
    tmk_encoding_codes(e, &lowest, &highest);
    uint64_t low = put_const(w, e, e->clip_min, rank), high = put_const(w, e, e->clip_max, rank);
    uint64_t id = w->ir.next_id++;
    tmk_text_printf(&w->layers,
                    "<layer id=\"%" PRIu64 "\" name=\"tidemark/%" PRIu64
                    "\" type=\"FakeQuantize\" version=\"opset1\"><data levels=\"%" PRIu32
                    "\" auto_broadcast=\"numpy\"/><input>",
                    id, id, (uint32_t)(highest - lowest) + 1);
    for (int i = 0; i < FQ_OUTPUT; i++) {
        tmk_text_printf(&w->layers, "<port id=\"%d\" precision=\"FP32\">", i);
        if (i == 0)
            tmk_text_append(&w->layers, file + p->dims.begin, p->dims.end - p->dims.begin);
        else
            put_dims(&w->layers, e, rank);
        tmk_text_puts(&w->layers, "</port>");
    }
    tmk_text_printf(&w->layers, "</input><output><port id=\"%d\" precision=\"FP32\"", FQ_OUTPUT);
    w->moved[port] = is_output(w, port);
    if (w->moved[port])
        tmk_text_append(&w->layers, file + p->attr.begin, p->attr.end - p->attr.begin);
    tmk_text_puts(&w->layers, ">");
    tmk_text_append(&w->layers, file + p->dims.begin, p->dims.end - p->dims.begin);
    tmk_text_puts(&w->layers, "</port></output></layer>\n");
    put_edge(w, w->ir.layers[p->layer].id, p->id, id, 0);
    for (uint64_t i = 1; i < FQ_OUTPUT; i++)
        put_edge(w, i % 2 ? low : high, 0, id, i);
    w->fq[port] = id + 1;
    w->n++;
}

/* ---- the changed file ---- */

/* One change of the template's bytes. */
struct edit {
    struct tmk_ir_span at;
    char text[192];
    const struct tmk_text *more; /* instead of `text` */
};

static int by_place(const void *a, const void *b) {
    const struct edit *x = a, *y = b;
    return x->at.begin < y->at.begin ? -1 : x->at.begin > y->at.begin;
}

static size_t list_edits(const struct writing *w, struct edit *edits) {
    size_t n = 0;
    for (size_t port = 0; port < w->ir.n_ports; port++) {
        if (w->moved[port])
            edits[n++] = (struct edit){.at = w->ir.ports[port].attr};
        for (size_t i = 0; w->fq[port] && i < w->ir.n_edges; i++) {
            const struct tmk_ir_edge *edge = &w->ir.edges[i];
            if (!is_from(w, edge, port))
                continue;
            edits[n] = (struct edit){.at = edge->tag};
            snprintf(edits[n++].text, sizeof edits->text,
                     "<edge from-layer=\"%" PRIu64 "\" from-port=\"%d\" to-layer=\"%" PRIu64
                     "\" to-port=\"%" PRIu64 "\"/>",
                     w->fq[port] - 1, FQ_OUTPUT, edge->to_layer, edge->to_port);
        }
    }
    edits[n++] = (struct edit){{w->ir.layers_end, w->ir.layers_end}, "", &w->layers};
    edits[n++] = (struct edit){{w->ir.edges_end, w->ir.edges_end}, "", &w->edges};
    qsort(edits, n, sizeof *edits, by_place);
    return n;
}

static enum tmk_status put_xml(const struct writing *w, struct tmk_text *out) {
    const char *file = tmk_buf_data(w->ir.file);
    struct edit *edits = calloc(w->ir.n_ports + w->ir.n_edges + 2, sizeof *edits);
    size_t at = 0, n = edits ? list_edits(w, edits) : 0;
    for (size_t i = 0; i < n; i++) {
        tmk_text_append(out, file + at, edits[i].at.begin - at);
        if (edits[i].more)
            tmk_text_append(out, edits[i].more->data, edits[i].more->len);
        else
            tmk_text_puts(out, edits[i].text);
        at = edits[i].at.end;
    }
    tmk_text_append(out, file + at, tmk_buf_size(w->ir.file) - at);
    bool failed = !edits || out->failed || w->layers.failed || w->edges.failed;
    free(edits);
    return failed ? tmk_nomem(w->diag) : TMK_OK;
}

static enum tmk_status put_rows(struct writing *w) {
    for (size_t i = 0; i < w->rows.n; i++) {
        const struct tmk_export_row *row = &w->rows.items[i];
        size_t port;
        const char *why = find_port(w, row, &port);
        if (why)
            tmk_export_skip(w->job, row->encoding, why);
        else
            put_fake_quantize(w, row->encoding, port);
    }
    return w->n ? TMK_OK
                : tmk_fail(w->diag, TMK_NOTFOUND,
                           "no tensor of %s has the name of a value; nothing was written",
                           w->job->template);
}

static void remark_16_bits(const struct writing *w) {
    for (size_t i = 0; i < w->rows.n; i++)
        if (tmk_export_bits(w->rows.items[i].encoding) == 16) {
            tmk_export_remark(w->job, "OpenVINO 2026.4 was measured to run 16-bit activations "
                                      "wrongly; compare its output with the float network's");
            return;
        }
}

static enum tmk_status read_template(struct writing *w) {
    struct tmk_buf *bin = NULL;
    TMK_TRY(tmk_ir_read(w->job->template, &w->ir, w->diag));
    w->fq = calloc(w->ir.n_ports + 1, sizeof *w->fq);
    w->moved = calloc(w->ir.n_ports + 1, sizeof *w->moved);
    char *path = tmk_export_bin_path(w->job->template, ".xml");
    enum tmk_status status =
        w->fq && w->moved && path ? tmk_file_map(path, &bin, w->diag) : tmk_nomem(w->diag);
    if (status == TMK_OK)
        tmk_text_append(&w->bin, tmk_buf_data(bin), tmk_buf_size(bin));
    tmk_buf_unref(&bin);
    free(path);
    return status;
}

static enum tmk_status write_openvino(const struct tmk_export_job *job, struct tmk_diag *diag) {
    struct writing w = {.job = job, .diag = diag};
    const struct tmk_export_requirements wants = {
        .weights = true, .fused = true, .unfit = tmk_export_unfit_codes};
    struct tmk_text xml = {0};
    enum tmk_status status = read_template(&w);
    if (status == TMK_OK)
        status = tmk_export_rows_make(job, &wants, &w.rows, diag);
    if (status == TMK_OK)
        status = put_rows(&w);
    if (status == TMK_OK)
        status = put_xml(&w, &xml);
    if (status == TMK_OK) {
        remark_16_bits(&w);
        status = tmk_export_write_pair(job, ".xml", &xml, &w.bin, diag);
    }
    tmk_export_rows_finish(&w.rows);
    tmk_ir_finish(&w.ir);
    tmk_text_finish(&w.layers);
    tmk_text_finish(&w.edges);
    tmk_text_finish(&w.bin);
    tmk_text_finish(&xml);
    free(w.fq);
    free(w.moved);
    return status;
}

const struct tmk_exporter tmk_exporter_openvino = {
    .name = "openvino",
    .consumer =
        "OpenVINO: OUT.xml and OUT.bin with FakeQuantize, from --template NAME.xml with its "
        ".bin (ov.save_model)",
    .settings = "",
    .needs_template = true,
    .limits = {.activations = TMK_EXPORT_INTEGERS, .weights = TMK_EXPORT_INTEGERS},
    .write = write_openvino,
};
