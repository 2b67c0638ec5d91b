/* SPDX-License-Identifier: Apache-2.0 */
/* Better encodings: groups of values first, then the worst offenders, by another method, in 16 bits
 * or in float. */
#include "compare/search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "calib/encodings.h"
#include "calib/weights.h"
#include "session/running.h"
#include "transform/model.h"

enum { MOST_TRIES = 5, PROBED = 4 }; /* of one value; values at a time */
const double tmk_default_gain = 0.9;
static const double method_gain = 0.97, wide_gain = 0.95, float_gain = 0.9;

bool tmk_search_is_late(const struct tmk_search *s) {
    return s->until > 0 && tmk_running_now() >= s->until;
}

/* ---- what the encodings were made with ---- */

/* NULL where there is none, or no key. */
static const char *setting_of(const struct tmk_encodings *e, const char *key) {
    for (uint32_t i = 0; key && i < e->n_settings; i++)
        if (strcmp(e->settings[i].key, key) == 0)
            return e->settings[i].value;
    return NULL;
}

static struct tmk_calibrate_choice choice_of(const struct tmk_encodings *e,
                                             const char *const keys[6]) {
    const char *parameter = setting_of(e, keys[1]), *dtype = setting_of(e, keys[2]);
    return (struct tmk_calibrate_choice){
        .method = setting_of(e, keys[0]),
        .parameter = parameter ? strtod(parameter, NULL) : 0,
        .dtype = dtype ? tmk_dtype_by_name(dtype) : TMK_UNDEFINED,
        .scheme = setting_of(e, keys[3]),
        .scales = setting_of(e, keys[4]),
        .pow2 = setting_of(e, "pow2") != NULL,
        .block = setting_of(e, keys[5]) ? (uint32_t)strtoul(setting_of(e, keys[5]), NULL, 10) : 0,
    };
}

static void find_base(struct tmk_search *s, const struct tmk_encodings *e) {
    static const char *const activation[] = {"method", "percentile", "dtype",
                                             "scheme", "scales",     NULL};
    static const char *const weight[] = {"weights-method", "weights-percentile", "weights-dtype",
                                         "weights-scheme", "weights-scales",     "weights-block"};
    s->base = (struct tmk_calibrate_options){.activations = choice_of(e, activation),
                                             .weights = choice_of(e, weight),
                                             .constant = tmk_model_constant,
                                             .codes = tmk_model_codes,
                                             .model = s->model,
                                             .target = s->options->target,
                                             .rounding = e->rounding,
                                             .pow2_requant = e->pow2_requant,
                                             .stop = tmk_running_stops,
                                             .context = &s->run.events};
}

/* "sensitive" of the encodings becomes the config's, so that tries can change it; former versions
 * wrote none. */
static enum tmk_status read_config(struct tmk_search *s, const struct tmk_encodings *e) {
    const char *sensitive = setting_of(e, "sensitive");
    struct tmk_json_file file;
    if (s->options->config) {
        TMK_TRY(tmk_json_file_open(s->options->config, &file, s->diag));
        s->config = cJSON_Duplicate(file.tree, true);
        tmk_json_file_close(&file);
    } else {
        s->config = cJSON_CreateObject();
    }
    cJSON_DeleteItemFromObjectCaseSensitive(s->config, "sensitive");
    if (s->config && !cJSON_GetObjectItemCaseSensitive(s->config, "rules"))
        (void)cJSON_AddArrayToObject(s->config, "rules");
    return s->config && cJSON_GetObjectItemCaseSensitive(s->config, "rules") &&
                   cJSON_AddStringToObject(s->config, "sensitive",
                                           sensitive ? sensitive : "quantize")
               ? TMK_OK
               : tmk_nomem(s->diag);
}

/* ---- one value, and those that share its scale ---- */

static bool is_member(const struct tmk_encoding *e, const struct tmk_encoding *of) {
    return e->id == of->id || (of->group && e->group == of->group);
}

bool tmk_has_id(const struct tmk_unit *unit, uint32_t id) {
    for (uint32_t i = 0; i < unit->n_ids; i++)
        if (unit->ids[i] == id)
            return true;
    return false;
}

