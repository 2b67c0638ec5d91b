/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/feedback.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "ops/stack.h"
#include "tensor/elements.h"
#include "tensor/list.h"
#include "tensor/shape.h"

void tmk_loop_state_load(const struct tmk_loop_state *carried, const struct tmk_feedback *feedback,
                         struct tmk_tensor *inputs) {
    for (uint32_t i = 0; i < feedback->n; i++)
        tmk_tensor_share(&inputs[feedback->loops[i].input], &carried->states[i]);
}

static bool type_fits(const struct tmk_type *type, const struct tmk_shape *shape) {
    if (!type->has_shape)
        return true;
    if (type->shape.rank != shape->rank)
        return false;
    for (int32_t k = 0; k < shape->rank; k++)
        if (type->shape.dim[k] >= 0 && type->shape.dim[k] != shape->dim[k])
            return false;
    return true;
}

static enum tmk_status check_loop(const struct tmk_value *output, const struct tmk_value *input,
                                  const struct tmk_tensor *tensor, struct tmk_diag *diag) {
    if (tensor->kind != TMK_TYPE_TENSOR)
        return tmk_fail(diag, TMK_TYPE, "'%s' is %s; only arrays are fed back", output->name,
                        tmk_tensor_what(tensor));
    if (tensor->dtype == input->type.dtype && type_fits(&input->type, &tensor->shape))
        return TMK_OK;
    return tmk_fail(diag, TMK_SHAPE,
                    "'%s' is %s%s, but input '%s', to which it is fed back, is %s%s", output->name,
                    tmk_dtype_name(tensor->dtype), TMK_SHAPE_TEXT(&tensor->shape), input->name,
                    tmk_dtype_name(input->type.dtype), TMK_SHAPE_TEXT(&input->type.shape));
}

enum tmk_status tmk_loop_state_store(struct tmk_loop_state *carried,
                                     const struct tmk_feedback *feedback,
                                     const struct tmk_graph *graph, const struct tmk_worker *worker,
                                     struct tmk_diag *diag) {
    if (feedback->n && !carried->states) {
        carried->states = calloc(feedback->n, sizeof *carried->states);
        TMK_TRY_ALLOC(carried->states, diag);
    }
    for (uint32_t i = 0; i < feedback->n; i++) {
        const struct tmk_value *output = graph->outputs[feedback->loops[i].output];
        const struct tmk_tensor tensor = tmk_worker_value(worker, output);
        if (feedback->loops[i].keeps && tensor.kind == TMK_TYPE_TENSOR &&
            !tmk_tensor_count(&tensor) && tmk_tensor_count(&carried->states[i]))
            continue;
        TMK_TRY(check_loop(output, graph->inputs[feedback->loops[i].input], &tensor, diag));
        tmk_tensor_finish(&carried->states[i]);
        TMK_TRY(tmk_tensor_keep(&carried->states[i], &tensor, diag));
    }
    return TMK_OK;
}

void tmk_loop_state_finish(struct tmk_loop_state *carried, const struct tmk_feedback *feedback) {
    for (uint32_t i = 0; carried->states && i < feedback->n; i++)
        tmk_tensor_finish(&carried->states[i]);
    free(carried->states);
    *carried = (struct tmk_loop_state){0};
}

/* ---- greedy decoding ---- */

/* What a step had, by prompt. */
struct step {
    const struct tmk_generation *generation;
    size_t prompts, tokens; /* tokens of each */
    size_t *last;           /* the last token that is no padding */
    size_t *next;           /* the token that comes next */
};

static size_t last_dim(const struct tmk_tensor *tensor) {
    return tensor->shape.rank ? (size_t)tensor->shape.dim[tensor->shape.rank - 1] : 1;
}

static enum tmk_status measure_tokens(struct step *step, const struct tmk_graph *graph,
                                      const struct tmk_tensor *inputs, struct tmk_diag *diag) {
    const struct tmk_tensor *tokens = &inputs[step->generation->tokens];
    if (tokens->shape.rank < 1 || tokens->shape.rank > 2 || !tmk_tensor_count(tokens))
        return tmk_fail(diag, TMK_SHAPE, "'%s' is %s: tokens are [batch, length] or [length]",
                        graph->inputs[step->generation->tokens]->name,
                        TMK_SHAPE_TEXT(&tokens->shape));
    step->tokens = last_dim(tokens);
    step->prompts = tmk_tensor_count(tokens) / step->tokens;
    step->last = calloc(step->prompts, sizeof *step->last);
    step->next = calloc(step->prompts, sizeof *step->next);
    return step->last && step->next ? TMK_OK : tmk_nomem(diag);
}

