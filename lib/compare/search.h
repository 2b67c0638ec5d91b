/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the search share. */
#pragma once

#include <cjson/cJSON.h>

#include "base/text.h"
#include "calib/cost.h"
#include "compare/simulate.h"

/* What is lost on the samples that choices are made by, as a share of one: noise of the outputs, or
 * of what Softmax reads where they are its results, unless decibels are the goal; or accuracy, or
 * the user's metric, with a tenth of this noise, so that what loses none of these can be compared.
 */
struct tmk_search_loss {
    double lost, half[2]; /* of all samples, of the first half, of the second */
    double noise;         /* of the outputs */
    double judged;        /* accuracy or metric, NAN: by noise */
    bool at_goal;
};

/* The samples of a run, and where their second half begins. */
struct tmk_search_samples {
    uint64_t first, split, in_half[2];
};

struct tmk_search {
    struct tmk_model *model;
    struct tmk_graph *graph;
    const struct tmk_search_options *options;
    struct tmk_run_options run; /* on the samples that choices are made by */
    struct tmk_run_series *series;
    struct tmk_judge judge; /* by these */
    struct tmk_search_samples samples;
    struct tmk_labels labels;
    double until; /* the time when it ends; 0: never */
    struct tmk_calibrate_options base;
    struct tmk_weight_ranges *known;
    uint32_t budget;               /* tries until the end of the stage at hand */
    cJSON *config;                 /* with the rules that were chosen */
    struct tmk_encodings *current; /* under it */
    struct tmk_search_loss loss;   /* theirs */
    struct tmk_cost cost;
    struct tmk_search_result result;
    struct tmk_text done; /* what was chosen, for the setting */
    struct tmk_diag *diag;
};

/* What values are tried with. */
enum tmk_change {
    TMK_CHANGE_METHOD,
    TMK_CHANGE_16_BITS,
    TMK_CHANGE_FLOAT,
    /* for all values, of what calibrate does without options: what it leaves float; that with its
     * method of activations; that with its method of weights, too */
    TMK_CHANGE_DEFAULT_FLOAT,
    TMK_CHANGE_DEFAULT_METHOD,
    TMK_CHANGE_DEFAULT,
    TMK_CHANGE_BACK /* what unit->as has */
};

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
    uint32_t *ids; /* values: these, each once */
    uint32_t n_ids;
    const struct tmk_encodings *as; /* with TMK_CHANGE_BACK */
};

bool tmk_has_id(const struct tmk_unit *unit, uint32_t id);

/* The search's config, with these rules more, calibrated, becomes list[(*n)++] if the encodings
 * differ from those at hand. A method that the profile has no histogram for is not worth it.
 * TMK_NOMEM. */
enum tmk_status tmk_attempt_add(const struct tmk_search *s, const struct tmk_unit *unit,
                                enum tmk_change change, const char *method,
                                struct tmk_attempt *list, uint32_t *n);
void tmk_attempt_finish(struct tmk_attempt *attempt);
enum tmk_status tmk_search_calibrate(const struct tmk_search *s, const cJSON *config,
                                     struct tmk_encodings **out, struct tmk_diag *diag);
bool tmk_same_encodings(const struct tmk_encodings *a, const struct tmk_encodings *b);
/* Runs encodings over the samples. Where the judge is crossed, *out is one loss. */
enum tmk_status tmk_search_losses(struct tmk_search *s,
                                  const struct tmk_encodings *const *encodings, uint32_t n,
                                  struct tmk_search_loss *out);
/* The loss falls to this part at least, and in both halves: what helps some samples only is fitted
 * to them. */
bool tmk_is_better(const struct tmk_search_loss *loss, const struct tmk_search_loss *than,
                   double part);
/* Decibels that a change has to gain for the share of multiplications that are of 8 bits no more.
 */
double tmk_needed_gain(const struct tmk_search *s, const struct tmk_attempt *a);
/* Of what is lost. */
double tmk_decibels_of(const struct tmk_search_loss *loss);
/* Runs the first of them, as many as the budget has left, and sets their losses; *tried: how many.
 */
enum tmk_status tmk_attempts_run(struct tmk_search *s, struct tmk_attempt *list, uint32_t n,
                                 uint32_t *tried);
/* The attempt becomes what is at hand. */
void tmk_search_take(struct tmk_search *s, struct tmk_attempt *attempt);
/* The attempt becomes what is at hand, and a point of the result; NULL: what is at hand is the
 * first. `of` names what it changes. */
void tmk_attempt_choose(struct tmk_search *s, struct tmk_attempt *attempt, const char *of);
/* The budget of tries or of time is spent; that, or the goal is reached. */
bool tmk_search_is_spent(const struct tmk_search *s);
bool tmk_search_is_over(const struct tmk_search *s);
bool tmk_search_is_late(const struct tmk_search *s);

/* Sets run, judge and samples: choices are made by the samples of `run`. */
enum tmk_status tmk_search_judge_by(struct tmk_search *s, const struct tmk_run_options *run);
/* The labels that options and goal ask for, in the run's data. */
enum tmk_status tmk_search_labels(struct tmk_search *s);
/* Sets the result's figures: of the first encodings and those at hand on the samples of the search,
 * and of both on others. given: the run of the caller. halves: what searches found that had the
 * second half only, and the first half only; NULL: there were none. */
enum tmk_status tmk_search_verdict(struct tmk_search *s, const struct tmk_run_options *given,
                                   const struct tmk_encodings *before,
                                   struct tmk_encodings *const halves[2]);

/* What values with these encodings cost alone, by some of the samples: tmk_rank_within. */
enum tmk_status tmk_search_rank(const struct tmk_search *s, const struct tmk_encodings *encodings,
                                uint32_t most, struct tmk_ranking **out);

/* NULL: it has no encoding. */
const struct tmk_encoding *tmk_search_item(const struct tmk_encodings *e, uint32_t id);
/* The value and those that share its scale in `all`, behind those that unit->ids has; free
 * unit->ids. */
enum tmk_status tmk_search_members(const struct tmk_encodings *all, const struct tmk_encoding *of,
                                   struct tmk_unit *unit, struct tmk_diag *diag);
bool tmk_is_default(enum tmk_change change);
/* What is taken in place of the first one of these, which suits most networks, or in place of what
 * is at hand, has at most this part of the loss. What is less is luck. */
extern const double tmk_default_gain;
/* What calibrate does by default, the changes of that name, all of it first; *n of them differ from
 * what is at hand, and each from the one before. */
enum { TMK_SEARCH_DEFAULTS = TMK_CHANGE_DEFAULT - TMK_CHANGE_DEFAULT_FLOAT + 1 };
enum tmk_status tmk_search_defaults(const struct tmk_search *s,
                                    struct tmk_attempt list[TMK_SEARCH_DEFAULTS], uint32_t *n);
/* Of such an attempt, for people. */
const char *tmk_search_default_name(const struct tmk_attempt *attempt);
/* Where what is worth its cost did not reach the goal: as many values as it takes, those that cost
 * most first, in 16 bits or in float (search_goal.c). */
enum tmk_status tmk_search_goal(struct tmk_search *s);
/* Where the goal is reached: operands of products that had 8 bits in `start` get them again, as
 * long as it still is (search_back.c). */
enum tmk_status tmk_search_back(struct tmk_search *s, const struct tmk_encodings *start);
/* By groups: what stays float by default, patterns, operators, blocks (search_groups.c). */
enum tmk_status tmk_search_groups(struct tmk_search *s);
