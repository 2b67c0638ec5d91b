/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the search share. */
#ifndef TMK_COMPARE_SEARCH_H
#define TMK_COMPARE_SEARCH_H

#include "base/text.h"
#include "calib/config.h"
#include "compare/cost.h"
#include "compare/simulate.h"

/* Noise of the outputs on the samples that choices are made by. */
struct tmk_search_loss {
    double noise, half[2]; /* the mean; on the first samples, and on the others */
    uint64_t samples;
};

struct tmk_search {
    struct tmk_model *model;
    struct tmk_graph *graph;
    const struct tmk_search_options *options;
    struct tmk_run_options run; /* on the samples that choices are made by */
    struct tmk_calibrate_options base;
    uint32_t budget;               /* tries until the end of the stage at hand */
    bool any_cost;                 /* the goal is not reached by what is worth its cost */
    cJSON *config;                 /* with the rules that were chosen */
    struct tmk_encodings *current; /* under it */
    struct tmk_search_loss loss;   /* theirs */
    struct tmk_cost cost;
    struct tmk_search_result result;
    struct tmk_text done; /* what was chosen, for the setting */
    struct tmk_diag *diag;
};

/* What values are tried with. */
enum tmk_change { TMK_CHANGE_METHOD, TMK_CHANGE_16_BITS, TMK_CHANGE_FLOAT, TMK_CHANGE_DEFAULT };

/* One change of the encodings at hand. */
struct tmk_attempt {
    enum tmk_change change;
    char what[96]; /* "minmax", "16 bits", "float" */
    cJSON *config;
    struct tmk_encodings *encodings;
    struct tmk_search_loss loss;
    struct tmk_cost cost;
};

/* Which values a change is of: operators by type or pattern, or values by ID. */
struct tmk_unit {
    const char *key; /* "op", "pattern"; NULL: values */
    const char *name;
    uint32_t *ids; /* values: these, ascending */
    uint32_t n_ids;
};

/* The search's config, with these rules more, calibrated. *worth: the encodings differ from those
 * at hand; else there is nothing to be dropped. A method that the profile has no histogram for is
 * not worth it. TMK_NOMEM. */
TMK_NODISCARD enum tmk_status tmk_attempt_init(const struct tmk_search *s,
                                               const struct tmk_unit *unit, enum tmk_change change,
                                               const char *method, struct tmk_attempt *out,
                                               bool *worth);
void tmk_attempt_finish(struct tmk_attempt *attempt);
TMK_NODISCARD enum tmk_status tmk_search_calibrate(const struct tmk_search *s, const cJSON *config,
                                                   struct tmk_encodings **out,
                                                   struct tmk_diag *diag);
bool tmk_same_encodings(const struct tmk_encodings *a, const struct tmk_encodings *b);
/* Runs encodings over the samples. */
TMK_NODISCARD enum tmk_status tmk_search_losses(struct tmk_search *s,
                                                const struct tmk_encodings *const *encodings,
                                                uint32_t n, struct tmk_search_loss *out);
/* Noise falls to this part at least, and in both halves: what helps some samples only is fitted to
 * them. */
bool tmk_is_better(const struct tmk_search_loss *loss, const struct tmk_search_loss *than,
                   double part);
double tmk_decibels_of(const struct tmk_search_loss *loss);
/* Runs the first of them, as many as the budget has left, and sets their losses; *tried: how many.
 */
TMK_NODISCARD enum tmk_status tmk_attempts_run(struct tmk_search *s, struct tmk_attempt *list,
                                               uint32_t n, uint32_t *tried);
/* The attempt becomes what is at hand, and a point of the result; NULL: what is at hand is the
 * first. `of` names what it changes. */
void tmk_attempt_choose(struct tmk_search *s, struct tmk_attempt *attempt, const char *of);
bool tmk_search_is_over(const struct tmk_search *s);

/* By groups: what stays float by default, patterns, operators, blocks (search_groups.c). */
TMK_NODISCARD enum tmk_status tmk_search_groups(struct tmk_search *s);

#endif
