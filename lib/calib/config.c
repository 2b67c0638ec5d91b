/* SPDX-License-Identifier: Apache-2.0 */
#include "calib/config.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <tidemark/guess.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/size.h"
#include "calib/encodings.h"
#include "calib/pattern.h"

static const struct {
    const char *name;
    bool on;
} built_in[] = {
#define BUILT_IN_ROW(name, text, on) {text, on},
    TMK_BUILT_IN_LIST(BUILT_IN_ROW)
#undef BUILT_IN_ROW
};

const char *tmk_built_in_name(enum tmk_built_in rule) {
    return built_in[rule].name;
}

void tmk_quant_settings_override(struct tmk_quant_settings *settings,
                                 const struct tmk_quant_settings *over) {
    if (over->quantize) {
        settings->quantize = over->quantize;
        settings->by = over->by;
    }
    if (over->symmetric)
        settings->symmetric = over->symmetric;
    if (over->channels)
        settings->channels = over->channels;
    if (over->pow2)
        settings->pow2 = over->pow2;
    if (over->dtype != TMK_UNDEFINED)
        settings->dtype = over->dtype;
    if (over->method && over->method != settings->method) {
        settings->method = over->method;
        settings->parameter = 0;
    }
    if (over->method)
        settings->has_range = false;
    if (over->parameter > 0)
        settings->parameter = over->parameter;
    if (over->block)
        settings->block = over->block;
    if (over->has_range) {
        settings->has_range = true;
        settings->low = over->low;
        settings->high = over->high;
    }
}

static enum tmk_status set_scheme(const char *scheme, enum tmk_status wrong,
                                  struct tmk_quant_settings *settings, struct tmk_diag *diag) {
    if (strcmp(scheme, "symmetric") != 0 && strcmp(scheme, "asymmetric") != 0)
        return tmk_fail(diag, wrong,
                        "there is no scheme '%s'; there are 'symmetric' and 'asymmetric'", scheme);
    settings->symmetric = *scheme == 's' ? TMK_YES : TMK_NO;
    return TMK_OK;
}

static enum tmk_status set_method(const char *name, enum tmk_status wrong,
                                  struct tmk_quant_settings *settings, struct tmk_diag *diag) {
    settings->method = tmk_method_find(name);
    if (settings->method)
        return TMK_OK;
    struct tmk_known known = {.guess.wanted = name};
    for (const struct tmk_method *const *row = tmk_method_list(); *row; row++)
        tmk_known_add(&known, (*row)->name);
    return tmk_fail(diag, wrong, "there is no method '%s'%s; there are %s, and for weights l4",
                    name, known.meant, known.names);
}

static enum tmk_status set_dtype(const char *name, enum tmk_status wrong,
                                 struct tmk_quant_settings *settings, struct tmk_diag *diag) {
    struct tmk_guess guess = {.wanted = name};
    char meant[TMK_GUESS_SIZE];
    settings->dtype = tmk_dtype_by_name(name);
    if (tmk_encoding_is_type(settings->dtype))
        return TMK_OK;
    for (int dtype = TMK_UNDEFINED + 1; dtype < TMK_N_DTYPES; dtype++)
        if (tmk_encoding_is_type((enum tmk_dtype)dtype))
            tmk_guess_try(&guess, tmk_dtype_name((enum tmk_dtype)dtype));
    return tmk_fail(diag, wrong, "'%s'%s is no type that values are quantized to", name,
                    tmk_guess_text(&guess, meant));
}

enum tmk_status tmk_config_set_sensitive(struct tmk_config *config, const char *text,
                                         enum tmk_status wrong, struct tmk_diag *diag) {
    const enum tmk_dtype dtype = tmk_dtype_by_name(text);
    const bool wide = dtype == TMK_INT16 || dtype == TMK_UINT16;
    if (strcmp(text, "float") != 0 && strcmp(text, "quantize") != 0 && !wide)
        return tmk_fail(diag, wrong, "'sensitive' is float, quantize, uint16 or int16, not '%s'",
                        text);
    config->quantize_sensitive = *text == 'f' ? TMK_NO : TMK_YES;
    config->sensitive_dtype = wide ? dtype : TMK_UNDEFINED;
    return TMK_OK;
}

