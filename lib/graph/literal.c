/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/literal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/memory.h"
#include "base/size.h"

/* How the elements of a type are spelled; complex ones are pairs of their parts. */
enum spelling { BITS, SIGNED, UNSIGNED, HALF, BRAIN, SINGLE, DOUBLE };

static const struct element {
    enum tmk_dtype dtype;
    const char *name;
    enum spelling spelling;
} elements[] = {
    {TMK_FLOAT32, "f32", SINGLE},
    {TMK_UINT8, "u8", UNSIGNED},
    {TMK_INT8, "i8", SIGNED},
    {TMK_UINT16, "u16", UNSIGNED},
    {TMK_INT16, "i16", SIGNED},
    {TMK_INT32, "i32", SIGNED},
    {TMK_INT64, "i64", SIGNED},
    {TMK_STRING, "str", BITS},
    {TMK_BOOL, "bool", UNSIGNED},
    {TMK_FLOAT16, "f16", HALF},
    {TMK_FLOAT64, "f64", DOUBLE},
    {TMK_UINT32, "u32", UNSIGNED},
    {TMK_UINT64, "u64", UNSIGNED},
    {TMK_COMPLEX64, "c64", SINGLE},
    {TMK_COMPLEX128, "c128", DOUBLE},
    {TMK_BFLOAT16, "bf16", BRAIN},
    {TMK_FLOAT8E4M3FN, "f8e4m3fn", BITS},
    {TMK_FLOAT8E4M3FNUZ, "f8e4m3fnuz", BITS},
    {TMK_FLOAT8E5M2, "f8e5m2", BITS},
    {TMK_FLOAT8E5M2FNUZ, "f8e5m2fnuz", BITS},
    {TMK_UINT4, "u4", UNSIGNED},
    {TMK_INT4, "i4", SIGNED},
    {TMK_FLOAT4E2M1, "f4e2m1", BITS},
    {TMK_FLOAT8E8M0, "f8e8m0", BITS},
    {TMK_UINT2, "u2", UNSIGNED},
    {TMK_INT2, "i2", SIGNED},
};

/* {0}: no type has these elements. */
static struct element element_of(enum tmk_dtype dtype) {
    for (size_t i = 0; i < TMK_COUNT(elements); i++)
        if (elements[i].dtype == dtype)
            return elements[i];
    return (struct element){.name = "?"};
}

const char *tmk_literal_dtype(enum tmk_dtype dtype) {
    return element_of(dtype).name;
}

static bool is_complex(enum tmk_dtype dtype) {
    return dtype == TMK_COMPLEX64 || dtype == TMK_COMPLEX128;
}

static size_t part_size(enum tmk_dtype dtype) {
    return tmk_dtype_size(dtype) / (is_complex(dtype) ? 2 : 1);
}

/* What distinguishes the four float formats here: the bits above the mantissa and the usual quiet
 * NaN. */
static const struct format {
    uint64_t infinity, quiet_nan, largest;
} formats[] = {
    [HALF] = {0x7c00, 0x7e00, UINT16_MAX},
    [BRAIN] = {0x7f80, 0x7fc0, UINT16_MAX},
    [SINGLE] = {0x7f800000, 0x7fc00000, UINT32_MAX},
    [DOUBLE] = {0x7ff0000000000000, 0x7ff8000000000000, UINT64_MAX},
};

static uint64_t magnitude_of(const struct format *format, uint64_t bits) {
    return bits & format->largest >> 1;
}

/* Where the low bytes of a number lie. */
static void *low_bytes(uint64_t *bits, size_t size) {
    return (char *)bits + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof *bits - size : 0);
}

static uint64_t load_bits(const void *from, size_t size) {
    uint64_t bits = 0;
    memcpy(low_bytes(&bits, size), from, size);
    return bits;
}

/* ---- writing ---- */

static bool is_optional(enum tmk_type_kind kind) {
    return kind == TMK_TYPE_OPTIONAL || kind == TMK_TYPE_OPTIONAL_SEQUENCE;
}

