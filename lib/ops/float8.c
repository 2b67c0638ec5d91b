/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/float8.h"

#include <math.h>

/* Numbers at the exponent field e are multiples of 2^(e - bias - mantissa), as IEEE 754's. */
struct layout_of_float8 {
    int bits, mantissa, bias;
    uint8_t
        most; /* code of the largest number; the next is infinity or NaN, where there are such */
    bool infinities, one_zero; /* one_zero: the code of -0 is the only NaN */
};

static struct layout_of_float8 float8_layout(enum tmk_dtype dtype) {
    switch (dtype) {
    case TMK_FLOAT8E4M3FN:
        return (struct layout_of_float8){8, 3, 7, 0x7e, false, false};
    case TMK_FLOAT8E4M3FNUZ:
        return (struct layout_of_float8){8, 3, 8, 0x7f, false, true};
    case TMK_FLOAT8E5M2:
        return (struct layout_of_float8){8, 2, 15, 0x7b, true, false};
    case TMK_FLOAT8E5M2FNUZ:
        return (struct layout_of_float8){8, 2, 16, 0x7f, false, true};
    case TMK_FLOAT4E2M1:
        return (struct layout_of_float8){4, 1, 1, 0x7, false, false};
    default:
        return (struct layout_of_float8){0};
    }
}

bool tmk_float8_is_read(enum tmk_dtype dtype) {
    return float8_layout(dtype).bits > 0;
}

bool tmk_float8_is_written(enum tmk_dtype dtype) {
    return float8_layout(dtype).bits == 8;
}

float tmk_float8_value(enum tmk_dtype dtype, uint8_t code) {
    const struct layout_of_float8 of = float8_layout(dtype);
    const int sign = 1 << (of.bits - 1), magnitude = code & (sign - 1);
    const int exponent = magnitude >> of.mantissa, one = 1 << of.mantissa;
    const int fraction = magnitude & (one - 1);
    float value = exponent ? ldexpf((float)(one + fraction), exponent - of.bias - of.mantissa)
                           : ldexpf((float)fraction, 1 - of.bias - of.mantissa);
    if (magnitude > of.most)
        value = of.infinities && magnitude == of.most + 1 ? INFINITY : NAN;
    if (of.one_zero && code == sign)
        return NAN;
    return code & sign ? -value : value;
}

uint8_t tmk_float8_code(enum tmk_dtype dtype, float value, bool saturate) {
    const struct layout_of_float8 of = float8_layout(dtype);
    const uint8_t sign = signbit(value) ? 0x80 : 0;
    const uint8_t nan = of.one_zero ? 0x80 : sign | (of.infinities ? 0x7e : 0x7f);
    const float magnitude = fabsf(value);
    if (isnan(value))
        return nan;
    int exponent = 1 - of.bias; /* of the least numbers, which have no leading one, and of 0 */
    if (isinf(value) || (value != 0 && ilogbf(magnitude) > exponent))
        exponent = isinf(value) ? 128 : ilogbf(magnitude);
    /* carries into the exponent where rounding gives the next power of two */
    const double units = rint(ldexp((double)magnitude, of.mantissa - exponent));
    const double code = ldexp(exponent + of.bias - 1, of.mantissa) + units;
    if (code > of.most) /* infinities, too */
        return saturate ? sign | of.most : of.infinities ? sign | (uint8_t)(of.most + 1) : nan;
    return of.one_zero && code == 0 ? 0 : sign | (uint8_t)code;
}