enum tmk_status tmk_quant_settings_of_choice(const struct tmk_calibrate_choice *choice,
                                             struct tmk_quant_settings *out,
                                             struct tmk_diag *diag) {
    struct tmk_quant_settings settings = {.dtype = choice->dtype, .parameter = choice->parameter};
    if (choice->method)
        TMK_TRY(set_method(choice->method, TMK_ARGUMENT, &settings, diag));
    if (choice->scheme)
        TMK_TRY(set_scheme(choice->scheme, TMK_ARGUMENT, &settings, diag));
    if (choice->dtype != TMK_UNDEFINED)
        TMK_TRY(set_dtype(tmk_dtype_name(choice->dtype), TMK_ARGUMENT, &settings, diag));
    if (choice->dtype == TMK_INT32)
        return tmk_fail(diag, TMK_ARGUMENT, "only a bias is int32");
    if (choice->scales && strcmp(choice->scales, "tensor") != 0 &&
        strcmp(choice->scales, "channel") != 0)
        return tmk_fail(diag, TMK_ARGUMENT, "scales are by 'tensor' or by 'channel', not by '%s'",
                        choice->scales);
    if (choice->scales)
        settings.channels = *choice->scales == 'c' ? TMK_YES : TMK_NO;
    settings.block = choice->block;
    if (choice->block > 1 && !choice->method)
        TMK_TRY(set_method("mse", TMK_ARGUMENT, &settings, diag));
    settings.pow2 = choice->pow2 ? TMK_YES : TMK_UNSET;
    *out = settings;
    return TMK_OK;
}

/* ---- the file ---- */

#define SETTING_KEYS                                                                               \
    "quantize", "dtype", "method", "percentile", "scheme", "per_channel", "pow2", "range", "block"

static enum tmk_status get_tristate(const cJSON *object, const char *key, enum tmk_tristate *out,
                                    struct tmk_diag *diag) {
    bool yes;
    TMK_TRY(tmk_json_bool_or(object, key, &yes, false, diag));
    if (tmk_json_member(object, key))
        *out = yes ? TMK_YES : TMK_NO;
    return TMK_OK;
}

static enum tmk_status get_range(const cJSON *item, struct tmk_quant_settings *settings,
                                 struct tmk_diag *diag) {
    const cJSON *low = cJSON_GetArrayItem(item, 0), *high = cJSON_GetArrayItem(item, 1);
    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) != 2 || !cJSON_IsNumber(low) ||
        !cJSON_IsNumber(high) || !tmk_json_as_float(low, &settings->low) ||
        !tmk_json_as_float(high, &settings->high) || !(settings->low < settings->high))
        return tmk_fail(diag, TMK_FORMAT, "'range' is not [low, high] with low < high");
    settings->has_range = true;
    return TMK_OK;
}

static enum tmk_status get_quant_settings(const cJSON *object, struct tmk_quant_settings *settings,
                                          struct tmk_diag *diag) {
    static const struct {
        const char *key;
        enum tmk_status (*set)(const char *text, enum tmk_status wrong,
                               struct tmk_quant_settings *settings, struct tmk_diag *diag);
    } texts[] = {{"dtype", set_dtype}, {"method", set_method}, {"scheme", set_scheme}};
    const cJSON *percentile = tmk_json_member(object, "percentile"),
                *range = tmk_json_member(object, "range"),
                *block = tmk_json_member(object, "block");
    for (size_t i = 0; i < TMK_COUNT(texts); i++) {
        const char *text;
        TMK_TRY(tmk_json_text_or(object, texts[i].key, &text, "", diag));
        if (tmk_json_member(object, texts[i].key))
            TMK_TRY(
                tmk_in(diag, texts[i].set(text, TMK_FORMAT, settings, diag), "'%s'", texts[i].key));
    }
    if (percentile) {
        if (!cJSON_IsNumber(percentile) ||
            !(percentile->valuedouble > 50 && percentile->valuedouble <= 100))
            return tmk_fail(diag, TMK_FORMAT, "'percentile' is not a number above 50, up to 100");
        settings->parameter = percentile->valuedouble;
        if (!settings->method)
            TMK_TRY(set_method("percentile", TMK_FORMAT, settings, diag));
    }
    if (range)
        TMK_TRY(get_range(range, settings, diag));
    if (block) {
        if (!cJSON_IsNumber(block) || block->valuedouble != floor(block->valuedouble) ||
            !(block->valuedouble >= 1 && block->valuedouble <= TMK_MOST_BLOCK))
            return tmk_fail(diag, TMK_FORMAT,
                            "'block' is not the length of a block, 2 to %d, or 1: none",
                            TMK_MOST_BLOCK);
        settings->block = (uint32_t)block->valuedouble;
        if (settings->block > 1 && !settings->method)
            TMK_TRY(set_method("mse", TMK_FORMAT, settings, diag));
    }
    TMK_TRY(get_tristate(object, "quantize", &settings->quantize, diag));
    TMK_TRY(get_tristate(object, "per_channel", &settings->channels, diag));
    return get_tristate(object, "pow2", &settings->pow2, diag);
}