/* The mask's last columns are the step's tokens. */
static void find_last(struct step *step, const struct tmk_graph *graph,
                      const struct tmk_tensor *inputs) {
    for (size_t p = 0; p < step->prompts; p++)
        step->last[p] = step->tokens - 1;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const struct tmk_tensor *mask = &inputs[i];
        const size_t columns = last_dim(mask);
        if (step->generation->role[i] != TMK_ROLE_MASK || columns < step->tokens ||
            tmk_tensor_count(mask) != step->prompts * columns)
            continue;
        for (size_t p = 0; p < step->prompts; p++) {
            const size_t end = (p + 1) * columns;
            size_t back = 1;
            while (back < step->tokens && tmk_number_get(mask, end - back) == 0)
                back++;
            if (tmk_number_get(mask, end - back) != 0)
                step->last[p] = step->tokens - back;
        }
        return;
    }
}

/* The first of the largest; a NaN is larger than any number, as in NumPy. */
static size_t argmax_of(const float *x, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n && !isnan(x[best]); i++)
        if (x[i] > x[best] || isnan(x[i]))
            best = i;
    return best;
}

/* Logits are [batch, length, vocabulary], or those of the last token alone. */
static enum tmk_status choose_next(struct step *step, const struct tmk_value *output,
                                   const struct tmk_tensor *logits, struct tmk_diag *diag) {
    const size_t words = last_dim(logits), each = step->prompts * words;
    const size_t count = tmk_tensor_count(logits), rows = each ? count / each : 0;
    if (logits->kind != TMK_TYPE_TENSOR || logits->dtype != TMK_FLOAT32)
        return tmk_fail(diag, TMK_TYPE, "the logits '%s' are no float32 tensor", output->name);
    if (!count || count % each || (rows != 1 && rows != step->tokens))
        return tmk_fail(diag, TMK_SHAPE,
                        "the logits '%s' are %s; of %zu prompts of %zu tokens, [batch, length, "
                        "vocabulary] is needed",
                        output->name, TMK_SHAPE_TEXT(&logits->shape), step->prompts, step->tokens);
    for (size_t p = 0; p < step->prompts; p++) {
        const size_t row = rows == 1 ? p : p * rows + step->last[p];
        step->next[p] = argmax_of((const float *)logits->data + row * words, words);
    }
    return TMK_OK;
}

static enum tmk_status note_stopped(const struct step *step, bool **stopped, bool *all,
                                    struct tmk_diag *diag) {
    size_t n = 0;
    if (!*stopped)
        *stopped = calloc(step->prompts, sizeof **stopped);
    TMK_TRY_ALLOC(*stopped, diag);
    for (size_t p = 0; p < step->prompts; p++) {
        for (size_t i = 0; i < step->generation->n_stop; i++)
            (*stopped)[p] |= step->generation->stop[i] == (int64_t)step->next[p];
        n += (*stopped)[p];
    }
    *all = n == step->prompts;
    return TMK_OK;
}

/* The number that is appended to a row of `columns` numbers. */
static double number_of(const struct step *step, enum tmk_role role,
                        const struct tmk_tensor *tensor, size_t row, size_t columns) {
    const size_t prompt = row % step->prompts, end = (row + 1) * columns;
    switch (role) {
    case TMK_ROLE_TOKENS:
        return (double)step->next[prompt];
    case TMK_ROLE_POSITIONS:
        return 1 + tmk_number_get(tensor, columns == step->tokens
                                              ? row * columns + step->last[prompt]
                                              : end - 1);
    case TMK_ROLE_TYPES:
        return tmk_number_get(tensor, end - 1);
    default:
        return 1;
    }
}