enum tmk_status tmk_search_members(const struct tmk_encodings *all, const struct tmk_encoding *of,
                                   struct tmk_unit *unit, struct tmk_diag *diag) {
    uint32_t *ids = realloc(unit->ids, ((size_t)unit->n_ids + all->n_items + 1) * sizeof *ids);
    TMK_TRY_ALLOC(ids, diag);
    unit->ids = ids;
    for (uint32_t i = 0; i < all->n_items; i++) {
        const struct tmk_encoding *e = &all->items[i];
        if (is_member(e, of) && !tmk_has_id(unit, e->id))
            unit->ids[unit->n_ids++] = e->id;
    }
    return TMK_OK;
}

/* Methods that clip activations are none of them: what a narrow range gains on a few samples others
 * lose. */
static enum tmk_status prepare_all(const struct tmk_search *s, const struct tmk_encoding *of,
                                   const struct tmk_unit *unit, struct tmk_attempt *list,
                                   uint32_t *n) {
    static const char *const methods[] = {"auto", "minmax", "mse", "l4"}; /* the last of weights */
    const size_t of_all = of->role == TMK_ENCODING_WEIGHT && s->base.constant ? 4 : 2;
    for (size_t i = 0; i < of_all; i++)
        if (strcmp(of->method, "given") != 0 && strcmp(methods[i], of->method) != 0)
            TMK_TRY(tmk_attempt_add(s, unit, TMK_CHANGE_METHOD, methods[i], list, n));
    if (tmk_dtype_bits(of->dtype) < 16)
        TMK_TRY(tmk_attempt_add(s, unit, TMK_CHANGE_16_BITS, NULL, list, n));
    return tmk_attempt_add(s, unit, TMK_CHANGE_FLOAT, NULL, list, n);
}

/* Without a goal, multiplications are worth what they are worth to groups. */
static bool is_worth_its_cost(const struct tmk_search *s, const struct tmk_attempt *a) {
    return s->options->goal != TMK_GOAL_NONE ||
           tmk_decibels_of(&a->loss) - tmk_decibels_of(&s->loss) >= tmk_needed_gain(s, a);
}

/* The best of them, if it is good enough for what it costs; NULL: none. */
static struct tmk_attempt *best_of(const struct tmk_search *s, struct tmk_attempt *list,
                                   uint32_t n) {
    const double gains[] = {[TMK_CHANGE_METHOD] = method_gain,
                            [TMK_CHANGE_16_BITS] = wide_gain,
                            [TMK_CHANGE_FLOAT] = float_gain};
    struct tmk_attempt *best = NULL;
    for (int change = TMK_CHANGE_METHOD; change <= TMK_CHANGE_FLOAT; change++) {
        struct tmk_attempt *own = NULL;
        for (uint32_t i = 0; i < n; i++)
            if (list[i].change == (enum tmk_change)change && is_worth_its_cost(s, &list[i]) &&
                (!own || list[i].loss.lost < own->loss.lost))
                own = &list[i];
        const struct tmk_search_loss *least = best ? &best->loss : &s->loss;
        if (own && own->loss.lost < gains[change] * least->lost &&
            tmk_is_better(&own->loss, &s->loss, gains[change]))
            best = own;
    }
    return best;
}

const struct tmk_encoding *tmk_search_item(const struct tmk_encodings *e, uint32_t id) {
    for (uint32_t i = 0; i < e->n_items; i++)
        if (e->items[i].id == id)
            return &e->items[i];
    return NULL;
}

static enum tmk_status try_value(struct tmk_search *s, uint32_t id) {
    const struct tmk_encoding *of = tmk_search_item(s->current, id);
    struct tmk_attempt attempts[MOST_TRIES] = {0};
    struct tmk_unit unit = {.key = NULL};
    uint32_t n = 0, tried = 0;
    char name[300];
    if (!of || of->role == TMK_ENCODING_BIAS)
        return TMK_OK;
    snprintf(name, sizeof name, "p%u '%s'%s", of->id, of->name,
             of->group ? " and what shares its scale" : "");
    enum tmk_status status = tmk_search_members(s->current, of, &unit, s->diag);
    TMK_THEN(status, prepare_all(s, of, &unit, attempts, &n));
    TMK_THEN(status, tmk_attempts_run(s, attempts, n, &tried));
    struct tmk_attempt *best = status == TMK_OK ? best_of(s, attempts, tried) : NULL;
    if (best)
        tmk_attempt_choose(s, best, name);
    for (uint32_t i = 0; i < n; i++)
        tmk_attempt_finish(&attempts[i]);
    free(unit.ids);
    return status;
}

