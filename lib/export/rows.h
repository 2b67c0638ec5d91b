/* SPDX-License-Identifier: Apache-2.0 */
/* What the table formats share: which encodings go into a file under which names, and how numbers
 * and names are spelled. */
#pragma once

#include "base/json.h"
#include "export/exporter.h"

struct tmk_export_row {
    const struct tmk_encoding *encoding;
    const char *name; /* the consumer's; UTF-8, not "" */
};

/* What a format holds. */
struct tmk_export_requirements {
    bool weights, biases; /* besides activations */
    bool computed; /* of the weights, those that nodes of the model compute: activations there */
    /* Not what stands in front of Relu or Clip and took over the encoding behind it: the reader
     * puts the two together, and has no tensor between them. */
    bool fused;
    /* Readers that stay float do so in the file, too. */
    bool by_reader;
    /* Why the format can't hold this encoding, or this name; NULL: it can. Either may be NULL:
     * everything fits. */
    const char *(*unfit)(const struct tmk_encoding *encoding);
    const char *(*unfit_name)(const char *name);
};

struct tmk_export_rows {
    struct tmk_export_row *items; /* in the order of the encodings, that of the network */
    size_t n;
};

/* One row for each value and each of its names; what can't be one is skipped, with the reason. Of
 * several encodings of a value the one for most readers counts. TMK_NOTFOUND: no row is left. End
 * with tmk_export_rows_finish. What has a row counts as written, unless the writer reports
 * otherwise. */
enum tmk_status tmk_export_rows_make(const struct tmk_export_job *job,
                                     const struct tmk_export_requirements *wants,
                                     struct tmk_export_rows *out, struct tmk_diag *diag);
void tmk_export_rows_finish(struct tmk_export_rows *rows);

typedef enum tmk_status tmk_export_putter(const struct tmk_export_row *row, struct tmk_text *out,
                                          struct tmk_diag *diag);

/* A text file that is made of rows: one entry after another, or as `put` makes it of all, which it
 * may take rows from. */
struct tmk_export_text {
    struct tmk_export_requirements wants;
    const char *head, *between, *tail;
    tmk_export_putter *put_row;
    enum tmk_status (*put)(const struct tmk_export_job *job, struct tmk_export_rows *rows,
                           struct tmk_text *out, struct tmk_diag *diag);
};
/* Makes the rows, and writes the file to job->path. */
enum tmk_status tmk_export_text_write(const struct tmk_export_job *job,
                                      const struct tmk_export_text *text, struct tmk_diag *diag);

/* The real range for a consumer that makes scales itself: what was chosen, over all channels; that
 * of the codes where that was nothing. low < high, finite, and 0 is between them. */
void tmk_export_range(const struct tmk_encoding *encoding, float *low, float *high);
/* Appends it: BEFORE low BETWEEN high AFTER. */
void tmk_export_put_range(const struct tmk_encoding *encoding, const char *before,
                          const char *between, const char *after, struct tmk_text *out);
/* The largest magnitude of it. */
float tmk_export_magnitude(const struct tmk_encoding *encoding);

/* Did it take over the encoding behind Relu or Clip? */
bool tmk_export_is_before_activation(const struct tmk_encoding *encoding);

/* Bits of an integer type of up to 16, 0 of others. */
uint32_t tmk_export_bits(const struct tmk_encoding *encoding);
bool tmk_export_is_signed(const struct tmk_encoding *encoding);

/* Common answers of `unfit` and `unfit_name`. */
const char *tmk_export_unfit_codes(const struct tmk_encoding *encoding); /* denormal scales */
const char *tmk_export_unfit_line(const char *name);                     /* control characters */
const char *tmk_export_unfit_word(const char *name); /* and blanks, and '#' in front */

/* A JSON string. */
enum tmk_status tmk_export_quote(struct tmk_text *out, const char *text, struct tmk_diag *diag);
