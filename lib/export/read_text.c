/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges in lines of text: TensorRT's calibration cache and dynamic ranges, ncnn's table. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/diag.h"
#include "export/reader.h"

enum { LONGEST = 64 }; /* bytes of a number */

struct lines {
    const char *at, *end;
    unsigned number; /* of the line, from 1 */
};

/* The next line without its end; false when there is none. */
static bool next_line(struct lines *lines, const char **line, size_t *len) {
    if (lines->at >= lines->end)
        return false;
    const char *end = memchr(lines->at, '\n', (size_t)(lines->end - lines->at));
    *line = lines->at;
    *len = (size_t)((end ? end : lines->end) - lines->at);
    lines->at = end ? end + 1 : lines->end;
    lines->number++;
    while (*len && strchr(" \t\r", (*line)[*len - 1]))
        --*len;
    return true;
}

static bool parse_number(const char *text, size_t len, double *out) {
    char copy[LONGEST], *end;
    if (!len || len >= sizeof copy)
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    *out = strtod(copy, &end);
    return !*end && isfinite(*out);
}

static bool is_text(const char *text, size_t len) {
    enum { HEAD = 4096 };
    return len && !memchr(text, '\0', len < HEAD ? len : HEAD);
}

static enum tmk_status bad_line(struct tmk_diag *diag, unsigned number, const char *wanted) {
    return tmk_fail(diag, TMK_FORMAT, "line %u: %s", number, wanted);
}

/* The last ':' ends a name, which may hold others. */
static const char *last_colon(const char *line, size_t len) {
    while (len-- > 0)
        if (line[len] == ':')
            return line + len;
    return NULL;
}

static enum tmk_status add_largest(struct tmk_ranges *out, const char *name, size_t len,
                                   double amax, struct tmk_diag *diag) {
    struct tmk_range *range;
    TMK_TRY(tmk_ranges_add(out, name, len, 1, &range, diag));
    range->meaning = TMK_RANGE_LARGEST;
    return tmk_range_set(range, 0, -amax, amax, 0, diag);
}

/* Lines "name: number"; the number is what `amax_of` makes of it. */
typedef bool amax_fn(const char *text, size_t len, double *amax);

static enum tmk_status read_pairs(struct lines *lines, amax_fn *amax_of, const char *wanted,
                                  struct tmk_ranges *out, struct tmk_diag *diag) {
    const char *line;
    size_t len;
    while (next_line(lines, &line, &len)) {
        const char *colon = last_colon(line, len);
        double amax;
        if (!len)
            continue;
        if (!colon)
            return bad_line(diag, lines->number, wanted);
        const char *value = colon + 1, *end = line + len;
        while (value < end && *value == ' ')
            value++;
        if (!amax_of(value, (size_t)(end - value), &amax))
            return bad_line(diag, lines->number, wanted);
        TMK_TRY(tmk_in(diag, add_largest(out, line, (size_t)(colon - line), amax, diag), "line %u",
                       lines->number));
    }
    return TMK_OK;
}

/* ---- TensorRT ---- */

static bool is_tensorrt(const struct tmk_ranges_file *file) {
    return file->len > 4 && memcmp(file->text, "TRT-", 4) == 0;
}

/* Eight hexadecimal digits: the bits of a float32, amax / 127. */
static bool tensorrt_amax(const char *text, size_t len, double *amax) {
    char copy[9];
    if (!len || len > 8)
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (strspn(copy, "0123456789abcdefABCDEF") != len)
        return false;
    *amax = fabs(127 * (double)tmk_float_of_bits((uint32_t)strtoul(copy, NULL, 16)));
    return isfinite(*amax);
}

static enum tmk_status read_tensorrt(const struct tmk_ranges_file *file, struct tmk_ranges *out,
                                     struct tmk_diag *diag) {
    struct lines lines = {file->text, file->text + file->len, 0};
    const char *line;
    size_t line_len;
    (void)next_line(&lines, &line, &line_len);
    return read_pairs(&lines, tensorrt_amax,
                      "wants 'name: ' and 8 hexadecimal digits of a finite float", out, diag);
}

const struct tmk_ranges_reader tmk_reader_tensorrt = {
    .name = "tensorrt",
    .help = "TensorRT's calibration cache, up to 10",
    .unnamed = "runs in float, without a word",
    .unknown = "is passed over",
    .is = is_tensorrt,
    .read = read_tensorrt,
};

static bool ranges_amax(const char *text, size_t len, double *amax) {
    if (!parse_number(text, len, amax))
        return false;
    *amax = fabs(*amax);
    return true;
}

