/* SPDX-License-Identifier: Apache-2.0 */
#include "transform/formats.h"

#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/size.h"
#include "base/text.h"
#include "model/onnx.h"
#include "relay/relay.h"

/* ---- models ---- */

enum { BEGINNING = 65536 };

static enum tmk_status load_onnx_with(const char *path, const char *params_path,
                                      const struct tmk_onnx_options *options,
                                      struct tmk_graph **out, struct tmk_diag *diag) {
    if (params_path)
        return tmk_fail(diag, TMK_ARGUMENT,
                        "%s is an ONNX model, which has its weights in it; params belong to Relay",
                        path);
    return tmk_onnx_load(path, options, out, diag);
}

static enum tmk_status load_onnx(const char *path, const char *params_path, bool keep_unknown,
                                 struct tmk_graph **out, struct tmk_diag *diag) {
    const struct tmk_onnx_options options = {.keep_unknown = keep_unknown, .lazy = true};
    return load_onnx_with(path, params_path, &options, out, diag);
}

static enum tmk_status load_onnx_structure(const char *path, const char *params_path,
                                           struct tmk_graph **out, struct tmk_diag *diag) {
    const struct tmk_onnx_options options = {.lazy = true, .structure_only = true};
    return load_onnx_with(path, params_path, &options, out, diag);
}

static const struct tmk_model_reader onnx_reader = {"onnx", load_onnx, load_onnx_structure};
static const struct tmk_model_reader relay_reader = {"relay", tmk_relay_load, NULL};

/* Past blanks and comments; `text` is terminated. */
static const char *first_word(const char *text) {
    for (;;) {
        text += strspn(text, " \t\r\n");
        const char *end = NULL;
        if (strncmp(text, "//", 2) == 0)
            end = strchr(text, '\n');
        else if (strncmp(text, "/*", 2) == 0)
            end = strstr(text, "*/");
        else
            return text;
        if (!end)
            return "";
        text = *end == '*' ? end + 2 : end + 1;
    }
}

static bool begins_as_relay(const char *text) {
    static const char *const words[] = {"{", /* as JSON */
                                        "#[version", "v0.0.4", "v0.0.5",    "def @", "fn (",
                                        "type ",     "let %",  "free_var ", "%0 ="};
    const char *word = first_word(text);
    for (size_t i = 0; i < TMK_COUNT(words); i++)
        if (strncmp(word, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

enum tmk_status tmk_model_reader_find(const char *path, const struct tmk_model_reader **out,
                                      struct tmk_diag *diag) {
    struct tmk_infile file;
    char text[BEGINNING + 1];
    TMK_TRY(tmk_infile_open(path, &file, diag));
    size_t n = file.size < BEGINNING ? (size_t)file.size : BEGINNING;
    enum tmk_status status = tmk_infile_read(&file, 0, text, n, diag);
    tmk_infile_close(&file);
    TMK_TRY(tmk_in(diag, status, "%s", path));
    text[n] = 0;
    bool is_relay = begins_as_relay(text) || tmk_ends_in(path, ".relay");
    *out = is_relay ? &relay_reader : &onnx_reader;
    return TMK_OK;
}

/* ---- exporters ---- */

#define TMK_EXPORTER(symbol) extern const struct tmk_exporter symbol;
#include "export/list.inc"
#undef TMK_EXPORTER

const struct tmk_exporter *const *tmk_exporter_list(void) {
    static const struct tmk_exporter *const rows[] = {
#define TMK_EXPORTER(symbol) &symbol,
#include "export/list.inc"
#undef TMK_EXPORTER
        NULL,
    };
    return rows;
}

const struct tmk_exporter *tmk_exporter_find(const char *name) {
    for (const struct tmk_exporter *const *row = tmk_exporter_list(); *row; row++)
        if (strcmp((*row)->name, name) == 0)
            return *row;
    return NULL;
}
