/* SPDX-License-Identifier: Apache-2.0 */
/* openvino: FakeQuantize operations put into an IR that OpenVINO wrote, which so need
 * not be understood: each named tensor gets one, and the consumers that the encoding is for read
 * its output. The limits are the reals of the first and the last code, so that 0 has a code.
 *
 * Weights that the IR keeps in half precision get theirs behind the conversion to float32. The name
 * of a tensor that is an output of the network moves to the FakeQuantize. */
#include "export/openvino.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/size.h"
#include "export/exporter.h"
#include "export/rows.h"

enum { NET = 1, SECTION, ENTRY, SIDE, PORT, DIM }; /* depths */

struct reading {
    struct tmk_ir *ir;
    size_t layers_size, ports_size, edges_size;
    bool in_layers, in_edges, in_output, in_port;
    bool seen_layers, seen_edges;
    struct tmk_xml xml;
    struct tmk_diag *diag;
};

static size_t line_of(const struct reading *r, const char *at) {
    return (size_t)(at - r->xml.begin);
}

static enum tmk_status fail_tag(const struct reading *r, const struct tmk_xml_tag *tag,
                                const char *what) {
    return tmk_fail(r->diag, TMK_FORMAT, "byte %zu: %s was expected", line_of(r, tag->begin), what);
}

static bool get_number(const struct tmk_xml_tag *tag, const char *name, uint64_t *out) {
    const char *raw;
    size_t len;
    return tmk_xml_raw(tag, name, &raw, &len) && tmk_read_digits(raw, len, out) &&
           *out <= INT64_MAX;
}

/* "" where there is none. */
static char *get_text(struct reading *r, const struct tmk_xml_tag *tag, const char *name) {
    const char *raw = "";
    size_t len = 0;
    if (!tmk_xml_raw(tag, name, &raw, &len))
        len = 0;
    return tmk_xml_text(raw, len, &r->ir->arena);
}

static enum tmk_status add_layer(struct reading *r, const struct tmk_xml_tag *tag) {
    struct tmk_ir *ir = r->ir;
    struct tmk_ir_layer layer = {0, get_text(r, tag, "type")};
    TMK_TRY_ALLOC(TMK_GROW(ir->layers, ir->n_layers, r->layers_size) && layer.type, r->diag);
    if (!get_number(tag, "id", &layer.id))
        return fail_tag(r, tag, "the id of a layer");
    if (layer.id >= ir->next_id)
        ir->next_id = layer.id + 1;
    ir->layers[ir->n_layers++] = layer;
    return TMK_OK;
}

static enum tmk_status add_port(struct reading *r, const struct tmk_xml_tag *tag) {
    struct tmk_ir *ir = r->ir;
    struct tmk_ir_port port = {.layer = ir->n_layers - 1, .names = get_text(r, tag, "names")};
    const char *raw;
    size_t len;
    TMK_TRY_ALLOC(TMK_GROW(ir->ports, ir->n_ports, r->ports_size) && port.names, r->diag);
    if (!get_number(tag, "id", &port.id))
        return fail_tag(r, tag, "the id of a port");
    port.is_float32 =
        tmk_xml_raw(tag, "precision", &raw, &len) && len == 4 && memcmp(raw, "FP32", 4) == 0;
    if (tmk_xml_raw(tag, "names", &raw, &len)) {
        size_t begin = line_of(r, raw) - 1;
        while (begin > line_of(r, tag->begin) && r->xml.begin[begin] != ' ')
            begin--;
        port.attr = (struct tmk_ir_span){begin, line_of(r, raw) + len + 1};
    }
    port.dims.begin = port.dims.end = line_of(r, tag->end);
    ir->ports[ir->n_ports++] = port;
    r->in_port = !tag->closes;
    return TMK_OK;
}

static enum tmk_status add_dim(struct reading *r, const struct tmk_xml_tag *tag) {
    struct tmk_shape *shape = &r->ir->ports[r->ir->n_ports - 1].shape;
    char *end;
    if (shape->rank == TMK_MAX_RANK)
        return fail_tag(r, tag, "a shape of fewer dimensions");
    shape->dim[shape->rank++] = strtoll(tag->end, &end, 10);
    return *end == '<' ? TMK_OK : fail_tag(r, tag, "a dimension");
}

static enum tmk_status add_edge(struct reading *r, const struct tmk_xml_tag *tag) {
    struct tmk_ir *ir = r->ir;
    struct tmk_ir_edge edge = {.tag = {line_of(r, tag->begin), line_of(r, tag->end)}};
    TMK_TRY_ALLOC(TMK_GROW(ir->edges, ir->n_edges, r->edges_size), r->diag);
    if (!get_number(tag, "from-layer", &edge.from_layer) ||
        !get_number(tag, "from-port", &edge.from_port) ||
        !get_number(tag, "to-layer", &edge.to_layer) || !get_number(tag, "to-port", &edge.to_port))
        return fail_tag(r, tag, "an edge from a port to a port");
    ir->edges[ir->n_edges++] = edge;
    return TMK_OK;
}

