/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of consumers' files: one row a format, named once in export/readers.inc. Files are
 * hostile. */
#pragma once

#include <stddef.h>

#include <tidemark/ranges.h>

/* The text is not terminated. */
struct tmk_ranges_file {
    const char *path, *text;
    size_t len;
};

struct tmk_ranges_reader {
    const char *name, *help;
    const char *unnamed, *unknown; /* see tmk_ranges */
    /* Does it look like it, by its bytes or its name? */
    bool (*is)(const struct tmk_ranges_file *file);
    /* Appends all entries. */
    enum tmk_status (*read)(const struct tmk_ranges_file *file, struct tmk_ranges *out,
                            struct tmk_diag *diag);
};

/* Appends an entry with space for n >= 1 channels, zeroed but for the name, which is copied.
 * TMK_FORMAT: a name that is no UTF-8. */
enum tmk_status tmk_ranges_add(struct tmk_ranges *ranges, const char *name, size_t len, uint32_t n,
                               struct tmk_range **out, struct tmk_diag *diag);
/* The same of one channel, all fields given. TMK_FORMAT: not low <= high, or not finite. */
enum tmk_status tmk_ranges_add_one(struct tmk_ranges *ranges, const char *name,
                                   enum tmk_range_meaning meaning, double low, double high,
                                   struct tmk_diag *diag);
/* The channel's range; the same checks. */
enum tmk_status tmk_range_set(struct tmk_range *range, uint32_t channel, double low, double high,
                              double step, struct tmk_diag *diag);

/* The first of the words stands in the first bytes of the text. */
bool tmk_text_has_word(const char *text, size_t len, const char *word);

/* onert's HDF5 file: read with HDF5, or refused in a build without it. As tmk_reader.read: the
 * range of a value is that of all runs together. */
enum tmk_status tmk_read_onert(const struct tmk_ranges_file *file, struct tmk_ranges *out,
                               struct tmk_diag *diag);
