/* SPDX-License-Identifier: Apache-2.0 */
/* csv: one line an encoding and channel, for spreadsheets and scripts (RFC 4180). */
#include "base/file.h"
#include "base/text.h"
#include "export/exporter.h"

/* Always in quotes: names may hold anything, and a cell that begins with '=' is a formula. */
static void put_cell(struct tmk_text *out, const char *text) {
    tmk_text_puts(out, ",\"");
    for (; *text; text++)
        tmk_text_append(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    tmk_text_puts(out, "\"");
}

static void put_float(struct tmk_text *out, float value) {
    char text[32];
    tmk_format_float(value, text);
    tmk_text_printf(out, ",%s", text);
}

static void put_rows(struct tmk_text *out, const struct tmk_encoding *e, const char *name) {
    for (uint32_t i = 0; i < e->n; i++) {
        tmk_text_printf(out, "p%u", e->id);
        put_cell(out, name);
        tmk_text_printf(out, ",%s,%s,%s,%d,%u", tmk_encoding_role_name(e->role),
                        tmk_dtype_name(e->dtype), e->symmetric ? "symmetric" : "asymmetric",
                        e->axis, i);
        put_float(out, e->scale[i]);
        tmk_text_printf(out, ",%d", e->zero_point[i]);
        put_float(out, e->low[i]);
        put_float(out, e->high[i]);
        put_float(out, e->clip_min[i]);
        put_float(out, e->clip_max[i]);
        put_cell(out, e->method);
        put_cell(out, e->rule);
        tmk_text_puts(out, "\r\n");
    }
}

static enum tmk_status write_csv(const struct tmk_export_job *job, struct tmk_diag *diag) {
    struct tmk_text out = {0};
    tmk_text_puts(&out, "id,name,role,dtype,scheme,axis,channel,scale,zero_point,low,high,"
                        "clip_min,clip_max,method,rule\r\n");
    for (uint32_t i = 0; i < job->encodings->n_items; i++) {
        const struct tmk_encoding *e = &job->encodings->items[i];
        const char *name = tmk_export_name(job, e->id, e->name);
        put_rows(&out, e, name ? name : e->name);
        tmk_export_wrote(job, e);
    }
    enum tmk_status status = tmk_export_write(job, &out, diag);
    tmk_text_finish(&out);
    return status;
}

const struct tmk_exporter tmk_exporter_csv = {
    .name = "csv",
    .endings = "csv",
    .consumer = "spreadsheets and scripts: one line an encoding and channel",
    .settings = "",
    .write = write_csv,
};
