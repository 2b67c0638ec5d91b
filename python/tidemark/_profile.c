/* SPDX-License-Identifier: Apache-2.0 */
/* A profile as Python sees it: records as dictionaries, numbers as bytes for NumPy. */
#include "_core.h"

#include <math.h>

static struct tmk_profile *of(PyObject *self) {
    return ((struct py_profile *)self)->profile;
}

PyObject *py_wrap_profile(struct tmk_profile *profile) {
    struct py_profile *made = PyObject_New(struct py_profile, py_profile_type);
    if (made)
        made->profile = profile;
    else
        tmk_profile_destroy(&profile);
    return (PyObject *)made;
}

bool py_is_profile(PyObject *object) {
    const bool is = object && Py_TYPE(object) == py_profile_type;
    if (!is)
        PyErr_SetString(PyExc_TypeError, "a profile is wanted");
    return is;
}

static void dealloc(PyObject *self) {
    tmk_profile_destroy(&((struct py_profile *)self)->profile);
    py_free(self);
}

static const struct tmk_profile_tensor *tensor_at(PyObject *self, PyObject *args) {
    Py_ssize_t i;
    if (!PyArg_ParseTuple(args, "n", &i))
        return NULL;
    if (i < 0 || (size_t)i >= of(self)->n_tensors) {
        PyErr_SetString(PyExc_IndexError, "there is no such record");
        return NULL;
    }
    return &of(self)->tensors[i];
}

/* ---- a record ---- */

static PyObject *shape_of(const struct tmk_profile_tensor *t) {
    const struct tmk_shape *shape = NULL;
    uint32_t most = 0;
    for (uint32_t i = 1; i < t->n_runs; i++)
        if (t->runs[i].runs > t->runs[most].runs)
            most = i;
    shape = t->n_runs ? &t->runs[most].shape : t->has_shape ? &t->shape : NULL;
    if (!shape)
        Py_RETURN_NONE;
    PyObject *tuple = PyTuple_New(shape->rank);
    for (int32_t i = 0; tuple && i < shape->rank; i++) {
        PyObject *dim = PyLong_FromLongLong(shape->dim[i]);
        if (!dim)
            Py_CLEAR(tuple);
        else
            PyTuple_SetItem(tuple, i, dim);
    }
    return tuple;
}

static PyObject *place_of(const struct tmk_where *where) {
    if (where->sample == TMK_NOWHERE)
        Py_RETURN_NONE;
    return Py_BuildValue("(KK)", (unsigned long long)where->sample,
                         (unsigned long long)where->index);
}

static PyObject *number(double value) {
    if (isnan(value))
        Py_RETURN_NONE;
    return PyFloat_FromDouble(value);
}

/* What its extremes look as if they stood for, as in masks; None: they were measured. */
static PyObject *sentinel_of(const struct tmk_summary *s) {
    const char *text = tmk_sentinel(s->min) ? tmk_sentinel(s->min) : tmk_sentinel(s->max);
    return text ? py_text(text) : Py_NewRef(Py_None);
}

static bool put_floats(PyObject *dict, const struct tmk_profile_tensor *t) {
    struct tmk_summary s;
    tmk_stats_summary(t->stats, &s);
    return py_put(dict, "count", PyLong_FromUnsignedLongLong(s.count)) &&
           py_put(dict, "min", number((double)s.min)) &&
           py_put(dict, "max", number((double)s.max)) &&
           py_put(dict, "min_at", place_of(&s.min_at)) &&
           py_put(dict, "max_at", place_of(&s.max_at)) &&
           py_put(dict, "sentinel", sentinel_of(&s)) && py_put(dict, "mean", number(s.mean)) &&
           py_put(dict, "std", number(s.std)) && py_put(dict, "std_low", number(s.std_lo)) &&
           py_put(dict, "std_high", number(s.std_hi)) && py_put(dict, "sum", number(s.sum)) &&
           py_put(dict, "histogram_share", PyFloat_FromDouble(1.0 / (s.share ? s.share : 1))) &&
           py_put(dict, "rank_error", number(tmk_stats_rank_error(t->stats, 0.99, false))) &&
           py_put(dict, "zeros", PyLong_FromUnsignedLongLong(s.zeros)) &&
           py_put(dict, "nan", PyLong_FromUnsignedLongLong(s.nan)) &&
           py_put(dict, "posinf", PyLong_FromUnsignedLongLong(s.posinf)) &&
           py_put(dict, "neginf", PyLong_FromUnsignedLongLong(s.neginf)) &&
           py_put(dict, "excluded", PyLong_FromUnsignedLongLong(s.excluded)) &&
           py_put(dict, "padding", PyLong_FromUnsignedLongLong(s.padding)) &&
           py_put(dict, "samples", PyLong_FromUnsignedLongLong(s.samples));
}

