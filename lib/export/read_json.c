/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges in JSON: ONNX Runtime's calibration cache, AIMET's encodings (0.6.1, 1.0.0, 2.0.0),
 * LiteRT's calibration result, Quark's tensors_range. */
#include <math.h>
#include <string.h>

#include "base/diag.h"
#include "base/json.h"
#include "base/memory.h"
#include "export/reader.h"
#include "tensor/elements.h"

/* A JSON object in which the word, in quotes, stands. */
static bool has_key(const struct tmk_ranges_file *file, const char *word) {
    const char *text = file->text;
    size_t len = file->len;
    while (len && strchr(" \t\r\n", *text))
        text++, len--;
    return len && *text == '{' && tmk_text_has_word(text, len, word);
}

/* ---- items ---- */

/* A number, a list of one, or NumPy's in ONNX Runtime's spelling. */
static bool number_of(const cJSON *item, double *out) {
    if (cJSON_IsObject(item))
        item = tmk_json_member(item, "data");
    if (cJSON_IsArray(item))
        item = cJSON_GetArraySize(item) == 1 ? item->child : NULL;
    if (!item || !cJSON_IsNumber(item))
        return false;
    *out = item->valuedouble;
    return isfinite(*out);
}

static enum tmk_status fail_value(struct tmk_diag *diag, const char *name, const char *wanted) {
    return tmk_fail(diag, TMK_FORMAT, "'%s': %s", name, wanted);
}

/* The members `low` and `high` of an object; NULL: of a list of two. */
static bool range_of(const cJSON *item, const char *const keys[2], double *low, double *high) {
    if (keys)
        return cJSON_IsObject(item) && number_of(tmk_json_member(item, keys[0]), low) &&
               number_of(tmk_json_member(item, keys[1]), high);
    return cJSON_IsArray(item) && cJSON_GetArraySize(item) == 2 && number_of(item->child, low) &&
           number_of(item->child->next, high);
}

/* An object of objects or lists, each of which has an exact range. */
static enum tmk_status read_ranges(const cJSON *items, const char *const keys[2],
                                   const char *wanted, struct tmk_ranges *out,
                                   struct tmk_diag *diag) {
    if (!cJSON_IsObject(items))
        return tmk_fail(diag, TMK_FORMAT, "the ranges are no object");
    for (const cJSON *item = items->child; item; item = item->next) {
        double low, high;
        if (!range_of(item, keys, &low, &high))
            return fail_value(diag, item->string, wanted);
        TMK_TRY(tmk_ranges_add_one(out, item->string, TMK_RANGE_EXACT, low, high, diag));
    }
    return TMK_OK;
}

static enum tmk_status read_member(const struct tmk_ranges_file *file, const char *key,
                                   const char *const keys[2], const char *wanted,
                                   struct tmk_ranges *out, struct tmk_diag *diag) {
    cJSON *root = NULL;
    size_t held = 0;
    const cJSON *items;
    TMK_TRY(tmk_json_parse_object(file->text, file->len, &root, &held, diag));
    enum tmk_status status = tmk_json_object(root, key, &items, diag);
    TMK_THEN(status, read_ranges(items, keys, wanted, out, diag));
    cJSON_Delete(root);
    tmk_memory_uncharge(held);
    return status;
}

/* ---- ONNX Runtime ---- */

static bool is_ort(const struct tmk_ranges_file *file) {
    return has_key(file, "\"TensorsData\"") ||
           (has_key(file, "\"lowest\"") && has_key(file, "\"highest\""));
}

static enum tmk_status read_ort(const struct tmk_ranges_file *file, struct tmk_ranges *out,
                                struct tmk_diag *diag) {
    static const char *const keys[] = {"lowest", "highest"};
    return read_member(file, "data", keys, "wants numbers 'lowest' and 'highest'", out, diag);
}

const struct tmk_ranges_reader tmk_reader_ort = {
    .name = "ort-cache",
    .help = "ONNX Runtime's calibration cache (JSON)",
    .unnamed = "stops quantize_static with a KeyError, if it is to be quantized",
    .unknown = "is passed over",
    .is = is_ort,
    .read = read_ort,
};

/* ---- LiteRT, Quark ---- */

static bool is_litert(const struct tmk_ranges_file *file) {
    return has_key(file, "\"model_qsvs\"");
}

static enum tmk_status read_litert(const struct tmk_ranges_file *file, struct tmk_ranges *out,
                                   struct tmk_diag *diag) {
    static const char *const keys[] = {"min", "max"};
    return read_member(file, "model_qsvs", keys, "wants 'min' and 'max', of one number", out, diag);
}

