/* SPDX-License-Identifier: Apache-2.0 */
#include "data/npy.h"

#include <tidemark/simulate.h>

#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "tensor/shape.h"

static const char magic[] = "\x93NUMPY";
enum { MAGIC = sizeof magic - 1, ALIGNMENT = 64 };

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static const char native_order = '<';
#else
static const char native_order = '>';
#endif

static const struct {
    const char *code;
    enum tmk_dtype dtype;
} types[] = {
    {"f4", TMK_FLOAT32}, {"f2", TMK_FLOAT16}, {"f8", TMK_FLOAT64}, {"b1", TMK_BOOL},
    {"i1", TMK_INT8},    {"i2", TMK_INT16},   {"i4", TMK_INT32},   {"i8", TMK_INT64},
    {"u1", TMK_UINT8},   {"u2", TMK_UINT16},  {"u4", TMK_UINT32},  {"u8", TMK_UINT64},
};

/* The header's text: a Python dict literal of which only what NumPy writes is read. */
struct reader {
    const char *text;
    size_t len, at;
    size_t before; /* bytes of the file before the text, for messages */
    struct tmk_diag *diag;
};

static enum tmk_status fail_expected(const struct reader *r, const char *what) {
    return tmk_fail(r->diag, TMK_FORMAT, "byte %zu: the header should have %s here",
                    r->before + r->at, what);
}

static void skip_blanks(struct reader *r) {
    while (r->at < r->len && r->text[r->at] && strchr(" \t\n\r", r->text[r->at]))
        r->at++;
}

/* The next character that is no blank; '\0' at the end (which no header may contain). */
static char peek_char(struct reader *r) {
    skip_blanks(r);
    return r->at < r->len ? r->text[r->at] : '\0';
}

static bool accept_char(struct reader *r, char c) {
    if (peek_char(r) != c)
        return false;
    r->at++;
    return true;
}

static bool accept_word(struct reader *r, const char *word) {
    size_t n = strlen(word);
    skip_blanks(r);
    if (r->len - r->at < n || memcmp(r->text + r->at, word, n) != 0)
        return false;
    r->at += n;
    return true;
}

/* A string without escapes; none is needed in a key or a simple type. */
static enum tmk_status read_string(struct reader *r, const char **start, size_t *len) {
    char quote = peek_char(r);
    if (quote != '\'' && quote != '"')
        return fail_expected(r, "a string");
    size_t from = ++r->at;
    while (r->at < r->len && r->text[r->at] != quote) {
        if (r->text[r->at] == '\\' || (unsigned char)r->text[r->at] < ' ')
            return fail_expected(r, "a string without escapes");
        r->at++;
    }
    if (r->at == r->len)
        return fail_expected(r, "the end of a string");
    *start = r->text + from;
    *len = r->at++ - from;
    return TMK_OK;
}

static enum tmk_status read_bool(struct reader *r, bool *out) {
    if (accept_word(r, "True"))
        *out = true;
    else if (accept_word(r, "False"))
        *out = false;
    else
        return fail_expected(r, "True or False");
    return TMK_OK;
}

static enum tmk_status read_dim(struct reader *r, int64_t *out) {
    int64_t value = 0;
    char c = peek_char(r);
    if (c == '-')
        return tmk_fail(r->diag, TMK_FORMAT, "byte %zu: a dimension is negative",
                        r->before + r->at);
    if (c < '0' || c > '9')
        return fail_expected(r, "a dimension");
    for (; r->at < r->len && r->text[r->at] >= '0' && r->text[r->at] <= '9'; r->at++)
        if (!tmk_mul_i64(value, 10, &value) || !tmk_add_i64(value, r->text[r->at] - '0', &value))
            return tmk_fail(r->diag, TMK_FORMAT, "byte %zu: a dimension is too large",
                            r->before + r->at);
    if (r->at < r->len && r->text[r->at] == 'L') /* Python 2 wrote its long integers so */
        r->at++;
    *out = value;
    return TMK_OK;
}