static void see_section(struct reading *r, const struct tmk_xml_tag *tag) {
    bool opens = tag->opens && !tag->closes;
    if (tmk_xml_is(tag, "layers")) {
        r->in_layers = opens;
        r->seen_layers = true;
        r->ir->layers_end = line_of(r, tag->begin);
    } else if (tmk_xml_is(tag, "edges")) {
        r->in_edges = opens;
        r->seen_edges = true;
        r->ir->edges_end = line_of(r, tag->begin);
    }
}

static enum tmk_status read_tag(struct reading *r, const struct tmk_xml_tag *tag) {
    int depth = r->xml.depth;
    if (depth == NET && tag->opens && !tmk_xml_is(tag, "net"))
        return fail_tag(r, tag, "<net>");
    if (depth == SECTION)
        see_section(r, tag);
    if (depth == ENTRY && r->in_layers && tag->opens && tmk_xml_is(tag, "layer"))
        return add_layer(r, tag);
    if (depth == ENTRY && r->in_edges && tag->opens && tmk_xml_is(tag, "edge"))
        return add_edge(r, tag);
    if (depth == SIDE && r->in_layers && tmk_xml_is(tag, "output"))
        r->in_output = tag->opens && !tag->closes;
    if (depth == PORT && r->in_output && tag->opens && tmk_xml_is(tag, "port"))
        return r->ir->n_layers ? add_port(r, tag) : fail_tag(r, tag, "a layer");
    if (depth == PORT && r->in_port && tag->closes && !tag->opens) {
        r->ir->ports[r->ir->n_ports - 1].dims.end = line_of(r, tag->begin);
        r->in_port = false;
    }
    if (depth == DIM && r->in_port && tag->opens && tmk_xml_is(tag, "dim"))
        return add_dim(r, tag);
    return TMK_OK;
}

static enum tmk_status read_all(struct reading *r) {
    struct tmk_xml_tag tag;
    enum tmk_status status;
    while ((status = tmk_xml_next(&r->xml, &tag, r->diag)) == TMK_OK)
        TMK_TRY(read_tag(r, &tag));
    if (status != TMK_NOTFOUND)
        return status;
    if (!r->seen_layers || !r->seen_edges)
        return tmk_fail(r->diag, TMK_FORMAT, "it has no <layers> and <edges>: it is no IR");
    return TMK_OK;
}

enum tmk_status tmk_ir_read(const char *path, struct tmk_ir *out, struct tmk_diag *diag) {
    struct tmk_ir ir = {0};
    struct reading r = {.ir = &ir, .diag = diag};
    TMK_TRY(tmk_file_map(path, &ir.file, diag));
    r.xml = tmk_xml_begin(tmk_buf_data(ir.file), tmk_buf_size(ir.file));
    enum tmk_status status = tmk_in(diag, read_all(&r), "%s", path);
    if (status == TMK_OK)
        *out = ir;
    else
        tmk_ir_finish(&ir);
    return status;
}

void tmk_ir_finish(struct tmk_ir *ir) {
    tmk_buf_unref(&ir->file);
    free(ir->layers);
    free(ir->ports);
    free(ir->edges);
    tmk_arena_finish(&ir->arena);
    *ir = (struct tmk_ir){0};
}

bool tmk_ir_is_named(const struct tmk_ir_port *port, const char *name) {
    const char *at = port->names;
    for (;;) {
        const char *wanted = name;
        while (*at && *at != ',') {
            const char *c = at[0] == '\\' && at[1] == ',' ? at + 1 : at;
            wanted = wanted && *wanted == *c && *c ? wanted + 1 : NULL;
            at = c + 1;
        }
        if (wanted && !*wanted && wanted != name)
            return true;
        if (!*at)
            return false;
        at++;
    }
}

enum { ALIGNMENT = 64, FQ_OUTPUT = 5 };

