/* SPDX-License-Identifier: Apache-2.0 */
/* An observer of one's own: how many zeros in a row each activation has at most, which tells
 * whether it is worth storing sparsely. Threads keep their counts apart, so that they need no lock.
 *
 *     cc custom_observer.c $(pkg-config --cflags --libs tidemark) -o custom_observer
 *     ./custom_observer digits.onnx digits.npy
 */
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/session.h>

enum { THREADS = 2 };

struct runs_of_zeros {
    size_t n_values;
    size_t *longest[THREADS]; /* [n_values] each, by profile ID */
};

static enum tmk_status look(void *context, const struct tmk_observation *seen,
                            struct tmk_diag *diag) {
    struct runs_of_zeros *runs = context;
    const struct tmk_tensor *tensor = seen->tensor;
    (void)diag;
    if (tensor->dtype != TMK_FLOAT32 || seen->id >= runs->n_values)
        return TMK_OK;
    const float *x = tensor->data;
    size_t *longest = &runs->longest[seen->worker][seen->id];
    for (size_t i = 0, run = 0, n = tmk_tensor_count(tensor); i < n; i++) {
        run = x[i] == 0 ? run + 1 : 0;
        *longest = run > *longest ? run : *longest;
    }
    return TMK_OK;
}

static void print(const struct tmk_profile *profile, const struct runs_of_zeros *runs) {
    for (uint32_t i = 0; i < profile->n_tensors; i++) {
        const struct tmk_profile_tensor *value = &profile->tensors[i];
        size_t longest = 0;
        for (int t = 0; t < THREADS; t++)
            if (runs->longest[t][value->id] > longest)
                longest = runs->longest[t][value->id];
        if (value->kind != TMK_PROFILE_WEIGHT)
            printf("p%-3u %-20s %zu zeros in a row\n", value->id, value->name, longest);
    }
}

static enum tmk_status observe(const char *path, const char *data, struct runs_of_zeros *runs,
                               struct tmk_diag *diag) {
    struct tmk_model *model = NULL;
    struct tmk_profile *profile = NULL;
    enum tmk_status status = tmk_model_open(path, false, &model, diag);
    if (status == TMK_OK) /* which values there are */
        status = tmk_model_skeleton(model, &profile, diag);
    runs->n_values = profile ? profile->tensors[profile->n_tensors - 1].id + 1 : 0;
    for (int t = 0; t < THREADS; t++)
        if (!(runs->longest[t] = calloc(runs->n_values + 1, sizeof *runs->longest[t])))
            status = TMK_NOMEM;
    tmk_profile_destroy(&profile);
    const struct tmk_run_options options = {.data = {.sources = &data, .n_sources = 1},
                                            .limits.threads = THREADS,
                                            .observe = {look, runs}};
    if (status == TMK_OK)
        status = tmk_model_profile(model, &options, NULL, &profile, NULL, diag);
    if (status == TMK_OK)
        print(profile, runs);
    tmk_profile_destroy(&profile);
    tmk_model_close(&model);
    return status;
}

int main(int argc, char **argv) {
    struct tmk_diag diag = {0};
    struct runs_of_zeros runs = {0};
    if (argc != 3) {
        fprintf(stderr, "usage: %s MODEL.onnx DATA.npy\n", argv[0]);
        return 2;
    }
    enum tmk_status status = observe(argv[1], argv[2], &runs, &diag);
    if (status != TMK_OK)
        fprintf(stderr, "%s\n", diag.text[0] ? diag.text : tmk_status_text(status));
    for (int t = 0; t < THREADS; t++)
        free(runs.longest[t]);
    return status == TMK_OK ? 0 : 3;
}