static bool is_tensorrt_ranges(const struct tmk_ranges_file *file) {
    struct lines lines = {file->text, file->text + file->len, 0};
    const char *line;
    size_t n;
    double amax;
    if (!is_text(file->text, file->len) || !next_line(&lines, &line, &n))
        return false;
    const char *colon = last_colon(line, n), *end = line + n;
    if (!colon)
        return false;
    for (colon++; colon < end && *colon == ' ';)
        colon++;
    return ranges_amax(colon, (size_t)(end - colon), &amax);
}

static enum tmk_status read_tensorrt_ranges(const struct tmk_ranges_file *file,
                                            struct tmk_ranges *out, struct tmk_diag *diag) {
    struct lines lines = {file->text, file->text + file->len, 0};
    return read_pairs(&lines, ranges_amax, "wants 'name: ' and a number", out, diag);
}

const struct tmk_ranges_reader tmk_reader_tensorrt_ranges = {
    .name = "tensorrt-ranges",
    .help = "per-tensor dynamic ranges as TensorRT's sampleINT8API reads them",
    .unnamed = "runs in float, or stops the build",
    .unknown = "is passed over",
    .is = is_tensorrt_ranges,
    .read = read_tensorrt_ranges,
};

/* ---- ncnn ---- */

/* Its first line with something on it is a layer and numbers. */
static bool is_ncnn(const struct tmk_ranges_file *file) {
    struct lines lines = {file->text, file->text + file->len, 0};
    const char *line = NULL;
    size_t n = 0;
    double scale;
    if (!is_text(file->text, file->len) || !tmk_text_has_word(file->text, file->len, "_param_"))
        return false;
    do {
        if (!next_line(&lines, &line, &n))
            return false;
    } while (!n || *line == '#');
    const char *space = memchr(line, ' ', n), *end = line + n;
    if (!space)
        return false;
    while (space < end && *space == ' ')
        space++;
    const char *stop = memchr(space, ' ', (size_t)(end - space));
    return parse_number(space, (size_t)((stop ? stop : end) - space), &scale);
}

/* "conv1_param_0" is the weight of layer conv1. */
static size_t layer_of(const char *name, size_t len, enum tmk_range_subject *subject) {
    static const char suffix[] = "_param_0";
    const size_t n = sizeof suffix - 1;
    *subject = TMK_RANGE_OF_INPUT;
    if (len > n && memcmp(name + len - n, suffix, n) == 0) {
        *subject = TMK_RANGE_OF_PARAMETER;
        len -= n;
    }
    return len;
}

static enum tmk_status read_scales(const char *line, size_t len, unsigned number,
                                   struct tmk_ranges *out, struct tmk_diag *diag) {
    const char *end = line + len, *space = memchr(line, ' ', len);
    uint32_t n = 0;
    struct tmk_range *range;
    enum tmk_range_subject subject;
    if (!space)
        return bad_line(diag, number, "wants a layer and its scales");
    for (const char *at = space; at < end; at++)
        n += *at == ' ' && at + 1 < end && at[1] != ' ';
    const size_t name = layer_of(line, (size_t)(space - line), &subject);
    if (!n)
        return bad_line(diag, number, "has no scale");
    TMK_TRY(tmk_ranges_add(out, line, name, n, &range, diag));
    range->subject = subject;
    range->meaning = TMK_RANGE_LARGEST;
    uint32_t c = 0;
    for (const char *at = space; at < end && c < n;) {
        while (at < end && *at == ' ')
            at++;
        const char *stop = memchr(at, ' ', (size_t)(end - at));
        double scale;
        stop = stop ? stop : end;
        if (!parse_number(at, (size_t)(stop - at), &scale) || !(scale > 0))
            return bad_line(diag, number, "a scale is a number above 0");
        TMK_TRY(tmk_range_set(range, c++, -127 / scale, 127 / scale, 0, diag));
        at = stop;
    }
    return TMK_OK;
}

static enum tmk_status read_ncnn(const struct tmk_ranges_file *file, struct tmk_ranges *out,
                                 struct tmk_diag *diag) {
    struct lines lines = {file->text, file->text + file->len, 0};
    const char *line;
    size_t n;
    while (next_line(&lines, &line, &n)) {
        if (n && *line == '#')
            continue;
        if (!n && lines.at < lines.end)
            return bad_line(diag, lines.number,
                            "is blank: ncnn reads no further, and leaves what follows float");
        if (n)
            TMK_TRY(read_scales(line, n, lines.number, out, diag));
    }
    return TMK_OK;
}

const struct tmk_ranges_reader tmk_reader_ncnn = {
    .name = "ncnn",
    .help = "ncnn's table: scales of layers' inputs and weights",
    .unnamed = "stays float, without a word",
    .unknown = "is passed over",
    .is = is_ncnn,
    .read = read_ncnn,
};