static enum tmk_status keep_text(struct tmk_config *config, const cJSON *object, const char *key,
                                 const char **out, struct tmk_diag *diag) {
    const char *text;
    if (!tmk_json_member(object, key))
        return TMK_OK;
    TMK_TRY(tmk_json_text(object, key, &text, diag));
    *out = tmk_arena_strdup(&config->arena, text);
    return *out ? TMK_OK : tmk_nomem(diag);
}

static enum tmk_status check_pattern(const char *name, struct tmk_diag *diag) {
    struct tmk_guess guess = {.wanted = name};
    char meant[TMK_GUESS_SIZE];
    for (int i = TMK_PATTERN_NONE + 1; name && i < TMK_PATTERNS; i++) {
        if (strcmp(name, tmk_pattern_name((enum tmk_pattern)i)) == 0)
            return TMK_OK;
        tmk_guess_try(&guess, tmk_pattern_name((enum tmk_pattern)i));
    }
    return name ? tmk_fail(diag, TMK_FORMAT, "'pattern': there is no pattern '%s'%s", name,
                           tmk_guess_text(&guess, meant))
                : TMK_OK;
}

static enum tmk_status get_match(struct tmk_config *config, const cJSON *match,
                                 struct tmk_config_rule *rule, struct tmk_diag *diag) {
    static const char *const keys[] = {"op", "except_op", "name", "id", "kind", "node", "pattern"};
    static const char *const kinds[] = {"", "activation", "weight", "bias", "input", "output"};
    const char *id = NULL, *kind = NULL;
    uint32_t n;
    if (!match)
        return tmk_fail(diag, TMK_FORMAT,
                        "missing: an object of op, name, id, kind, node and pattern");
    TMK_TRY(tmk_json_keys(match, keys, TMK_COUNT(keys), true, diag));
    TMK_TRY(keep_text(config, match, "op", &rule->op, diag));
    if (tmk_json_member(match, "except_op"))
        TMK_TRY(tmk_json_texts(match, "except_op", "operator types", &config->arena,
                               &rule->except_op, &n, diag));
    TMK_TRY(keep_text(config, match, "name", &rule->name, diag));
    TMK_TRY(keep_text(config, match, "node", &rule->node, diag));
    TMK_TRY(keep_text(config, match, "pattern", &rule->pattern, diag));
    TMK_TRY(check_pattern(rule->pattern, diag));
    TMK_TRY(keep_text(config, match, "id", &id, diag));
    TMK_TRY(keep_text(config, match, "kind", &kind, diag));
    rule->has_id = id != NULL;
    if (id && !tmk_profile_id_of_text(id, &rule->id))
        return tmk_fail(diag, TMK_FORMAT, "'id': '%s' is not an ID such as \"p12\"", id);
    if (!kind)
        return TMK_OK;
    for (int i = TMK_CONFIG_ACTIVATION; i <= TMK_CONFIG_OUTPUT; i++)
        if (strcmp(kind, kinds[i]) == 0)
            rule->kind = (enum tmk_config_kind)i;
    if (rule->kind == TMK_CONFIG_ANY)
        return tmk_fail(diag, TMK_FORMAT,
                        "'kind': there is no kind '%s'; there are activation, weight, bias, input "
                        "and output",
                        kind);
    return TMK_OK;
}

/* What makes no sense together. */
static enum tmk_status check_quant_settings(const struct tmk_quant_settings *settings,
                                            bool only_bias, struct tmk_diag *diag) {
    if (only_bias && settings->dtype != TMK_UNDEFINED && settings->dtype != TMK_INT32)
        return tmk_fail(diag, TMK_FORMAT, "'dtype': a bias is int32 or stays float");
    if (!only_bias && settings->dtype == TMK_INT32)
        return tmk_fail(diag, TMK_FORMAT, "'dtype': only a bias is int32");
    if (settings->parameter > 0 && settings->method && !(settings->method->parameter > 0))
        return tmk_fail(diag, TMK_FORMAT, "'percentile': the method %s takes none",
                        settings->method->name);
    return TMK_OK;
}

static enum tmk_status get_rule(struct tmk_config *config, const cJSON *item,
                                struct tmk_config_rule *rule, struct tmk_diag *diag) {
    static const char *const keys[] = {"match", SETTING_KEYS};
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), true, diag));
    TMK_TRY(tmk_in(diag, get_match(config, tmk_json_member(item, "match"), rule, diag), "'match'"));
    TMK_TRY(get_quant_settings(item, &rule->settings, diag));
    return check_quant_settings(&rule->settings, rule->kind == TMK_CONFIG_BIAS, diag);
}

