/* SPDX-License-Identifier: Apache-2.0 */
/* One try of the search: a whole calibration with a few rules more, so that ties, biases and
 * requantizations follow. */
#include <math.h>
#include <stdio.h>

#include "base/diag.h"
#include "calib/config.h"
#include "calib/encodings.h"
#include "compare/search.h"

enum { MOST_AT_ONCE = 16 };
static const double most_noise = 1.05;  /* of all samples, as a part of what it was */
static const double noise_weight = 0.1; /* beside accuracy, or the metric */

enum tmk_status tmk_search_calibrate(const struct tmk_search *s, const cJSON *config,
                                     struct tmk_encodings **out, struct tmk_diag *diag) {
    struct tmk_calibrate_options options = s->base;
    options.config = "search"; /* until the setting says what was given */
    return tmk_calibrate_by(s->options->profile, &options, config, s->known, out, diag);
}

bool tmk_same_encodings(const struct tmk_encodings *a, const struct tmk_encodings *b) {
    bool same = a->n_items == b->n_items;
    for (uint32_t i = 0; same && i < a->n_items; i++)
        same = a->items[i].id == b->items[i].id && a->items[i].n_uses == b->items[i].n_uses &&
               tmk_encoding_same_codes(&a->items[i], &b->items[i]);
    return same;
}

/* 16 bits as the types at hand are: signed or not. */
static const char *wide_type(enum tmk_dtype dtype) {
    return dtype == TMK_UINT8 || dtype == TMK_UINT4 ? "uint16" : "int16";
}

/* `as`: what the value becomes again; NULL: a->change says what. */
static bool add_rule(cJSON *rules, const char *key, const char *value, const char *kind,
                     const struct tmk_attempt *a, enum tmk_dtype dtype,
                     const struct tmk_encoding *as) {
    cJSON *rule = cJSON_CreateObject();
    cJSON *match = rule ? cJSON_AddObjectToObject(rule, "match") : NULL;
    bool ok = match && cJSON_AddStringToObject(match, key, value) &&
              (!kind || cJSON_AddStringToObject(match, "kind", kind));
    if (as)
        ok = ok && cJSON_AddTrueToObject(rule, "quantize") &&
             cJSON_AddStringToObject(rule, "dtype", tmk_dtype_name(as->dtype)) &&
             (!tmk_method_find(as->method) || cJSON_AddStringToObject(rule, "method", as->method));
    else if (a->change == TMK_CHANGE_METHOD)
        ok = ok && cJSON_AddStringToObject(rule, "method", a->what);
    else if (a->change == TMK_CHANGE_16_BITS)
        ok = ok && cJSON_AddStringToObject(rule, "dtype", wide_type(dtype)) &&
             cJSON_AddStringToObject(rule, "method", "minmax"); /* 16 bits need not clip */
    else
        ok = ok && cJSON_AddFalseToObject(rule, "quantize");
    if (!ok || !cJSON_AddItemToArray(rules, rule)) {
        cJSON_Delete(rule);
        return false;
    }
    return true;
}

static enum tmk_dtype type_of(const struct tmk_encodings *all, uint32_t id) {
    const struct tmk_encoding *found = tmk_search_item(all, id);
    return found ? found->dtype : TMK_UINT8;
}

/* A rule before all others, so that what the caller's say of single values holds. */
static bool add_default_method(cJSON *rules, const char *kind) {
    const char *method = (*tmk_method_list())->name;
    cJSON *rule = cJSON_CreateObject();
    cJSON *match = rule ? cJSON_AddObjectToObject(rule, "match") : NULL;
    if (match && cJSON_AddStringToObject(match, "kind", kind) &&
        cJSON_AddStringToObject(rule, "method", method) && cJSON_InsertItemInArray(rules, 0, rule))
        return true;
    cJSON_Delete(rule);
    return false;
}

static bool add_rules(const struct tmk_search *s, const struct tmk_unit *unit,
                      struct tmk_attempt *a) {
    cJSON *rules = cJSON_GetObjectItemCaseSensitive(a->config, "rules");
    const enum tmk_dtype usual = s->base.activations.dtype;
    bool ok = rules != NULL;
    if (tmk_is_default(a->change)) {
        cJSON_DeleteItemFromObjectCaseSensitive(a->config, "sensitive");
        return ok && cJSON_AddStringToObject(a->config, "sensitive", "float") &&
               (a->change < TMK_CHANGE_DEFAULT_METHOD || add_default_method(rules, "activation")) &&
               (a->change < TMK_CHANGE_DEFAULT || add_default_method(rules, "weight"));
    }
    if (unit->key)
        return ok &&
               add_rule(rules, unit->key, unit->name,
                        a->change == TMK_CHANGE_16_BITS ? "activation" : NULL, a, usual, NULL);
    for (uint32_t i = 0; ok && i < unit->n_ids; i++) {
        char id[16];
        snprintf(id, sizeof id, "p%u", unit->ids[i]);
        ok = add_rule(rules, "id", id, NULL, a, type_of(s->current, unit->ids[i]),
                      unit->as ? tmk_search_item(unit->as, unit->ids[i]) : NULL);
    }
    return ok;
}