/* What these values would gain in float, each alone: no other change of theirs gains much more. */
static enum tmk_status probe_values(struct tmk_search *s, const struct tmk_sensitivity *values,
                                    uint32_t n, bool gains[PROBED]) {
    struct tmk_attempt attempts[PROBED] = {0};
    uint32_t of[PROBED], n_attempts = 0, tried = 0;
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; status == TMK_OK && i < n; i++) {
        const struct tmk_encoding *e = tmk_search_item(s->current, values[i].id);
        struct tmk_unit unit = {0};
        gains[i] = false;
        if (!e || e->role == TMK_ENCODING_BIAS)
            continue;
        of[n_attempts] = i; /* if it is worth it */
        status = tmk_search_members(s->current, e, &unit, s->diag);
        TMK_THEN(status, tmk_attempt_add(s, &unit, TMK_CHANGE_FLOAT, NULL, attempts, &n_attempts));
        free(unit.ids);
    }
    TMK_THEN(status, tmk_attempts_run(s, attempts, n_attempts, &tried));
    for (uint32_t i = 0; i < n_attempts; i++) {
        gains[of[i]] = i < tried && attempts[i].loss.lost < method_gain * s->loss.lost;
        tmk_attempt_finish(&attempts[i]);
    }
    return status;
}

enum tmk_status tmk_search_rank(const struct tmk_search *s, const struct tmk_encodings *encodings,
                                uint32_t most, struct tmk_ranking **out) {
    struct tmk_run_options run = s->run;
    run.data.limit = run.data.limit < TMK_RANK_SAMPLES ? run.data.limit : TMK_RANK_SAMPLES;
    return tmk_rank_within(s->model, encodings, &run, most, s->series, out, s->diag);
}

/* All values once, the worst first. */
static enum tmk_status sweep_values(struct tmk_search *s) {
    struct tmk_ranking *ranking = NULL;
    TMK_TRY(tmk_search_rank(s, s->current, 0, &ranking));
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; status == TMK_OK && i < ranking->n && !tmk_search_is_over(s);
         i += PROBED) {
        const uint32_t n = ranking->n - i < PROBED ? ranking->n - i : PROBED;
        bool gains[PROBED];
        status = probe_values(s, &ranking->values[i], n, gains);
        for (uint32_t k = 0; status == TMK_OK && k < n && !tmk_search_is_over(s); k++)
            if (gains[k])
                status = try_value(s, ranking->values[i + k].id);
    }
    tmk_ranking_destroy(&ranking);
    return status;
}

/* Until nothing is chosen any more: what one value gains depends on the others. */
static enum tmk_status search_values(struct tmk_search *s) {
    uint32_t chosen;
    do {
        chosen = s->result.chosen;
        TMK_TRY(sweep_values(s));
    } while (s->result.chosen > chosen && !tmk_search_is_over(s));
    return TMK_OK;
}

/* ---- all of it ---- */

/* From the config at hand, which makes `start`. */
static enum tmk_status run_stages(struct tmk_search *s, const struct tmk_encodings *start) {
    const struct tmk_encodings *one = s->current;
    const uint32_t budget = s->options->budget;
    const bool goal = s->options->goal != TMK_GOAL_NONE;
    TMK_TRY(tmk_search_losses(s, &one, 1, &s->loss));
    TMK_TRY(tmk_cost_of(s->options->profile, s->current, &s->cost, s->diag));
    s->budget = (budget + 1) / 2;
    tmk_attempt_choose(s, NULL, NULL);
    if (!tmk_search_is_over(s))
        TMK_TRY(tmk_search_groups(s));
    s->budget = goal ? budget - budget / 4 : budget;
    if (!tmk_search_is_over(s))
        TMK_TRY(search_values(s));
    s->budget = budget;
    if (goal && !tmk_search_is_over(s))
        TMK_TRY(tmk_search_goal(s));
    if (goal && s->loss.at_goal)
        TMK_TRY(tmk_search_back(s, start));
    s->result.out_of_time = tmk_search_is_late(s);
    return TMK_OK;
}

