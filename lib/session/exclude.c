/* SPDX-License-Identifier: Apache-2.0 */
#include "session/exclude.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"

enum tmk_status tmk_excluded_of(const struct tmk_run_options *options, struct tmk_excluded *out,
                                struct tmk_diag *diag) {
    size_t given = options->statistics.n_exclude, n = 0;
    for (size_t i = 0; i < given; i++)
        if (!isfinite(options->statistics.exclude[i]))
            return tmk_fail(diag, TMK_ARGUMENT,
                            "NaN and infinities are counted apart anyway, and cannot be excluded");
    uint32_t *bits = calloc(given + 1, sizeof *bits);
    TMK_TRY_ALLOC(bits, diag);
    if (given)
        memcpy(bits, options->statistics.exclude, given * sizeof *bits);
    qsort(bits, given, sizeof *bits, tmk_compare_u32);
    for (size_t i = 0; i < given; i++)
        if (!n || bits[n - 1] != bits[i])
            bits[n++] = bits[i];
    *out = (struct tmk_excluded){bits, n};
    return TMK_OK;
}

void tmk_excluded_finish(struct tmk_excluded *excluded) {
    free(excluded->bits);
    *excluded = (struct tmk_excluded){0};
}

enum tmk_status tmk_excluded_describe(const struct tmk_excluded *excluded,
                                      struct tmk_profile *profile, struct tmk_diag *diag) {
    for (size_t i = 0; i < excluded->n; i++) {
        char text[32];
        float value;
        memcpy(&value, &excluded->bits[i], sizeof value);
        snprintf(text, sizeof text, "%.9g", (double)value);
        TMK_TRY(tmk_profile_add_setting(profile, "exclude", text, diag));
    }
    return TMK_OK;
}
