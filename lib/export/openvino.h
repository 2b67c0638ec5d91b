/* SPDX-License-Identifier: Apache-2.0 */
/* An OpenVINO IR as text, so far as it must be understood to put operations on its edges: the
 * output ports of its own layers (not of layers in bodies of loops), and its edges. */
#pragma once

#include <stdint.h>

#include <tidemark/tensor.h>

#include "base/buf.h"
#include "export/xml.h"

/* Bytes [begin, end) of the file. */
struct tmk_ir_span {
    size_t begin, end;
};

struct tmk_ir_layer {
    uint64_t id;
    char *type;
};

struct tmk_ir_port {
    size_t layer; /* index */
    uint64_t id;
    bool is_float32;
    char *names;             /* as in the file: joined by ','; a ',' of a name is "\\," */
    struct tmk_ir_span attr; /* of names="..." with the blank before it; empty: there is none */
    struct tmk_ir_span dims; /* the <dim>s */
    struct tmk_shape shape;
};

struct tmk_ir_edge {
    uint64_t from_layer, from_port, to_layer, to_port;
    struct tmk_ir_span tag;
};

struct tmk_ir {
    struct tmk_buf *file;
    struct tmk_ir_layer *layers;
    struct tmk_ir_port *ports; /* outputs, in the order of the file */
    struct tmk_ir_edge *edges;
    size_t n_layers, n_ports, n_edges;
    size_t layers_end, edges_end; /* where </layers> and </edges> begin */
    uint64_t next_id;
    struct tmk_arena arena;
};

/* TMK_FORMAT with the byte: no IR. End with tmk_ir_finish. */
enum tmk_status tmk_ir_read(const char *path, struct tmk_ir *out, struct tmk_diag *diag);
void tmk_ir_finish(struct tmk_ir *ir);
/* Is this one of the port's names? */
bool tmk_ir_is_named(const struct tmk_ir_port *port, const char *name);
