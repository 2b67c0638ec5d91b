/* SPDX-License-Identifier: Apache-2.0 */
/* A profile becomes encodings: nodes are found, values picked, tied, and given their scales. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tidemark/encodings.h>
#include <tidemark/guess.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/text.h"
#include "calib/encodings.h"
#include "calib/make.h"

struct calibrate {
    const struct tmk_profile *profile;
    const struct tmk_calibrate_options *options;
    struct tmk_config config;
    const cJSON *tree; /* of the config; NULL: it is in a file, or there is none */
    struct tmk_weight_ranges *known;
    struct tmk_net net;
    struct tmk_selection selection;
    struct tmk_ties ties;
    struct tmk_make make;
    struct tmk_encodings *encodings;
    struct tmk_diag *diag;
};

/* The defaults: uint8 activations, asymmetric; int8 weights by channel, symmetric; both by the
 * first method, but for weights that are not known, which have their extremes. */
static enum tmk_status set_defaults(struct calibrate *c) {
    const struct tmk_calibrate_choice *choices[] = {
        [TMK_ENCODING_ACTIVATION] = &c->options->activations,
        [TMK_ENCODING_WEIGHT] = &c->options->weights,
    };
    for (int role = 0; role < 3; role++) {
        bool weight = role == TMK_ENCODING_WEIGHT, bias = role == TMK_ENCODING_BIAS;
        struct tmk_quant_settings settings = {.quantize = TMK_YES,
                                              .symmetric = weight ? TMK_YES : TMK_NO,
                                              .channels = weight ? TMK_YES : TMK_NO,
                                              .pow2 = TMK_NO,
                                              .dtype = weight ? TMK_INT8 : TMK_UINT8,
                                              .method = weight && !c->options->constant
                                                            ? tmk_method_find("minmax")
                                                            : tmk_method_list()[0]};
        struct tmk_quant_settings given = {.by = 0};
        if (!bias)
            TMK_TRY(tmk_quant_settings_of_choice(choices[role], &given, c->diag));
        if (c->options->pow2_requant)
            given.pow2 = TMK_YES;
        tmk_quant_settings_override(&settings, &c->config.defaults[role]);
        tmk_quant_settings_override(&settings, &given);
        if (!bias && settings.parameter > 0 && !(settings.method->parameter > 0))
            return tmk_fail(c->diag, TMK_ARGUMENT, "the method %s takes no number",
                            settings.method->name);
        c->config.defaults[role] = settings;
    }
    if (tmk_dtype_bits(c->config.defaults[TMK_ENCODING_ACTIVATION].dtype) > 8)
        c->config.sensitive_dtype = TMK_UNDEFINED;
    /* multipliers are powers of two only if all scales are */
    for (uint32_t i = 0; c->options->pow2_requant && i < c->config.n_rules; i++)
        c->config.rules[i].settings.pow2 = TMK_UNSET;
    return TMK_OK;
}

static enum tmk_status add_setting(struct calibrate *c, const char *key, const char *value) {
    struct tmk_encodings *all = c->encodings;
    struct tmk_encodings_setting *setting = &all->settings[all->n_settings];
    setting->key = key;
    TMK_TRY(tmk_encodings_keep(all, value, &setting->value, c->diag));
    all->n_settings++;
    return TMK_OK;
}

static enum tmk_status add_choice(struct calibrate *c, enum tmk_encoding_role role,
                                  const char *const keys[5]) {
    const struct tmk_quant_settings *settings = &c->config.defaults[role];
    char parameter[32];
    TMK_TRY(add_setting(c, keys[0], settings->method->name));
    if (settings->parameter > 0) {
        tmk_format_double(settings->parameter, parameter);
        TMK_TRY(add_setting(c, keys[1], parameter));
    }
    TMK_TRY(add_setting(c, keys[2], tmk_dtype_name(settings->dtype)));
    TMK_TRY(add_setting(c, keys[3], settings->symmetric == TMK_YES ? "symmetric" : "asymmetric"));
    if (role == TMK_ENCODING_WEIGHT && settings->block > 1) {
        snprintf(parameter, sizeof parameter, "%" PRIu32, settings->block);
        TMK_TRY(add_setting(c, "weights-block", parameter));
    }
    return add_setting(c, keys[4], settings->channels == TMK_YES ? "channel" : "tensor");
}

