/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding: which inputs are tokens, masks, positions and caches, and which outputs follow them. */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "data/role.h"
#include "feed/internal.h"
#include "tensor/elements.h"

enum { NAME_BYTES = 256 };

struct finding {
    struct tmk_feed *feed;
    const struct tmk_graph *graph;
    bool *fed;   /* by input: a cache that has its output */
    bool *taken; /* by output: it feeds one, or is the logits */
    int32_t logits, tokens;
    struct tmk_diag *diag;
};

static bool is_float(const struct tmk_type *type) {
    return type->kind == TMK_TYPE_TENSOR &&
           (type->dtype == TMK_UNDEFINED || type->dtype == TMK_FLOAT32);
}

static enum tmk_status add_loop(struct finding *f, const struct tmk_loop *loop) {
    struct feed_decoding *decoding = &f->feed->decoding;
    const struct tmk_value *out = f->graph->outputs[loop->output],
                           *in = f->graph->inputs[loop->input];
    if (!tmk_feed_fits(f->feed, loop))
        return tmk_fail(f->diag, TMK_ARGUMENT,
                        "--generate: the type or shape of '%s' is not that of '%s', to which it is "
                        "fed back",
                        out->name, in->name);
    if (f->fed[loop->input])
        return tmk_fail(f->diag, TMK_ARGUMENT, "--feedback: input '%s' is fed back already",
                        in->name);
    decoding->loops[decoding->n] = *loop;
    /* merged decoders make the keys of their encoder in the first step alone */
    decoding->loops[decoding->n++].keeps = tmk_role_is_of_encoder(in->name);
    f->fed[loop->input] = f->taken[loop->output] = true;
    decoding->role[loop->input] = TMK_ROLE_NONE; /* fed back, it does not grow otherwise */
    return TMK_OK;
}

/* ---- as given ---- */

/* A pair of float numbers and integers is logits and tokens. */
static enum tmk_status take_pairs(struct finding *f) {
    const struct tmk_data_options *data = f->feed->data;
    for (size_t i = 0; i < data->recurrence.n_feedback; i++) {
        struct tmk_loop loop;
        TMK_TRY(tmk_feed_parse_pair(f->feed, i, &loop, f->diag));
        const enum tmk_dtype in = f->graph->inputs[loop.input]->type.dtype;
        if (!is_float(&f->graph->outputs[loop.output]->type) ||
            (in != TMK_INT64 && in != TMK_INT32)) {
            TMK_TRY(add_loop(f, &loop));
            continue;
        }
        if (f->logits >= 0)
            return tmk_fail(f->diag, TMK_ARGUMENT,
                            "--feedback %s: the logits are '%s' already, of '%s'",
                            data->recurrence.feedback[i], f->graph->outputs[f->logits]->name,
                            f->graph->inputs[f->tokens]->name);
        f->logits = (int32_t)loop.output;
        f->tokens = (int32_t)loop.input;
        f->taken[loop.output] = true;
    }
    return TMK_OK;
}

/* ---- by name ---- */

static enum tmk_role role_of(const struct finding *f, uint32_t input) {
    const struct tmk_source_input want = tmk_feed_want(f->feed, input);
    const enum tmk_role role = tmk_role_of(&want, f->graph->n_inputs == 1);
    if (f->fed[input])
        return TMK_ROLE_NONE;
    if (role == TMK_ROLE_CACHE)
        return role;
    if (f->tokens >= 0 && (role == TMK_ROLE_TOKENS || f->tokens == (int32_t)input))
        return f->tokens == (int32_t)input ? TMK_ROLE_TOKENS : TMK_ROLE_NONE;
    return role == TMK_ROLE_EMBEDDINGS || tmk_role_is_of_encoder(want.input) ? TMK_ROLE_NONE : role;
}

