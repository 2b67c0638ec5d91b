/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_text/literal.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "graph/literal.h"

/* How the elements of a type are spelled; complex ones are pairs of their parts. */
enum spelling { BITS, SIGNED, UNSIGNED, HALF, BRAIN, SINGLE, DOUBLE };

static enum spelling spelling_of(enum tmk_dtype dtype) {
    static const enum spelling spellings[TMK_N_DTYPES] = {
        [TMK_FLOAT32] = SINGLE,    [TMK_COMPLEX64] = SINGLE, [TMK_FLOAT64] = DOUBLE,
        [TMK_COMPLEX128] = DOUBLE, [TMK_FLOAT16] = HALF,     [TMK_BFLOAT16] = BRAIN,
        [TMK_INT2] = SIGNED,       [TMK_INT4] = SIGNED,      [TMK_INT8] = SIGNED,
        [TMK_INT16] = SIGNED,      [TMK_INT32] = SIGNED,     [TMK_INT64] = SIGNED,
        [TMK_BOOL] = UNSIGNED,     [TMK_UINT2] = UNSIGNED,   [TMK_UINT4] = UNSIGNED,
        [TMK_UINT8] = UNSIGNED,    [TMK_UINT16] = UNSIGNED,  [TMK_UINT32] = UNSIGNED,
        [TMK_UINT64] = UNSIGNED};
    return spellings[dtype];
}

static bool is_complex(enum tmk_dtype dtype) {
    return dtype == TMK_COMPLEX64 || dtype == TMK_COMPLEX128;
}

static size_t part_size(enum tmk_dtype dtype) {
    return tmk_dtype_size(dtype) / (is_complex(dtype) ? 2 : 1);
}

/* Of the float formats: the bits above the mantissa, the usual quiet NaN, all bits. */
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
static const void *low_bytes(const uint64_t *bits, size_t size) {
    return (const char *)bits + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof *bits - size : 0);
}

static enum tmk_status read_dtype(struct lex *lex, enum tmk_dtype *out) {
    if (lex_take(lex, '?')) {
        *out = TMK_UNDEFINED;
        return TMK_OK;
    }
    const char *at = (lex_peek(lex), lex->at), *name;
    TMK_TRY(lex_word(lex, false, "a type", &name));
    *out = TMK_UNDEFINED;
    for (int i = TMK_UNDEFINED + 1; i < TMK_N_DTYPES; i++)
        if (strcmp(tmk_literal_dtype((enum tmk_dtype)i), name) == 0)
            *out = (enum tmk_dtype)i;
    if (*out == TMK_UNDEFINED)
        return lex_fail(lex, at,
                        "'%.40s' is no type; types are f32, i64, bool and so on, ? where it is "
                        "not known",
                        name);
    return TMK_OK;
}

static enum tmk_status read_dim(struct lex *lex, struct tmk_type *type) {
    int32_t i = type->shape.rank;
    if (i == TMK_MAX_RANK)
        return lex_fail(lex, lex->at, "a shape has at most %d dimensions", TMK_MAX_RANK);
    type->shape.dim[i] = -1;
    bool sized = !lex_take(lex, '?');
    if (sized && lex_peek(lex) == '"') {
        TMK_TRY(lex_name(lex, "a dimension's name", &type->symbol[i]));
        sized = lex_take(lex, '=');
    }
    if (sized)
        TMK_TRY(lex_signed(lex, 0, INT64_MAX, "a dimension", &type->shape.dim[i]));
    type->shape.rank++;
    return TMK_OK;
}

enum tmk_status read_type(struct lex *lex, struct tmk_type *out) {
    struct tmk_type type = {.kind = TMK_TYPE_TENSOR};
    bool optional = lex_take_word(lex, "optional");
    if (optional)
        TMK_TRY(lex_need(lex, '('));
    bool sequence = lex_take_word(lex, "sequence");
    if (sequence)
        TMK_TRY(lex_need(lex, '('));
    if (optional)
        type.kind = sequence ? TMK_TYPE_OPTIONAL_SEQUENCE : TMK_TYPE_OPTIONAL;
    else if (sequence)
        type.kind = TMK_TYPE_SEQUENCE;
    TMK_TRY(read_dtype(lex, &type.dtype));
    type.origin = type.dtype;
    if (lex_take(lex, '<')) {
        TMK_TRY(read_dtype(lex, &type.origin));
        TMK_TRY(lex_need(lex, '>'));
    }
    if (lex_take(lex, '[')) {
        type.has_shape = true;
        if (!lex_take(lex, ']')) {
            do
                TMK_TRY(read_dim(lex, &type));
            while (lex_take(lex, ','));
            TMK_TRY(lex_need(lex, ']'));
        }
    }
    for (int open = optional + sequence; open > 0; open--)
        TMK_TRY(lex_need(lex, ')'));
    *out = type;
    return TMK_OK;
}

static enum tmk_status read_digits(struct lex *lex, enum spelling spelling, size_t length,
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
        return lex_fail(lex, begin, "'%.*s' is not a number", shown, begin);
    if (magnitude_of(&formats[spelling], *out) >= formats[spelling].infinity)
        return lex_fail(lex, begin, "%.*s is too large for its type; infinity is inf", shown,
                        begin);
    lex->at = end;
    return TMK_OK;
}

