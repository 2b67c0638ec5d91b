/* SPDX-License-Identifier: Apache-2.0 */
#include "session/padding.h"

#include <stdlib.h>
#include <string.h>

#include <tidemark/guess.h>

#include "base/diag.h"
#include "data/role.h"
#include "tensor/number.h"

static enum tmk_status find_mask(const struct tmk_graph *graph, const char *name, uint32_t *out,
                                 struct tmk_diag *diag) {
    struct tmk_guess guess = {.wanted = name};
    char meant[TMK_GUESS_SIZE], text[256];
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const struct tmk_type *type = &graph->inputs[i]->type;
        tmk_guess_try(&guess, graph->inputs[i]->name);
        if (strcmp(graph->inputs[i]->name, name) != 0)
            continue;
        *out = i;
        if (tmk_number_takes(type->dtype) && (!type->has_shape || type->shape.rank == 2))
            return TMK_OK;
        return tmk_fail(diag, TMK_ARGUMENT,
                        "--exclude-padding: '%s' is %s%s; a mask of padding is [batch, length]",
                        name, tmk_dtype_name(type->dtype),
                        tmk_shape_text(&type->shape, text, sizeof text));
    }
    return tmk_fail(diag, TMK_ARGUMENT, "--exclude-padding: the model has no input '%s'%s", name,
                    tmk_guess_text(&guess, meant));
}

/* The axis with the name of the mask's axis `of`; -1: none. */
static int32_t axis_named(const struct tmk_type *type, const struct tmk_type *mask, int32_t of) {
    const char *symbol = mask->has_shape ? mask->symbol[of] : NULL;
    for (int32_t k = 0; symbol && type->has_shape && k < type->shape.rank; k++)
        if (type->symbol[k] && strcmp(type->symbol[k], symbol) == 0)
            return k;
    return -1;
}

/* Tokens and the like are [..., batch, length]; a cache has one free axis beside its first. */
static void seed_by_role(const struct tmk_value *input, struct tmk_position_seed *seed) {
    const struct tmk_type *type = &input->type;
    const struct tmk_source_input what = {input->name, type->dtype, type->has_shape, type->shape};
    const enum tmk_role role = tmk_role_of(&what, false);
    const int32_t rank = type->has_shape ? type->shape.rank : 0;
    int32_t grows = -1, n = 0;
    for (int32_t k = 1; k < rank; k++)
        if (type->shape.dim[k] < 0) {
            grows = k;
            n++;
        }
    if (role == TMK_ROLE_CACHE && n == 1)
        *seed = (struct tmk_position_seed){0, grows, true};
    else if (rank >= 2 &&
             (role == TMK_ROLE_TOKENS || role == TMK_ROLE_POSITIONS || role == TMK_ROLE_TYPES))
        *seed = (struct tmk_position_seed){rank - 2, rank - 1, false};
}

enum tmk_status tmk_padding_seeds(const struct tmk_graph *graph, const char *mask,
                                  struct tmk_position_seed **out, uint32_t *input,
                                  struct tmk_diag *diag) {
    TMK_TRY(find_mask(graph, mask, input, diag));
    const struct tmk_type *type = &graph->inputs[*input]->type;
    struct tmk_position_seed *seeds = calloc(graph->n_inputs, sizeof *seeds);
    TMK_TRY_ALLOC(seeds, diag);
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const struct tmk_type *own = &graph->inputs[i]->type;
        seeds[i] =
            (struct tmk_position_seed){axis_named(own, type, 0), axis_named(own, type, 1), false};
        if (i == *input)
            seeds[i] = (struct tmk_position_seed){0, 1, false};
        else if (seeds[i].prompt < 0 || seeds[i].position < 0)
            seed_by_role(graph->inputs[i], &seeds[i]);
    }
    *out = seeds;
    return TMK_OK;
}