static enum tmk_status find_roles(struct finding *f) {
    enum tmk_role *roles = f->feed->decoding.role;
    for (uint32_t i = 0; i < f->graph->n_inputs; i++) {
        const struct tmk_value *input = f->graph->inputs[i];
        roles[i] = role_of(f, i);
        if (roles[i] != TMK_ROLE_NONE && roles[i] != TMK_ROLE_CACHE &&
            !tmk_number_takes(input->type.dtype))
            return tmk_fail(f->diag, TMK_UNSUPPORTED, "--generate: '%s' cannot be %s", input->name,
                            tmk_dtype_name(input->type.dtype));
    }
    for (uint32_t i = 0; i < f->graph->n_inputs; i++) {
        const char *name = f->graph->inputs[i]->name;
        if (roles[i] != TMK_ROLE_TOKENS || f->tokens == (int32_t)i)
            continue;
        if (f->tokens >= 0)
            return tmk_fail(f->diag, TMK_ARGUMENT,
                            "--generate: '%s' or '%s' may take the tokens; --feedback LOGITS=%s "
                            "names one",
                            f->graph->inputs[f->tokens]->name, name, name);
        f->tokens = (int32_t)i;
    }
    if (f->tokens < 0)
        return tmk_fail(f->diag, TMK_ARGUMENT,
                        "--generate: no input is known to take tokens; --feedback LOGITS=INPUT "
                        "names it");
    return TMK_OK;
}

/* A cache's name without what distinguishes the past from the present. */
static void stem_of(const char *name, char stem[NAME_BYTES]) {
    static const char *const words[] = {"past_key_values", "present_key_values", "past", "present"};
    size_t n = 0;
    while (*name && n + 1 < NAME_BYTES) {
        size_t skip = 0;
        for (size_t i = 0; !skip && i < TMK_COUNT(words); i++)
            skip = strncmp(name, words[i], strlen(words[i])) == 0 ? strlen(words[i]) : 0;
        name += skip;
        if (!skip)
            stem[n++] = *name++;
    }
    stem[n] = '\0';
}

static enum tmk_status pair_by_name(struct finding *f, uint32_t *left) {
    char wanted[NAME_BYTES], stem[NAME_BYTES];
    for (uint32_t i = 0; i < f->graph->n_inputs; i++) {
        if (f->feed->decoding.role[i] != TMK_ROLE_CACHE)
            continue;
        uint32_t out = 0;
        stem_of(f->graph->inputs[i]->name, wanted);
        for (; out < f->graph->n_outputs; out++) {
            stem_of(f->graph->outputs[out]->name, stem);
            if (!f->taken[out] && strcmp(stem, wanted) == 0)
                break;
        }
        if (out < f->graph->n_outputs)
            TMK_TRY(add_loop(f, &(struct tmk_loop){out, i, false}));
        else if (tmk_role_is_of_encoder(f->graph->inputs[i]->name))
            f->feed->decoding.role[i] = TMK_ROLE_NONE;
        else
            ++*left;
    }
    return TMK_OK;
}

/* Names that say nothing ("cat_3"): as many outputs as caches, in one order. */
static enum tmk_status pair_by_order(struct finding *f, uint32_t caches) {
    uint32_t outputs = 0, at = 0, n = 0;
    for (uint32_t i = 0; i < f->graph->n_outputs; i++)
        outputs += !f->taken[i];
    for (uint32_t i = 0; i < f->graph->n_inputs; i++) {
        if (f->feed->decoding.role[i] != TMK_ROLE_CACHE)
            continue;
        while (at < f->graph->n_outputs && f->taken[at])
            at++;
        const struct tmk_loop loop = {at, i};
        if (outputs != caches || at == f->graph->n_outputs || !tmk_feed_fits(f->feed, &loop))
            return tmk_fail(f->diag, TMK_ARGUMENT,
                            "--generate: no output is known to be the next '%s'; --feedback "
                            "OUT=%s names it",
                            f->graph->inputs[i]->name, f->graph->inputs[i]->name);
        if (!n++)
            tmk_feed_remark(f->feed,
                            "outputs are taken for caches in their order: '%s' is the next '%s'; "
                            "--feedback OUT=IN states others",
                            f->graph->outputs[at]->name, f->graph->inputs[i]->name);
        TMK_TRY(add_loop(f, &loop));
    }
    return TMK_OK;
}

