/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/hdf5_table.h"

#include <assert.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "base/text.h"

static enum tmk_h5_type column_type(enum tmk_field_type type) {
    switch (type) {
    case TMK_FIELD_BOOL:
    case TMK_FIELD_U8:
        return TMK_H5_U8;
    case TMK_FIELD_U32:
    case TMK_FIELD_ID:
        return TMK_H5_U32;
    case TMK_FIELD_U64:
    case TMK_FIELD_HEX:
        return TMK_H5_U64;
    case TMK_FIELD_I32:
        return TMK_H5_I32;
    case TMK_FIELD_I64:
    case TMK_FIELD_MAYBE_ID:
        return TMK_H5_I64;
    case TMK_FIELD_F32:
        return TMK_H5_F32;
    case TMK_FIELD_F64:
        return TMK_H5_F64;
    case TMK_FIELD_NAME:
    case TMK_FIELD_DTYPE:
    case TMK_FIELD_WORD:
        return TMK_H5_WORD;
    default:
        assert(type == TMK_FIELD_TEXT || type == TMK_FIELD_CODEC);
        return TMK_H5_TEXT;
    }
}

static void add_columns(struct tmk_h5_layout *layout, const struct tmk_fields *fields, size_t part,
                        bool later) {
    if (fields->before)
        add_columns(layout, fields->before, part, later);
    for (size_t i = 0; i < fields->n; i++) {
        const struct tmk_field *f = &fields->field[i];
        if (!f->about || later != !!(f->flags & TMK_FIELD_LATER))
            continue;
        assert(layout->n < TMK_H5_MAX_COLUMNS);
        layout->column[layout->n++] = (struct tmk_h5_column){
            .field = f,
            .name = f->column ? f->column : f->key,
            .type = column_type(f->type),
            .part = part,
        };
    }
}

void tmk_h5_layout_init(struct tmk_h5_layout *layout, const struct tmk_h5_table *table) {
    *layout = (struct tmk_h5_layout){.table = table};
    for (int later = 0; later < 2; later++)
        for (size_t i = 0; i < TMK_H5_MAX_PARTS && table->part[i].fields; i++)
            add_columns(layout, table->part[i].fields, table->part[i].at, later);
}

/* The column's text, in `json` where it has to be made. NULL: out of memory. */
static const char *text_of(const struct tmk_h5_column *c, const void *record, struct tmk_text *json,
                           struct tmk_diag *diag) {
    const unsigned char *part = (const unsigned char *)record + c->part;
    if (c->field->type == TMK_FIELD_TEXT)
        return TMK_CONST_MEMBER(char *, c->field, part);
    json->len = 0;
    return tmk_field_codec_text(c->field->of, part, json, diag) == TMK_OK ? json->data : NULL;
}

enum tmk_status tmk_h5_layout_measure(struct tmk_h5_layout *layout, const void *record,
                                      struct tmk_diag *diag) {
    struct tmk_text json = {0};
    enum tmk_status status = TMK_OK;
    for (size_t i = 0; i < layout->n && status == TMK_OK; i++) {
        struct tmk_h5_column *c = &layout->column[i];
        if (c->type != TMK_H5_TEXT)
            continue;
        const char *text = text_of(c, record, &json, diag);
        if (!text)
            status = tmk_nomem(diag);
        else if (strlen(text) > c->size)
            c->size = strlen(text);
    }
    tmk_text_finish(&json);
    return status;
}

static size_t number_size(enum tmk_h5_type type) {
    static const size_t of[] = {
        [TMK_H5_U8] = 1,  [TMK_H5_U32] = 4, [TMK_H5_U64] = 8, [TMK_H5_I32] = 4,
        [TMK_H5_I64] = 8, [TMK_H5_F32] = 4, [TMK_H5_F64] = 8, [TMK_H5_WORD] = TMK_H5_WORD_SIZE};
    return of[type];
}

bool tmk_h5_layout_place(struct tmk_h5_layout *layout) {
    size_t row = 0;
    for (int texts = 0; texts < 2; texts++)
        for (size_t i = 0; i < layout->n; i++) {
            struct tmk_h5_column *c = &layout->column[i];
            if ((c->type == TMK_H5_TEXT) != texts)
                continue;
            /* Aligned as in a struct; a text has its terminator. */
            size_t size = texts ? c->size : (number_size(c->type) + 7) & ~(size_t)7;
            c->at = row;
            if (!tmk_add_size(row, size, &row) || !tmk_add_size(row, texts, &row))
                return false;
        }
    /* the next row's numbers must be aligned */
    if (!tmk_add_size(row, 15, &row))
        return false;
    layout->row = row & ~(size_t)15;
    return true;
}

enum tmk_status tmk_h5_layout_store(const struct tmk_h5_layout *layout, const void *record,
                                    unsigned char *to, struct tmk_diag *diag) {
    struct tmk_text json = {0};
    enum tmk_status status = TMK_OK;
    memset(to, 0, layout->row);
    for (size_t i = 0; i < layout->n && status == TMK_OK; i++) {
        const struct tmk_h5_column *c = &layout->column[i];
        const unsigned char *part = (const unsigned char *)record + c->part;
        if (c->type == TMK_H5_TEXT) {
            const char *text = text_of(c, record, &json, diag);
            if (text)
                memcpy(to + c->at, text, strlen(text));
            else
                status = tmk_nomem(diag);
        } else if (c->type == TMK_H5_WORD) { /* cut to fit */
            const char *word = c->field->type == TMK_FIELD_WORD
                                   ? TMK_CONST_MEMBER(char *, c->field, part)
                                   : tmk_field_name(c->field, part);
            strncpy((char *)to + c->at, word, TMK_H5_WORD_SIZE - 1);
        } else {
            memcpy(to + c->at, part + c->field->at, number_size(c->type));
        }
    }
    tmk_text_finish(&json);
    return status;
}

