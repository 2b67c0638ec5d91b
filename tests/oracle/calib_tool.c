/* SPDX-License-Identifier: Apache-2.0 */
/* For test_calib_numbers.py: the arithmetic of calibration, value by value.
 *
 * calib_tool fit TYPE FLAGS: of "low high" a line, the scale and zero point.
 * calib_tool multiply ROUNDING: of "x real" a line, multiplier, shift, product.
 * calib_tool choose PROFILE METHOD PARAMETER TYPE FLAGS: of every value that has what the method
 *     needs, what is chosen and expected.
 * calib_tool time PROFILE TYPE FLAGS: milliseconds that each method took for all of them.
 * FLAGS: letters of s(ymmetric), n(arrow), p(ow2), or -. Parameter 0: the default. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tidemark/profile.h>

#include "calib/make.h"
#include "calib/method.h"

static int fit(const struct tmk_grid *grid) {
    float low, high;
    while (scanf("%f %f", &low, &high) == 2) {
        float scale;
        int32_t zero_point;
        if (tmk_grid_fit(grid, low, high, &scale, &zero_point, NULL) != TMK_OK)
            return 1;
        printf("%.9g %d\n", (double)scale, zero_point);
    }
    return 0;
}

static int multiply(enum tmk_rounding rounding) {
    int x;
    double real;
    while (scanf("%d %lf", &x, &real) == 2) {
        int32_t q, shift;
        if (tmk_fixed_from_real(real, &q, &shift, NULL) != TMK_OK)
            return 1;
        printf("%d %d %d\n", q, shift, tmk_fixed_multiply(x, q, shift, real, rounding));
    }
    return 0;
}

static void print(const struct tmk_profile_tensor *tensor, const struct tmk_spread *spread,
                  const struct tmk_grid *grid, const struct tmk_clip_choice *choice) {
    struct tmk_expectation expected;
    float scale = 1;
    int32_t zero_point = 0;
    if (tmk_grid_fit(grid, choice->low, choice->high, &scale, &zero_point, NULL) != TMK_OK)
        return;
    tmk_expect(spread, grid, scale, zero_point, &expected);
    printf(
        "%u %.9g %.9g %.17g %.17g %.17g %.17g %d %.9g %.9g %.9g %d %.17g %.17g %.17g %.17g %.17g "
        "%.17g %u\n",
        tensor->id, (double)choice->low, (double)choice->high, choice->low_from, choice->low_to,
        choice->high_from, choice->high_to, choice->flat, choice->flat_low, choice->flat_high,
        (double)scale, zero_point, expected.mse, expected.mse_low, expected.mse_high,
        expected.clipped, expected.clipped_low, expected.clipped_high, expected.codes);
}

/* Of all values with a histogram; false where something failed. */
static bool choose_all(const struct tmk_profile *profile, const struct tmk_method *method,
                       double parameter, const struct tmk_grid *grid, bool quiet) {
    parameter = parameter > 0 ? parameter : method->parameter;
    for (uint32_t i = 0; i < profile->n_tensors; i++) {
        const struct tmk_profile_tensor *tensor = &profile->tensors[i];
        struct tmk_diag diag = {0};
        struct tmk_spread spread;
        struct tmk_clip_choice choice;
        const struct tmk_stats *stats = tensor->stats;
        if (!stats || tmk_spread_make(&stats, 1, &spread, NULL) != TMK_OK)
            continue;
        enum tmk_status status = TMK_OK;
        if (tensor->sample_min)
            status = tmk_spread_take_samples(&spread, tensor->sample_min, tensor->sample_max,
                                             tensor->n_samples, &diag);
        if (status == TMK_OK)
            status = method->choose(&spread, grid, parameter, &choice, &diag);
        if (status == TMK_OK && !quiet)
            print(tensor, &spread, grid, &choice);
        tmk_spread_finish(&spread);
        if (status != TMK_OK && status != TMK_UNSUPPORTED && status != TMK_NOTFOUND) {
            fprintf(stderr, "%s\n", diag.text);
            return false;
        }
    }
    return true;
}

static void time_all(const struct tmk_profile *profile, const struct tmk_grid *grid) {
    for (const struct tmk_method *const *row = tmk_method_list(); *row; row++) {
        clock_t start = clock();
        if (choose_all(profile, *row, 0, grid, true))
            printf("%s %.1f\n", (*row)->name, (double)(clock() - start) * 1e3 / CLOCKS_PER_SEC);
    }
}

static bool grid_of(const char *type, const char *flags, struct tmk_grid *grid) {
    *grid = (struct tmk_grid){.symmetric = strchr(flags, 's') != NULL,
                              .narrow = strchr(flags, 'n') != NULL,
                              .pow2 = strchr(flags, 'p') != NULL};
    grid->dtype = tmk_dtype_by_name(type);
    return grid->dtype != TMK_UNDEFINED;
}

int main(int argc, char **argv) {
    struct tmk_grid grid;
    struct tmk_diag diag = {0};
    struct tmk_profile *profile = NULL;
    enum tmk_rounding rounding;
    const char *verb = argc > 2 ? argv[1] : "";
    if (strcmp(verb, "fit") == 0 && argc == 4 && grid_of(argv[2], argv[3], &grid))
        return fit(&grid);
    if (strcmp(verb, "multiply") == 0 && tmk_rounding_by_name(argv[2], &rounding))
        return multiply(rounding);
    const struct tmk_method *method = argc == 7 ? tmk_method_find(argv[3]) : NULL;
    bool is_choose = strcmp(verb, "choose") == 0 && method && grid_of(argv[5], argv[6], &grid);
    bool is_time = strcmp(verb, "time") == 0 && argc == 5 && grid_of(argv[3], argv[4], &grid);
    if (!is_choose && !is_time)
        return 2;
    if (tmk_profile_read(argv[2], &profile, &diag) != TMK_OK) {
        fprintf(stderr, "%s\n", diag.text);
        return 1;
    }
    bool done = true;
    if (is_time)
        time_all(profile, &grid);
    else
        done = choose_all(profile, method, atof(argv[4]), &grid, false);
    tmk_profile_destroy(&profile);
    return done ? 0 : 1;
}
