/* SPDX-License-Identifier: Apache-2.0 */
/* If and Loop: the kernel decides which graph runs, and how often; the executor runs it. */
#include <stdlib.h>

#include "ops/kernel.h"
#include "ops/stack.h"

enum tmk_status tmk_call_body(struct tmk_run *run, const struct tmk_graph *body,
                              const struct tmk_tensor *inputs, uint32_t n_inputs,
                              struct tmk_tensor *outputs) {
    if (!run->call)
        return tmk_fail(run->diag, TMK_UNSUPPORTED, "graphs inside nodes cannot run here");
    if (body->n_inputs != n_inputs)
        return tmk_fail(run->diag, TMK_GRAPH, "its graph '%s' takes %u inputs, but gets %u",
                        body->name, body->n_inputs, n_inputs);
    return run->call(run->context, body, inputs, outputs, run->diag);
}

void tmk_give(struct tmk_run *run, uint32_t i, struct tmk_tensor *tensor) {
    struct tmk_tensor *out = tmk_run_out(run, i);
    if (out) {
        tmk_tensor_finish(out);
        *out = *tensor;
        *tensor = (struct tmk_tensor){0};
    }
    tmk_tensor_finish(tensor);
}

enum tmk_status tmk_infer_nothing(struct tmk_infer *infer) {
    (void)infer; /* every output's shape depends on what the graphs make */
    return TMK_OK;
}

static enum tmk_status read_flag(const struct tmk_tensor *tensor, const char *what, bool *out,
                                 struct tmk_diag *diag) {
    TMK_TRY(tmk_want_tensor(tensor, what, diag));
    TMK_TRY(tmk_want_dtype(tensor, TMK_BOOL, what, diag));
    if (tmk_tensor_count(tensor) != 1)
        return tmk_fail(diag, TMK_SHAPE, "%s must be one bool, but has %zu elements", what,
                        tmk_tensor_count(tensor));
    *out = *(const uint8_t *)tensor->data != 0;
    return TMK_OK;
}

/* ---- If ---- */

static enum tmk_status if_run(struct tmk_run *run) {
    bool then = false;
    TMK_TRY(read_flag(run->in[0], "the condition", &then, run->diag));
    const struct tmk_graph *body =
        tmk_node_attr(run->node, then ? "then_branch" : "else_branch")->graphs[0];
    if (body->n_outputs < run->n_out)
        return tmk_fail(run->diag, TMK_GRAPH, "its graph '%s' makes %u values, but %u are named",
                        body->name, body->n_outputs, run->n_out);
    struct tmk_tensor *made = calloc(body->n_outputs + 1u, sizeof *made);
    TMK_TRY_ALLOC(made, run->diag);
    enum tmk_status status = tmk_call_body(run, body, NULL, 0, made);
    for (uint32_t i = 0; i < body->n_outputs; i++) {
        if (status == TMK_OK)
            tmk_give(run, i, &made[i]);
        else
            tmk_tensor_finish(&made[i]);
    }
    free(made);
    return status;
}

/* ---- Loop ---- */

/* The graph's inputs: iteration, condition, carried. Made: condition, carried, stacked. */
struct loop {
    struct tmk_repeat repeat;
    uint32_t n_carried;
    int64_t iteration, most;
    uint8_t condition;
};

static enum tmk_status read_bounds(struct loop *loop) {
    struct tmk_run *run = loop->repeat.run;
    const struct tmk_tensor *most = tmk_run_in(run, 0), *condition = tmk_run_in(run, 1);
    loop->most = INT64_MAX;
    loop->condition = 1;
    if (most) {
        TMK_TRY(tmk_want_tensor(most, "the trip count", run->diag));
        TMK_TRY(tmk_read_int(most, "the trip count", &loop->most, run->diag));
    }
    if (condition) {
        bool flag = false;
        TMK_TRY(read_flag(condition, "the condition", &flag, run->diag));
        loop->condition = flag;
    }
    return TMK_OK;
}