static bool is_sequence(enum tmk_type_kind kind) {
    return kind == TMK_TYPE_SEQUENCE || kind == TMK_TYPE_OPTIONAL_SEQUENCE;
}

void tmk_literal_put_type(struct tmk_text *text, const struct tmk_type *type) {
    tmk_text_puts(text, is_optional(type->kind) ? "optional(" : "");
    tmk_text_puts(text, is_sequence(type->kind) ? "sequence(" : "");
    tmk_text_puts(text, tmk_literal_dtype(type->dtype));
    if (type->origin != type->dtype)
        tmk_text_printf(text, "<%s>", tmk_literal_dtype(type->origin));
    if (type->has_shape) {
        tmk_text_puts(text, "[");
        for (int32_t i = 0; i < type->shape.rank; i++) {
            const char *symbol = type->symbol[i];
            int64_t dim = type->shape.dim[i];
            tmk_text_puts(text, i ? "," : "");
            if (symbol)
                tmk_lex_put_string(text, symbol, strlen(symbol));
            if (dim >= 0)
                tmk_text_printf(text, "%s%lld", symbol ? "=" : "", (long long)dim);
            else if (!symbol)
                tmk_text_puts(text, "?");
        }
        tmk_text_puts(text, "]");
    }
    tmk_text_puts(text, is_optional(type->kind) ? ")" : "");
    tmk_text_puts(text, is_sequence(type->kind) ? ")" : "");
}

void tmk_literal_put_tensor_type(struct tmk_text *text, const struct tmk_tensor *tensor) {
    tmk_literal_put_type(text, &(struct tmk_type){.dtype = tensor->dtype,
                                                  .origin = tensor->origin,
                                                  .has_shape = true,
                                                  .shape = tensor->shape});
}

/* False when the number is none that digits could spell. */
static bool put_special(struct tmk_text *text, enum spelling spelling, size_t size, uint64_t bits) {
    const struct format *format = &formats[spelling];
    uint64_t magnitude = magnitude_of(format, bits);
    if (magnitude < format->infinity)
        return false;
    if (magnitude == format->infinity)
        tmk_text_puts(text, bits == magnitude ? "inf" : "-inf");
    else if (bits == format->quiet_nan)
        tmk_text_puts(text, "nan");
    else
        tmk_text_printf(text, "nan:0x%0*llx", (int)size * 2, (unsigned long long)bits);
    return true;
}

static float as_float(enum spelling spelling, uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    if (spelling == HALF)
        return tmk_from_half((uint16_t)bits);
    return spelling == BRAIN ? tmk_from_bfloat16((uint16_t)bits) : value;
}

static void put_part(struct tmk_text *text, enum spelling spelling, const char *from, size_t size) {
    uint64_t bits = load_bits(from, size);
    unsigned unused = 64 - (unsigned)size * 8;
    char digits[32];
    double wide;
    switch (spelling) {
    case BITS:
        tmk_text_printf(text, "0x%0*llx", (int)size * 2, (unsigned long long)bits);
        return;
    case SIGNED:
        tmk_text_printf(text, "%lld", (long long)((int64_t)(bits << unused) >> unused));
        return;
    case UNSIGNED:
        tmk_text_printf(text, "%llu", (unsigned long long)bits);
        return;
    default:
        break;
    }
    if (put_special(text, spelling, size, bits))
        return;
    if (spelling == DOUBLE) {
        memcpy(&wide, &bits, sizeof wide);
        tmk_format_double(wide, digits);
    } else {
        tmk_format_float(as_float(spelling, bits), digits);
    }
    tmk_text_puts(text, digits);
}

void tmk_literal_put_float(struct tmk_text *text, float value) {
    put_part(text, SINGLE, (const char *)&value, sizeof value);
    if (isfinite(value))
        tmk_text_puts(text, "f");
}

