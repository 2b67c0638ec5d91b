/* SPDX-License-Identifier: Apache-2.0 */
/* The extension module: what Python calls of the library. python/tidemark/__init__.py is its face.
 */
#include "_core.h"

#include <string.h>
#include <strings.h>
#include <time.h>

#include <tidemark/inputs.h>
#include <tidemark/lineage.h>
#include <tidemark/memory.h>
#include <tidemark/operations.h>
#include <tidemark/report.h>
#include <tidemark/session.h>

PyTypeObject *py_profile_type, *py_encodings_type;
static PyObject *error_type;

static const char *status_code(enum tmk_status status) {
    switch (status) {
#define STATUS_CASE(name, number, text)                                                            \
    case TMK_##name:                                                                               \
        return #name;
        TMK_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    }
    return "?";
}

PyObject *py_fail(enum tmk_status status, const struct tmk_diag *diag) {
    if (status == TMK_NOMEM && !diag->text[0])
        return PyErr_NoMemory();
    PyObject *error = PyObject_CallFunction(error_type, "s",
                                            diag->text[0] ? diag->text : tmk_status_text(status));
    PyObject *what = py_text(tmk_status_text(status));
    PyObject *code = py_text(status_code(status));
    if (error && what && code && PyObject_SetAttrString(error, "status", what) == 0 &&
        PyObject_SetAttrString(error, "code", code) == 0)
        PyErr_SetObject(error_type, error);
    Py_XDECREF(code);
    Py_XDECREF(error);
    Py_XDECREF(what);
    return NULL;
}

void py_free(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject_Free(object);
    Py_DECREF(type);
}

const char *py_utf8(PyObject *text) {
    if (!PyUnicode_Check(text)) {
        PyObject *kind = PyObject_GetAttrString((PyObject *)Py_TYPE(text), "__name__");
        PyErr_Format(PyExc_TypeError, "a text is wanted, not %S", kind);
        Py_XDECREF(kind);
        return NULL;
    }
    return PyUnicode_AsUTF8AndSize(text, NULL);
}

bool py_put(PyObject *dict, const char *key, PyObject *value) {
    const bool good = value && PyDict_SetItemString(dict, key, value) == 0;
    Py_XDECREF(value);
    return good;
}

/* Names in models are bytes; what is no UTF-8 survives as surrogates. */
PyObject *py_text(const char *text) {
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape");
}

bool py_append(PyObject *list, PyObject *item) {
    const bool good = item && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return good;
}

void py_hear_line(void *heard, const char *text) {
    PyGILState_STATE held = PyGILState_Ensure();
    if (!PyErr_Occurred())
        py_append(((struct py_heard *)heard)->list, py_text(text));
    PyGILState_Release(held);
}

bool py_hear_stop(void *heard) {
    static const double every = 0.1;
    struct py_heard *h = heard;
    struct timespec clock;
    clock_gettime(CLOCK_MONOTONIC, &clock);
    const double now = (double)clock.tv_sec + (double)clock.tv_nsec * 1e-9;
    if (now < h->next_look) /* threads that compute give the GIL back after milliseconds */
        return false;
    h->next_look = now + every;
    PyGILState_STATE held = PyGILState_Ensure();
    const bool raised = PyErr_Occurred() || PyErr_CheckSignals() != 0;
    PyGILState_Release(held);
    return raised;
}

/* HDF5 may be a library without locks, and one that h5py calls, too: then the GIL is the lock. */
static PyThreadState *begin_writing(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot && strcasecmp(dot, ".json") == 0 ? PyEval_SaveThread() : NULL;
}

static void end_writing(PyThreadState *thread) {
    if (thread)
        PyEval_RestoreThread(thread);
}

enum tmk_status py_write_profile(const struct tmk_profile *profile, const char *path,
                                 struct tmk_diag *diag) {
    PyThreadState *thread = begin_writing(path);
    const enum tmk_status status = tmk_profile_write(profile, path, diag);
    end_writing(thread);
    return status;
}

enum tmk_status py_write_lineage(const struct tmk_lineage_record *record, const char *path,
                                 struct tmk_diag *diag) {
    PyThreadState *thread = begin_writing(path);
    const enum tmk_status status = tmk_lineage_record_write(record, path, diag);
    end_writing(thread);
    return status;
}

