/* SPDX-License-Identifier: Apache-2.0 */
/* Exporters: encodings (and, for some, the graph) -> the files that a consumer reads. One row a
 * format in its own file, named once in export/list.inc.
 *
 * No exporter writes 0, an infinity or NaN as a scale, or a number that does not read back to the
 * same bits. Each says of every encoding that it could not write why (`skip`), so that absence is
 * never silent. Files are written whole or not at all (base/file.h). */
#ifndef TMK_EXPORT_EXPORTER_H
#define TMK_EXPORT_EXPORTER_H

#include <tidemark/encodings.h>

#include "base/text.h"
#include "export/names.h"
#include "graph/graph.h"

struct tmk_relay_module;
struct tmk_relay_params;

struct tmk_export_job {
    const struct tmk_encodings *encodings;
    const struct tmk_graph
        *graph; /* identified: its IDs are the encodings'; NULL: none was given */
    /* Of a model that was read from Relay: its text, whose expressions know their values (of a
     * graph with the same IDs), and its params or NULL. */
    const struct tmk_relay_module *relay;
    const struct tmk_relay_params *relay_params;
    const char *relay_params_path; /* NULL: none */
    const char *path;              /* of the main file; others stand beside it, by its name */
    const char *template; /* the consumer's own file, for formats that patch one; or NULL */
    const struct tmk_export_names *names; /* NULL: originals */
    /* "KEY=VALUE" settings of the format ("version=1.0.0"); the row lists the keys it knows. */
    const char *const *settings;
    size_t n_settings;
    /* What was not written, and why; called by the exporter. NULL: nobody asks. */
    void (*skip)(void *context, uint32_t id, const char *name, const char *why);
    /* Other remarks, a line each. NULL: nobody asks. */
    void (*remark)(void *context, const char *text);
    void *context;
};

struct tmk_exporter {
    const char *name; /* "ort-cache" */
    const char
        *consumer; /* "ONNX Runtime 1.27 and later: quantize_static(calibration_cache_path=)" */
    const char *settings; /* "version=0.6.1|1.0.0|2.0.0 other=...", words; "": it knows none */
    bool needs_graph, needs_template;
    bool wants_relay; /* looks at the job's Relay, where there is one */
    enum tmk_status (*write)(const struct tmk_export_job *job, struct tmk_diag *diag);
};

const struct tmk_exporter *tmk_exporter_find(const char *name);
/* NULL at the end. */
const struct tmk_exporter *const *tmk_exporter_list(void);

/* The encoding of the node's input number `at`, as the node sees it (nodes without names included);
 * NULL: it stays float, is not there, or is no value of the model. */
const struct tmk_encoding *tmk_export_encoding(const struct tmk_encodings *encodings,
                                               const struct tmk_node *node, uint32_t at);
/* The consumer's name of a value; NULL where the map has none for it, or the original is "". */
const char *tmk_export_name(const struct tmk_export_job *job, uint32_t id, const char *original);
/* Of a value for which the consumer has several tensors, the i-th name; NULL behind the last. */
const char *tmk_export_name_at(const struct tmk_export_job *job, uint32_t id, const char *original,
                               uint32_t i);
/* The value of a setting, or `otherwise`. */
const char *tmk_export_setting(const struct tmk_export_job *job, const char *key,
                               const char *otherwise);
/* Writes the text to the file, whole or not at all. */
TMK_NODISCARD enum tmk_status tmk_export_write(const char *path, const struct tmk_text *text,
                                               struct tmk_diag *diag);
void tmk_export_skip(const struct tmk_export_job *job, uint32_t id, const char *name,
                     const char *why);
void tmk_export_remark(const struct tmk_export_job *job, const char *fmt, ...) TMK_PRINTF(2, 3);

#endif
