/* SPDX-License-Identifier: Apache-2.0 */
/* What the report shows first. */
#include <stdlib.h>

#include "base/diag.h"
#include "export/report_internal.h"

enum { MOST_NAMED = 20 };

struct warning {
    const char *level, *text;
    struct tmk_json_out ids;
    uint32_t n;
};

static void take_id(struct warning *w, uint32_t id) {
    if (w->n++ < MOST_NAMED)
        tmk_json_put_id(&w->ids, NULL, id);
}

static void put_warning(struct warning *w, struct tmk_json_out *out) {
    struct tmk_json_out one = tmk_json_new_object();
    tmk_json_put_text(&one, "level", w->level);
    tmk_json_put_text(&one, "text", w->text);
    tmk_json_put_u64(&one, "n", w->n);
    tmk_json_put_child(&one, "ids", &w->ids);
    if (w->n)
        tmk_json_put_child(out, NULL, &one);
    else
        cJSON_Delete(one.item);
}

enum { NONFINITE, SENTINEL, SPIKE, SATURATED, DEAD_CHANNELS, DEAD, NEVER, KINDS };

static enum tmk_status check_tensor(const struct tmk_profile_tensor *t, struct warning w[KINDS],
                                    struct tmk_diag *diag) {
    struct tmk_flags flags;
    if (t->status == TMK_PROFILE_NEVER)
        take_id(&w[NEVER], t->id);
    if (t->kind == TMK_PROFILE_WEIGHT || !t->stats)
        return TMK_OK;
    TMK_TRY(tmk_profile_flags(t, &flags, diag));
    if (t->status == TMK_PROFILE_DEAD)
        take_id(&w[DEAD], t->id);
    else if (flags.dead_channels)
        take_id(&w[DEAD_CHANNELS], t->id);
    if (flags.saturated)
        take_id(&w[SATURATED], t->id);
    else if (flags.at_spike)
        take_id(&w[SPIKE], t->id);
    if (flags.min_is || flags.max_is)
        take_id(&w[SENTINEL], t->id);
    return TMK_OK;
}

static enum tmk_status look_for_nonfinite(const struct tmk_profile *profile, struct warning *w,
                                          struct tmk_diag *diag) {
    struct tmk_nonfinite *all;
    uint32_t n;
    TMK_TRY(tmk_profile_nonfinite(profile, &all, &n, diag));
    for (uint32_t i = 0; i < n; i++)
        if (!all[i].n_from)
            take_id(w, all[i].id);
    free(all);
    return TMK_OK;
}

enum tmk_status tmk_report_warnings(const struct tmk_profile *profile, struct tmk_json_out *out,
                                    struct tmk_diag *diag) {
    struct warning w[KINDS] = {
        [NONFINITE] = {"bad", "NaN or infinity begins here"},
        [SENTINEL] = {"bad",
                      "an extreme that looks like a stand-in for something, not like a number "
                      "that was measured"},
        [SPIKE] = {"look", "one number other than 0 is a tenth of the elements, or more"},
        [SATURATED] = {"look",
                       "more than 1 % of the elements are the smallest or the largest number"},
        [DEAD_CHANNELS] = {"look", "channels that were 0 all the time"},
        [DEAD] = {"look", "one and the same number all the time"},
        [NEVER] = {"look", "never seen: its branch did not run, or it was left out"},
    };
    enum tmk_status status = TMK_OK;
    for (int i = 0; i < KINDS; i++)
        w[i].ids = tmk_json_new_array();
    status = look_for_nonfinite(profile, &w[NONFINITE], diag);
    for (uint32_t i = 0; status == TMK_OK && i < profile->n_tensors; i++)
        status = check_tensor(&profile->tensors[i], w, diag);
    for (int i = 0; i < KINDS; i++)
        put_warning(&w[i], out);
    return status;
}
