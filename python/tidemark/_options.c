/* SPDX-License-Identifier: Apache-2.0 */
#include "_options.h"

#include <stdlib.h>
#include <string.h>

#include <tidemark/feed.h>
#include <tidemark/rounding.h>

static void *hold_block(struct py_held *held, size_t count, size_t size) {
    void **blocks = realloc(held->blocks, (held->n + 1) * sizeof *blocks);
    void *block = blocks ? calloc(count + 1, size) : NULL;
    if (blocks)
        held->blocks = blocks;
    if (!block)
        return PyErr_NoMemory();
    return held->blocks[held->n++] = block;
}

void py_finish_held(struct py_held *held) {
    for (size_t i = 0; i < held->n; i++)
        free(held->blocks[i]);
    free(held->blocks);
    *held = (struct py_held){0};
}

static bool take_texts(PyObject *value, const char *const **out, size_t *n, struct py_held *held) {
    if (!PyTuple_Check(value)) {
        PyErr_SetString(PyExc_TypeError, "a tuple of texts is wanted");
        return false;
    }
    *n = (size_t)PyTuple_Size(value);
    const char **texts = hold_block(held, *n, sizeof *texts);
    for (size_t i = 0; texts && i < *n; i++)
        if (!(texts[i] = py_utf8(PyTuple_GetItem(value, (Py_ssize_t)i))))
            return false;
    *out = texts;
    return texts != NULL;
}

static bool take_numbers(PyObject *value, bool floats, void *out, size_t *n, struct py_held *held) {
    if (!PyTuple_Check(value)) {
        PyErr_SetString(PyExc_TypeError, "a tuple of numbers is wanted");
        return false;
    }
    *n = (size_t)PyTuple_Size(value);
    void *numbers = hold_block(held, *n, floats ? sizeof(float) : sizeof(int64_t));
    for (size_t i = 0; numbers && i < *n; i++) {
        PyObject *item = PyTuple_GetItem(value, (Py_ssize_t)i);
        if (floats)
            ((float *)numbers)[i] = (float)PyFloat_AsDouble(item);
        else
            ((int64_t *)numbers)[i] = PyLong_AsLongLong(item);
    }
    *(void **)out = numbers;
    return numbers && !PyErr_Occurred();
}

static bool take_dims(PyObject *value, const struct tmk_dim **out, size_t *n,
                      struct py_held *held) {
    PyObject *name, *size;
    Py_ssize_t at = 0;
    if (!PyDict_Check(value)) {
        PyErr_SetString(PyExc_TypeError, "a dictionary from names to sizes is wanted");
        return false;
    }
    struct tmk_dim *dims = hold_block(held, (size_t)PyDict_Size(value), sizeof *dims);
    for (*n = 0; dims && PyDict_Next(value, &at, &name, &size); (*n)++) {
        dims[*n] = (struct tmk_dim){py_utf8(name), PyLong_AsLongLong(size)};
        if (PyErr_Occurred())
            return false;
        if (dims[*n].value < 0) {
            PyErr_Format(PyExc_ValueError, "dimension '%s' is negative", dims[*n].name);
            return false;
        }
    }
    *out = dims;
    return dims != NULL;
}

static bool take_count(PyObject *value, uint64_t most, uint64_t *out) {
    PyObject *whole = PyNumber_Index(value); /* NumPy's integers are none of Python's */
    const unsigned long long number = whole ? PyLong_AsUnsignedLongLong(whole) : 0;
    Py_XDECREF(whole);
    if (!PyErr_Occurred() && number > most)
        PyErr_SetString(PyExc_OverflowError, "the number is too large");
    *out = number;
    return !PyErr_Occurred();
}

static bool take_named(PyObject *value, const struct py_option *row, void *to) {
    const char *text = py_utf8(value);
    if (!text)
        return false;
    if (row->kind == PY_TEXT)
        *(const char **)to = text;
    else if (row->kind == PY_DTYPE) {
        if ((*(enum tmk_dtype *)to = tmk_dtype_by_name(text)) == TMK_UNDEFINED)
            PyErr_Format(PyExc_ValueError, "there is no type '%s'", text);
    } else if (!tmk_rounding_by_name(text, (enum tmk_rounding *)to))
        PyErr_Format(PyExc_ValueError, "there is no rounding '%s'", text);
    return !PyErr_Occurred();
}

static bool take_option(PyObject *value, const struct py_option *row, char *target,
                        struct py_held *held) {
    void *to = target + row->at;
    size_t *count = (size_t *)(void *)(target + row->count);
    uint64_t number;
    switch (row->kind) {
    case PY_FLAG: {
        const int yes = PyObject_IsTrue(value);
        *(bool *)to = yes > 0;
        return yes >= 0;
    }
    case PY_TEXTS:
        return take_texts(value, to, count, held);
    case PY_FLOATS:
    case PY_INTS:
        return take_numbers(value, row->kind == PY_FLOATS, to, count, held);
    case PY_DIMS:
        return take_dims(value, to, count, held);
    case PY_UINT32:
        if (!take_count(value, UINT32_MAX, &number))
            return false;
        *(uint32_t *)to = (uint32_t)number;
        return true;
    case PY_UINT64:
        return take_count(value, UINT64_MAX, to);
    case PY_REAL:
        *(double *)to = PyFloat_AsDouble(value);
        if (!PyErr_Occurred() && !(*(double *)to >= 0))
            PyErr_SetString(PyExc_ValueError, "is 0 or more");
        return !PyErr_Occurred();
    case PY_CALL:
        *(PyObject **)to = value;
        return true;
    case PY_TEXT:
    case PY_DTYPE:
    case PY_ROUNDING:
        break;
    }
    return take_named(value, row, to);
}

static const struct py_option *find_option(const struct py_option *table, const char *name) {
    for (; table && table->name; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

/* "threads: the number is too large": the same exception, with the option in front. */
static void name_option(const char *name) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (value && type != PyExc_MemoryError)
        PyErr_Format(type, "%s: %S", name, value);
    else
        PyErr_Restore(Py_XNewRef(type), Py_XNewRef(value), Py_XNewRef(traceback));
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

bool py_take_options(PyObject *settings, const struct py_option *table,
                     const struct py_option *other, void *target, struct py_held *held) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(settings, &at, &key, &value)) {
        const char *name = py_utf8(key);
        const struct py_option *row = name ? find_option(table, name) : NULL;
        if (!name)
            return false;
        if (!row && !find_option(other, name)) {
            PyErr_Format(PyExc_TypeError, "there is no option '%s'", name);
            return false;
        }
        if (row && value != Py_None && !take_option(value, row, target, held)) {
            name_option(name);
            return false;
        }
    }
    return true;
}
