/* SPDX-License-Identifier: Apache-2.0 */
/* Writes encodings as the files that quantizers and compilers read. docs/export.md describes them.
 *
 * Strings are only read during the call. Thread-safe while encodings and model do not change. */
#ifndef TIDEMARK_EXPORT_H
#define TIDEMARK_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/encodings.h>
#include <tidemark/model.h>
#include <tidemark/status.h>
#include <tidemark/target.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A format, for lists and help. */
struct tmk_export_format {
    const char *name;     /* "tensorrt-cache" */
    const char *endings;  /* as tmk_can_write takes them; the main file's name may have another */
    const char *consumer; /* who reads it */
    const char *settings; /* "version=0.6.1|1.0.0|2.0.0": KEY=VALUE words; "": it has none */
    bool writes_model;   /* the quantized network with its weights; else a table for another tool */
    bool needs_model;    /* it writes weights, or a graph */
    bool needs_template; /* it replaces numbers in a file of the consumer */
};
/* The i-th; false behind the last. */
TMK_API bool tmk_export_format(size_t i, struct tmk_export_format *out);

struct tmk_export_options {
    const char *format;
    const char *path; /* of the main file; others are written next to it, with its name as prefix */
    const char *template_file; /* NULL: none */
    /* A JSON object from "p12" or an original name to the consumer's name, or to an array of such
     * names where the consumer has several tensors for one value. NULL: original names. */
    const char *names;
    bool keep_names; /* values that the map does not have keep their original name */
    /* Its table is to allow all of the encodings: TMK_MISMATCH. NULL: none. */
    const struct tmk_target *target;
    const char *const *settings; /* "KEY=VALUE" */
    size_t n_settings;
    /* skip is called once for each encoding that was not written, with the reason, even if none
     * was; remark for other remarks, one line each. Both may be NULL. */
    void (*skip)(void *context, uint32_t id, const char *name, const char *why);
    void (*remark)(void *context, const char *text);
    void *context;
};

/* Writes the files, whole or not at all. `model` (may be NULL) is the one that was profiled, or the
 * same with observers. TMK_NOTFOUND: no encoding could be written, and no file was. TMK_MISMATCH
 * states in what the model differs from the encodings'. TMK_ARGUMENT: no such format or setting, or
 * the format needs a model or a template. TMK_FORMAT: the map or the template, with the place. */
TMK_API enum tmk_status tmk_export(const struct tmk_encodings *encodings,
                                   const struct tmk_model *model,
                                   const struct tmk_export_options *options, struct tmk_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