static enum tmk_status read_shape(struct reader *r, struct tmk_npy *npy) {
    struct tmk_shape shape = {0};
    bool comma = true;
    size_t rank = 0;
    if (!accept_char(r, '('))
        return fail_expected(r, "a tuple");
    while (!accept_char(r, ')')) {
        int64_t dim = 0;
        if (!comma)
            return fail_expected(r, "',' or ')'");
        TMK_TRY(read_dim(r, &dim));
        if (rank < TMK_MAX_RANK)
            shape.dim[rank] = dim;
        rank++;
        comma = accept_char(r, ',');
    }
    if (rank == 1 && !comma)
        return fail_expected(r, "a tuple, (n,) and not (n),");
    if (rank > TMK_MAX_RANK) {
        npy->refusal = "arrays of more than 12 dimensions are not read";
        shape = (struct tmk_shape){0};
    } else {
        shape.rank = (int32_t)rank;
    }
    npy->shape = shape;
    return TMK_OK;
}

/* A list of fields; what is in it does not matter. */
static enum tmk_status skip_list(struct reader *r) {
    size_t depth = 0;
    do {
        char c = peek_char(r);
        if (c == '\'' || c == '"') {
            for (r->at++; r->at < r->len && r->text[r->at] != c; r->at++)
                if (r->text[r->at] == '\\')
                    r->at++;
            if (r->at >= r->len)
                return fail_expected(r, "the end of a string");
        } else if (c == '[' || c == '(') {
            depth++;
        } else if (c == ']' || c == ')') {
            depth--;
        } else if (c == '\0') {
            return fail_expected(r, "the end of a list");
        }
        r->at++;
    } while (depth);
    return TMK_OK;
}

static const char *refusal_of(char kind) {
    switch (kind) {
    case 'O':
        return "it holds Python objects, and pickles are not read";
    case 'U':
    case 'S':
    case 'a':
        return "text is not read";
    case 'V':
        return "elements of raw bytes are not read";
    case 'c':
        return "complex numbers are not read";
    case 'M':
    case 'm':
        return "dates are not read";
    default:
        return "elements of this type are not read";
    }
}

static enum tmk_status read_descr(struct reader *r, struct tmk_npy *npy) {
    if (peek_char(r) == '[') {
        npy->refusal = "structured elements are not read";
        return skip_list(r);
    }
    const char *text = NULL;
    size_t len = 0;
    TMK_TRY(read_string(r, &text, &len));
    if (!len)
        return fail_expected(r, "an element type before this");
    size_t kept = len < sizeof npy->descr ? len : sizeof npy->descr - 1;
    memcpy(npy->descr, text, kept);
    npy->descr[kept] = '\0';
    bool ordered = strchr("<>|=", text[0]) != NULL;
    const char *code = text + ordered;
    size_t n = len - ordered;
    for (size_t i = 0; i < TMK_COUNT(types); i++)
        if (n == 2 && memcmp(code, types[i].code, 2) == 0)
            npy->stored = types[i].dtype;
    if (npy->stored == TMK_UNDEFINED)
        npy->refusal = refusal_of(n ? code[0] : '\0');
    npy->swapped = (text[0] == '<' || text[0] == '>') && text[0] != native_order &&
                   tmk_dtype_size(npy->stored) > 1;
    return TMK_OK;
}

