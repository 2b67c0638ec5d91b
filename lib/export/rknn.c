/* SPDX-License-Identifier: Apache-2.0 */
/* rknn: the .quantization.cfg that hybrid_quantization_step1 wrote, with our min and max in it
 * (FORMATS 3.8). Scales and zero points must stay as they are: step2 refuses a file in which they
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
        if (!tmk_map_put(&w->by_name, rows->items[i].name, (void *)rows->items[i].encoding))
            return tmk_nomem(w->diag);
    return TMK_OK;
}

/* What is in front of an activation goes by what is behind it. */
static enum tmk_status name_layers(struct writing *w) {
    struct tmk_export_layers layers = {0};
    enum tmk_status status = TMK_OK;
    if (!w->job->graph)
        return TMK_OK;
    TMK_TRY(tmk_export_layers_make(w->job, &layers, w->diag));
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

static const struct tmk_encoding *find(struct writing *w, char *name) {
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

struct line {
    const char *text;
    size_t len; /* with its end */
};

static bool next_line(const char **at, const char *end, struct line *line) {
    if (*at >= end)
        return false;
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    *line = (struct line){*at, (size_t)((stop ? stop + 1 : end) - *at)};
    *at += line->len;
    return true;
}

static bool begins(const struct line *line, const char *with) {
    return line->len >= strlen(with) && memcmp(line->text, with, strlen(with)) == 0;
}

/* The name of an entry: two blanks, a name, a colon. Plain, or in quotes; NULL: it is none. */
static char *entry_name(struct writing *w, const struct line *line) {
    size_t len = line->len;
    while (len && (line->text[len - 1] == '\n' || line->text[len - 1] == '\r'))
        len--;
    if (len < 4 || line->text[len - 1] != ':' || memcmp(line->text, "  ", 2) != 0 ||
        line->text[2] == ' ')
        return NULL;
    return tmk_yaml_text(line->text + 2, len - 3, &w->arena);
}

static void put_number(struct writing *w, float value) {
    tmk_text_puts(&w->out, "    - ");
    tmk_yaml_put_float(&w->out, value);
    tmk_text_puts(&w->out, "\n");
}

/* Copies the list behind "min:" or "max:", or puts one number in its place. */
static void put_list(struct writing *w, const char **at, const char *end,
                     const struct tmk_encoding *e, bool high) {
    const char *begin = *at;
    size_t items = 0;
    struct line line;
    const char *ahead = *at;
    while (next_line(&ahead, end, &line) && begins(&line, "    - ")) {
        *at = ahead;
        items++;
    }
    if (!e || items != 1) {
        tmk_text_append(&w->out, begin, (size_t)(*at - begin));
        return;
    }
    float range[2];
    tmk_export_range(e, &range[0], &range[1]);
    put_number(w, range[high]);
    w->n++;
}

static enum tmk_status patch(struct writing *w, const char *at, const char *end) {
    const struct tmk_encoding *e = NULL;
    bool in_parameters = false;
    struct line line;
    while (next_line(&at, end, &line)) {
        tmk_text_append(&w->out, line.text, line.len);
        if (line.text[0] != ' ' && line.text[0] != '\n' && line.text[0] != '\r')
            in_parameters = begins(&line, "quantize_parameters:");
        if (!in_parameters)
            continue;
        char *name = entry_name(w, &line);
        if (name) {
            e = find(w, name);
            if (!tmk_map_put(&w->found, name, name))
                return tmk_nomem(w->diag);
        }
        bool high = begins(&line, "    max:");
        if (high || begins(&line, "    min:"))
            put_list(w, &at, end, e, high);
    }
    if (!w->n)
        return tmk_fail(w->diag, TMK_NOTFOUND,
                        "no tensor of %s has the name of a value; nothing was written",
                        w->job->template);
    return TMK_OK;
}

static void tell_missing(struct writing *w, const struct tmk_export_rows *rows) {
    for (size_t i = 0; i < rows->n; i++)
        if (!tmk_map_get(&w->found, rows->items[i].name))
            tmk_export_skip(w->job, rows->items[i].encoding->id, rows->items[i].encoding->name,
                            "the template has no tensor of this name");
}

static enum tmk_status patch_template(struct writing *w, const struct tmk_export_rows *rows) {
    struct tmk_buf *file = NULL;
    TMK_TRY(name_encodings(w, rows));
    TMK_TRY(name_layers(w));
    TMK_TRY(tmk_file_map(w->job->template, &file, w->diag));
    const char *text = tmk_buf_data(file);
    enum tmk_status status = patch(w, text, text + tmk_buf_size(file));
    tmk_buf_unref(&file);
    if (status == TMK_OK) {
        tell_missing(w, rows);
        status = tmk_export_write(w->job->path, &w->out, w->diag);
    }
    return status;
}

static enum tmk_status write_rknn(const struct tmk_export_job *job, struct tmk_diag *diag) {
    const struct tmk_export_wants wants = {0};
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
    .consumer =
        "RKNN-Toolkit2: hybrid_quantization_step2, from --template NAME.quantization.cfg of "
        "step1",
    .settings = "",
    .needs_template = true,
    .write = write_rknn,
};
