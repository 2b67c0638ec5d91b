/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/float8.h"

#include <math.h>

const struct tmk_float8 *tmk_float8_layout(enum tmk_dtype dtype) {
    static const struct tmk_float8 e4m3fn = {8, 3, 7, 0x7e, 448, false, false},
                                   e4m3fnuz = {8, 3, 8, 0x7f, 240, false, true},
                                   e5m2 = {8, 2, 15, 0x7b, 57344, true, false},
                                   e5m2fnuz = {8, 2, 16, 0x7f, 57344, false, true},
                                   e2m1 = {4, 1, 1, 0x7, 6, false, false};
    switch (dtype) {
    case TMK_FLOAT8E4M3FN:
        return &e4m3fn;
    case TMK_FLOAT8E4M3FNUZ:
        return &e4m3fnuz;
    case TMK_FLOAT8E5M2:
        return &e5m2;
    case TMK_FLOAT8E5M2FNUZ:
        return &e5m2fnuz;
    case TMK_FLOAT4E2M1:
        return &e2m1;
    default:
        return NULL;
    }
}

bool tmk_float8_is_read(enum tmk_dtype dtype) {
    return tmk_float8_layout(dtype) != NULL;
}

bool tmk_float8_is_written(enum tmk_dtype dtype) {
    const struct tmk_float8 *of = tmk_float8_layout(dtype);
    return of && of->bits == 8;
}

float tmk_float8_value(enum tmk_dtype dtype, uint8_t code) {
    const struct tmk_float8 of = *tmk_float8_layout(dtype);
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
    const struct tmk_float8 of = *tmk_float8_layout(dtype);
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
