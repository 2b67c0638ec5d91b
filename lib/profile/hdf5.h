/* SPDX-License-Identifier: Apache-2.0 */
/* What reading and writing HDF5 share: the columns of the tables, identifiers that are closed
 * together, errors that stick. Built only where HDF5 is there. HDF5 prints nothing between begin
 * and end. */
#ifndef TMK_PROFILE_HDF5_H
#define TMK_PROFILE_HDF5_H

#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/status.h>

/* A session with the library. After the first failure `failed` stays, `why` says it in HDF5's
 * words, and whatever is called with an identifier that was not got fails too; so callers check
 * once at their end. */
struct tmk_h5 {
    bool failed;
    char why[200];
    hid_t kept[48];
    size_t n_kept;
    H5E_auto2_t printer;
    void *printer_data;
};

void tmk_h5_begin(struct tmk_h5 *h);
/* Closes what is kept, last first, and gives HDF5 its error printer back. */
void tmk_h5_end(struct tmk_h5 *h);
/* Keeps an identifier of any kind until its release; negative is a failure. Returns it. */
hid_t tmk_h5_keep(struct tmk_h5 *h, hid_t id);
/* Closes what was kept since h->n_kept was `mark`. */
void tmk_h5_release(struct tmk_h5 *h, size_t mark);
/* Notes a call's failure (negative). Returns !h->failed. */
bool tmk_h5_ok(struct tmk_h5 *h, herr_t result);

/* A column of a table, and the member of the C struct that holds it. */
enum tmk_h5_type {
    TMK_H5_U8,
    TMK_H5_U32,
    TMK_H5_U64,
    TMK_H5_I32,
    TMK_H5_I64,
    TMK_H5_F32,
    TMK_H5_F64,
    TMK_H5_WORD, /* char[TMK_H5_WORD_SIZE]: a short ASCII word, zero-padded */
    TMK_H5_TEXT, /* char *: UTF-8, in the file zero-padded to the longest of its column */
};

enum { TMK_H5_WORD_SIZE = 24 };

struct tmk_h5_column {
    const char *name;
    enum tmk_h5_type type;
    size_t offset; /* in the C struct */
    const char *units, *about;
    bool later; /* not in every version: where it is absent it is 0 */
};

struct tmk_h5_table {
    const struct tmk_h5_column *columns;
    size_t n_columns;
    size_t row; /* bytes of the C struct */
};

/* A row of /tensors: one value. */
struct tmk_h5_tensor {
    uint32_t id;
    uint64_t fingerprint, content;
    uint32_t ordinal;
    char *name, *path;
    char kind[TMK_H5_WORD_SIZE], status[TMK_H5_WORD_SIZE];
    char dtype[TMK_H5_WORD_SIZE], origin[TMK_H5_WORD_SIZE];
    char *shape, *observed_shapes; /* JSON */
    uint8_t more_shapes;
    uint64_t expected_count;
    char *producer_node, *producer_op, *producer_domain;
    int64_t producer_output; /* -1: none */
    char *derivation_rule, *derivation_from;
    char level[TMK_H5_WORD_SIZE];
    uint64_t count, samples, updates;
    float min, max;
    uint64_t min_sample, min_index, max_sample, max_index;
    uint64_t nan, posinf, neginf, first_nonfinite_sample, first_nonfinite_index;
    uint64_t zeros, negative_zeros, denormals, negatives;
    double sum, mean, std, sum_squares_low, sum_squares_high;
    int32_t channel_axis; /* -1: none */
    uint8_t channel_conflict;
    uint64_t excluded;
};

/* A row of /consumers: one reader of one value. */
struct tmk_h5_consumer {
    uint32_t tensor_id;
    char *node, *op, *domain;
    uint32_t input;
};

/* A row of /integers: what /tensors has no room for, of a value of integers. */
struct tmk_h5_integer {
    uint32_t tensor_id;
    int64_t min, max;
    uint64_t saturated;
};

extern const struct tmk_h5_table tmk_h5_tensors, tmk_h5_consumers, tmk_h5_integers;

enum { TMK_H5_MAX_COLUMNS = 64 };

/* A row in memory as HDF5 sees it: the C struct, whose text pointers HDF5 does not know, and after
 * it the texts. Texts are of fixed length, because HDF5 1.10 reads variable-length ones from
 * damaged files out of bounds. */
struct tmk_h5_layout {
    const struct tmk_h5_table *table;
    size_t size[TMK_H5_MAX_COLUMNS]; /* of a column's longest text, without a terminator */
    bool absent[TMK_H5_MAX_COLUMNS]; /* from the file */
    size_t at[TMK_H5_MAX_COLUMNS];   /* where the column's text stands in a row */
    size_t row;                      /* bytes */
};

/* No texts yet. */
void tmk_h5_layout_init(struct tmk_h5_layout *layout, const struct tmk_h5_table *table);
/* Makes room for this row's texts. */
void tmk_h5_layout_measure(struct tmk_h5_layout *layout, const void *row);
/* Places the texts, once their sizes are known; false on overflow. */
bool tmk_h5_layout_place(struct tmk_h5_layout *layout);
/* The C struct with its texts to row bytes at `to`, and the other way round: then the struct's
 * pointers show into the row. */
void tmk_h5_layout_store(const struct tmk_h5_layout *layout, const void *row, unsigned char *to);
void tmk_h5_layout_load(const struct tmk_h5_layout *layout, unsigned char *row);

/* The compound type of a table: a row in memory, or packed and little-endian in the file. Kept. */
hid_t tmk_h5_layout_type(struct tmk_h5 *h, const struct tmk_h5_layout *layout, bool in_file);
/* UTF-8 of a fixed length > 0, zero-padded in the file or terminated in memory. Kept. */
hid_t tmk_h5_text_type(struct tmk_h5 *h, size_t size, bool in_file);

#endif
