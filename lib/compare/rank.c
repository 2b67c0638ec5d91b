/* SPDX-License-Identifier: Apache-2.0 */
/* Which value costs most: each quantized alone. In the integer form a value alone is rounded where
 * it is made, whatever reads it, and operators stay float. */
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/diag.h"
#include "compare/simulate.h"
#include "transform/model.h"

/* Entries of one value: encodings with nothing else. */
struct alone {
    struct tmk_encodings encodings;
    double expected;
};

static double expected_of(const struct tmk_encoding *e) {
    return e->expected.known ? e->expected.sqnr : HUGE_VAL;
}

/* Weights have no histogram there: they come before what is known to cost little. */
static int most_first(const void *a, const void *b) {
    const struct alone *x = a, *y = b;
    const uint32_t i = x->encodings.items->id, j = y->encodings.items->id;
    if (x->expected != y->expected)
        return x->expected < y->expected ? -1 : 1;
    return (i > j) - (i < j);
}

static uint32_t take_apart(const struct tmk_encodings *all, struct alone *out) {
    uint32_t n = 0;
    for (uint32_t i = 0, end = 0; i < all->n_items; i = end) {
        struct alone *one = &out[n++];
        *one = (struct alone){.encodings = *all, .expected = HUGE_VAL};
        for (end = i; end < all->n_items && all->items[end].id == all->items[i].id; end++)
            one->expected = fmin(one->expected, expected_of(&all->items[end]));
        one->encodings.items = &all->items[i];
        one->encodings.n_items = end - i;
        one->encodings.n_requants = 0;
    }
    qsort(out, n, sizeof *out, most_first);
    return n;
}

static int costly_first(const void *a, const void *b) {
    const struct tmk_sensitivity *x = a, *y = b;
    if (x->sqnr != y->sqnr)
        return x->sqnr < y->sqnr ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static enum tmk_status report_losses(const struct alone *apart, const struct tmk_loss *losses,
                                     struct tmk_ranking *out, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < out->n; i++) {
        const struct tmk_encoding *e = apart[i].encodings.items;
        out->values[i] = (struct tmk_sensitivity){
            .id = e->id,
            .name = tmk_arena_strdup(out->arena, e->name),
            .dtype = e->dtype,
            .sqnr = tmk_noise_sqnr(losses[i].noise),
            .expected = apart[i].expected,
        };
        if (!out->values[i].name)
            return tmk_nomem(diag);
        out->samples = losses[i].samples;
    }
    qsort(out->values, out->n, sizeof *out->values, costly_first);
    return TMK_OK;
}

static enum tmk_status rank_groups(const struct tmk_graph *graph,
                                   const struct tmk_encodings *encodings,
                                   const struct tmk_run_options *run, uint32_t most,
                                   struct tmk_ranking *out, struct tmk_diag *diag) {
    const struct tmk_quantize_options how = {.integer = true, .rounding = TMK_ROUNDING_FLOAT_RNE};
    struct alone *apart = tmk_arena_array(out->arena, encodings->n_items, sizeof *apart);
    const struct tmk_encodings **list =
        tmk_arena_array(out->arena, encodings->n_items, sizeof(void *));
    struct tmk_loss *losses = tmk_arena_array(out->arena, encodings->n_items, sizeof *losses);
    out->values = tmk_arena_array(out->arena, encodings->n_items, sizeof *out->values);
    if (!apart || !list || !losses || !out->values)
        return tmk_nomem(diag);
    const uint32_t n = take_apart(encodings, apart);
    out->n = n < most ? n : most;
    out->left_out = n - out->n;
    for (uint32_t i = 0; i < out->n; i++)
        list[i] = &apart[i].encodings;
    struct tmk_judge judge = {.graph = graph, .how = &how, .run = run};
    TMK_TRY(tmk_losses(&judge, list, out->n, losses, diag));
    return report_losses(apart, losses, out, diag);
}

enum tmk_status tmk_model_rank(struct tmk_model *model, const struct tmk_encodings *encodings,
                               const struct tmk_run_options *run, uint32_t most,
                               struct tmk_ranking **out, struct tmk_diag *diag) {
    struct tmk_run_options some = *run;
    struct tmk_graph *graph = NULL;
    struct tmk_ranking *made = calloc(1, sizeof *made);
    if (!made)
        return tmk_nomem(diag);
    some.data.limit = run->data.limit ? run->data.limit : TMK_RANK_SAMPLES;
    some.events.progress = NULL;
    made->arena = calloc(1, sizeof *made->arena);
    enum tmk_status status = made->arena ? TMK_OK : tmk_nomem(diag);
    if (status == TMK_OK)
        status = tmk_original(model, &graph, diag);
    if (status == TMK_OK)
        status = tmk_in(
            diag, rank_groups(graph, encodings, &some, most ? most : TMK_RANK_MAX, made, diag),
            "%s", model->path);
    tmk_graph_destroy(&graph);
    if (status == TMK_OK)
        *out = made;
    else
        tmk_ranking_destroy(&made);
    return status;
}

void tmk_ranking_destroy(struct tmk_ranking **slot) {
    struct tmk_ranking *ranking = slot ? *slot : NULL;
    if (!ranking)
        return;
    *slot = NULL;
    if (ranking->arena)
        tmk_arena_finish(ranking->arena);
    free(ranking->arena);
    free(ranking);
}
