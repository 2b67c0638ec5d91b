/* SPDX-License-Identifier: Apache-2.0 */
/* Formats whose libraries a build may do without: the rows, and how they are recognized. */
#include <string.h>

#include "export/reader.h"
#include "export/yaml.h"

static bool is_glow(const char *path, const char *text, size_t len) {
    (void)path;
    enum { HEAD = 4096 };
    return tmk_text_has_word(text, len < HEAD ? len : HEAD, "NodeOutputName") ||
           tmk_text_has_word(text, len < HEAD ? len : HEAD, "GraphPreLowerHash");
}

const struct tmk_ranges_reader tmk_reader_glow = {
    .name = "glow",
    .help = "Glow's profile (YAML)",
    .unnamed = "stays float",
    .unknown = "is passed over; another graph's hash stops the load",
    .is = is_glow,
    .read = tmk_read_glow,
};

static bool is_rknn(const char *path, const char *text, size_t len) {
    (void)path;
    return len && *text != '{' && tmk_text_has_word(text, len, "quantize_parameters:");
}

const struct tmk_ranges_reader tmk_reader_rknn = {
    .name = "rknn",
    .help = "RKNN toolkit's .quantization.cfg (YAML)",
    .unnamed = "keeps what the toolkit found",
    .unknown = "stops the second step",
    .is = is_rknn,
    .read = tmk_read_rknn,
};

static bool is_onert(const char *path, const char *text, size_t len) {
    (void)path;
    static const char magic[] = "\x89HDF\r\n\x1a\n";
    return len > sizeof magic && memcmp(text, magic, sizeof magic - 1) == 0;
}

const struct tmk_ranges_reader tmk_reader_onert = {
    .name = "onert",
    .help = "onert's recorded ranges (HDF5)",
    .unnamed = "stays float",
    .unknown = "is passed over",
    .is = is_onert,
    .read = tmk_read_onert,
};
