/* SPDX-License-Identifier: Apache-2.0 */
/* Free dimensions by their names. */
#include <stdio.h>
#include <string.h>

#include <tidemark/guess.h>

#include "base/diag.h"
#include "feed/internal.h"

enum tmk_status tmk_feed_check_dims(const struct tmk_feed *feed, struct tmk_diag *diag) {
    const struct tmk_data_options *data = feed->data;
    for (size_t d = 0; d < data->n_dims; d++) {
        bool found = false;
        struct tmk_guess guess = {.wanted = data->dims[d].name};
        char meant[TMK_GUESS_SIZE];
        for (uint32_t i = 0; i < feed->graph->n_inputs && !found; i++)
            for (int k = 0; k < feed->graph->inputs[i]->type.shape.rank && !found; k++) {
                const char *symbol = feed->graph->inputs[i]->type.symbol[k];
                found = symbol && strcmp(symbol, data->dims[d].name) == 0;
                if (symbol)
                    tmk_guess_try(&guess, symbol);
            }
        if (!found)
            return tmk_fail(diag, TMK_ARGUMENT, "--dim %s%s: no input has a dimension of this name",
                            data->dims[d].name, tmk_guess_text(&guess, meant));
    }
    return TMK_OK;
}

bool tmk_feed_dim_is(const struct tmk_feed *feed, uint32_t input, const struct tmk_shape *shape,
                     int32_t k, const char *symbol) {
    const struct tmk_type *type = &feed->graph->inputs[input]->type;
    return type->has_shape && type->shape.rank == shape->rank && type->symbol[k] &&
           strcmp(type->symbol[k], symbol) == 0;
}

static enum tmk_status check_given(const struct tmk_feed *feed, const char *symbol,
                                   const struct tmk_value *input, int64_t size,
                                   struct tmk_diag *diag) {
    for (size_t d = 0; d < feed->data->n_dims; d++)
        if (strcmp(feed->data->dims[d].name, symbol) == 0 && feed->data->dims[d].value != size)
            return tmk_fail(diag, TMK_SHAPE, "dimension '%s' is %lld in input '%s', not %lld",
                            symbol, (long long)size, input->name,
                            (long long)feed->data->dims[d].value);
    return TMK_OK;
}

/* Does a tensor use the name for different sizes? Then it is no name, for other tensors too. */
static bool is_anonymous(const struct tmk_feed *feed, const struct tmk_tensor *inputs,
                         const char *symbol) {
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++) {
        const struct tmk_shape *shape = &inputs[i].shape;
        int64_t size = -1;
        for (int32_t k = 0; k < shape->rank; k++) {
            if (!tmk_feed_dim_is(feed, i, shape, k, symbol))
                continue;
            if (size >= 0 && size != shape->dim[k])
                return true;
            size = shape->dim[k];
        }
    }
    return false;
}

static void tell_of(struct tmk_feed *feed, const char *symbol, const struct tmk_value *one,
                    int64_t size, const struct tmk_value *other, int64_t other_size) {
    char text[512];
    feed->reported.dims = true;
    if (!feed->notices.remark)
        return;
    snprintf(text, sizeof text,
             "dimension '%s' is %lld in input '%s' and %lld in '%s'; going on, as long as the "
             "operators take these sizes",
             symbol, (long long)size, one->name, (long long)other_size, other->name);
    feed->notices.remark(feed->notices.context, text);
}

/* The first dimension of this name that has another size, of the inputs before `input`. */
static void compare_dims(struct tmk_feed *feed, const struct tmk_tensor *inputs, uint32_t input,
                         const char *symbol, int64_t size) {
    for (uint32_t i = 0; i < input && !feed->reported.dims; i++)
        for (int32_t k = 0; k < inputs[i].shape.rank && !feed->reported.dims; k++)
            if (tmk_feed_dim_is(feed, i, &inputs[i].shape, k, symbol) &&
                inputs[i].shape.dim[k] != size && !is_anonymous(feed, inputs, symbol))
                tell_of(feed, symbol, feed->graph->inputs[i], inputs[i].shape.dim[k],
                        feed->graph->inputs[input], size);
}

enum tmk_status tmk_feed_check_symbols(struct tmk_feed *feed, const struct tmk_tensor *inputs,
                                       struct tmk_diag *diag) {
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++) {
        const struct tmk_value *input = feed->graph->inputs[i];
        const struct tmk_shape *shape = &inputs[i].shape;
        for (int32_t k = 0; k < shape->rank; k++) {
            const char *symbol = k < input->type.shape.rank ? input->type.symbol[k] : NULL;
            if (!symbol || !tmk_feed_dim_is(feed, i, shape, k, symbol))
                continue;
            TMK_TRY(check_given(feed, symbol, input, shape->dim[k], diag));
            compare_dims(feed, inputs, i, symbol, shape->dim[k]);
        }
    }
    return TMK_OK;
}
