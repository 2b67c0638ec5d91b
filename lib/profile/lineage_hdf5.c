/* SPDX-License-Identifier: Apache-2.0 */
/* A lineage as HDF5: tables of originals, values, numbers by channel, and absorbers' edges. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/size.h"
#include "profile/hdf5_in.h"
#include "profile/hdf5_out.h"
#include "profile/lineage_format.h"

/* ---- the tables ---- */

/* A row of /values. */
struct value_row {
    uint32_t id;
    struct tmk_lineage_value value;
};

/* A row of /originals. */
struct original_row {
    uint32_t id;
    struct tmk_lineage_original original;
    int32_t channel_axis;
    const char *integers;
};

/* A row of /numbers: one channel of one original. */
struct number {
    uint32_t original_id;
    double scale, shift;
    int64_t zero_point;
};

/* A row of /edges: an original on an edge of an absorber. */
struct edge {
    uint32_t original_id, edge_id;
    uint8_t output;
};

#define RECORD original_row
static const struct tmk_field id_columns[] = {
    TMK_COLUMN_ONLY("id", U32, id, "", "ID in its own model"),
};
static const struct tmk_field original_columns[] = {
    TMK_COLUMN_ONLY("channel_axis", I32, channel_axis, "",
                    "axis of the value that /numbers go along; -1: one number"),
    TMK_COLUMN_ONLY("integers", WORD, integers, "",
                    "element type of the quantized value; empty: it is not quantized"),
    TMK_COLUMN_ONLY("absorber_node", TEXT, original.absorber.node, "",
                    "name of the node that has it inside"),
    TMK_COLUMN_ONLY("absorber_op", TEXT, original.absorber.op, "", "its operator"),
    TMK_COLUMN_ONLY("absorber_domain", TEXT, original.absorber.domain, "", "the operator's domain"),
};
#undef RECORD
#define RECORD number
static const struct tmk_field number_columns[] = {
    TMK_COLUMN_ONLY("original_id", U32, original_id, "",
                    "the original; its channels stand in order"),
    TMK_COLUMN_ONLY("scale", F64, scale, "1",
                    "affine: value / original; quantized: original / value"),
    TMK_COLUMN_ONLY("shift", F64, shift, "1", "affine: added to the value"),
    TMK_COLUMN_ONLY("zero_point", I64, zero_point, "1", "quantized: subtracted from the value"),
};
#undef RECORD
#define RECORD edge
static const struct tmk_field edge_columns[] = {
    TMK_COLUMN_ONLY("original_id", U32, original_id, "", "an absorbed original"),
    TMK_COLUMN_ONLY("edge_id", U32, edge_id, "", "an original that its absorber reads or makes"),
    TMK_COLUMN_ONLY("output", U8, output, "", "0: reads, 1: makes"),
};
#undef RECORD
static_assert(offsetof(struct value_row, id) == offsetof(struct original_row, id), "one column");
static const struct tmk_fields id_fields = TMK_FIELDS(id_columns, ),
                               original_fields = TMK_FIELDS(original_columns, ),
                               number_fields = TMK_FIELDS(number_columns, ),
                               edge_fields = TMK_FIELDS(edge_columns, );
static const struct tmk_h5_table original_table = {{{&id_fields, 0},
                                                    {&tmk_lineage_original_fields,
                                                     offsetof(struct original_row, original)},
                                                    {&original_fields, 0}},
                                                   sizeof(struct original_row)},
                                 value_table = {{{&id_fields, 0},
                                                 {&tmk_lineage_value_fields,
                                                  offsetof(struct value_row, value)}},
                                                sizeof(struct value_row)},
                                 number_table = {{{&number_fields, 0}}, sizeof(struct number)},
                                 edge_table = {{{&edge_fields, 0}}, sizeof(struct edge)};

/* ---- writing ---- */

static bool next_value(const void *source, struct tmk_h5_cursor *cursor, void *to) {
    const struct tmk_lineage_record *record = source;
    const uint32_t id = cursor->item++;
    if (id == record->n_values)
        return false;
    *(struct value_row *)to = (struct value_row){id, record->values[id]};
    return true;
}

