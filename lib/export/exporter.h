/* SPDX-License-Identifier: Apache-2.0 */
/* Exporters: encodings (and, for some, the graph) -> the files that a consumer reads. One row a
 * format in its own file, named once in export/list.inc.
 *
 * No exporter writes 0, an infinity or NaN as a scale, or a number that does not read back to the
 * same bits. Each reports of every encoding that it wrote it (tmk_export_wrote), or why it could
 * not (tmk_export_skip); what it does not report counts as left out. Files are written whole or not
 * at all (base/file.h), and not where nothing was written (tmk_export_ready). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/encodings.h>

#include "base/arena.h"
#include "base/text.h"
#include "graph/graph.h"

struct tmk_relay_module;
struct tmk_relay_params;

struct tmk_export_counts;
struct tmk_export_text;

struct tmk_export_job {
    const struct tmk_encodings *encodings; /* for the writer: within the row's limits */
    const struct tmk_encodings *given;     /* for the writer: all of them */
    const struct tmk_graph
        *graph; /* identified: its IDs are the encodings'; NULL: none was given */
    /* Of a model that was read from Relay: its text, whose expressions know their values (of a
     * graph with the same IDs), for the writer to change; and its params or NULL. */
    struct tmk_relay_module *relay;
    const struct tmk_relay_params *relay_params;
    const char *relay_params_path; /* NULL: none */
    const char *path;              /* of the main file; others are next to it, by its name */
    const char *template; /* the consumer's own file, for formats that patch one; or NULL */
    const struct tmk_export_names *names; /* NULL: originals */
    /* "KEY=VALUE" settings of the format ("version=1.0.0"); the row lists its keys. */
    const char *const *settings;
    size_t n_settings;
    /* What was not written, and why, once an encoding. May be NULL. */
    void (*skip)(void *context, uint32_t id, const char *name, const char *why);
    /* Other remarks, a line each. May be NULL. */
    void (*remark)(void *context, const char *text);
    void *context;
    struct tmk_export_counts *counts; /* tmk_export_run's own; NULL: nothing is counted */
};

#define TMK_EXPORT_TYPE(dtype) (UINT32_C(1) << (dtype))
#define TMK_EXPORT_8 (TMK_EXPORT_TYPE(TMK_INT8) | TMK_EXPORT_TYPE(TMK_UINT8))
#define TMK_EXPORT_16 (TMK_EXPORT_TYPE(TMK_INT16) | TMK_EXPORT_TYPE(TMK_UINT16))
#define TMK_EXPORT_4 (TMK_EXPORT_TYPE(TMK_INT4) | TMK_EXPORT_TYPE(TMK_UINT4))
#define TMK_EXPORT_INTEGERS (TMK_EXPORT_4 | TMK_EXPORT_8 | TMK_EXPORT_16)

/* What the consumer can hold of activations and weights. Encodings of other types are left out. */
struct tmk_export_limits {
    uint32_t activations, weights; /* sets of TMK_EXPORT_TYPE; 0: every type */
    bool blocks;    /* weights may have scales by block; those of others are left out */
    bool one_scale; /* for an activation: those with scales by channel get one for all */
    bool symmetric; /* scales of activations: the writer goes by the largest magnitude */
};

struct tmk_exporter {
    const char *name;    /* "ort-cache" */
    const char *endings; /* as of tmk_check_ending */
    const char
        *consumer; /* "ONNX Runtime 1.27 and later: quantize_static(calibration_cache_path=)" */
    const char *settings; /* "version=0.6.1|1.0.0|2.0.0 other=...", words; "": it has none */
    bool writes_model;    /* the network with its weights; else a table for it */
    bool needs_graph, needs_template;
    struct tmk_export_limits limits;
    bool wants_relay;                   /* looks at the job's Relay, where there is one */
    const struct tmk_export_text *text; /* what it writes, by tmk_export_text_write; or NULL: */
    enum tmk_status (*write)(const struct tmk_export_job *job, struct tmk_diag *diag);
};

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
/* Writes the text to the job's file, whole or not at all. */
enum tmk_status tmk_export_write(const struct tmk_export_job *job, const struct tmk_text *text,
                                 struct tmk_diag *diag);
void tmk_export_remark(const struct tmk_export_job *job, const char *fmt, ...) TMK_PRINTF(2, 3);

/* ---- limits.c ---- */

/* Runs the row's writer on what its limits let through, and calls job->skip for every encoding that
 * was not written. `job` as its caller fills it in: without given and counts. */
enum tmk_status tmk_export_run(const struct tmk_exporter *row, const struct tmk_export_job *job,
                               struct tmk_diag *diag);
/* Of one of the job's encodings, the last of the two calls counts. Others are passed over. */
void tmk_export_wrote(const struct tmk_export_job *job, const struct tmk_encoding *e);
void tmk_export_skip(const struct tmk_export_job *job, const struct tmk_encoding *e,
                     const char *why);
bool tmk_export_is_written(const struct tmk_export_job *job, const struct tmk_encoding *e);
/* Before a file is written. TMK_NOTFOUND: no encoding was. */
enum tmk_status tmk_export_ready(const struct tmk_export_job *job, struct tmk_diag *diag);

/* What a consumer calls our values: a JSON object from "p12" or an original name to the consumer's
 * name, or to an array of names where the consumer has several tensors for one value. */

struct tmk_export_alias {
    uint32_t id, order; /* of one value's names: 0, 1, ... */
    const char *name;
};

struct tmk_export_names {
    struct tmk_export_alias *items; /* ascending by id, then order */
    size_t n;
    bool keep;            /* values without an alias keep their original name */
    uint32_t strangers;   /* keys that are no value of the encodings */
    const char *stranger; /* one of them; NULL: there is none */
    struct tmk_arena arena;
};

/* Reads the map. A key that is "p" and digits is an ID, whatever values are called; of values of
 * the same name (in sub-graphs) the first is meant. TMK_FORMAT: it is no such object, a name is
 * empty, or two values would have one name. End with tmk_export_names_finish. */
enum tmk_status tmk_export_names_read(const char *path, const struct tmk_encodings *encodings,
                                      struct tmk_export_names *out, struct tmk_diag *diag);
void tmk_export_names_finish(struct tmk_export_names *names);
/* The value's name number `order`; NULL: it has fewer. */
const char *tmk_export_names_get(const struct tmk_export_names *names, uint32_t id, uint32_t order);

/* Formats of two files: a text, and numbers in a second file (NAME.param and NAME.bin, NAME.xml and
 * NAME.bin). */

/* The .bin that goes with NAME or NAME`suffix`: malloc'ed; NULL when memory ran out. */
char *tmk_export_bin_path(const char *path, const char *suffix);
/* Writes both, or none. */
enum tmk_status tmk_export_write_pair(const struct tmk_export_job *job, const char *suffix,
                                      const struct tmk_text *text, const struct tmk_text *bin,
                                      struct tmk_diag *diag);
