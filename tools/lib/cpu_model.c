/* SPDX-License-Identifier: Apache-2.0 */
/* What __builtin_cpu_supports reads, for a wheel: in zig's runtime library it always says no. The
 * layout and the bits are those of libgcc, to which gcc and clang compile the built-in function. */
#include <cpuid.h>

enum {
    POPCNT = 2,
    AVX = 9,
    AVX2 = 10,
    FMA = 14,
    AVX512F = 15,
    BMI2 = 17,
    AVX512VL = 20,
    AVX512BW = 21,
    AVX512DQ = 22
};

struct {
    unsigned vendor, type, subtype, features;
} __cpu_model __attribute__((visibility("hidden")));

static void set(unsigned value, int bit, int feature) {
    __cpu_model.features |= (value >> bit & 1U) << feature;
}

__attribute__((constructor(101), visibility("hidden"))) int __cpu_indicator_init(void) {
    unsigned a, b, c, d, state = 0, high;
    if (__cpu_model.vendor || !__get_cpuid(1, &a, &b, &c, &d))
        return 0;
    __cpu_model.vendor = 3; /* another */
    set(c, 23, POPCNT);
    if (c & bit_OSXSAVE) /* then xgetbv says which registers the system saves */
        __asm__("xgetbv" : "=a"(state), "=d"(high) : "c"(0));
    if ((state & 0x06) != 0x06)
        state = 0;
    if (state) {
        set(c, 28, AVX);
        set(c, 12, FMA);
    }
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return 0;
    set(b, 8, BMI2);
    if (state)
        set(b, 5, AVX2);
    if ((state & 0xe6) == 0xe6) {
        set(b, 16, AVX512F);
        set(b, 17, AVX512DQ);
        set(b, 30, AVX512BW);
        set(b, 31, AVX512VL);
    }
    return 0;
}
