/* SPDX-License-Identifier: Apache-2.0 */
/* A lineage as HDF5: tables of originals, values, numbers by channel, and absorbers' edges. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "base/utf8.h"
#include "profile/hdf5_image.h"
#include "profile/hdf5_in.h"
#include "profile/hdf5_out.h"
#include "profile/lineage_format.h"

/* ---- the tables ---- */

/* A row of /originals or of /values; what follows `shape` is of originals only. */
struct entry {
    uint32_t id;
    uint64_t fingerprint, content;
    uint32_t ordinal;
    char *name, *path;
    char kind[TMK_H5_WORD_SIZE], dtype[TMK_H5_WORD_SIZE];
    char *shape; /* JSON */
    char verdict[TMK_H5_WORD_SIZE];
    char *pass, *remark;
    int64_t value;
    char *view; /* JSON */
    int32_t channel_axis;
    char integers[TMK_H5_WORD_SIZE];
    char *absorber_node, *absorber_op, *absorber_domain;
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

#define IDENTITY_COLUMNS                                                                           \
    TMK_H5_COLUMN(U32, id, "", "ID in its own model"),                                             \
        TMK_H5_COLUMN(U64, fingerprint, "", "hash of how it is computed"),                         \
        TMK_H5_COLUMN(U64, content, "", "the same, with the bytes of the weights"),                \
        TMK_H5_COLUMN(U32, ordinal, "", "position among the values of equal fingerprint"),         \
        TMK_H5_COLUMN(TEXT, name, "", "name in the model"),                                        \
        TMK_H5_COLUMN(TEXT, path, "", "sub-graph that holds it; empty: the main graph"),           \
        TMK_H5_COLUMN(WORD, kind, "", "input, weight, activation or output"),                      \
        TMK_H5_COLUMN(WORD, dtype, "", "element type"),                                            \
        TMK_H5_COLUMN(TEXT, shape, "", "JSON; null: a free dimension, or no shape is known")

#define ROW entry
static const struct tmk_h5_column value_columns[] = {IDENTITY_COLUMNS};
static const struct tmk_h5_column original_columns[] = {
    IDENTITY_COLUMNS,
    TMK_H5_COLUMN(WORD, verdict, "", "what became of it"),
    TMK_H5_COLUMN(TEXT, pass, "", "pass that said so"),
    TMK_H5_COLUMN(TEXT, remark, "", "what a pass had to say of it"),
    TMK_H5_COLUMN(I64, value, "", "ID of its value in /values; -1: none"),
    TMK_H5_COLUMN(TEXT, view, "",
                  "JSON: null, \"reshaped\", or axis i of the value is axis [i] of it"),
    TMK_H5_COLUMN(I32, channel_axis, "",
                  "axis of the value that /numbers go along; -1: one number"),
    TMK_H5_COLUMN(WORD, integers, "",
                  "element type of the quantized value; empty: it is not quantized"),
    TMK_H5_COLUMN(TEXT, absorber_node, "", "name of the node that has it inside"),
    TMK_H5_COLUMN(TEXT, absorber_op, "", "its operator"),
    TMK_H5_COLUMN(TEXT, absorber_domain, "", "the operator's domain"),
};
#undef ROW
#define ROW number
static const struct tmk_h5_column number_columns[] = {
    TMK_H5_COLUMN(U32, original_id, "", "the original; its channels stand in order"),
    TMK_H5_COLUMN(F64, scale, "1", "affine: value / original; quantized: original / value"),
    TMK_H5_COLUMN(F64, shift, "1", "affine: added to the value"),
    TMK_H5_COLUMN(I64, zero_point, "1", "quantized: subtracted from the value"),
};
#undef ROW
#define ROW edge
static const struct tmk_h5_column edge_columns[] = {
    TMK_H5_COLUMN(U32, original_id, "", "an absorbed original"),
    TMK_H5_COLUMN(U32, edge_id, "", "an original that its absorber reads or makes"),
    TMK_H5_COLUMN(U8, output, "", "0: reads, 1: makes"),
};
#undef ROW

static const struct tmk_h5_table original_table = {original_columns, TMK_COUNT(original_columns),
                                                   sizeof(struct entry)},
                                 value_table = {value_columns, TMK_COUNT(value_columns),
                                                sizeof(struct entry)},
                                 number_table = {number_columns, TMK_COUNT(number_columns),
                                                 sizeof(struct number)},
                                 edge_table = {edge_columns, TMK_COUNT(edge_columns),
                                               sizeof(struct edge)};

/* ---- writing ---- */

static char *borrowed(const char *text) {
    return (char *)(uintptr_t)text;
}

/* The only element of an array, as text to free. NULL: out of memory. */
static char *element_text(struct tmk_json_out *holder) {
    char *text = NULL, *copy = NULL;
    if (!holder->failed)
        text = cJSON_PrintUnformatted(cJSON_GetArrayItem(holder->item, 0));
    if (text)
        copy = strdup(text);
    cJSON_free(text);
    cJSON_Delete(holder->item);
    return copy;
}

static char *shape_text(const struct tmk_lineage_identity *is) {
    cJSON *item = cJSON_CreateArray();
    struct tmk_json_out holder = {item, !item};
    tmk_lineage_put_shape(&holder, NULL, is->has_shape, &is->shape);
    return element_text(&holder);
}

static char *view_text(const struct tmk_lineage_view *view) {
    cJSON *item = cJSON_CreateArray();
    struct tmk_json_out holder = {item, !item};
    tmk_lineage_put_view(&holder, NULL, view);
    return element_text(&holder);
}

static void release_entry(void *to) {
    struct entry *row = to;
    free(row->shape);
    free(row->view);
}

static enum tmk_status fill_identity(struct entry *row, uint32_t id,
                                     const struct tmk_lineage_identity *is, struct tmk_diag *diag) {
    row->id = id;
    row->fingerprint = is->fingerprint;
    row->content = is->content;
    row->ordinal = is->ordinal;
    row->name = borrowed(is->name);
    row->path = borrowed(is->path);
    tmk_h5_put_word(row->kind, tmk_profile_kind_name(is->kind));
    tmk_h5_put_word(row->dtype, tmk_dtype_name(is->dtype));
    row->shape = shape_text(is);
    return row->shape ? TMK_OK : tmk_nomem(diag);
}

static enum tmk_status next_value(const void *source, struct tmk_h5_cursor *cursor, void *to,
                                  struct tmk_diag *diag) {
    const struct tmk_lineage_record *record = source;
    if (cursor->item == record->n_values)
        return TMK_NOTFOUND;
    uint32_t id = cursor->item++;
    return fill_identity(to, id, &record->values[id].is, diag);
}

static enum tmk_status next_original(const void *source, struct tmk_h5_cursor *cursor, void *to,
                                     struct tmk_diag *diag) {
    const struct tmk_lineage_record *record = source;
    struct entry *row = to;
    if (cursor->item == record->n_originals)
        return TMK_NOTFOUND;
    uint32_t id = cursor->item++;
    const struct tmk_lineage_original *o = &record->originals[id];
    TMK_TRY(fill_identity(row, id, &o->is, diag));
    tmk_h5_put_word(row->verdict, tmk_lineage_verdict_name(o->verdict));
    row->pass = borrowed(o->pass);
    row->remark = borrowed(o->remark);
    row->value = o->value;
    row->channel_axis = o->affine.n > 1      ? o->affine.axis
                        : o->quantized.n > 1 ? o->quantized.axis
                                             : -1;
    if (o->quantized.n)
        tmk_h5_put_word(row->integers, tmk_dtype_name(o->quantized.dtype));
    row->absorber_node = borrowed(o->absorber.node);
    row->absorber_op = borrowed(o->absorber.op);
    row->absorber_domain = borrowed(o->absorber.domain);
    row->view = view_text(&o->view);
    if (row->view)
        return TMK_OK;
    release_entry(row);
    return tmk_nomem(diag);
}

static enum tmk_status next_number(const void *source, struct tmk_h5_cursor *cursor, void *to,
                                   struct tmk_diag *diag) {
    const struct tmk_lineage_record *record = source;
    struct number *row = to;
    (void)diag;
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
        return TMK_OK;
    }
    return TMK_NOTFOUND;
}

