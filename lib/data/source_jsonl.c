/* SPDX-License-Identifier: Apache-2.0 */
/* Prompts in a .jsonl file: each line is a sample, as an array of token ids, or as an object of
 * nested arrays by the names of inputs. Lines may differ in length.
 *
 * What a line does not state follows from its tokens: masks are ones, positions count from 0, types
 * of tokens are 0, lengths are theirs, and caches are empty and states of recurrences zeros, as
 * where decoding begins. */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/json.h"
#include "base/memory.h"
#include "data/kind.h"
#include "data/role.h"
#include "tensor/elements.h"
#include "tensor/shape.h"

struct line {
    const char *text;
    size_t len;
    size_t number; /* in the file, from 1 */
};

struct field {
    struct tmk_source_input want; /* its name is in the arena */
    enum tmk_role role;
};

struct jsonl {
    struct tmk_buf *bytes;
    struct line *lines;
    size_t n, size;
    struct field *fields; /* by array */
    bool use_cache;       /* an input says whether caches hold anything */
    cJSON *parsed;        /* of the line that was read last */
    size_t parsed_line;   /* one behind its index; 0: none */
};

static bool claims_jsonl(const struct tmk_source_probe *probe) {
    return !probe->inside && !probe->folder && !probe->stream &&
           tmk_source_ends_in(probe->path, ".jsonl");
}

static enum tmk_status find_lines(struct jsonl *jsonl, struct tmk_diag *diag) {
    const char *at = tmk_buf_data(jsonl->bytes), *end = at + tmk_buf_size(jsonl->bytes);
    for (size_t number = 1; at < end; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        size_t blank = 0, len = (size_t)(stop - at);
        while (blank < len && strchr(" \t\r", at[blank]) && at[blank])
            blank++;
        if (blank < len) {
            TMK_TRY_ALLOC(TMK_GROW(jsonl->lines, jsonl->n, jsonl->size), diag);
            jsonl->lines[jsonl->n++] = (struct line){at, len, number};
        }
        at = stop + (stop < end);
    }
    if (!jsonl->n)
        return tmk_fail(diag, TMK_FORMAT,
                        "holds no line; a line is an array of token ids, or an "
                        "object with an array for each input");
    return TMK_OK;
}

static enum tmk_status open_jsonl(struct tmk_source *source,
                                  const struct tmk_source_options *options, struct tmk_diag *diag) {
    (void)options;
    struct jsonl *jsonl = source->own;
    source->info.binds = source->info.prompts = true;
    TMK_TRY(tmk_file_map(source->file, &jsonl->bytes, diag));
    return tmk_in(diag, find_lines(jsonl, diag), "%s", source->info.path);
}

/* The line's tree, which stays until another is wanted. */
static enum tmk_status parse_line(struct jsonl *jsonl, size_t i, struct tmk_diag *diag) {
    locale_t saved[2];
    if (jsonl->parsed_line == i + 1)
        return TMK_OK;
    cJSON_Delete(jsonl->parsed);
    jsonl->parsed = NULL;
    jsonl->parsed_line = 0;
    TMK_TRY(tmk_locale_begin(saved, diag));
    enum tmk_status status =
        tmk_json_parse(jsonl->lines[i].text, jsonl->lines[i].len, &jsonl->parsed, diag);
    tmk_locale_end(saved);
    if (status == TMK_OK && !cJSON_IsArray(jsonl->parsed) && !cJSON_IsObject(jsonl->parsed))
        status = tmk_fail(diag, TMK_FORMAT, "is neither an array of token ids nor an object");
    if (status == TMK_OK)
        jsonl->parsed_line = i + 1;
    return status;
}

/* ---- inputs ---- */

static enum tmk_status bind_jsonl(struct tmk_source *source, const struct tmk_source_input *wants,
                                  uint32_t n, struct tmk_diag *diag) {
    struct jsonl *jsonl = source->own;
    struct tmk_source_array *arrays = tmk_arena_array(&source->arena, n, sizeof *arrays);
    jsonl->fields = tmk_arena_array(&source->arena, n, sizeof *jsonl->fields);
    TMK_TRY_ALLOC(arrays && jsonl->fields, diag);
    for (uint32_t i = 0; i < n; i++) {
        struct field *field = &jsonl->fields[i];
        *field = (struct field){wants[i], tmk_role_of(&wants[i], n == 1)};
        field->want.input = tmk_arena_strdup(&source->arena, wants[i].input);
        jsonl->use_cache |= field->role == TMK_ROLE_USES_CACHE;
        arrays[i] = (struct tmk_source_array){.name = "", .whole = true, .n_entries = jsonl->n};
        TMK_TRY_ALLOC(field->want.input, diag);
    }
    source->info.arrays = arrays;
    source->info.n_arrays = n;
    return TMK_OK;
}

