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
#include "calib/json_file.h"
#include "transform/model.h"

enum { MOST_TRIES = 16 }; /* of one value */
static const double method_gain = 0.97, wide_gain = 0.95, float_gain = 0.9;

/* ---- what the encodings were made with ---- */

static const char *setting_of(const struct tmk_encodings *e, const char *key) {
    for (uint32_t i = 0; i < e->n_settings; i++)
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
        .block = keys[5] && setting_of(e, keys[5])
                     ? (uint32_t)strtoul(setting_of(e, keys[5]), NULL, 10)
                     : 0,
    };
}

/* Were the weights' own numbers looked at? Ranges that a histogram gave have an expected error. */
static bool knew_weights(const struct tmk_encodings *e) {
    for (uint32_t i = 0; i < e->n_items; i++) {
        const struct tmk_encoding *item = &e->items[i];
        if (item->role == TMK_ENCODING_WEIGHT && !item->expected.known &&
            (item->block || strcmp(item->method, "mse") == 0 || strcmp(item->method, "l4") == 0))
            return true;
    }
    return false;
}

static void find_base(struct tmk_search *s, const struct tmk_encodings *e) {
    static const char *const activation[] = {"method", "percentile", "dtype",
                                             "scheme", "scales",     NULL};
    static const char *const weight[] = {"weights-method", "weights-percentile", "weights-dtype",
                                         "weights-scheme", "weights-scales",     "weights-block"};
    s->base =
        (struct tmk_calibrate_options){.activations = choice_of(e, activation),
                                       .weights = choice_of(e, weight),
                                       .constant = knew_weights(e) ? tmk_model_constant : NULL,
                                       .model = s->model,
                                       .target = s->options->target,
                                       .rounding = e->rounding,
                                       .pow2_requant = e->pow2_requant};
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

static enum tmk_status find_members(const struct tmk_search *s, const struct tmk_encoding *of,
                                    struct tmk_unit *unit) {
    *unit = (struct tmk_unit){.ids = malloc(((size_t)s->current->n_items + 1) * sizeof(uint32_t))};
    if (!unit->ids)
        return tmk_nomem(s->diag);
    for (uint32_t i = 0; i < s->current->n_items; i++) {
        const struct tmk_encoding *e = &s->current->items[i];
        if (is_member(e, of) && (!unit->n_ids || unit->ids[unit->n_ids - 1] != e->id))
            unit->ids[unit->n_ids++] = e->id;
    }
    return TMK_OK;
}

static enum tmk_status prepare_all(const struct tmk_search *s, const struct tmk_encoding *of,
                                   const struct tmk_unit *unit, struct tmk_attempt *list,
                                   uint32_t *n) {
    const bool given = strcmp(of->method, "given") == 0;
    const char *name, *help;
    bool worth;
    for (size_t i = 0; tmk_calibrate_method(i, &name, &help) && *n + 2 < MOST_TRIES; i++) {
        if (given || strcmp(name, of->method) == 0 || strcmp(name, "moving-average") == 0)
            continue;
        TMK_TRY(tmk_attempt_init(s, unit, TMK_CHANGE_METHOD, name, &list[*n], &worth));
        *n += worth;
    }
    if (tmk_dtype_bits(of->dtype) < 16) {
        TMK_TRY(tmk_attempt_init(s, unit, TMK_CHANGE_16_BITS, NULL, &list[*n], &worth));
        *n += worth;
    }
    TMK_TRY(tmk_attempt_init(s, unit, TMK_CHANGE_FLOAT, NULL, &list[*n], &worth));
    *n += worth;
    return TMK_OK;
}

/* The best of them, if it is good enough for what it costs; NULL: none. */
static struct tmk_attempt *best_of(const struct tmk_search *s, struct tmk_attempt *list,
                                   uint32_t n) {
    const double gains[] = {[TMK_CHANGE_METHOD] = method_gain,
                            [TMK_CHANGE_16_BITS] = s->any_cost ? method_gain : wide_gain,
                            [TMK_CHANGE_FLOAT] = s->any_cost ? method_gain : float_gain};
    struct tmk_attempt *best = NULL;
    for (int change = TMK_CHANGE_METHOD; change <= TMK_CHANGE_FLOAT; change++) {
        struct tmk_attempt *own = NULL;
        for (uint32_t i = 0; i < n; i++)
            if (list[i].change == (enum tmk_change)change &&
                (!own || list[i].loss.noise < own->loss.noise))
                own = &list[i];
        const struct tmk_search_loss *least = best ? &best->loss : &s->loss;
        if (own && own->loss.noise < gains[change] * least->noise &&
            tmk_is_better(&own->loss, &s->loss, gains[change]))
            best = own;
    }
    return best;
}

static const struct tmk_encoding *find_item(const struct tmk_encodings *e, uint32_t id) {
    for (uint32_t i = 0; i < e->n_items; i++)
        if (e->items[i].id == id)
            return &e->items[i];
    return NULL;
}

static enum tmk_status try_value(struct tmk_search *s, uint32_t id) {
    const struct tmk_encoding *of = find_item(s->current, id);
    struct tmk_attempt attempts[MOST_TRIES] = {0};
    struct tmk_unit unit;
    uint32_t n = 0, tried = 0;
    char name[300];
    if (!of || of->role == TMK_ENCODING_BIAS)
        return TMK_OK;
    snprintf(name, sizeof name, "p%u '%s'%s", of->id, of->name,
             of->group ? " and what shares its scale" : "");
    enum tmk_status status = find_members(s, of, &unit);
    if (status == TMK_OK)
        status = prepare_all(s, of, &unit, attempts, &n);
    if (status == TMK_OK)
        status = tmk_attempts_run(s, attempts, n, &tried);
    struct tmk_attempt *best = status == TMK_OK ? best_of(s, attempts, tried) : NULL;
    if (best)
        tmk_attempt_choose(s, best, name);
    for (uint32_t i = 0; i < n; i++)
        tmk_attempt_finish(&attempts[i]);
    free(unit.ids);
    return status;
}

/* All values once, the worst first. */
static enum tmk_status sweep_values(struct tmk_search *s) {
    struct tmk_ranking *ranking = NULL;
    struct tmk_run_options run = s->run;
    run.data.limit = run.data.limit < TMK_RANK_SAMPLES ? run.data.limit : TMK_RANK_SAMPLES;
    TMK_TRY(tmk_model_rank(s->model, s->current, &run, 0, &ranking, s->diag));
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; status == TMK_OK && i < ranking->n && !tmk_search_is_over(s); i++)
        status = try_value(s, ranking->values[i].id);
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

/* ---- samples that nothing was chosen by ---- */

/* The samples behind those of the search, or with search_data all data, up to as many. Where there
 * are none, judged stays 0. */
static enum tmk_status judge_result(struct tmk_search *s, const struct tmk_run_options *given,
                                    const struct tmk_encodings *before) {
    const struct tmk_quantize_options how = {0};
    const struct tmk_encodings *list[] = {before, s->current};
    struct tmk_loss losses[2];
    struct tmk_diag ignored = {0};
    struct tmk_run_options run = *given;
    run.events.progress = NULL;
    run.data.limit = s->run.data.limit;
    if (!s->options->n_search_data)
        run.data.skip += s->result.samples;
    const enum tmk_status status = tmk_losses(s->graph, list, 2, &how, &run, losses, &ignored);
    if (status == TMK_ARGUMENT && !s->options->n_search_data)
        return TMK_OK; /* none are left */
    if (status != TMK_OK) {
        *s->diag = ignored;
        return status;
    }
    s->result.judged = losses[0].samples;
    s->result.judged_from = run.data.skip;
    s->result.judged_before = tmk_loss_sqnr(&losses[0]);
    s->result.judged_after = tmk_loss_sqnr(&losses[1]);
    return TMK_OK;
}

/* ---- all of it ---- */

/* Both halves of the samples together, as the table of `simulate` has them. */
static enum tmk_status sum_up(struct tmk_search *s, const struct tmk_encodings *before) {
    const struct tmk_quantize_options how = {0};
    const struct tmk_encodings *list[] = {before, s->current};
    struct tmk_loss losses[2];
    TMK_TRY(tmk_losses(s->graph, list, 2, &how, &s->run, losses, s->diag));
    s->result.before = tmk_loss_sqnr(&losses[0]);
    s->result.after = tmk_loss_sqnr(&losses[1]);
    return TMK_OK;
}

static enum tmk_status search_all(struct tmk_search *s, const struct tmk_encodings *encodings,
                                  const struct tmk_run_options *given) {
    const struct tmk_encodings *one;
    TMK_TRY(tmk_original(s->model, &s->graph, s->diag));
    find_base(s, encodings);
    TMK_TRY(read_config(s, encodings));
    TMK_TRY(tmk_search_calibrate(s, s->config, &s->current, s->diag));
    if (!tmk_same_encodings(s->current, encodings))
        return tmk_fail(s->diag, TMK_MISMATCH,
                        "the profile makes other encodings than these; were they made with another "
                        "profile, or a config (--config)?");
    one = s->current;
    TMK_TRY(tmk_search_losses(s, &one, 1, &s->loss));
    s->result.samples = s->loss.samples;
    TMK_TRY(tmk_cost_of(s->options->profile, s->current, &s->cost, s->diag));
    tmk_attempt_choose(s, NULL, NULL);
    s->budget = (s->options->budget + 1) / 2;
    if (!tmk_search_is_over(s))
        TMK_TRY(tmk_search_groups(s));
    s->budget =
        s->options->goal > 0 ? s->options->budget - s->options->budget / 4 : s->options->budget;
    if (!tmk_search_is_over(s))
        TMK_TRY(search_values(s));
    s->budget = s->options->budget;
    s->any_cost = s->options->goal > 0;
    if (s->any_cost && !tmk_search_is_over(s))
        TMK_TRY(search_values(s));
    if (s->any_cost && !tmk_search_is_over(s))
        TMK_TRY(tmk_search_groups(s));
    TMK_TRY(sum_up(s, encodings));
    return judge_result(s, given, encodings);
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
    cJSON *defaults = cJSON_GetObjectItemCaseSensitive(s->config, "defaults");
    if (!defaults)
        defaults = cJSON_AddObjectToObject(s->config, "defaults");
    char *text = defaults && add_defaults(defaults, "activation", &s->base.activations) &&
                         add_defaults(defaults, "weight", &s->base.weights)
                     ? cJSON_Print(s->config)
                     : NULL;
    if (!text)
        return tmk_nomem(s->diag);
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
    char text[160];
    uint32_t n = 0;
    snprintf(text, sizeof text, "%u tried on %llu samples, %.2f dB became %.2f", s->result.tried,
             (unsigned long long)s->result.samples, s->result.before, s->result.after);
    struct tmk_text all = {0};
    tmk_text_puts(&all, text);
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
    struct tmk_search s = {.model = model, .options = &given, .run = *run, .diag = diag};
    given.budget = options->budget ? options->budget : TMK_SEARCH_BUDGET;
    s.run.data.limit = run->data.limit ? run->data.limit : TMK_SEARCH_SAMPLES;
    s.run.events.progress = NULL;
    if (options->n_search_data) {
        s.run.data.sources = options->search_data;
        s.run.data.n_sources = options->n_search_data;
    }
    enum tmk_status status = search_all(&s, encodings, run);
    if (status == TMK_OK)
        status = add_setting(&s);
    if (status == TMK_OK)
        status = write_config(&s);
    if (status == TMK_OK) {
        *out = s.current;
        *result = s.result;
    } else {
        tmk_encodings_destroy(&s.current);
    }
    cJSON_Delete(s.config);
    tmk_text_finish(&s.done);
    tmk_graph_destroy(&s.graph);
    return status;
}
