/* SPDX-License-Identifier: Apache-2.0 */
/* What holds in all encodings, from any writer. */
#ifndef TMK_CALIB_ENCODINGS_H
#define TMK_CALIB_ENCODINGS_H

#include <tidemark/encodings.h>

/* Types that values can be quantized to. */
bool tmk_encoding_is_type(enum tmk_dtype dtype);
/* Type, scheme, axis, scales and zero points of one encoding. TMK_FORMAT names the field. */
TMK_NODISCARD enum tmk_status tmk_encoding_check_scales(const struct tmk_encoding *e,
                                                        struct tmk_diag *diag);
/* Both have the same type, scales and zero points. */
bool tmk_encoding_same_codes(const struct tmk_encoding *a, const struct tmk_encoding *b);
/* Everything else: ranges, order, groups, multipliers. TMK_FORMAT names the entry and the field. */
TMK_NODISCARD enum tmk_status tmk_encodings_check(const struct tmk_encodings *encodings,
                                                  struct tmk_diag *diag);

#endif
