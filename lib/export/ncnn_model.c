/* SPDX-License-Identifier: Apache-2.0 */
/* ncnn's .param is text: a magic number, two counts, then a line a layer: TYPE NAME INPUTS OUTPUTS
 * blobs... key=value... Its .bin has no index: each layer reads on where the one before stopped
 * (ncnn_keep.c). */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/memory.h"
#include "export/ncnn.h"
#include "export/pair.h"

enum { MAGIC = 7767517 };
struct reading {
    struct tmk_ncnn_model *model;
    const char *at, *end; /* of the .param */
    size_t line, size;
    size_t used; /* of the .bin */
    struct tmk_diag *diag;
};

static enum tmk_status fail_line(const struct reading *r, const char *what) {
    return tmk_fail(r->diag, TMK_FORMAT, "line %zu: %s", r->line, what);
}

/* The next line that is not empty; false at the end. */
static bool next_line(struct reading *r, const char **line, size_t *len) {
    do {
        if (r->at >= r->end)
            return false;
        const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at));
        size_t all = (size_t)((stop ? stop : r->end) - r->at);
        *line = r->at;
        *len = all && r->at[all - 1] == '\r' ? all - 1 : all;
        r->at = stop ? stop + 1 : r->end;
        r->line++;
    } while (!*len);
    return true;
}

/* The next word of a terminated copy of a line; "" at the end. */
static char *next_word(char **at) {
    char *word = *at + strspn(*at, " \t");
    char *stop = word + strcspn(word, " \t");
    *at = *stop ? stop + 1 : stop;
    *stop = '\0';
    return word;
}

static bool parse_whole(const char *text, int64_t *out) {
    char *stop;
    long long number = strtoll(text, &stop, 10);
    *out = number;
    return *text && !*stop;
}

static void read_keys(char *words, struct tmk_ncnn_keys *out) {
    *out = (struct tmk_ncnn_keys){0};
    for (char *word = next_word(&words); *word; word = next_word(&words)) {
        char *equals = strchr(word, '=');
        int64_t key, value;
        if (!equals)
            continue;
        *equals = '\0';
        if (parse_whole(word, &key) && key >= 0 && key < TMK_NCNN_KEYS &&
            parse_whole(equals + 1, &value)) {
            out->value[key] = value;
            out->given[key] = true;
        }
    }
}

static enum tmk_status read_layer(struct reading *r, const char *line, size_t len) {
    struct tmk_ncnn_layer layer = {.line = line, .len = len};
    char *words = tmk_arena_strndup(&r->model->arena, line, len);
    int64_t inputs, outputs;
    struct tmk_ncnn_keys keys;
    TMK_TRY_ALLOC(words, r->diag);
    layer.type = next_word(&words);
    layer.name = next_word(&words);
    if (!parse_whole(next_word(&words), &inputs) || !parse_whole(next_word(&words), &outputs) ||
        inputs < 0 || outputs < 0)
        return fail_line(r, "TYPE NAME and two counts were expected");
    for (int64_t i = 0; i < inputs; i++)
        if (!*next_word(&words))
            return fail_line(r, "there are fewer blobs than it declares");
    for (int64_t i = 0; i < outputs; i++) {
        const char *blob = next_word(&words);
        if (!*blob)
            return fail_line(r, "there are fewer blobs than it declares");
        layer.top = i ? layer.top : blob;
    }
    read_keys(words, &keys);
    struct tmk_ncnn_model *model = r->model;
    TMK_TRY(tmk_in(r->diag, tmk_ncnn_keep(model->bin, r->used, &keys, &layer, r->diag), "line %zu",
                   r->line));
    for (size_t i = 0; i < layer.n_parts; i++)
        r->used += layer.parts[i].size;
    TMK_TRY_ALLOC(TMK_GROW(model->layers, model->n, r->size), r->diag);
    model->layers[model->n++] = layer;
    return TMK_OK;
}

