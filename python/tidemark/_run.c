/* SPDX-License-Identifier: Apache-2.0 */
/* Profiling: arrays come from a Python callable, and are read where they lie. */
#include "_core.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/session.h>

/* What a run shares with the threads that call back. */
struct run {
    PyObject *next;     /* next(input) -> buffer, or None at the end; NULL: data are files */
    PyObject *progress; /* progress(done, total), or None */
    PyObject *raised;   /* by one of them: type, value and traceback */
    PyObject *value, *traceback;
    atomic_bool stop;
};

/* Keeps the exception for the caller; the first counts. */
static void keep_exception(struct run *run) {
    if (run->raised)
        PyErr_Clear();
    else
        PyErr_Fetch(&run->raised, &run->value, &run->traceback);
    atomic_store(&run->stop, true);
}

static enum tmk_status refuse(struct tmk_diag *diag, enum tmk_status status, const char *text) {
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
static void release(void *owner) {
    PyGILState_STATE held = PyGILState_Ensure();
    PyBuffer_Release(owner);
    PyGILState_Release(held);
    free(owner);
}

static enum tmk_status take(PyObject *array, struct tmk_record *out, struct tmk_diag *diag) {
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
        return refuse(diag, TMK_TYPE, "an array of numbers is wanted, of 12 dimensions at most");
    }
    *out = (struct tmk_record){.dtype = dtype,
                               .shape = {.rank = buffer->ndim},
                               .data = buffer->buf,
                               .release = release,
                               .owner = buffer};
    for (int i = 0; i < buffer->ndim; i++)
        out->shape.dim[i] = buffer->shape[i];
    return TMK_OK;
}

/* ---- called by threads of the run, without the GIL ---- */

static enum tmk_status next_record(void *context, const char *input, struct tmk_record *out,
                                   bool *end, struct tmk_diag *diag) {
    struct run *run = context;
    PyGILState_STATE held = PyGILState_Ensure();
    enum tmk_status status = TMK_OK;
    PyObject *name = py_text(input);
    PyObject *array = name ? PyObject_CallOneArg(run->next, name) : NULL;
    if (array == Py_None)
        *end = true;
    else if (array)
        status = take(array, out, diag);
    if (PyErr_Occurred()) {
        keep_exception(run);
        status = refuse(diag, TMK_READ, "the data raised an exception");
    }
    Py_XDECREF(array);
    Py_XDECREF(name);
    PyGILState_Release(held);
    return status;
}

static bool stop(void *context) {
    return atomic_load(&((struct run *)context)->stop);
}

/* Called by the thread that called Python: signals are looked at here. */
static void progress(void *context, uint64_t done, uint64_t total) {
    struct run *run = context;
    PyGILState_STATE held = PyGILState_Ensure();
    if (run->progress != Py_None) {
        PyObject *answer = PyObject_CallFunction(run->progress, "KK", (unsigned long long)done,
                                                 (unsigned long long)total);
        Py_XDECREF(answer);
    }
    if (PyErr_Occurred() || PyErr_CheckSignals() != 0)
        keep_exception(run);
    PyGILState_Release(held);
}

/* ---- the call ---- */

/* The texts of a sequence, borrowed from it; to be freed. */
static const char **texts_of(PyObject *sequence, size_t *n) {
    *n = (size_t)PySequence_Fast_GET_SIZE(sequence);
    const char **texts = calloc(*n + 1, sizeof *texts);
    if (!texts) {
        PyErr_NoMemory();
        return NULL;
    }
    for (size_t i = 0; i < *n; i++)
        if (!(texts[i] = PyUnicode_AsUTF8(PySequence_Fast_GET_ITEM(sequence, (Py_ssize_t)i)))) {
            free(texts);
            return NULL;
        }
    return texts;
}

static float *numbers_of(PyObject *sequence, size_t *n) {
    *n = (size_t)PySequence_Fast_GET_SIZE(sequence);
    float *numbers = calloc(*n + 1, sizeof *numbers);
    if (!numbers)
        return (float *)PyErr_NoMemory();
    for (size_t i = 0; i < *n; i++)
        numbers[i] = (float)PyFloat_AsDouble(PySequence_Fast_GET_ITEM(sequence, (Py_ssize_t)i));
    if (PyErr_Occurred()) {
        free(numbers);
        return NULL;
    }
    return numbers;
}