static bool put_ints(PyObject *dict, const struct tmk_int_stats *s) {
    return py_put(dict, "count", PyLong_FromUnsignedLongLong(s->count)) &&
           py_put(dict, "min", PyLong_FromLongLong(s->min)) &&
           py_put(dict, "max", PyLong_FromLongLong(s->max)) &&
           py_put(dict, "zeros", PyLong_FromUnsignedLongLong(s->zeros));
}

static bool put_all(PyObject *dict, const struct tmk_profile_tensor *t) {
    char id[16], print[24];
    PyOS_snprintf(id, sizeof id, "p%u", t->id);
    PyOS_snprintf(print, sizeof print, "%016llx", (unsigned long long)t->fingerprint);
    return py_put(dict, "id", py_text(id)) && py_put(dict, "name", py_text(t->name)) &&
           py_put(dict, "fingerprint", py_text(print)) && py_put(dict, "path", py_text(t->path)) &&
           py_put(dict, "kind", py_text(tmk_profile_kind_name(t->kind))) &&
           py_put(dict, "inner", PyBool_FromLong(t->inner)) &&
           py_put(dict, "status", py_text(tmk_profile_status_name(t->status))) &&
           py_put(dict, "dtype", py_text(tmk_dtype_name(t->dtype))) &&
           py_put(dict, "shape", shape_of(t)) &&
           py_put(dict, "op", py_text(t->has_producer ? t->producer.op : "")) &&
           py_put(dict, "node", py_text(t->has_producer ? t->producer.node : "")) &&
           (t->stats                                     ? put_floats(dict, t)
            : t->has_int_stats && t->int_stats.count > 0 ? put_ints(dict, &t->int_stats)
                                                         : true);
}

static PyObject *record(PyObject *self, PyObject *args) {
    const struct tmk_profile_tensor *t = tensor_at(self, args);
    PyObject *dict = t ? PyDict_New() : NULL;
    if (dict && !put_all(dict, t))
        Py_CLEAR(dict);
    return dict;
}

/* ---- numbers ---- */

static PyObject *bins(PyObject *self, PyObject *args) {
    const struct tmk_profile_tensor *t = tensor_at(self, args);
    struct tmk_summary s;
    if (!t)
        return NULL;
    if (!t->stats)
        Py_RETURN_NONE;
    tmk_stats_summary(t->stats, &s);
    if (s.level != TMK_STATS_HISTOGRAM)
        Py_RETURN_NONE;
    const Py_ssize_t n = s.bins_used;
    PyObject *bin = PyBytes_FromStringAndSize(NULL, 2 * n);
    PyObject *count = PyBytes_FromStringAndSize(NULL, 8 * n);
    PyObject *low = PyBytes_FromStringAndSize(NULL, 8 * n);
    PyObject *all = NULL;
    if (bin && count && low) {
        tmk_stats_bins(t->stats, (uint16_t *)(void *)PyBytes_AsString(bin),
                       (uint64_t *)(void *)PyBytes_AsString(count),
                       (uint64_t *)(void *)PyBytes_AsString(low));
        all = PyTuple_Pack(3, bin, count, low);
    }
    Py_XDECREF(bin);
    Py_XDECREF(count);
    Py_XDECREF(low);
    return all;
}

static PyObject *linear(PyObject *self, PyObject *args) {
    Py_ssize_t i, n;
    double lo, hi;
    struct tmk_diag diag = {0};
    if (!PyArg_ParseTuple(args, "nndd", &i, &n, &lo, &hi))
        return NULL;
    if (i < 0 || (size_t)i >= of(self)->n_tensors || !of(self)->tensors[i].stats || n < 1 ||
        n > 1 << 24) {
        PyErr_SetString(PyExc_ValueError, "there is no histogram, or not of so many bins");
        return NULL;
    }
    PyObject *counts = PyBytes_FromStringAndSize(NULL, 8 * n);
    if (!counts)
        return NULL;
    const enum tmk_status status =
        tmk_stats_linear(of(self)->tensors[i].stats, false, lo, hi, (size_t)n,
                         (double *)(void *)PyBytes_AsString(counts), &diag);
    if (status == TMK_OK)
        return counts;
    Py_DECREF(counts);
    return py_fail(status, &diag);
}

static PyObject *channels(PyObject *self, PyObject *args) {
    const struct tmk_profile_tensor *t = tensor_at(self, args);
    struct tmk_summary s;
    if (!t)
        return NULL;
    if (!t->stats)
        Py_RETURN_NONE;
    tmk_stats_quick_summary(t->stats, &s);
    if (!s.channels)
        Py_RETURN_NONE;
    PyObject *min = py_floats(s.channel_min, s.channels),
             *max = py_floats(s.channel_max, s.channels);
    PyObject *all = min && max ? Py_BuildValue("(iOO)", s.channel_axis, min, max) : NULL;
    Py_XDECREF(min);
    Py_XDECREF(max);
    return all;
}

