/* SPDX-License-Identifier: Apache-2.0 */
/* Profiling: arrays come from a Python callable, and are read where they lie. */
#include "_run.h"

#include <stdlib.h>
#include <string.h>

#include <tidemark/simulate.h>
#include <tidemark/target.h>

/* Keeps the exception for the caller; the first counts. */
void py_keep_exception(struct py_run *run) {
    if (run->raised)
        PyErr_Clear();
    else
        PyErr_Fetch(&run->raised, &run->value, &run->traceback);
    atomic_store(&run->stop, true);
}

static enum tmk_status refuse_record(struct tmk_diag *diag, enum tmk_status status,
                                     const char *text) {
    if (diag && diag->status == TMK_OK) {
        diag->status = status;
        PyOS_snprintf(diag->text, sizeof diag->text, "%s", text);
    }
    return status;
}

/* ---- arrays ---- */

static enum tmk_dtype dtype_of(const Py_buffer *buffer) {
    const char *format = buffer->format ? buffer->format : "B";
    if (*format == '@' || *format == '=' || *format == '<')
        format++;
    if (!format[0] || format[1])
        return TMK_UNDEFINED;
    const bool is_signed = strchr("bhilq", format[0]) != NULL;
    switch (format[0]) {
    case 'f':
        return TMK_FLOAT32;
    case 'd':
        return TMK_FLOAT64;
    case 'e':
        return TMK_FLOAT16;
    case '?':
        return TMK_BOOL;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
        switch (buffer->itemsize) {
        case 1:
            return is_signed ? TMK_INT8 : TMK_UINT8;
        case 2:
            return is_signed ? TMK_INT16 : TMK_UINT16;
        case 4:
            return is_signed ? TMK_INT32 : TMK_UINT32;
        case 8:
            return is_signed ? TMK_INT64 : TMK_UINT64;
        default:
            return TMK_UNDEFINED;
        }
    default:
        return TMK_UNDEFINED;
    }
}

/* Without the GIL, by any thread. */
static void release_array(void *owner) {
    PyGILState_STATE held = PyGILState_Ensure();
    PyBuffer_Release(owner);
    PyGILState_Release(held);
    free(owner);
}

