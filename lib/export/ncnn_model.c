/* SPDX-License-Identifier: Apache-2.0 */
/* ncnn's .param is text: a magic number, two counts, then a line a layer: TYPE NAME INPUTS OUTPUTS
 * blobs... key=value... Its .bin has no index: each layer reads on where the one before stopped, so
 * that it must be known how much each type keeps. Numbers of weights have a tag in front that
 * states in which type they are, others are float32 as they are. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/size.h"
#include "export/ncnn.h"
#include "export/pair.h"

enum { MAGIC = 7767517, MOST_KEYS = 40 };
enum { TAG_FLOAT32 = 0x0002c056, TAG_HALF = 0x01306b47, TAG_INT8 = 0x000d4b38 };

/* What a type keeps: tagged weights, then plain numbers, each a product of keys and a factor. */
struct kept {
    const char *type;
    int tagged;        /* the key of the number of weights; NONE */
    int plain, times;  /* the key of how many plain numbers there are of one kind, and the kinds */
    int only_if;       /* the key of a flag without which there are no plain numbers; NONE */
    int64_t otherwise; /* the flag where the line does not have it */
    bool quantizable;
};
enum { NONE = -1, WEIGHTS_ARE_INPUTS = 19 /* a key */ };

static const struct kept kinds[] = {
    {"Convolution", 6, 0, 1, 5, 0, true},
    {"ConvolutionDepthWise", 6, 0, 1, 5, 0, true},
    {"InnerProduct", 2, 0, 1, 1, 0, true},
    {"Convolution1D", 6, 0, 1, 5, 0, false},
    {"ConvolutionDepthWise1D", 6, 0, 1, 5, 0, false},
    {"Deconvolution", 6, 0, 1, 5, 0, false},
    {"DeconvolutionDepthWise", 6, 0, 1, 5, 0, false},
    {"Embed", 3, 0, 1, 2, 0, false},
    {"BatchNorm", NONE, 0, 4, NONE, 0, false},
    {"Bias", NONE, 0, 1, NONE, 0, false},
    {"PReLU", NONE, 0, 1, NONE, 0, false},
    {"InstanceNorm", NONE, 0, 2, 2, 1, false},
    {"LayerNorm", NONE, 0, 2, 2, 1, false},
    {"GroupNorm", NONE, 1, 2, 3, 1, false},
    {"Normalize", NONE, 3, 1, NONE, 0, false},
};

static const char *const weightless[] = {
    "AbsVal",  "BNLL",         "BinaryOp",    "Cast",       "CELU",           "Clip",
    "Concat",  "CopyTo",       "Crop",        "DeepCopy",   "Dropout",        "ELU",
    "Eltwise", "Erf",          "Exp",         "ExpandDims", "Flatten",        "Fold",
    "GELU",    "GLU",          "HardSigmoid", "HardSwish",  "Input",          "Interp",
    "LRN",     "Log",          "MatMul",      "Mish",       "Noop",           "Padding",
    "Permute", "PixelShuffle", "Pooling",     "Power",      "ReLU",           "Reduction",
    "Reorg",   "Reshape",      "SELU",        "Shrink",     "ShuffleChannel", "Sigmoid",
    "Slice",   "Softmax",      "Softplus",    "Split",      "Squeeze",        "Swish",
    "TanH",    "Threshold",    "Tile",        "UnaryOp",    "Unfold",
};

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

/* ---- how much a layer keeps ---- */

/* Integers that a line gives to keys; others are 0. */
struct keys {
    int64_t value[MOST_KEYS];
    bool given[MOST_KEYS];
};

static void read_keys(char *words, struct keys *out) {
    *out = (struct keys){0};
    for (char *word = next_word(&words); *word; word = next_word(&words)) {
        char *equals = strchr(word, '=');
        int64_t key, value;
        if (!equals)
            continue;
        *equals = '\0';
        if (parse_whole(word, &key) && key >= 0 && key < MOST_KEYS &&
            parse_whole(equals + 1, &value)) {
            out->value[key] = value;
            out->given[key] = true;
        }
    }
}

static bool take_bytes(struct reading *r, size_t bytes) {
    size_t all;
    if (!tmk_add_size(r->used, bytes, &all) || all > tmk_buf_size(r->model->bin))
        return false;
    r->used = all;
    return true;
}

/* Tagged weights; codes of 8 bits and the like are passed over too. */
static bool take_tagged(struct reading *r, uint64_t count, uint32_t *tag) {
    const unsigned char *bytes = tmk_buf_data(r->model->bin);
    size_t at = r->used, size;
    if (!take_bytes(r, sizeof *tag))
        return false;
    memcpy(tag, bytes + at, sizeof *tag);
    bool four = *tag == 0 || *tag == TAG_FLOAT32;
    if (!four && *tag != TAG_HALF && *tag != TAG_INT8)
        return false;
    if (!tmk_mul_size((size_t)count,
                      four               ? 4
                      : *tag == TAG_HALF ? 2
                                         : 1,
                      &size) ||
        !tmk_add_size(size, 3, &size))
        return false;
    return take_bytes(r, size & ~(size_t)3);
}

static bool take_plain(struct reading *r, uint64_t count) {
    size_t size;
    return tmk_mul_size((size_t)count, 4, &size) && take_bytes(r, size);
}

static enum tmk_status fail_missing(const struct reading *r, const struct tmk_ncnn_layer *layer) {
    return tmk_fail(r->diag, TMK_FORMAT,
                    "line %zu: '%s' keeps more than the .bin holds, or it is in a form that is not "
                    "known",
                    r->line, layer->name);
}