enum tmk_status tmk_attempt_add(const struct tmk_search *s, const struct tmk_unit *unit,
                                enum tmk_change change, const char *method,
                                struct tmk_attempt *list, uint32_t *n) {
    static const char *const names[] = {
        [TMK_CHANGE_16_BITS] = "16 bits",
        [TMK_CHANGE_FLOAT] = "float",
        [TMK_CHANGE_DEFAULT_FLOAT] = "float",
        [TMK_CHANGE_DEFAULT_METHOD] = "auto",
        [TMK_CHANGE_DEFAULT] = "auto, also of weights",
        [TMK_CHANGE_BACK] = "8 bits",
    };
    struct tmk_diag ignored = {0};
    struct tmk_attempt one = {.change = change, .config = cJSON_Duplicate(s->config, true)};
    snprintf(one.what, sizeof one.what, "%s", method ? method : names[change]);
    if (!one.config || !add_rules(s, unit, &one)) {
        tmk_attempt_finish(&one);
        return tmk_nomem(s->diag);
    }
    enum tmk_status status = tmk_search_calibrate(s, one.config, &one.encodings, &ignored);
    if (status == TMK_OK && !tmk_same_encodings(one.encodings, s->current))
        list[(*n)++] = one;
    else
        tmk_attempt_finish(&one);
    if (status == TMK_INTERRUPTED)
        return tmk_fail(s->diag, status, "%s", ignored.text);
    return status == TMK_NOMEM ? tmk_nomem(s->diag) : TMK_OK;
}

enum tmk_status tmk_search_defaults(const struct tmk_search *s,
                                    struct tmk_attempt list[TMK_SEARCH_DEFAULTS], uint32_t *n) {
    *n = 0;
    for (int i = 0; i < TMK_SEARCH_DEFAULTS; i++) {
        TMK_TRY(tmk_attempt_add(s, NULL, TMK_CHANGE_DEFAULT - i, NULL, list, n));
        if (*n > 1 && tmk_same_encodings(list[*n - 1].encodings, list[*n - 2].encodings))
            tmk_attempt_finish(&list[--*n]);
    }
    return TMK_OK;
}

bool tmk_is_default(enum tmk_change change) {
    return change >= TMK_CHANGE_DEFAULT_FLOAT && change <= TMK_CHANGE_DEFAULT;
}

const char *tmk_search_default_name(const struct tmk_attempt *attempt) {
    return attempt->change == TMK_CHANGE_DEFAULT_FLOAT ? "what stays float by default"
                                                       : "what calibrate does by default";
}

void tmk_attempt_finish(struct tmk_attempt *attempt) {
    cJSON_Delete(attempt->config);
    tmk_encodings_destroy(&attempt->encodings);
    attempt->config = NULL;
}

/* Shares of one; metrics that exceed the float network's lose nothing. */
static double lost_classes(const struct tmk_predictions *p) {
    return p->labelled ? ((double)p->right_left - (double)p->right_right) / (double)p->labelled : 0;
}

static double lost_metric(const struct tmk_judge *judge, double metric) {
    const double scale = fabs(judge->float_metric);
    return (judge->float_metric - metric) / (scale > 0 ? scale : 1);
}

static double joined_loss(double lost, double noise) {
    return fmax(lost, 0) + noise_weight * fmin(noise, 1);
}

static bool is_at_goal(const struct tmk_search *s, const struct tmk_loss *loss, double lost_right) {
    const double value = s->options->goal_value;
    switch (s->options->goal) {
    case TMK_GOAL_SQNR:
        return tmk_noise_sqnr(loss->of_outputs) >= value;
    case TMK_GOAL_ACCURACY:
        return 100 * lost_right <= value + 1e-9;
    case TMK_GOAL_METRIC:
        return 100 * lost_metric(&s->judge, loss->metric) <= value + 1e-9;
    default:
        return false;
    }
}