static enum tmk_status load_json(struct tmk_field_reader *r, const struct tmk_h5_column *c,
                                 const char *text, void *part) {
    const struct tmk_field_codec *codec = c->field->of;
    cJSON *item;
    TMK_TRY(tmk_json_parse(text, strlen(text), &item, r->diag));
    enum tmk_status status = codec->get(r, item, part);
    cJSON_Delete(item);
    return status;
}

static enum tmk_status load_text(struct tmk_field_reader *r, const struct tmk_h5_column *c,
                                 const char *text, unsigned char *part) {
    switch (c->field->type) {
    case TMK_FIELD_CODEC:
        return tmk_in(r->diag, load_json(r, c, text, part), "'%s'", c->name);
    case TMK_FIELD_TEXT:
    case TMK_FIELD_WORD:
        return tmk_field_keep(r, text, &TMK_MEMBER(const char *, c->field, part));
    default:
        if (!tmk_utf8_valid(text, strlen(text)))
            return tmk_fail(r->diag, TMK_FORMAT, "a word that is not UTF-8");
        return tmk_field_by_name(c->field, text, part, r->diag);
    }
}

enum tmk_status tmk_h5_layout_load(const struct tmk_h5_layout *layout, struct tmk_field_reader *r,
                                   unsigned char *row, void *record) {
    for (size_t i = 0; i < layout->n; i++) {
        const struct tmk_h5_column *c = &layout->column[i];
        unsigned char *part = (unsigned char *)record + c->part;
        if (c->absent)
            continue;
        if (c->field->type == TMK_FIELD_BOOL) {
            TMK_MEMBER(bool, c->field, part) = row[c->at] != 0;
        } else if (c->type < TMK_H5_WORD) {
            memcpy(part + c->field->at, row + c->at, number_size(c->type));
        } else {
            row[c->at + (c->type == TMK_H5_WORD ? TMK_H5_WORD_SIZE - 1 : c->size)] = '\0';
            TMK_TRY(load_text(r, c, (const char *)row + c->at, part));
        }
    }
    return TMK_OK;
}

#define RECORD tmk_h5_consumer
static const struct tmk_field reader_table[] = {
    TMK_COLUMN_ONLY("tensor_id", U32, tensor_id, "", "the value that is read"),
};
#undef RECORD
static const struct tmk_fields reader_fields = TMK_FIELDS(reader_table, );

const struct tmk_h5_table tmk_h5_tensors = {{{&tmk_profile_float_fields, 0}},
                                            sizeof(struct tmk_profile_row)},
                          tmk_h5_integers = {{{&tmk_profile_integer_columns, 0}},
                                             sizeof(struct tmk_profile_row)},
                          tmk_h5_consumers = {{{&reader_fields, 0},
                                               {&tmk_profile_consumer_fields,
                                                offsetof(struct tmk_h5_consumer, consumer)}},
                                              sizeof(struct tmk_h5_consumer)};

const struct tmk_h5_flat
    tmk_h5_ids = {"tensor", TMK_H5_U32, "", "profile IDs: the dimension of /tensors", false},
    tmk_h5_histograms[] =
        {
            {"bins", TMK_H5_U16, "", "upper 16 bits of the float32: position in /bin_edges", false},
            {"counts", TMK_H5_U64, "elements", "elements in the bin", false},
            {"low", TMK_H5_U64, "", "sum of the mantissa bits that the bin drops", false},
            {"squares", TMK_H5_U64, "", "sum of their squares, of values with squares_kept; else 0",
             true},
},
    tmk_h5_channels[] =
        {
            {"min", TMK_H5_F32, "1", "least finite element of the channel; NaN: there is none",
             false},
            {"max", TMK_H5_F32, "1", "greatest finite element of the channel; NaN: there is none",
             false},
},
    tmk_h5_topk[] =
        {
            {"tensor", TMK_H5_U32, "", "profile ID; its rows begin with the furthest sample",
             false},
            {"min", TMK_H5_F32, "1", "least finite element of a sample", false},
            {"min_sample", TMK_H5_U64, "", "the sample that has it", false},
            {"max", TMK_H5_F32, "1", "greatest finite element of a sample", false},
            {"max_sample", TMK_H5_U64, "", "the sample that has it", false},
},
    tmk_h5_operands[] =
        {
            {"tensor", TMK_H5_U32, "", "profile ID of a value", false},
            {"operand", TMK_H5_U32, "", "profile ID of a value that it is computed from", false},
},
    tmk_h5_nonfinite[] = {
        {"tensor", TMK_H5_U32, "", "profile ID of a value that was not always finite", false},
        {"from", TMK_H5_I64, "", "profile ID of the value it has that from; -1: it began", false},
};
