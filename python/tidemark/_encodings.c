/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings as Python sees them, how they are made, and where they go. */
#include "_core.h"

#include <stdlib.h>

#include <tidemark/export.h>
#include <tidemark/rounding.h>

static struct tmk_encodings *of(PyObject *self) {
    return ((struct py_encodings *)self)->encodings;
}

PyObject *py_wrap_encodings(struct tmk_encodings *encodings) {
    struct py_encodings *made = PyObject_New(struct py_encodings, py_encodings_type);
    if (made)
        made->encodings = encodings;
    else
        tmk_encodings_destroy(&encodings);
    return (PyObject *)made;
}

static void dealloc(PyObject *self) {
    tmk_encodings_destroy(&((struct py_encodings *)self)->encodings);
    py_free(self);
}

static PyObject *id_of(uint32_t id) {
    return PyUnicode_FromFormat("p%u", id);
}

static PyObject *expected_of(const struct tmk_encoding *e) {
    if (!e->expected.known)
        Py_RETURN_NONE;
    return Py_BuildValue("{sdsdsdsd}", "mse", e->expected.mse, "sqnr", e->expected.sqnr, "clipped",
                         e->expected.clipped, "tying", e->expected.tying);
}

static bool put_all(PyObject *dict, const struct tmk_encoding *e) {
    return py_put(dict, "id", id_of(e->id)) && py_put(dict, "name", py_text(e->name)) &&
           py_put(dict, "role", py_text(tmk_encoding_role_name(e->role))) &&
           py_put(dict, "dtype", py_text(tmk_dtype_name(e->dtype))) &&
           py_put(dict, "symmetric", PyBool_FromLong(e->symmetric)) &&
           py_put(dict, "axis", e->axis < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(e->axis)) &&
           py_put(dict, "scale", py_floats(e->scale, e->n)) &&
           py_put(dict, "zero_point",
                  PyBytes_FromStringAndSize((const char *)e->zero_point,
                                            (Py_ssize_t)(e->n * sizeof *e->zero_point))) &&
           py_put(dict, "low", py_floats(e->low, e->n)) &&
           py_put(dict, "high", py_floats(e->high, e->n)) &&
           py_put(dict, "method", py_text(e->method)) && py_put(dict, "rule", py_text(e->rule)) &&
           py_put(dict, "group", PyLong_FromUnsignedLong(e->group)) &&
           py_put(dict, "expected", expected_of(e)) &&
           py_put(dict, "block", PyLong_FromUnsignedLong(e->block));
}