/* ---- tensors ---- */

/* The shape of nested arrays, by their first elements. */
static enum tmk_status measure_nested(const cJSON *item, struct tmk_shape *out,
                                      struct tmk_diag *diag) {
    *out = (struct tmk_shape){0};
    for (; cJSON_IsArray(item); item = item->child) {
        if (out->rank == TMK_MAX_RANK)
            return tmk_fail(diag, TMK_FORMAT, "nested deeper than %d", TMK_MAX_RANK);
        out->dim[out->rank++] = cJSON_GetArraySize(item);
        if (!item->child)
            break;
    }
    return TMK_OK;
}

static enum tmk_status fill_nested(const cJSON *item, struct tmk_tensor *tensor, int32_t axis,
                                   size_t *at, struct tmk_diag *diag) {
    if (axis == tensor->shape.rank) {
        if (cJSON_IsBool(item))
            return tmk_number_put(tensor, (*at)++, cJSON_IsTrue(item), diag);
        if (!cJSON_IsNumber(item))
            return tmk_fail(diag, TMK_FORMAT, "holds something that is no number");
        return tmk_number_put(tensor, (*at)++, item->valuedouble, diag);
    }
    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) != tensor->shape.dim[axis])
        return tmk_fail(diag, TMK_FORMAT, "arrays of one level differ in length");
    for (const cJSON *inner = item->child; inner; inner = inner->next)
        TMK_TRY(fill_nested(inner, tensor, axis + 1, at, diag));
    return TMK_OK;
}

/* One sample of a batch of one where the input has one axis more. */
static enum tmk_status make_nested(const cJSON *item, const struct tmk_source_input *want,
                                   struct tmk_tensor *out, struct tmk_diag *diag) {
    struct tmk_shape shape;
    size_t at = 0;
    TMK_TRY(measure_nested(item, &shape, diag));
    TMK_TRY(tmk_tensor_init(out, want->dtype, &shape, diag));
    TMK_TRY(fill_nested(item, out, 0, &at, diag));
    if (want->has_shape && want->shape.rank == shape.rank + 1)
        tmk_shape_insert(&out->shape, 0, 1);
    return TMK_OK;
}

/* [1, tokens], [tokens], or, of positions that have several coordinates, [coordinates, 1, tokens].
 */
static enum tmk_status make_row(const struct field *field, size_t tokens, struct tmk_tensor *out,
                                struct tmk_diag *diag) {
    const struct tmk_shape *want = &field->want.shape;
    const bool flat = field->want.has_shape && want->rank == 1,
               deep = field->want.has_shape && want->rank == 3 && want->dim[0] > 0;
    const bool positions = field->role == TMK_ROLE_POSITIONS;
    struct tmk_shape shape = {flat ? 1 : 2, {flat ? (int64_t)tokens : 1, (int64_t)tokens}};
    if (deep && positions)
        shape = (struct tmk_shape){3, {want->dim[0], 1, (int64_t)tokens}};
    TMK_TRY(tmk_tensor_init(out, field->want.dtype, &shape, diag));
    const size_t count = tmk_tensor_count(out);
    for (size_t i = 0; field->role != TMK_ROLE_TYPES && i < count; i++)
        TMK_TRY(tmk_number_put(out, i, positions ? (double)(i % tokens) : 1, diag));
    return TMK_OK;
}

/* Free sizes are 1 for the first axis, and 0 for the others. Without `use_cache`, which turns
 * caches off, keys of an encoder are needed. */
static enum tmk_status make_empty(const struct tmk_source_input *want, bool use_cache,
                                  struct tmk_tensor *out, struct tmk_diag *diag) {
    struct tmk_shape shape = want->shape;
    bool empty = false;
    for (int32_t i = 0; i < shape.rank; i++) {
        if (shape.dim[i] < 0)
            shape.dim[i] = i == 0;
        empty |= shape.dim[i] == 0;
    }
    if (empty && !use_cache && tmk_role_is_of_encoder(want->input))
        return tmk_fail(diag, TMK_SHAPE, "an encoder makes '%s'; give it data of its own",
                        want->input);
    if (!empty && !tmk_role_starts_as_zeros(want->input))
        return tmk_fail(diag, TMK_SHAPE,
                        "the cache '%s' has no free size that could be 0; give it data of its own",
                        want->input);
    return tmk_tensor_init(out, want->dtype, &shape, diag);
}

static enum tmk_status make_false(const struct tmk_source_input *want, struct tmk_tensor *out,
                                  struct tmk_diag *diag) {
    struct tmk_shape shape = want->has_shape ? want->shape : (struct tmk_shape){1, {1}};
    for (int32_t i = 0; i < shape.rank; i++)
        shape.dim[i] = shape.dim[i] < 0 ? 1 : shape.dim[i];
    return tmk_tensor_init(out, want->dtype, &shape, diag);
}

