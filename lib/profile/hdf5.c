/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/hdf5.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"

void tmk_h5_begin(struct tmk_h5 *h) {
    *h = (struct tmk_h5){0};
    /* After some damaged files HDF5 cannot end, and says so on stderr when the program exits.
     * Everything of ours is closed by then, so it need not end. Without effect where the program
     * has used HDF5 before. */
    (void)H5dont_atexit();
    H5Eget_auto2(H5E_DEFAULT, &h->printer, &h->printer_data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

void tmk_h5_end(struct tmk_h5 *h) {
    tmk_h5_release(h, 0);
    H5Eset_auto2(H5E_DEFAULT, h->printer, h->printer_data);
}

static herr_t note_innermost(unsigned n, const H5E_error2_t *error, void *context) {
    struct tmk_h5 *h = context;
    if (n == 0 && error->desc)
        snprintf(h->why, sizeof h->why, "%s", error->desc);
    return 0;
}

bool tmk_h5_ok(struct tmk_h5 *h, herr_t result) {
    if (result < 0 && !h->failed) {
        h->failed = true;
        snprintf(h->why, sizeof h->why, "a call failed");
        H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, note_innermost, h);
    }
    return !h->failed;
}

hid_t tmk_h5_keep(struct tmk_h5 *h, hid_t id) {
    if (id < 0) {
        (void)tmk_h5_ok(h, -1);
        return id;
    }
    if (h->n_kept == TMK_COUNT(h->kept)) {
        H5Idec_ref(id);
        h->failed = true;
        snprintf(h->why, sizeof h->why, "too many open identifiers");
        return -1;
    }
    h->kept[h->n_kept++] = id;
    return id;
}

void tmk_h5_release(struct tmk_h5 *h, size_t mark) {
    while (h->n_kept > mark)
        H5Idec_ref(h->kept[--h->n_kept]);
}

#define COLUMN(type, member, units, about)                                                         \
    { #member, TMK_H5_##type, offsetof(struct ROW, member), units, about, false }
#define LATER_COLUMN(type, member, units, about)                                                   \
    { #member, TMK_H5_##type, offsetof(struct ROW, member), units, about, true }

#define ROW tmk_h5_tensor
static const struct tmk_h5_column tensor_columns[] = {
    COLUMN(U32, id, "", "profile ID: 12 is p12"),
    COLUMN(U64, fingerprint, "", "hash of how the value is computed"),
    COLUMN(U64, content, "", "the same, with the bytes of the weights"),
    COLUMN(U32, ordinal, "", "position among the values of equal fingerprint"),
    COLUMN(TEXT, name, "", "original name in the model"),
    COLUMN(TEXT, path, "", "sub-graph that holds the value; empty: the main graph"),
    COLUMN(WORD, kind, "", "input, weight, activation or output"),
    COLUMN(WORD, status, "", "observed, never, constant, integer, dead or derived"),
    COLUMN(WORD, dtype, "", "element type as it ran"),
    COLUMN(WORD, origin, "", "element type in the model file"),
    COLUMN(TEXT, shape, "", "declared shape, JSON; null or a name: a free dimension"),
    COLUMN(TEXT, observed_shapes, "", "shapes that ran and how often, JSON"),
    COLUMN(U8, more_shapes, "", "1: more distinct shapes ran than are listed"),
    COLUMN(U64, expected_count, "elements", "elements of all shapes that ran"),
    COLUMN(TEXT, producer_node, "", "name of the node that computes the value"),
    COLUMN(TEXT, producer_op, "", "its operator"),
    COLUMN(TEXT, producer_domain, "", "the operator's domain"),
    COLUMN(I64, producer_output, "", "position among the node's outputs; -1: no node computes it"),
    COLUMN(TEXT, derivation_rule, "", "exact rule by which the statistics were derived"),
    COLUMN(TEXT, derivation_from, "", "IDs that they were derived from, JSON"),
    COLUMN(WORD, level, "", "none, integer, minmax, range or histogram: how the numbers were kept"),
    COLUMN(U64, count, "elements", "elements seen"),
    COLUMN(U64, samples, "samples", "samples seen"),
    COLUMN(U64, updates, "", "times the value was computed"),
    COLUMN(F32, min, "1", "least finite element; NaN: there is none"),
    COLUMN(F32, max, "1", "greatest finite element; NaN: there is none"),
    COLUMN(U64, min_sample, "", "sample where min stands; 2^64-1: not known"),
    COLUMN(U64, min_index, "", "flat index in that sample"),
    COLUMN(U64, max_sample, "", "sample where max stands; 2^64-1: not known"),
    COLUMN(U64, max_index, "", "flat index in that sample"),
    COLUMN(U64, nan, "elements", "NaN elements"),
    COLUMN(U64, posinf, "elements", "elements that are +infinity"),
    COLUMN(U64, neginf, "elements", "elements that are -infinity"),
    COLUMN(U64, first_nonfinite_sample, "", "sample of the first NaN or infinity; 2^64-1: none"),
    COLUMN(U64, first_nonfinite_index, "", "flat index in that sample"),
    COLUMN(U64, zeros, "elements", "zeros of either sign"),
    COLUMN(U64, negative_zeros, "elements", "zeros with the sign bit"),
    COLUMN(U64, denormals, "elements", "nonzero elements below 2^-126 in magnitude"),
    COLUMN(U64, negatives, "elements", "finite elements below zero"),
    COLUMN(F64, sum, "1", "exact sum of the finite elements, rounded once"),
    COLUMN(F64, mean, "1", "sum over the number of finite elements"),
    COLUMN(F64, std, "1", "standard deviation, estimated within the bracket of the squares"),
    COLUMN(F64, sum_squares_low, "1", "the sum of squares is at least this"),
    COLUMN(F64, sum_squares_high, "1", "the sum of squares is at most this"),
    COLUMN(I32, channel_axis, "", "axis of /channels; -1: none"),
    COLUMN(U8, channel_conflict, "", "1: updates disagreed on the channels, which were dropped"),
    LATER_COLUMN(U64, excluded, "elements", "elements that were left out, see the setting exclude"),
};
#undef ROW

#define ROW tmk_h5_consumer
static const struct tmk_h5_column consumer_columns[] = {
    COLUMN(U32, tensor_id, "", "the value that is read"),
    COLUMN(TEXT, node, "", "name of the node that reads it"),
    COLUMN(TEXT, op, "", "its operator"),
    COLUMN(TEXT, domain, "", "the operator's domain"),
    COLUMN(U32, input, "", "position among the node's inputs"),
};
#undef ROW

#define ROW tmk_h5_integer
static const struct tmk_h5_column integer_columns[] = {
    COLUMN(U32, tensor_id, "", "the value"),
    COLUMN(I64, min, "1", "least element; 0 when there is none"),
    COLUMN(I64, max, "1", "greatest element; 0 when there is none"),
    COLUMN(U64, saturated, "elements", "elements above 2^63-1, which count as 2^63-1"),
};
#undef ROW

const struct tmk_h5_table tmk_h5_tensors = {tensor_columns, TMK_COUNT(tensor_columns),
                                            sizeof(struct tmk_h5_tensor)};
const struct tmk_h5_table tmk_h5_consumers = {consumer_columns, TMK_COUNT(consumer_columns),
                                              sizeof(struct tmk_h5_consumer)};
const struct tmk_h5_table tmk_h5_integers = {integer_columns, TMK_COUNT(integer_columns),
                                             sizeof(struct tmk_h5_integer)};

static_assert(TMK_COUNT(tensor_columns) <= TMK_H5_MAX_COLUMNS, "a layout holds every column");

hid_t tmk_h5_text_type(struct tmk_h5 *h, size_t size, bool in_file) {
    hid_t id = tmk_h5_keep(h, H5Tcopy(H5T_C_S1));
    tmk_h5_ok(h, H5Tset_size(id, size));
    tmk_h5_ok(h, H5Tset_strpad(id, in_file ? H5T_STR_NULLPAD : H5T_STR_NULLTERM));
    tmk_h5_ok(h, H5Tset_cset(id, H5T_CSET_UTF8));
    return id;
}

static hid_t element_type(struct tmk_h5 *h, enum tmk_h5_type type, size_t text, bool in_file) {
    switch (type) {
    case TMK_H5_U8:
        return in_file ? H5T_STD_U8LE : H5T_NATIVE_UINT8;
    case TMK_H5_U32:
        return in_file ? H5T_STD_U32LE : H5T_NATIVE_UINT32;
    case TMK_H5_U64:
        return in_file ? H5T_STD_U64LE : H5T_NATIVE_UINT64;
    case TMK_H5_I32:
        return in_file ? H5T_STD_I32LE : H5T_NATIVE_INT32;
    case TMK_H5_I64:
        return in_file ? H5T_STD_I64LE : H5T_NATIVE_INT64;
    case TMK_H5_F32:
        return in_file ? H5T_IEEE_F32LE : H5T_NATIVE_FLOAT;
    case TMK_H5_F64:
        return in_file ? H5T_IEEE_F64LE : H5T_NATIVE_DOUBLE;
    case TMK_H5_WORD:
        return tmk_h5_text_type(h, TMK_H5_WORD_SIZE, in_file);
    case TMK_H5_TEXT:
        break;
    }
    return tmk_h5_text_type(h, in_file && text ? text : text + 1, in_file);
}

hid_t tmk_h5_layout_type(struct tmk_h5 *h, const struct tmk_h5_layout *layout, bool in_file) {
    hid_t compound = H5Tcreate(H5T_COMPOUND, layout->row);
    size_t mark = h->n_kept;
    for (size_t i = 0; i < layout->table->n_columns; i++) {
        const struct tmk_h5_column *column = &layout->table->columns[i];
        if (layout->absent[i])
            continue;
        size_t at = column->type == TMK_H5_TEXT ? layout->at[i] : column->offset;
        hid_t element = element_type(h, column->type, layout->size[i], in_file);
        tmk_h5_ok(h, H5Tinsert(compound, column->name, at, element));
        tmk_h5_release(h, mark);
    }
    if (in_file)
        tmk_h5_ok(h, H5Tpack(compound));
    return tmk_h5_keep(h, compound);
}

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
        if (column->type == TMK_H5_TEXT) {
            char *text = (char *)row + layout->at[i];
            text[layout->size[i]] = '\0';
            memcpy(row + column->offset, &text, sizeof text);
        }
    }
}