/* Could it be a cache that still lacks its output? */
static bool may_be_cache(const struct finding *f, uint32_t output) {
    for (uint32_t i = 0; i < f->graph->n_inputs; i++)
        if (f->feed->decoding.role[i] == TMK_ROLE_CACHE &&
            tmk_feed_fits(f->feed, &(struct tmk_loop){output, i, false}))
            return true;
    return false;
}

/* By their name, or since nothing else can be they. */
static enum tmk_status find_logits(struct finding *f) {
    for (int by_name = 1; by_name >= 0 && f->logits < 0; by_name--)
        for (uint32_t i = 0; i < f->graph->n_outputs; i++) {
            const struct tmk_value *output = f->graph->outputs[i];
            const struct tmk_shape *shape = output->type.has_shape ? &output->type.shape : NULL;
            if (f->taken[i] || !is_float(&output->type) || (shape && shape->rank < 2) ||
                (by_name ? !strstr(output->name, "logits") : may_be_cache(f, i)))
                continue;
            if (f->logits >= 0)
                return tmk_fail(f->diag, TMK_ARGUMENT,
                                "--generate: '%s' or '%s' may be the logits; --feedback OUT=%s "
                                "names them",
                                f->graph->outputs[f->logits]->name, output->name,
                                f->graph->inputs[f->tokens]->name);
            f->logits = (int32_t)i;
        }
    if (f->logits < 0)
        return tmk_fail(f->diag, TMK_ARGUMENT,
                        "--generate: no output is known to be the logits; --feedback OUT=%s names "
                        "it",
                        f->graph->inputs[f->tokens]->name);
    f->taken[f->logits] = true;
    return TMK_OK;
}

static enum tmk_status find_all(struct finding *f) {
    struct feed_decoding *decoding = &f->feed->decoding;
    uint32_t left = 0;
    if (f->feed->data->recurrence.reset)
        return tmk_fail(f->diag, TMK_ARGUMENT,
                        "--reset is for sequences of samples; with --generate each prompt is one");
    TMK_TRY(take_pairs(f));
    TMK_TRY(find_roles(f));
    TMK_TRY(pair_by_name(f, &left));
    TMK_TRY(find_logits(f));
    TMK_TRY(pair_by_order(f, left));
    decoding->generation = (struct tmk_generation){.steps = f->feed->data->generate.steps,
                                                   .logits = (uint32_t)f->logits,
                                                   .tokens = (uint32_t)f->tokens,
                                                   .role = decoding->role,
                                                   .appends = !decoding->n,
                                                   .stop = f->feed->data->generate.stop,
                                                   .n_stop = f->feed->data->generate.n_stop};
    return TMK_OK;
}

enum tmk_status tmk_feed_find_decoding(struct tmk_feed *feed, struct tmk_diag *diag) {
    const struct tmk_graph *graph = feed->graph;
    struct feed_decoding *decoding = &feed->decoding;
    struct finding f = {.feed = feed,
                        .graph = graph,
                        .fed = calloc(graph->n_inputs + 1u, sizeof *f.fed),
                        .taken = calloc(graph->n_outputs + 1u, sizeof *f.taken),
                        .logits = -1,
                        .tokens = -1,
                        .diag = diag};
    decoding->role = calloc(graph->n_inputs + 1u, sizeof *decoding->role);
    decoding->loops = calloc(graph->n_inputs + 1u, sizeof *decoding->loops);
    enum tmk_status status =
        f.fed && f.taken && decoding->role && decoding->loops ? find_all(&f) : tmk_nomem(diag);
    free(f.fed);
    free(f.taken);
    return status;
}

struct tmk_generation tmk_feed_generation(const struct tmk_feed *feed) {
    return feed->decoding.generation;
}