const struct tmk_ranges_reader tmk_reader_litert = {
    .name = "litert",
    .help = "LiteRT AI Edge Quantizer's calibration result (JSON)",
    .unnamed = "stops the quantizer with a ValueError",
    .unknown = "is passed over",
    .is = is_litert,
    .read = read_litert,
};

static bool is_quark(const struct tmk_ranges_file *file) {
    return has_key(file, "\"tensors_range\"");
}

static enum tmk_status read_quark(const struct tmk_ranges_file *file, struct tmk_ranges *out,
                                  struct tmk_diag *diag) {
    return read_member(file, "tensors_range", NULL, "wants a list of two numbers", out, diag);
}

const struct tmk_ranges_reader tmk_reader_quark = {
    .name = "quark",
    .help = "AMD Quark's SaveAndRestore file (JSON)",
    .unnamed = "is calibrated from data",
    .unknown = "is passed over",
    .is = is_quark,
    .read = read_quark,
};

/* ---- AIMET ---- */

static bool is_aimet(const struct tmk_ranges_file *file) {
    return has_key(file, "\"version\"") &&
           (has_key(file, "\"activation_encodings\"") || has_key(file, "\"encodings\""));
}

/* A grid of codes [0, 2^bits - 1] shifted by `offset`. */
static enum tmk_status put_grid(struct tmk_range *range, uint32_t c, double scale, double offset,
                                double bits, struct tmk_diag *diag) {
    if (!(scale > 0) || !(bits >= 1 && bits <= 32))
        return fail_value(diag, range->name, "wants a scale above 0 and 1 to 32 bits");
    return tmk_range_set(range, c, scale * offset, scale * (exp2(bits) - 1 + offset), scale, diag);
}

static enum tmk_status add_range(struct tmk_ranges *out, const char *name, int n,
                                 struct tmk_range **range, struct tmk_diag *diag) {
    if (n < 1)
        return fail_value(diag, name, "has no encoding");
    TMK_TRY(tmk_ranges_add(out, name, strlen(name), (uint32_t)n, range, diag));
    (*range)->meaning = TMK_RANGE_STEP;
    return TMK_OK;
}

static bool is_float(const cJSON *encoding) {
    const cJSON *dtype = tmk_json_member(encoding, "dtype");
    return cJSON_IsString(dtype) && strncmp(dtype->valuestring, "float", 5) == 0;
}

/* 0.6.1: {"name": [{bitwidth, scale, offset, ...}, ...]} */
static enum tmk_status read_06(const cJSON *tensors, struct tmk_ranges *out,
                               struct tmk_diag *diag) {
    for (const cJSON *item = tensors->child; item; item = item->next) {
        struct tmk_range *range;
        if (!cJSON_IsArray(item))
            return fail_value(diag, item->string, "wants a list of encodings");
        if (is_float(item->child))
            continue;
        TMK_TRY(add_range(out, item->string, cJSON_GetArraySize(item), &range, diag));
        uint32_t c = 0;
        for (const cJSON *e = item->child; e; e = e->next) {
            double scale, offset, bits;
            if (!cJSON_IsObject(e) || !number_of(tmk_json_member(e, "scale"), &scale) ||
                !number_of(tmk_json_member(e, "offset"), &offset) ||
                !number_of(tmk_json_member(e, "bitwidth"), &bits))
                return fail_value(diag, item->string,
                                  "wants numbers 'bitwidth', 'scale' and 'offset'");
            TMK_TRY(put_grid(range, c++, scale, offset, bits, diag));
        }
    }
    return TMK_OK;
}

/* 1.0.0: [{name, bw, scale: [...], offset: [...]}, ...] */
static enum tmk_status read_10(const cJSON *tensors, struct tmk_ranges *out,
                               struct tmk_diag *diag) {
    for (const cJSON *e = tensors->child; e; e = e->next) {
        const char *name;
        const cJSON *scales, *offsets;
        const cJSON *dtype = tmk_json_member(e, "dtype");
        struct tmk_range *range;
        double bits;
        TMK_TRY(tmk_json_text(e, "name", &name, diag));
        if (cJSON_IsString(dtype) && strcmp(dtype->valuestring, "FLOAT") == 0)
            continue;
        TMK_TRY(tmk_in(diag, tmk_json_array(e, "scale", &scales, diag), "'%s'", name));
        TMK_TRY(tmk_in(diag, tmk_json_array(e, "offset", &offsets, diag), "'%s'", name));
        const int n = cJSON_GetArraySize(scales);
        if (!number_of(tmk_json_member(e, "bw"), &bits) || cJSON_GetArraySize(offsets) != n)
            return fail_value(diag, name, "wants a number 'bw', and as many offsets as scales");
        TMK_TRY(add_range(out, name, n, &range, diag));
        const cJSON *offset = offsets->child;
        uint32_t c = 0;
        for (const cJSON *s = scales->child; s; s = s->next, offset = offset->next) {
            double scale, shift;
            if (!number_of(s, &scale) || !number_of(offset, &shift))
                return fail_value(diag, name, "scales and offsets are numbers");
            TMK_TRY(put_grid(range, c++, scale, shift, bits, diag));
        }
    }
    return TMK_OK;
}