/* `suffix`: finite numbers end in f. */
static enum tmk_status read_float(struct lex *lex, enum spelling spelling, bool suffix,
                                  uint64_t *out) {
    const struct format *format = &formats[spelling];
    if (lex_take_word(lex, "nan")) {
        *out = format->quiet_nan;
        if (*lex->at != ':')
            return TMK_OK;
        lex->at++;
        const char *at = lex->at;
        TMK_TRY(lex_bits(lex, format->largest, out));
        if (magnitude_of(format, *out) <= format->infinity)
            return lex_fail(lex, at, "these are not the bits of a NaN of this type");
        return TMK_OK;
    }
    bool positive = lex_take_word(lex, "inf");
    if (positive || lex_take_word(lex, "-inf")) {
        *out = positive ? format->infinity
                        : format->infinity | (format->largest ^ format->largest >> 1);
        return TMK_OK;
    }
    size_t length = lex_number_length(lex);
    if (!length)
        return lex_expected(lex, "a number");
    if (!suffix)
        return read_digits(lex, spelling, length, out);
    if (lex->at[length - 1] != 'f')
        return lex_fail(lex, lex->at, "a float ends in f here, like 0.5f");
    TMK_TRY(read_digits(lex, spelling, length - 1, out));
    lex->at++;
    return TMK_OK;
}

enum tmk_status read_float_attr(struct lex *lex, float *out) {
    uint64_t bits;
    TMK_TRY(read_float(lex, SINGLE, true, &bits));
    memcpy(out, low_bytes(&bits, sizeof *out), sizeof *out);
    return TMK_OK;
}

static enum tmk_status read_part(struct lex *lex, enum tmk_dtype dtype, enum spelling spelling,
                                 char *to, size_t size) {
    uint64_t bits, largest = UINT64_MAX >> (64 - size * 8);
    int64_t number;
    switch (spelling) {
    case BITS:
        TMK_TRY(lex_bits(lex, largest, &bits));
        break;
    case SIGNED:
        number = (int64_t)(largest >> 1);
        TMK_TRY(lex_signed(lex, -number - 1, number, tmk_literal_dtype(dtype), &number));
        bits = (uint64_t)number;
        break;
    case UNSIGNED:
        TMK_TRY(lex_unsigned(lex, largest, tmk_literal_dtype(dtype), &bits));
        break;
    default:
        TMK_TRY(read_float(lex, spelling, false, &bits));
    }
    memcpy(to, low_bytes(&bits, size), size);
    return TMK_OK;
}

static enum tmk_status read_elements(struct lex *lex, struct tmk_tensor *tensor) {
    enum tmk_dtype dtype = tensor->dtype;
    enum spelling spelling = spelling_of(dtype);
    size_t n = tmk_tensor_count(tensor), size = part_size(dtype), i = 0;
    char *to = tensor->data;
    const char *open = lex->at - 1;
    while (lex_peek(lex) != '}') {
        if (i == n)
            return lex_fail(lex, lex->at, "more elements than the shape holds, %zu", n);
        if (i++)
            TMK_TRY(lex_need(lex, ','));
        if (is_complex(dtype)) {
            TMK_TRY(lex_need(lex, '('));
            TMK_TRY(read_part(lex, dtype, spelling, to, size));
            TMK_TRY(lex_need(lex, ','));
            to += size;
        }
        TMK_TRY(read_part(lex, dtype, spelling, to, size));
        to += size;
        if (is_complex(dtype))
            TMK_TRY(lex_need(lex, ')'));
    }
    lex->at++;
    if (i != n)
        return lex_fail(lex, open, "%zu elements, but the shape asks for %zu", i, n);
    return TMK_OK;
}

enum tmk_status read_tensor_elements(struct lex *lex, const char *type_at,
                                     const struct tmk_type *type, const struct tensor_pool *pool,
                                     struct tmk_tensor *out) {
    size_t count, size = tmk_dtype_size(type->dtype);
    if (type->kind != TMK_TYPE_TENSOR || !size)
        return lex_fail(lex, type_at, "no tensor of this type can be given here");
    if (!type->has_shape || !tmk_shape_count(&type->shape, &count))
        return lex_fail(lex, type_at,
                        "a tensor's shape is a number for each dimension, [] for "
                        "a scalar, and not too large");
    if (lex_take(lex, '#')) {
        const char *at = lex->at;
        uint64_t k;
        TMK_TRY(lex_unsigned(lex, UINT64_MAX, "a number in the pool of tensors", &k));
        if (!pool || k >= pool->n)
            return lex_fail(lex, at, "no tensor #%llu; the pool that came with this text has %zu",
                            (unsigned long long)k, pool ? pool->n : 0);
        const struct tmk_tensor *held = &pool->tensors[k];
        if (held->dtype != type->dtype || !tmk_shape_equal(&held->shape, &type->shape)) {
            char shape[256];
            return lex_fail(lex, at, "tensor #%llu of the pool has another type: %s%s",
                            (unsigned long long)k, tmk_literal_dtype(held->dtype),
                            tmk_shape_text(&held->shape, shape, sizeof shape));
        }
        tmk_tensor_share(out, held);
        out->origin = type->origin;
        return TMK_OK;
    }
    if (lex_take_word(lex, "..."))
        return lex_fail(lex, lex->at - 3,
                        "the elements were left out; print with a higher limit to read it back");
    TMK_TRY(lex_need(lex, '{'));
    if (strnlen(lex->at, count) <
        count) /* an element takes a character: nothing is allocated for a lie */
        return lex_fail(lex, lex->at - 1, "fewer elements than the shape asks for, %zu", count);
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