static bool next_original(const void *source, struct tmk_h5_cursor *cursor, void *to) {
    const struct tmk_lineage_record *record = source;
    const uint32_t id = cursor->item++;
    if (id == record->n_originals)
        return false;
    const struct tmk_lineage_original *o = &record->originals[id];
    *(struct original_row *)to = (struct original_row){
        .id = id,
        .original = *o,
        .channel_axis = o->affine.n > 1      ? o->affine.axis
                        : o->quantized.n > 1 ? o->quantized.axis
                                             : -1,
        .integers = o->quantized.n ? tmk_dtype_name(o->quantized.dtype) : "",
    };
    return true;
}

static bool next_number(const void *source, struct tmk_h5_cursor *cursor, void *to) {
    const struct tmk_lineage_record *record = source;
    struct number *row = to;
    for (; cursor->item < record->n_originals; cursor->item++, cursor->part = 0) {
        const struct tmk_lineage_original *o = &record->originals[cursor->item];
        if (cursor->part >= o->affine.n + o->quantized.n)
            continue;
        uint32_t c = cursor->part++;
        if (o->affine.n)
            *row = (struct number){cursor->item, o->affine.scale[c], o->affine.shift[c], 0};
        else
            *row =
                (struct number){cursor->item, o->quantized.scale[c], 0, o->quantized.zero_point[c]};
        return true;
    }
    return false;
}

static bool next_edge(const void *source, struct tmk_h5_cursor *cursor, void *to) {
    const struct tmk_lineage_record *record = source;
    struct edge *row = to;
    for (; cursor->item < record->n_originals; cursor->item++, cursor->part = 0) {
        const struct tmk_lineage_absorber *by = &record->originals[cursor->item].absorber;
        uint32_t i = cursor->part;
        if (i >= by->n_inputs + by->n_outputs)
            continue;
        bool output = i >= by->n_inputs;
        row->original_id = cursor->item;
        row->edge_id = output ? by->outputs[i - by->n_inputs] : by->inputs[i];
        row->output = output;
        cursor->part++;
        return true;
    }
    return false;
}

static enum tmk_status write_parts(struct tmk_h5 *h, hid_t file,
                                   const struct tmk_lineage_record *record, struct tmk_diag *diag) {
    const struct {
        const char *name, *about;
        struct tmk_h5_rows rows;
    } tables[] = {
        {"originals",
         "one row a value of the original model",
         {&original_table, record, next_original}},
        {"values", "one row a value of the transformed model", {&value_table, record, next_value}},
        {"numbers",
         "scales, shifts and zero points of originals",
         {&number_table, record, next_number}},
        {"edges",
         "originals on the edges of the operators that absorbed others",
         {&edge_table, record, next_edge}},
    };
    tmk_h5_put_text(h, file, "title", "what became of each value of a neural network");
    tmk_h5_put_text(h, file, "format", TMK_LINEAGE_FORMAT);
    struct tmk_text text = {0};
    enum tmk_status status =
        tmk_fields_object_text(&tmk_lineage_header_fields, record, 0, &text, diag);
    if (status == TMK_OK)
        tmk_h5_new_header(h, file, &text);
    tmk_text_finish(&text);
    TMK_TRY(status);
    for (size_t i = 0; i < TMK_COUNT(tables) && !h->failed; i++) {
        size_t mark = h->n_kept;
        TMK_TRY(tmk_h5_new_table(h, file, tables[i].name, tables[i].about, &tables[i].rows, NULL,
                                 diag));
        tmk_h5_release(h, mark);
    }
    return TMK_OK;
}

enum tmk_status tmk_lineage_write_hdf5(const struct tmk_lineage_record *record,
                                       struct tmk_outfile *out, struct tmk_diag *diag) {
    struct tmk_h5 h;
    struct tmk_h5_image image = {NULL};
    tmk_h5_begin(&h);
    hid_t file = tmk_h5_image_open(&h, &image);
    size_t mark = h.n_kept;
    enum tmk_status status = h.failed ? TMK_OK : write_parts(&h, file, record, diag);
    tmk_h5_release(&h, mark);
    return tmk_h5_image_finish(&h, file, &image, status, out, diag);
}

/* ---- reading ---- */

/* What the rows go to. Numbers and edges are gathered, and assigned once all are read. */
struct gathered {
    struct tmk_lineage_record *record;
    uint32_t at, limit; /* rows of the table so far, and the capacity */
    struct number *numbers;
    struct edge *edges;
    uint32_t n_numbers, n_edges;
};