static PyObject *samples(PyObject *self, PyObject *args) {
    const struct tmk_profile_tensor *t = tensor_at(self, args);
    if (!t)
        return NULL;
    if (!t->sample_min)
        Py_RETURN_NONE;
    PyObject *min = py_floats(t->sample_min, t->n_samples),
             *max = py_floats(t->sample_max, t->n_samples);
    PyObject *all = min && max ? PyTuple_Pack(2, min, max) : NULL;
    Py_XDECREF(min);
    Py_XDECREF(max);
    return all;
}

static PyObject *quantile(PyObject *self, PyObject *args) {
    Py_ssize_t i;
    double q, lo, hi, mid;
    struct tmk_diag diag = {0};
    if (!PyArg_ParseTuple(args, "nd", &i, &q))
        return NULL;
    if (i < 0 || (size_t)i >= of(self)->n_tensors || !of(self)->tensors[i].stats) {
        PyErr_SetString(PyExc_ValueError, "there is no histogram");
        return NULL;
    }
    const enum tmk_status status =
        tmk_stats_quantile(of(self)->tensors[i].stats, q, false, &lo, &hi, &mid, &diag);
    return status == TMK_OK ? Py_BuildValue("(ddd)", mid, lo, hi) : py_fail(status, &diag);
}

/* ---- the whole ---- */

static PyObject *info(PyObject *self, PyObject *nothing) {
    (void)nothing;
    const struct tmk_profile *p = of(self);
    PyObject *settings = PyDict_New();
    for (uint32_t i = 0; settings && i < p->n_settings; i++)
        if (!py_put(settings, p->settings[i].key, py_text(p->settings[i].value)))
            Py_CLEAR(settings);
    if (!settings)
        return NULL;
    return Py_BuildValue(
        "{s{ssssss}s{sKsKsKsK}sN}", "model", "file", p->model.file, "sha256", p->model.sha256,
        "format", p->model.format, "ledger", "offered", (unsigned long long)p->ledger.offered,
        "run", (unsigned long long)p->ledger.run, "skipped", (unsigned long long)p->ledger.skipped,
        "failed", (unsigned long long)p->ledger.failed, "settings", settings);
}

static PyObject *read_profile(PyObject *type, PyObject *args) {
    (void)type;
    const char *path;
    struct tmk_profile *profile = NULL;
    struct tmk_diag diag = {0};
    if (!PyArg_ParseTuple(args, "s", &path))
        return NULL;
    enum tmk_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tmk_profile_read(path, &profile, &diag);
    Py_END_ALLOW_THREADS;
    return status == TMK_OK ? py_wrap_profile(profile) : py_fail(status, &diag);
}

static PyObject *write_profile(PyObject *self, PyObject *args) {
    const char *path;
    struct tmk_diag diag = {0};
    if (!PyArg_ParseTuple(args, "s", &path))
        return NULL;
    const enum tmk_status status = py_write_profile(of(self), path, &diag);
    if (status != TMK_OK)
        return py_fail(status, &diag);
    Py_RETURN_NONE;
}

static Py_ssize_t length(PyObject *self) {
    return of(self)->n_tensors;
}

static PyMethodDef methods[] = {
    {"record", record, METH_VARARGS, "record(i): all figures of one value"},
    {"bins", bins, METH_VARARGS,
     "bins(i): numbers, counts and low sums of the used bins, as bytes"},
    {"linear", linear, METH_VARARGS, "linear(i, n, lo, hi): counts in equal parts, as bytes"},
    {"channels", channels, METH_VARARGS, "channels(i): axis, and extremes as bytes"},
    {"samples", samples, METH_VARARGS, "samples(i): extremes of each sample, as bytes"},
    {"quantile", quantile, METH_VARARGS, "quantile(i, q): it, and the ends that it lies between"},
    {"computation", py_computation, METH_VARARGS, "computation(i): equal where two compute alike"},
    {"info", info, METH_NOARGS, "model, ledger, settings"},
    {"read", read_profile, METH_VARARGS | METH_STATIC, "read(path)"},
    {"write", write_profile, METH_VARARGS, "write(path): .json or .h5"},
    {0}};
static PyType_Slot slots[] = {{Py_tp_dealloc, (void *)dealloc},
                              {Py_tp_methods, methods},
                              {Py_sq_length, (void *)length},
                              {0}};
PyType_Spec py_profile_spec = {
    .name = "tidemark._core.Profile",
    .basicsize = sizeof(struct py_profile),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};