static enum tmk_status read_dict(struct reader *r, struct tmk_npy *npy) {
    bool have_descr = false, have_order = false, have_shape = false, comma = true;
    if (!accept_char(r, '{'))
        return fail_expected(r, "a dict");
    while (!accept_char(r, '}')) {
        const char *key = NULL;
        size_t len = 0, at = (skip_blanks(r), r->at);
        if (!comma)
            return fail_expected(r, "',' or '}'");
        TMK_TRY(read_string(r, &key, &len));
        if (!accept_char(r, ':'))
            return fail_expected(r, "':'");
        bool *have = NULL;
        enum tmk_status status = TMK_OK;
        if (len == 5 && memcmp(key, "descr", 5) == 0) {
            have = &have_descr;
            status = *have ? TMK_OK : read_descr(r, npy);
        } else if (len == 13 && memcmp(key, "fortran_order", 13) == 0) {
            have = &have_order;
            status = *have ? TMK_OK : read_bool(r, &npy->fortran);
        } else if (len == 5 && memcmp(key, "shape", 5) == 0) {
            have = &have_shape;
            status = *have ? TMK_OK : read_shape(r, npy);
        }
        TMK_TRY(status);
        if (!have || *have)
            return tmk_fail(r->diag, TMK_FORMAT, "byte %zu: the key '%.*s' %s", r->before + at,
                            (int)(len < 40 ? len : 40), key,
                            have ? "occurs twice" : "is none of descr, fortran_order, shape");
        *have = true;
        comma = accept_char(r, ',');
    }
    const char *missing = !have_descr   ? "descr"
                          : !have_order ? "fortran_order"
                          : !have_shape ? "shape"
                                        : NULL;
    if (missing)
        return tmk_fail(r->diag, TMK_FORMAT, "the header has no '%s'", missing);
    if (peek_char(r) != '\0' || r->at < r->len)
        return fail_expected(r, "nothing but blanks");
    return TMK_OK;
}

enum tmk_status tmk_npy_header_size(const void *bytes, size_t len, size_t *out,
                                    struct tmk_diag *diag) {
    const unsigned char *b = bytes;
    if (len < MAGIC || memcmp(b, magic, MAGIC) != 0)
        return tmk_fail(diag, TMK_FORMAT, "byte 0: does not start as NumPy arrays do");
    if (len >= MAGIC + 2 && (b[6] < 1 || b[6] > 3 || b[7] != 0))
        return tmk_fail(diag, TMK_FORMAT, "byte 6: version %u.%u of the format is not known", b[6],
                        b[7]);
    if (len < MAGIC + 4 || (b[6] > 1 && len < TMK_NPY_PREAMBLE))
        return tmk_fail(diag, TMK_FORMAT, "ends after %zu bytes, inside the header", len);
    size_t length = b[8] | (size_t)b[9] << 8, before = MAGIC + 4;
    if (b[6] > 1) {
        length |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
        before = TMK_NPY_PREAMBLE;
    }
    if (length > TMK_NPY_MAX_HEADER)
        return tmk_fail(diag, TMK_FORMAT, "byte 8: a header of %zu bytes is too long", length);
    *out = before + length;
    return TMK_OK;
}

enum tmk_status tmk_npy_parse(const void *bytes, size_t len, struct tmk_npy *out,
                              struct tmk_diag *diag) {
    struct tmk_npy npy = {.stored = TMK_UNDEFINED};
    TMK_TRY(tmk_npy_header_size(bytes, len, &npy.offset, diag));
    if (len < npy.offset)
        return tmk_fail(diag, TMK_FORMAT, "the header takes %zu bytes, but the file ends after %zu",
                        npy.offset, len);
    size_t before = ((const unsigned char *)bytes)[6] > 1 ? TMK_NPY_PREAMBLE : MAGIC + 4;
    struct reader reader = {(const char *)bytes + before, npy.offset - before, 0, before, diag};
    TMK_TRY(read_dict(&reader, &npy));
    if (npy.refusal)
        npy.stored = TMK_UNDEFINED;
    npy.dtype = npy.stored == TMK_FLOAT16 || npy.stored == TMK_FLOAT64 ? TMK_FLOAT32 : npy.stored;
    size_t count = 0, total = 0, widened = 0;
    if (!tmk_shape_count(&npy.shape, &count) ||
        !tmk_mul_size(count, tmk_dtype_size(npy.stored), &npy.bytes) ||
        !tmk_mul_size(count, tmk_dtype_size(npy.dtype), &widened) ||
        !tmk_add_size(npy.offset, npy.bytes, &total))
        return tmk_fail(diag, TMK_FORMAT, "an array of shape %s is too large",
                        TMK_SHAPE_TEXT(&npy.shape));
    *out = npy;
    return TMK_OK;
}