static struct tmk_search_loss search_loss(const struct tmk_search *s, const struct tmk_loss *loss) {
    struct tmk_predictions all = loss->classes[0];
    struct tmk_search_loss out = {
        .lost = loss->typical, .half = {loss->half[0], loss->half[1]}, .noise = loss->of_outputs};
    tmk_predictions_merge(&all, &loss->classes[1]);
    const double lost_right = lost_classes(&all);
    out.judged = NAN;
    if (s->judge.metric) {
        const double lost = lost_metric(&s->judge, loss->metric);
        out.judged = loss->metric;
        out.lost = joined_loss(lost, loss->typical);
        for (int i = 0; i < 2; i++)
            out.half[i] = joined_loss(lost, loss->half[i]);
    } else if (s->judge.labels) {
        out.judged = all.labelled ? (double)all.right_right / (double)all.labelled : NAN;
        out.lost = joined_loss(lost_right, loss->typical);
        for (int i = 0; i < 2; i++)
            out.half[i] = joined_loss(lost_classes(&loss->classes[i]), loss->half[i]);
    }
    out.at_goal = is_at_goal(s, loss, lost_right);
    return out;
}

enum tmk_status tmk_search_losses(struct tmk_search *s,
                                  const struct tmk_encodings *const *encodings, uint32_t n,
                                  struct tmk_search_loss *out) {
    struct tmk_loss losses[MOST_AT_ONCE];
    TMK_TRY(tmk_losses(&s->judge, encodings, n, losses, s->diag));
    for (uint32_t i = 0; i < (s->judge.crossed ? 1 : n); i++)
        out[i] = search_loss(s, &losses[i]);
    return TMK_OK;
}

bool tmk_is_better(const struct tmk_search_loss *loss, const struct tmk_search_loss *than,
                   double part) {
    return loss->lost < part * than->lost && loss->half[0] <= than->half[0] &&
           loss->half[1] <= than->half[1] && loss->noise <= most_noise * than->noise;
}

double tmk_decibels_of(const struct tmk_search_loss *loss) {
    return tmk_noise_sqnr(loss->lost);
}

enum tmk_status tmk_attempts_run(struct tmk_search *s, struct tmk_attempt *list, uint32_t n,
                                 uint32_t *tried) {
    const uint32_t left = s->budget - s->result.tried;
    const struct tmk_encodings *encodings[MOST_AT_ONCE];
    struct tmk_search_loss losses[MOST_AT_ONCE];
    *tried = n < left ? n : left;
    for (uint32_t i = 0, end; i < *tried; i = end) {
        if (i && tmk_search_is_late(s)) {
            *tried = i;
            break;
        }
        for (end = i; end < *tried && end - i < MOST_AT_ONCE; end++)
            encodings[end - i] = list[end].encodings;
        TMK_TRY(tmk_search_losses(s, encodings, end - i, losses));
        for (uint32_t k = i; k < end; k++) {
            list[k].loss = losses[k - i];
            TMK_TRY(tmk_cost_of(s->options->profile, list[k].encodings, &list[k].cost, s->diag));
        }
    }
    s->result.tried += *tried;
    return TMK_OK;
}

static void add_point(struct tmk_search *s) {
    if (s->result.n_points < TMK_SEARCH_POINTS)
        s->result.points[s->result.n_points++] =
            (struct tmk_search_point){.sqnr = tmk_noise_sqnr(s->loss.noise),
                                      .judged = s->loss.judged,
                                      .bytes = s->cost.bytes,
                                      .share8 = s->cost.share8};
}

void tmk_search_take(struct tmk_search *s, struct tmk_attempt *attempt) {
    cJSON_Delete(s->config);
    tmk_encodings_destroy(&s->current);
    s->config = attempt->config;
    s->current = attempt->encodings;
    s->loss = attempt->loss;
    s->cost = attempt->cost;
    attempt->config = NULL;
    attempt->encodings = NULL;
}

void tmk_attempt_choose(struct tmk_search *s, struct tmk_attempt *attempt, const char *of) {
    char line[400];
    if (!attempt) {
        add_point(s);
        return;
    }
    int len = snprintf(line, sizeof line, "%s: %s; %.2f dB become %.2f", of, attempt->what,
                       tmk_noise_sqnr(s->loss.noise), tmk_noise_sqnr(attempt->loss.noise));
    if (isfinite(attempt->loss.judged) && len > 0 && (size_t)len < sizeof line)
        snprintf(line + len, sizeof line - (size_t)len, ", %s %.4g becomes %.4g",
                 s->judge.metric ? "metric" : "accuracy", s->loss.judged, attempt->loss.judged);
    if (s->options->report)
        s->options->report(s->options->context, line);
    tmk_text_printf(&s->done, "; %s: %s", of, attempt->what);
    tmk_search_take(s, attempt);
    s->result.chosen++;
    add_point(s);
}

bool tmk_search_is_spent(const struct tmk_search *s) {
    return s->result.tried >= s->budget || tmk_search_is_late(s);
}

bool tmk_search_is_over(const struct tmk_search *s) {
    return s->loss.at_goal || tmk_search_is_spent(s);
}