PyObject *py_texts(const char *const *texts, size_t n) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++)
        if (!py_append(list, py_text(texts[i])))
            Py_CLEAR(list);
    return list;
}

PyObject *py_floats(const float *numbers, size_t n) {
    return PyBytes_FromStringAndSize((const char *)numbers, (Py_ssize_t)(n * sizeof *numbers));
}

static PyObject *methods(PyObject *self, PyObject *nothing) {
    (void)self;
    (void)nothing;
    PyObject *list = PyList_New(0);
    const char *name, *help;
    for (size_t i = 0; list && tmk_calibrate_method(i, &name, &help); i++) {
        if (!py_append(list, Py_BuildValue("(ss)", name, help)))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *version(PyObject *self, PyObject *nothing) {
    (void)self;
    (void)nothing;
    return py_text(tmk_version());
}

static PyObject *hold_inputs(PyObject *self, PyObject *args) {
    int begin;
    (void)self;
    if (!PyArg_ParseTuple(args, "p", &begin))
        return NULL;
    (begin ? tmk_inputs_begin : tmk_inputs_end)();
    Py_RETURN_NONE;
}

static PyObject *set_limits(PyObject *self, PyObject *args) {
    (void)self;
    double operations;
    unsigned long long bytes;
    if (!PyArg_ParseTuple(args, "dK", &operations, &bytes))
        return NULL;
    tmk_operations_set_limit(operations);
    tmk_memory_set_limit(bytes);
    Py_RETURN_NONE;
}

static PyObject *limits(PyObject *self, PyObject *nothing) {
    (void)self;
    (void)nothing;
    return Py_BuildValue("(dK)", tmk_operations_limit(), (unsigned long long)tmk_memory_limit());
}

static PyObject *features(PyObject *self, PyObject *nothing) {
    (void)self;
    (void)nothing;
    return py_text(tmk_features());
}

/* Pointers to the profiles of a tuple; NULL with an error set. */
static const struct tmk_profile **profiles_of(PyObject *tuple) {
    const size_t n = (size_t)PyTuple_Size(tuple);
    const struct tmk_profile **profiles = PyMem_Calloc(n + 1, sizeof(const struct tmk_profile *));
    for (size_t i = 0; profiles && i < n; i++) {
        PyObject *item = PyTuple_GetItem(tuple, (Py_ssize_t)i);
        if (!PyObject_TypeCheck(item, py_profile_type)) {
            PyErr_SetString(PyExc_TypeError, "earlier: profiles");
            PyMem_Free(profiles);
            return NULL;
        }
        profiles[i] = ((struct py_profile *)item)->profile;
    }
    return profiles ? profiles : (PyErr_NoMemory(), NULL);
}

static PyObject *report(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *profile, *earlier, *encodings, *results;
    const char *path, *title, *model_path, *params;
    struct tmk_diag diag = {0};
    struct py_heard heard = {0};
    struct tmk_model *model = NULL;
    if (!PyArg_ParseTuple(args, "O!sO!OzO!zz", py_profile_type, &profile, &path, &PyTuple_Type,
                          &earlier, &encodings, &title, &PyTuple_Type, &results, &model_path,
                          &params))
        return NULL;
    const struct tmk_profile **profiles = profiles_of(earlier);
    const char **files = PyMem_Calloc((size_t)PyTuple_Size(results) + 1, sizeof(const char *));
    bool good = profiles && files;
    for (Py_ssize_t i = 0; good && i < PyTuple_Size(results); i++)
        good = (files[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(results, i), NULL)) != NULL;
    struct tmk_report_options options = {
        .earlier = profiles,
        .n_earlier = (size_t)PyTuple_Size(earlier),
        .encodings = encodings == Py_None ? NULL : ((struct py_encodings *)encodings)->encodings,
        .title = title,
        .results = files,
        .n_results = (size_t)PyTuple_Size(results),
        .stop = py_hear_stop,
        .context = &heard};
    enum tmk_status status = TMK_OK;
    if (good) {
        Py_BEGIN_ALLOW_THREADS;
        if (model_path)
            status = tmk_model_open_params(model_path, params, true, &model, &diag);
        options.model = model;
        if (status == TMK_OK)
            status =
                tmk_report_write(((struct py_profile *)profile)->profile, &options, path, &diag);
        tmk_model_close(&model);
        Py_END_ALLOW_THREADS;
    }
    PyMem_Free(files);
    PyMem_Free(profiles);
    if (!good || PyErr_Occurred())
        return NULL;
    if (status != TMK_OK)
        return py_fail(status, &diag);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"profile", py_run_profile, METH_VARARGS, "profile(model, params, settings)"},
    {"choose_method", py_choose_method, METH_VARARGS, "choose_method(model, params, settings)"},
    {"simulate", py_simulate, METH_VARARGS, "simulate(model, params, encodings, settings)"},
    {"rank", py_rank, METH_VARARGS, "rank(model, params, encodings, settings)"},
    {"search", py_search, METH_VARARGS, "search(model, params, encodings, settings)"},
    {"graph", py_graph, METH_VARARGS, "graph(model, params, view, lineage, patterns) -> text"},
    {"patterns", py_patterns, METH_VARARGS, "patterns(model, params) -> rows"},
    {"instrument", py_instrument, METH_VARARGS, "instrument(model, params, output, settings)"},
    {"passes", py_passes, METH_NOARGS, "(name, help) of each pass of transform"},
    {"transform", py_transform, METH_VARARGS, "transform(model, params, output, settings)"},
    {"run", py_run_model, METH_VARARGS, "run(model, params, settings)"},
    {"verify", py_verify, METH_VARARGS, "verify(model, params, folder, settings)"},
    {"merge", py_merge, METH_VARARGS, "merge(settings) -> Profile"},
    {"diff", py_diff, METH_VARARGS, "diff(a, b, format): of profiles or paths"},
    {"hold_inputs", hold_inputs, METH_VARARGS,
     "hold_inputs(begin): what is read is not written over until the end"},
    {"can_write", py_can_write, METH_VARARGS,
     "can_write(path, endings): to ask before what takes long"},
    {"file_kind", py_file_kind, METH_VARARGS, "file_kind(path): \"profile\", \"aimet\", ..."},
    {"skeleton", py_skeleton, METH_VARARGS, "skeleton(model, params) -> Profile"},
    {"cover", py_cover, METH_VARARGS, "cover(profile, path, lineage): what it has of a file"},
    {"read_lineage", py_read_lineage, METH_VARARGS, "read_lineage(path)"},
    {"link", py_link, METH_VARARGS, "link(settings)"},
    {"calibrate", (PyCFunction)(void (*)(void))py_calibrate, METH_VARARGS | METH_KEYWORDS,
     "calibrate(profile, **settings) -> Encodings"},
    {"export", (PyCFunction)(void (*)(void))py_export, METH_VARARGS | METH_KEYWORDS,
     "export(encodings, format, path, **settings) -> what was not written"},
    {"check_target", py_check_target, METH_VARARGS, "check_target(encodings, target, profile)"},
    {"formats", py_formats, METH_NOARGS, "(name, consumer, endings) of each format of export"},
    {"targets", py_targets, METH_VARARGS, "targets(None), or the formats of one"},
    {"report", report, METH_VARARGS,
     "report(profile, path, earlier, encodings, title, results, model, params)"},
    {"methods", methods, METH_NOARGS, "(name, help) of each calibration method"},
    {"version", version, METH_NOARGS, "of the library"},
    {"set_limits", set_limits, METH_VARARGS, "set_limits(operations, bytes): of this process"},
    {"limits", limits, METH_NOARGS, "operations and bytes that this process may take; 0: no limit"},
    {"features", features, METH_NOARGS, "that were built in, with blanks"},
    {0}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "_core",
                                        "Calls of the library; use the package tidemark.",
                                        -1,
                                        functions,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL};

/* A reference stays with the caller, the other one is the module's. */
static PyTypeObject *add_type(PyObject *module, const char *name, PyType_Spec *spec) {
    PyObject *type = PyType_FromSpec(spec);
    if (type && PyModule_AddObject(module, name, Py_NewRef(type)) < 0)
        Py_CLEAR(type);
    return (PyTypeObject *)type;
}

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) {
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    error_type = PyErr_NewExceptionWithDoc("tidemark.Error", "What the library refused, and why.",
                                           PyExc_ValueError, NULL);
    if (!error_type || PyModule_AddObject(module, "Error", Py_NewRef(error_type)) < 0 ||
        !(py_profile_type = add_type(module, "Profile", &py_profile_spec)) ||
        !(py_encodings_type = add_type(module, "Encodings", &py_encodings_spec)))
        Py_CLEAR(module);
    return module;
}