struct writing {
    const struct tmk_export_job *job;
    struct tmk_ir ir;
    struct tmk_export_rows rows;
    struct tmk_text layers, edges; /* new ones */
    struct tmk_text bin;           /* the template's, and new ones behind it */
    uint64_t *fq;                  /* [ports] the id of its FakeQuantize + 1; 0: none */
    bool *moved;                   /* [ports] its names are the FakeQuantize's */
    bool *stays;                   /* [edges] its reader takes the tensor without codes */
    size_t n;
    enum { NONE, FIRST, ALL } overflow; /* whose weights get half of their codes */
    size_t n_halved;
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

/* A Const of the encoding's limits, `times` as wide; its id. */
static uint64_t put_const(struct writing *w, const struct tmk_encoding *e, const float *values,
                          float times, int32_t rank) {
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
    for (uint32_t i = 0; i < e->n; i++) {
        const float value = times * values[i];
        tmk_text_append(&w->bin, (const char *)&value, sizeof value);
    }
    return id;
}

static void put_edge(struct writing *w, uint64_t from, uint64_t from_port, uint64_t to,
                     uint64_t to_port) {
    tmk_text_printf(&w->edges,
                    "<edge from-layer=\"%" PRIu64 "\" from-port=\"%" PRIu64 "\" to-layer=\"%" PRIu64
                    "\" to-port=\"%" PRIu64 "\"/>\n",
                    from, from_port, to, to_port);
}

static bool is_result(const struct writing *w, uint64_t layer) {
    const struct tmk_ir_layer *it = layer_by_id(w, layer);
    return it && strcmp(it->type, "Result") == 0;
}

static bool is_output(const struct writing *w, size_t port) {
    for (size_t i = 0; i < w->ir.n_edges; i++)
        if (is_from(w, &w->ir.edges[i], port) && !w->stays[i] &&
            is_result(w, w->ir.edges[i].to_layer))
            return true;
    return false;
}

/* ---- readers that take the tensor without codes ---- */

/* The node that made the port's tensor; NULL: the network names it otherwise, or not at all. */
static const struct tmk_node *node_of_port(const struct writing *w,
                                           const struct tmk_ir_port *port) {
    const struct tmk_node *node = *port->names ? w->job->graph->first : NULL;
    for (; node; node = node->next)
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (node->outputs[i] && tmk_ir_is_named(port, node->outputs[i]->name))
                return node;
    return NULL;
}

/* The node that the layer is a part of: that of the first tensor behind it which has a name. */
static const struct tmk_node *node_of_layer(const struct writing *w, uint64_t layer, int depth) {
    const struct tmk_node *node = NULL;
    bool named = false;
    for (size_t i = 0; i < w->ir.n_ports && !node; i++)
        if (w->ir.layers[w->ir.ports[i].layer].id == layer) {
            named = named || *w->ir.ports[i].names;
            node = node_of_port(w, &w->ir.ports[i]);
        }
    for (size_t i = 0; i < w->ir.n_edges && !node && !named && depth; i++)
        if (w->ir.edges[i].from_layer == layer)
            node = node_of_layer(w, w->ir.edges[i].to_layer, depth - 1);
    return node;
}

/* Has the encoding none of the uses that the edge stands for? */
static bool reads_floats(const struct writing *w, const struct tmk_encoding *e,
                         const struct tmk_ir_edge *edge) {
    enum { DEEPEST = 8 }; /* layers of one node */
    if (!e->n_uses || !w->job->graph || is_result(w, edge->to_layer))
        return e->n_uses && w->job->graph;
    const struct tmk_node *node = node_of_layer(w, edge->to_layer, DEEPEST);
    bool found = false;
    for (uint32_t i = 0; node && i < node->n_inputs; i++)
        if (node->inputs[i] && node->inputs[i]->profile_id == (int64_t)e->id) {
            if (tmk_export_encoding(w->job->given, node, i))
                return false;
            found = true;
        }
    return found;
}

/* ---- sums of 16 bits ----
 * Processors without VNNI add pairs of products of 8 bits in 16, which saturate: of 0 ... 255 times
 * -127 ... 127 two do. Codes of at most 64 never do. */

/* The layer that makes the first operand of another; NULL: there is none. */
static const struct tmk_ir_layer *operand(const struct writing *w, uint64_t layer) {
    for (size_t i = 0; i < w->ir.n_edges; i++)
        if (w->ir.edges[i].to_layer == layer && w->ir.edges[i].to_port == 0)
            return layer_by_id(w, w->ir.edges[i].from_layer);
    return NULL;
}

/* Do the network's inputs reach the first operand of a reader of the weights, moved and scaled at
 * most? Only there are codes often large throughout. */
static bool is_first(const struct writing *w, size_t port) {
    static const char *const passed[] = {"Transpose", "Reshape",  "Convert", "Squeeze", "Unsqueeze",
                                         "Subtract",  "Multiply", "Add",     "Divide"};
    for (size_t i = 0; i < w->ir.n_edges; i++) {
        if (!is_from(w, &w->ir.edges[i], port) || w->ir.edges[i].to_port != 1)
            continue;
        const struct tmk_ir_layer *at = operand(w, w->ir.edges[i].to_layer);
        for (size_t steps = 0; at && steps < w->ir.n_layers; steps++) {
            if (strcmp(at->type, "Parameter") == 0)
                return true;
            size_t k = 0;
            while (k < TMK_COUNT(passed) && strcmp(at->type, passed[k]) != 0)
                k++;
            at = k < TMK_COUNT(passed) ? operand(w, at->id) : NULL;
        }
    }
    return false;
}

static bool is_halved(struct writing *w, const struct tmk_encoding *e, size_t port) {
    const bool halved = e->role == TMK_ENCODING_WEIGHT && tmk_export_bits(e) == 8 &&
                        (w->overflow == ALL || (w->overflow == FIRST && is_first(w, port)));
    w->n_halved += halved;
    return halved;
}

static void remark_halved(const struct writing *w) {
    if (w->n_halved)
        tmk_export_remark(
            w->job,
            "%zu weights have half of their codes, so that processors without VNNI do "
            "not saturate, as NNCF does: --set overflow=none|first|all",
            w->n_halved);
}

static void put_fake_quantize(struct writing *w, const struct tmk_encoding *e, size_t port) {
    const struct tmk_ir_port *p = &w->ir.ports[port];
    const char *file = tmk_buf_data(w->ir.file);
    int32_t lowest, highest, rank = e->axis < 0 ? 0 : p->shape.rank;
    tmk_encoding_codes(e, &lowest, &highest);
    const float times = is_halved(w, e, port) ? 2 : 1;
    uint64_t low = put_const(w, e, e->clip_min, times, rank);
    uint64_t high = put_const(w, e, e->clip_max, times, rank);
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
    for (size_t i = 0; i < w->ir.n_edges; i++)
        w->stays[i] = w->stays[i] ||
                      (is_from(w, &w->ir.edges[i], port) && reads_floats(w, e, &w->ir.edges[i]));
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
            if (!is_from(w, edge, port) || w->stays[i])
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

static enum tmk_status read_overflow(struct writing *w) {
    static const char *const words[] = {"none", "first", "all"};
    const char *given = tmk_export_setting(w->job, "overflow", words[FIRST]);
    for (size_t i = 0; i < TMK_COUNT(words); i++)
        if (strcmp(given, words[i]) == 0) {
            w->overflow = i;
            return TMK_OK;
        }
    return tmk_fail(w->diag, TMK_ARGUMENT, "overflow=%s: none, first or all was expected", given);
}

static enum tmk_status read_template(struct writing *w) {
    struct tmk_buf *bin = NULL;
    TMK_TRY(tmk_ir_read(w->job->template, &w->ir, w->diag));
    w->fq = calloc(w->ir.n_ports + 1, sizeof *w->fq);
    w->moved = calloc(w->ir.n_ports + 1, sizeof *w->moved);
    w->stays = calloc(w->ir.n_edges + 1, sizeof *w->stays);
    char *path = tmk_export_bin_path(w->job->template, ".xml");
    enum tmk_status status = w->fq && w->moved && w->stays && path
                                 ? tmk_file_map(path, &bin, w->diag)
                                 : tmk_nomem(w->diag);
    if (status == TMK_OK)
        tmk_text_append(&w->bin, tmk_buf_data(bin), tmk_buf_size(bin));
    tmk_buf_unref(&bin);
    free(path);
    return status;
}

static enum tmk_status write_openvino(const struct tmk_export_job *job, struct tmk_diag *diag) {
    struct writing w = {.job = job, .diag = diag};
    const struct tmk_export_requirements wants = {.weights = true,
                                                  .fused = true,
                                                  .by_reader = job->graph != NULL,
                                                  .unfit = tmk_export_unfit_codes};
    struct tmk_text xml = {0};
    enum tmk_status status = read_overflow(&w);
    TMK_THEN(status, read_template(&w));
    TMK_THEN(status, tmk_export_rows_make(job, &wants, &w.rows, diag));
    TMK_THEN(status, put_rows(&w));
    TMK_THEN(status, put_xml(&w, &xml));
    if (status == TMK_OK) {
        remark_16_bits(&w);
        remark_halved(&w);
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
    free(w.stays);
    return status;
}

const struct tmk_exporter tmk_exporter_openvino = {
    .name = "openvino",
    .endings = "xml",
    .writes_model = true,
    .consumer =
        "OpenVINO: OUT.xml and OUT.bin with FakeQuantize, from --template NAME.xml with its "
        ".bin (ov.save_model)",
    .settings = "overflow=none|first|all",
    .needs_template = true,
    .limits = {.activations = TMK_EXPORT_INTEGERS, .weights = TMK_EXPORT_INTEGERS},
    .write = write_openvino,
};
