/* SPDX-License-Identifier: Apache-2.0 */
/* ncnn's .param is text: a magic number, two counts, then a line a layer: TYPE NAME INPUTS OUTPUTS
 * blobs... key=value... Its .bin has no index: each layer reads on where the one before stopped
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/size.h"
#include "export/exporter.h"
#include "export/ncnn.h"

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
    TMK_THEN(status, tmk_file_map(bin, &model.bin, diag));
    TMK_THEN(status, tmk_in(diag, read_param(&r, file), "%s", path));
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

/* How much each type of ncnn's layers keeps in the .bin. Numbers of weights have a tag in front
 * that states their type; others are float32 as they are. */

/* Tagged weights, then plain numbers, each by keys of the line. */
struct kind {
    const char *type;
    int tagged;        /* the key of the number of weights; NONE */
    int plain, times;  /* the key of how many plain numbers there are of one kind, and the kinds */
    int only_if;       /* the key of a flag without which there are no plain numbers; NONE */
    int64_t otherwise; /* the flag where the line does not have it */
    enum tmk_ncnn_int8 int8;
    int scales; /* the key of the number of scales of weights in int8; NONE: one */
};
enum { NONE = -1 };
enum { WEIGHTS_ARE_INPUTS = 19, DECONVOLVES_INPUTS = 28, INT8 = 8, INT8_OF_OTHERS = 18 }; /* keys */

static const struct kind kinds[] = {
    {"Convolution", 6, 0, 1, 5, 0, TMK_NCNN_STATIC, 0},
    {"ConvolutionDepthWise", 6, 0, 1, 5, 0, TMK_NCNN_STATIC, 7},
    {"InnerProduct", 2, 0, 1, 1, 0, TMK_NCNN_STATIC, 0},
    {"Embed", 3, 0, 1, 2, 0, TMK_NCNN_DYNAMIC, NONE},
    {"Convolution1D", 6, 0, 1, 5, 0, TMK_NCNN_FLOAT, 0},
    {"ConvolutionDepthWise1D", 6, 0, 1, 5, 0, TMK_NCNN_FLOAT, 0},
    {"Convolution3D", 6, 0, 1, 5, 0, TMK_NCNN_FLOAT, 0},
    {"ConvolutionDepthWise3D", 6, 0, 1, 5, 0, TMK_NCNN_FLOAT, 0},
    {"Deconvolution", 6, 0, 1, 5, 0, TMK_NCNN_FLOAT, 0},
    {"DeconvolutionDepthWise", 6, 0, 1, 5, 0, TMK_NCNN_FLOAT, 0},
    {"Deconvolution1D", 6, 0, 1, 5, 0, TMK_NCNN_FLOAT, 0},
    {"BatchNorm", NONE, 0, 4, NONE, 0, TMK_NCNN_FLOAT, 0},
    {"Bias", NONE, 0, 1, NONE, 0, TMK_NCNN_FLOAT, 0},
    {"PReLU", NONE, 0, 1, NONE, 0, TMK_NCNN_FLOAT, 0},
    {"InstanceNorm", NONE, 0, 2, 2, 1, TMK_NCNN_FLOAT, 0},
    {"LayerNorm", NONE, 0, 2, 2, 1, TMK_NCNN_FLOAT, 0},
    {"RMSNorm", NONE, 0, 1, 2, 1, TMK_NCNN_FLOAT, 0},
    {"GroupNorm", NONE, 1, 2, 3, 1, TMK_NCNN_FLOAT, 0},
    {"Normalize", NONE, 3, 1, NONE, 0, TMK_NCNN_FLOAT, 0},
    {"Padding", NONE, 6, 1, NONE, 0, TMK_NCNN_FLOAT, 0},
};

static const char *const weightless[] = {
    "AbsVal",  "ArgMax",      "BNLL",         "BinaryOp",  "CELU",          "Cast",
    "Clip",    "Concat",      "CopyTo",       "Crop",      "CumulativeSum", "DeepCopy",
    "Diag",    "Dropout",     "ELU",          "Einsum",    "Eltwise",       "Erf",
    "Exp",     "ExpandDims",  "Flatten",      "Flip",      "Fold",          "GELU",
    "GLU",     "GridSample",  "HardSigmoid",  "HardSwish", "Input",         "Interp",
    "LRN",     "Log",         "MVN",          "MatMul",    "Mish",          "Noop",
    "Packing", "Permute",     "PixelShuffle", "Pooling",   "Pooling1D",     "Pooling3D",
    "Power",   "ROIAlign",    "ROIPooling",   "ReLU",      "Reduction",     "Reorg",
    "Reshape", "RotaryEmbed", "SDPA",         "SELU",      "Shrink",        "ShuffleChannel",
    "Sigmoid", "Slice",       "Softmax",      "Softplus",  "Split",         "Squeeze",
    "Swish",   "TanH",        "Threshold",    "Tile",      "UnaryOp",       "Unfold",
};

