/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/literal.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"

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

/* ---- strings and names ---- */

static size_t word_length(const char *text, bool dotted) {
    if (!tmk_begins_word(text[0]))
        return 0;
    size_t n = 1;
    while (tmk_in_word(text[n]) || (dotted && text[n] == '.' && tmk_begins_word(text[n + 1])))
        n++;
    return n;
}

/* The length of the well-formed sequence at p (Unicode, table 3-7), 0 for anything else and for the
 * C1 controls. */
static size_t utf8_length(const unsigned char *p, size_t n) {
    static const struct {
        unsigned char first, last, low, high; /* lead bytes; bounds of the byte after them */
        size_t length;
    } rows[] = {
        {0xc2, 0xc2, 0xa0, 0xbf, 2}, {0xc3, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t i = 0; i < TMK_COUNT(rows); i++) {
        if (p[0] < rows[i].first || p[0] > rows[i].last)
            continue;
        if (n < rows[i].length || p[1] < rows[i].low || p[1] > rows[i].high)
            return 0;
        for (size_t k = 2; k < rows[i].length; k++)
            if ((p[k] & 0xc0) != 0x80)
                return 0;
        return rows[i].length;
    }
    return 0;
}

void tmk_literal_put_escaped(struct tmk_text *text, const char *bytes, size_t n) {
    const unsigned char *p = (const unsigned char *)bytes;
    for (size_t i = 0; i < n;) {
        size_t length = p[i] >= 0x20 && p[i] < 0x7f ? 1 : utf8_length(p + i, n - i);
        if (p[i] == '"' || p[i] == '\\') {
            tmk_text_printf(text, "\\%c", p[i++]);
        } else if (length) {
            tmk_text_append(text, bytes + i, length);
            i += length;
        } else if (p[i] == '\n') {
            tmk_text_puts(text, "\\n");
            i++;
        } else {
            tmk_text_printf(text, "\\x%02x", p[i++]);
        }
    }
}

void tmk_literal_put_string(struct tmk_text *text, const char *bytes, size_t n) {
    tmk_text_puts(text, "\"");
    tmk_literal_put_escaped(text, bytes, n);
    tmk_text_puts(text, "\"");
}

void tmk_literal_put_name(struct tmk_text *text, const char *name, bool dotted) {
    size_t n = word_length(name, dotted);
    if (n && !name[n])
        tmk_text_append(text, name, n);
    else
        tmk_literal_put_string(text, name, strlen(name));
}

/* ---- types and elements ---- */

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
                tmk_literal_put_string(text, symbol, strlen(symbol));
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
                              size_t inline_limit) {
    size_t n = tmk_tensor_count(tensor), size = part_size(tensor->dtype);
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