static enum tmk_status profile_model(const char *path, const char *params,
                                     const struct tmk_run_options *options,
                                     const struct tmk_observe *observe, struct tmk_profile **out,
                                     struct tmk_diag *diag) {
    struct tmk_model *model = NULL;
    enum tmk_status status = params ? tmk_model_open_params(path, params, false, &model, diag)
                                    : tmk_model_open(path, false, &model, diag);
    if (status == TMK_OK)
        status = tmk_model_profile(model, options, observe, out, NULL, diag);
    tmk_model_close(&model);
    return status;
}

PyObject *py_run_profile(PyObject *self, PyObject *args, PyObject *named) {
    (void)self;
    static char *keys[] = {"model",    "params",       "data",       "next",        "label",
                           "observe",  "kind",         "threads",    "batch",       "limit",
                           "skip",     "memory_limit", "per_sample", "fail_on_nan", "image",
                           "progress", "whole",        "exclude",    NULL};
    const char *path, *params = NULL, *label = NULL, *kind = NULL, *image = NULL;
    PyObject *data = NULL, *next = Py_None, *observe = NULL, *exclude = NULL;
    unsigned int threads = 0, batch = 0;
    unsigned long long limit = 0, skip = 0, memory_limit = 0;
    int per_sample = 0, fail_on_nan = 0, whole = 0;
    struct run run = {.progress = Py_None};
    if (!PyArg_ParseTupleAndKeywords(args, named, "s|zOOzOzIIKKKppzOpO", keys, &path, &params,
                                     &data, &next, &label, &observe, &kind, &threads, &batch,
                                     &limit, &skip, &memory_limit, &per_sample, &fail_on_nan,
                                     &image, &run.progress, &whole, &exclude))
        return NULL;
    PyObject *sources = PySequence_Fast(data, "data is a list of texts");
    PyObject *patterns = sources ? PySequence_Fast(observe, "observe is a list of texts") : NULL;
    PyObject *left_out = patterns ? PySequence_Fast(exclude, "exclude is a list of numbers") : NULL;
    struct tmk_run_options options = {
        .data = {.limit = limit, .skip = skip, .image = image, .batch = batch},
        .limits = {.threads = threads, .memory = memory_limit},
        .events = {.stop = stop, .progress = progress, .context = &run},
        .statistics = {.per_sample = per_sample != 0, .fail_on_nan = fail_on_nan != 0}};
    struct tmk_observe what = {.kind = kind};
    const char **texts = patterns ? texts_of(sources, &options.data.n_sources) : NULL;
    const char **globs = texts ? texts_of(patterns, &what.n_patterns) : NULL;
    float *numbers = globs && left_out ? numbers_of(left_out, &options.statistics.n_exclude) : NULL;
    PyObject *result = NULL;
    if (numbers) {
        options.statistics.exclude = numbers;
        const struct tmk_pull pull = {next_record, &run, label, whole != 0};
        struct tmk_profile *profile = NULL;
        struct tmk_diag diag = {0};
        enum tmk_status status;
        options.data.sources = texts;
        options.data.pull = next == Py_None ? NULL : &pull;
        what.patterns = globs;
        run.next = next;
        Py_BEGIN_ALLOW_THREADS;
        status = profile_model(path, params, &options, &what, &profile, &diag);
        Py_END_ALLOW_THREADS;
        if (run.raised) {
            PyErr_Restore(run.raised, run.value, run.traceback);
            tmk_profile_destroy(&profile);
        } else {
            result = status == TMK_OK ? py_wrap_profile(profile) : py_fail(status, &diag);
        }
    }
    free(numbers);
    free(globs);
    free(texts);
    Py_XDECREF(left_out);
    Py_XDECREF(patterns);
    Py_XDECREF(sources);
    return result;
}
