/* SPDX-License-Identifier: Apache-2.0 */
/* What holds in all encodings, from any writer. */
#pragma once

#include <tidemark/encodings.h>

#include "profile/fields.h"

/* Types that values can be quantized to. */
bool tmk_encoding_is_type(enum tmk_dtype dtype);
/* Type, scheme, axis, scales and zero points of one encoding. TMK_FORMAT names the field. */
enum tmk_status tmk_encoding_check_scales(const struct tmk_encoding *e, struct tmk_diag *diag);
/* Why the value has no encoding; NULL: it has one, or is not known. */
const struct tmk_left_float *tmk_encodings_left(const struct tmk_encodings *encodings, uint32_t id);
/* Both have the same type, scales and zero points. */
bool tmk_encoding_same_codes(const struct tmk_encoding *a, const struct tmk_encoding *b);
/* Everything else: ranges, order, groups, multipliers. TMK_FORMAT names the entry and the field. */
enum tmk_status tmk_encodings_check(const struct tmk_encodings *encodings, struct tmk_diag *diag);

/* One encoding's memory and what follows from its other fields. */

/* Room for n scales and what stands beside them, zeroed; sets e->n. */
enum tmk_status tmk_encoding_allocate(struct tmk_encodings *encodings, struct tmk_encoding *e,
                                      uint32_t n, struct tmk_diag *diag);
/* Fills clip_min and clip_max with them. */
void tmk_encoding_set_clip(struct tmk_encoding *e);
/* The numbers of an encoding with one scale. */
struct tmk_one_scale {
    float scale, low, high, clip_min, clip_max;
    int32_t zero_point;
};
/* Gives the encoding, which has one scale, that of its grid for this range, in `numbers`. Errors:
 * those of tmk_grid_fit. */
enum tmk_status tmk_encoding_cover(struct tmk_encoding *e, float low, float high,
                                   struct tmk_one_scale *numbers, struct tmk_diag *diag);
/* Which scale is for which element of a tensor. */
struct tmk_scale_layout {
    size_t inner, dim; /* elements of one index of the axis; indices of it */
    size_t block;      /* indices that share a scale; 0: the other axes share all scales */
    size_t blocks;     /* of a row of `dim` indices */
};
/* False: this encoding's scales are not of a tensor of this shape. */
bool tmk_scale_layout_init(struct tmk_scale_layout *layout, const struct tmk_encoding *e,
                           const struct tmk_shape *shape);
static inline size_t tmk_scale_index(const struct tmk_scale_layout *l, size_t element) {
    const size_t row = element / l->inner, k = row % l->dim;
    return l->block ? (row / l->dim * l->blocks + k / l->block) * l->inner + element % l->inner : k;
}
/* A copy of the text that lives as long as the encodings. */
enum tmk_status tmk_encodings_keep(struct tmk_encodings *encodings, const char *text,
                                   const char **out, struct tmk_diag *diag);
/* The zero point that a symmetric grid has. */
int32_t tmk_encoding_middle(enum tmk_dtype dtype);

/* Files that are one JSON object: encodings, what `calibrate` is configured with. */

struct tmk_json_file {
    cJSON *tree;
    size_t held;        /* bytes that were counted for it */
    locale_t locale[2]; /* numbers read with a decimal point meanwhile */
};

/* TMK_READ, or TMK_FORMAT; errors name the file. On success end with close, on the same thread. */
enum tmk_status tmk_json_file_open(const char *path, struct tmk_json_file *out,
                                   struct tmk_diag *diag);
void tmk_json_file_close(struct tmk_json_file *file);

/* The fields of a file of encodings. */
extern const struct tmk_fields tmk_encodings_fields;

/* The member "uses" of an encoding, where it is for some readers only. */
void tmk_json_put_uses(struct tmk_json_out *to, const struct tmk_encoding *e);
