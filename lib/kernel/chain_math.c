/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/chain_math.h"

#include "kernel/chain_loops.h"
#include "ops/functions.h"
#include "ops/vmath.h"

/* `expr` of an element x. */
#define DEFINE(name, expr)                                                                         \
    static void name(size_t n, const float *px, float p, float *y) {                               \
        (void)p;                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            const float x = px[i];                                                                 \
            y[i] = (expr);                                                                         \
        }                                                                                          \
    }

#define DEFINE_VECTOR(name, function)                                                              \
    static void name(size_t n, const float *x, float p, float *y) {                                \
        (void)p;                                                                                   \
        function(x, y, n);                                                                         \
    }

DEFINE(cube, (float)((double)x *(double)x *(double)x))
DEFINE(elu, tmk_above_zerof(x) + p * tmk_expm1f(tmk_below_zerof(x)))
DEFINE_VECTOR(softplus, tmk_vsoftplus)
DEFINE_VECTOR(exponential, tmk_vexp)
DEFINE_VECTOR(logarithm, tmk_vlog)
DEFINE_VECTOR(error_function, tmk_verf)
DEFINE_VECTOR(tangent, tmk_vtanh)
DEFINE_VECTOR(sigmoid, tmk_vsigmoid)
DEFINE_VECTOR(gelu, tmk_vgelu)
DEFINE_VECTOR(gelu_tanh, tmk_vgelu_tanh)

static void swish_loop(size_t n, const float *x, float p, float *y) {
    tmk_vswish(x, p, y, n);
}

const tmk_chain_math tmk_chain_maths[TMK_CHAIN_KINDS] = {
    [TMK_CHAIN_CUBE] = cube,
    [TMK_CHAIN_EXP] = exponential,
    [TMK_CHAIN_LOG] = logarithm,
    [TMK_CHAIN_ERF] = error_function,
    [TMK_CHAIN_TANH] = tangent,
    [TMK_CHAIN_SIGMOID] = sigmoid,
    [TMK_CHAIN_SWISH] = swish_loop,
    [TMK_CHAIN_SOFTPLUS] = softplus,
    [TMK_CHAIN_ELU] = elu,
    [TMK_CHAIN_GELU] = gelu,
    [TMK_CHAIN_GELU_TANH] = gelu_tanh,
};
