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

static void negate_words(struct tmk_exact *x) {
    tmk_u128 carry = 1;
    for (unsigned i = 0; i < TMK_EXACT_WORDS; i++) {
        carry += (uint64_t)~x->word[i];
        x->word[i] = (uint64_t)carry;
        carry >>= 64;
    }
}

bool tmk_exact_is_negative(const struct tmk_exact *x) {
    return x->word[TMK_EXACT_WORDS - 1] >> 63;
}

void tmk_exact_add_times(struct tmk_exact *sum, const struct tmk_exact *more, uint64_t times) {
    struct tmk_exact x = *more;
    const bool negative = tmk_exact_is_negative(&x);
    if (negative)
        negate_words(&x);
    for (unsigned i = 0; i < TMK_EXACT_WORDS; i++)
        if (x.word[i])
            tmk_exact_add(sum, (tmk_u128)x.word[i] * times, 64 * i, negative);
}

struct tmk_exact tmk_exact_scatter(const struct tmk_exact *sum, const struct tmk_exact *squares,
                                   uint64_t n) {
    struct tmk_exact x = *sum, out;
    tmk_u128 carry = 0;
    if (tmk_exact_is_negative(&x))
        negate_words(&x);
    for (unsigned i = 0; i < TMK_EXACT_WORDS; i++) {
        carry += (tmk_u128)squares->word[i] * n;
        out.word[i] = (uint64_t)carry;
        carry >>= 64;
    }
    for (unsigned i = 0; i < TMK_EXACT_WORDS; i++)
        for (unsigned j = 0; x.word[i] && i + j < TMK_EXACT_WORDS; j++)
            tmk_exact_add(&out, (tmk_u128)x.word[i] * x.word[j], 64 * (i + j), true);
    return out;
}

static bool bit_at(const struct tmk_exact *x, int i) {
    return x->word[i / 64] >> (i % 64) & 1;
}

double tmk_exact_round(const struct tmk_exact *sum, int unit, enum tmk_exact_rounding rounding) {
    struct tmk_exact x = *sum;
    bool negative = tmk_exact_is_negative(&x);
    if (negative)
        negate_words(&x);
    int word = TMK_EXACT_WORDS - 1;
    while (word > 0 && !x.word[word])
        word--;
    int top = x.word[word] ? 64 * word + 63 - __builtin_clzll(x.word[word]) : -1;
    int lowest = top - (MANTISSA - 1) > 0 ? top - (MANTISSA - 1) : 0;
    const int first = lowest / 64, by = lowest % 64;
    uint64_t mantissa = x.word[first] >> by, below = 0;
    if (by && first + 1 < TMK_EXACT_WORDS)
        mantissa |= x.word[first + 1] << (64 - by);
    /* the bit below the mantissa, and whether there is one below that */
    const int last = lowest > 0 ? lowest - 1 : 0;
    bool half = lowest > 0 && bit_at(&x, last);
    for (int i = 0; i < last / 64; i++)
        below |= x.word[i];
    bool rest = below || (x.word[last / 64] & ((UINT64_C(1) << last % 64) - 1));
    if (rounding == TMK_TO_NEAREST)
        mantissa += half && (rest || (mantissa & 1));
    else if (rounding == TMK_UPWARDS)
        mantissa += half || rest;
    double value = ldexp((double)mantissa, lowest + unit);
    return negative ? -value : value;
}