/* Space for n more rules; NULL: there is no memory. */
static struct tmk_config_rule *grow_rules(struct tmk_config *config, uint32_t n) {
    struct tmk_config_rule *rules =
        tmk_arena_array(&config->arena, (size_t)config->n_rules + n, sizeof *rules);
    if (!rules)
        return NULL;
    if (config->n_rules)
        memcpy(rules, config->rules, config->n_rules * sizeof *rules);
    config->rules = rules;
    return rules + config->n_rules;
}

static enum tmk_status get_rules(struct tmk_config *config, const cJSON *tree,
                                 struct tmk_diag *diag) {
    const cJSON *array, *item;
    const uint32_t before = config->n_rules;
    if (!tmk_json_member(tree, "rules"))
        return TMK_OK;
    TMK_TRY(tmk_json_array(tree, "rules", &array, diag));
    struct tmk_config_rule *rule = grow_rules(config, (uint32_t)cJSON_GetArraySize(array));
    TMK_TRY_ALLOC(rule, diag);
    cJSON_ArrayForEach(item, array) {
        TMK_TRY(tmk_in(diag, get_rule(config, item, rule, diag), "rules[%" PRIu32 "]",
                       config->n_rules - before));
        rule++->settings.by = ++config->n_rules;
    }
    return TMK_OK;
}

static enum tmk_status get_defaults(struct tmk_config *config, const cJSON *object,
                                    struct tmk_diag *diag) {
    static const char *const own_keys[] = {SETTING_KEYS};
    static const char *const keys[] = {"activation", "weight", "bias", SETTING_KEYS};
    struct tmk_quant_settings all = {0};
    if (!object)
        return TMK_OK;
    TMK_TRY(tmk_json_keys(object, keys, TMK_COUNT(keys), true, diag));
    TMK_TRY(get_quant_settings(object, &all, diag));
    TMK_TRY(check_quant_settings(&all, false, diag));
    tmk_quant_settings_override(&config->all, &all);
    for (int role = 0; role < 3; role++) {
        const char *key = tmk_encoding_role_name((enum tmk_encoding_role)role);
        const cJSON *own = tmk_json_member(object, key);
        struct tmk_quant_settings settings = {0};
        if (!own)
            continue;
        TMK_TRY(tmk_in(diag, tmk_json_keys(own, own_keys, TMK_COUNT(own_keys), true, diag), "'%s'",
                       key));
        TMK_TRY(tmk_in(diag, get_quant_settings(own, &settings, diag), "'%s'", key));
        TMK_TRY(tmk_in(diag, check_quant_settings(&settings, role == TMK_ENCODING_BIAS, diag),
                       "'%s'", key));
        tmk_quant_settings_override(&config->own[role], &settings);
    }
    return TMK_OK;
}

static void join_defaults(struct tmk_config *config) {
    for (int role = 0; role < 3; role++) {
        config->defaults[role] = config->all;
        tmk_quant_settings_override(&config->defaults[role], &config->own[role]);
    }
}

static enum tmk_status get_built_in(struct tmk_config *config, const cJSON *object,
                                    struct tmk_diag *diag) {
    static const char *const keys[] = {
#define BUILT_IN_KEY(name, text, on) text,
        TMK_BUILT_IN_LIST(BUILT_IN_KEY)
#undef BUILT_IN_KEY
    };
    if (!object)
        return TMK_OK;
    TMK_TRY(tmk_json_keys(object, keys, TMK_COUNT(keys), true, diag));
    for (int i = 0; i < TMK_RULES; i++)
        TMK_TRY(tmk_json_bool_or(object, keys[i], &config->built_in[i], config->built_in[i], diag));
    return TMK_OK;
}

static enum tmk_status get_sensitive(struct tmk_config *config, const cJSON *tree,
                                     struct tmk_diag *diag) {
    const char *text;
    TMK_TRY(tmk_json_text_or(tree, "sensitive", &text, "", diag));
    if (tmk_json_member(tree, "sensitive"))
        return tmk_config_set_sensitive(config, text, TMK_FORMAT, diag);
    return TMK_OK;
}