void tmk_literal_put_elements(struct tmk_text *text, const struct tmk_tensor *tensor,
                              size_t inline_limit, struct tmk_pool *pool) {
    size_t n = tmk_tensor_count(tensor), size = part_size(tensor->dtype);
    if (n > inline_limit && pool) {
        tmk_text_printf(text, "#%zu", pool->n);
        if (!tmk_pool_add(pool, tensor))
            text->failed = true;
        return;
    }
    if (n > inline_limit || !size || (n && !tensor->data)) {
        tmk_text_puts(text, "...");
        return;
    }
    enum spelling spelling = element_of(tensor->dtype).spelling;
    const char *from = tensor->data;
    tmk_text_puts(text, "{");
    for (size_t i = 0; i < n; i++) {
        tmk_text_puts(text, i ? ", " : "");
        if (is_complex(tensor->dtype)) {
            tmk_text_puts(text, "(");
            put_part(text, spelling, from, size);
            tmk_text_puts(text, ",");
            from += size;
        }
        put_part(text, spelling, from, size);
        from += size;
        tmk_text_puts(text, is_complex(tensor->dtype) ? ")" : "");
    }
    tmk_text_puts(text, "}");
}

/* ---- reading ---- */

static enum tmk_status read_dtype(struct tmk_lex *lex, enum tmk_dtype *out) {
    if (tmk_lex_take(lex, '?')) {
        *out = TMK_UNDEFINED;
        return TMK_OK;
    }
    const char *at = (tmk_lex_peek(lex), lex->at), *name;
    TMK_TRY(tmk_lex_word(lex, false, "a type", &name));
    *out = TMK_UNDEFINED;
    for (size_t i = 0; i < TMK_COUNT(elements); i++)
        if (strcmp(elements[i].name, name) == 0)
            *out = elements[i].dtype;
    if (*out == TMK_UNDEFINED)
        return tmk_lex_fail(lex, at,
                            "'%.40s' is no type; types are f32, i64, bool and so on, ? where it is "
                            "not known",
                            name);
    return TMK_OK;
}

static enum tmk_status read_dim(struct tmk_lex *lex, struct tmk_type *type) {
    int32_t i = type->shape.rank;
    if (i == TMK_MAX_RANK)
        return tmk_lex_fail(lex, lex->at, "a shape has at most %d dimensions", TMK_MAX_RANK);
    type->shape.dim[i] = -1;
    bool sized = !tmk_lex_take(lex, '?');
    if (sized && tmk_lex_peek(lex) == '"') {
        TMK_TRY(tmk_lex_name(lex, "a dimension's name", &type->symbol[i]));
        sized = tmk_lex_take(lex, '=');
    }
    if (sized)
        TMK_TRY(tmk_lex_signed(lex, 0, INT64_MAX, "a dimension", &type->shape.dim[i]));
    type->shape.rank++;
    return TMK_OK;
}

enum tmk_status tmk_literal_type(struct tmk_lex *lex, struct tmk_type *out) {
    struct tmk_type type = {.kind = TMK_TYPE_TENSOR};
    bool optional = tmk_lex_take_word(lex, "optional");
    if (optional)
        TMK_TRY(tmk_lex_need(lex, '('));
    bool sequence = tmk_lex_take_word(lex, "sequence");
    if (sequence)
        TMK_TRY(tmk_lex_need(lex, '('));
    if (optional)
        type.kind = sequence ? TMK_TYPE_OPTIONAL_SEQUENCE : TMK_TYPE_OPTIONAL;
    else if (sequence)
        type.kind = TMK_TYPE_SEQUENCE;
    TMK_TRY(read_dtype(lex, &type.dtype));
    type.origin = type.dtype;
    if (tmk_lex_take(lex, '<')) {
        TMK_TRY(read_dtype(lex, &type.origin));
        TMK_TRY(tmk_lex_need(lex, '>'));
    }
    if (tmk_lex_take(lex, '[')) {
        type.has_shape = true;
        if (!tmk_lex_take(lex, ']')) {
            do
                TMK_TRY(read_dim(lex, &type));
            while (tmk_lex_take(lex, ','));
            TMK_TRY(tmk_lex_need(lex, ']'));
        }
    }
    for (int open = optional + sequence; open > 0; open--)
        TMK_TRY(tmk_lex_need(lex, ')'));
    *out = type;
    return TMK_OK;
}