struct keeping {
    const unsigned char *bytes;
    size_t at, all;
    const struct tmk_ncnn_keys *keys;
    struct tmk_ncnn_layer *layer;
    struct tmk_diag *diag;
};

/* A product of numbers that are not negative; -1 where there is none. */
static int64_t times(int64_t a, int64_t b) {
    int64_t product;
    return a >= 0 && b >= 0 && tmk_mul_i64(a, b, &product) ? product : -1;
}

static enum tmk_status fail_missing(const struct keeping *k) {
    return tmk_fail(k->diag, TMK_FORMAT,
                    "'%s' keeps more than the .bin holds, or it is in a form that is not known",
                    k->layer->name);
}

static bool read_tag(const struct keeping *k, struct tmk_ncnn_part *part, size_t *width) {
    if (k->all - k->at < sizeof part->tag)
        return false;
    memcpy(&part->tag, k->bytes + k->at, sizeof part->tag);
    *width = part->tag == TMK_NCNN_HALF ? 2 : part->tag == TMK_NCNN_CODES ? 1 : 4;
    return *width < 4 || part->tag == 0 || part->tag == TMK_NCNN_FLOAT32;
}

static enum tmk_status keep(struct keeping *k, int64_t count, int64_t scales, bool tagged) {
    struct tmk_ncnn_part part = {.offset = k->at, .tagged = tagged};
    size_t width = 4, size;
    if (count < 0)
        return tmk_fail(k->diag, TMK_FORMAT, "a number of weights is not valid");
    if (tagged && !read_tag(k, &part, &width))
        return fail_missing(k);
    if (!tmk_mul_size((size_t)count, width, &size) || size > SIZE_MAX - 8)
        return fail_missing(k);
    size = ((size + 3) & ~(size_t)3) + (tagged ? sizeof part.tag : 0);
    if (size > k->all - k->at)
        return fail_missing(k);
    part.count = (uint64_t)count;
    part.scales = scales > 0 && count && count % scales == 0 && part.tag != TMK_NCNN_CODES
                      ? (uint64_t)scales
                      : 0;
    part.size = size;
    k->at += size;
    k->layer->parts[k->layer->n_parts++] = part;
    return TMK_OK;
}

/* Where one has none, none of them has scales. */
static void set_int8(struct keeping *k, enum tmk_ncnn_int8 int8, size_t parts) {
    size_t n = 0;
    for (size_t i = 0; i < k->layer->n_parts; i++)
        n += k->layer->parts[i].scales > 0;
    k->layer->int8 = n == parts ? int8 : TMK_NCNN_FLOAT;
}

static enum tmk_status refuse_int8(const struct keeping *k, int key) {
    return k->keys->value[key]
               ? tmk_fail(k->diag, TMK_UNSUPPORTED, "'%s' is in int8 already", k->layer->name)
               : TMK_OK;
}

static enum tmk_status keep_kind(struct keeping *k, const struct kind *kind) {
    const struct tmk_ncnn_keys *keys = k->keys;
    int64_t numbers =
        kind->only_if == NONE ||
                (keys->given[kind->only_if] ? keys->value[kind->only_if] : kind->otherwise)
            ? times(keys->value[kind->plain], kind->times)
            : 0;
    if (kind->tagged == 6 &&
        (keys->value[WEIGHTS_ARE_INPUTS] ||
         (strncmp(kind->type, "De", 2) == 0 && keys->value[DECONVOLVES_INPUTS])))
        return TMK_OK;
    if (kind->int8)
        TMK_TRY(refuse_int8(k, kind->int8 == TMK_NCNN_STATIC ? INT8 : INT8_OF_OTHERS));
    if (kind->tagged != NONE)
        TMK_TRY(keep(k, keys->value[kind->tagged],
                     !kind->int8            ? 0
                     : kind->scales == NONE ? 1
                                            : keys->value[kind->scales],
                     true));
    TMK_TRY(keep(k, numbers, 0, false));
    set_int8(k, kind->int8, 1);
    return TMK_OK;
}

/* A constant: as many numbers as its dimensions have. */
static enum tmk_status keep_memory(struct keeping *k) {
    static const int dims[] = {0, 1, 11, 2};
    const struct tmk_ncnn_keys *keys = k->keys;
    int64_t count = 1;
    bool any = false;
    for (size_t i = 0; i < TMK_COUNT(dims); i++) {
        const int64_t dim = keys->value[dims[i]];
        any = any || dim;
        count = dim ? times(count, dim) : count;
    }
    return any ? keep(k, count, 0, keys->given[21] && keys->value[21] == 0) : TMK_OK;
}

/* Scale keeps nothing where its factors are an input. */
static enum tmk_status keep_scale(struct keeping *k) {
    enum { FROM_INPUT = -233 };
    if (k->keys->value[0] == FROM_INPUT)
        return TMK_OK;
    return keep(k, times(k->keys->value[0], k->keys->value[1] ? 2 : 1), 0, false);
}

