/* SPDX-License-Identifier: Apache-2.0 */
/* A model file: printed, instrumented, transformed, run, verified, measured. */
#include "_run.h"

#include <stdlib.h>

#include <tidemark/patterns.h>

/* ---- graph ---- */

/* Free *nodes; their texts are the profile's. */
static enum tmk_status list_patterns(struct tmk_model *model, struct tmk_profile **values,
                                     struct tmk_pattern_node **nodes, size_t *n,
                                     struct tmk_diag *diag) {
    enum tmk_status status = tmk_model_skeleton(model, values, diag);
    return status == TMK_OK ? tmk_patterns_list(*values, nodes, n, diag) : status;
}

static enum tmk_status draw_patterns(struct tmk_model *model, char **out, struct tmk_diag *diag) {
    struct tmk_profile *values = NULL;
    struct tmk_pattern_node *nodes = NULL;
    size_t n = 0;
    enum tmk_status status = list_patterns(model, &values, &nodes, &n, diag);
    if (status == TMK_OK)
        status = tmk_model_draw_patterns(model, nodes, n, out, diag);
    free(nodes);
    tmk_profile_destroy(&values);
    return status;
}

/* What a call of py_graph is about. */
struct graph_call {
    const char *path, *params, *lineage;
    int view, patterns;
};

static enum tmk_status print_graph(const struct graph_call *call, char **out,
                                   struct tmk_diag *diag) {
    struct tmk_model *model = NULL;
    struct tmk_lineage_record *lineage = NULL;
    enum tmk_status status = tmk_model_open_params(call->path, call->params, true, &model, diag);
    if (status == TMK_OK && call->lineage)
        status = tmk_lineage_record_read(call->lineage, &lineage, diag);
    if (status == TMK_OK)
        status = lineage ? tmk_model_print_lineage(model, lineage, out, diag)
                 : call->patterns
                     ? draw_patterns(model, out, diag)
                     : tmk_model_print(model, (enum tmk_view)call->view, out, NULL, diag);
    tmk_lineage_record_destroy(&lineage);
    tmk_model_close(&model);
    return status;
}

PyObject *py_graph(PyObject *self, PyObject *args) {
    (void)self;
    struct graph_call call;
    char *text = NULL;
    struct tmk_diag diag = {0};
    enum tmk_status status;
    if (!PyArg_ParseTuple(args, "szizp", &call.path, &call.params, &call.view, &call.lineage,
                          &call.patterns))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = print_graph(&call, &text, &diag);
    Py_END_ALLOW_THREADS;
    PyObject *result = status == TMK_OK ? py_text(text) : py_fail(status, &diag);
    free(text);
    return result;
}

PyObject *py_patterns(PyObject *self, PyObject *args) {
    (void)self;
    const char *path, *params;
    struct tmk_model *model = NULL;
    struct tmk_profile *values = NULL;
    struct tmk_pattern_node *nodes = NULL;
    size_t n = 0;
    struct tmk_diag diag = {0};
    if (!PyArg_ParseTuple(args, "sz", &path, &params))
        return NULL;
    enum tmk_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tmk_model_open_params(path, params, false, &model, &diag);
    if (status == TMK_OK)
        status = list_patterns(model, &values, &nodes, &n, &diag);
    Py_END_ALLOW_THREADS;
    PyObject *list = status == TMK_OK ? PyList_New(0) : py_fail(status, &diag);
    for (size_t i = 0; list && i < n; i++)
        if (!py_append(list,
                       Py_BuildValue("(NINNN)", py_text(nodes[i].pattern), nodes[i].occurrence,
                                     py_text(nodes[i].op), py_text(nodes[i].node),
                                     PyUnicode_FromFormat("p%u", nodes[i].id))))
            Py_CLEAR(list);
    free(nodes);
    tmk_profile_destroy(&values);
    tmk_model_close(&model);
    return list;
}

/* ---- instrument ---- */

PyObject *py_instrument(PyObject *self, PyObject *args) {
    (void)self;
    const char *path, *params, *output;
    PyObject *settings;
    uint32_t observers = 0;
    struct tmk_observe observe = {0};
    struct py_held held = {0};
    struct tmk_model *model = NULL;
    struct tmk_diag diag = {0};
    static const struct py_option table[] = {{"observe", PY_TEXTS,
                                              offsetof(struct tmk_observe, patterns),
                                              offsetof(struct tmk_observe, n_patterns)},
                                             {"kind", PY_TEXT, offsetof(struct tmk_observe, kind)},
                                             {0}};
    if (!PyArg_ParseTuple(args, "szsO!", &path, &params, &output, &PyDict_Type, &settings))
        return NULL;
    PyObject *result = NULL;
    if (py_take_options(settings, table, NULL, &observe, &held)) {
        enum tmk_status status;
        Py_BEGIN_ALLOW_THREADS;
        status = tmk_model_open_params(path, params, true, &model, &diag);
        if (status == TMK_OK)
            status = tmk_model_instrument(model, &observe, output, &observers, &diag);
        Py_END_ALLOW_THREADS;
        result = status == TMK_OK ? PyLong_FromUnsignedLong(observers) : py_fail(status, &diag);
    }
    tmk_model_close(&model);
    py_finish_held(&held);
    return result;
}

