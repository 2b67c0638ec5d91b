/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/exact.h"

#include <math.h>

enum { MANTISSA = 53 };

void tmk_exact_add(struct tmk_exact *sum, tmk_u128 value, unsigned shift, bool negative) {
    unsigned at = shift / 64, by = shift % 64;
    uint64_t low = (uint64_t)value, high = (uint64_t)(value >> 64), carry = 0;
    uint64_t part[3] = {low << by, high << by, 0};
    if (by) {
        part[1] |= low >> (64 - by);
        part[2] = high >> (64 - by);
    }
    for (unsigned i = at; i < TMK_EXACT_WORDS && (i < at + 3 || carry); i++) {
        tmk_u128 word = sum->word[i], more = (tmk_u128)carry + (i < at + 3 ? part[i - at] : 0);
        word = negative ? word - more : word + more;
        sum->word[i] = (uint64_t)word;
        carry = (uint64_t)(word >> 64) & 1;
    }
}

static bool bit(const struct tmk_exact *x, int i) {
    return x->word[i / 64] >> (i % 64) & 1;
}

double tmk_exact_round(const struct tmk_exact *sum, int unit, enum tmk_rounding rounding) {
    struct tmk_exact x = *sum;
    bool negative = x.word[TMK_EXACT_WORDS - 1] >> 63;
    if (negative) {
        tmk_u128 carry = 1;
        for (unsigned i = 0; i < TMK_EXACT_WORDS; i++) {
            carry += (uint64_t)~x.word[i];
            x.word[i] = (uint64_t)carry;
            carry >>= 64;
        }
    }
    int top = 64 * TMK_EXACT_WORDS - 1;
    while (top >= 0 && !bit(&x, top))
        top--;
    int lowest = top - (MANTISSA - 1) > 0 ? top - (MANTISSA - 1) : 0;
    uint64_t mantissa = 0;
    for (int i = top; i >= lowest; i--)
        mantissa = mantissa << 1 | bit(&x, i);
    bool half = lowest > 0 && bit(&x, lowest - 1), rest = false;
    for (int i = 0; i < lowest - 1 && !rest; i++)
        rest = bit(&x, i);
    if (rounding == TMK_TO_NEAREST)
        mantissa += half && (rest || (mantissa & 1));
    else if (rounding == TMK_UPWARDS)
        mantissa += half || rest;
    double value = ldexp((double)mantissa, lowest + unit);
    return negative ? -value : value;
}
