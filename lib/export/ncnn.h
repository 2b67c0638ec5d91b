/* SPDX-License-Identifier: Apache-2.0 */
/* What ncnn's two formats share: the scales of a layer, and ncnn's own model files.
 *
 * ncnn's scales are multipliers, 127 / largest magnitude; codes are rounded half away from zero,
 * -127 ... 127. */
#ifndef TMK_EXPORT_NCNN_H
#define TMK_EXPORT_NCNN_H

#include "base/buf.h"
#include "export/layers.h"

struct tmk_ncnn_scales {
    float *weights; /* [n]: one an output channel; of a grouped convolution one a group */
    uint32_t n;
    float input;
};

/* Why ncnn can't have this layer in int8; NULL: it can. */
const char *tmk_ncnn_unfit(const struct tmk_export_layer *layer);
/* Of a layer that fits. six_bits: 3x3 convolutions of stride 1 get weights of -31 ... 31, as ncnn's
 * Winograd kernels in int8 want them. End with tmk_ncnn_scales_finish. */
TMK_NODISCARD enum tmk_status tmk_ncnn_scales_make(const struct tmk_export_layer *layer,
                                                   bool six_bits, struct tmk_ncnn_scales *out,
                                                   struct tmk_diag *diag);
void tmk_ncnn_scales_finish(struct tmk_ncnn_scales *scales);
/* The setting "winograd". */
TMK_NODISCARD enum tmk_status tmk_ncnn_six_bits(const struct tmk_export_job *job, bool *out,
                                                struct tmk_diag *diag);

/* ---- NAME.param and NAME.bin ---- */

struct tmk_ncnn_layer {
    const char *type, *name;
    const char *top;  /* its first output; NULL: none */
    const char *line; /* of the file, without its end */
    size_t len;
    uint64_t weights, bias; /* numbers that quantizable layers keep: weights, then bias */
    bool quantizable;       /* Convolution, ConvolutionDepthWise, InnerProduct, not in int8 yet */
    size_t offset, size;    /* of what it keeps in the .bin */
};

struct tmk_ncnn_model {
    struct tmk_buf *bin;
    struct tmk_ncnn_layer *layers;
    size_t n;
    const char *head; /* the lines before the layers: the magic number, the counts */
    size_t head_len;
    struct tmk_arena arena;
};

/* Reads PATH.param and the .bin next to it. TMK_FORMAT with the line; TMK_UNSUPPORTED names a layer
 * of which it is not known how much it keeps in the .bin. End with tmk_ncnn_model_finish. */
TMK_NODISCARD enum tmk_status tmk_ncnn_model_read(const char *path, struct tmk_ncnn_model *out,
                                                  struct tmk_diag *diag);
void tmk_ncnn_model_finish(struct tmk_ncnn_model *model);
/* weights and bias of a quantizable layer; `out` holds both. */
void tmk_ncnn_numbers(const struct tmk_ncnn_model *model, const struct tmk_ncnn_layer *layer,
                      float *weights, float *bias);

#endif
