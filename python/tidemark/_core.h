/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the extension share. Everything here is called with the GIL held unless it says
 * otherwise. Calls of the library that read files, write them or compute are made without it: what
 * they read (profiles, encodings) does not change once Python has it. */
#pragma once

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
/* Made when the module is imported. */
extern PyTypeObject *py_profile_type, *py_encodings_type;
extern PyType_Spec py_profile_spec, py_encodings_spec;
/* Frees an object of these types, after what it wraps. */
void py_free(PyObject *object);

/* Raises what goes with the status: MemoryError, else tidemark.Error(text) with `.status`. NULL. */
PyObject *py_fail(enum tmk_status status, const struct tmk_diag *diag);
/* False with an exception where it is none, or NULL. */
bool py_is_profile(PyObject *object);
/* Both take what they wrap. */
PyObject *py_wrap_profile(struct tmk_profile *profile);
PyObject *py_wrap_encodings(struct tmk_encodings *encodings);

/* Adds `value`, which is taken, to the dictionary; false with an exception. */
bool py_put(PyObject *dict, const char *key, PyObject *value);
PyObject *py_text(const char *text);
/* The text of a str; lives as long as it. NULL with an exception. */
const char *py_utf8(PyObject *text);
/* float32 numbers, as bytes. */
PyObject *py_floats(const float *numbers, size_t n);

/* Appends `item`, which is taken; false with an exception. */
bool py_append(PyObject *list, PyObject *item);

/* What a call of the library is told, and who listens. */
struct py_heard {
    PyObject *list;
    double next_look; /* for signals, in seconds */
};
/* Callbacks of a call without the GIL, by the thread that called Python; `heard` is a struct
 * py_heard. An exception is set afterwards where one was raised: */
void py_hear_line(void *heard, const char *text);
/* Python's handlers of signals run here, some times a second; that of Control-C raises. */
bool py_hear_stop(void *heard);

PyObject *py_texts(const char *const *texts, size_t n);
struct tmk_lineage_record;
/* Write without the GIL where that is safe. */
enum tmk_status py_write_profile(const struct tmk_profile *profile, const char *path,
                                 struct tmk_diag *diag);
enum tmk_status py_write_lineage(const struct tmk_lineage_record *record, const char *path,
                                 struct tmk_diag *diag);
/* A list of (id, name, verdict, id and name in the new model, pass, remark), by original. */
PyObject *py_lineage(const struct tmk_lineage_record *record);

/* Module functions; see their texts in the table of _core.c. */
#define PY_DECLARE(name) PyObject *name(PyObject *self, PyObject *args)
PyObject *py_calibrate(PyObject *self, PyObject *args, PyObject *named);
PyObject *py_export(PyObject *self, PyObject *args, PyObject *named);
PY_DECLARE(py_run_profile);
PY_DECLARE(py_choose_method);
PY_DECLARE(py_check_target);
PY_DECLARE(py_targets);
PY_DECLARE(py_formats);
PY_DECLARE(py_simulate);
PY_DECLARE(py_rank);
PY_DECLARE(py_search);
PY_DECLARE(py_graph);
PY_DECLARE(py_instrument);
PY_DECLARE(py_passes);
PY_DECLARE(py_patterns);
PY_DECLARE(py_transform);
PY_DECLARE(py_run_model);
PY_DECLARE(py_verify);
PY_DECLARE(py_merge);
PY_DECLARE(py_diff);
PY_DECLARE(py_can_write);
PY_DECLARE(py_file_kind);
PY_DECLARE(py_skeleton);
PY_DECLARE(py_computation); /* a method of Profile */
PY_DECLARE(py_cover);
PY_DECLARE(py_read_lineage);
PY_DECLARE(py_link);
#undef PY_DECLARE
