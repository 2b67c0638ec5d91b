/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of our HDF5 files: the columns of tables of fields, and a row of them in memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/format.h"

/* What a column holds in the file. */
enum tmk_h5_type {
    TMK_H5_U8,
    TMK_H5_U16,
    TMK_H5_U32,
    TMK_H5_U64,
    TMK_H5_I32,
    TMK_H5_I64,
    TMK_H5_F32,
    TMK_H5_F64,
    TMK_H5_WORD, /* a short ASCII word, zero-padded to TMK_H5_WORD_SIZE */
    TMK_H5_TEXT, /* UTF-8, zero-padded to the longest of its column */
};

enum { TMK_H5_WORD_SIZE = 24, TMK_H5_MAX_COLUMNS = 64, TMK_H5_MAX_PARTS = 3 };

/* The columns of some tables of fields of one struct. */
struct tmk_h5_table {
    struct {
        const struct tmk_fields *fields;
        size_t at; /* where their struct is in the record */
    } part[TMK_H5_MAX_PARTS];
    size_t record; /* bytes of the struct */
};

struct tmk_h5_column {
    const struct tmk_field *field;
    const char *name;
    enum tmk_h5_type type;
    size_t part; /* where the field's struct is in the record */
    size_t at;   /* where the column is in a row */
    size_t size; /* of a text: the longest, without a terminator */
    bool absent; /* from the file */
};

/* A row in memory as HDF5 sees it: numbers, then texts, in the order of the columns. Texts are of
 * fixed length, because HDF5 1.10 reads variable-length ones from damaged files out of bounds. */
struct tmk_h5_layout {
    const struct tmk_h5_table *table;
    struct tmk_h5_column column[TMK_H5_MAX_COLUMNS];
    size_t n;
    size_t row; /* bytes */
};

/* No texts yet. Columns that older versions lack come last. */
void tmk_h5_layout_init(struct tmk_h5_layout *layout, const struct tmk_h5_table *table);
/* Makes space for this record's texts. TMK_NOMEM. */
enum tmk_status tmk_h5_layout_measure(struct tmk_h5_layout *layout, const void *record,
                                      struct tmk_diag *diag);
/* Places the columns, once the sizes of texts are known; false on overflow. */
bool tmk_h5_layout_place(struct tmk_h5_layout *layout);
/* A record to row bytes at `to`. TMK_NOMEM. */
enum tmk_status tmk_h5_layout_store(const struct tmk_h5_layout *layout, const void *record,
                                    unsigned char *to, struct tmk_diag *diag);
/* Row bytes, whose texts are terminated in place, to a zeroed record. TMK_FORMAT. */
enum tmk_status tmk_h5_layout_load(const struct tmk_h5_layout *layout, struct tmk_field_reader *r,
                                   unsigned char *row, void *record);

/* ---- the tables and flat columns of a profile ---- */

/* A row of /consumers: one reader of one value. */
struct tmk_h5_consumer {
    uint32_t tensor_id;
    struct tmk_profile_consumer consumer;
};

/* The records of /tensors and of /integers are struct tmk_profile_row. */
extern const struct tmk_h5_table tmk_h5_tensors, tmk_h5_consumers, tmk_h5_integers;

/* A one-dimensional dataset next to others of the same length. */
struct tmk_h5_flat {
    const char *name;
    enum tmk_h5_type type;
    const char *units, *about;
    bool later; /* not in every version */
};
extern const struct tmk_h5_flat tmk_h5_ids, tmk_h5_histograms[4], tmk_h5_channels[2],
    tmk_h5_topk[5], tmk_h5_operands[2], tmk_h5_nonfinite[2];