enum tmk_status tmk_npy_check_size(const struct tmk_npy *npy, uint64_t size,
                                   struct tmk_diag *diag) {
    uint64_t wanted = (uint64_t)npy->offset + npy->bytes;
    if (npy->refusal || size == wanted)
        return TMK_OK;
    return tmk_fail(
        diag, TMK_FORMAT, "%s: %s of shape %s takes %llu bytes with its header, but %llu are there",
        size < wanted ? "truncated" : "more than one array", tmk_dtype_name(npy->stored),
        TMK_SHAPE_TEXT(&npy->shape), (unsigned long long)wanted, (unsigned long long)size);
}

uint64_t tmk_npy_entries(const struct tmk_npy *npy) {
    return npy->shape.rank ? (uint64_t)npy->shape.dim[0] : 0;
}

/* Elements of [first, first + count) in row-major order, from an array whose first axis is the
 * fastest. */
static void gather_entries(const struct tmk_npy *npy, const char *from, size_t first, size_t count,
                           char *to) {
    size_t size = tmk_dtype_size(npy->stored), stride[TMK_MAX_RANK], at[TMK_MAX_RANK] = {0};
    size_t inner = 1, source = first;
    stride[0] = 1;
    for (int32_t i = 1; i < npy->shape.rank; i++) {
        stride[i] = stride[i - 1] * (size_t)npy->shape.dim[i - 1];
        inner *= (size_t)npy->shape.dim[i];
    }
    for (size_t j = 0; j < inner; j++) {
        for (size_t i = 0; i < count; i++)
            memcpy(to + (i * inner + j) * size, from + (source + i) * size, size);
        for (int32_t axis = npy->shape.rank - 1; axis > 0; axis--) {
            source += stride[axis];
            if (++at[axis] < (size_t)npy->shape.dim[axis])
                break;
            source -= at[axis] * stride[axis];
            at[axis] = 0;
        }
    }
}

static void swap_bytes(void *data, size_t count, size_t size) {
    if (size == 2)
        for (uint16_t *p = data, *end = p + count; p < end; p++)
            *p = __builtin_bswap16(*p);
    else if (size == 4)
        for (uint32_t *p = data, *end = p + count; p < end; p++)
            *p = __builtin_bswap32(*p);
    else if (size == 8)
        for (uint64_t *p = data, *end = p + count; p < end; p++)
            *p = __builtin_bswap64(*p);
}

/* A copy in our order. */
static enum tmk_status copy_slice(const struct tmk_npy *npy, const char *elements, size_t first,
                                  const struct tmk_shape *shape, struct tmk_tensor *out,
                                  struct tmk_diag *diag) {
    struct tmk_tensor tensor = {0};
    TMK_TRY(tmk_tensor_init(&tensor, npy->stored, shape, diag));
    size_t count = tmk_tensor_count(&tensor), size = tmk_dtype_size(npy->stored);
    size_t entries = (size_t)shape->dim[0];
    if (count && npy->fortran)
        gather_entries(npy, elements, first, entries, tensor.data);
    else if (count)
        memcpy(tensor.data, elements + first * (count / entries) * size, count * size);
    if (npy->swapped)
        swap_bytes(tensor.data, count, size);
    if (npy->stored == TMK_BOOL)
        for (size_t i = 0; i < count; i++)
            ((uint8_t *)tensor.data)[i] = ((uint8_t *)tensor.data)[i] != 0;
    *out = tensor;
    return TMK_OK;
}

/* The file's own bytes. */
static enum tmk_status view_slice(const struct tmk_npy *npy, struct tmk_buf *file, size_t first,
                                  const struct tmk_shape *shape, struct tmk_tensor *out,
                                  struct tmk_diag *diag) {
    struct tmk_tensor tensor = {.dtype = npy->stored, .origin = npy->stored, .shape = *shape};
    size_t bytes = tmk_tensor_bytes(&tensor), entries = (size_t)shape->dim[0];
    char *data = (char *)tmk_buf_data(file) + npy->offset + (bytes ? first * (bytes / entries) : 0);
    tensor.buf = tmk_buf_view(data, bytes, file);
    TMK_TRY_ALLOC(tensor.buf, diag);
    tensor.data = data;
    *out = tensor;
    return TMK_OK;
}