static enum tmk_status read_param(struct reading *r, const struct tmk_buf *file) {
    const char *line = NULL, *words;
    size_t len = 0;
    int64_t magic, counted;
    struct tmk_ncnn_model *model = r->model;
    char *text = tmk_arena_strndup(&model->arena, tmk_buf_data(file), tmk_buf_size(file));
    TMK_TRY_ALLOC(text, r->diag);
    r->at = text;
    r->end = text + tmk_buf_size(file);
    char number[32] = "";
    if (next_line(r, &line, &len) && len < sizeof number)
        memcpy(number, line, len);
    if (!parse_whole(number, &magic) || magic != MAGIC)
        return fail_line(r, "7767517 was expected: it is no .param of ncnn");
    if (!next_line(r, &line, &len))
        return fail_line(r, "two counts were expected");
    char *counts = tmk_arena_strndup(&model->arena, line, len);
    TMK_TRY_ALLOC(counts, r->diag);
    words = next_word(&counts);
    if (!parse_whole(words, &counted))
        return fail_line(r, "two counts were expected");
    model->head = text;
    model->head_len = (size_t)(r->at - text);
    while (next_line(r, &line, &len))
        TMK_TRY(read_layer(r, line, len));
    if ((uint64_t)counted != model->n)
        return fail_line(r, "the number of layers is not the declared one");
    if (r->used != tmk_buf_size(model->bin))
        return tmk_fail(r->diag, TMK_FORMAT, "its layers keep %zu bytes, and the .bin file has %zu",
                        r->used, tmk_buf_size(model->bin));
    return TMK_OK;
}

enum tmk_status tmk_ncnn_model_read(const char *path, struct tmk_ncnn_model *out,
                                    struct tmk_diag *diag) {
    struct tmk_ncnn_model model = {0};
    struct reading r = {.model = &model, .diag = diag};
    struct tmk_buf *file = NULL;
    char *bin = tmk_export_bin_path(path, ".param");
    enum tmk_status status = bin ? tmk_file_map(path, &file, diag) : tmk_nomem(diag);
    if (status == TMK_OK)
        status = tmk_file_map(bin, &model.bin, diag);
    if (status == TMK_OK)
        status = tmk_in(diag, read_param(&r, file), "%s", path);
    free(bin);
    tmk_buf_unref(&file);
    if (status == TMK_OK)
        *out = model;
    else
        tmk_ncnn_model_finish(&model);
    return status;
}

void tmk_ncnn_model_finish(struct tmk_ncnn_model *model) {
    tmk_buf_unref(&model->bin);
    free(model->layers);
    tmk_arena_finish(&model->arena);
    *model = (struct tmk_ncnn_model){0};
}

bool tmk_ncnn_is_gemm(const struct tmk_ncnn_layer *layer) {
    return layer->int8 == TMK_NCNN_DYNAMIC && strcmp(layer->type, "Gemm") == 0;
}

float *tmk_ncnn_numbers(const struct tmk_ncnn_model *model, const struct tmk_ncnn_part *part) {
    const unsigned char *at = (const unsigned char *)tmk_buf_data(model->bin) + part->offset +
                              (part->tagged ? sizeof part->tag : 0);
    float *numbers = calloc(part->count + 1, sizeof *numbers);
    if (!numbers)
        return NULL;
    if (!part->tagged || part->tag != TMK_NCNN_HALF) {
        memcpy(numbers, at, sizeof *numbers * part->count);
        return numbers;
    }
    for (uint64_t i = 0; i < part->count; i++) {
        uint16_t half;
        memcpy(&half, at + sizeof half * i, sizeof half);
        numbers[i] = tmk_from_half(half);
    }
    return numbers;
}

float *tmk_ncnn_dynamic_scales(const struct tmk_ncnn_model *model,
                               const struct tmk_ncnn_part *part) {
    const uint64_t each = part->count / part->scales;
    float *numbers = tmk_ncnn_numbers(model, part);
    for (uint64_t i = 0; numbers && i < part->scales; i++) {
        float most = 0;
        for (uint64_t k = 0; k < each; k++)
            most = fmaxf(most, fabsf(numbers[i * each + k]));
        numbers[i] = isnormal(127 / most) ? 127 / most : 1; /* row i is read already */
    }
    return numbers;
}
