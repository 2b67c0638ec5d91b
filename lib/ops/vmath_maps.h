/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of each element, for one instruction set. The includer defines TARGET, the type `vec`
 * of WIDTH floats, load, store, square_root, round_down, round_up, round_even, sum,
 * and limit_vec and scale_vec, which are LIMIT and SCALE of functions_body.h.
 *
 * The last elements of an array go through a padded vector, so that they meet the same code. */
#include <stdint.h>
#include <string.h>

#include "ops/functions.h"

typedef uint32_t words __attribute__((vector_size(WIDTH * sizeof(uint32_t))));

#define PROCESSOR TARGET
#define FUNCTION(name) name##_of
#define VEC vec
#define INTS ints
#define WORDS words
#define BITS(v) ((ints)(v))
#define FLOATS(i) ((vec)(i))
#define TO_FLOATS(i) __builtin_convertvector(i, vec)
#define LESS(a, b) ((a) < (b))
#define LIMIT limit_vec
#define SCALE scale_vec

#include "ops/functions_body.h"

TARGET static inline vec load_some(const float *x, size_t n) {
    float pad[WIDTH];
    for (size_t l = 0; l < WIDTH; l++)
        pad[l] = 1;
    memcpy(pad, x, n * sizeof *x);
    return load(pad);
}

TARGET static inline void store_some(float *y, size_t n, vec v) {
    float pad[WIDTH];
    store(pad, v);
    memcpy(y, pad, n * sizeof *y);
}

TARGET static inline vec log_of(vec x) {
    float each[WIDTH];
    if (is_all(is_normal_of(x)))
        return log_normal_of(x, 0);
    store(each, x);
    for (size_t l = 0; l < WIDTH; l++)
        each[l] = tmk_logf(each[l]);
    return load(each);
}

TARGET static inline vec sine_of(vec x, int32_t quarters) {
    float each[WIDTH];
    if (is_all(is_near_of(x)))
        return sine_near_of(x, quarters);
    store(each, x);
    for (size_t l = 0; l < WIDTH; l++)
        each[l] = tmk_sinef(each[l], quarters);
    return load(each);
}

#define SINE(x) sine_of(x, 0)
#define COSINE(x) sine_of(x, 1)

#define MAP(name, function)                                                                        \
    TARGET static void map_##name(const float *x, float *y, size_t n) {                            \
        size_t i = 0;                                                                              \
        for (; i + WIDTH <= n; i += WIDTH)                                                         \
            store(y + i, function(load(x + i)));                                                   \
        if (i < n)                                                                                 \
            store_some(y + i, n - i, function(load_some(x + i, n - i)));                           \
    }
MAP(exp, exp_of)
MAP(log, log_of)
MAP(tanh, tanh_of)
MAP(erf, erf_of)
MAP(sin, SINE)
MAP(cos, COSINE)
MAP(sqrt, square_root)
MAP(floor, round_down)
MAP(ceil, round_up)
MAP(rint, round_even)
MAP(sigmoid, sigmoid_of)
MAP(softplus, softplus_of)
MAP(gelu, gelu_of)
MAP(gelu_tanh, gelu_tanh_of)

TARGET static double exp_sum(const float *x, float shift, float *y, size_t n) {
    size_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        store(y + i, exp_of(load(x + i) - shift));
    if (i < n)
        store_some(y + i, n - i, exp_of(load_some(x + i, n - i) - shift));
    return sum(y, n);
}
