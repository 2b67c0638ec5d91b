/* SPDX-License-Identifier: Apache-2.0 */
/* Quantized networks against the float one: simulate, rank, search. */
#include "_run.h"

#include <tidemark/simulate.h>
#include <tidemark/target.h>

/* What all three begin with. */
struct opened {
    const char *path, *params;
    PyObject *settings;
    struct tmk_encodings *encodings; /* not owned */
};

static bool parse_call(PyObject *args, struct opened *out) {
    PyObject *encodings;
    if (!PyArg_ParseTuple(args, "szO!O!", &out->path, &out->params, py_encodings_type, &encodings,
                          &PyDict_Type, &out->settings))
        return false;
    out->encodings = ((struct py_encodings *)encodings)->encodings;
    return true;
}

static PyObject *dtype_name(enum tmk_dtype dtype) {
    return dtype == TMK_UNDEFINED ? Py_NewRef(Py_None) : py_text(tmk_dtype_name(dtype));
}

/* ---- simulate ---- */

#define AT(member) offsetof(struct tmk_simulate_options, member)
static const struct py_option simulate_table[] = {{"integer", PY_FLAG, AT(integer)},
                                                  {"rounding", PY_ROUNDING, AT(rounding)},
                                                  {"pow2", PY_FLAG, AT(pow2)},
                                                  {"labels", PY_TEXT, AT(labels)},
                                                  {0}};
#undef AT

static PyObject *codes_of(const struct tmk_code_difference *d) {
    return Py_BuildValue("(KKL)", (unsigned long long)d->codes, (unsigned long long)d->equal,
                         (long long)d->largest);
}

static PyObject *simulated_of(const struct tmk_simulated *v) {
    return Py_BuildValue("(NNNNNKdddd)", PyUnicode_FromFormat("p%u", v->id), py_text(v->name),
                         dtype_name(v->dtype), PyBool_FromLong(v->output),
                         PyBool_FromLong(v->constant), (unsigned long long)v->elements, v->sqnr,
                         v->cosine, v->max_error, v->clipped);
}

static PyObject *values_of(const struct tmk_simulation *s) {
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < s->n_values; i++)
        if (!py_append(list, simulated_of(&s->values[i])))
            Py_CLEAR(list);
    return list;
}

static PyObject *simulation_of(const struct tmk_simulation *s) {
    PyObject *dict = PyDict_New();
    PyObject *remarks = py_texts(s->remarks, s->n_remarks);
    if (!dict || !py_put(dict, "samples", PyLong_FromUnsignedLongLong(s->samples)) ||
        !py_put(dict, "seconds", PyFloat_FromDouble(s->seconds)) ||
        !py_put(dict, "predictions", PyLong_FromUnsignedLongLong(s->predictions)) ||
        !py_put(dict, "agree", PyLong_FromUnsignedLongLong(s->agree)) ||
        !py_put(dict, "labelled", PyBool_FromLong(s->labelled)) ||
        !py_put(dict, "right_float", PyLong_FromUnsignedLongLong(s->right_float)) ||
        !py_put(dict, "right_quantized", PyLong_FromUnsignedLongLong(s->right_quantized)) ||
        !py_put(dict, "agreement", Py_BuildValue("(dd)", s->agreement.low, s->agreement.high)) ||
        !py_put(dict, "change", Py_BuildValue("(dd)", s->change.low, s->change.high)) ||
        !py_put(dict, "alone", s->compared ? codes_of(&s->alone) : Py_NewRef(Py_None)) ||
        !py_put(dict, "whole", s->compared ? codes_of(&s->whole) : Py_NewRef(Py_None)) ||
        !py_put(dict, "values", values_of(s)) || !py_put(dict, "remarks", Py_XNewRef(remarks)))
        Py_CLEAR(dict);
    Py_XDECREF(remarks);
    return dict;
}

