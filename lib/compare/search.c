/* SPDX-License-Identifier: Apache-2.0 */
/* Better encodings: the worst offenders by another method, or float. Each try is a whole
 * calibration with a few rules more, so that ties, biases and requantizations follow. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "calib/config.h"
#include "calib/json_file.h"
#include "compare/simulate.h"
#include "transform/model.h"

enum { MOST_TRIES = 16 }; /* of one value */
static const double method_gain = 0.99, float_gain = 0.9;

struct search {
    struct tmk_model *model;
    struct tmk_graph *graph;
    const struct tmk_search_options *options;
    struct tmk_run_options run;
    struct tmk_calibrate_options base;
    cJSON *config;                 /* with the rules that were chosen */
    struct tmk_encodings *current; /* under it */
    struct tmk_loss loss;          /* theirs */
    struct tmk_search_result result;
    struct tmk_text done; /* what was chosen, for the setting */
    struct tmk_diag *diag;
};

/* One change of the encodings at hand. */
struct attempt {
    const char *method; /* NULL: float */
    cJSON *config;
    struct tmk_encodings *encodings;
    struct tmk_loss loss;
};

/* ---- what the encodings were made with ---- */

static const char *setting(const struct tmk_encodings *e, const char *key) {
    for (uint32_t i = 0; i < e->n_settings; i++)
        if (strcmp(e->settings[i].key, key) == 0)
            return e->settings[i].value;
    return NULL;
}

static struct tmk_calibrate_choice choice(const struct tmk_encodings *e,
                                          const char *const keys[5]) {
    const char *parameter = setting(e, keys[1]), *dtype = setting(e, keys[2]);
    return (struct tmk_calibrate_choice){
        .method = setting(e, keys[0]),
        .parameter = parameter ? strtod(parameter, NULL) : 0,
        .dtype = dtype ? tmk_dtype_by_name(dtype) : TMK_UNDEFINED,
        .scheme = setting(e, keys[3]),
        .scales = setting(e, keys[4]),
        .pow2 = setting(e, "pow2") != NULL,
    };
}

static void find_base(struct search *s, const struct tmk_encodings *e) {
    static const char *const activation[] = {"method", "percentile", "dtype", "scheme", "scales"};
    static const char *const weight[] = {"weights-method", "weights-percentile", "weights-dtype",
                                         "weights-scheme", "weights-scales"};
    s->base = (struct tmk_calibrate_options){.activations = choice(e, activation),
                                             .weights = choice(e, weight),
                                             .rounding = e->rounding,
                                             .pow2_requant = e->pow2_requant,
                                             .sensitive = setting(e, "sensitive")};
    if (!s->base.sensitive) /* files of former versions */
        s->base.sensitive = "quantize";
}

static enum tmk_status read_config(struct search *s) {
    struct tmk_json_file file;
    if (s->options->config) {
        TMK_TRY(tmk_json_file_open(s->options->config, &file, s->diag));
        s->config = cJSON_Duplicate(file.tree, true);
        tmk_json_file_close(&file);
    } else {
        s->config = cJSON_CreateObject();
    }
    if (s->config && !cJSON_GetObjectItemCaseSensitive(s->config, "rules"))
        (void)cJSON_AddArrayToObject(s->config, "rules");
    return s->config && cJSON_GetObjectItemCaseSensitive(s->config, "rules") ? TMK_OK
                                                                             : tmk_nomem(s->diag);
}

/* ---- calibrating ---- */

static enum tmk_status calibrate(const struct search *s, const cJSON *config,
                                 struct tmk_encodings **out, struct tmk_diag *diag) {
    struct tmk_calibrate_options options = s->base;
    options.config = "search"; /* until note() says what was given */
    return tmk_calibrate_by(s->options->profile, &options, config, out, diag);
}

static bool same_scales(const struct tmk_encoding *a, const struct tmk_encoding *b) {
    return a->id == b->id && a->n == b->n && a->dtype == b->dtype &&
           memcmp(a->scale, b->scale, a->n * sizeof *a->scale) == 0 &&
           memcmp(a->zero_point, b->zero_point, a->n * sizeof *a->zero_point) == 0;
}

