/* SPDX-License-Identifier: Apache-2.0 */
#include "fold.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/lineage.h>

static const char *const passes[] = {"simplify-inference", "fold-scale-axis", "fold-bias"};

/* digits.folded.onnx, in a new folder: a profile has the name of its model's file, which is not to
 * change from one call to the next. */
static enum tmk_status name_file(struct folded *out, const char *path, struct tmk_diag *diag) {
    const char *temporary = getenv("TMPDIR"), *slash = strrchr(path, '/'),
               *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    const int stem = dot ? (int)(dot - name) : (int)strlen(name);
    snprintf(out->folder, sizeof out->folder, "%s/tidemark-XXXXXX",
             temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(out->folder)) {
        snprintf(diag->text, sizeof diag->text, "%s: no folder for the folded model: %s",
                 out->folder, strerror(errno));
        out->folder[0] = '\0';
        return diag->status = TMK_WRITE;
    }
    snprintf(out->file, sizeof out->file, "%s/%.*s.folded%s", out->folder, stem < 200 ? stem : 200,
             name, dot && strlen(dot) < 16 ? dot : "");
    out->path = out->file;
    return TMK_OK;
}

static enum tmk_status write_folded(struct tmk_model *model, const char *path, bool *fewer,
                                    struct tmk_diag *diag) {
    const struct tmk_transform_options options = {.passes = passes,
                                                  .n_passes = sizeof passes / sizeof *passes};
    struct tmk_transform_report report = {0};
    enum tmk_status status = tmk_model_transform(model, &options, path, NULL, &report, diag);
    *fewer = report.nodes_after < report.nodes_before;
    return status;
}

enum tmk_status fold_model(struct tmk_model **model, const char *path, const char *params,
                           const char *keep, struct folded *out, struct tmk_diag *diag) {
    struct tmk_model *folded = NULL;
    bool fewer = false;
    out->before = tmk_model_count_op(*model, "BatchNormalization");
    if ((!out->before && !keep) || params)
        return TMK_OK;
    out->path = keep;
    enum tmk_status status = keep ? TMK_OK : name_file(out, path, diag);
    if (status == TMK_OK)
        status = write_folded(*model, out->path, &fewer, diag);
    if (status == TMK_OK && (fewer || keep))
        status = tmk_model_open(out->path, false, &folded, diag);
    if (!folded) {
        finish_folded(out);
        return status;
    }
    out->after = tmk_model_count_op(folded, "BatchNormalization");
    tmk_model_close(model);
    *model = folded;
    return TMK_OK;
}

void name_original(const struct folded *folded, const char *path, struct tmk_diag *diag) {
    const size_t n = strlen(folded->file);
    struct tmk_diag was = *diag;
    if (folded->folder[0] && strncmp(was.text, folded->file, n) == 0)
        snprintf(diag->text, sizeof diag->text, "%s%s", path, was.text + n);
}

void finish_folded(struct folded *folded) {
    if (folded->folder[0]) {
        unlink(folded->file);
        rmdir(folded->folder);
    }
    folded->folder[0] = '\0';
    folded->path = NULL;
}
