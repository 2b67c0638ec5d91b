/* SPDX-License-Identifier: Apache-2.0 */
/* The extension module: what Python calls of the library. python/tidemark/__init__.py is its face.
 */
#include "_core.h"

#include <tidemark/report.h>
#include <tidemark/session.h>

static PyObject *error_type;

PyObject *py_fail(enum tmk_status status, const struct tmk_diag *diag) {
    if (status == TMK_NOMEM && !diag->text[0])
        return PyErr_NoMemory();
    PyObject *error = PyObject_CallFunction(error_type, "s",
                                            diag->text[0] ? diag->text : tmk_status_text(status));
    PyObject *what = py_text(tmk_status_text(status));
    if (error && what && PyObject_SetAttrString(error, "status", what) == 0)
        PyErr_SetObject(error_type, error);
    Py_XDECREF(error);
    Py_XDECREF(what);
    return NULL;
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

PyObject *py_floats(const float *numbers, size_t n) {
    return PyBytes_FromStringAndSize((const char *)numbers, (Py_ssize_t)(n * sizeof *numbers));
}

static PyObject *methods(PyObject *self, PyObject *nothing) {
    (void)self;
    (void)nothing;
    PyObject *list = PyList_New(0);
    const char *name, *help;
    for (size_t i = 0; list && tmk_calibrate_method(i, &name, &help); i++) {
        PyObject *pair = Py_BuildValue("(ss)", name, help);
        if (!pair || PyList_Append(list, pair) != 0)
            Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}

static PyObject *version(PyObject *self, PyObject *nothing) {
    (void)self;
    (void)nothing;
    return py_text(tmk_version());
}

static PyObject *report(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *profile, *other, *encodings;
    const char *path, *title;
    struct tmk_diag diag = {0};
    if (!PyArg_ParseTuple(args, "O!sOOz", &py_profile_type, &profile, &path, &other, &encodings,
                          &title))
        return NULL;
    const struct tmk_report_options options = {
        other == Py_None ? NULL : ((struct py_profile *)other)->profile,
        encodings == Py_None ? NULL : ((struct py_encodings *)encodings)->encodings, title};
    const enum tmk_status status =
        tmk_report_write(((struct py_profile *)profile)->profile, &options, path, &diag);
    if (status != TMK_OK)
        return py_fail(status, &diag);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"profile", (PyCFunction)(void (*)(void))py_run_profile, METH_VARARGS | METH_KEYWORDS,
     "profile(model, **settings) -> Profile"},
    {"calibrate", (PyCFunction)(void (*)(void))py_calibrate, METH_VARARGS | METH_KEYWORDS,
     "calibrate(profile, **settings) -> Encodings"},
    {"export", (PyCFunction)(void (*)(void))py_export, METH_VARARGS | METH_KEYWORDS,
     "export(encodings, format, path, **settings) -> what was not written"},
    {"report", report, METH_VARARGS, "report(profile, path, other, encodings, title)"},
    {"methods", methods, METH_NOARGS, "(name, help) of each calibration method"},
    {"version", version, METH_NOARGS, "of the library"},
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

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) {
    if (PyType_Ready(&py_profile_type) < 0 || PyType_Ready(&py_encodings_type) < 0)
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    error_type = PyErr_NewExceptionWithDoc("tidemark.Error", "What the library refused, and why.",
                                           PyExc_ValueError, NULL);
    Py_INCREF(&py_profile_type);
    Py_INCREF(&py_encodings_type);
    if (!error_type || PyModule_AddObject(module, "Error", Py_NewRef(error_type)) < 0 ||
        PyModule_AddObject(module, "Profile", (PyObject *)&py_profile_type) < 0 ||
        PyModule_AddObject(module, "Encodings", (PyObject *)&py_encodings_type) < 0)
        Py_CLEAR(module);
    return module;
}