static enum tmk_status fill_header(struct calibrate *c) {
    static const char *const activation[] = {"method", "percentile", "dtype", "scheme", "scales"};
    static const char *const weight[] = {"weights-method", "weights-percentile", "weights-dtype",
                                         "weights-scheme", "weights-scales"};
    enum { MOST_SETTINGS = 18 };
    struct tmk_encodings *all = c->encodings;
    all->settings = tmk_encodings_make(all, MOST_SETTINGS, sizeof *all->settings);
    TMK_TRY_ALLOC(all->settings, c->diag);
    TMK_TRY(tmk_encodings_keep(all, c->profile->model.file, &all->model.file, c->diag));
    TMK_TRY(tmk_encodings_keep(all, c->profile->model.sha256, &all->model.sha256, c->diag));
    TMK_TRY(tmk_encodings_keep(all, c->profile->model.format, &all->model.format, c->diag));
    all->model.fingerprint = c->profile->model.fingerprint;
    all->samples = c->profile->ledger.run;
    all->rounding = c->options->rounding;
    all->pow2_requant = c->options->pow2_requant;
    TMK_TRY(add_choice(c, TMK_ENCODING_ACTIVATION, activation));
    TMK_TRY(add_choice(c, TMK_ENCODING_WEIGHT, weight));
    TMK_TRY(add_setting(c, "sensitive",
                        c->config.quantize_sensitive != TMK_YES ? "float"
                        : c->config.sensitive_dtype ? tmk_dtype_name(c->config.sensitive_dtype)
                                                    : "quantize"));
    if (c->config.defaults[TMK_ENCODING_ACTIVATION].pow2 == TMK_YES)
        TMK_TRY(add_setting(c, "pow2", "true"));
    if (c->options->target)
        TMK_TRY(add_setting(c, "target", c->options->target->name));
    if (c->options->config)
        TMK_TRY(add_setting(c, "config", tmk_base_name(c->options->config)));
    return TMK_OK;
}

/* ---- what came of it ---- */

static enum tmk_status keep_item(struct calibrate *c, uint32_t pick) {
    struct tmk_encodings *all = c->encodings;
    const struct tmk_pick *p = &c->selection.picks[pick];
    struct tmk_encoding *e = &all->items[all->n_items];
    *e = c->make.items[pick];
    TMK_TRY(tmk_encodings_keep(all, tmk_make_tensor(&c->make, pick)->name, &e->name, c->diag));
    e->uses = p->n_uses ? tmk_encodings_make(all, p->n_uses, sizeof *e->uses) : NULL;
    if (p->n_uses && !e->uses)
        return tmk_nomem(c->diag);
    for (; e->n_uses < p->n_uses; e->n_uses++) {
        const struct tmk_net_use *use = p->uses[e->n_uses];
        struct tmk_encoding_use *out = &e->uses[e->n_uses];
        out->input = use->input;
        TMK_TRY(tmk_encodings_keep(all, c->net.nodes[use->node].name, &out->node, c->diag));
        TMK_TRY(tmk_encodings_keep(all, c->net.nodes[use->node].op, &out->op, c->diag));
    }
    all->n_items++;
    return TMK_OK;
}

static enum tmk_status keep_left(struct calibrate *c, uint32_t v, const char *reason) {
    struct tmk_encodings *all = c->encodings;
    const struct tmk_profile_tensor *t = &c->profile->tensors[v];
    struct tmk_left_float *left = &all->left[all->n_left];
    *left = (struct tmk_left_float){.id = t->id, .observed_min = NAN, .observed_max = NAN};
    TMK_TRY(tmk_encodings_keep(all, t->name, &left->name, c->diag));
    TMK_TRY(tmk_encodings_keep(all, reason, &left->reason, c->diag));
    if (t->stats) {
        struct tmk_summary facts;
        tmk_stats_quick_summary(t->stats, &facts);
        left->observed_min = facts.min;
        left->observed_max = facts.max;
    }
    all->n_left++;
    return TMK_OK;
}

/* In the order of IDs: each value's encodings, or why there are none. */
static enum tmk_status keep_all(struct calibrate *c) {
    struct tmk_encodings *all = c->encodings;
    uint32_t pick = 0;
    all->items = tmk_encodings_make(all, c->selection.n_picks, sizeof *all->items);
    all->left = tmk_encodings_make(all, c->profile->n_tensors, sizeof *all->left);
    TMK_TRY_ALLOC(all->items && all->left, c->diag);
    for (uint32_t v = 0; v < c->profile->n_tensors; v++) {
        const char *reason = c->selection.reason[v];
        for (; pick < c->selection.n_picks && c->selection.picks[pick].value == v; pick++) {
            if (c->make.items[pick].n)
                TMK_TRY(keep_item(c, pick));
            else
                reason = c->make.dropped[pick];
        }
        if (reason)
            TMK_TRY(keep_left(c, v, reason));
    }
    return TMK_OK;
}

/* What a rule that matches nothing may have meant. */
static const char *meant_by(const struct calibrate *c, const struct tmk_config_rule *rule,
                            char out[TMK_GUESS_SIZE]) {
    struct tmk_guess guess = {.wanted = rule->op     ? rule->op
                                        : rule->name ? rule->name
                                        : rule->node ? rule->node
                                                     : ""};
    for (uint32_t v = 0; v < c->profile->n_tensors; v++) {
        const struct tmk_profile_tensor *t = &c->profile->tensors[v];
        if (!rule->op && rule->name)
            tmk_guess_try(&guess, t->name);
        for (uint32_t u = 0; (rule->op || !rule->name) && u < t->n_consumers; u++)
            tmk_guess_try(&guess, rule->op ? t->consumers[u].op : t->consumers[u].node);
        if (t->has_producer && (rule->op || !rule->name))
            tmk_guess_try(&guess, rule->op ? t->producer.op : t->producer.node);
    }
    if (guess.best && strcmp(guess.best, guess.wanted) == 0) /* its other conditions fail */
        guess.best = NULL;
    return tmk_guess_text(&guess, out);
}

