/* SPDX-License-Identifier: Apache-2.0 */
/* /value/run_R/model_M/subg_S/{input_I,op_I}: float32 [2]; /name/model_M/subg_S: attributes of the
 * same names are texts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "export/reader.h"
#include "hdf5/file.h"

enum { LONGEST = 4096, DEEPEST = 3 };

/* The walk over /value/RUN/MODEL/SUBGRAPH/VALUE. */
struct walk {
    struct tmk_hdf5 *file;
    struct tmk_ranges *out;
    struct tmk_diag *diag;
    char path[LONGEST];
    size_t runs; /* where the path continues behind the run: "model_0/subg_0/op_1" */
};

/* The attribute of /name that names the value; its own place where there is none. */
static enum tmk_status name_of(const struct walk *w, char *out, size_t size) {
    char group[LONGEST + 8];
    bool found;
    const char *at = w->path + w->runs, *slash = strrchr(at, '/');
    snprintf(out, size, "%s", at);
    snprintf(group, sizeof group, "/name/%.*s", (int)(slash - at), at);
    return tmk_hdf5_text(w->file, group, slash + 1, out, size, &found, w->diag);
}

static enum tmk_status take_range(struct walk *w, const float range[2]) {
    char name[LONGEST];
    TMK_TRY(name_of(w, name, sizeof name));
    for (uint32_t i = 0; i < w->out->n; i++)
        if (strcmp(w->out->items[i].name, name) == 0)
            return tmk_range_set(&w->out->items[i], 0,
                                 fmin(w->out->items[i].low[0], (double)range[0]),
                                 fmax(w->out->items[i].high[0], (double)range[1]), 0, w->diag);
    return tmk_ranges_add_one(w->out, name, TMK_RANGE_EXACT, (double)range[0], (double)range[1],
                              w->diag);
}

static bool is_pair(const struct tmk_hdf5_dataset *set) {
    uint64_t n = 1;
    for (int i = 0; i < set->rank; i++)
        if (set->dim[i] > 2 || (n *= set->dim[i]) > 2)
            return false;
    /* HDF5 does not look how much a compact dataset holds. */
    return n == 2 && set->element.is == TMK_HDF5_FLOAT && set->stored / 2 >= set->element.size;
}

static enum tmk_status read_value(struct walk *w) {
    float range[2];
    struct tmk_hdf5_dataset set;
    TMK_TRY(tmk_hdf5_dataset_open(w->file, w->path, &set, w->diag));
    if (!is_pair(&set))
        return tmk_fail(w->diag, TMK_FORMAT, "wants two float32: min and max");
    TMK_TRY(tmk_hdf5_read_as(w->file, &set, TMK_HDF5_F32, 0, w->diag));
    TMK_TRY(tmk_hdf5_read(w->file, &set, 0, set.dim[0], range, w->diag));
    TMK_TRY(tmk_hdf5_shut(w->file, &set, w->diag));
    return take_range(w, range);
}

static enum tmk_status walk_group(struct walk *w, int depth);

static enum tmk_status visit_member(struct walk *w, const struct tmk_hdf5_member *member,
                                    int depth) {
    size_t used = strlen(w->path);
    if (member->linked)
        return TMK_OK;
    if (snprintf(w->path + used, sizeof w->path - used, "/%s", member->name) >=
        (int)(sizeof w->path - used))
        return tmk_fail(w->diag, TMK_FORMAT, "names are too long");
    enum tmk_status status;
    if (depth == DEEPEST)
        status = tmk_in(w->diag, read_value(w), "%s", w->path);
    else if (member->kind == TMK_HDF5_GROUP)
        status = walk_group(w, depth + 1);
    else
        status = tmk_fail(w->diag, TMK_FORMAT, "%s: is no group", w->path);
    w->path[used] = '\0';
    return status;
}

/* The members of a group: runs, models, sub-graphs, values. */
static enum tmk_status walk_group(struct walk *w, int depth) {
    struct tmk_hdf5_member *members;
    uint32_t n;
    if (depth == 1)
        w->runs = strlen(w->path) + 1;
    TMK_TRY(tmk_in(w->diag, tmk_hdf5_list(w->file, w->path, &members, &n, w->diag), "%s", w->path));
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; i < n && status == TMK_OK; i++)
        status = visit_member(w, &members[i], depth);
    free(members);
    return status;
}

static enum tmk_status read_file(struct walk *w, const char *path) {
    enum tmk_hdf5_kind kind;
    TMK_TRY(tmk_hdf5_open(path, &w->file, w->diag));
    TMK_TRY(tmk_hdf5_look(w->file, w->path, &kind, NULL, w->diag));
    if (kind != TMK_HDF5_GROUP)
        return tmk_fail(w->diag, TMK_FORMAT, "has no group /value: not onert's");
    return walk_group(w, 0);
}

enum tmk_status tmk_read_onert(const struct tmk_ranges_file *file, struct tmk_ranges *out,
                               struct tmk_diag *diag) {
    struct walk w = {.out = out, .diag = diag, .path = "/value"};
    enum tmk_status status = read_file(&w, file->path);
    tmk_hdf5_close(&w.file);
    return status;
}
