/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of our HDF5 files: their columns, and a row in memory. */
#ifndef TMK_PROFILE_HDF5_TABLE_H
#define TMK_PROFILE_HDF5_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* A column of a table whose row is a struct ROW, of its member's name. */
#define TMK_H5_COLUMN(type, member, units, about)                                                  \
    { #member, TMK_H5_##type, offsetof(struct ROW, member), units, about, false }

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
    double std_low, std_high;
    uint8_t squares_kept;
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

#endif
