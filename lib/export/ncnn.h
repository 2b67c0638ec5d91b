/* SPDX-License-Identifier: Apache-2.0 */
/* What ncnn's two formats share: the scales of a layer, and ncnn's own model files.
 *
 * ncnn's scales are multipliers, 127 / largest magnitude; codes are rounded half away from zero,
 * -127 ... 127. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "export/layers.h"

struct tmk_ncnn_scales {
    float *weights; /* [n]: one an output channel; of a grouped convolution one a group */
    uint32_t n;
    float input;
};

/* What the converter multiplied the weights of each output channel by; NULL: what the layer's
 * `norm` does. */
typedef const float tmk_ncnn_factors;

/* Why ncnn can't have this layer in int8; NULL: it can. */
const char *tmk_ncnn_unfit(const struct tmk_export_layer *layer, tmk_ncnn_factors *factors);
/* Of a layer that fits. six_bits: 3x3 convolutions of stride 1 get weights of -31 ... 31, as ncnn's
 * Winograd kernels in int8 want them. End with tmk_ncnn_scales_finish. */
enum tmk_status tmk_ncnn_scales_make(const struct tmk_export_layer *layer,
                                     tmk_ncnn_factors *factors, bool six_bits,
                                     struct tmk_ncnn_scales *out, struct tmk_diag *diag);
void tmk_ncnn_scales_finish(struct tmk_ncnn_scales *scales);

/* The settings of both formats. */
struct tmk_ncnn_settings {
    bool six_bits; /* winograd=6bit */
    bool dynamic;  /* dynamic=int8: layers of TMK_NCNN_DYNAMIC, too */
};
#define TMK_NCNN_SETTINGS "winograd=8bit|6bit dynamic=int8|float"
enum tmk_status tmk_ncnn_settings_read(const struct tmk_export_job *job,
                                       struct tmk_ncnn_settings *out, struct tmk_diag *diag);

/* ---- NAME.param and NAME.bin ---- */

enum tmk_ncnn_int8 {
    TMK_NCNN_FLOAT,  /* no int8, or none by scales of ours */
    TMK_NCNN_STATIC, /* by scales of its weights and of its input */
    TMK_NCNN_DYNAMIC /* by scales of its weights; ncnn measures its inputs as it runs */
};

/* Types of numbers; 0 is TMK_NCNN_FLOAT32, too. */
enum { TMK_NCNN_FLOAT32 = 0x0002c056, TMK_NCNN_HALF = 0x01306b47, TMK_NCNN_CODES = 0x000d4b38 };

/* Numbers that lie together in the .bin. */
struct tmk_ncnn_part {
    uint64_t count;
    uint64_t scales;     /* of its codes in int8, each for count / scales numbers; 0: none */
    size_t offset, size; /* with the tag, and what fills it up to 4 bytes */
    uint32_t tag;        /* their type */
    bool tagged;
};
enum { TMK_NCNN_PARTS = 8 };

struct tmk_ncnn_layer {
    const char *type, *name;
    const char *top;  /* its first output; NULL: none */
    const char *line; /* of the file, without its end */
    size_t len;
    enum tmk_ncnn_int8 int8; /* what it can be; STATIC, or of Gemm: parts[0] are its weights */
    struct tmk_ncnn_part parts[TMK_NCNN_PARTS]; /* all that it keeps */
    size_t n_parts;
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
enum tmk_status tmk_ncnn_model_read(const char *path, struct tmk_ncnn_model *out,
                                    struct tmk_diag *diag);
void tmk_ncnn_model_finish(struct tmk_ncnn_model *model);
bool tmk_ncnn_is_gemm(const struct tmk_ncnn_layer *layer);
/* A part as float32: malloc'ed, with part->count numbers. NULL: memory ran out. */
float *tmk_ncnn_numbers(const struct tmk_ncnn_model *model, const struct tmk_ncnn_part *part);

/* Of a part of a TMK_NCNN_DYNAMIC layer, 127 / largest magnitude: malloc'ed, with part->scales
 * numbers. NULL: memory ran out. */
float *tmk_ncnn_dynamic_scales(const struct tmk_ncnn_model *model,
                               const struct tmk_ncnn_part *part);

/* Integers that a line gives to keys; others are 0. */
enum { TMK_NCNN_KEYS = 40 };
struct tmk_ncnn_keys {
    int64_t value[TMK_NCNN_KEYS];
    bool given[TMK_NCNN_KEYS];
};
/* Fills in what a layer of this type keeps, from byte `at` of the .bin on. */
enum tmk_status tmk_ncnn_keep(const struct tmk_buf *bin, size_t at,
                              const struct tmk_ncnn_keys *keys, struct tmk_ncnn_layer *layer,
                              struct tmk_diag *diag);

/* ---- whose layer is whose ---- */

struct tmk_ncnn_match {
    const struct tmk_export_layer *ours; /* NULL: none of ours has its weights */
    float *factors;                      /* [ours->channels] */
};

/* For each of the model's layers the one of ours whose weights it has, of which a converter may
 * have multiplied each output channel's. `names`: only the one that it gives to the blob that the
 * layer computes (struct tmk_export_layer), or NULL. *out: model->n of them; end with
 * tmk_ncnn_matches_finish. */
enum tmk_status tmk_ncnn_matches_make(const struct tmk_ncnn_model *model,
                                      const struct tmk_export_layers *layers,
                                      const struct tmk_map *names, struct tmk_ncnn_match **out,
                                      struct tmk_diag *diag);
/* Says which layers that could be in int8 have none of ours, and which ncnn2int8 quantizes by
 * itself. */
void tmk_ncnn_remark(const struct tmk_export_job *job, const struct tmk_ncnn_model *model,
                     const struct tmk_ncnn_match *matches);
void tmk_ncnn_matches_finish(struct tmk_ncnn_match *matches, size_t n);
