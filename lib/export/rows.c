/* SPDX-License-Identifier: Apache-2.0 */
#include "export/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/text.h"
#include "calib/config.h"
#include "tensor/elements.h"

struct making {
    const struct tmk_export_job *job;
    const struct tmk_export_requirements *wants;
    struct tmk_export_rows rows;
    size_t size; /* of rows.items */
    struct tmk_map taken;
    struct tmk_by_id values; /* empty without a model or wants->computed */
    struct tmk_diag *diag;
};

/* NULL: the format holds this kind of value. */
static const char *unfit_role(const struct making *m, const struct tmk_encoding *e) {
    if (e->role == TMK_ENCODING_WEIGHT && !m->wants->weights)
        return "a weight: the format holds activations only";
    if (e->role == TMK_ENCODING_BIAS && !m->wants->biases)
        return "a bias: its scale is input times weight";
    return NULL;
}

/* Of the value's encodings that the format holds, from `first` on, the one for all readers, else
 * the first: what constants compute is a weight for some readers, an activation for others. */
static const struct tmk_encoding *for_most(const struct making *m, uint32_t first, uint32_t *end) {
    const struct tmk_encodings *all = m->job->encodings;
    const struct tmk_encoding *found = NULL;
    uint32_t i = first;
    for (; i < all->n_items && all->items[i].id == all->items[first].id; i++)
        if (!unfit_role(m, &all->items[i]) && (!found || !all->items[i].n_uses))
            found = &all->items[i];
    *end = i;
    return found ? found : &all->items[first];
}

static bool is_computed(const struct making *m, const struct tmk_encoding *e) {
    const struct tmk_value *value = tmk_by_id_get(&m->values, e->id);
    return e->role == TMK_ENCODING_WEIGHT && value && value->producer;
}

static bool is_held(struct making *m, const struct tmk_encoding *e) {
    const char *why = is_computed(m, e) ? NULL : unfit_role(m, e);
    if (!why && m->wants->fused && tmk_export_is_before_activation(e))
        why = "it goes by what is behind its Relu or Clip";
    else if (!why && m->wants->unfit)
        why = m->wants->unfit(e);
    if (why)
        tmk_export_skip(m->job, e, why);
    return !why;
}

static enum tmk_status add_name(struct making *m, const struct tmk_encoding *e, const char *name) {
    const char *why = m->wants->unfit_name ? m->wants->unfit_name(name) : NULL;
    if (!tmk_utf8_valid(name, strlen(name)))
        why = "its name is no UTF-8";
    else if (!why && tmk_map_get(&m->taken, name))
        why = "another value has the same name";
    if (why) {
        tmk_export_skip(m->job, e, why);
        return TMK_OK;
    }
    TMK_TRY_ALLOC(TMK_GROW(m->rows.items, m->rows.n, m->size) &&
                      tmk_map_put(&m->taken, name, (void *)e),
                  m->diag);
    m->rows.items[m->rows.n++] = (struct tmk_export_row){e, name};
    return TMK_OK;
}

static enum tmk_status add_value(struct making *m, const struct tmk_encoding *e) {
    const size_t before = m->rows.n;
    const char *name;
    if (!is_held(m, e))
        return TMK_OK;
    for (uint32_t i = 0; (name = tmk_export_name_at(m->job, e->id, e->name, i)) != NULL; i++)
        TMK_TRY(add_name(m, e, name));
    if (m->rows.n > before)
        tmk_export_wrote(m->job, e);
    else if (!tmk_export_name(m->job, e->id, e->name))
        tmk_export_skip(m->job, e,
                        m->job->names ? "the name map has no name for it" : "it has no name");
    return TMK_OK;
}

static enum tmk_status add_all(struct making *m) {
    const struct tmk_encodings *all = m->job->encodings;
    for (uint32_t i = 0, end; i < all->n_items; i = end) {
        const struct tmk_encoding *e = for_most(m, i, &end);
        TMK_TRY(add_value(m, e));
        for (uint32_t k = i; k < end; k++)
            if (&all->items[k] != e && is_held(m, &all->items[k]))
                tmk_export_skip(m->job, &all->items[k],
                                "the format has one encoding a value, not one a reader");
    }
    return TMK_OK;
}

/* Readers that were to stay float. */
static void remark_readers(const struct making *m) {
    size_t n = 0;
    for (size_t i = 0; i < m->rows.n; i++) {
        const struct tmk_encoding *e = m->rows.items[i].encoding;
        n += e->role == TMK_ENCODING_ACTIVATION && e->n_uses &&
             !tmk_encodings_find(m->job->encodings, e->id, NULL, 0);
    }
    if (n && !m->wants->by_reader)
        tmk_export_remark(m->job,
                          "%zu values are quantized for some of their readers only; the file has "
                          "them so for all",
                          n);
}

