/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles against profiles, models and files of others: merge, diff, link, cover. */
#include "_run.h"

#include <stdlib.h>

#include <tidemark/diff.h>
#include <tidemark/inputs.h>
#include <tidemark/link.h>
#include <tidemark/ranges.h>

static struct tmk_profile *profile_of(PyObject *self) {
    return ((struct py_profile *)self)->profile;
}

/* "p12"; None below 0. */
static PyObject *id_of(int64_t id) {
    return id < 0 ? Py_NewRef(Py_None) : PyUnicode_FromFormat("p%lld", (long long)id);
}

/* ---- merge ---- */

PyObject *py_merge(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *settings;
    struct words {
        const char *const *items;
        size_t n;
    } files = {0};
    static const struct py_option table[] = {
        {"files", PY_TEXTS, offsetof(struct words, items), offsetof(struct words, n)}, {0}};
    struct py_held held = {0};
    struct tmk_profile *profile = NULL;
    struct tmk_diag diag = {0};
    PyObject *result = NULL;
    if (PyArg_ParseTuple(args, "O!", &PyDict_Type, &settings) &&
        py_take_options(settings, table, NULL, &files, &held)) {
        enum tmk_status status;
        Py_BEGIN_ALLOW_THREADS;
        status = tmk_profile_merge_files(files.items, files.n, &profile, &diag);
        Py_END_ALLOW_THREADS;
        result = status == TMK_OK ? py_wrap_profile(profile) : py_fail(status, &diag);
    }
    py_finish_held(&held);
    return result;
}

/* ---- diff ---- */

static PyObject *range_of(const struct tmk_range_difference *r) {
    return Py_BuildValue("(s(dd)(dd)IdddN)", tmk_range_meaning_name(r->meaning), r->low_a,
                         r->high_a, r->low_b, r->high_b, r->channel, r->share, r->beyond, r->steps,
                         PyBool_FromLong(r->equal));
}

static PyObject *item_of(const struct tmk_diff_item *item) {
    return Py_BuildValue(
        "(NNNNNs)", py_text(item->name), id_of(item->id_a), id_of(item->id_b),
        item->ranged ? range_of(&item->range) : Py_NewRef(Py_None),
        item->distance < 0 ? Py_NewRef(Py_None) : PyFloat_FromDouble(item->distance), item->change);
}

static PyObject *diff_of(const struct tmk_diff *diff) {
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < diff->n; i++)
        if (!py_append(list, item_of(&diff->items[i])))
            Py_CLEAR(list);
    return list ? Py_BuildValue("(NNNI)", list, py_texts(diff->only_a, diff->n_only_a),
                                py_texts(diff->only_b, diff->n_only_b), diff->integers)
                : NULL;
}

struct side {
    const struct tmk_profile *profile; /* NULL: the path of a consumer's file */
    const char *path;
    struct tmk_ranges *ranges;
};

static bool take_side(PyObject *object, struct side *side) {
    if (Py_TYPE(object) == py_profile_type)
        side->profile = profile_of(object);
    else
        side->path = py_utf8(object);
    return side->profile || side->path;
}

/* Without the GIL. */
static enum tmk_status compare_sides(struct side *a, struct side *b, const char *format,
                                     struct tmk_diff **out, struct tmk_diag *diag) {
    enum tmk_status status = a->path ? tmk_ranges_read(a->path, NULL, &a->ranges, diag) : TMK_OK;
    if (status == TMK_OK && b->path)
        status = tmk_ranges_read(b->path, format, &b->ranges, diag);
    if (status != TMK_OK)
        return status;
    if (a->profile)
        return b->profile ? tmk_diff_profiles(a->profile, b->profile, out, diag)
                          : tmk_diff_coverage(a->profile, b->ranges, out, diag);
    if (b->profile)
        status = tmk_ranges_of_profile(b->profile, &b->ranges, diag);
    return status == TMK_OK ? tmk_diff_ranges(a->ranges, b->ranges, out, diag) : status;
}

PyObject *py_diff(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *a, *b, *result = NULL;
    const char *format;
    struct side left = {0}, right = {0};
    struct tmk_diff *diff = NULL;
    struct tmk_diag diag = {0};
    enum tmk_status status;
    if (!PyArg_ParseTuple(args, "OOz", &a, &b, &format) || !take_side(a, &left) ||
        !take_side(b, &right))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = compare_sides(&left, &right, format, &diff, &diag);
    Py_END_ALLOW_THREADS;
    result = status == TMK_OK ? diff_of(diff) : py_fail(status, &diag);
    tmk_diff_destroy(&diff);
    tmk_ranges_destroy(&left.ranges);
    tmk_ranges_destroy(&right.ranges);
    return result;
}