/* A number, or one of one sample. */
static enum tmk_status make_length(const struct field *field, size_t tokens, struct tmk_tensor *out,
                                   struct tmk_diag *diag) {
    const struct tmk_shape shape = {!field->want.has_shape || field->want.shape.rank > 0, {1}};
    const bool less =
        strstr(field->want.input, "seqlens_k") != NULL && tokens; /* as its operator */
    const double length = field->role == TMK_ROLE_BEFORE ? 0 : (double)(tokens - less);
    TMK_TRY(tmk_tensor_init(out, field->want.dtype, &shape, diag));
    return tmk_number_put(out, 0, length, diag);
}

/* How many tokens a row of IDs has, or of their embeddings; with the batch's axis of 1 or without.
 */
static size_t count_tokens(const cJSON *item, enum tmk_role role) {
    struct tmk_shape shape;
    if (measure_nested(item, &shape, NULL) != TMK_OK)
        return 0;
    const int32_t axis = shape.rank - (role == TMK_ROLE_EMBEDDINGS ? 2 : 1);
    return axis < 0 ? 0 : (size_t)shape.dim[axis];
}

/* False: the line names none. */
static bool find_tokens(const struct jsonl *jsonl, uint32_t n, size_t *count) {
    if (cJSON_IsArray(jsonl->parsed)) {
        *count = count_tokens(jsonl->parsed, TMK_ROLE_TOKENS);
        return true;
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct field *field = &jsonl->fields[i];
        const cJSON *item = field->role == TMK_ROLE_TOKENS || field->role == TMK_ROLE_EMBEDDINGS
                                ? tmk_json_member(jsonl->parsed, field->want.input)
                                : NULL;
        if (item) {
            *count = count_tokens(item, field->role);
            return true;
        }
    }
    return false;
}

static enum tmk_status make_tensor(const struct jsonl *jsonl, uint32_t n, uint32_t array,
                                   struct tmk_tensor *out, struct tmk_diag *diag) {
    const struct field *field = &jsonl->fields[array];
    size_t tokens = 0;
    const cJSON *own = cJSON_IsArray(jsonl->parsed)
                           ? (field->role == TMK_ROLE_TOKENS ? jsonl->parsed : NULL)
                           : tmk_json_member(jsonl->parsed, field->want.input);
    if (field->role == TMK_ROLE_TOKENS && cJSON_IsArray(own) && !own->child)
        return tmk_fail(diag, TMK_FORMAT, "holds no token");
    if (own)
        return make_nested(own, &field->want, out, diag);
    if (field->role == TMK_ROLE_CACHE && field->want.has_shape)
        return make_empty(&field->want, jsonl->use_cache, out, diag);
    if (field->role == TMK_ROLE_USES_CACHE)
        return make_false(&field->want, out, diag);
    if (!find_tokens(jsonl, n, &tokens) || field->role == TMK_ROLE_NONE ||
        field->role == TMK_ROLE_TOKENS || field->role == TMK_ROLE_EMBEDDINGS ||
        field->role == TMK_ROLE_CACHE || tmk_role_is_of_encoder(field->want.input))
        return tmk_fail(diag, TMK_FORMAT, "has nothing for the input '%s'", field->want.input);
    if (field->role == TMK_ROLE_LENGTH || field->role == TMK_ROLE_BEFORE)
        return make_length(field, tokens, out, diag);
    return make_row(field, tokens, out, diag);
}

static enum tmk_status read_jsonl(struct tmk_source *source, uint32_t array, uint64_t first,
                                  uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag) {
    struct jsonl *jsonl = source->own;
    struct tmk_tensor made = {0};
    (void)count;
    enum tmk_status status = parse_line(jsonl, (size_t)first, diag);
    TMK_THEN(status, make_tensor(jsonl, source->info.n_arrays, array, &made, diag));
    if (status == TMK_OK)
        *out = made;
    else
        tmk_tensor_finish(&made);
    return tmk_in(diag, status, "%s: line %zu", source->info.path, jsonl->lines[first].number);
}

static void close_jsonl(struct tmk_source *source) {
    struct jsonl *jsonl = source->own;
    cJSON_Delete(jsonl->parsed);
    free(jsonl->lines);
    tmk_buf_unref(&jsonl->bytes);
}

const struct tmk_source_kind tmk_source_jsonl = {
    .name = "jsonl",
    .takes = "FILE.jsonl (a line a sample: token ids, or arrays by the inputs' names)",
    .own_size = sizeof(struct jsonl),
    .claims = claims_jsonl,
    .open = open_jsonl,
    .bind = bind_jsonl,
    .read = read_jsonl,
    .close = close_jsonl,
};