static enum tmk_status take_kind(struct reading *r, const struct kept *kind,
                                 const struct keys *keys, struct tmk_ncnn_layer *layer) {
    uint32_t tag = 0;
    int64_t weights = kind->tagged == NONE ? 0 : keys->value[kind->tagged], numbers = 0;
    bool flag = kind->only_if == NONE ||
                (keys->given[kind->only_if] ? keys->value[kind->only_if] : kind->otherwise);
    if (kind->tagged == 6 && keys->value[WEIGHTS_ARE_INPUTS])
        return TMK_OK;
    if (flag && !tmk_mul_i64(keys->value[kind->plain], kind->times, &numbers))
        numbers = -1;
    if (weights < 0 || numbers < 0)
        return fail_line(r, "a number of weights is negative");
    if (kind->tagged != NONE && !take_tagged(r, (uint64_t)weights, &tag))
        return fail_missing(r, layer);
    if (!take_plain(r, (uint64_t)numbers))
        return fail_missing(r, layer);
    layer->weights = (uint64_t)weights;
    layer->bias = (uint64_t)numbers;
    layer->quantizable = kind->quantizable && tag != TAG_INT8 && !keys->given[8];
    if (kind->quantizable && keys->value[8])
        return tmk_fail(r->diag, TMK_UNSUPPORTED, "line %zu: '%s' is in int8 already", r->line,
                        layer->name);
    return TMK_OK;
}

/* A constant: as many numbers as its dimensions have. */
static enum tmk_status take_memory(struct reading *r, const struct keys *keys,
                                   struct tmk_ncnn_layer *layer) {
    static const int dims[] = {0, 1, 11, 2};
    int64_t count = 1;
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        int64_t dim = keys->value[dims[i]];
        if (dim && (dim < 0 || !tmk_mul_i64(count, dim, &count)))
            return fail_line(r, "a dimension is not valid");
    }
    bool tagged = keys->given[21] && keys->value[21] == 0;
    uint32_t tag;
    if (tagged ? !take_tagged(r, (uint64_t)count, &tag) : !take_plain(r, (uint64_t)count))
        return fail_missing(r, layer);
    return TMK_OK;
}

/* Scale keeps nothing where its factors are an input. */
static enum tmk_status take_scale(struct reading *r, const struct keys *keys,
                                  struct tmk_ncnn_layer *layer) {
    enum { FROM_INPUT = -233 };
    int64_t count = keys->value[0];
    if (count == FROM_INPUT)
        return TMK_OK;
    if (count < 0 || count > INT32_MAX ||
        !take_plain(r, (uint64_t)count * (keys->value[1] ? 2 : 1)))
        return fail_missing(r, layer);
    return TMK_OK;
}

static enum tmk_status take_layer(struct reading *r, const struct keys *keys,
                                  struct tmk_ncnn_layer *layer) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].type, layer->type) == 0)
            return take_kind(r, &kinds[i], keys, layer);
    if (strcmp(layer->type, "MemoryData") == 0)
        return take_memory(r, keys, layer);
    if (strcmp(layer->type, "Scale") == 0)
        return take_scale(r, keys, layer);
    for (size_t i = 0; i < sizeof weightless / sizeof *weightless; i++)
        if (strcmp(weightless[i], layer->type) == 0)
            return TMK_OK;
    return tmk_fail(r->diag, TMK_UNSUPPORTED,
                    "line %zu: how much a layer of type '%s' keeps in the .bin is not known here; "
                    "ncnn2int8 with the table of --to ncnn-table knows",
                    r->line, layer->type);
}

/* ---- lines ---- */

static enum tmk_status read_layer(struct reading *r, const char *line, size_t len) {
    struct tmk_ncnn_layer layer = {.line = line, .len = len};
    char *words = tmk_arena_strndup(&r->model->arena, line, len);
    int64_t inputs, outputs;
    struct keys keys;
    if (!words)
        return tmk_nomem(r->diag);
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
    layer.offset = r->used;
    TMK_TRY(take_layer(r, &keys, &layer));
    layer.size = r->used - layer.offset;
    struct tmk_ncnn_model *model = r->model;
    struct tmk_ncnn_layer *grown = tmk_grown(model->layers, model->n, &r->size, sizeof layer);
    if (!grown)
        return tmk_nomem(r->diag);
    model->layers = grown;
    model->layers[model->n++] = layer;
    return TMK_OK;
}

static enum tmk_status read_param(struct reading *r, const struct tmk_buf *file) {
    const char *line = NULL, *words;
    size_t len = 0;
    int64_t magic, counted;
    struct tmk_ncnn_model *model = r->model;
    char *text = tmk_arena_strndup(&model->arena, tmk_buf_data(file), tmk_buf_size(file));
    if (!text)
        return tmk_nomem(r->diag);
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
    if (!counts)
        return tmk_nomem(r->diag);
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

void tmk_ncnn_numbers(const struct tmk_ncnn_model *model, const struct tmk_ncnn_layer *layer,
                      float *weights, float *bias) {
    const unsigned char *at = (const unsigned char *)tmk_buf_data(model->bin) + layer->offset;
    uint32_t tag;
    memcpy(&tag, at, sizeof tag);
    at += sizeof tag;
    if (tag == TAG_HALF) {
        for (uint64_t i = 0; i < layer->weights; i++) {
            uint16_t half;
            memcpy(&half, at + 2 * i, sizeof half);
            weights[i] = tmk_from_half(half);
        }
        at += (2 * layer->weights + 3) & ~(uint64_t)3;
    } else {
        memcpy(weights, at, 4 * layer->weights);
        at += 4 * layer->weights;
    }
    memcpy(bias, at, 4 * layer->bias);
}