static bool same_encodings(const struct tmk_encodings *a, const struct tmk_encodings *b) {
    bool same = a->n_items == b->n_items;
    for (uint32_t i = 0; same && i < a->n_items; i++)
        same = same_scales(&a->items[i], &b->items[i]);
    return same;
}

/* ---- one value, and those that share its scale ---- */

static bool is_member(const struct tmk_encoding *e, const struct tmk_encoding *of) {
    return e->id == of->id || (of->group && e->group == of->group);
}

/* {"match":{"id":"p12"},"method":"minmax"} for each member; method NULL: "quantize":false. */
static bool add_rules(const struct search *s, const struct tmk_encoding *of, struct attempt *a) {
    cJSON *rules = cJSON_GetObjectItemCaseSensitive(a->config, "rules");
    bool ok = rules != NULL;
    for (uint32_t i = 0; ok && i < s->current->n_items; i++) {
        const struct tmk_encoding *e = &s->current->items[i];
        char id[16];
        if (!is_member(e, of) || (i && e->id == s->current->items[i - 1].id))
            continue;
        snprintf(id, sizeof id, "p%u", e->id);
        cJSON *rule = cJSON_CreateObject();
        cJSON *match = rule ? cJSON_AddObjectToObject(rule, "match") : NULL;
        ok = match && cJSON_AddStringToObject(match, "id", id) &&
             (a->method ? cJSON_AddStringToObject(rule, "method", a->method) != NULL
                        : cJSON_AddFalseToObject(rule, "quantize") != NULL) &&
             cJSON_AddItemToArray(rules, rule);
        if (!ok)
            cJSON_Delete(rule);
    }
    return ok;
}

static void drop(struct attempt *a) {
    cJSON_Delete(a->config);
    tmk_encodings_destroy(&a->encodings);
}

/* *worth: it changes anything. A method that the profile has no histogram for does not. */
static enum tmk_status prepare(const struct search *s, const struct tmk_encoding *of,
                               const char *method, struct attempt *a, bool *worth) {
    struct tmk_diag ignored = {0};
    *a = (struct attempt){.method = method, .config = cJSON_Duplicate(s->config, true)};
    *worth = false;
    if (!a->config || !add_rules(s, of, a)) {
        drop(a);
        return tmk_nomem(s->diag);
    }
    enum tmk_status status = calibrate(s, a->config, &a->encodings, &ignored);
    *worth = status == TMK_OK && !same_encodings(a->encodings, s->current);
    if (!*worth)
        drop(a);
    return status == TMK_NOMEM ? tmk_nomem(s->diag) : TMK_OK;
}

static enum tmk_status prepare_all(const struct search *s, const struct tmk_encoding *of,
                                   struct attempt *list, uint32_t *n) {
    const bool given = strcmp(of->method, "given") == 0;
    const char *name, *help;
    bool worth;
    for (size_t i = 0; tmk_calibrate_method(i, &name, &help) && *n + 1 < MOST_TRIES; i++) {
        if (given || strcmp(name, of->method) == 0 || strcmp(name, "moving-average") == 0)
            continue;
        TMK_TRY(prepare(s, of, name, &list[*n], &worth));
        *n += worth;
    }
    TMK_TRY(prepare(s, of, NULL, &list[*n], &worth));
    *n += worth;
    return TMK_OK;
}

/* The best of them, if it is good enough; NULL: none. */
static struct attempt *best_of(const struct search *s, struct attempt *list, uint32_t n) {
    struct attempt *method = NULL, *left = NULL;
    for (uint32_t i = 0; i < n; i++) {
        struct attempt **best = list[i].method ? &method : &left;
        if (!*best || list[i].loss.noise < (*best)->loss.noise)
            *best = &list[i];
    }
    if (method && !(method->loss.noise < method_gain * s->loss.noise))
        method = NULL;
    const double least = method ? method->loss.noise : s->loss.noise;
    return left && left->loss.noise < float_gain * least ? left : method;
}

