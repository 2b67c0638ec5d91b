/* SPDX-License-Identifier: Apache-2.0 */
/* Predicted classes and right ones. */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "compare/simulate.h"
#include "data/source.h"

/* ---- labels ---- */

enum { MOST_LABELS = 1 << 28 };

static int64_t class_at(const struct tmk_tensor *t, size_t i) {
    switch (t->dtype) {
    case TMK_UINT8:
        return ((const uint8_t *)t->data)[i];
    case TMK_INT8:
        return ((const int8_t *)t->data)[i];
    case TMK_UINT16:
        return ((const uint16_t *)t->data)[i];
    case TMK_INT16:
        return ((const int16_t *)t->data)[i];
    case TMK_UINT32:
        return ((const uint32_t *)t->data)[i];
    case TMK_INT32:
        return ((const int32_t *)t->data)[i];
    default:
        return ((const int64_t *)t->data)[i];
    }
}

static enum tmk_status read_array(struct tmk_source *source, uint32_t array, const char *what,
                                  struct tmk_labels *out, struct tmk_diag *diag) {
    const struct tmk_source_array *a = &tmk_source_info(source)->arrays[array];
    struct tmk_tensor t = {0};
    if (a->whole || !a->n_entries || a->n_entries > MOST_LABELS)
        return tmk_fail(diag, TMK_FORMAT, "%s: is no array of labels, one entry a sample", what);
    TMK_TRY(tmk_source_read(source, array, 0, a->n_entries, &t, diag));
    const size_t count = tmk_tensor_count(&t);
    enum tmk_status status = TMK_OK;
    int64_t *classes = malloc((count + 1) * sizeof *classes);
    if (!classes)
        status = tmk_nomem(diag);
    else if (!tmk_dtype_is_integer(t.dtype) || tmk_dtype_size(t.dtype) == 0 ||
             t.dtype == TMK_UINT64 || !t.shape.rank || t.shape.dim[0] <= 0)
        status = tmk_fail(diag, TMK_TYPE, "%s: labels are integers, and these are %s", what,
                          tmk_dtype_name(t.dtype));
    if (status == TMK_OK) {
        for (size_t i = 0; i < count; i++)
            classes[i] = class_at(&t, i);
        out->classes = classes;
        out->n = (uint64_t)t.shape.dim[0];
        out->each = count / out->n;
    } else {
        free(classes);
    }
    tmk_tensor_finish(&t);
    return status;
}

/* Of integers, one entry a sample. */
static bool is_labels(const struct tmk_source_array *a) {
    return !a->whole && a->n_entries && a->n_entries <= MOST_LABELS &&
           tmk_dtype_is_integer(a->dtype) && a->dtype != TMK_UINT64;
}

/* The array of this name in a source of the data; *found: there was one. One that was not asked for
 * must look like labels. */
static enum tmk_status read_named(const char *path, const char *name, bool asked,
                                  struct tmk_labels *out, bool *found, struct tmk_diag *diag) {
    const size_t len = strlen(path);
    struct tmk_source *source = NULL;
    enum tmk_status status = TMK_OK;
    if (len < 4 || strcmp(path + len - 4, ".npz") != 0)
        return TMK_OK;
    TMK_TRY(tmk_source_open(path, NULL, &source, diag));
    const struct tmk_source_info *info = tmk_source_info(source);
    for (uint32_t i = 0; !*found && status == TMK_OK && i < info->n_arrays; i++)
        if (strcmp(info->arrays[i].name, name) == 0 && (asked || is_labels(&info->arrays[i]))) {
            *found = true;
            status = read_array(source, i, name, out, diag);
        }
    tmk_source_close(&source);
    return status;
}

enum tmk_status tmk_labels_read(const struct tmk_run_options *run, const char *labels,
                                struct tmk_labels *out, struct tmk_diag *diag) {
    const size_t len = labels ? strlen(labels) : 0;
    bool found = false;
    if (len > 4 && strcmp(labels + len - 4, ".npy") == 0) {
        struct tmk_source *source = NULL;
        TMK_TRY(tmk_source_open(labels, NULL, &source, diag));
        enum tmk_status status = read_array(source, 0, labels, out, diag);
        tmk_source_close(&source);
        out->asked = true;
        return status;
    }
    for (size_t i = 0; !found && i < run->data.n_sources; i++) {
        const char *equals = strchr(run->data.sources[i], '=');
        TMK_TRY(read_named(equals ? equals + 1 : run->data.sources[i], labels ? labels : "labels",
                           labels != NULL, out, &found, diag));
    }
    out->asked = labels != NULL;
    return found || !labels ? TMK_OK
                            : tmk_fail(diag, TMK_NOTFOUND,
                                       "no .npz of the data has an array '%s' of labels", labels);
}

void tmk_labels_finish(struct tmk_labels *labels) {
    free(labels->classes);
    *labels = (struct tmk_labels){0};
}

/* ---- predictions ---- */

static size_t index_of_max(const float *x, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

enum tmk_status tmk_predictions_add(struct tmk_predictions *sum, const struct tmk_labels *labels,
                                    uint64_t sample, uint64_t samples,
                                    const struct tmk_tensor *left, const struct tmk_tensor *right,
                                    struct tmk_diag *diag) {
    int32_t axis = left->shape.rank - 1;
    while (axis > 0 && left->shape.dim[axis] == 1)
        axis--;
    const size_t count = tmk_tensor_count(left);
    const size_t classes = axis > 0 ? (size_t)left->shape.dim[axis] : 0;
    if (classes < 2 || !count || left->dtype != TMK_FLOAT32 || right->dtype != TMK_FLOAT32 ||
        !tmk_shape_equal(&left->shape, &right->shape))
        return TMK_OK;
    const uint64_t positions = count / classes, each = positions / samples;
    const bool each_fits = positions % samples == 0 && each == labels->each;
    const bool fits = labels->n && each_fits && sample + samples <= labels->n;
    if (labels->asked && !each_fits)
        return tmk_fail(diag, TMK_MISMATCH,
                        "there are %llu labels a sample, and %llu predictions for %llu samples",
                        (unsigned long long)labels->each, (unsigned long long)positions,
                        (unsigned long long)samples);
    if (labels->asked && !fits)
        return tmk_fail(diag, TMK_MISMATCH, "there are labels for %llu samples only",
                        (unsigned long long)labels->n);
    for (uint64_t i = 0; i < positions; i++) {
        const size_t a = index_of_max((const float *)left->data + i * classes, classes),
                     b = index_of_max((const float *)right->data + i * classes, classes);
        sum->n++;
        sum->agree += a == b;
        if (!fits)
            continue;
        sum->labelled++;
        const int64_t right_one = labels->classes[sample * each + i];
        sum->right_left += right_one == (int64_t)a;
        sum->right_right += right_one == (int64_t)b;
        sum->one_right += (right_one == (int64_t)a) != (right_one == (int64_t)b);
    }
    return TMK_OK;
}

void tmk_predictions_merge(struct tmk_predictions *sum, const struct tmk_predictions *more) {
    sum->n += more->n;
    sum->agree += more->agree;
    sum->labelled += more->labelled;
    sum->right_left += more->right_left;
    sum->right_right += more->right_right;
    sum->one_right += more->one_right;
}