static enum tmk_status search_stages(struct tmk_search *s) {
    struct tmk_encodings *start = NULL;
    TMK_TRY(tmk_search_calibrate(s, s->config, &start, s->diag));
    const enum tmk_status status = run_stages(s, start);
    tmk_encodings_destroy(&start);
    return status;
}

/* The same search, that has one half of the samples only. */
static enum tmk_status search_half(const struct tmk_search *all, int half, double until,
                                   struct tmk_encodings **out) {
    struct tmk_search_options options = *all->options;
    struct tmk_search s = *all;
    struct tmk_run_options run = all->run;
    char line[160];
    options.report = NULL;
    s.options = &options;
    s.until = until;
    s.done = (struct tmk_text){0};
    s.current = NULL;
    s.config = cJSON_Duplicate(all->config, true);
    run.data.skip = half ? all->samples.split : all->samples.first;
    run.data.limit = all->samples.in_half[half];
    enum tmk_status status = s.config ? tmk_search_judge_by(&s, &run) : tmk_nomem(s.diag);
    TMK_THEN(status, tmk_search_calibrate(&s, s.config, &s.current, s.diag));
    TMK_THEN(status, search_stages(&s));
    if (status == TMK_OK && all->options->report) {
        snprintf(line, sizeof line,
                 "by the %s half of the samples alone: %u changes, %.2f dB there",
                 half ? "second" : "first", s.result.chosen, tmk_noise_sqnr(s.loss.noise));
        all->options->report(all->options->context, line);
    }
    *out = s.current;
    cJSON_Delete(s.config);
    tmk_text_finish(&s.done);
    return status;
}

/* Each half of the samples is judged by what the other alone would have chosen. */
static enum tmk_status search_halves(struct tmk_search *s, struct tmk_encodings *found[2]) {
    const double now = tmk_running_now(), quarter = (s->until - now) / 4;
    for (int i = 0; i < 2; i++)
        TMK_TRY(search_half(s, 1 - i, s->until > 0 ? now + (i + 1) * quarter : 0, &found[i]));
    return TMK_OK;
}

static enum tmk_status open_search(struct tmk_search *s, const struct tmk_encodings *encodings) {
    TMK_TRY(tmk_original(s->model, &s->graph, s->diag));
    tmk_graph_number(s->graph);
    find_base(s, encodings);
    TMK_TRY(read_config(s, encodings));
    TMK_TRY(tmk_search_calibrate(s, s->config, &s->current, s->diag));
    if (!tmk_same_encodings(s->current, encodings)) {
        tmk_encodings_destroy(&s->current);
        s->base.constant = NULL; /* they may have been made without the weights */
        TMK_TRY(tmk_search_calibrate(s, s->config, &s->current, s->diag));
    }
    if (!tmk_same_encodings(s->current, encodings))
        return tmk_fail(s->diag, TMK_MISMATCH,
                        "the profile makes other encodings than these; were they made with another "
                        "profile, or a config (--config)?");
    TMK_TRY(tmk_search_labels(s));
    const struct tmk_run_options run = s->run;
    return tmk_search_judge_by(s, &run);
}

enum { FEWEST_HALVED = 4 }; /* samples */

/* The best of what calibrate makes: of the config at hand, and by default. Nothing is chosen by
 * samples but this. */
static enum tmk_status find_unsearched(struct tmk_search *s, struct tmk_attempt *out) {
    enum { MOST = 1 + TMK_SEARCH_DEFAULTS };
    struct tmk_attempt list[MOST] = {{.config = cJSON_Duplicate(s->config, true)}};
    const struct tmk_encodings *all[MOST];
    struct tmk_search_loss losses[MOST];
    uint32_t more = 0, best = 0;
    enum tmk_status status = list[0].config ? TMK_OK : tmk_nomem(s->diag);
    TMK_THEN(status, tmk_search_calibrate(s, list[0].config, &list[0].encodings, s->diag));
    TMK_THEN(status, tmk_search_defaults(s, &list[1], &more));
    for (uint32_t i = 0; i <= more; i++)
        all[i] = list[i].encodings;
    TMK_THEN(status, tmk_search_losses(s, all, 1 + more, losses));
    for (uint32_t i = 0; status == TMK_OK && i <= more; i++) {
        list[i].loss = losses[i];
        if (tmk_is_better(&losses[i], &losses[best], tmk_default_gain))
            best = i;
    }
    for (uint32_t i = 0; i <= more; i++)
        if (status != TMK_OK || i != best)
            tmk_attempt_finish(&list[i]);
    *out = list[best];
    return status;
}

