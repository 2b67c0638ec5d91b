/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles a model over data that the program makes itself.
 *
 *     cc profile_from_memory.c $(pkg-config --cflags --libs tidemark) -o profile_from_memory
 *     ./profile_from_memory digits.onnx profile.json
 */
#include <stdio.h>
#include <stdlib.h>

#include <tidemark/session.h>

enum { SAMPLES = 100, PIXELS = 8 * 8 };

/* A camera that delivers one picture after another. */
struct camera {
    float picture[1][1][8][8];
    int taken;
};

static enum tmk_status next_picture(void *context, const char *input, struct tmk_record *out,
                                    bool *end, struct tmk_diag *diag) {
    struct camera *camera = context;
    (void)input; /* the model has one */
    (void)diag;
    if (camera->taken == SAMPLES) {
        *end = true;
        return TMK_OK;
    }
    float *pixels = malloc(PIXELS * sizeof *pixels);
    if (!pixels)
        return TMK_NOMEM;
    for (int i = 0; i < PIXELS; i++)
        pixels[i] = (float)((i * 7 + camera->taken * 13) % 17);
    camera->taken++;
    /* used in place, and freed when the network is through with it */
    *out = (struct tmk_record){TMK_FLOAT32, {4, {1, 1, 8, 8}}, pixels, free, pixels};
    return TMK_OK;
}

static enum tmk_status profile(const char *path, const char *output, struct tmk_diag *diag) {
    struct tmk_model *model = NULL;
    struct tmk_profile *profile = NULL;
    struct camera camera = {0};
    const struct tmk_pull pull = {next_picture, &camera, "camera"};
    const struct tmk_run_options options = {
        .data = {.sources = (const char *const[]){"-"}, .n_sources = 1, .pull = &pull}};
    enum tmk_status status = tmk_model_open(path, false, &model, diag);
    if (status == TMK_OK)
        status = tmk_model_profile(model, &options, NULL, &profile, NULL, diag);
    for (uint32_t i = 0; status == TMK_OK && i < profile->n_tensors; i++) {
        const struct tmk_profile_tensor *value = &profile->tensors[i];
        struct tmk_summary summary;
        if (!value->stats)
            continue;
        tmk_stats_summary(value->stats, &summary);
        printf("p%-3u %-20s [%g, %g]\n", value->id, value->name, (double)summary.min,
               (double)summary.max);
    }
    if (status == TMK_OK)
        status = tmk_profile_write(profile, output, diag);
    tmk_profile_destroy(&profile);
    tmk_model_close(&model);
    return status;
}

int main(int argc, char **argv) {
    struct tmk_diag diag = {0};
    if (argc != 3) {
        fprintf(stderr, "usage: %s MODEL.onnx PROFILE.json\n", argv[0]);
        return 2;
    }
    if (profile(argv[1], argv[2], &diag) != TMK_OK) {
        fprintf(stderr, "%s\n", diag.text);
        return 3;
    }
    return 0;
}
