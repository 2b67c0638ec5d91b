/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/fixed.h"

#include <math.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"

static const char *const rounding_names[] = {
#define TMK_ROUNDING_TEXT(name, text) text,
    TMK_ROUNDING_LIST(TMK_ROUNDING_TEXT)
#undef TMK_ROUNDING_TEXT
};
enum { N_ROUNDINGS = TMK_COUNT(rounding_names) };

const char *tmk_rounding_name(enum tmk_rounding rounding) {
    return (size_t)rounding < N_ROUNDINGS ? rounding_names[rounding] : "?";
}

bool tmk_rounding_by_name(const char *name, enum tmk_rounding *out) {
    for (int i = 0; i < N_ROUNDINGS; i++)
        if (strcmp(name, rounding_names[i]) == 0) {
            *out = (enum tmk_rounding)i;
            return true;
        }
    return false;
}

/* q * 2^(shift - 31), if shifts go that far down. */
static enum tmk_status put_multiplier(double real, int32_t q, int shift, int32_t *q_out,
                                      int32_t *shift_out, struct tmk_diag *diag) {
    enum { LOWEST = -31, HIGHEST = 30 };
    if (shift > HIGHEST)
        return tmk_fail(diag, TMK_RANGE, "the multiplier %.9g is too large for fixed point", real);
    *q_out = shift < LOWEST ? 0 : q;
    *shift_out = shift < LOWEST ? 0 : shift;
    return TMK_OK;
}

static enum tmk_status want_positive(double real, struct tmk_diag *diag) {
    return isfinite(real) && real > 0
               ? TMK_OK
               : tmk_fail(diag, TMK_RANGE, "%.9g is no multiplier: it must be above 0", real);
}

enum tmk_status tmk_fixed_from_real(double real, int32_t *q, int32_t *shift,
                                    struct tmk_diag *diag) {
    int exponent;
    TMK_TRY(want_positive(real, diag));
    int64_t fraction = llround(frexp(real, &exponent) * 0x1p31);
    if (fraction == INT64_C(1) << 31) {
        fraction /= 2;
        exponent++;
    }
    return put_multiplier(real, (int32_t)fraction, exponent, q, shift, diag);
}

enum tmk_status tmk_fixed_from_real_pow2(double real, int32_t *q, int32_t *shift,
                                         struct tmk_diag *diag) {
    int exponent;
    TMK_TRY(want_positive(real, diag));
    const double fraction = frexp(real, &exponent);
    return put_multiplier(real, INT32_C(1) << 30,
                          fraction * fraction < 0.5 ? exponent : exponent + 1, q, shift, diag);
}

double tmk_fixed_to_real(int32_t q, int32_t shift) {
    return ldexp(q, shift - 31);
}

/* floor(x / 2^n) */
static int64_t shift_right(int64_t x, int n) {
    return x >= 0 ? x >> n : ~(~x >> n);
}

static int32_t saturate_int32(int64_t x) {
    return x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : (int32_t)x;
}

/* The high half of the doubled product, then a division by a power of two, each rounded. */
static int32_t multiply_twice(int32_t x, int32_t q, int32_t shift) {
    const int left = shift > 0 ? shift : 0, right = shift < 0 ? -shift : 0;
    const int64_t product = (int64_t)saturate_int32(x * (INT64_C(1) << left)) * q;
    const int64_t nudge = product >= 0 ? INT64_C(1) << 30 : 1 - (INT64_C(1) << 30);
    const int64_t high = (product + nudge) / (INT64_C(1) << 31);
    const int64_t mask = (INT64_C(1) << right) - 1, rest = high & mask;
    return saturate_int32(shift_right(high, right) + (rest > mask / 2 + (high < 0)));
}

int32_t tmk_fixed_multiply(int32_t x, int32_t q, int32_t shift, double real,
                           enum tmk_rounding rounding) {
    const int64_t product = (int64_t)x * q, half = INT64_C(1) << (30 - shift);
    switch (rounding) {
    case TMK_ROUNDING_SINGLE_HALF_AWAY:
        return saturate_int32(shift_right(product + half - (x < 0), 31 - shift));
    case TMK_ROUNDING_GEMMLOWP_DOUBLE:
        return multiply_twice(x, q, shift);
    case TMK_ROUNDING_FLOAT_RNE: {
        const float rounded = rintf((float)x * (float)real);
        return rounded < -0x1p31f ? INT32_MIN : rounded >= 0x1p31f ? INT32_MAX : (int32_t)rounded;
    }
    case TMK_ROUNDING_SINGLE_HALF_UP:
        break;
    }
    return saturate_int32(shift_right(product + half, 31 - shift));
}
