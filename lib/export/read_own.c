/* SPDX-License-Identifier: Apache-2.0 */
/* Our own files as ranges: encodings, and profiles. */
#include <string.h>

#include <tidemark/encodings.h>

#include "base/diag.h"
#include "export/reader.h"

static bool begins_like(const char *text, size_t len, const char *format) {
    enum { HEAD = 4096 };
    return len && text[0] == '{' && tmk_text_has_word(text, len < HEAD ? len : HEAD, format);
}

static bool is_encodings(const char *path, const char *text, size_t len) {
    (void)path;
    return begins_like(text, len, "\"" TMK_ENCODINGS_FORMAT "\"");
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

static enum tmk_status read_encodings(const char *path, const char *text, size_t len,
                                      struct tmk_ranges *out, struct tmk_diag *diag) {
    (void)text;
    (void)len;
    struct tmk_encodings *encodings = NULL;
    TMK_TRY(tmk_encodings_read(path, &encodings, diag));
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

static bool is_profile(const char *path, const char *text, size_t len) {
    (void)path;
    static const char hdf5[] = "\x89HDF\r\n\x1a\n";
    return begins_like(text, len, "\"" TMK_PROFILE_FORMAT "\"") ||
           (len > sizeof hdf5 && memcmp(text, hdf5, sizeof hdf5 - 1) == 0 &&
            tmk_text_has_word(text, len, TMK_PROFILE_FORMAT));
}

static enum tmk_status read_profile(const char *path, const char *text, size_t len,
                                    struct tmk_ranges *out, struct tmk_diag *diag) {
    (void)text;
    (void)len;
    struct tmk_profile *profile = NULL;
    struct tmk_ranges *ranges = NULL;
    TMK_TRY(tmk_profile_read(path, &profile, diag));
    enum tmk_status status = tmk_ranges_of_profile(profile, &ranges, diag);
    for (uint32_t i = 0; status == TMK_OK && i < ranges->n; i++) {
        const struct tmk_range *r = &ranges->items[i];
        status = tmk_ranges_add_one(out, r->name, r->meaning, r->low[0], r->high[0], 0, diag);
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
