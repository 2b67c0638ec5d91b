/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the Relay exporter share. */
#pragma once

#include "base/json.h"
#include "export/exporter.h"
#include "export/quantized.h"
#include "relay/builder.h"
#include "relay/relay.h"

/* An edge of the text: where the value of an ID stands. */
struct tmk_relay_edge {
    uint32_t id;
    const char *name;    /* the original's */
    const char *spelled; /* in the text: "%5", "%fc1_weight", "meta[relay.Constant][0]" */
    const char *span;    /* of the text as it was; NULL: none */
    const char *kind;    /* "input", "weight", "bias", "activation", "output" */
    const struct tmk_encoding *encoding; /* NULL: it stays float */
    const struct tmk_left_float *left;   /* else NULL */
};
struct tmk_relay_edges {
    struct tmk_relay_edge *items; /* in the order of the text */
    size_t n, size;
};

/* The encoding of most readers of the value, or the first; NULL: it stays float. */
const struct tmk_encoding *tmk_relay_encoding(const struct tmk_encodings *encodings, uint32_t id);
const struct tmk_left_float *tmk_relay_left(const struct tmk_encodings *encodings, uint32_t id);
const char *tmk_relay_kind(const struct tmk_graph *graph, uint32_t id,
                           const struct tmk_encoding *encoding);
void tmk_relay_edges_finish(struct tmk_relay_edges *edges);

/* Parameters become codes. */
struct tmk_relay_coding {
    const struct tmk_relay_params *from;
    struct tmk_relay_params *to;
    enum tmk_status status;
    struct tmk_diag *diag;
};
/* The parameter of that name in the text, where it can be given as codes; or NULL. */
const struct tmk_relay_param *tmk_relay_codable(const struct tmk_relay_coding *c,
                                                const struct tmk_value *value, const char *name,
                                                const struct tmk_encoding *encoding);
/* Adds its codes, makes the binding of their type, and returns what dequantizes them. */
struct tmk_relay_expr *tmk_relay_decode(struct tmk_relay_coding *c, struct tmk_relay_builder *b,
                                        const struct tmk_relay_param *param,
                                        const struct tmk_encoding *encoding,
                                        struct tmk_relay_binding *binding);
/* Adds the parameter, if there is one, as it is. */
void tmk_relay_keep(struct tmk_relay_coding *c, const char *name);

/* Puts annotation.quantize_info behind every edge of @main that the encodings know. `module` is of
 * the job's graph (its expressions know their values). `coding` (NULL: not wanted): weights and
 * biases as codes, with its `to` as their params. */
enum tmk_status tmk_relay_annotate(const struct tmk_export_job *job,
                                   struct tmk_relay_module *module, struct tmk_relay_coding *coding,
                                   struct tmk_relay_edges *edges, struct tmk_diag *diag);

/* Gives the codes of weights and biases the names of the originals, where these are free. */
enum tmk_status tmk_relay_keep_names(const struct tmk_graph *graph,
                                     const struct tmk_encodings *encodings,
                                     const struct tmk_quantized_graph *quantized,
                                     struct tmk_diag *diag);

/* The name of a bias's parameter in the original, also where that is given axes first. */
const char *tmk_relay_bias_name(const struct tmk_graph *graph, const struct tmk_encoding *e);
