/* SPDX-License-Identifier: Apache-2.0 */
/* The operators that multiply by weights, with what is encoded around them: for formats whose
 * entries are layers. */
#pragma once

#include "export/exporter.h"

struct tmk_export_layer {
    const struct tmk_node *node; /* Conv, ConvTranspose, Gemm or MatMul of the graph itself */
    const struct tmk_value *input, *weight;
    const struct tmk_value *bias; /* the node's, or added behind it; NULL: none */
    /* The BatchNormalization that converters fold into it; NULL: none, or not asked for. */
    const struct tmk_node *norm;
    const struct tmk_value *output;           /* the node's own, or that of `norm` */
    const struct tmk_value *activated;        /* behind bias, Relu and Clip that only follow it */
    const struct tmk_encoding *in, *by, *out; /* of input, weight, activated; NULL: float */
    uint32_t channels;                        /* of the output */
    uint32_t group;
};

struct tmk_export_layers {
    struct tmk_export_layer *items; /* in the order of the nodes */
    size_t n;
};

/* All of them whose weight is a float constant of known shape; their encodings may be missing.
 * `fold_norms`: the consumer's converter folds BatchNormalization into Conv. End with
 * tmk_export_layers_finish. */
enum tmk_status tmk_export_layers_make(const struct tmk_export_job *job, bool fold_norms,
                                       struct tmk_export_layers *out, struct tmk_diag *diag);
void tmk_export_layers_finish(struct tmk_export_layers *layers);

/* The encodings of its input, its weights and its output are written; or, as far as no other layer
 * has written them, are not. */
void tmk_export_layer_wrote(const struct tmk_export_job *job, const struct tmk_export_layer *layer);
void tmk_export_layer_skip(const struct tmk_export_job *job, const struct tmk_export_layer *layer,
                           const char *why);

/* The constant behind a value: an initializer's data, or a Constant node's; NULL: it is none. */
const struct tmk_tensor *tmk_export_constant(const struct tmk_value *value);
/* Largest magnitude of the weights of an output channel as the encoding has it; > 0. */
float tmk_export_weight_magnitude(const struct tmk_export_layer *layer, uint32_t channel);
/* What `norm` multiplies the weights of an output channel by; 1 without one. */
float tmk_export_norm_factor(const struct tmk_export_layer *layer, uint32_t channel);
/* What a consumer calls the layer: the map's name of its output, before or behind the activation,
 * or (originals) the node's name or the output's. NULL: none. */
const char *tmk_export_layer_name(const struct tmk_export_job *job,
                                  const struct tmk_export_layer *layer);