/* A table was counted before it is read, and the file may have changed. */
static enum tmk_status next_row(struct tmk_h5_reader *r, struct gathered *g, uint32_t *at) {
    if (g->at == g->limit)
        return tmk_fail(r->diag, TMK_FORMAT, "the table has become longer");
    *at = g->at++;
    return TMK_OK;
}

/* `id`: from the row. */
static enum tmk_status next_entry(struct tmk_h5_reader *r, struct gathered *g, uint32_t id,
                                  uint32_t *at) {
    TMK_TRY(next_row(r, g, at));
    if (id != *at)
        return tmk_fail(r->diag, TMK_FORMAT, "'id' is p%" PRIu32 " where p%" PRIu32 " belongs", id,
                        *at);
    return TMK_OK;
}

static enum tmk_status load_value(struct tmk_h5_reader *r, enum tmk_status loaded, void *record,
                                  void *context) {
    struct gathered *g = context;
    const struct value_row *row = record;
    uint32_t at;
    TMK_TRY(loaded);
    TMK_TRY(next_entry(r, g, row->id, &at));
    g->record->values[at] = row->value;
    return TMK_OK;
}

static enum tmk_status load_original(struct tmk_h5_reader *r, enum tmk_status loaded, void *record,
                                     void *context) {
    struct gathered *g = context;
    struct original_row *row = record;
    struct tmk_lineage_original *o = &row->original;
    const struct tmk_field integers = {.key = "integers",
                                       .type = TMK_FIELD_DTYPE,
                                       .at = offsetof(struct tmk_lineage_quantized, dtype)};
    uint32_t at;
    TMK_TRY(loaded);
    TMK_TRY(next_entry(r, g, row->id, &at));
    o->affine.axis = o->quantized.axis = row->channel_axis < 0 ? 0 : row->channel_axis;
    if (*row->integers)
        TMK_TRY(tmk_field_by_name(&integers, row->integers, &o->quantized, r->diag));
    g->record->originals[at] = *o;
    return TMK_OK;
}

static enum tmk_status load_number(struct tmk_h5_reader *r, enum tmk_status loaded, void *record,
                                   void *context) {
    struct gathered *g = context;
    uint32_t at;
    TMK_TRY(loaded);
    TMK_TRY(next_row(r, g, &at));
    g->numbers[at] = *(const struct number *)record;
    g->n_numbers = g->at;
    return TMK_OK;
}

static enum tmk_status load_edge(struct tmk_h5_reader *r, enum tmk_status loaded, void *record,
                                 void *context) {
    struct gathered *g = context;
    uint32_t at;
    TMK_TRY(loaded);
    TMK_TRY(next_row(r, g, &at));
    g->edges[at] = *(const struct edge *)record;
    g->n_edges = g->at;
    return TMK_OK;
}

static enum tmk_status give_numbers(struct tmk_h5_reader *r, struct gathered *g) {
    for (uint32_t at = 0, n; at < g->n_numbers; at += n) {
        uint32_t id = g->numbers[at].original_id;
        /* The rows from `at` on that are of this original: how many. */
        uint32_t end = at;
        while (end < g->n_numbers && g->numbers[end].original_id == id)
            end++;
        n = end - at;
        if (id >= g->record->n_originals || g->record->originals[id].affine.n ||
            g->record->originals[id].quantized.n)
            return tmk_fail(r->diag, TMK_FORMAT,
                            "'numbers': p%" PRIu32 " is no original, or stands twice", id);
        struct tmk_lineage_original *o = &g->record->originals[id];
        double *scale = tmk_lineage_record_array(g->record, n, sizeof *scale),
               *shift = tmk_lineage_record_array(g->record, n, sizeof *shift);
        int64_t *zero = tmk_lineage_record_array(g->record, n, sizeof *zero);
        TMK_TRY_ALLOC(scale && shift && zero, r->diag);
        for (uint32_t i = 0; i < n; i++) {
            scale[i] = g->numbers[at + i].scale;
            shift[i] = g->numbers[at + i].shift;
            zero[i] = g->numbers[at + i].zero_point;
        }
        if (o->quantized.dtype != TMK_UNDEFINED)
            o->quantized = (struct tmk_lineage_quantized){o->quantized.dtype, n, o->quantized.axis,
                                                          scale, zero};
        else
            o->affine = (struct tmk_lineage_affine){n, o->affine.axis, scale, shift};
    }
    return TMK_OK;
}

