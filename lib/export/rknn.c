/* SPDX-License-Identifier: Apache-2.0 */
/* rknn: the .quantization.cfg that hybrid_quantization_step1 wrote, with our min and max in it
 *. Scales and zero points must stay as they are: step2 refuses a file in which they
 * were changed, and makes them anew from min and max.
 *
 * The name of a convolution's output means there what comes out behind its activation, and the
 * integer twin of an input or output is called NAME_int8. */
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/map.h"
#include "export/layers.h"
#include "export/rows.h"
#include "export/yaml.h"

struct writing {
    const struct tmk_export_job *job;
    struct tmk_map by_name; /* -> struct tmk_encoding */
    struct tmk_map found;   /* names that the template has -> themselves */
    struct tmk_text out;
    struct tmk_arena arena;
    size_t n;
    struct tmk_diag *diag;
};

/* ---- names ---- */

static enum tmk_status name_encodings(struct writing *w, const struct tmk_export_rows *rows) {
    for (size_t i = 0; i < rows->n; i++)
        TMK_TRY_ALLOC(
            tmk_map_put(&w->by_name, rows->items[i].name, (void *)rows->items[i].encoding),
            w->diag);
    return TMK_OK;
}

/* What is in front of an activation goes by what is behind it. */
static enum tmk_status name_layers(struct writing *w) {
    struct tmk_export_layers layers = {0};
    enum tmk_status status = TMK_OK;
    if (!w->job->graph)
        return TMK_OK;
    TMK_TRY(tmk_export_layers_make(w->job, false, &layers, w->diag));
    for (size_t i = 0; i < layers.n && status == TMK_OK; i++) {
        const struct tmk_export_layer *layer = &layers.items[i];
        const char *name =
            tmk_export_name(w->job, (uint32_t)layer->output->profile_id, layer->output->name);
        if (layer->out && name && !tmk_map_put(&w->by_name, name, (void *)layer->out))
            status = tmk_nomem(w->diag);
    }
    tmk_export_layers_finish(&layers);
    return status;
}

static const struct tmk_encoding *find_encoding(struct writing *w, char *name) {
    static const char twin[] = "_int8";
    const struct tmk_encoding *e = tmk_map_get(&w->by_name, name);
    size_t len = strlen(name);
    if (!e && len >= sizeof twin && strcmp(name + len - sizeof twin + 1, twin) == 0) {
        name[len - sizeof twin + 1] = '\0';
        e = tmk_map_get(&w->by_name, name);
    }
    return e;
}

/* ---- the template, line by line ---- */

/* As YAML writers spread it: each line a key or an item, indented by any number of blanks. */
struct line {
    const char *text;
    size_t len;    /* with its end */
    size_t indent; /* blanks in front */
    size_t end;    /* of what is written, without blanks behind; == indent where nothing is */
};

static bool next_line(const char **at, const char *end, struct line *line) {
    if (*at >= end)
        return false;
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    size_t len = (size_t)((stop ? stop + 1 : end) - *at), indent = 0, last = len;
    while (indent < len && (*at)[indent] == ' ')
        indent++;
    while (last > indent && strchr(" \r\n", (*at)[last - 1]) && (*at)[last - 1])
        last--;
    *line = (struct line){*at, len, indent, last};
    *at += len;
    return true;
}

static bool is_key(const struct line *line, const char *key) {
    return line->end - line->indent == strlen(key) &&
           memcmp(line->text + line->indent, key, strlen(key)) == 0;
}

static bool is_item(const struct line *line) {
    return line->end - line->indent >= 2 && memcmp(line->text + line->indent, "- ", 2) == 0;
}

/* Copies the list behind "min:" or "max:", or puts our number in the place of its only one. */
static void put_list(struct writing *w, const char **at, const char *end,
                     const struct tmk_encoding *e, bool high) {
    const char *begin = *at, *ahead = *at;
    size_t items = 0;
    struct line line = {0}, item = {0};
    while (next_line(&ahead, end, &line) && is_item(&line)) {
        *at = ahead;
        item = line;
        items++;
    }
    if (!e || items != 1) {
        tmk_text_append(&w->out, begin, (size_t)(*at - begin));
        return;
    }
    float range[2];
    size_t number = item.indent + 1;
    while (item.text[number] == ' ')
        number++;
    tmk_export_range(e, &range[0], &range[1]);
    tmk_text_append(&w->out, item.text, number);
    tmk_yaml_put_float(&w->out, range[high]);
    tmk_text_append(&w->out, item.text + item.end, item.len - item.end);
    w->n++;
}

