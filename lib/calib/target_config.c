/* SPDX-License-Identifier: Apache-2.0 */
/* A target's table as a config of calibrate. */
#include <string.h>

#include "base/diag.h"
#include "calib/target.h"

/* The settings by which calibrate makes the first type of the limits. */
static bool add_settings(cJSON *to, const struct tmk_target_limits *limits,
                         enum tmk_encoding_role role) {
    if (!limits->n_types)
        return cJSON_AddFalseToObject(to, "quantize") != NULL;
    if (role == TMK_ENCODING_BIAS)
        return true;
    const struct tmk_target_type *type = &limits->types[0];
    const bool symmetric = type->scheme == TMK_TARGET_ANY_SCHEME
                               ? role == TMK_ENCODING_WEIGHT
                               : type->scheme == TMK_TARGET_SYMMETRIC;
    return cJSON_AddStringToObject(to, "dtype", tmk_dtype_name(type->dtype)) &&
           cJSON_AddStringToObject(to, "scheme", symmetric ? "symmetric" : "asymmetric") &&
           cJSON_AddBoolToObject(to, "per_channel", limits->prefers_channel);
}

static bool same_choice(const struct tmk_target_limits *a, const struct tmk_target_limits *b) {
    if (!a->n_types || !b->n_types)
        return a->n_types == b->n_types;
    return a->types[0].dtype == b->types[0].dtype && a->types[0].scheme == b->types[0].scheme &&
           a->prefers_channel == b->prefers_channel;
}

static bool add_defaults(cJSON *config, const struct tmk_target *target) {
    cJSON *defaults = cJSON_AddObjectToObject(config, "defaults");
    bool ok = defaults != NULL;
    for (int role = 0; ok && role < 3; role++) {
        const char *key = tmk_encoding_role_name((enum tmk_encoding_role)role);
        cJSON *own = cJSON_AddObjectToObject(defaults, key);
        ok = own && add_settings(own, &target->defaults[role], (enum tmk_encoding_role)role);
    }
    return ok;
}

/* Its "match" is *match. */
static cJSON *add_rule(cJSON *rules, cJSON **match) {
    cJSON *rule = cJSON_CreateObject();
    *match = rule ? cJSON_AddObjectToObject(rule, "match") : NULL;
    if (*match && cJSON_AddItemToArray(rules, rule))
        return rule;
    cJSON_Delete(rule);
    return NULL;
}

static bool add_float_rule(cJSON *rules, const struct tmk_target *target) {
    cJSON *match, *rule = add_rule(rules, &match);
    cJSON *ops = rule ? cJSON_AddArrayToObject(match, "except_op") : NULL;
    bool ok = ops && cJSON_AddFalseToObject(rule, "quantize");
    for (uint32_t i = 0; ok && i < target->n_rows; i++) {
        cJSON *op = cJSON_CreateString(target->rows[i].op);
        ok = op && cJSON_AddItemToArray(ops, op);
        if (!ok)
            cJSON_Delete(op);
    }
    return ok;
}

/* Where an operator's first choice is another than the defaults'. */
static bool add_row_rules(cJSON *rules, const struct tmk_target *target) {
    bool ok = true;
    for (uint32_t i = 0; ok && i < target->n_rows; i++)
        for (int role = 0; ok && role < 3; role++) {
            const struct tmk_target_row *row = &target->rows[i];
            cJSON *match;
            if (same_choice(&row->limits[role], &target->defaults[role]))
                continue;
            cJSON *rule = add_rule(rules, &match);
            ok = rule && cJSON_AddStringToObject(match, "op", row->op) &&
                 cJSON_AddStringToObject(match, "kind",
                                         tmk_encoding_role_name((enum tmk_encoding_role)role)) &&
                 add_settings(rule, &row->limits[role], (enum tmk_encoding_role)role);
        }
    return ok;
}

/* Objects are merged, lists named "rules" appended, all else replaced. */
static bool merge_over(cJSON *base, const cJSON *over) {
    const cJSON *item;
    cJSON_ArrayForEach(item, over) {
        cJSON *own = cJSON_GetObjectItemCaseSensitive(base, item->string);
        if (own && cJSON_IsObject(own) && cJSON_IsObject(item)) {
            if (!merge_over(own, item))
                return false;
            continue;
        }
        if (own && cJSON_IsArray(own) && cJSON_IsArray(item) &&
            strcmp(item->string, "rules") == 0) {
            const cJSON *rule;
            cJSON_ArrayForEach(rule, item) {
                if (!cJSON_AddItemToArray(own, cJSON_Duplicate(rule, true)))
                    return false;
            }
            continue;
        }
        cJSON *copy = cJSON_Duplicate(item, true);
        if (!copy)
            return false;
        if (own)
            cJSON_ReplaceItemInObjectCaseSensitive(base, item->string, copy);
        else if (!cJSON_AddItemToObject(base, item->string, copy))
            return false;
    }
    return true;
}

enum tmk_status tmk_target_config(const struct tmk_target *target, const cJSON *user, cJSON **out,
                                  uint32_t *n_base, struct tmk_diag *diag) {
    cJSON *config = cJSON_CreateObject();
    cJSON *rules = config ? cJSON_AddArrayToObject(config, "rules") : NULL;
    bool ok = rules && add_defaults(config, target) && add_float_rule(rules, target) &&
              add_row_rules(rules, target) &&
              (!target->config || merge_over(config, target->config));
    if (ok)
        *n_base = (uint32_t)cJSON_GetArraySize(rules);
    if (ok && user)
        ok = merge_over(config, user);
    if (ok) {
        *out = config;
        return TMK_OK;
    }
    cJSON_Delete(config);
    return tmk_nomem(diag);
}
