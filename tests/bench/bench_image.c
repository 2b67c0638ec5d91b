/* SPDX-License-Identifier: Apache-2.0 */
/* Images as the loader makes them, on one thread: bench_image SPEC, then a file a line on standard
 * input; for each the processor time of making it once, in seconds. For images.py, which has Pillow
 * do the same in turn. Built, not run by the tests. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/diag.h"
#include "data/image.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static enum tmk_status once(struct tmk_image_helpers *helpers, const char *path,
                            const struct tmk_image_recipe *recipe, struct tmk_diag *diag) {
    struct tmk_tensor tensor = {0};
    double before = now();
    TMK_TRY(tmk_image_load(helpers, path, recipe, &tensor, diag));
    tmk_tensor_finish(&tensor);
    printf("%.9f\n", now() - before);
    fflush(stdout);
    return TMK_OK;
}

int main(int argc, char **argv) {
    static struct tmk_image_recipe recipe;
    char path[4096];
    struct tmk_image_spec spec;
    struct tmk_diag diag = {0};
    if (argc != 2)
        return 2;
    enum tmk_status status = tmk_image_spec_parse(argv[1], &spec, &diag);
    struct tmk_image_helpers *helpers = NULL;
    if (status == TMK_OK)
        status = tmk_image_helpers_create(&helpers, &diag);
    if (status == TMK_OK)
        tmk_image_recipe_init(&recipe, &spec);
    while (status == TMK_OK && fgets(path, sizeof path, stdin)) {
        path[strcspn(path, "\n")] = '\0';
        status = once(helpers, path, &recipe, &diag);
    }
    tmk_image_helpers_destroy(&helpers);
    if (status != TMK_OK)
        fprintf(stderr, "%s\n", diag.text);
    return status != TMK_OK;
}