/* Rows of a table of the root, which the file can hold. */
static enum tmk_status count_rows(struct tmk_h5_reader *r, const char *name, uint32_t *out) {
    struct tmk_hdf5_dataset set;
    TMK_TRY(tmk_h5_open_dataset(r, name, 1, &set));
    if (set.dim[0] > UINT32_MAX / 2)
        return tmk_fail(r->diag, TMK_FORMAT, "'%s' has too many rows", name);
    *out = (uint32_t)set.dim[0];
    return TMK_OK;
}

static enum tmk_status read_table(struct tmk_h5_reader *r, const char *name,
                                  const struct tmk_h5_table *table, uint32_t limit,
                                  tmk_h5_row_reader *load, struct gathered *g) {
    g->at = 0;
    g->limit = limit;
    TMK_TRY(tmk_h5_each_row(r, name, table, load, g));
    return g->at == limit ? TMK_OK : tmk_fail(r->diag, TMK_FORMAT, "'%s' has become shorter", name);
}

static enum tmk_status read_rows(struct tmk_h5_reader *r, struct gathered *g, uint32_t n_numbers,
                                 uint32_t n_edges) {
    cJSON *header;
    g->numbers = calloc((size_t)n_numbers + 1, sizeof *g->numbers);
    g->edges = calloc((size_t)n_edges + 1, sizeof *g->edges);
    TMK_TRY_ALLOC(g->numbers && g->edges, r->diag);
    TMK_TRY(tmk_h5_read_header(r, &header));
    r->fields = tmk_lineage_reader(g->record, r->diag);
    enum tmk_status status =
        tmk_fields_get(&r->fields, &tmk_lineage_header_fields, header, g->record);
    cJSON_Delete(header);
    TMK_TRY(tmk_in(r->diag, status, "'header'"));
    TMK_TRY(read_table(r, "originals", &original_table, g->record->n_originals, load_original, g));
    TMK_TRY(read_table(r, "values", &value_table, g->record->n_values, load_value, g));
    TMK_TRY(read_table(r, "numbers", &number_table, n_numbers, load_number, g));
    TMK_TRY(read_table(r, "edges", &edge_table, n_edges, load_edge, g));
    TMK_TRY(give_numbers(r, g));
    for (uint32_t at = 0, end; at < g->n_edges; at = end) {
        uint32_t id = g->edges[at].original_id;
        for (end = at; end < g->n_edges && g->edges[end].original_id == id;)
            end++;
        if (id >= g->record->n_originals || g->record->originals[id].absorber.inputs)
            return tmk_fail(r->diag, TMK_FORMAT,
                            "'edges': p%" PRIu32 " is no original, or stands twice", id);
        struct tmk_lineage_absorber *by = &g->record->originals[id].absorber;
        by->inputs = tmk_lineage_record_array(g->record, end - at, sizeof(uint32_t));
        by->outputs = tmk_lineage_record_array(g->record, end - at, sizeof(uint32_t));
        TMK_TRY_ALLOC(by->inputs && by->outputs, r->diag);
        for (uint32_t i = at; i < end; i++)
            if (g->edges[i].output)
                by->outputs[by->n_outputs++] = g->edges[i].edge_id;
            else
                by->inputs[by->n_inputs++] = g->edges[i].edge_id;
    }
    return tmk_lineage_record_finalize(g->record, r->diag);
}

static enum tmk_status read_file(struct tmk_h5_reader *r, const char *path,
                                 struct tmk_lineage_record **out) {
    uint32_t originals, values, numbers, edges;
    struct gathered g = {0};
    TMK_TRY(tmk_h5_begin_file(r, path));
    TMK_TRY(count_rows(r, "originals", &originals));
    TMK_TRY(count_rows(r, "values", &values));
    TMK_TRY(count_rows(r, "numbers", &numbers));
    TMK_TRY(count_rows(r, "edges", &edges));
    TMK_TRY(tmk_lineage_record_create(originals, values, &g.record, r->diag));
    enum tmk_status status = read_rows(r, &g, numbers, edges);
    free(g.numbers);
    free(g.edges);
    if (status == TMK_OK)
        *out = g.record;
    else
        tmk_lineage_record_destroy(&g.record);
    return status;
}

enum tmk_status tmk_lineage_read_hdf5(const char *path, struct tmk_lineage_record **out,
                                      struct tmk_diag *diag) {
    struct tmk_h5_reader r = {.diag = diag};
    enum tmk_status status = read_file(&r, path, out);
    tmk_h5_end_file(&r);
    return status;
}
