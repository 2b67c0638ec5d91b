/* SPDX-License-Identifier: Apache-2.0 */
#include "export/exporter.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"

const struct tmk_encoding *tmk_export_encoding(const struct tmk_encodings *encodings,
                                               const struct tmk_node *node, uint32_t at) {
    const struct tmk_value *value = at < node->n_inputs ? node->inputs[at] : NULL;
    char key[24] = "";
    if (!value || value->profile_id < 0)
        return NULL;
    for (uint32_t i = 0; !*key && i < node->n_outputs; i++)
        if (node->outputs[i])
            snprintf(key, sizeof key, "p%" PRId64, node->outputs[i]->profile_id);
    return tmk_encodings_find(encodings, (uint32_t)value->profile_id,
                              *node->name ? node->name : key, at);
}

const char *tmk_export_name(const struct tmk_export_job *job, uint32_t id, const char *original) {
    return tmk_export_name_at(job, id, original, 0);
}

const char *tmk_export_name_at(const struct tmk_export_job *job, uint32_t id, const char *original,
                               uint32_t i) {
    if (job->names) {
        const char *mapped = tmk_export_names_get(job->names, id, i);
        if (mapped || !job->names->keep || tmk_export_names_get(job->names, id, 0))
            return mapped;
    }
    return i == 0 && original[0] ? original : NULL;
}

const char *tmk_export_setting(const struct tmk_export_job *job, const char *key,
                               const char *otherwise) {
    size_t len = strlen(key);
    for (size_t i = job->n_settings; i-- > 0;)
        if (strncmp(job->settings[i], key, len) == 0 && job->settings[i][len] == '=')
            return job->settings[i] + len + 1;
    return otherwise;
}

void tmk_export_remark(const struct tmk_export_job *job, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    tmk_pass_remark(job->remark, job->context, fmt, args);
    va_end(args);
}

enum tmk_status tmk_export_write(const struct tmk_export_job *job, const struct tmk_text *text,
                                 struct tmk_diag *diag) {
    TMK_TRY_ALLOC(!text->failed, diag);
    TMK_TRY(tmk_export_ready(job, diag));
    return tmk_file_write(job->path, text->data ? text->data : "", text->len, diag);
}