static bool codes_of(const char *name, double *lowest, double *bits) {
    const enum tmk_dtype dtype = tmk_dtype_by_name(name);
    if (!tmk_dtype_is_integer(dtype) || tmk_dtype_bits(dtype) > 32)
        return false;
    *bits = tmk_dtype_bits(dtype);
    *lowest = tmk_dtype_is_signed(dtype) ? -exp2(*bits - 1) : 0;
    return true;
}

static const cJSON *first_of(const cJSON *item) {
    return cJSON_IsArray(item) ? item->child : item;
}

/* 2.0.0: [{name, output_dtype, y_scale, y_zero_point, axis}, ...], in ONNX's terms */
static enum tmk_status read_20(const cJSON *tensors, struct tmk_ranges *out,
                               struct tmk_diag *diag) {
    for (const cJSON *e = tensors->child; e; e = e->next) {
        const char *name, *dtype;
        const cJSON *scales = tmk_json_member(e, "y_scale");
        const cJSON *zeros = tmk_json_member(e, "y_zero_point");
        struct tmk_range *range;
        double lowest, bits;
        TMK_TRY(tmk_json_text(e, "name", &name, diag));
        TMK_TRY(tmk_in(diag, tmk_json_text(e, "output_dtype", &dtype, diag), "'%s'", name));
        if (!codes_of(dtype, &lowest, &bits))
            continue;
        const int n = cJSON_IsArray(scales) ? cJSON_GetArraySize(scales) : 1;
        TMK_TRY(add_range(out, name, n, &range, diag));
        const cJSON *s = first_of(scales), *z = first_of(zeros);
        for (int c = 0; c < n; c++) {
            double scale, zero = 0;
            if (!number_of(s, &scale) || (z && !number_of(z, &zero)))
                return fail_value(diag, name, "wants numbers 'y_scale' and 'y_zero_point'");
            TMK_TRY(put_grid(range, (uint32_t)c, scale, lowest - zero, bits, diag));
            s = s->next;
            z = z && cJSON_IsArray(zeros) ? z->next : z;
        }
    }
    return TMK_OK;
}

static enum tmk_status read_sections(const cJSON *root, struct tmk_ranges *out,
                                     struct tmk_diag *diag) {
    static const char *const sections[] = {"activation_encodings", "param_encodings", "encodings"};
    bool any = false;
    for (int i = 0; i < 3; i++) {
        const cJSON *tensors = tmk_json_member(root, sections[i]);
        if (!tensors)
            continue;
        any = true;
        if (cJSON_IsObject(tensors) && i < 2)
            TMK_TRY(read_06(tensors, out, diag));
        else if (cJSON_IsArray(tensors))
            TMK_TRY((i < 2 ? read_10 : read_20)(tensors, out, diag));
        else
            return tmk_fail(diag, TMK_FORMAT, "'%s' is neither a list nor an object", sections[i]);
    }
    return any ? TMK_OK : tmk_fail(diag, TMK_FORMAT, "it has no encodings");
}

static enum tmk_status read_aimet(const struct tmk_ranges_file *file, struct tmk_ranges *out,
                                  struct tmk_diag *diag) {
    cJSON *root = NULL;
    size_t held = 0;
    TMK_TRY(tmk_json_parse_object(file->text, file->len, &root, &held, diag));
    enum tmk_status status = read_sections(root, out, diag);
    cJSON_Delete(root);
    tmk_memory_uncharge(held);
    return status;
}

const struct tmk_ranges_reader tmk_reader_aimet = {
    .name = "aimet",
    .help = "encodings of AIMET, QNN and SNPE, 0.6.1 to 2.0.0 (JSON)",
    .unnamed = "stays float, without a word",
    .unknown = "is an error of AIMET; SNPE passes it over",
    .is = is_aimet,
    .read = read_aimet,
};
