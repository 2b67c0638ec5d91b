/* SPDX-License-Identifier: Apache-2.0 */
/* A model's profile before anything ran. */
#include <stdlib.h>

#include "base/diag.h"
#include "graph/rewrite.h"
#include "plan/build.h"
#include "session/describe.h"
#include "session/record.h"

struct weights {
    struct tmk_observer *observers;
    struct tmk_slot_config *configs;
    struct tmk_account *accounts;
    uint32_t n;
};

static bool is_counted(enum tmk_dtype dtype) {
    return dtype == TMK_FLOAT32 || tmk_int_stats_supports(dtype);
}

/* As a run does: an initializer is there once, whatever runs. */
static enum tmk_status count_weight(struct weights *w, const struct tmk_value *value,
                                    struct tmk_diag *diag) {
    const struct tmk_stats_at at = {0, 1, tmk_weight_axis(value), false, 0};
    if (value->kind != TMK_VALUE_INITIALIZER || !is_counted(value->data.dtype))
        return TMK_OK;
    w->observers[w->n].profile_id = value->profile_id;
    w->configs[w->n].level = TMK_STATS_HISTOGRAM;
    w->configs[w->n].label = value->name;
    uint32_t i = w->n++;
    return tmk_account_look(&w->accounts[i], &w->configs[i], &value->data, &at, diag);
}

static enum tmk_status count_weights(struct tmk_graph *graph, struct weights *w,
                                     struct tmk_diag *diag) {
    struct tmk_by_id values;
    TMK_TRY(tmk_by_id_init(&values, graph, diag));
    w->observers = calloc(values.n + 1, sizeof *w->observers);
    w->configs = calloc(values.n + 1, sizeof *w->configs);
    w->accounts = calloc(values.n + 1, sizeof *w->accounts);
    enum tmk_status status = w->observers && w->configs && w->accounts ? TMK_OK : tmk_nomem(diag);
    for (size_t i = 0; status == TMK_OK && i < values.n; i++)
        if (values.values[i])
            status = count_weight(w, values.values[i], diag);
    tmk_by_id_finish(&values);
    return status;
}

static enum tmk_status fill_profile(struct tmk_profile *profile, const struct tmk_model *model,
                                    struct tmk_graph *graph, struct tmk_diag *diag) {
    struct weights w = {0};
    TMK_TRY(tmk_describe_model(profile, model, graph, diag));
    enum tmk_status status = count_weights(graph, &w, diag);
    if (status == TMK_OK) {
        const struct tmk_observed observed = {w.observers, w.configs, w.accounts, w.n};
        status = tmk_record_values(profile, graph, &observed, diag);
    }
    for (uint32_t i = 0; w.accounts && i < w.n; i++)
        tmk_account_finish(&w.accounts[i]);
    free(w.accounts);
    free(w.configs);
    free(w.observers);
    return status;
}

enum tmk_status tmk_model_skeleton(const struct tmk_model *model, struct tmk_profile **out,
                                   struct tmk_diag *diag) {
    struct tmk_graph *graph = NULL;
    struct tmk_profile *profile = NULL;
    TMK_TRY(tmk_original(model, &graph, diag));
    enum tmk_status status = tmk_profile_create(&profile, diag);
    if (status == TMK_OK)
        status = fill_profile(profile, model, graph, diag);
    tmk_graph_destroy(&graph);
    if (status == TMK_OK)
        *out = profile;
    else
        tmk_profile_destroy(&profile);
    return status;
}
