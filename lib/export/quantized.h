/* SPDX-License-Identifier: Apache-2.0 */
/* A graph under its encodings, as a graph: for the file, and for running it.
 *
 * QDQ: float operators between QuantizeLinear and DequantizeLinear, placed and named as ONNX
 * Runtime's quantizer does, initializers bit-equal to its.
 * INTEGER: no float between the quantized inputs and the last dequantized value: ConvInteger,
 * MatMulInteger, int32 additions, ai.tidemark::Requantize (ops/fixed_point.c). What has no encoding
 * stays float between DequantizeLinear and QuantizeLinear. */
#pragma once

#include <tidemark/encodings.h>

#include "graph/graph.h"

/* The value of the new graph in which the numbers of an original of the graph can be read. */
struct tmk_quantized_value {
    uint32_t id;                         /* of the original */
    struct tmk_value *real;              /* float numbers: after DequantizeLinear; or NULL */
    struct tmk_value *codes;             /* or NULL */
    const struct tmk_encoding *encoding; /* of the codes; or NULL */
};

struct tmk_quantized_graph {
    struct tmk_graph *graph;
    struct tmk_quantized_value *values; /* [n] ascending by id: originals that are still there */
    uint32_t n;
};

struct tmk_quantize_options {
    bool integer;
    bool microsoft; /* QDQ: operators of com.microsoft, which take 16 and 4 bits at any opset */
    /* With `integer`: how accumulators become codes. pow2: by shifts alone. */
    enum tmk_rounding rounding;
    bool pow2;
    /* QDQ: of each encoding that it is in the graph (`why` NULL), or why not. May be NULL. */
    void (*report)(void *context, const struct tmk_encoding *encoding, const char *why);
    /* Other remarks, a line each. May be NULL. */
    void (*remark)(void *context, const char *text);
    void *context;
    /* Asked before a weight becomes codes: true ends it with TMK_INTERRUPTED. May be NULL. */
    bool (*stop)(void *of);
    void *of;
};
enum tmk_status tmk_quantize_goes_on(const struct tmk_quantize_options *options,
                                     struct tmk_diag *diag);

/* `graph` is identified, and stays as it is. TMK_MISMATCH: the encodings are of another model (the
 * value of an ID has another fingerprint). End with tmk_quantized_finish. */
enum tmk_status tmk_quantize_graph(const struct tmk_graph *graph,
                                   const struct tmk_encodings *encodings,
                                   const struct tmk_quantize_options *options,
                                   struct tmk_quantized_graph *out, struct tmk_diag *diag);
void tmk_quantized_finish(struct tmk_quantized_graph *quantized);

/* Raising a graph's operator set: nodes whose operator means something else under the newer one
 * become nodes that mean the same there. */

/* Changes the graph, sub-graphs included, to version `to` of ONNX's own operators: values keep
 * names, IDs and fingerprints; nodes may get others of their inputs as initializers. No change
 * where it is of that version or a newer one. TMK_UNSUPPORTED names every node that has no form
 * there. The graph is bound, and bound again. */
enum tmk_status tmk_opset_upgrade(struct tmk_graph *graph, int64_t to, struct tmk_diag *diag);