static void remark_on_rules(const struct calibrate *c) {
    char meant[TMK_GUESS_SIZE];
    for (uint32_t i = c->config.n_base; i < c->config.n_rules; i++)
        if (!c->selection.matched[i])
            tmk_make_remark(&c->make, "%s: rules[%" PRIu32 "] matches nothing in this model%s",
                            c->options->config, i - c->config.n_base,
                            meant_by(c, &c->config.rules[i], meant));
}

static enum tmk_status read_config(struct calibrate *c) {
    const char *path = c->options->config;
    tmk_config_init(&c->config);
    if (c->options->target)
        TMK_TRY(tmk_config_add_target(&c->config, c->options->target, c->diag));
    if (c->tree)
        return tmk_config_add(&c->config, c->tree, c->diag);
    return path ? tmk_config_add_file(&c->config, path, c->diag) : TMK_OK;
}

/* Options and configs may choose what the target does not have. */
static enum tmk_status check_target(const struct calibrate *c) {
    char first[TMK_FINDING_SIZE] = "";
    uint32_t found;
    if (!c->options->target)
        return TMK_OK;
    TMK_TRY(tmk_target_check(c->options->target, c->encodings, c->profile, tmk_target_keep_first,
                             first, &found, c->diag));
    if (!found)
        return TMK_OK;
    return tmk_fail(c->diag, TMK_MISMATCH,
                    "%s (%" PRIu32 " such findings); choose otherwise, or "
                    "calibrate without the target",
                    first, found);
}

static enum tmk_status run_steps(struct calibrate *c) {
    TMK_TRY(read_config(c));
    if (c->options->sensitive)
        TMK_TRY(tmk_config_set_sensitive(&c->config, c->options->sensitive, TMK_ARGUMENT, c->diag));
    TMK_TRY(set_defaults(c));
    TMK_TRY(tmk_net_init(&c->net, c->profile, c->diag));
    TMK_TRY(tmk_select(&c->net, &c->config, &c->selection, c->diag));
    TMK_TRY(tmk_ties_init(&c->ties, &c->selection, &c->config, c->diag));
    TMK_TRY(tmk_encodings_create(&c->encodings, c->diag));
    TMK_TRY(fill_header(c));
    uint32_t n = c->selection.n_picks;
    c->make = (struct tmk_make){
        .selection = &c->selection,
        .ties = &c->ties,
        .config = &c->config,
        .encodings = c->encodings,
        .items = tmk_arena_array(&c->selection.arena, n, sizeof *c->make.items),
        .dropped = tmk_arena_array(&c->selection.arena, n, sizeof *c->make.dropped),
        .constant = c->options->constant,
        .codes = c->options->codes,
        .targeted = c->options->target != NULL,
        .model = c->options->model,
        .known = c->known,
        .remark = c->options->remark,
        .stop = c->options->stop,
        .context = c->options->context,
        .diag = c->diag,
    };
    TMK_TRY_ALLOC(c->make.items && c->make.dropped, c->diag);
    remark_on_rules(c);
    TMK_TRY(tmk_make_items(&c->make));
    TMK_TRY(keep_all(c));
    TMK_TRY(check_target(c));
    return tmk_make_requants(&c->make);
}

enum tmk_status tmk_calibrate(const struct tmk_profile *profile,
                              const struct tmk_calibrate_options *options,
                              struct tmk_encodings **out, struct tmk_diag *diag) {
    return tmk_calibrate_by(profile, options, NULL, NULL, out, diag);
}

enum tmk_status tmk_calibrate_by(const struct tmk_profile *profile,
                                 const struct tmk_calibrate_options *options, const cJSON *config,
                                 struct tmk_weight_ranges *known, struct tmk_encodings **out,
                                 struct tmk_diag *diag) {
    struct calibrate c = {
        .profile = profile, .options = options, .tree = config, .known = known, .diag = diag};
    enum tmk_status status = run_steps(&c);
    tmk_ties_finish(&c.ties);
    tmk_selection_finish(&c.selection);
    tmk_net_finish(&c.net);
    tmk_config_finish(&c.config);
    if (status == TMK_OK)
        *out = c.encodings;
    else
        tmk_encodings_destroy(&c.encodings);
    return status;
}

bool tmk_calibrate_method(size_t i, const char **name, const char **help) {
    const struct tmk_method *const *row = tmk_method_list();
    for (size_t k = 0; *row && k < i; k++)
        row++;
    if (!*row)
        return false;
    *name = (*row)->name;
    *help = (*row)->help;
    return true;
}