static enum tmk_status take_array(PyObject *array, struct tmk_record *out, struct tmk_diag *diag) {
    Py_buffer *buffer = malloc(sizeof *buffer);
    if (!buffer)
        return TMK_NOMEM;
    if (PyObject_GetBuffer(array, buffer, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) {
        free(buffer);
        return TMK_ARGUMENT;
    }
    const enum tmk_dtype dtype = dtype_of(buffer);
    if (dtype == TMK_UNDEFINED || buffer->ndim > TMK_MAX_RANK) {
        PyBuffer_Release(buffer);
        free(buffer);
        return refuse_record(diag, TMK_TYPE,
                             "an array of numbers is wanted, of 12 dimensions at most");
    }
    *out = (struct tmk_record){.dtype = dtype,
                               .shape = {.rank = buffer->ndim},
                               .data = buffer->buf,
                               .release = release_array,
                               .owner = buffer};
    for (int i = 0; i < buffer->ndim; i++)
        out->shape.dim[i] = buffer->shape[i];
    return TMK_OK;
}

/* ---- called by threads of the run, without the GIL ---- */

static enum tmk_status next_record(void *context, const char *input, struct tmk_record *out,
                                   bool *end, struct tmk_diag *diag) {
    struct py_run *run = context;
    PyGILState_STATE held = PyGILState_Ensure();
    enum tmk_status status = TMK_OK;
    PyObject *name = py_text(input);
    PyObject *array = name ? PyObject_CallFunctionObjArgs(run->next, name, NULL) : NULL;
    if (array == Py_None)
        *end = true;
    else if (array)
        status = take_array(array, out, diag);
    if (PyErr_Occurred()) {
        py_keep_exception(run);
        status = refuse_record(diag, TMK_READ, "the data raised an exception");
    }
    Py_XDECREF(array);
    Py_XDECREF(name);
    PyGILState_Release(held);
    return status;
}

static bool stop_requested(void *context) {
    return atomic_load(&((struct py_run *)context)->stop);
}

/* ---- called by the thread that called Python ---- */

static void report_progress(void *context, uint64_t done, uint64_t total) {
    struct py_run *run = context;
    PyGILState_STATE held = PyGILState_Ensure();
    PyObject *answer = PyObject_CallFunction(run->progress, "KK", (unsigned long long)done,
                                             (unsigned long long)total);
    if (!answer)
        py_keep_exception(run);
    Py_XDECREF(answer);
    PyGILState_Release(held);
}

/* Python's handlers of signals run here; that of Control-C raises KeyboardInterrupt. */
static void handle_signals(void *context) {
    PyGILState_STATE held = PyGILState_Ensure();
    if (PyErr_CheckSignals() != 0)
        py_keep_exception(context);
    PyGILState_Release(held);
}

/* For calls between runs. */
static bool signal_raised(void *context) {
    struct py_run *run = context;
    if (py_hear_stop(&run->heard)) {
        PyGILState_STATE held = PyGILState_Ensure();
        py_keep_exception(run);
        PyGILState_Release(held);
    }
    return stop_requested(run);
}

static void report_remark(void *context, const char *text) {
    struct py_run *run = context;
    PyGILState_STATE held = PyGILState_Ensure();
    PyObject *line = py_text(text);
    PyObject *answer = line ? PyObject_CallFunctionObjArgs(run->remark, line, NULL) : NULL;
    if (!answer)
        py_keep_exception(run);
    Py_XDECREF(answer);
    Py_XDECREF(line);
    PyGILState_Release(held);
}

static enum tmk_status write_stratum(void *context, const char *label,
                                     const struct tmk_profile *profile, struct tmk_diag *diag) {
    struct py_run *run = context;
    PyGILState_STATE held = PyGILState_Ensure();
    enum tmk_status status = TMK_READ;
    PyObject *name = py_text(label);
    PyObject *path = name ? PyObject_CallFunctionObjArgs(run->stratum, name, NULL) : NULL;
    const char *text = path ? py_utf8(path) : NULL;
    if (text)
        status = py_write_profile(profile, text, diag);
    else
        py_keep_exception(run);
    Py_XDECREF(path);
    Py_XDECREF(name);
    PyGILState_Release(held);
    return status;
}

/* ---- options ---- */

#define AT(member) offsetof(struct py_run, member)
static const struct py_option run_table[] = {
    {"data", PY_TEXTS, AT(options.data.sources), AT(options.data.n_sources)},
    {"next", PY_CALL, AT(next)},
    {"label", PY_TEXT, AT(label)},
    {"whole", PY_FLAG, AT(whole)},
    {"image", PY_TEXT, AT(options.data.image)},
    {"skip_bad", PY_FLAG, AT(options.data.skip_bad)},
    {"dims", PY_DIMS, AT(options.data.dims), AT(options.data.n_dims)},
    {"feedback", PY_TEXTS, AT(options.data.recurrence.feedback),
     AT(options.data.recurrence.n_feedback)},
    {"reset", PY_TEXT, AT(options.data.recurrence.reset)},
    {"limit", PY_UINT64, AT(options.data.limit)},
    {"skip", PY_UINT64, AT(options.data.skip)},
    {"sample_every", PY_UINT64, AT(options.data.every)},
    {"batch", PY_UINT32, AT(options.data.batch)},
    {"generate", PY_UINT32, AT(options.data.generate.steps)},
    {"eos", PY_INTS, AT(options.data.generate.stop), AT(options.data.generate.n_stop)},
    {"threads", PY_UINT32, AT(options.limits.threads)},
    {"memory_limit", PY_UINT64, AT(options.limits.memory)},
    {"stream_layers", PY_FLAG, AT(options.limits.stream_layers)},
    {"max_iterations", PY_UINT64, AT(options.limits.iterations)},
    {"progress", PY_CALL, AT(progress)},
    {"remark", PY_CALL, AT(remark)},
    {"observe", PY_TEXTS, AT(observe.patterns), AT(observe.n_patterns)},
    {"kind", PY_TEXT, AT(observe.kind)},
    {"round_half", PY_FLAG, AT(options.round_half)},
    {"histogram_share", PY_UINT32, AT(options.statistics.histogram_share)},
    {"per_sample", PY_FLAG, AT(options.statistics.per_sample)},
    {"fail_on_nan", PY_FLAG, AT(options.statistics.fail_on_nan)},
    {"exclude", PY_FLOATS, AT(options.statistics.exclude), AT(options.statistics.n_exclude)},
    {"exclude_padding", PY_TEXT, AT(options.statistics.exclude_padding)},
    {"strata", PY_TEXT, AT(strata_file)},
    {"stratum", PY_CALL, AT(stratum)},
    {"shard", PY_UINT32, AT(options.shard.index)},
    {"shards", PY_UINT32, AT(options.shard.count)},
    {"checkpoint", PY_TEXT, AT(options.checkpoint.path)},
    {"checkpoint_every", PY_REAL, AT(options.checkpoint.seconds)},
    {"until_stable", PY_REAL, AT(options.snapshots.until_stable)},
    {0}};
#undef AT

bool py_begin_run(PyObject *settings, const struct py_option *other, void *target,
                  struct py_run *run) {
    struct tmk_diag diag = {0};
    if (!py_take_options(settings, run_table, other, run, &run->held) ||
        (other && !py_take_options(settings, other, run_table, target, &run->held)))
        return false;
    if (run->strata_file && tmk_strata_read(run->strata_file, &run->strata, &diag) != TMK_OK)
        return py_fail(diag.status, &diag) != NULL;
    run->pull = (struct tmk_pull){next_record, run, run->label, run->whole};
    run->options.data.pull = run->next ? &run->pull : NULL;
    run->options.data.strata = run->strata;
    if (run->strata && run->stratum)
        run->options.strata = (struct tmk_strata_options){write_stratum, run};
    run->options.events =
        (struct tmk_run_events){.progress = run->progress ? report_progress : NULL,
                                .stop = stop_requested,
                                .waiting = handle_signals,
                                .context = run};
    if (run->remark)
        run->options.notices = (struct tmk_notices){.remark = report_remark, .context = run};
    return true;
}

bool py_run_failed(struct py_run *run, enum tmk_status status, const struct tmk_diag *diag) {
    if (run->raised) {
        PyErr_Restore(run->raised, run->value, run->traceback);
        run->raised = run->value = run->traceback = NULL;
        return true;
    }
    return status != TMK_OK && !py_fail(status, diag);
}

void py_finish_run(struct py_run *run) {
    Py_CLEAR(run->raised);
    Py_CLEAR(run->value);
    Py_CLEAR(run->traceback);
    tmk_strata_destroy(&run->strata);
    py_finish_held(&run->held);
}

/* ---- the call ---- */

struct profile_call {
    const char *snapshots; /* a file */
};
static const struct py_option profile_table[] = {
    {"snapshots", PY_TEXT, offsetof(struct profile_call, snapshots)}, {0}};

static PyObject *report_of(const struct tmk_run_report *report) {
    return Py_BuildValue("{sKsKsdsdsIsIsN}", "samples", (unsigned long long)report->samples,
                         "batches", (unsigned long long)report->batches, "seconds", report->seconds,
                         "setup_seconds", report->setup_seconds, "threads", report->threads,
                         "checkpoints", report->checkpoints, "stable",
                         PyBool_FromLong(report->stable));
}

static PyObject *wrap_report(struct tmk_profile *profile, const struct tmk_run_report *report) {
    PyObject *wrapped = py_wrap_profile(profile);
    return wrapped ? Py_BuildValue("(NN)", wrapped, report_of(report)) : NULL;
}

PyObject *py_run_profile(PyObject *self, PyObject *args) {
    (void)self;
    const char *path, *params;
    PyObject *settings, *result = NULL;
    struct py_run run = {0};
    struct profile_call call = {0};
    if (!PyArg_ParseTuple(args, "szO!", &path, &params, &PyDict_Type, &settings))
        return NULL;
    if (py_begin_run(settings, profile_table, &call, &run)) {
        struct tmk_model *model = NULL;
        struct tmk_profile *profile = NULL;
        struct tmk_run_report report = {0};
        struct tmk_diag diag = {0};
        enum tmk_status status;
        run.options.snapshots.take = call.snapshots != NULL;
        Py_BEGIN_ALLOW_THREADS;
        status = tmk_model_open_params(path, params, false, &model, &diag);
        if (status == TMK_OK)
            status = tmk_model_profile(model, &run.options, &run.observe, &profile, &report, &diag);
        if (status == TMK_OK && call.snapshots)
            status = tmk_meter_write(report.meter, call.snapshots, &diag);
        tmk_model_close(&model);
        Py_END_ALLOW_THREADS;
        tmk_meter_destroy(&report.meter);
        if (py_run_failed(&run, status, &diag))
            tmk_profile_destroy(&profile);
        else
            result = wrap_report(profile, &report);
    }
    py_finish_run(&run);
    return result;
}

/* ---- and which method ---- */

struct choose_call {
    const char *method, *config, *target;
};
static const struct py_option choose_table[] = {
    {"method", PY_TEXT, offsetof(struct choose_call, method)},
    {"config", PY_TEXT, offsetof(struct choose_call, config)},
    {"target", PY_TEXT, offsetof(struct choose_call, target)},
    {0}};

static PyObject *wrap_choice(struct tmk_profile *profile, const struct tmk_run_report *report,
                             const struct tmk_method_choice *choice) {
    PyObject *wrapped = py_wrap_profile(profile), *tried = PyList_New(0);
    bool good = wrapped && tried;
    for (uint32_t i = 0; good && i < choice->n; i++) {
        const struct tmk_method_tried *one = &choice->tried[i];
        good = py_append(tried, Py_BuildValue("(sdddd)", one->name, one->typical, one->half[0],
                                              one->half[1], one->sqnr));
    }
    if (good)
        return Py_BuildValue("(NNNIz)", wrapped, report_of(report), tried, choice->chosen,
                             choice->n_weights ? choice->weights[choice->chosen_weights].name
                                               : NULL);
    Py_XDECREF(wrapped);
    Py_XDECREF(tried);
    return NULL;
}

PyObject *py_choose_method(PyObject *self, PyObject *args) {
    (void)self;
    const char *path, *params;
    PyObject *settings, *result = NULL;
    struct py_run run = {0};
    struct choose_call call = {0};
    if (!PyArg_ParseTuple(args, "szO!", &path, &params, &PyDict_Type, &settings))
        return NULL;
    if (py_begin_run(settings, choose_table, &call, &run)) {
        struct tmk_model *model = NULL;
        struct tmk_target *target = NULL;
        struct tmk_profile *profile = NULL;
        struct tmk_method_choice choice;
        struct tmk_run_report report = {0};
        struct tmk_diag diag = {0};
        enum tmk_status status;
        Py_BEGIN_ALLOW_THREADS;
        status = tmk_model_open_params(path, params, false, &model, &diag);
        if (status == TMK_OK && call.target)
            status = tmk_target_open(call.target, &target, &diag);
        const struct tmk_calibrate_options how = {.activations.method = call.method,
                                                  .config = call.config,
                                                  .target = target,
                                                  .constant = model ? tmk_model_constant : NULL,
                                                  .codes = model ? tmk_model_codes : NULL,
                                                  .model = model,
                                                  .stop = signal_raised,
                                                  .context = &run};
        if (status == TMK_OK)
            status = tmk_model_choose_method(model, &run.options, &how, &profile, &choice, &report,
                                             &diag);
        tmk_target_close(&target);
        tmk_model_close(&model);
        Py_END_ALLOW_THREADS;
        if (py_run_failed(&run, status, &diag))
            tmk_profile_destroy(&profile);
        else
            result = wrap_choice(profile, &report, &choice);
    }
    py_finish_run(&run);
    return result;
}