PyObject *py_simulate(PyObject *self, PyObject *args) {
    (void)self;
    struct opened o;
    struct py_run run = {0};
    PyObject *result = NULL;
    if (!parse_call(args, &o))
        return NULL;
    struct tmk_simulate_options options = {.rounding = o.encodings->rounding,
                                           .pow2 = o.encodings->pow2_requant};
    if (py_begin_run(o.settings, simulate_table, &options, &run)) {
        struct tmk_model *model = NULL;
        struct tmk_simulation *simulation = NULL;
        struct tmk_diag diag = {0};
        enum tmk_status status;
        Py_BEGIN_ALLOW_THREADS;
        status = tmk_model_open_params(o.path, o.params, false, &model, &diag);
        if (status == TMK_OK)
            status =
                tmk_model_simulate(model, o.encodings, &run.options, &options, &simulation, &diag);
        tmk_model_close(&model);
        Py_END_ALLOW_THREADS;
        if (!py_run_failed(&run, status, &diag))
            result = simulation_of(simulation);
        tmk_simulation_destroy(&simulation);
    }
    py_finish_run(&run);
    return result;
}

/* ---- rank ---- */

static PyObject *ranking_of(const struct tmk_ranking *r) {
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < r->n; i++) {
        const struct tmk_sensitivity *v = &r->values[i];
        PyObject *row = Py_BuildValue("(NNNdd)", PyUnicode_FromFormat("p%u", v->id),
                                      py_text(v->name), dtype_name(v->dtype), v->sqnr, v->expected);
        if (!py_append(list, row))
            Py_CLEAR(list);
    }
    return list ? Py_BuildValue("(NKI)", list, (unsigned long long)r->samples, r->left_out) : NULL;
}

PyObject *py_rank(PyObject *self, PyObject *args) {
    (void)self;
    struct opened o;
    struct py_run run = {0};
    uint32_t most = 0;
    static const struct py_option table[] = {{"most", PY_UINT32, 0}, {0}};
    PyObject *result = NULL;
    if (!parse_call(args, &o))
        return NULL;
    if (py_begin_run(o.settings, table, &most, &run)) {
        struct tmk_model *model = NULL;
        struct tmk_ranking *ranking = NULL;
        struct tmk_diag diag = {0};
        enum tmk_status status;
        Py_BEGIN_ALLOW_THREADS;
        status = tmk_model_open_params(o.path, o.params, false, &model, &diag);
        if (status == TMK_OK)
            status = tmk_model_rank(model, o.encodings, &run.options, most, &ranking, &diag);
        tmk_model_close(&model);
        Py_END_ALLOW_THREADS;
        if (!py_run_failed(&run, status, &diag))
            result = ranking_of(ranking);
        tmk_ranking_destroy(&ranking);
    }
    py_finish_run(&run);
    return result;
}

/* ---- search ---- */

struct search_call {
    struct tmk_search_options options;
    const char *target;
    PyObject *profile, *choices, *metric; /* a Profile, a list, a function */
    const char *goal;
    struct py_run *run;
};

#define AT(member) offsetof(struct search_call, member)
static const struct py_option search_table[] = {
    {"profile", PY_CALL, AT(profile)},
    {"config", PY_TEXT, AT(options.config)},
    {"budget", PY_UINT32, AT(options.budget)},
    {"seconds", PY_REAL, AT(options.seconds)},
    {"goal", PY_TEXT, AT(goal)},
    {"labels", PY_TEXT, AT(options.labels)},
    {"metric", PY_CALL, AT(metric)},
    {"search_data", PY_TEXTS, AT(options.search_data), AT(options.n_search_data)},
    {"write_config", PY_TEXT, AT(options.write_config)},
    {"target", PY_TEXT, AT(target)},
    {"choices", PY_CALL, AT(choices)},
    {0}};
#undef AT

static PyObject *quality_of(const struct tmk_search_quality *q) {
    return Py_BuildValue("(dddd)", q->sqnr, q->accuracy, q->margin, q->metric);
}

static PyObject *found_of(struct tmk_encodings *better, const struct tmk_search_result *r) {
    PyObject *points = PyList_New(0), *encodings = py_wrap_encodings(better);
    for (uint32_t i = 0; points && i < r->n_points; i++)
        if (!py_append(points, Py_BuildValue("(dddd)", r->points[i].sqnr, r->points[i].judged,
                                             r->points[i].bytes, r->points[i].share8)))
            Py_CLEAR(points);
    if (!encodings || !points) {
        Py_XDECREF(encodings);
        Py_XDECREF(points);
        return NULL;
    }
    return Py_BuildValue("(NIIKKi(NNN)KKK(NNN)NN)", encodings, r->tried, r->chosen,
                         (unsigned long long)r->samples, (unsigned long long)r->from,
                         (int)r->judged, quality_of(&r->in_float), quality_of(&r->before),
                         quality_of(&r->after), (unsigned long long)r->judged_samples,
                         (unsigned long long)r->judged_from, (unsigned long long)r->split,
                         quality_of(&r->judged_float), quality_of(&r->judged_before),
                         quality_of(&r->judged_after), points, PyBool_FromLong(r->out_of_time));
}