/* Without a goal, changes that lose on samples that they were not chosen by are dropped: *kept. */
static enum tmk_status keep_unsearched(struct tmk_search *s, struct tmk_attempt *unsearched,
                                       struct tmk_encodings *const halves[2], bool *kept) {
    const struct tmk_encodings *const both[] = {halves[0], halves[1]};
    struct tmk_search_result *result = &s->result;
    struct tmk_search_loss crossed;
    char line[160];
    s->judge.crossed = true;
    TMK_TRY(tmk_search_losses(s, both, 2, &crossed));
    s->judge.crossed = false;
    *kept = crossed.lost > unsearched->loss.lost ||
            (isnan(crossed.judged) && crossed.noise > unsearched->loss.noise);
    if (!*kept)
        return TMK_OK;
    snprintf(line, sizeof line,
             "%u changes dropped: %.2f dB on samples they were not chosen by, %.2f without them",
             result->chosen, tmk_noise_sqnr(crossed.noise), tmk_noise_sqnr(unsearched->loss.noise));
    if (s->options->report)
        s->options->report(s->options->context, line);
    tmk_text_finish(&s->done);
    tmk_text_printf(&s->done, "; %s", line);
    TMK_TRY(tmk_cost_of(s->options->profile, unsearched->encodings, &unsearched->cost, s->diag));
    result->chosen = tmk_is_default(unsearched->change);
    result->n_points = 1;
    tmk_search_take(s, unsearched);
    if (result->chosen) {
        tmk_text_printf(&s->done, "; %s: %s", tmk_search_default_name(unsearched),
                        unsearched->what);
        tmk_attempt_choose(s, NULL, NULL);
    }
    return TMK_OK;
}

static enum tmk_status search_all(struct tmk_search *s, const struct tmk_encodings *encodings,
                                  const struct tmk_run_options *given) {
    struct tmk_encodings *halves[2] = {NULL, NULL};
    TMK_TRY(open_search(s, encodings));
    const bool to_goal = s->options->goal != TMK_GOAL_NONE, apart = s->options->n_search_data > 0;
    const bool halved = !(apart && to_goal) &&
                        s->samples.in_half[0] + s->samples.in_half[1] >= FEWEST_HALVED &&
                        s->samples.in_half[1];
    struct tmk_attempt unsearched = {.config = NULL};
    bool kept = false;
    enum tmk_status status = halved ? search_halves(s, halves) : TMK_OK;
    if (status == TMK_OK && halved && !to_goal && !tmk_search_is_late(s))
        status = find_unsearched(s, &unsearched);
    TMK_THEN(status, search_stages(s));
    if (status == TMK_OK && unsearched.encodings)
        status = keep_unsearched(s, &unsearched, halves, &kept);
    if (status == TMK_OK) {
        struct tmk_encodings *const same[] = {s->current, s->current};
        status = tmk_search_verdict(s, given, encodings, kept ? same : halved ? halves : NULL);
    }
    tmk_attempt_finish(&unsearched);
    for (int i = 0; i < 2; i++)
        tmk_encodings_destroy(&halves[i]);
    return status;
}

/* What options of calibrate said, so that the config says all. */
static bool add_defaults(cJSON *defaults, const char *kind,
                         const struct tmk_calibrate_choice *choice) {
    cJSON *own = cJSON_CreateObject();
    cJSON_DeleteItemFromObjectCaseSensitive(defaults, kind);
    if (!own || !cJSON_AddItemToObject(defaults, kind, own)) {
        cJSON_Delete(own);
        return false;
    }
    return (!choice->method || cJSON_AddStringToObject(own, "method", choice->method)) &&
           (choice->dtype == TMK_UNDEFINED ||
            cJSON_AddStringToObject(own, "dtype", tmk_dtype_name(choice->dtype))) &&
           (!choice->scheme || cJSON_AddStringToObject(own, "scheme", choice->scheme)) &&
           (!choice->scales || cJSON_AddBoolToObject(own, "per_channel", *choice->scales == 'c')) &&
           (!choice->pow2 || cJSON_AddTrueToObject(own, "pow2")) &&
           (!choice->block || cJSON_AddNumberToObject(own, "block", choice->block)) &&
           (!(choice->parameter > 0) ||
            cJSON_AddNumberToObject(own, "percentile", choice->parameter));
}

