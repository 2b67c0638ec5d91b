/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings made by hand, and what an exporter makes of them. Needs test.h before it. */
#pragma once

#include <string.h>

#include <tidemark/encodings.h>

#include "base/buf.h"
#include "base/file.h"
#include "folder.h"
#include "transform/formats.h"

/* One value: uint8 [-1, 1.55] activations, int8 weights of two channels, by the flags. */
struct made {
    uint32_t id;
    const char *name;
    enum tmk_encoding_role role;
    enum tmk_dtype dtype;
    float low, high; /* per channel of a weight: this, and half of it */
};

static inline struct tmk_encodings *make_encodings(const struct made *made, uint32_t n) {
    struct tmk_encodings *e = NULL;
    must(tmk_encodings_create(&e, DIAG));
    e->model.file = "made.onnx";
    e->items = tmk_encodings_make(e, n, sizeof *e->items);
    e->n_items = n;
    for (uint32_t i = 0; i < n; i++) {
        struct tmk_encoding *item = &e->items[i];
        int32_t lowest, highest;
        bool weight = made[i].role == TMK_ENCODING_WEIGHT;
        *item = (struct tmk_encoding){
            .id = made[i].id,
            .name = made[i].name,
            .role = made[i].role,
            .dtype = made[i].dtype,
            .symmetric = made[i].low == -made[i].high,
            .narrow = weight,
            .axis = weight ? 0 : -1,
            .n = weight ? 2 : 1,
            .method = "minmax",
            .rule = "",
        };
        float *numbers = tmk_encodings_make(e, 5u * item->n, sizeof *numbers);
        item->zero_point = tmk_encodings_make(e, item->n, sizeof *item->zero_point);
        item->scale = numbers;
        item->low = numbers + item->n;
        item->high = numbers + 2 * item->n;
        item->clip_min = numbers + 3 * item->n;
        item->clip_max = numbers + 4 * item->n;
        tmk_encoding_codes(item, &lowest, &highest);
        for (uint32_t c = 0; c < item->n; c++) {
            float share = c ? 0.5f : 1.0f;
            float width = (made[i].high - made[i].low) * share;
            item->low[c] = made[i].low * share;
            item->high[c] = made[i].high * share;
            item->scale[c] = width > 0 ? width / ((float)highest - (float)lowest) : 1;
            if (!item->symmetric)
                item->zero_point[c] = lowest - (int32_t)(item->low[c] / item->scale[c]);
            item->clip_min[c] = ((float)lowest - (float)item->zero_point[c]) * item->scale[c];
            item->clip_max[c] = ((float)highest - (float)item->zero_point[c]) * item->scale[c];
        }
    }
    return e;
}

/* What was said while a test's exporter ran. */
struct said {
    char skips[1024], remarks[1024];
};

static inline void hear_skip(void *context, uint32_t id, const char *name, const char *why) {
    struct said *said = context;
    size_t len = strlen(said->skips);
    (void)name;
    snprintf(said->skips + len, sizeof said->skips - len, "p%u: %s\n", id, why);
}

static inline void hear_remark(void *context, const char *text) {
    struct said *said = context;
    size_t len = strlen(said->remarks);
    snprintf(said->remarks + len, sizeof said->remarks - len, "%s\n", text);
}

/* Runs the format's row; the file's text goes to `text`, which is "" where nothing was written. */
static inline enum tmk_status run_export(struct tmk_export_job *job, const char *format,
                                         struct said *said, char *text, size_t size,
                                         struct tmk_diag *diag) {
    char path[128];
    struct tmk_buf *file = NULL;
    job->path = in_folder("out", path);
    job->skip = hear_skip;
    job->remark = hear_remark;
    job->context = said;
    *said = (struct said){0};
    text[0] = '\0';
    unlink(path);
    assert_non_null(tmk_exporter_find(format));
    enum tmk_status status = tmk_export_run(tmk_exporter_find(format), job, diag);
    if (status == TMK_OK) {
        assert_ok(tmk_file_map(path, &file, diag), diag);
        assert_true(tmk_buf_size(file) < size);
        memcpy(text, tmk_buf_data(file), tmk_buf_size(file));
        text[tmk_buf_size(file)] = '\0';
        tmk_buf_unref(&file);
    }
    return status;
}
