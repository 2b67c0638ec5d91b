/* SPDX-License-Identifier: Apache-2.0 */
/* /value/run_R/model_M/subg_S/{input_I,op_I}: float32 [2]; /name/model_M/subg_S: attributes of the
 * same names are texts. */
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "export/onert_form.h"

enum { LONGEST = 4096, DEEPEST = 3 };

/* A place of the walk: "model_0/subg_0/op_1", behind the run. */
struct walk {
    hid_t file;
    struct tmk_ranges *out;
    struct tmk_diag *diag;
    enum tmk_status status;
    char at[512];
    int depth; /* 0: runs, 1: models, 2: sub-graphs, 3: values */
};

/* The attribute of /name that names the value; its own place where there is none. */
static void name_of(const struct walk *w, char *out, size_t size) {
    char group[600];
    const char *slash = strrchr(w->at, '/');
    snprintf(out, size, "%s", w->at);
    if (!slash)
        return;
    snprintf(group, sizeof group, "/name/%.*s", (int)(slash - w->at), w->at);
    if (H5Aexists_by_name(w->file, group, slash + 1, H5P_DEFAULT) <= 0)
        return;
    hid_t attribute = H5Aopen_by_name(w->file, group, slash + 1, H5P_DEFAULT, H5P_DEFAULT);
    hid_t type = attribute >= 0 ? H5Aget_type(attribute) : H5I_INVALID_HID;
    hid_t space = attribute >= 0 ? H5Aget_space(attribute) : H5I_INVALID_HID;
    if (type >= 0 && space >= 0 && H5Tget_class(type) == H5T_STRING &&
        H5Sget_simple_extent_npoints(space) == 1) {
        if (H5Tis_variable_str(type) > 0) {
            char *text = NULL;
            hid_t memory = H5Tcopy(H5T_C_S1);
            H5Tset_size(memory, H5T_VARIABLE);
            H5Tset_cset(memory, H5Tget_cset(type));
            if (H5Aread(attribute, memory, &text) >= 0 && text)
                snprintf(out, size, "%s", text);
            H5free_memory(text);
            H5Tclose(memory);
        } else if (H5Tget_size(type) < size) {
            char text[LONGEST] = "";
            if (H5Aread(attribute, type, text) >= 0)
                snprintf(out, size, "%s", text);
        }
    }
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    if (attribute >= 0)
        H5Aclose(attribute);
}

static enum tmk_status take(struct walk *w, const float range[2]) {
    char name[LONGEST];
    name_of(w, name, sizeof name);
    for (uint32_t i = 0; i < w->out->n; i++)
        if (strcmp(w->out->items[i].name, name) == 0)
            return tmk_range_set(&w->out->items[i], 0,
                                 fmin(w->out->items[i].low[0], (double)range[0]),
                                 fmax(w->out->items[i].high[0], (double)range[1]), 0, w->diag);
    return tmk_ranges_add_one(w->out, name, TMK_RANGE_EXACT, (double)range[0], (double)range[1], 0,
                              w->diag);
}

static enum tmk_status read_value(struct walk *w, hid_t group, const char *name) {
    float range[2];
    hid_t dataset = H5Dopen2(group, name, H5P_DEFAULT);
    hid_t space = dataset >= 0 ? H5Dget_space(dataset) : H5I_INVALID_HID;
    hid_t type = dataset >= 0 ? H5Dget_type(dataset) : H5I_INVALID_HID;
    const bool fits = space >= 0 && type >= 0 && H5Sget_simple_extent_npoints(space) == 2 &&
                      H5Tget_class(type) == H5T_FLOAT &&
                      /* HDF5 does not look how much a compact dataset holds. */
                      H5Dget_storage_size(dataset) / 2 >= H5Tget_size(type) &&
                      H5Dread(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, range) >= 0;
    if (type >= 0)
        H5Tclose(type);
    if (space >= 0)
        H5Sclose(space);
    if (dataset >= 0)
        H5Dclose(dataset);
    return fits ? take(w, range)
                : tmk_fail(w->diag, TMK_FORMAT, "%s: wants two float32: least and greatest", w->at);
}

static herr_t visit(hid_t group, const char *name, const H5L_info_t *info, void *context) {
    struct walk *w = context;
    const size_t used = strlen(w->at);
    if (info->type != H5L_TYPE_HARD)
        return 0;
    if (w->depth > 0 && used + strlen(name) + 2 > sizeof w->at) {
        w->status = tmk_fail(w->diag, TMK_FORMAT, "%s: names are too long", w->at);
        return -1;
    }
    if (w->depth > 0)
        snprintf(w->at + used, sizeof w->at - used, "%s%s", used ? "/" : "", name);
    if (w->depth == DEEPEST) {
        w->status = read_value(w, group, name);
    } else {
        hid_t inner = H5Gopen2(group, name, H5P_DEFAULT);
        hsize_t from = 0;
        w->depth++;
        if (inner < 0 || H5Literate(inner, H5_INDEX_NAME, H5_ITER_INC, &from, visit, w) < 0)
            w->status = w->status != TMK_OK
                            ? w->status
                            : tmk_fail(w->diag, TMK_FORMAT, "/value/...%s: is no group", w->at);
        w->depth--;
        if (inner >= 0)
            H5Gclose(inner);
    }
    w->at[used] = '\0';
    return w->status == TMK_OK ? 0 : -1;
}

enum tmk_status tmk_read_onert(const char *path, const char *text, size_t len,
                               struct tmk_ranges *out, struct tmk_diag *diag) {
    (void)text;
    (void)len;
    struct walk w = {.out = out, .diag = diag};
    H5E_auto2_t report;
    void *report_to;
    H5Eget_auto2(H5E_DEFAULT, &report, &report_to);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    w.file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t values = w.file >= 0 ? H5Gopen2(w.file, "/value", H5P_DEFAULT) : H5I_INVALID_HID;
    hsize_t from = 0;
    if (values < 0)
        w.status = tmk_fail(diag, TMK_FORMAT, "damaged, or has no group /value: not onert's");
    else if (H5Literate(values, H5_INDEX_NAME, H5_ITER_INC, &from, visit, &w) < 0 &&
             w.status == TMK_OK)
        w.status = tmk_fail(diag, TMK_FORMAT, "the HDF5 file is damaged");
    if (values >= 0)
        H5Gclose(values);
    if (w.file >= 0)
        H5Fclose(w.file);
    H5Eset_auto2(H5E_DEFAULT, report, report_to);
    return w.status;
}