enum tmk_status tmk_export_rows_make(const struct tmk_export_job *job,
                                     const struct tmk_export_requirements *wants,
                                     struct tmk_export_rows *out, struct tmk_diag *diag) {
    struct making m = {.job = job, .wants = wants, .diag = diag};
    enum tmk_status status = TMK_OK;
    if (wants->computed && job->graph)
        status = tmk_by_id_init(&m.values, job->graph, diag);
    TMK_THEN(status, add_all(&m));
    tmk_by_id_finish(&m.values);
    tmk_map_finish(&m.taken);
    TMK_THEN(status, tmk_export_ready(job, diag));
    if (status == TMK_OK)
        remark_readers(&m);
    if (status == TMK_OK)
        *out = m.rows;
    else
        tmk_export_rows_finish(&m.rows);
    return status;
}

void tmk_export_rows_finish(struct tmk_export_rows *rows) {
    free(rows->items);
    *rows = (struct tmk_export_rows){0};
}

static enum tmk_status put_each(const struct tmk_export_text *text,
                                const struct tmk_export_rows *rows, struct tmk_text *out,
                                struct tmk_diag *diag) {
    tmk_text_puts(out, text->head);
    for (size_t i = 0; i < rows->n; i++) {
        tmk_text_puts(out, i ? text->between : "");
        TMK_TRY(text->put_row(&rows->items[i], out, diag));
    }
    tmk_text_puts(out, text->tail);
    return TMK_OK;
}

enum tmk_status tmk_export_text_write(const struct tmk_export_job *job,
                                      const struct tmk_export_text *text, struct tmk_diag *diag) {
    struct tmk_export_rows rows = {0};
    struct tmk_text out = {0};
    TMK_TRY(tmk_export_rows_make(job, &text->wants, &rows, diag));
    enum tmk_status status =
        text->put ? text->put(job, &rows, &out, diag) : put_each(text, &rows, &out, diag);
    TMK_THEN(status, tmk_export_write(job, &out, diag));
    tmk_text_finish(&out);
    tmk_export_rows_finish(&rows);
    return status;
}

/* ---- numbers ---- */

static void span_channels(const float *low, const float *high, uint32_t n, float *min,
                          float *most) {
    *min = *most = 0;
    for (uint32_t i = 0; i < n; i++) {
        *min = fminf(*min, low[i]);
        *most = fmaxf(*most, high[i]);
    }
}

void tmk_export_range(const struct tmk_encoding *e, float *low, float *high) {
    span_channels(e->low, e->high, e->n, low, high);
    if (*low == *high)
        span_channels(e->clip_min, e->clip_max, e->n, low, high);
}

void tmk_export_put_range(const struct tmk_encoding *encoding, const char *before,
                          const char *between, const char *after, struct tmk_text *out) {
    float low, high;
    tmk_export_range(encoding, &low, &high);
    tmk_text_puts(out, before);
    tmk_json_float_text(out, low);
    tmk_text_puts(out, between);
    tmk_json_float_text(out, high);
    tmk_text_puts(out, after);
}

float tmk_export_magnitude(const struct tmk_encoding *encoding) {
    float low, high;
    tmk_export_range(encoding, &low, &high);
    return fmaxf(-low, high);
}

bool tmk_export_is_before_activation(const struct tmk_encoding *encoding) {
    return strcmp(encoding->rule, tmk_built_in_name(TMK_RULE_AFTER_RELU)) == 0;
}

uint32_t tmk_export_bits(const struct tmk_encoding *encoding) {
    const unsigned bits = tmk_dtype_bits(encoding->dtype);
    return tmk_dtype_is_integer(encoding->dtype) && bits <= 16 ? bits : 0;
}

bool tmk_export_is_signed(const struct tmk_encoding *encoding) {
    return tmk_dtype_is_signed(encoding->dtype);
}

/* ---- what does not fit ---- */

const char *tmk_export_unfit_codes(const struct tmk_encoding *encoding) {
    for (uint32_t i = 0; i < encoding->n; i++)
        if (!isnormal(encoding->scale[i]))
            return "its scale is so small that readers take it for 0";
    return NULL;
}

const char *tmk_export_unfit_line(const char *name) {
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return "its name holds control characters, and the format can't";
    return NULL;
}

const char *tmk_export_unfit_word(const char *name) {
    if (name[0] == '#')
        return "its name begins with '#', which the format takes for a comment";
    if (strchr(name, ' '))
        return "its name holds blanks, which the format takes for its end";
    return tmk_export_unfit_line(name);
}

/* ---- JSON ---- */

enum tmk_status tmk_export_quote(struct tmk_text *out, const char *text, struct tmk_diag *diag) {
    cJSON *item = cJSON_CreateString(text);
    struct tmk_json_out string = {item, !item};
    return tmk_json_finish(&string, out, diag);
}