/* ---- transform ---- */

PyObject *py_passes(PyObject *self, PyObject *nothing) {
    (void)self;
    (void)nothing;
    const char *name, *help;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && tmk_transform_pass(i, &name, &help); i++)
        if (!py_append(list, Py_BuildValue("(ss)", name, help)))
            Py_CLEAR(list);
    return list;
}

static void add_pass(void *list, const char *pass, bool changed, const char *text) {
    PyGILState_STATE held = PyGILState_Ensure();
    if (!py_append(list, Py_BuildValue("(sNN)", pass, PyBool_FromLong(changed), py_text(text))))
        PyErr_Clear();
    PyGILState_Release(held);
}

struct transform_call {
    struct tmk_transform_options options;
    const char *lineage;       /* a file */
    PyObject *after, *profile; /* a list; a Profile */
};

static enum tmk_status transform_model(const char *path, const char *params, const char *output,
                                       const struct transform_call *call,
                                       struct tmk_lineage_record **out,
                                       struct tmk_transform_report *report, struct tmk_diag *diag) {
    struct tmk_model *model = NULL;
    enum tmk_status status =
        call->lineage ? tmk_lineage_record_can_write(call->lineage, diag) : TMK_OK;
    if (status == TMK_OK)
        status = tmk_model_open_params(path, params, false, &model, diag);
    if (status == TMK_OK)
        status = tmk_model_transform(model, &call->options, output, out, report, diag);
    tmk_model_close(&model);
    return status;
}

PyObject *py_transform(PyObject *self, PyObject *args) {
    (void)self;
    const char *path, *params, *output;
    PyObject *settings, *result = NULL;
    struct transform_call call = {0};
    struct tmk_transform_report report = {0};
    struct tmk_lineage_record *record = NULL;
    struct py_held held = {0};
    struct tmk_diag diag = {0};
#define AT(member) offsetof(struct transform_call, member)
    static const struct py_option table[] = {
        {"passes", PY_TEXTS, AT(options.passes), AT(options.n_passes)},
        {"barrier", PY_FLAG, AT(options.barrier)},
        {"params_out", PY_TEXT, AT(options.params_path)},
        {"lineage", PY_TEXT, AT(lineage)},
        {"after", PY_CALL, AT(after)},
        {"profile", PY_CALL, AT(profile)},
        {0}};
#undef AT
    if (!PyArg_ParseTuple(args, "szsO!", &path, &params, &output, &PyDict_Type, &settings))
        return NULL;
    if (py_take_options(settings, table, NULL, &call, &held) &&
        (!call.profile || py_is_profile(call.profile))) {
        enum tmk_status status;
        call.options.profile = call.profile ? ((struct py_profile *)call.profile)->profile : NULL;
        call.options.after = call.after ? add_pass : NULL;
        call.options.context = call.after;
        Py_BEGIN_ALLOW_THREADS;
        status = transform_model(path, params, output, &call, &record, &report, &diag);
        Py_END_ALLOW_THREADS;
        if (status == TMK_OK && call.lineage)
            status = py_write_lineage(record, call.lineage, &diag);
        if (status != TMK_OK)
            py_fail(status, &diag);
        else
            result = Py_BuildValue("(NIIIIN)", py_lineage(record), report.nodes_before,
                                   report.nodes_after, report.observers_before,
                                   report.observers_after, PyBool_FromLong(report.progress));
    }
    tmk_lineage_record_destroy(&record);
    py_finish_held(&held);
    return result;
}

/* ---- run, and what runs cost ---- */