static enum tmk_status set_up_loop(struct loop *loop) {
    struct tmk_run *run = loop->repeat.run;
    const struct tmk_graph *body = loop->repeat.body;
    loop->n_carried = run->n_in > 2 ? run->n_in - 2 : 0;
    if (body->n_outputs < 1 + loop->n_carried || run->n_out > body->n_outputs - 1)
        return tmk_fail(run->diag, TMK_GRAPH,
                        "its graph makes %u values; a condition and %u carried ones are needed",
                        body->n_outputs, loop->n_carried);
    TMK_TRY(tmk_repeat_begin(&loop->repeat, loop->n_carried + 2,
                             body->n_outputs - 1 - loop->n_carried));
    TMK_TRY(read_bounds(loop));
    for (uint32_t i = 0; i < loop->n_carried; i++) {
        if (!run->in[2 + i])
            return tmk_fail(run->diag, TMK_GRAPH, "its carried input %u is absent", i);
        TMK_TRY(tmk_tensor_keep(&loop->repeat.inputs[2 + i], run->in[2 + i], run->diag));
    }
    return TMK_OK;
}

static enum tmk_status iterate_body(struct loop *loop) {
    struct tmk_repeat *r = &loop->repeat;
    const struct tmk_shape scalar = {0};
    tmk_tensor_borrow(&r->inputs[0], TMK_INT64, &scalar, &loop->iteration);
    tmk_tensor_borrow(&r->inputs[1], TMK_BOOL, &scalar, &loop->condition);
    TMK_TRY(tmk_call_body(r->run, r->body, r->inputs, r->n_inputs, r->made));
    bool again = false;
    TMK_TRY(read_flag(&r->made[0], "the condition that its graph makes", &again, r->run->diag));
    tmk_repeat_carry(r, 2, 1, loop->n_carried);
    for (uint32_t i = 0; i < r->n_stacks; i++)
        TMK_TRY(tmk_stack_push(&r->stacks[i], &r->made[1 + loop->n_carried + i], r->run->diag));
    loop->condition = again;
    loop->iteration++;
    return TMK_OK;
}

static enum tmk_status run_loop(struct loop *loop) {
    struct tmk_repeat *r = &loop->repeat;
    TMK_TRY(set_up_loop(loop));
    enum tmk_status status = TMK_OK;
    while (status == TMK_OK && loop->iteration < loop->most && loop->condition) {
        status = iterate_body(loop);
        tmk_repeat_drop_made(r);
    }
    TMK_TRY(status);
    for (uint32_t i = 0; i < loop->n_carried; i++)
        tmk_give(r->run, i, &r->inputs[2 + i]);
    for (uint32_t i = 0; i < r->n_stacks; i++)
        TMK_TRY(tmk_stack_finish_into(&r->stacks[i], r->run, loop->n_carried + i,
                                      &r->body->outputs[1 + loop->n_carried + i]->type, 0, false));
    return TMK_OK;
}

static enum tmk_status loop_run(struct tmk_run *run) {
    struct loop loop = {.repeat = tmk_repeat_of(run)};
    enum tmk_status status = run_loop(&loop);
    tmk_repeat_end(&loop.repeat);
    return status;
}

const struct tmk_op tmk_ops_control[] = {
    {TMK_OP_ONNX("If", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, TMK_VARIADIC),
     .flags = TMK_OP_IMPURE | TMK_OP_SIZES_ITSELF | TMK_OP_RUNS_GRAPHS,
     .attrs = "then_branch:graph! else_branch:graph!", .infer = tmk_infer_nothing, .run = if_run},
    {TMK_OP_ONNX("Loop", 1, INT32_MAX), TMK_OP_COUNTS(0, TMK_VARIADIC, 1, TMK_VARIADIC),
     .flags = TMK_OP_IMPURE | TMK_OP_SIZES_ITSELF | TMK_OP_RUNS_GRAPHS | TMK_OP_TAKES_ANY,
     .attrs = "body:graph!", .infer = tmk_infer_nothing, .run = loop_run},
    {NULL}};