enum tmk_status tmk_config_add(struct tmk_config *config, const cJSON *tree,
                               struct tmk_diag *diag) {
    static const char *const keys[] = {"defaults",        "rules",    "skip_first_layer",
                                       "skip_last_layer", "built_in", "sensitive"};
    TMK_TRY(tmk_json_keys(tree, keys, TMK_COUNT(keys), true, diag));
    TMK_TRY(
        tmk_in(diag, get_defaults(config, tmk_json_member(tree, "defaults"), diag), "'defaults'"));
    join_defaults(config);
    TMK_TRY(get_rules(config, tree, diag));
    TMK_TRY(
        tmk_json_bool_or(tree, "skip_first_layer", &config->skip_first, config->skip_first, diag));
    TMK_TRY(tmk_json_bool_or(tree, "skip_last_layer", &config->skip_last, config->skip_last, diag));
    TMK_TRY(get_sensitive(config, tree, diag));
    return tmk_in(diag, get_built_in(config, tmk_json_member(tree, "built_in"), diag),
                  "'built_in'");
}

void tmk_config_init(struct tmk_config *config) {
    *config = (struct tmk_config){.n_rules = 0};
    for (int i = 0; i < TMK_RULES; i++)
        config->built_in[i] = built_in[i].on;
}

enum tmk_status tmk_config_add_file(struct tmk_config *config, const char *path,
                                    struct tmk_diag *diag) {
    struct tmk_json_file file;
    TMK_TRY(
        tmk_explain_file_kind(diag, tmk_json_file_open(path, &file, diag), path, TMK_FILE_OTHER));
    enum tmk_status status = tmk_in(diag, tmk_config_add(config, file.tree, diag), "%s", path);
    tmk_json_file_close(&file);
    return status;
}

/* ---- a target's table ---- */

/* The first type of the limits. */
static struct tmk_quant_settings settings_of(const struct tmk_target_limits *limits, int role) {
    if (!limits->n_types)
        return (struct tmk_quant_settings){.quantize = TMK_NO};
    if (role == TMK_ENCODING_BIAS)
        return (struct tmk_quant_settings){.by = 0};
    const struct tmk_target_type *type = &limits->types[0];
    const bool symmetric = type->scheme == TMK_TARGET_ANY_SCHEME
                               ? role == TMK_ENCODING_WEIGHT
                               : type->scheme == TMK_TARGET_SYMMETRIC;
    return (struct tmk_quant_settings){.dtype = type->dtype,
                                       .symmetric = symmetric ? TMK_YES : TMK_NO,
                                       .channels = limits->prefers_channel ? TMK_YES : TMK_NO};
}

static bool same_choice(const struct tmk_target_limits *a, const struct tmk_target_limits *b) {
    if (!a->n_types || !b->n_types)
        return a->n_types == b->n_types;
    return a->types[0].dtype == b->types[0].dtype && a->types[0].scheme == b->types[0].scheme &&
           a->prefers_channel == b->prefers_channel;
}

static void add_rule(struct tmk_config *config, const struct tmk_config_rule *rule) {
    config->rules[config->n_rules] = *rule;
    config->rules[config->n_rules].settings.by = config->n_rules + 1;
    config->n_rules++;
}

enum tmk_status tmk_config_add_target(struct tmk_config *config, const struct tmk_target *target,
                                      struct tmk_diag *diag) {
    static const enum tmk_config_kind kinds[] = {[TMK_ENCODING_ACTIVATION] = TMK_CONFIG_ACTIVATION,
                                                 [TMK_ENCODING_WEIGHT] = TMK_CONFIG_WEIGHT,
                                                 [TMK_ENCODING_BIAS] = TMK_CONFIG_BIAS};
    const char **ops = tmk_arena_array(&config->arena, (size_t)target->n_rows + 1, sizeof *ops);
    TMK_TRY_ALLOC(ops && grow_rules(config, 1 + 3 * target->n_rows), diag);
    for (int role = 0; role < 3; role++)
        config->own[role] = settings_of(&target->defaults[role], role);
    join_defaults(config);
    for (uint32_t i = 0; i < target->n_rows; i++)
        ops[i] = target->rows[i].op;
    add_rule(config, &(struct tmk_config_rule){.except_op = ops, .settings = {.quantize = TMK_NO}});
    for (uint32_t i = 0; i < target->n_rows; i++)
        for (int role = 0; role < 3; role++) {
            const struct tmk_target_row *row = &target->rows[i];
            if (!same_choice(&row->limits[role], &target->defaults[role]))
                add_rule(config, &(struct tmk_config_rule){
                                     .op = row->op,
                                     .kind = kinds[role],
                                     .settings = settings_of(&row->limits[role], role)});
        }
    if (target->config)
        TMK_TRY(tmk_in(diag, tmk_config_add(config, target->config, diag), "%s", target->name));
    config->target = target;
    config->n_base = config->n_rules;
    return TMK_OK;
}

void tmk_config_finish(struct tmk_config *config) {
    tmk_arena_finish(&config->arena);
    *config = (struct tmk_config){.n_rules = 0};
}
