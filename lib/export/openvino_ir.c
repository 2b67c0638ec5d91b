/* SPDX-License-Identifier: Apache-2.0 */
#include "export/openvino_ir.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/grow.h"

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
    if (!tmk_xml_raw(tag, name, &raw, &len) || !len || len > 18)
        return false;
    *out = 0;
    for (size_t i = 0; i < len; i++) {
        if (raw[i] < '0' || raw[i] > '9')
            return false;
        *out = 10 * *out + (uint64_t)(raw[i] - '0');
    }
    return true;
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
    struct tmk_ir_layer *grown =
        tmk_grown(ir->layers, ir->n_layers, &r->layers_size, sizeof *grown);
    struct tmk_ir_layer layer = {0, get_text(r, tag, "type"), get_text(r, tag, "name")};
    if (grown)
        ir->layers = grown;
    if (!grown || !layer.type || !layer.name)
        return tmk_nomem(r->diag);
    if (!get_number(tag, "id", &layer.id))
        return fail_tag(r, tag, "the id of a layer");
    if (layer.id >= ir->next_id)
        ir->next_id = layer.id + 1;
    ir->layers[ir->n_layers++] = layer;
    return TMK_OK;
}

static enum tmk_status add_port(struct reading *r, const struct tmk_xml_tag *tag) {
    struct tmk_ir *ir = r->ir;
    struct tmk_ir_port *grown = tmk_grown(ir->ports, ir->n_ports, &r->ports_size, sizeof *grown);
    struct tmk_ir_port port = {.layer = ir->n_layers - 1, .names = get_text(r, tag, "names")};
    const char *raw;
    size_t len;
    if (grown)
        ir->ports = grown;
    if (!grown || !port.names)
        return tmk_nomem(r->diag);
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
    struct tmk_ir_edge *grown = tmk_grown(ir->edges, ir->n_edges, &r->edges_size, sizeof *grown);
    struct tmk_ir_edge edge = {.tag = {line_of(r, tag->begin), line_of(r, tag->end)}};
    if (!grown)
        return tmk_nomem(r->diag);
    ir->edges = grown;
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