/* (bytes, dtype, shape) */
static PyObject *array_of(const struct tmk_tensor *t) {
    PyObject *shape = PyTuple_New(t->shape.rank);
    for (int32_t i = 0; shape && i < t->shape.rank; i++)
        PyTuple_SetItem(shape, i, PyLong_FromLongLong(t->shape.dim[i]));
    PyObject *bytes = PyBytes_FromStringAndSize(t->data, (Py_ssize_t)tmk_tensor_bytes(t));
    if (bytes && shape)
        return Py_BuildValue("(NNN)", bytes, dtype_name(t->dtype), shape);
    Py_XDECREF(bytes);
    Py_XDECREF(shape);
    return NULL;
}

static enum tmk_status call_metric(void *context, const struct tmk_metric_outputs *outputs,
                                   double *out, struct tmk_diag *diag) {
    struct search_call *call = context;
    PyGILState_STATE held = PyGILState_Ensure();
    enum tmk_status status = TMK_OK;
    PyObject *arrays = PyList_New(0), *sources = py_texts(outputs->sources, outputs->n_sources);
    for (uint32_t i = 0; arrays && i < outputs->n; i++)
        if (!py_append(arrays, array_of(&outputs->outputs[i])))
            Py_CLEAR(arrays);
    PyObject *answer = arrays && sources
                           ? PyObject_CallFunction(call->metric, "OKKO", arrays,
                                                   (unsigned long long)outputs->first,
                                                   (unsigned long long)outputs->samples, sources)
                           : NULL;
    *out = answer ? PyFloat_AsDouble(answer) : 0;
    if (PyErr_Occurred()) {
        py_keep_exception(call->run);
        diag->status = status = TMK_READ;
        PyOS_snprintf(diag->text, sizeof diag->text, "the metric raised an exception");
    }
    Py_XDECREF(answer);
    Py_XDECREF(sources);
    Py_XDECREF(arrays);
    PyGILState_Release(held);
    return status;
}

static bool set_goal(struct search_call *call) {
    if (!call->goal || tmk_goal_read(call->goal, &call->options.goal, &call->options.goal_value))
        return true;
    PyErr_Format(PyExc_ValueError,
                 "goal=%s: decibels, accuracy or metric: 30dB, accuracy-0.5%%, metric-1%%",
                 call->goal);
    return false;
}

static void add_choice(void *list, const char *text) {
    PyGILState_STATE held = PyGILState_Ensure();
    if (!py_append(list, py_text(text)))
        PyErr_Clear();
    PyGILState_Release(held);
}

PyObject *py_search(PyObject *self, PyObject *args) {
    (void)self;
    struct opened o;
    struct py_run run = {0};
    struct search_call call = {0};
    PyObject *result = NULL;
    if (!parse_call(args, &o))
        return NULL;
    if (py_begin_run(o.settings, search_table, &call, &run) && py_is_profile(call.profile) &&
        set_goal(&call)) {
        struct tmk_model *model = NULL;
        struct tmk_encodings *better = NULL;
        struct tmk_target *target = NULL;
        struct tmk_search_result found = {0};
        struct tmk_diag diag = {0};
        enum tmk_status status;
        call.options.profile = ((struct py_profile *)call.profile)->profile;
        call.options.report = call.choices ? add_choice : NULL;
        call.options.context = call.choices;
        call.run = &run;
        if (call.metric)
            call.options.metric = (struct tmk_search_metric){call_metric, &call};
        Py_BEGIN_ALLOW_THREADS;
        status = call.target ? tmk_target_open(call.target, &target, &diag) : TMK_OK;
        call.options.target = target;
        if (status == TMK_OK)
            status = tmk_model_open_params(o.path, o.params, false, &model, &diag);
        if (status == TMK_OK)
            status = tmk_model_search(model, o.encodings, &run.options, &call.options, &better,
                                      &found, &diag);
        tmk_target_close(&target);
        tmk_model_close(&model);
        Py_END_ALLOW_THREADS;
        if (py_run_failed(&run, status, &diag))
            tmk_encodings_destroy(&better);
        else
            result = found_of(better, &found);
    }
    py_finish_run(&run);
    return result;
}
