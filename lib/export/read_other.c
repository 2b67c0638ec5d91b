/* SPDX-License-Identifier: Apache-2.0 */
/* Formats whose libraries a build may do without: the rows, and how they are recognized; our own
 * files as ranges. */
#include <string.h>

#include <tidemark/encodings.h>

#include "base/diag.h"
#include "export/reader.h"
#include "export/yaml.h"

static bool head_has(const struct tmk_ranges_file *file, const char *word) {
    enum { HEAD = 4096 };
    return tmk_text_has_word(file->text, file->len < HEAD ? file->len : HEAD, word);
}

static bool is_hdf5(const struct tmk_ranges_file *file) {
    static const char magic[] = "\x89HDF\r\n\x1a\n";
    return file->len > sizeof magic && memcmp(file->text, magic, sizeof magic - 1) == 0;
}

static bool is_glow(const struct tmk_ranges_file *file) {
    return head_has(file, "NodeOutputName") || head_has(file, "GraphPreLowerHash");
}

const struct tmk_ranges_reader tmk_reader_glow = {
    .name = "glow",
    .help = "Glow's profile (YAML)",
    .unnamed = "stays float",
    .unknown = "is passed over; another graph's hash stops the load",
    .is = is_glow,
    .read = tmk_read_glow,
};

static bool is_rknn(const struct tmk_ranges_file *file) {
    return file->len && *file->text != '{' &&
           tmk_text_has_word(file->text, file->len, "quantize_parameters:");
}

const struct tmk_ranges_reader tmk_reader_rknn = {
    .name = "rknn",
    .help = "RKNN toolkit's .quantization.cfg (YAML)",
    .unnamed = "keeps what the toolkit found",
    .unknown = "stops the second step",
    .is = is_rknn,
    .read = tmk_read_rknn,
};

const struct tmk_ranges_reader tmk_reader_onert = {
    .name = "onert",
    .help = "onert's recorded ranges (HDF5)",
    .unnamed = "stays float",
    .unknown = "is passed over",
    .is = is_hdf5,
    .read = tmk_read_onert,
};

/* ---- encodings, and profiles ---- */

static bool begins_like(const struct tmk_ranges_file *file, const char *format) {
    return file->len && file->text[0] == '{' && head_has(file, format);
}

static bool is_encodings(const struct tmk_ranges_file *file) {
    return begins_like(file, "\"" TMK_ENCODINGS_FORMAT "\"");
}

/* The range that was chosen: a symmetric grid, and that of a bias, reach further than anything that
 * was asked of them. */
static enum tmk_status put_encoding(const struct tmk_encoding *e, struct tmk_ranges *out,
                                    struct tmk_diag *diag) {
    struct tmk_range *range;
    TMK_TRY(tmk_ranges_add(out, e->name, strlen(e->name), e->n, &range, diag));
    range->meaning = TMK_RANGE_STEP;
    for (uint32_t c = 0; c < e->n; c++)
        TMK_TRY(tmk_range_set(range, c, (double)e->low[c], (double)e->high[c], (double)e->scale[c],
                              diag));
    return TMK_OK;
}

static enum tmk_status read_encodings(const struct tmk_ranges_file *file, struct tmk_ranges *out,
                                      struct tmk_diag *diag) {
    struct tmk_encodings *encodings = NULL;
    TMK_TRY(tmk_encodings_read(file->path, &encodings, diag));
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; status == TMK_OK && i < encodings->n_items; i++)
        if (encodings->items[i].name[0])
            status = put_encoding(&encodings->items[i], out, diag);
    tmk_encodings_destroy(&encodings);
    return status;
}

const struct tmk_ranges_reader tmk_reader_encodings = {
    .name = "encodings",
    .help = "what `tidemark calibrate` writes",
    .unnamed = "stays float",
    .unknown = "is an error of `tidemark simulate` and `export --model`",
    .is = is_encodings,
    .read = read_encodings,
};

static bool is_profile(const struct tmk_ranges_file *file) {
    return begins_like(file, "\"" TMK_PROFILE_FORMAT "\"") ||
           (is_hdf5(file) && tmk_text_has_word(file->text, file->len, TMK_PROFILE_FORMAT));
}

static enum tmk_status read_profile(const struct tmk_ranges_file *file, struct tmk_ranges *out,
                                    struct tmk_diag *diag) {
    struct tmk_profile *profile = NULL;
    struct tmk_ranges *ranges = NULL;
    TMK_TRY(tmk_profile_read(file->path, &profile, diag));
    enum tmk_status status = tmk_ranges_of_profile(profile, &ranges, diag);
    for (uint32_t i = 0; status == TMK_OK && i < ranges->n; i++) {
        const struct tmk_range *r = &ranges->items[i];
        status = tmk_ranges_add_one(out, r->name, r->meaning, r->low[0], r->high[0], diag);
    }
    tmk_ranges_destroy(&ranges);
    tmk_profile_destroy(&profile);
    return status;
}

const struct tmk_ranges_reader tmk_reader_profile = {
    .name = "profile",
    .help = "what `tidemark profile` writes",
    .unnamed = "has no range",
    .unknown = "is passed over",
    .is = is_profile,
    .read = read_profile,
};
