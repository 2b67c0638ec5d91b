/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/hdf5_table.h"

#include <assert.h>
#include <string.h>

#include "base/size.h"

#define LATER_COLUMN(type, member, units, about)                                                   \
    { #member, TMK_H5_##type, offsetof(struct ROW, member), units, about, true }

#define ROW tmk_h5_tensor
static const struct tmk_h5_column tensor_columns[] = {
    TMK_H5_COLUMN(U32, id, "", "profile ID: 12 is p12"),
    TMK_H5_COLUMN(U64, fingerprint, "", "hash of how the value is computed"),
    TMK_H5_COLUMN(U64, content, "", "the same, with the bytes of the weights"),
    TMK_H5_COLUMN(U32, ordinal, "", "position among the values of equal fingerprint"),
    TMK_H5_COLUMN(TEXT, name, "", "original name in the model"),
    TMK_H5_COLUMN(TEXT, path, "", "sub-graph that holds the value; empty: the main graph"),
    TMK_H5_COLUMN(WORD, kind, "", "input, weight, activation or output"),
    TMK_H5_COLUMN(WORD, status, "", "observed, never, constant, integer, dead or derived"),
    TMK_H5_COLUMN(WORD, dtype, "", "element type as it ran"),
    TMK_H5_COLUMN(WORD, origin, "", "element type in the model file"),
    TMK_H5_COLUMN(TEXT, shape, "", "declared shape, JSON; null or a name: a free dimension"),
    TMK_H5_COLUMN(TEXT, observed_shapes, "", "shapes that ran and how often, JSON"),
    TMK_H5_COLUMN(U8, more_shapes, "", "1: more distinct shapes ran than are listed"),
    TMK_H5_COLUMN(U64, expected_count, "elements", "elements of all shapes that ran"),
    TMK_H5_COLUMN(TEXT, producer_node, "", "name of the node that computes the value"),
    TMK_H5_COLUMN(TEXT, producer_op, "", "its operator"),
    TMK_H5_COLUMN(TEXT, producer_domain, "", "the operator's domain"),
    TMK_H5_COLUMN(I64, producer_output, "",
                  "position among the node's outputs; -1: no node computes it"),
    TMK_H5_COLUMN(TEXT, derivation_rule, "", "exact rule by which the statistics were derived"),
    TMK_H5_COLUMN(TEXT, derivation_from, "", "IDs that they were derived from, JSON"),
    TMK_H5_COLUMN(WORD, level, "",
                  "none, integer, minmax, range or histogram: how the numbers were kept"),
    TMK_H5_COLUMN(U64, count, "elements", "elements seen"),
    TMK_H5_COLUMN(U64, samples, "samples", "samples seen"),
    TMK_H5_COLUMN(U64, updates, "", "times the value was computed"),
    TMK_H5_COLUMN(F32, min, "1", "least finite element; NaN: there is none"),
    TMK_H5_COLUMN(F32, max, "1", "greatest finite element; NaN: there is none"),
    TMK_H5_COLUMN(U64, min_sample, "", "sample where min stands; 2^64-1: not known"),
    TMK_H5_COLUMN(U64, min_index, "", "flat index in that sample"),
    TMK_H5_COLUMN(U64, max_sample, "", "sample where max stands; 2^64-1: not known"),
    TMK_H5_COLUMN(U64, max_index, "", "flat index in that sample"),
    TMK_H5_COLUMN(U64, nan, "elements", "NaN elements"),
    TMK_H5_COLUMN(U64, posinf, "elements", "elements that are +infinity"),
    TMK_H5_COLUMN(U64, neginf, "elements", "elements that are -infinity"),
    TMK_H5_COLUMN(U64, first_nonfinite_sample, "",
                  "sample of the first NaN or infinity; 2^64-1: none"),
    TMK_H5_COLUMN(U64, first_nonfinite_index, "", "flat index in that sample"),
    TMK_H5_COLUMN(U64, zeros, "elements", "zeros of either sign"),
    TMK_H5_COLUMN(U64, negative_zeros, "elements", "zeros with the sign bit"),
    TMK_H5_COLUMN(U64, denormals, "elements", "nonzero elements below 2^-126 in magnitude"),
    TMK_H5_COLUMN(U64, negatives, "elements", "finite elements below zero"),
    TMK_H5_COLUMN(F64, sum, "1", "exact sum of the finite elements, rounded once"),
    TMK_H5_COLUMN(F64, mean, "1", "sum over the number of finite elements"),
    TMK_H5_COLUMN(F64, std, "1", "standard deviation, estimated within the bracket of the squares"),
    TMK_H5_COLUMN(F64, sum_squares_low, "1", "the sum of squares is at least this"),
    TMK_H5_COLUMN(F64, sum_squares_high, "1", "the sum of squares is at most this"),
    TMK_H5_COLUMN(I32, channel_axis, "", "axis of /channels; -1: none"),
    TMK_H5_COLUMN(U8, channel_conflict, "",
                  "1: updates disagreed on the channels, which were dropped"),
    LATER_COLUMN(U64, excluded, "elements", "elements that were left out, see the setting exclude"),
    LATER_COLUMN(F64, std_low, "1", "the standard deviation is at least this"),
    LATER_COLUMN(F64, std_high, "1", "the standard deviation is at most this"),
    LATER_COLUMN(U8, squares_kept, "", "1: /histograms/squares are known of the value"),
};
#undef ROW

#define ROW tmk_h5_consumer
static const struct tmk_h5_column consumer_columns[] = {
    TMK_H5_COLUMN(U32, tensor_id, "", "the value that is read"),
    TMK_H5_COLUMN(TEXT, node, "", "name of the node that reads it"),
    TMK_H5_COLUMN(TEXT, op, "", "its operator"),
    TMK_H5_COLUMN(TEXT, domain, "", "the operator's domain"),
    TMK_H5_COLUMN(U32, input, "", "position among the node's inputs"),
};
#undef ROW

#define ROW tmk_h5_integer
static const struct tmk_h5_column integer_columns[] = {
    TMK_H5_COLUMN(U32, tensor_id, "", "the value"),
    TMK_H5_COLUMN(I64, min, "1", "least element; 0 when there is none"),
    TMK_H5_COLUMN(I64, max, "1", "greatest element; 0 when there is none"),
    TMK_H5_COLUMN(U64, saturated, "elements", "elements above 2^63-1, which count as 2^63-1"),
};
#undef ROW

const struct tmk_h5_table tmk_h5_tensors = {tensor_columns, TMK_COUNT(tensor_columns),
                                            sizeof(struct tmk_h5_tensor)};
const struct tmk_h5_table tmk_h5_consumers = {consumer_columns, TMK_COUNT(consumer_columns),
                                              sizeof(struct tmk_h5_consumer)};
const struct tmk_h5_table tmk_h5_integers = {integer_columns, TMK_COUNT(integer_columns),
                                             sizeof(struct tmk_h5_integer)};

static_assert(TMK_COUNT(tensor_columns) <= TMK_H5_MAX_COLUMNS, "a layout holds every column");

void tmk_h5_layout_init(struct tmk_h5_layout *layout, const struct tmk_h5_table *table) {
    *layout = (struct tmk_h5_layout){.table = table};
}

static const char *text_of(const void *row, const struct tmk_h5_column *column) {
    const char *text;
    memcpy(&text, (const unsigned char *)row + column->offset, sizeof text);
    return text;
}

void tmk_h5_layout_measure(struct tmk_h5_layout *layout, const void *row) {
    for (size_t i = 0; i < layout->table->n_columns; i++) {
        const struct tmk_h5_column *column = &layout->table->columns[i];
        if (column->type != TMK_H5_TEXT)
            continue;
        size_t size = strlen(text_of(row, column));
        if (size > layout->size[i])
            layout->size[i] = size;
    }
}

bool tmk_h5_layout_place(struct tmk_h5_layout *layout) {
    size_t row = layout->table->row;
    for (size_t i = 0; i < layout->table->n_columns; i++) {
        if (layout->table->columns[i].type != TMK_H5_TEXT)
            continue;
        layout->at[i] = row;
        if (!tmk_add_size(row, layout->size[i], &row) || !tmk_add_size(row, 1, &row))
            return false;
    }
    /* the next row's struct must be aligned */
    if (!tmk_add_size(row, 15, &row))
        return false;
    layout->row = row & ~(size_t)15;
    return true;
}

void tmk_h5_layout_store(const struct tmk_h5_layout *layout, const void *row, unsigned char *to) {
    memset(to, 0, layout->row);
    memcpy(to, row, layout->table->row);
    for (size_t i = 0; i < layout->table->n_columns; i++) {
        const struct tmk_h5_column *column = &layout->table->columns[i];
        if (column->type == TMK_H5_TEXT) {
            const char *text = text_of(row, column);
            memcpy(to + layout->at[i], text, strlen(text));
        }
    }
}

void tmk_h5_layout_load(const struct tmk_h5_layout *layout, unsigned char *row) {
    for (size_t i = 0; i < layout->table->n_columns; i++) {
        const struct tmk_h5_column *column = &layout->table->columns[i];
        if (column->type == TMK_H5_WORD)
            row[column->offset + TMK_H5_WORD_SIZE - 1] = '\0';
        if (column->type == TMK_H5_TEXT) {
            char *text = (char *)row + layout->at[i];
            text[layout->size[i]] = '\0';
            memcpy(row + column->offset, &text, sizeof text);
        }
    }
}