/* Weights of the input, biases, weights of the hidden state, and of its projection where it has
 * another size. A row of weights has one scale. */
static enum tmk_status keep_cell(struct keeping *k, int gates, int biases) {
    const struct tmk_ncnn_keys *keys = k->keys;
    const int64_t out = keys->value[0], directions = keys->value[2] == 2 ? 2 : 1;
    const int64_t hidden = gates == 4 && keys->given[3] ? keys->value[3] : out;
    const int64_t rows = times(times(gates, hidden), directions);
    if (!keys->value[1]) /* the weights are inputs */
        return TMK_OK;
    TMK_TRY(refuse_int8(k, INT8));
    TMK_TRY(keep(k, keys->value[1], rows, true));
    TMK_TRY(keep(k, times(times(biases, hidden), directions), 0, true));
    TMK_TRY(keep(k, times(rows, out), rows, true));
    if (hidden != out)
        TMK_TRY(keep(k, times(times(hidden, out), directions), 0, true));
    set_int8(k, TMK_NCNN_DYNAMIC, 2);
    return TMK_OK;
}

static enum tmk_status keep_rnn(struct keeping *k) {
    return keep_cell(k, 1, 1);
}

static enum tmk_status keep_lstm(struct keeping *k) {
    return keep_cell(k, 4, 4);
}

static enum tmk_status keep_gru(struct keeping *k) {
    return keep_cell(k, 3, 4);
}

/* Weights and biases of query, key, value and result. */
static enum tmk_status keep_attention(struct keeping *k) {
    const struct tmk_ncnn_keys *keys = k->keys;
    const int64_t width = keys->value[0], all = keys->value[2];
    const int64_t query = width > 0 && all >= 0 ? all / width : -1;
    const int64_t into[] = {query, keys->given[3] ? keys->value[3] : width,
                            keys->given[4] ? keys->value[4] : width};
    TMK_TRY(refuse_int8(k, INT8_OF_OTHERS));
    for (size_t i = 0; i < 3; i++) {
        TMK_TRY(keep(k, times(width, into[i]), width, true));
        TMK_TRY(keep(k, width, 0, false));
    }
    TMK_TRY(keep(k, times(query, width), 1, true));
    TMK_TRY(keep(k, query, 0, false));
    set_int8(k, TMK_NCNN_DYNAMIC, 4);
    return TMK_OK;
}

/* Those of its operands that are constant. In int8 weights have one scale, and lie by outputs. */
static enum tmk_status keep_gemm(struct keeping *k) {
    const int64_t *value = k->keys->value, m = value[7], n = value[8];
    const int64_t added[] = {1, m, m, times(m, n), n};
    TMK_TRY(refuse_int8(k, INT8_OF_OTHERS));
    if (value[4] == 1)
        TMK_TRY(keep(k, times(m, value[9]), 0, true));
    if (value[5] == 1)
        TMK_TRY(keep(k, times(n, value[9]), value[3] == 1 && value[4] != 1, true));
    if (value[6] == 1 && value[10] != -1)
        TMK_TRY(keep(k, value[10] >= 0 && value[10] < 5 ? added[value[10]] : -1, 0, true));
    set_int8(k, TMK_NCNN_DYNAMIC, 1);
    return TMK_OK;
}

static const struct {
    const char *type;
    enum tmk_status (*keep)(struct keeping *k);
} others[] = {
    {"MemoryData", keep_memory}, {"Scale", keep_scale}, {"RNN", keep_rnn},
    {"LSTM", keep_lstm},         {"GRU", keep_gru},     {"MultiHeadAttention", keep_attention},
    {"Gemm", keep_gemm},
};

enum tmk_status tmk_ncnn_keep(const struct tmk_buf *bin, size_t at,
                              const struct tmk_ncnn_keys *keys, struct tmk_ncnn_layer *layer,
                              struct tmk_diag *diag) {
    struct keeping k = {tmk_buf_data(bin), at, tmk_buf_size(bin), keys, layer, diag};
    for (size_t i = 0; i < TMK_COUNT(kinds); i++)
        if (strcmp(kinds[i].type, layer->type) == 0)
            return keep_kind(&k, &kinds[i]);
    for (size_t i = 0; i < TMK_COUNT(others); i++)
        if (strcmp(others[i].type, layer->type) == 0)
            return others[i].keep(&k);
    for (size_t i = 0; i < TMK_COUNT(weightless); i++)
        if (strcmp(weightless[i], layer->type) == 0)
            return TMK_OK;
    return tmk_fail(diag, TMK_UNSUPPORTED,
                    "how much a layer of type '%s' keeps in the .bin is not known; "
                    "ncnn-table without --template asks for no .bin",
                    layer->type);
}
