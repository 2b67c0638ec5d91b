/* SPDX-License-Identifier: Apache-2.0 */
/* The QDQ form's own: first every value that ONNX Runtime's quantizer would quantize, and that has
 * an encoding, is marked (qdq_mark.c); then pairs of QuantizeLinear and DequantizeLinear are placed
 * there (qdq_place.c), and initializers become codes (qdq_constant.c). */
#pragma once

#include "base/arena.h"
#include "base/map.h"
#include "export/quantized.h"

/* A value that is to be quantized. */
struct tmk_qdq_mark {
    struct tmk_value *value;
    int64_t id; /* of the original whose encodings count; a copied bias has its original's */
    /* Its scale and zero point are those of the operand of its producer; NULL: its own. */
    struct tmk_value *provider;
    const struct tmk_node *provided; /* the node */
    /* The model dequantizes it, or quantizes it and nothing else: no pair is placed. */
    bool has_codes;
    /* A bias: what its scale is the product of. */
    bool is_bias;
    struct tmk_node *node;
    struct tmk_value *input, *weight;
    /* What was placed, for the encoding of most readers. */
    bool placed;
    const struct tmk_encoding *encoding;
    struct tmk_value *scale, *zero, *codes, *real;
};

/* An initializer's scales where they are not its encoding's: the bias needs larger ones. */
struct tmk_qdq_scales {
    const struct tmk_encoding *of;
    const float *scale; /* [n] */
};

struct tmk_qdq {
    struct tmk_graph *graph; /* that becomes the QDQ form */
    const struct tmk_encodings *encodings;
    const struct tmk_quantize_options *options;
    struct tmk_arena arena;
    struct tmk_ptrmap by_value;  /* struct tmk_qdq_mark */
    struct tmk_ptrmap enlarged;  /* weight value -> struct tmk_qdq_scales */
    struct tmk_ptrmap derived;   /* value -> struct tmk_encoding in the place of its own */
    struct tmk_ptrmap folded;    /* encoding -> that of the constant whose codes are its codes */
    struct tmk_ptrmap reported;  /* encodings: placed (the struct tmk_qdq), or reported */
    struct tmk_qdq_mark **marks; /* in the order in which they were made */
    uint32_t n_marks, marks_size;
    struct tmk_diag *diag;
};

void tmk_qdq_remark(struct tmk_qdq *q, const char *format, ...) TMK_PRINTF(2, 3);
/* The encoding is in the graph, or (`why` not NULL) is not. */
enum tmk_status tmk_qdq_report(struct tmk_qdq *q, const struct tmk_encoding *encoding,
                               const char *why);

/* ---- qdq_prepare.c ---- */

/* Weights that are computed become initializers, additions the biases that they add. */
enum tmk_status tmk_qdq_prepare(struct tmk_qdq *q);

/* ---- qdq_mark.c ---- */

/* Marks what is to be quantized, and takes out a Relu or Clip that the codes of its result do. */
enum tmk_status tmk_qdq_mark_all(struct tmk_qdq *q);
/* Does ONNX Runtime quantize operators of this kind? */
bool tmk_qdq_knows(const struct tmk_node *node);
/* Only for their results, and where the operand is quantized already? */
bool tmk_qdq_moves(const struct tmk_node *node);
/* NULL: the value is not to be quantized. */
struct tmk_qdq_mark *tmk_qdq_marked(const struct tmk_qdq *q, const struct tmk_value *value);
/* Of a value as this reader sees it; NULL: as most do. NULL: it stays float for it. */
const struct tmk_encoding *tmk_qdq_encoding(const struct tmk_qdq *q,
                                            const struct tmk_qdq_mark *mark,
                                            const struct tmk_node *reader, uint32_t input);

/* ---- qdq_constant.c ---- */

/* Enlarges scales of weights under which a bias would not fit int32. Before anything is placed. */
enum tmk_status tmk_qdq_widen_scales(struct tmk_qdq *q);
/* The scales that count: the encoding's, or enlarged ones. */
const float *tmk_qdq_scales_of(const struct tmk_qdq *q, const struct tmk_value *value,
                               const struct tmk_encoding *encoding);
/* The codes of an initializer. End with tmk_tensor_finish. */
enum tmk_status tmk_qdq_codes(const struct tmk_tensor *real, const struct tmk_encoding *encoding,
                              const float *scale, struct tmk_tensor *out, struct tmk_diag *diag);
/* A bias as int32 under the product of the scales; `scale` [n]. End with tmk_tensor_finish. */
enum tmk_status tmk_qdq_bias_codes(const struct tmk_tensor *real, float factor, const float *scale,
                                   uint32_t n, struct tmk_tensor *out, struct tmk_diag *diag);

/* ---- qdq_place.c ---- */

enum tmk_status tmk_qdq_place_all(struct tmk_qdq *q);