static void choose(struct search *s, const struct tmk_encoding *of, struct attempt *best) {
    char line[400];
    snprintf(line, sizeof line, "p%u '%s'%s: %s instead of %s; %.2f dB become %.2f", of->id,
             of->name, of->group ? " and what shares its scale" : "",
             best->method ? best->method : "float", of->method, tmk_loss_sqnr(&s->loss),
             tmk_loss_sqnr(&best->loss));
    if (s->options->report)
        s->options->report(s->options->context, line);
    tmk_text_printf(&s->done, "; p%u %s", of->id, best->method ? best->method : "float");
    cJSON_Delete(s->config);
    tmk_encodings_destroy(&s->current);
    s->config = best->config;
    s->current = best->encodings;
    s->loss = best->loss;
    best->config = NULL;
    best->encodings = NULL;
    s->result.chosen++;
}

static const struct tmk_encoding *find(const struct tmk_encodings *e, uint32_t id) {
    for (uint32_t i = 0; i < e->n_items; i++)
        if (e->items[i].id == id)
            return &e->items[i];
    return NULL;
}

static enum tmk_status try_value(struct search *s, uint32_t id) {
    const struct tmk_quantize_options how = {0};
    const struct tmk_encoding *of = find(s->current, id);
    const struct tmk_encodings *list[MOST_TRIES];
    struct attempt attempts[MOST_TRIES] = {0};
    struct tmk_loss losses[MOST_TRIES];
    uint32_t n = 0;
    if (!of || of->role == TMK_ENCODING_BIAS)
        return TMK_OK;
    enum tmk_status status = prepare_all(s, of, attempts, &n);
    const uint32_t left = s->options->budget - s->result.tried;
    const uint32_t tried = n < left ? n : left;
    for (uint32_t i = 0; i < tried; i++)
        list[i] = attempts[i].encodings;
    if (status == TMK_OK && tried)
        status = tmk_losses(s->graph, list, tried, &how, &s->run, losses, s->diag);
    for (uint32_t i = 0; status == TMK_OK && i < tried; i++)
        attempts[i].loss = losses[i];
    struct attempt *best = status == TMK_OK ? best_of(s, attempts, tried) : NULL;
    s->result.tried += tried;
    if (best)
        choose(s, of, best);
    for (uint32_t i = 0; i < n; i++)
        drop(&attempts[i]);
    return status;
}

/* ---- all of it ---- */

static enum tmk_status go(struct search *s, const struct tmk_encodings *encodings) {
    const struct tmk_quantize_options how = {0};
    const struct tmk_encodings *one;
    struct tmk_ranking *ranking = NULL;
    TMK_TRY(tmk_original(s->model, &s->graph, s->diag));
    find_base(s, encodings);
    TMK_TRY(read_config(s));
    TMK_TRY(calibrate(s, s->config, &s->current, s->diag));
    if (!same_encodings(s->current, encodings))
        return tmk_fail(s->diag, TMK_MISMATCH,
                        "the profile makes other encodings than these; were they made with another "
                        "profile, or a config (--config)?");
    one = s->current;
    TMK_TRY(tmk_losses(s->graph, &one, 1, &how, &s->run, &s->loss, s->diag));
    s->result.before = tmk_loss_sqnr(&s->loss);
    s->result.samples = s->loss.samples;
    TMK_TRY(tmk_model_rank(s->model, encodings, &s->run, 0, &ranking, s->diag));
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; status == TMK_OK && i < ranking->n && s->result.tried < s->options->budget;
         i++)
        status = try_value(s, ranking->values[i].id);
    tmk_ranking_destroy(&ranking);
    s->result.after = tmk_loss_sqnr(&s->loss);
    return status;
}

/* "search" tells what was done, and "config" is the one that was given. */
static enum tmk_status note(struct search *s) {
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
    struct search s = {.model = model, .options = &given, .run = *run, .diag = diag};
    given.budget = options->budget ? options->budget : TMK_SEARCH_BUDGET;
    s.run.data.limit = run->data.limit ? run->data.limit : TMK_SEARCH_SAMPLES;
    s.run.events.progress = NULL;
    enum tmk_status status = go(&s, encodings);
    if (status == TMK_OK)
        status = note(&s);
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