/* The encoding of an entry, NAME: on a line of its own. */
static enum tmk_status see_entry(struct writing *w, const struct line *line,
                                 const struct tmk_encoding **e) {
    *e = NULL;
    if (line->end == line->indent || line->text[line->end - 1] != ':')
        return TMK_OK;
    char *name = tmk_yaml_text(line->text + line->indent, line->end - line->indent - 1, &w->arena);
    if (!name)
        return TMK_OK;
    *e = find_encoding(w, name);
    return tmk_map_put(&w->found, name, name) ? TMK_OK : tmk_nomem(w->diag);
}

static enum tmk_status patch_line(struct writing *w, const char *at, const char *end) {
    const struct tmk_encoding *e = NULL;
    size_t entries = 0; /* how far their names are indented; 0: not in the parameters */
    bool begun = false;
    struct line line;
    while (next_line(&at, end, &line)) {
        tmk_text_append(&w->out, line.text, line.len);
        if (line.end == line.indent)
            continue;
        if (line.indent == 0) {
            begun = is_key(&line, "quantize_parameters:");
            entries = 0;
        } else if (begun && (!entries || line.indent == entries)) {
            entries = line.indent;
            TMK_TRY(see_entry(w, &line, &e));
        } else if (begun && (is_key(&line, "min:") || is_key(&line, "max:"))) {
            put_list(w, &at, end, e, is_key(&line, "max:"));
        }
    }
    if (!w->n)
        return tmk_fail(w->diag, TMK_NOTFOUND,
                        "no tensor of %s has the name of a value; nothing was written",
                        w->job->template);
    return TMK_OK;
}

static void report_missing(struct writing *w, const struct tmk_export_rows *rows) {
    for (size_t i = 0; i < rows->n; i++)
        if (!tmk_map_get(&w->found, rows->items[i].name))
            tmk_export_skip(w->job, rows->items[i].encoding,
                            "the template has no tensor of this name");
}

static enum tmk_status patch_template(struct writing *w, const struct tmk_export_rows *rows) {
    struct tmk_buf *file = NULL;
    TMK_TRY(name_encodings(w, rows));
    TMK_TRY(name_layers(w));
    TMK_TRY(tmk_file_map(w->job->template, &file, w->diag));
    const char *text = tmk_buf_data(file);
    enum tmk_status status = patch_line(w, text, text + tmk_buf_size(file));
    tmk_buf_unref(&file);
    if (status == TMK_OK) {
        report_missing(w, rows);
        status = tmk_export_write(w->job, &w->out, w->diag);
    }
    return status;
}

static enum tmk_status write_rknn(const struct tmk_export_job *job, struct tmk_diag *diag) {
    const struct tmk_export_requirements wants = {0};
    struct writing w = {.job = job, .diag = diag};
    struct tmk_export_rows rows = {0};
    TMK_TRY(tmk_export_rows_make(job, &wants, &rows, diag));
    enum tmk_status status = patch_template(&w, &rows);
    tmk_map_finish(&w.by_name);
    tmk_map_finish(&w.found);
    tmk_text_finish(&w.out);
    tmk_arena_finish(&w.arena);
    tmk_export_rows_finish(&rows);
    return status;
}

const struct tmk_exporter tmk_exporter_rknn = {
    .name = "rknn",
    .endings = "cfg yaml yml",
    .consumer =
        "RKNN-Toolkit2: hybrid_quantization_step2, from --template NAME.quantization.cfg of "
        "step1",
    .settings = "",
    .needs_template = true,
    .limits = {.activations = TMK_EXPORT_INTEGERS, .one_scale = true},
    .write = write_rknn,
};