enum tmk_status tmk_npy_slice(const struct tmk_npy *npy, struct tmk_buf *file, uint64_t first,
                              uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag) {
    if (npy->refusal)
        return tmk_fail(diag, TMK_UNSUPPORTED, "%s (element type '%s')", npy->refusal,
                        npy->descr[0] ? npy->descr : "a structure");
    struct tmk_shape shape = npy->shape;
    shape.dim[0] = (int64_t)count;
    const char *elements = (const char *)tmk_buf_data(file) + npy->offset;
    bool aligned = (uintptr_t)elements % tmk_dtype_size(npy->stored) == 0;
    bool widened = npy->dtype != npy->stored;
    struct tmk_tensor tensor = {0};
    /* widening makes a copy anyway, and from any alignment */
    if (npy->fortran || npy->swapped || npy->stored == TMK_BOOL || (!aligned && !widened))
        TMK_TRY(copy_slice(npy, elements, (size_t)first, &shape, &tensor, diag));
    else
        TMK_TRY(view_slice(npy, file, (size_t)first, &shape, &tensor, diag));
    if (!widened) {
        *out = tensor;
        return TMK_OK;
    }
    enum tmk_status status = tmk_tensor_widen(&tensor, out, diag);
    tmk_tensor_finish(&tensor);
    return status;
}

enum tmk_status tmk_npy_write_header(const struct tmk_tensor *tensor, struct tmk_text *out,
                                     struct tmk_diag *diag) {
    const enum tmk_dtype dtype = tensor->dtype, by_width[] = {TMK_UINT8, TMK_INT8};
    const bool narrow = tmk_dtype_is_integer(dtype) && tmk_dtype_bits(dtype) < 8;
    const bool is_signed = dtype == TMK_INT4 || dtype == TMK_INT2;
    const char *code = dtype == TMK_COMPLEX64       ? "c8"
                       : dtype == TMK_COMPLEX128    ? "c16"
                       : tmk_dtype_size(dtype) == 1 ? "V1" /* as ml_dtypes' floats */
                                                    : NULL;
    for (size_t i = 0; i < TMK_COUNT(types); i++)
        if (types[i].dtype == (narrow ? by_width[is_signed] : dtype))
            code = types[i].code;
    if (!code)
        return tmk_fail(diag, TMK_TYPE, "NumPy files have no element type %s",
                        tmk_dtype_name(tensor->dtype));
    struct tmk_text dict = {0};
    tmk_text_printf(&dict, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                    tmk_dtype_size(tensor->dtype) > 1 ? native_order : '|', code);
    for (int32_t i = 0; i < tensor->shape.rank; i++)
        tmk_text_printf(&dict, "%s%lld%s", i ? " " : "", (long long)tensor->shape.dim[i],
                        i + 1 < tensor->shape.rank || i == 0 ? "," : "");
    tmk_text_puts(&dict, "), }");
    while (!dict.failed && (MAGIC + 4 + dict.len + 1) % ALIGNMENT)
        tmk_text_puts(&dict, " ");
    tmk_text_puts(&dict, "\n");
    if (!dict.failed) {
        char preamble[4] = {1, 0, (char)(dict.len & 255), (char)(dict.len >> 8)};
        tmk_text_append(out, magic, MAGIC);
        tmk_text_append(out, preamble, sizeof preamble);
        tmk_text_append(out, dict.data, dict.len);
    }
    bool failed = dict.failed || out->failed;
    tmk_text_finish(&dict);
    return failed ? tmk_nomem(diag) : TMK_OK;
}

enum tmk_status tmk_npy_header(const struct tmk_tensor *tensor, char **out, size_t *len,
                               struct tmk_diag *diag) {
    struct tmk_text text = {0};
    TMK_TRY(tmk_npy_write_header(tensor, &text, diag));
    *len = text.len;
    *out = tmk_text_release(&text);
    return TMK_OK;
}
