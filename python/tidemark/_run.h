/* SPDX-License-Identifier: Apache-2.0 */
/* A run over data, as the functions share it that have one. */
#pragma once

#include "_options.h"

#include <stdatomic.h>

#include <tidemark/session.h>

struct py_run {
    struct tmk_run_options options;
    struct tmk_observe observe;
    const char *label; /* what messages call arrays */
    const char *strata_file;
    PyObject *next;     /* next(input) -> buffer, or None at the end; NULL: data are files */
    PyObject *progress; /* progress(done, total), or NULL */
    PyObject *remark;   /* remark(text), or NULL */
    PyObject *stratum;  /* stratum(label) -> path of the profile of its samples; NULL: none */
    bool whole;         /* each array is one sample */

    /* Not for callers. */
    struct py_held held;
    struct tmk_pull pull;
    struct tmk_strata *strata;
    PyObject *raised, *value, *traceback; /* by one of them */
    atomic_bool stop;
    struct py_heard heard; /* only its next look */
};

/* Reads the options of a run; those of the other table (NULL: none) go to its target. False with an
 * exception. The dictionary must outlive the run; end with py_finish_run in any case. */
bool py_begin_run(PyObject *settings, const struct py_option *other, void *target,
                  struct py_run *run);
/* The exception of a callback, or of the status: true where there is one. */
bool py_run_failed(struct py_run *run, enum tmk_status status, const struct tmk_diag *diag);
void py_finish_run(struct py_run *run);
/* Keeps the exception that is set, unless there is an earlier one, and ends the run. */
void py_keep_exception(struct py_run *run);
