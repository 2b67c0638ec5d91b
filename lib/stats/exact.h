/* SPDX-License-Identifier: Apache-2.0 */
/* Whole numbers wide enough for any sum of squares of floats, and their rounding to double. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

__extension__ typedef unsigned __int128 tmk_u128;

/* Two's complement, least significant word first. Squares of floats are multiples of 2^-298 below
 * 2^256, and a state holds fewer than 2^48: 602 bits, that number of times 650, and a sign.
 * Zero-initialised is 0. */
enum { TMK_EXACT_WORDS = 11 };
struct tmk_exact {
    uint64_t word[TMK_EXACT_WORDS];
};

/* Adds value * 2^shift, or takes it away. */
void tmk_exact_add(struct tmk_exact *sum, tmk_u128 value, unsigned shift, bool negative);

/* Adds more * times; |more| * times must fit, too. */
void tmk_exact_add_times(struct tmk_exact *sum, const struct tmk_exact *more, uint64_t times);
bool tmk_exact_is_negative(const struct tmk_exact *x);

/* n times the sum of squares of n numbers less the square of their sum: n^2 times the variance. Of
 * numbers that exist, so not below 0. */
struct tmk_exact tmk_exact_scatter(const struct tmk_exact *sum, const struct tmk_exact *squares,
                                   uint64_t n);

enum tmk_exact_rounding { TMK_TO_NEAREST, TMK_DOWNWARDS, TMK_UPWARDS };
/* sum * 2^unit; unit >= -1000, the result below 2^1023. Nearest is ties-to-even; the others are for
 * sums >= 0. */
double tmk_exact_round(const struct tmk_exact *sum, int unit, enum tmk_exact_rounding rounding);
