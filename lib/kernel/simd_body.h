/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of simd.h for one size of block: BLOCK, its NAME(of a function), TARGET, and the FLOATS
 * in one of its registers are defined. Included once for each, and so without a guard; BLOCK and
 * NAME are undefined at the end. */

/* All goes register by register, since gcc compares and converts longer vectors element by element.
 */
#define PART (BLOCK < FLOATS ? BLOCK : FLOATS)
#define PARTS (BLOCK / PART)
#define HALF (FLOATS / 2) /* as many doubles as a register holds */
#define HALVES (BLOCK / HALF)

typedef float NAME(part) __attribute__((vector_size(PART * 4), aligned(4), may_alias));
typedef int32_t NAME(bits) __attribute__((vector_size(PART * 4), aligned(4), may_alias));
typedef float NAME(half) __attribute__((vector_size(HALF * 4), aligned(4), may_alias));
typedef double NAME(doubles) __attribute__((vector_size(HALF * 8)));

/* The value where it is greater than the best so far, or NaN; else the best. The instruction gives
 * its second operand when they are equal or either is NaN. (No function: a vector argument's way
 * into it depends on the processor.) */
#if PART == 16
#define GREATER(value, best)                                                                       \
    _mm512_mask_mov_ps(_mm512_max_ps(value, best), _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q), \
                       value)
#elif PART == 8
#define GREATER(value, best)                                                                       \
    _mm256_blendv_ps(_mm256_max_ps(value, best), value, _mm256_cmp_ps(value, value, _CMP_UNORD_Q))
#else
#define GREATER(value, best)                                                                       \
    ((NAME(part))(((NAME(bits))(value)&TAKEN(value, best)) |                                       \
                  ((NAME(bits))(best) & ~TAKEN(value, best))))
#define TAKEN(value, best) (NAME(bits))(((value) > (best)) | ((value) != (value)))
#endif
/* best: [PARTS]; from: [BLOCK] */
#define RAISE(best, from)                                                                          \
    for (int k_ = 0; k_ < PARTS; k_++) {                                                           \
        NAME(part) value_ = PART_AT(from, k_);                                                     \
        (best)[k_] = GREATER(value_, (best)[k_]);                                                  \
    }
#define PART_AT(from, k) (((const NAME(part) *)(const void *)(from))[k])

#if FLOATS == 4
/* gcc converts two floats one by one, but four as two registers. */
#define ADD(sum, from)                                                                             \
    for (int k_ = 0; k_ < PARTS; k_++) {                                                           \
        NAME(wide) wide_ = __builtin_convertvector(PART_AT(from, k_), NAME(wide));                 \
        (sum)[2 * k_] += (NAME(doubles)){wide_[0], wide_[1]};                                      \
        (sum)[2 * k_ + 1] += (NAME(doubles)){wide_[2], wide_[3]};                                  \
    }
typedef double NAME(wide) __attribute__((vector_size(PART * 8)));
#else
#define ADD(sum, from)                                                                             \
    for (int k_ = 0; k_ < HALVES; k_++)                                                            \
        (sum)[k_] += __builtin_convertvector(((const NAME(half) *)(const void *)(from))[k_],       \
                                             NAME(doubles));
#endif

TARGET static void NAME(global_mean)(const float *x, float *y, size_t batch, size_t channels,
                                     size_t places) {
    for (size_t b = 0; b < batch; b++)
        for (size_t c = 0; c < channels; c += BLOCK) {
            NAME(doubles) sum[HALVES] = {{0}};
            for (size_t i = 0; i < places; i++, x += BLOCK)
                ADD(sum, x)
            for (size_t k = 0; k < BLOCK && c + k < channels; k++)
                *y++ = (float)(sum[k / HALF][k % HALF] / (double)places);
        }
}

TARGET static void NAME(global_max)(const float *x, float *y, size_t batch, size_t channels,
                                    size_t places) {
    for (size_t b = 0; b < batch; b++)
        for (size_t c = 0; c < channels; c += BLOCK) {
            NAME(part) best[PARTS];
            for (int k = 0; k < PARTS; k++)
                best[k] = PART_AT(x, k);
            x += BLOCK;
            for (size_t i = 1; i < places; i++, x += BLOCK)
                RAISE(best, x)
            for (size_t k = 0; k < BLOCK && c + k < channels; k++)
                *y++ = best[k / PART][k % PART];
        }
}

