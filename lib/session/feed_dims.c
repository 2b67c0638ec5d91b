/* SPDX-License-Identifier: Apache-2.0 */
/* Free dimensions by their names. */
#include <string.h>

#include "base/diag.h"
#include "session/feed_parts.h"

enum tmk_status tmk_feed_check_dims(const struct tmk_session_feed *feed, struct tmk_diag *diag) {
    const struct tmk_run_options *options = feed->options;
    for (size_t d = 0; d < options->n_dims; d++) {
        bool found = false;
        for (uint32_t i = 0; i < feed->graph->n_inputs && !found; i++)
            for (int k = 0; k < feed->graph->inputs[i]->type.shape.rank && !found; k++) {
                const char *symbol = feed->graph->inputs[i]->type.symbol[k];
                found = symbol && strcmp(symbol, options->dims[d].name) == 0;
            }
        if (!found)
            return tmk_fail(diag, TMK_ARGUMENT, "--dim %s: no input has a dimension of this name",
                            options->dims[d].name);
    }
    return TMK_OK;
}

static enum tmk_status check_given(const struct tmk_session_feed *feed, const char *symbol,
                                   const struct tmk_value *input, int64_t size,
                                   struct tmk_diag *diag) {
    for (size_t d = 0; d < feed->options->n_dims; d++)
        if (strcmp(feed->options->dims[d].name, symbol) == 0 &&
            feed->options->dims[d].value != size)
            return tmk_fail(diag, TMK_SHAPE, "dimension '%s' is %lld in input '%s', not %lld",
                            symbol, (long long)size, input->name,
                            (long long)feed->options->dims[d].value);
    return TMK_OK;
}

struct sized_dim {
    const char *symbol;
    int64_t size;
    const struct tmk_value *input;
};

enum tmk_status tmk_feed_check_symbols(const struct tmk_session_feed *feed,
                                       const struct tmk_tensor *inputs, struct tmk_diag *diag) {
    enum { MOST_SYMBOLS = 64 }; /* distinct names; models have a handful */
    struct sized_dim seen[MOST_SYMBOLS];
    size_t n = 0;
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++) {
        const struct tmk_value *input = feed->graph->inputs[i];
        const struct tmk_shape *shape = &inputs[i].shape;
        if (!input->type.has_shape || input->type.shape.rank != shape->rank)
            continue;
        for (int32_t k = 0; k < shape->rank; k++) {
            const char *symbol = input->type.symbol[k];
            size_t at = 0;
            if (!symbol)
                continue;
            TMK_TRY(check_given(feed, symbol, input, shape->dim[k], diag));
            while (at < n && strcmp(seen[at].symbol, symbol) != 0)
                at++;
            if (at < n && seen[at].size != shape->dim[k])
                return tmk_fail(diag, TMK_SHAPE,
                                "dimension '%s' is %lld in input '%s' and %lld in '%s'", symbol,
                                (long long)seen[at].size, seen[at].input->name,
                                (long long)shape->dim[k], input->name);
            if (at == n && n < MOST_SYMBOLS)
                seen[n++] = (struct sized_dim){symbol, shape->dim[k], input};
        }
    }
    return TMK_OK;
}