static enum tmk_status next_edge(const void *source, struct tmk_h5_cursor *cursor, void *to,
                                 struct tmk_diag *diag) {
    const struct tmk_lineage_record *record = source;
    struct edge *row = to;
    (void)diag;
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
        return TMK_OK;
    }
    return TMK_NOTFOUND;
}

static enum tmk_status write_header(struct tmk_h5 *h, hid_t file,
                                    const struct tmk_lineage_record *record,
                                    struct tmk_diag *diag) {
    cJSON *item = cJSON_CreateObject();
    struct tmk_json_out header = {item, !item};
    struct tmk_text text = {0};
    tmk_lineage_put_header(&header, record);
    enum tmk_status status = tmk_json_finish(&header, &text, diag);
    if (status == TMK_OK)
        tmk_h5_new_json(h, file, "header", "the JSON file's header, an object of JSON", &text);
    tmk_text_finish(&text);
    return status;
}

static enum tmk_status write_parts(struct tmk_h5 *h, hid_t file,
                                   const struct tmk_lineage_record *record, struct tmk_diag *diag) {
    const struct {
        const char *name, *about;
        struct tmk_h5_rows rows;
    } tables[] = {
        {"originals",
         "one row a value of the original model",
         {&original_table, record, next_original, release_entry}},
        {"values",
         "one row a value of the transformed model",
         {&value_table, record, next_value, release_entry}},
        {"numbers",
         "scales, shifts and zero points of originals",
         {&number_table, record, next_number, NULL}},
        {"edges",
         "originals on the edges of the operators that absorbed others",
         {&edge_table, record, next_edge, NULL}},
    };
    tmk_h5_put_text(h, file, "title", "what became of each value of a neural network");
    tmk_h5_put_text(h, file, "format", TMK_LINEAGE_FORMAT);
    TMK_TRY(write_header(h, file, record, diag));
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

/* What the rows go to. Numbers and edges are gathered, and handed out once all are there. */
struct gathered {
    struct tmk_lineage_record *record;
    uint32_t at, limit; /* rows of the table so far, and those that there is room for */
    struct number *numbers;
    struct edge *edges;
    uint32_t n_numbers, n_edges;
};

static enum tmk_status keep(struct tmk_h5_reader *r, struct tmk_lineage_record *record,
                            const char *text, const char **out) {
    if (text && !tmk_utf8_valid(text, strlen(text)))
        return tmk_fail(r->diag, TMK_FORMAT, "a text that is not UTF-8");
    return tmk_lineage_keep(record, text ? text : "", out, r->diag);
}

static enum tmk_status parse(struct tmk_h5_reader *r, const char *text, const char *name,
                             cJSON **out) {
    return tmk_in(r->diag, tmk_json_parse(text ? text : "", text ? strlen(text) : 0, out, r->diag),
                  "'%s'", name);
}

/* A table was counted before it is read, and the file may say something else now. */
static enum tmk_status next_row(struct tmk_h5_reader *r, struct gathered *g, uint32_t *at) {
    if (g->at == g->limit)
        return tmk_fail(r->diag, TMK_FORMAT, "the table has become longer");
    *at = g->at++;
    return TMK_OK;
}

static enum tmk_status load_identity(struct tmk_h5_reader *r, struct gathered *g, uint32_t at,
                                     const struct entry *row, struct tmk_lineage_identity *is) {
    cJSON *shape;
    if (row->id != at)
        return tmk_fail(r->diag, TMK_FORMAT, "'id' is p%" PRIu32 " where p%" PRIu32 " belongs",
                        row->id, at);
    is->fingerprint = row->fingerprint;
    is->content = row->content;
    is->ordinal = row->ordinal;
    TMK_TRY(keep(r, g->record, row->name, &is->name));
    TMK_TRY(keep(r, g->record, row->path, &is->path));
    TMK_TRY(tmk_profile_kind_by_name(row->kind, &is->kind, r->diag));
    TMK_TRY(tmk_profile_dtype_by_name(row->dtype, &is->dtype, r->diag));
    TMK_TRY(parse(r, row->shape, "shape", &shape));
    enum tmk_status status = tmk_lineage_get_shape(shape, &is->has_shape, &is->shape, r->diag);
    cJSON_Delete(shape);
    return status;
}

static enum tmk_status load_value(struct tmk_h5_reader *r, void *row, void *context) {
    struct gathered *g = context;
    uint32_t at;
    TMK_TRY(next_row(r, g, &at));
    return load_identity(r, g, at, row, &g->record->values[at].is);
}

static enum tmk_status load_original(struct tmk_h5_reader *r, void *from, void *context) {
    struct gathered *g = context;
    const struct entry *row = from;
    uint32_t at;
    TMK_TRY(next_row(r, g, &at));
    struct tmk_lineage_original *o = &g->record->originals[at];
    cJSON *view;
    TMK_TRY(load_identity(r, g, at, row, &o->is));
    TMK_TRY(tmk_lineage_verdict_by_name(row->verdict, &o->verdict, r->diag));
    TMK_TRY(keep(r, g->record, row->pass, &o->pass));
    TMK_TRY(keep(r, g->record, row->remark, &o->remark));
    o->value = row->value;
    TMK_TRY(parse(r, row->view, "view", &view));
    enum tmk_status status = tmk_lineage_get_view(view, &o->view, r->diag);
    cJSON_Delete(view);
    TMK_TRY(status);
    o->affine.axis = o->quantized.axis = row->channel_axis < 0 ? 0 : row->channel_axis;
    if (*row->integers)
        TMK_TRY(tmk_profile_dtype_by_name(row->integers, &o->quantized.dtype, r->diag));
    TMK_TRY(keep(r, g->record, row->absorber_node, &o->absorber.node));
    TMK_TRY(keep(r, g->record, row->absorber_op, &o->absorber.op));
    return keep(r, g->record, row->absorber_domain, &o->absorber.domain);
}

static enum tmk_status load_number(struct tmk_h5_reader *r, void *row, void *context) {
    struct gathered *g = context;
    uint32_t at;
    TMK_TRY(next_row(r, g, &at));
    g->numbers[at] = *(const struct number *)row;
    g->n_numbers = g->at;
    return TMK_OK;
}

static enum tmk_status load_edge(struct tmk_h5_reader *r, void *row, void *context) {
    struct gathered *g = context;
    uint32_t at;
    TMK_TRY(next_row(r, g, &at));
    g->edges[at] = *(const struct edge *)row;
    g->n_edges = g->at;
    return TMK_OK;
}

/* The rows from `at` on that are of this original: how many. */
static uint32_t numbers_of(const struct gathered *g, uint32_t at, uint32_t id) {
    uint32_t end = at;
    while (end < g->n_numbers && g->numbers[end].original_id == id)
        end++;
    return end - at;
}

static enum tmk_status give_numbers(struct tmk_h5_reader *r, struct gathered *g) {
    for (uint32_t at = 0, n; at < g->n_numbers; at += n) {
        uint32_t id = g->numbers[at].original_id;
        n = numbers_of(g, at, id);
        if (id >= g->record->n_originals || g->record->originals[id].affine.n ||
            g->record->originals[id].quantized.n)
            return tmk_fail(r->diag, TMK_FORMAT,
                            "'numbers': p%" PRIu32 " is no original, or stands twice", id);
        struct tmk_lineage_original *o = &g->record->originals[id];
        double *scale = tmk_lineage_record_array(g->record, n, sizeof *scale),
               *shift = tmk_lineage_record_array(g->record, n, sizeof *shift);
        int64_t *zero = tmk_lineage_record_array(g->record, n, sizeof *zero);
        if (!scale || !shift || !zero)
            return tmk_nomem(r->diag);
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

static enum tmk_status give_edges(struct tmk_h5_reader *r, struct gathered *g) {
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
        if (!by->inputs || !by->outputs)
            return tmk_nomem(r->diag);
        for (uint32_t i = at; i < end; i++)
            if (g->edges[i].output)
                by->outputs[by->n_outputs++] = g->edges[i].edge_id;
            else
                by->inputs[by->n_inputs++] = g->edges[i].edge_id;
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
                                  enum tmk_status (*load)(struct tmk_h5_reader *r, void *row,
                                                          void *context),
                                  struct gathered *g) {
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
    if (!g->numbers || !g->edges)
        return tmk_nomem(r->diag);
    TMK_TRY(tmk_h5_read_json(r, "header", &header));
    enum tmk_status status = tmk_lineage_get_header(g->record, header, r->diag);
    cJSON_Delete(header);
    TMK_TRY(tmk_in(r->diag, status, "'header'"));
    TMK_TRY(read_table(r, "originals", &original_table, g->record->n_originals, load_original, g));
    TMK_TRY(read_table(r, "values", &value_table, g->record->n_values, load_value, g));
    TMK_TRY(read_table(r, "numbers", &number_table, n_numbers, load_number, g));
    TMK_TRY(read_table(r, "edges", &edge_table, n_edges, load_edge, g));
    TMK_TRY(give_numbers(r, g));
    TMK_TRY(give_edges(r, g));
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
