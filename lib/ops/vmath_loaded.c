/* SPDX-License-Identifier: Apache-2.0 */
/* glibc's vector functions for a build whose own glibc lacks some of them: taken from the libmvec
 * of the machine that runs, under the names by which the kernels would link them. */
#include <dlfcn.h>
#include <immintrin.h>
#include <pthread.h>

#include "ops/vmath_kernel.h"

#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): libmvec's own names */
#define FUNCTIONS(X)                                                                               \
    X(AVX2, __m256, _ZGVdN8v_expf)                                                                 \
    X(AVX2, __m256, _ZGVdN8v_logf)                                                                 \
    X(AVX2, __m256, _ZGVdN8v_tanhf)                                                                \
    X(AVX2, __m256, _ZGVdN8v_erff)                                                                 \
    X(AVX2, __m256, _ZGVdN8v_sinf)                                                                 \
    X(AVX2, __m256, _ZGVdN8v_cosf)                                                                 \
    X(AVX2, __m256, _ZGVdN8v_log1pf)                                                               \
    X(AVX512, __m512, _ZGVeN16v_expf)                                                              \
    X(AVX512, __m512, _ZGVeN16v_logf)                                                              \
    X(AVX512, __m512, _ZGVeN16v_tanhf)                                                             \
    X(AVX512, __m512, _ZGVeN16v_sinf)                                                              \
    X(AVX512, __m512, _ZGVeN16v_cosf)                                                              \
    X(AVX512, __m512, _ZGVeN16v_log1pf)

#define COUNT_ONE(target, type, name) AT##name,
enum { FUNCTIONS(COUNT_ONE) N_FUNCTIONS };
#undef COUNT_ONE
#define NAME_ONE(target, type, name) #name,
static const char *const names[] = {FUNCTIONS(NAME_ONE)};
#undef NAME_ONE

static void *loaded[N_FUNCTIONS];
static bool all_loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#define FORWARD(target, type, name)                                                                \
    target type name(type x);                                                                      \
    target type name(type x) {                                                                     \
        return ((type(*)(type))loaded[AT##name])(x);                                               \
    }
FUNCTIONS(FORWARD)
#undef FORWARD
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static void load_mvec(void) {
    void *mvec = dlopen("libmvec.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!mvec)
        return;
    for (int i = 0; i < N_FUNCTIONS; i++)
        if (!(loaded[i] = dlsym(mvec, names[i]))) {
            dlclose(mvec);
            return;
        }
    all_loaded = true;
}

bool tmk_vmath_has_mvec(void) {
    return pthread_once(&once, load_mvec) == 0 && all_loaded;
}