PyObject *py_can_write(PyObject *self, PyObject *args) {
    (void)self;
    const char *path, *endings;
    struct tmk_diag diag = {0};
    if (!PyArg_ParseTuple(args, "sz", &path, &endings))
        return NULL;
    enum tmk_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tmk_can_write(path, endings, &diag);
    Py_END_ALLOW_THREADS;
    return status == TMK_OK ? Py_NewRef(Py_None) : py_fail(status, &diag);
}

PyObject *py_file_kind(PyObject *self, PyObject *args) {
    (void)self;
    const char *path, *kind = NULL;
    struct tmk_diag diag = {0};
    if (!PyArg_ParseTuple(args, "s", &path))
        return NULL;
    enum tmk_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tmk_ranges_detect_format(path, &kind, &diag);
    Py_END_ALLOW_THREADS;
    return status == TMK_OK ? py_text(kind) : py_fail(status, &diag);
}

/* ---- check ---- */

PyObject *py_skeleton(PyObject *self, PyObject *args) {
    (void)self;
    const char *path, *params;
    struct tmk_model *model = NULL;
    struct tmk_profile *profile = NULL;
    struct tmk_diag diag = {0};
    if (!PyArg_ParseTuple(args, "sz", &path, &params))
        return NULL;
    enum tmk_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tmk_model_open_params(path, params, true, &model, &diag);
    if (status == TMK_OK)
        status = tmk_model_skeleton(model, &profile, &diag);
    tmk_model_close(&model);
    Py_END_ALLOW_THREADS;
    return status == TMK_OK ? py_wrap_profile(profile) : py_fail(status, &diag);
}

/* What a value computes: equal for two values that compute the same of the same. */
PyObject *py_computation(PyObject *self, PyObject *args) {
    Py_ssize_t i;
    if (!PyArg_ParseTuple(args, "n", &i))
        return NULL;
    if (i < 0 || (size_t)i >= profile_of(self)->n_tensors) {
        PyErr_SetString(PyExc_IndexError, "there is no such record");
        return NULL;
    }
    const struct tmk_profile_tensor *t = &profile_of(self)->tensors[i];
    return Py_BuildValue("(KKI)", (unsigned long long)t->fingerprint,
                         (unsigned long long)t->content, t->ordinal);
}

static PyObject *coverage_of(const struct tmk_range *range, const struct tmk_range_coverage *c) {
    return Py_BuildValue("(NsNN)", py_text(range->name), tmk_range_coverage_name(c->kind),
                         c->record ? id_of(c->record->id) : Py_NewRef(Py_None),
                         c->compared ? range_of(&c->difference) : Py_NewRef(Py_None));
}

/* Without the GIL; free *all. */
static enum tmk_status cover(const struct tmk_profile *profile, const char *path,
                             const char *lineage_path, struct tmk_ranges **ranges,
                             struct tmk_range_coverage **all, struct tmk_diag *diag) {
    struct tmk_lineage_record *lineage = NULL;
    enum tmk_status status = tmk_ranges_read(path, NULL, ranges, diag);
    if (status == TMK_OK && lineage_path)
        status = tmk_lineage_record_read(lineage_path, &lineage, diag);
    if (status == TMK_OK && !(*all = calloc((size_t)(*ranges)->n + 1, sizeof **all)))
        status = TMK_NOMEM;
    if (status == TMK_OK)
        status = tmk_ranges_cover(*ranges, profile, lineage, *all, diag);
    tmk_lineage_record_destroy(&lineage);
    return status;
}

PyObject *py_cover(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *profile;
    const char *path, *lineage_path;
    struct tmk_ranges *ranges = NULL;
    struct tmk_range_coverage *all = NULL;
    struct tmk_diag diag = {0};
    enum tmk_status status;
    if (!PyArg_ParseTuple(args, "O!sz", py_profile_type, &profile, &path, &lineage_path))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = cover(profile_of(profile), path, lineage_path, &ranges, &all, &diag);
    Py_END_ALLOW_THREADS;
    PyObject *list = status == TMK_OK ? PyList_New(0) : py_fail(status, &diag);
    for (uint32_t i = 0; list && i < ranges->n; i++)
        if (!py_append(list, coverage_of(&ranges->items[i], &all[i])))
            Py_CLEAR(list);
    free(all);
    tmk_ranges_destroy(&ranges);
    return list;
}

/* ---- lineages ---- */

PyObject *py_lineage(const struct tmk_lineage_record *record) {
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < record->n_originals; i++) {
        const struct tmk_lineage_original *o = &record->originals[i];
        const char *name = o->value >= 0 ? record->values[o->value].is.name : NULL;
        if (!py_append(list, Py_BuildValue("(NNsNNss)", id_of(i), py_text(o->is.name),
                                           tmk_lineage_verdict_name(o->verdict), id_of(o->value),
                                           name ? py_text(name) : Py_NewRef(Py_None), o->pass,
                                           o->remark)))
            Py_CLEAR(list);
    }
    return list;
}