static PyObject *items(PyObject *self, PyObject *nothing) {
    (void)nothing;
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < of(self)->n_items; i++) {
        PyObject *dict = PyDict_New();
        if (dict && !put_all(dict, &of(self)->items[i]))
            Py_CLEAR(dict);
        if (!py_append(list, dict))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *left(PyObject *self, PyObject *nothing) {
    (void)nothing;
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < of(self)->n_left; i++) {
        const struct tmk_left_float *l = &of(self)->left[i];
        if (!py_append(list, Py_BuildValue("(NNs)", id_of(l->id), py_text(l->name), l->reason)))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *rounding(PyObject *self, PyObject *nothing) {
    (void)nothing;
    return py_text(tmk_rounding_name(of(self)->rounding));
}

static PyObject *read_encodings(PyObject *type, PyObject *args) {
    (void)type;
    const char *path;
    struct tmk_encodings *encodings = NULL;
    struct tmk_diag diag = {0};
    if (!PyArg_ParseTuple(args, "s", &path))
        return NULL;
    enum tmk_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tmk_encodings_read(path, &encodings, &diag);
    Py_END_ALLOW_THREADS;
    return status == TMK_OK ? py_wrap_encodings(encodings) : py_fail(status, &diag);
}

static PyObject *write_encodings(PyObject *self, PyObject *args) {
    const char *path;
    struct tmk_diag diag = {0};
    if (!PyArg_ParseTuple(args, "s", &path))
        return NULL;
    enum tmk_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tmk_encodings_write(of(self), path, &diag);
    Py_END_ALLOW_THREADS;
    if (status != TMK_OK)
        return py_fail(status, &diag);
    Py_RETURN_NONE;
}

/* ---- making them ---- */

static bool dtype_of(const char *name, enum tmk_dtype *out) {
    *out = name ? tmk_dtype_by_name(name) : TMK_UNDEFINED;
    if (name && *out == TMK_UNDEFINED)
        PyErr_Format(PyExc_ValueError, "there is no type '%s'", name);
    return !name || *out != TMK_UNDEFINED;
}

/* Without the GIL. */
static enum tmk_status calibrate(const struct tmk_profile *profile, const char *target_name,
                                 const char *model_path, const char *params,
                                 struct tmk_calibrate_options *options, struct tmk_encodings **out,
                                 struct tmk_diag *diag) {
    struct tmk_target *target = NULL;
    struct tmk_model *model = NULL;
    enum tmk_status status = target_name ? tmk_target_open(target_name, &target, diag) : TMK_OK;
    options->target = target;
    if (status == TMK_OK && model_path)
        status = tmk_model_open_params(model_path, params, true, &model, diag);
    options->constant = model ? tmk_model_constant : NULL;
    options->codes = model ? tmk_model_codes : NULL;
    options->model = model;
    if (status == TMK_OK)
        status = tmk_calibrate(profile, options, out, diag);
    tmk_model_close(&model);
    tmk_target_close(&target);
    return status;
}

PyObject *py_calibrate(PyObject *self, PyObject *args, PyObject *named) {
    (void)self;
    static char *keys[] = {"profile",        "method",         "parameter",
                           "dtype",          "scheme",         "scales",
                           "pow2",           "weights_method", "weights_dtype",
                           "weights_scheme", "weights_scales", "rounding",
                           "pow2_requant",   "config",         "remarks",
                           "sensitive",      "target",         "weights_block",
                           "model",          "params",         NULL};
    PyObject *profile;
    struct py_heard heard = {0};
    const char *dtype = NULL, *weights_dtype = NULL, *rounding = NULL, *name = NULL;
    const char *model_path = NULL, *params = NULL;
    int pow2 = 0, pow2_requant = 0;
    struct tmk_calibrate_options options = {0};
    struct tmk_encodings *encodings = NULL;
    struct tmk_diag diag = {0};
    if (!PyArg_ParseTupleAndKeywords(
            args, named, "O!|zdzzzpzzzzzpzO!zzIzz", keys, py_profile_type, &profile,
            &options.activations.method, &options.activations.parameter, &dtype,
            &options.activations.scheme, &options.activations.scales, &pow2,
            &options.weights.method, &weights_dtype, &options.weights.scheme,
            &options.weights.scales, &rounding, &pow2_requant, &options.config, &PyList_Type,
            &heard.list, &options.sensitive, &name, &options.weights.block, &model_path, &params) ||
        !dtype_of(dtype, &options.activations.dtype) ||
        !dtype_of(weights_dtype, &options.weights.dtype))
        return NULL;
    if (rounding && !tmk_rounding_by_name(rounding, &options.rounding))
        return PyErr_Format(PyExc_ValueError, "there is no rounding '%s'", rounding);
    options.activations.pow2 = options.weights.pow2 = pow2 != 0;
    options.pow2_requant = pow2_requant != 0;
    options.remark = heard.list ? py_hear_line : NULL;
    options.stop = py_hear_stop;
    options.context = &heard;
    enum tmk_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = calibrate(((struct py_profile *)profile)->profile, name, model_path, params, &options,
                       &encodings, &diag);
    Py_END_ALLOW_THREADS;
    if (PyErr_Occurred()) {
        tmk_encodings_destroy(&encodings);
        return NULL;
    }
    return status == TMK_OK ? py_wrap_encodings(encodings) : py_fail(status, &diag);
}

/* ---- where they go ---- */

struct exporting {
    struct py_heard skipped, remarked;
};

static void add_skip(void *context, uint32_t id, const char *name, const char *why) {
    const struct exporting *e = context;
    PyGILState_STATE held = PyGILState_Ensure();
    if (!PyErr_Occurred())
        py_append(e->skipped.list, Py_BuildValue("(NNs)", id_of(id), py_text(name), why));
    PyGILState_Release(held);
}

static void add_remark(void *context, const char *text) {
    py_hear_line(&((struct exporting *)context)->remarked, text);
}

/* Without the GIL. */
static enum tmk_status export_to(const struct tmk_encodings *encodings, const char *model_path,
                                 const char *params, const char *target_name,
                                 struct tmk_export_options *options, struct tmk_diag *diag) {
    struct tmk_model *model = NULL;
    struct tmk_target *target = NULL;
    enum tmk_status status = target_name ? tmk_target_open(target_name, &target, diag) : TMK_OK;
    options->target = target;
    if (status == TMK_OK && model_path)
        status = tmk_model_open_params(model_path, params, false, &model, diag);
    if (status == TMK_OK)
        status = tmk_export(encodings, model, options, diag);
    tmk_target_close(&target);
    tmk_model_close(&model);
    return status;
}

PyObject *py_export(PyObject *self, PyObject *args, PyObject *named) {
    (void)self;
    static char *keys[] = {"encodings", "format",   "path",       "model",  "params",  "template",
                           "names",     "settings", "keep_names", "target", "remarks", NULL};
    PyObject *encodings, *settings = NULL;
    const char *model = NULL, *params = NULL;
    const char *target = NULL;
    int keep_names = 0;
    struct tmk_export_options options = {0};
    struct tmk_diag diag = {0};
    struct exporting e = {0};
    if (!PyArg_ParseTupleAndKeywords(
            args, named, "O!ss|zzzzO!pzO!", keys, py_encodings_type, &encodings, &options.format,
            &options.path, &model, &params, &options.template_file, &options.names, &PyTuple_Type,
            &settings, &keep_names, &target, &PyList_Type, &e.remarked.list))
        return NULL;
    const Py_ssize_t n = settings ? PyTuple_Size(settings) : 0;
    const char **words = calloc((size_t)n + 1, sizeof *words);
    bool good = words && (e.skipped.list = PyList_New(0));
    for (Py_ssize_t i = 0; good && i < n; i++)
        good = (words[i] = py_utf8(PyTuple_GetItem(settings, i))) != NULL;
    if (good) {
        options.keep_names = keep_names != 0;
        options.settings = words;
        options.n_settings = (size_t)n;
        options.skip = add_skip;
        options.remark = e.remarked.list ? add_remark : NULL;
        options.context = &e;
        enum tmk_status status;
        Py_BEGIN_ALLOW_THREADS;
        status = export_to(of(encodings), model, params, target, &options, &diag);
        Py_END_ALLOW_THREADS;
        good = !PyErr_Occurred() && (status == TMK_OK || py_fail(status, &diag));
    }
    free(words);
    if (!good)
        Py_CLEAR(e.skipped.list);
    return e.skipped.list;
}

PyObject *py_check_target(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *encodings, *profile;
    struct py_heard heard = {.list = PyList_New(0)};
    const char *name;
    struct tmk_target *target = NULL;
    uint32_t found;
    struct tmk_diag diag = {0};
    if (!heard.list ||
        !PyArg_ParseTuple(args, "O!sO", py_encodings_type, &encodings, &name, &profile) ||
        (profile != Py_None && !py_is_profile(profile))) {
        Py_XDECREF(heard.list);
        return NULL;
    }
    const struct tmk_profile *made_of =
        profile == Py_None ? NULL : ((struct py_profile *)profile)->profile;
    enum tmk_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tmk_target_open(name, &target, &diag);
    if (status == TMK_OK)
        status =
            tmk_target_check(target, of(encodings), made_of, py_hear_line, &heard, &found, &diag);
    tmk_target_close(&target);
    Py_END_ALLOW_THREADS;
    if (status != TMK_OK && !PyErr_Occurred())
        py_fail(status, &diag);
    if (PyErr_Occurred())
        Py_CLEAR(heard.list);
    return heard.list;
}

/* The formats of a target; of None the names of all that are built in. */
PyObject *py_targets(PyObject *self, PyObject *args) {
    (void)self;
    const char *name, *text;
    struct tmk_target *target = NULL;
    struct tmk_diag diag = {0};
    if (!PyArg_ParseTuple(args, "z", &name))
        return NULL;
    enum tmk_status status = TMK_OK;
    Py_BEGIN_ALLOW_THREADS;
    if (name)
        status = tmk_target_open(name, &target, &diag);
    Py_END_ALLOW_THREADS;
    if (status != TMK_OK)
        return py_fail(status, &diag);
    PyObject *list = PyList_New(0);
    for (size_t i = 0;
         list && (text = name ? tmk_target_export(target, i) : tmk_target_built_in(i)); i++)
        if (!py_append(list, py_text(text)))
            Py_CLEAR(list);
    tmk_target_close(&target);
    return list;
}

PyObject *py_formats(PyObject *self, PyObject *nothing) {
    (void)self;
    (void)nothing;
    struct tmk_export_format f;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && tmk_export_format(i, &f); i++)
        if (!py_append(list, Py_BuildValue("(sss)", f.name, f.consumer, f.endings)))
            Py_CLEAR(list);
    return list;
}

static PyMethodDef methods[] = {
    {"items", items, METH_NOARGS, "a dictionary an encoding, arrays as bytes"},
    {"left", left, METH_NOARGS, "(id, name, reason) of what stays float"},
    {"rounding", rounding, METH_NOARGS, "name of the rounding"},
    {"read", read_encodings, METH_VARARGS | METH_STATIC, "read(path)"},
    {"write", write_encodings, METH_VARARGS, "write(path)"},
    {0}};
static PyType_Slot slots[] = {{Py_tp_dealloc, (void *)dealloc}, {Py_tp_methods, methods}, {0}};
PyType_Spec py_encodings_spec = {
    .name = "tidemark._core.Encodings",
    .basicsize = sizeof(struct py_encodings),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};