static enum tmk_status write_config(const struct tmk_search *s) {
    if (!s->options->write_config)
        return TMK_OK;
    TMK_TRY(tmk_check_ending(s->options->write_config, "json yaml yml", s->diag));
    cJSON *defaults = cJSON_GetObjectItemCaseSensitive(s->config, "defaults");
    if (!defaults)
        defaults = cJSON_AddObjectToObject(s->config, "defaults");
    char *text = defaults && add_defaults(defaults, "activation", &s->base.activations) &&
                         add_defaults(defaults, "weight", &s->base.weights)
                     ? cJSON_Print(s->config)
                     : NULL;
    TMK_TRY_ALLOC(text, s->diag);
    const enum tmk_status status =
        tmk_file_write(s->options->write_config, text, strlen(text), s->diag);
    cJSON_free(text);
    return status;
}

/* "search" tells what was done, and "config" is the one that was given. */
static enum tmk_status add_setting(struct tmk_search *s) {
    struct tmk_encodings *e = s->current;
    struct tmk_encodings_setting *list = tmk_encodings_make(e, e->n_settings + 1, sizeof *list);
    const char *config = s->options->config ? tmk_base_name(s->options->config) : NULL;
    struct tmk_text all = {0};
    uint32_t n = 0;
    tmk_text_printf(&all, "%u tried on %llu samples, %.2f dB became %.2f", s->result.tried,
                    (unsigned long long)s->result.samples, s->result.before.sqnr,
                    s->result.after.sqnr);
    if (s->done.data)
        tmk_text_puts(&all, s->done.data);
    for (uint32_t i = 0; list && i < e->n_settings; i++) {
        struct tmk_encodings_setting one = e->settings[i];
        if (strcmp(one.key, "config") == 0)
            one.value = config ? tmk_encodings_text(e, config) : NULL;
        if (one.value)
            list[n++] = one;
    }
    if (list && all.data)
        list[n++] = (struct tmk_encodings_setting){"search", tmk_encodings_text(e, all.data)};
    const bool failed = !list || all.failed || s->done.failed || !list[n - 1].value;
    tmk_text_finish(&all);
    if (failed)
        return tmk_nomem(s->diag);
    e->settings = list;
    e->n_settings = n;
    return TMK_OK;
}

enum tmk_status tmk_model_search(struct tmk_model *model, const struct tmk_encodings *encodings,
                                 const struct tmk_run_options *run,
                                 const struct tmk_search_options *options,
                                 struct tmk_encodings **out, struct tmk_search_result *result,
                                 struct tmk_diag *diag) {
    struct tmk_search_options given = *options;
    struct tmk_run_series series = {.runs = 0};
    struct tmk_search s = {
        .model = model, .options = &given, .run = *run, .series = &series, .diag = diag};
    given.budget = options->budget ? options->budget : TMK_SEARCH_BUDGET;
    s.run.data.limit = run->data.limit ? run->data.limit : TMK_SEARCH_SAMPLES;
    s.until = options->seconds > 0 ? tmk_running_now() + options->seconds : 0;
    if (options->n_search_data) {
        s.run.data.sources = options->search_data;
        s.run.data.n_sources = options->n_search_data;
    }
    TMK_TRY(tmk_data_can_repeat(&run->data, diag));
    TMK_TRY(tmk_data_can_repeat(&s.run.data, diag));
    s.known = tmk_weight_ranges_create();
    TMK_TRY_ALLOC(s.known, diag);
    enum tmk_status status = search_all(&s, encodings, run);
    TMK_THEN(status, add_setting(&s));
    TMK_THEN(status, write_config(&s));
    if (status == TMK_OK) {
        *out = s.current;
        *result = s.result;
    } else {
        tmk_encodings_destroy(&s.current);
    }
    cJSON_Delete(s.config);
    tmk_weight_ranges_destroy(&s.known);
    tmk_text_finish(&s.done);
    tmk_labels_finish(&s.labels);
    tmk_graph_destroy(&s.graph);
    return status;
}