static enum tmk_status read_digits(struct tmk_lex *lex, enum spelling spelling, size_t length,
                                   uint64_t *out) {
    const char *begin = lex->at;
    char *end;
    float value = 0;
    if (spelling == DOUBLE) {
        double wide = strtod(begin, &end);
        memcpy(out, &wide, sizeof wide);
    } else {
        uint32_t bits;
        value = strtof(begin, &end);
        memcpy(&bits, &value, sizeof bits);
        *out = spelling == HALF    ? tmk_to_half(value)
               : spelling == BRAIN ? tmk_to_bfloat16(value)
                                   : bits;
    }
    int shown = length < 40 ? (int)length : 40;
    if (end != begin + length)
        return tmk_lex_fail(lex, begin, "'%.*s' is not a number", shown, begin);
    if (magnitude_of(&formats[spelling], *out) >= formats[spelling].infinity)
        return tmk_lex_fail(lex, begin, "%.*s is too large for its type; infinity is inf", shown,
                            begin);
    lex->at = end;
    return TMK_OK;
}

/* `suffix`: finite numbers end in f. */
static enum tmk_status read_float(struct tmk_lex *lex, enum spelling spelling, bool suffix,
                                  uint64_t *out) {
    const struct format *format = &formats[spelling];
    if (tmk_lex_take_word(lex, "nan")) {
        *out = format->quiet_nan;
        if (*lex->at != ':')
            return TMK_OK;
        lex->at++;
        const char *at = lex->at;
        TMK_TRY(tmk_lex_bits(lex, format->largest, out));
        if (magnitude_of(format, *out) <= format->infinity)
            return tmk_lex_fail(lex, at, "these are not the bits of a NaN of this type");
        return TMK_OK;
    }
    bool positive = tmk_lex_take_word(lex, "inf");
    if (positive || tmk_lex_take_word(lex, "-inf")) {
        *out = positive ? format->infinity
                        : format->infinity | (format->largest ^ format->largest >> 1);
        return TMK_OK;
    }
    size_t length = tmk_lex_number_length(lex);
    if (!length)
        return tmk_lex_expected(lex, "a number");
    if (!suffix)
        return read_digits(lex, spelling, length, out);
    if (lex->at[length - 1] != 'f')
        return tmk_lex_fail(lex, lex->at, "a float ends in f here, like 0.5f");
    TMK_TRY(read_digits(lex, spelling, length - 1, out));
    lex->at++;
    return TMK_OK;
}

enum tmk_status tmk_literal_float(struct tmk_lex *lex, float *out) {
    uint64_t bits;
    TMK_TRY(read_float(lex, SINGLE, true, &bits));
    memcpy(out, low_bytes(&bits, sizeof *out), sizeof *out);
    return TMK_OK;
}

static enum tmk_status read_part(struct tmk_lex *lex, enum tmk_dtype dtype, enum spelling spelling,
                                 char *to, size_t size) {
    uint64_t bits, largest = UINT64_MAX >> (64 - size * 8);
    int64_t number;
    switch (spelling) {
    case BITS:
        TMK_TRY(tmk_lex_bits(lex, largest, &bits));
        break;
    case SIGNED:
        number = (int64_t)(largest >> 1);
        TMK_TRY(tmk_lex_signed(lex, -number - 1, number, tmk_literal_dtype(dtype), &number));
        bits = (uint64_t)number;
        break;
    case UNSIGNED:
        TMK_TRY(tmk_lex_unsigned(lex, largest, tmk_literal_dtype(dtype), &bits));
        break;
    default:
        TMK_TRY(read_float(lex, spelling, false, &bits));
    }
    memcpy(to, low_bytes(&bits, size), size);
    return TMK_OK;
}

