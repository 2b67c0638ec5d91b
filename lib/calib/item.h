/* SPDX-License-Identifier: Apache-2.0 */
/* One encoding's memory and what follows from its other fields. */
#ifndef TMK_CALIB_ITEM_H
#define TMK_CALIB_ITEM_H

#include <tidemark/encodings.h>

/* Room for n scales and what stands beside them, zeroed; sets e->n. */
TMK_NODISCARD enum tmk_status tmk_encoding_allocate(struct tmk_encodings *encodings,
                                                    struct tmk_encoding *e, uint32_t n,
                                                    struct tmk_diag *diag);
/* Fills clip_min and clip_max with them. */
void tmk_encoding_set_clip(struct tmk_encoding *e);
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
TMK_NODISCARD enum tmk_status tmk_encodings_keep(struct tmk_encodings *encodings, const char *text,
                                                 const char **out, struct tmk_diag *diag);
/* The zero point that a symmetric grid has. */
int32_t tmk_encoding_middle(enum tmk_dtype dtype);

#endif