/* The next windows of a row, TOGETHER at most or one, by their place g among them: `begin` before
 * their taps, `each` on every tap in the input, `end` behind. Several at a time, since each tap
 * waits for the one before. */
#define TAPS(together, begin, each, end)                                                           \
    {                                                                                              \
        for (int g = 0; g < (together); g++)                                                       \
            begin;                                                                                 \
        for (int64_t i = 0; i < s.count; i++)                                                      \
            for (int64_t j = 0; j < t.count; j++) {                                                \
                const float *from =                                                                \
                    x + (((s.first + i * p->step[0]) * p->in[1] + t.first + j * p->step[1]) *      \
                             p->in[2] +                                                            \
                         u->first) *                                                               \
                            BLOCK;                                                                 \
                for (int64_t k = 0; k < u->count; k++, from += p->step[2] * BLOCK)                 \
                    for (int g = 0; g < (together); g++)                                           \
                        each(from + g * jump);                                                     \
            }                                                                                      \
        for (int g = 0; g < (together); g++, y += BLOCK)                                           \
            end;                                                                                   \
    }
#define WINDOWS(together, begin, each, end)                                                        \
    int64_t area = p->in[0] * p->in[1] * p->in[2];                                                 \
    for (size_t plane = 0; plane < p->planes; plane++, x += area * BLOCK)                          \
        for (int64_t a = 0; a < p->out[0]; a++)                                                    \
            for (int64_t b = 0; b < p->out[1]; b++)                                                \
                for (int64_t c = 0, n; c < p->out[2]; c += n) {                                    \
                    const struct tmk_pool_span s = p->span[0][a], t = p->span[1][b],               \
                                               *u = p->span[2] + c;                                \
                    int64_t jump = 0;                                                              \
                    n = p->out[2] - c >= (together) && same_span(u, (together)) ? (together) : 1;  \
                    if (n > 1) {                                                                   \
                        jump = (u[1].first - u[0].first) * BLOCK;                                  \
                        TAPS(together, begin, each, end)                                           \
                    } else                                                                         \
                        TAPS(1, begin, each, end)                                                  \
                }

#define TOGETHER (PARTS <= 2 ? 4 : 2)
#define BEST(from) RAISE(best[g], from)
TARGET static void NAME(pool_max)(const struct tmk_pool_blocked *p, const float *x, float *y) {
    NAME(part) best[TOGETHER][PARTS];
    WINDOWS(TOGETHER, for (int k = 0; k < PARTS; k++) best[g][k] = (NAME(part)){0} - INFINITY, BEST,
            memcpy(y, best[g], sizeof best[g]))
}

#define SUM(from) ADD(sum, from)
TARGET static void NAME(pool_mean)(const struct tmk_pool_blocked *p, const float *x, float *y) {
    NAME(doubles) sum[HALVES];
    WINDOWS(1, for (int k = 0; k < HALVES; k++) sum[k] = (NAME(doubles)){0}, SUM, {
        double taps = (double)s.count * (double)t.count * (double)u->count;
        double count =
            p->padding_counts ? (double)s.padded * (double)t.padded * (double)u->padded : taps;
        for (int k = 0; k < HALVES; k++)
            ((NAME(half) *)(void *)y)[k] =
                __builtin_convertvector(sum[k] / (count > 0 ? count : 1), NAME(half));
    })
}

/* In integers, and without a way out: so it becomes a vector's loop. */
TARGET static bool NAME(all_finite)(const float *x, size_t n) {
    enum { EXPONENT = 0x7f800000 };
    const uint32_t __attribute__((may_alias)) *bits = (const void *)x;
    uint32_t found = 0;
    for (size_t i = 0; i < n; i++)
        found |= (bits[i] & EXPONENT) == EXPONENT;
    return !found;
}

static const struct tmk_simd NAME(lanes) = {
    BLOCK,           PROCESSOR,      NAME(global_mean), NAME(global_max),
    NAME(pool_mean), NAME(pool_max), NAME(all_finite)};

#undef SUM
#undef BEST
#undef TOGETHER
#undef WINDOWS
#undef TAPS
#undef ADD
#undef RAISE
#undef TAKEN
#undef GREATER
#undef PART_AT
#undef HALVES
#undef HALF
#undef PARTS
#undef PART
#undef BLOCK
#undef NAME
