/* SPDX-License-Identifier: Apache-2.0 */
/* One encoding's memory and what follows from its other fields. */
#ifndef TMK_CALIB_ITEM_H
#define TMK_CALIB_ITEM_H

#include <tidemark/encodings.h>

/* Room for n scales and what stands beside them, zeroed; sets e->n. */
TMK_NODISCARD enum tmk_status tmk_encoding_allocate(struct tmk_encodings *encodings,
                                                    struct tmk_encoding *e, uint32_t n,
                                                    struct tmk_diag *diag);
/* The reals of the lowest and the highest code under the i-th scale. */
void tmk_encoding_reals(const struct tmk_encoding *e, uint32_t i, float *lowest, float *highest);
/* Fills clip_min and clip_max with them. */
void tmk_encoding_set_clip(struct tmk_encoding *e);
/* A copy of the text that lives as long as the encodings. */
TMK_NODISCARD enum tmk_status tmk_encodings_keep(struct tmk_encodings *encodings, const char *text,
                                                 const char **out, struct tmk_diag *diag);
/* The zero point that a symmetric grid has. */
int32_t tmk_encoding_middle(enum tmk_dtype dtype);

#endif
