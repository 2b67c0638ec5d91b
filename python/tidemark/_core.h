/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the extension share. Everything here is called with the GIL held unless it says
 * otherwise. */
#ifndef TIDEMARK_PYTHON_CORE_H
#define TIDEMARK_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <tidemark/encodings.h>
#include <tidemark/profile.h>

struct py_profile {
    PyObject_HEAD struct tmk_profile *profile;
};
struct py_encodings {
    PyObject_HEAD struct tmk_encodings *encodings;
};
extern PyTypeObject py_profile_type, py_encodings_type;

/* Raises what goes with the status: MemoryError, else tidemark.Error(text) with `.status`. NULL. */
PyObject *py_fail(enum tmk_status status, const struct tmk_diag *diag);
/* Both take what they wrap. */
PyObject *py_wrap_profile(struct tmk_profile *profile);
PyObject *py_wrap_encodings(struct tmk_encodings *encodings);

/* Adds `value`, which is taken, to the dictionary; false with an exception. */
bool py_put(PyObject *dict, const char *key, PyObject *value);
PyObject *py_text(const char *text);
/* float32 numbers, as bytes. */
PyObject *py_floats(const float *numbers, size_t n);

/* Module functions; see their texts in the table of _core.c. */
PyObject *py_run_profile(PyObject *self, PyObject *args, PyObject *named);
PyObject *py_calibrate(PyObject *self, PyObject *args, PyObject *named);
PyObject *py_export(PyObject *self, PyObject *args, PyObject *named);

#endif