PyObject *py_read_lineage(PyObject *self, PyObject *args) {
    (void)self;
    const char *path;
    struct tmk_lineage_record *record = NULL;
    struct tmk_diag diag = {0};
    if (!PyArg_ParseTuple(args, "s", &path))
        return NULL;
    enum tmk_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tmk_lineage_record_read(path, &record, &diag);
    Py_END_ALLOW_THREADS;
    PyObject *list = status == TMK_OK ? py_lineage(record) : py_fail(status, &diag);
    tmk_lineage_record_destroy(&record);
    return list;
}

/* ---- link ---- */

struct link_call {
    PyObject *profile;
    const char *model, *params, *original, *original_params, *tensors, *lineage;
    const char *report, *lineage_out;
    bool numbers;
};

#define AT(member) offsetof(struct link_call, member)
static const struct py_option link_table[] = {{"profile", PY_CALL, AT(profile)},
                                              {"model", PY_TEXT, AT(model)},
                                              {"params", PY_TEXT, AT(params)},
                                              {"original", PY_TEXT, AT(original)},
                                              {"original_params", PY_TEXT, AT(original_params)},
                                              {"tensors", PY_TEXT, AT(tensors)},
                                              {"lineage", PY_TEXT, AT(lineage)},
                                              {"report", PY_TEXT, AT(report)},
                                              {"lineage_out", PY_TEXT, AT(lineage_out)},
                                              {"numbers", PY_FLAG, AT(numbers)},
                                              {0}};
#undef AT

struct linking {
    struct tmk_profile *to;
    struct tmk_model *model, *original;
    struct tmk_link *link;
    struct tmk_transfer_report carried;
};

static enum tmk_status find_matches(const struct link_call *call, const struct py_run *run,
                                    struct linking *l, struct tmk_diag *diag) {
    const struct tmk_profile *from = profile_of(call->profile);
    enum tmk_status status =
        call->model ? tmk_model_open_params(call->model, call->params,
                                            !call->numbers || call->tensors, &l->model, diag)
                    : tmk_tensors_skeleton(call->tensors, &l->to, diag);
    if (status == TMK_OK && l->model)
        status = tmk_model_skeleton(l->model, &l->to, diag);
    if (status == TMK_OK && call->numbers)
        status =
            tmk_model_open_params(call->original, call->original_params, false, &l->original, diag);
    if (status != TMK_OK)
        return status;
    const struct tmk_link_numbers numbers = {l->original, l->model, call->tensors, &run->options};
    return call->numbers   ? tmk_link_by_numbers(from, l->to, &numbers, &l->link, diag)
           : call->lineage ? tmk_link_by_lineage(from, l->to, call->lineage, &l->link, diag)
                           : tmk_link_by_fingerprint(from, l->to, &l->link, diag);
}

static enum tmk_status link_models(const struct link_call *call, const struct py_run *run,
                                   struct linking *l, struct tmk_diag *diag) {
    enum tmk_status status = find_matches(call, run, l, diag);
    if (status == TMK_OK)
        status = tmk_profile_transfer(profile_of(call->profile), l->link->record, false, l->to,
                                      &l->carried, diag);
    if (status == TMK_OK && call->report)
        status = tmk_link_write_report(l->link, call->report, diag);
    return status;
}

static PyObject *matches_of(const struct tmk_link *link) {
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < link->record->n_originals; i++) {
        const struct tmk_link_match *m = &link->matches[i];
        if (!py_append(list, Py_BuildValue("(sNNd)", tmk_link_evidence_name(m->evidence),
                                           PyBool_FromLong(m->ambiguous),
                                           PyBool_FromLong(m->left_out), m->residual)))
            Py_CLEAR(list);
    }
    return list;
}

PyObject *py_link(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *settings, *result = NULL;
    struct py_run run = {0};
    struct link_call call = {0};
    struct linking l = {0};
    if (!PyArg_ParseTuple(args, "O!", &PyDict_Type, &settings))
        return NULL;
    if (py_begin_run(settings, link_table, &call, &run) && py_is_profile(call.profile)) {
        struct tmk_diag diag = {0};
        enum tmk_status status;
        Py_BEGIN_ALLOW_THREADS;
        status = link_models(&call, &run, &l, &diag);
        Py_END_ALLOW_THREADS;
        if (status == TMK_OK && call.lineage_out)
            status = py_write_lineage(l.link->record, call.lineage_out, &diag);
        if (!py_run_failed(&run, status, &diag)) {
            result = Py_BuildValue("(NsdNN{sIsIsIsI})", py_wrap_profile(l.to), l.link->method,
                                   l.link->tolerance, py_lineage(l.link->record),
                                   matches_of(l.link), "own", l.carried.own, "same", l.carried.same,
                                   "derived", l.carried.derived, "unknown", l.carried.unknown);
            l.to = NULL; /* the wrapper's */
        }
    }
    tmk_link_destroy(&l.link);
    tmk_model_close(&l.model);
    tmk_model_close(&l.original);
    tmk_profile_destroy(&l.to);
    py_finish_run(&run);
    return result;
}