static PyObject *costs_of(const struct tmk_costs *costs) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < costs->n; i++) {
        const struct tmk_step_cost *c = &costs->steps[i];
        if (!py_append(list,
                       Py_BuildValue("(NssKdd)", py_text(c->name), c->what, c->kernel,
                                     (unsigned long long)c->runs, c->seconds, c->observe_seconds)))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *memory_of(const struct tmk_memory_plan *m) {
    static const char *const moments[] = {"running", "finishing", "merging"};
    return Py_BuildValue("{sIsKsNsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsssK}", "threads", m->threads,
                         "batch", m->batch, "batch_why", py_text(m->batch_why), "program",
                         m->program, "model", m->model, "packed", m->packed, "worker", m->worker,
                         "whole", m->whole, "per_sample", m->per_sample, "blocks", m->blocks,
                         "together", m->together, "kept", m->kept, "counting", m->counting,
                         "read_ahead", m->read_ahead, "statistics", m->statistics, "summed",
                         m->summed, "constants", m->constants, "derived", m->derived, "writing",
                         m->writing, "moment", moments[m->moment], "total", m->total);
}

/* What a call of py_run_model is about. */
struct run_call {
    const char *output; /* arrays are written there */
    bool costs, memory; /* instead: what each step costs, what memory is expected */
    bool bare;          /* of these two, without observers; alone: speed */
};

static PyObject *run_model(struct py_run *run, const struct run_call *call, const char *path,
                           const char *params) {
    struct tmk_model *model = NULL;
    struct tmk_costs costs = {0};
    struct tmk_memory_plan memory = {0};
    struct tmk_run_report report = {0};
    struct tmk_diag diag = {0};
    const struct tmk_observe *observe = call->bare ? NULL : &run->observe;
    enum tmk_status status;
    PyObject *result = NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = call->memory ? tmk_model_open_to_plan(path, params, &model, &diag)
                          : tmk_model_open_params(path, params, false, &model, &diag);
    if (status == TMK_OK)
        status = call->costs ? tmk_model_costs(model, &run->options, observe, &costs, &diag)
                 : call->memory
                     ? tmk_model_plan_memory(model, &run->options, observe, &memory, &diag)
                 : call->bare ? tmk_model_run_bare(model, &run->options, &report, &diag)
                              : tmk_model_run(model, &run->options, run->observe.patterns,
                                              run->observe.n_patterns, call->output, &diag);
    tmk_model_close(&model);
    Py_END_ALLOW_THREADS;
    if (!py_run_failed(run, status, &diag))
        result = call->costs    ? costs_of(&costs)
                 : call->memory ? memory_of(&memory)
                 : call->bare
                     ? Py_BuildValue("(Kd)", (unsigned long long)report.samples, report.seconds)
                     : Py_NewRef(Py_None);
    tmk_costs_finish(&costs);
    return result;
}

PyObject *py_run_model(PyObject *self, PyObject *args) {
    (void)self;
    const char *path, *params;
    PyObject *settings, *result = NULL;
    struct py_run run = {0};
    struct run_call call = {0};
    static const struct py_option table[] = {{"output", PY_TEXT, offsetof(struct run_call, output)},
                                             {"costs", PY_FLAG, offsetof(struct run_call, costs)},
                                             {"memory", PY_FLAG, offsetof(struct run_call, memory)},
                                             {"bare", PY_FLAG, offsetof(struct run_call, bare)},
                                             {0}};
    if (!PyArg_ParseTuple(args, "szO!", &path, &params, &PyDict_Type, &settings))
        return NULL;
    if (py_begin_run(settings, table, &call, &run))
        result = run_model(&run, &call, path, params);
    py_finish_run(&run);
    return result;
}

/* ---- verify ---- */

static void add_verdict(void *list, const struct tmk_verdict *v) {
    PyGILState_STATE held = PyGILState_Ensure();
    if (!py_append(list,
                   Py_BuildValue("(NNNNd)", py_text(v->set), py_text(v->output),
                                 PyBool_FromLong(v->ok), py_text(v->ok ? "" : v->why), v->worst)))
        PyErr_Clear();
    PyGILState_Release(held);
}

PyObject *py_verify(PyObject *self, PyObject *args) {
    (void)self;
    const char *path, *params, *folder;
    PyObject *settings, *list = NULL;
    uint32_t failed = 0;
    struct tmk_verify_options options = {.rtol = 1e-3, .atol = 1e-7};
    struct py_run run = {0};
    static const struct py_option table[] = {
        {"rtol", PY_REAL, offsetof(struct tmk_verify_options, rtol)},
        {"atol", PY_REAL, offsetof(struct tmk_verify_options, atol)},
        {0}};
    if (!PyArg_ParseTuple(args, "szsO!", &path, &params, &folder, &PyDict_Type, &settings))
        return NULL;
    if (py_begin_run(settings, table, &options, &run) && (list = PyList_New(0))) {
        struct tmk_model *model = NULL;
        struct tmk_diag diag = {0};
        enum tmk_status status;
        options.limits = run.options.limits;
        options.events = run.options.events;
        Py_BEGIN_ALLOW_THREADS;
        status = tmk_model_open_params(path, params, false, &model, &diag);
        if (status == TMK_OK)
            status = tmk_model_verify(model, folder, &options, add_verdict, list, &failed, &diag);
        tmk_model_close(&model);
        Py_END_ALLOW_THREADS;
        if (py_run_failed(&run, status, &diag))
            Py_CLEAR(list);
    }
    py_finish_run(&run);
    return list;
}
