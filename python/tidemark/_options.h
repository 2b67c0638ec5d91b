/* SPDX-License-Identifier: Apache-2.0 */
/* Settings from Python: a dictionary is read into a struct by a table. */
#pragma once

#include "_core.h"

#include <stddef.h>

enum py_kind {
    PY_FLAG,   /* bool */
    PY_TEXT,   /* const char *, borrowed from the dictionary */
    PY_TEXTS,  /* const char *const *, and its count */
    PY_FLOATS, /* const float *, and its count */
    PY_INTS,   /* const int64_t *, and its count */
    PY_DIMS,   /* const struct tmk_dim *, and its count: a mapping from names to sizes */
    PY_UINT32,
    PY_UINT64,
    PY_REAL,
    PY_DTYPE,    /* enum tmk_dtype, by its name */
    PY_ROUNDING, /* enum tmk_rounding, by its name */
    PY_CALL      /* PyObject *, borrowed: something to call */
};

struct py_option {
    const char *name; /* NULL ends a table */
    enum py_kind kind;
    size_t at;    /* in the target */
    size_t count; /* of a list: where its count is in the target */
};

/* What lists were copied into; zero-initialised. */
struct py_held {
    void **blocks;
    size_t n;
};

/* Reads settings that are not None into the target; false with an exception. An option that the
 * table does not have is a TypeError, unless the other table has it (NULL: there is none). */
bool py_take_options(PyObject *settings, const struct py_option *table,
                     const struct py_option *other, void *target, struct py_held *held);
void py_finish_held(struct py_held *held);
