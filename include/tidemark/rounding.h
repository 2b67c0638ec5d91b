/* SPDX-License-Identifier: Apache-2.0 */
/* The named roundings with which integer engines multiply by a real number. Thread-safe. */
#ifndef TIDEMARK_ROUNDING_H
#define TIDEMARK_ROUNDING_H

#include <stdbool.h>

#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How an accumulator (or a code under one scale) becomes a code under another, with the multiplier
 * q * 2^(shift - 31), 2^30 <= q < 2^31. Engines differ by one code at ties and near them.
 * X(name, text) */
#define TMK_ROUNDING_LIST(X)                                                                       \
    X(SINGLE_HALF_UP, "single_half_up")     /* (x*q + 2^(30-shift)) >> (31-shift): TVM UPWARD */   \
    X(SINGLE_HALF_AWAY, "single_half_away") /* the same, ties away from zero: TVM TONEAREST */     \
    X(GEMMLOWP_DOUBLE, "gemmlowp_double")   /* rounded twice: TFLite's reference convolutions */   \
    X(FLOAT_RNE, "float_rne")               /* rint((float)x * (float)multiplier): ONNX Runtime */

enum tmk_rounding {
#define TMK_ROUNDING_ENUM(name, text) TMK_ROUNDING_##name,
    TMK_ROUNDING_LIST(TMK_ROUNDING_ENUM)
#undef TMK_ROUNDING_ENUM
};

TMK_API const char *tmk_rounding_name(enum tmk_rounding rounding);
/* False: no such rounding. */
TMK_API bool tmk_rounding_by_name(const char *name, enum tmk_rounding *out);

#ifdef __cplusplus
}
#endif
#endif