/* Rows with one number more, or with that alone. */
static enum tmk_status grow_rows(const struct step *step, enum tmk_role role, bool keeps,
                                 struct tmk_tensor *tensor, struct tmk_diag *diag) {
    struct tmk_shape shape = tensor->shape;
    struct tmk_tensor grown;
    const size_t columns = last_dim(tensor), kept = keeps ? columns : 0;
    const size_t size = tmk_dtype_size(tensor->dtype), count = tmk_tensor_count(tensor);
    if (!shape.rank || !count)
        return tmk_fail(diag, TMK_SHAPE, "a row of numbers is needed");
    shape.dim[shape.rank - 1] = (int64_t)kept + 1;
    TMK_TRY(tmk_tensor_init(&grown, tensor->dtype, &shape, diag));
    enum tmk_status status = TMK_OK;
    for (size_t row = 0; status == TMK_OK && row < count / columns; row++) {
        const size_t to = row * (kept + 1);
        if (kept)
            memcpy((char *)grown.data + to * size, (char *)tensor->data + row * columns * size,
                   kept * size);
        status =
            tmk_number_put(&grown, to + kept, number_of(step, role, tensor, row, columns), diag);
    }
    tmk_tensor_finish(status == TMK_OK ? tensor : &grown);
    if (status == TMK_OK)
        *tensor = grown;
    return status;
}

static enum tmk_status grow_lengths(const struct step *step, enum tmk_role role,
                                    struct tmk_tensor *tensor, struct tmk_diag *diag) {
    struct tmk_tensor grown;
    const size_t count = tmk_tensor_count(tensor);
    TMK_TRY(tmk_tensor_init(&grown, tensor->dtype, &tensor->shape, diag));
    enum tmk_status status = TMK_OK;
    for (size_t i = 0; status == TMK_OK && i < count; i++) {
        const size_t taken = role == TMK_ROLE_LENGTH  ? 1
                             : count == step->prompts ? step->last[i] + 1
                                                      : step->tokens;
        const double number =
            role == TMK_ROLE_USES_CACHE ? 1 : tmk_number_get(tensor, i) + (double)taken;
        status = tmk_number_put(&grown, i, number, diag);
    }
    tmk_tensor_finish(status == TMK_OK ? tensor : &grown);
    if (status == TMK_OK)
        *tensor = grown;
    return status;
}

static enum tmk_status grow_input(const struct step *step, enum tmk_role role,
                                  struct tmk_tensor *tensor, struct tmk_diag *diag) {
    const bool appends = step->generation->appends;
    switch (role) {
    case TMK_ROLE_NONE:
    case TMK_ROLE_CACHE:
        return TMK_OK;
    case TMK_ROLE_BEFORE:
        return appends ? TMK_OK : grow_lengths(step, role, tensor, diag);
    case TMK_ROLE_LENGTH:
    case TMK_ROLE_USES_CACHE:
        return grow_lengths(step, role, tensor, diag);
    default:
        return grow_rows(step, role, appends || role == TMK_ROLE_MASK, tensor, diag);
    }
}

static enum tmk_status grow_inputs(const struct step *step, const struct tmk_graph *graph,
                                   struct tmk_tensor *inputs, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        TMK_TRY(tmk_in(diag, grow_input(step, step->generation->role[i], &inputs[i], diag),
                       "the next '%s'", graph->inputs[i]->name));
    return TMK_OK;
}

enum tmk_status tmk_generation_step(const struct tmk_generation *generation,
                                    const struct tmk_graph *graph, const struct tmk_worker *worker,
                                    struct tmk_tensor *inputs, bool **stopped, bool *more,
                                    struct tmk_diag *diag) {
    const struct tmk_value *output = graph->outputs[generation->logits];
    const struct tmk_tensor logits = tmk_worker_value(worker, output);
    struct step step = {.generation = generation};
    enum tmk_status status = measure_tokens(&step, graph, inputs, diag);
    if (status == TMK_OK) {
        find_last(&step, graph, inputs);
        status = choose_next(&step, output, &logits, diag);
    }
    bool all = false;
    TMK_THEN(status, note_stopped(&step, stopped, &all, diag));
    if (status == TMK_OK && !all)
        status = grow_inputs(&step, graph, inputs, diag);
    *more = !all;
    free(step.last);
    free(step.next);
    return status;
}