static enum tmk_status read_elements(struct tmk_lex *lex, struct tmk_tensor *tensor) {
    enum tmk_dtype dtype = tensor->dtype;
    enum spelling spelling = element_of(dtype).spelling;
    size_t n = tmk_tensor_count(tensor), size = part_size(dtype), i = 0;
    char *to = tensor->data;
    const char *open = lex->at - 1;
    while (tmk_lex_peek(lex) != '}') {
        if (i == n)
            return tmk_lex_fail(lex, lex->at, "more elements than the shape holds, %zu", n);
        if (i++)
            TMK_TRY(tmk_lex_need(lex, ','));
        if (is_complex(dtype)) {
            TMK_TRY(tmk_lex_need(lex, '('));
            TMK_TRY(read_part(lex, dtype, spelling, to, size));
            TMK_TRY(tmk_lex_need(lex, ','));
            to += size;
        }
        TMK_TRY(read_part(lex, dtype, spelling, to, size));
        to += size;
        if (is_complex(dtype))
            TMK_TRY(tmk_lex_need(lex, ')'));
    }
    lex->at++;
    if (i != n)
        return tmk_lex_fail(lex, open, "%zu elements, but the shape asks for %zu", i, n);
    return TMK_OK;
}

enum tmk_status tmk_literal_elements(struct tmk_lex *lex, const char *type_at,
                                     const struct tmk_type *type, const struct tmk_pool *pool,
                                     struct tmk_tensor *out) {
    size_t count, size = tmk_dtype_size(type->dtype);
    if (type->kind != TMK_TYPE_TENSOR || !size)
        return tmk_lex_fail(lex, type_at, "no tensor of this type can be given here");
    if (!type->has_shape || !tmk_shape_count(&type->shape, &count))
        return tmk_lex_fail(lex, type_at,
                            "a tensor's shape is a number for each dimension, [] for "
                            "a scalar, and not too large");
    if (tmk_lex_take(lex, '#')) {
        const char *at = lex->at;
        uint64_t k;
        TMK_TRY(tmk_lex_unsigned(lex, UINT64_MAX, "a number in the pool of tensors", &k));
        if (!pool || k >= pool->n)
            return tmk_lex_fail(lex, at,
                                "no tensor #%llu; the pool that came with this text has %zu",
                                (unsigned long long)k, pool ? pool->n : 0);
        const struct tmk_tensor *held = &pool->tensors[k];
        if (held->dtype != type->dtype || !tmk_shape_equal(&held->shape, &type->shape)) {
            char shape[256];
            return tmk_lex_fail(lex, at, "tensor #%llu of the pool has another type: %s%s",
                                (unsigned long long)k, tmk_literal_dtype(held->dtype),
                                tmk_shape_text(&held->shape, shape, sizeof shape));
        }
        tmk_tensor_share(out, held);
        out->origin = type->origin;
        return TMK_OK;
    }
    if (tmk_lex_take_word(lex, "..."))
        return tmk_lex_fail(lex, lex->at - 3,
                            "the elements were left out; print with a pool to read it back");
    TMK_TRY(tmk_lex_need(lex, '{'));
    if (strnlen(lex->at, count) <
        count) /* an element takes a character: nothing is allocated for a lie */
        return tmk_lex_fail(lex, lex->at - 1, "fewer elements than the shape asks for, %zu", count);
    struct tmk_tensor tensor;
    TMK_TRY(tmk_tensor_init(&tensor, type->dtype, &type->shape, lex->diag));
    tensor.origin = type->origin;
    enum tmk_status status = read_elements(lex, &tensor);
    if (status == TMK_OK)
        *out = tensor;
    else
        tmk_tensor_finish(&tensor);
    return status;
}

/* ---- the pool ---- */

bool tmk_pool_add(struct tmk_pool *pool, const struct tmk_tensor *tensor) {
    struct tmk_tensor *tensors = tmk_grown(pool->tensors, pool->n, &pool->size, sizeof *tensors);
    if (!tensors)
        return false;
    pool->tensors = tensors;
    tmk_tensor_share(&tensors[pool->n++], tensor);
    return true;
}

void tmk_pool_finish(struct tmk_pool *pool) {
    for (size_t i = 0; i < pool->n; i++)
        tmk_tensor_finish(&pool->tensors[i]);
    free(pool->tensors);
    *pool = (struct tmk_pool){0};
}
