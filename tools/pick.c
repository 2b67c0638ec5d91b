/* SPDX-License-Identifier: Apache-2.0 */
#include "pick.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/guess.h>

/* ---- properties of a value ---- */

struct summary {
    const struct tmk_profile_tensor *tensor;
    struct tmk_summary s; /* with stats only */
};

struct pick_key {
    const char *name;
    const char *(*text)(const struct tmk_profile_tensor *tensor); /* or: */
    double (*number)(const struct summary *summary);              /* NaN: not known */
    bool ascends;
};

static const char *name_of(const struct tmk_profile_tensor *t) {
    return t->name;
}

static const char *kind_of(const struct tmk_profile_tensor *t) {
    return tmk_profile_kind_name(t->kind);
}

static const char *status_of(const struct tmk_profile_tensor *t) {
    return tmk_profile_status_name(t->status);
}

static const char *op_of(const struct tmk_profile_tensor *t) {
    return t->has_producer ? t->producer.op : "";
}

static const char *dtype_of(const struct tmk_profile_tensor *t) {
    return tmk_dtype_name(t->dtype);
}

static const char *path_of(const struct tmk_profile_tensor *t) {
    return t->path;
}

static bool has_integers(const struct summary *f) {
    return f->tensor->has_int_stats && f->tensor->int_stats.count;
}

static double id_of(const struct summary *f) {
    return f->tensor->id;
}

static double min_of(const struct summary *f) {
    if (f->tensor->stats)
        return f->s.finite ? (double)f->s.min : NAN;
    return has_integers(f) ? (double)f->tensor->int_stats.min : NAN;
}

static double max_of(const struct summary *f) {
    if (f->tensor->stats)
        return f->s.finite ? (double)f->s.max : NAN;
    return has_integers(f) ? (double)f->tensor->int_stats.max : NAN;
}

static double range_of(const struct summary *f) {
    return max_of(f) - min_of(f);
}

static double mean_of(const struct summary *f) {
    return f->tensor->stats && f->s.finite ? f->s.mean : NAN;
}

static double std_of(const struct summary *f) {
    return f->tensor->stats && f->s.finite ? f->s.std : NAN;
}

static double count_of(const struct summary *f) {
    return f->tensor->stats  ? (double)f->s.count
           : has_integers(f) ? (double)f->tensor->int_stats.count
                             : 0;
}

static double zeros_of(const struct summary *f) {
    return f->tensor->stats && f->s.count ? (double)f->s.zeros / (double)f->s.count : NAN;
}

static double nonfinite_of(const struct summary *f) {
    return f->tensor->stats ? (double)(f->s.nan + f->s.posinf + f->s.neginf) : 0;
}

static double dead_channels_of(const struct summary *f) {
    return (double)tmk_profile_flags(f->tensor).dead_channels;
}

static double saturated_of(const struct summary *f) {
    return tmk_profile_flags(f->tensor).saturated;
}

static const struct pick_key keys[] = {
    {"name", name_of, NULL, true},
    {"kind", kind_of, NULL, true},
    {"status", status_of, NULL, true},
    {"op", op_of, NULL, true},
    {"dtype", dtype_of, NULL, true},
    {"path", path_of, NULL, true},
    {"id", NULL, id_of, true},
    {"min", NULL, min_of, true},
    {"max", NULL, max_of, false},
    {"range", NULL, range_of, false},
    {"mean", NULL, mean_of, false},
    {"std", NULL, std_of, false},
    {"zeros", NULL, zeros_of, false},
    {"count", NULL, count_of, false},
    {"nonfinite", NULL, nonfinite_of, false},
    {"dead-channels", NULL, dead_channels_of, false},
    {"saturated", NULL, saturated_of, false},
};

static enum tmk_status find_key(const char *option, const char *name, size_t length,
                                const struct pick_key **out, struct tmk_diag *diag) {
    size_t used = 0;
    char wanted[64], meant[TMK_GUESS_SIZE];
    struct tmk_guess guess = {.wanted = wanted};
    snprintf(wanted, sizeof wanted, "%.*s", (int)(length < 60 ? length : 60), name);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        tmk_guess_try(&guess, keys[i].name);
        if (strlen(keys[i].name) == length && strncmp(keys[i].name, name, length) == 0) {
            *out = &keys[i];
            return TMK_OK;
        }
    }
    used += (size_t)snprintf(diag->text, sizeof diag->text, "%s: '%s'%s is none of", option, wanted,
                             tmk_guess_text(&guess, meant));
    for (size_t i = 0; i < sizeof keys / sizeof *keys && used < sizeof diag->text; i++)
        used += (size_t)snprintf(diag->text + used, sizeof diag->text - used, "%s %s", i ? "," : "",
                                 keys[i].name);
    return diag->status = TMK_ARGUMENT;
}

static struct summary facts_of(const struct tmk_profile_tensor *tensor) {
    struct summary summary = {.tensor = tensor};
    if (tensor->stats)
        tmk_stats_summary(tensor->stats, &summary.s);
    return summary;
}

/* ---- filters ---- */

static enum tmk_status read_condition(const char *text, struct condition *out,
                                      struct tmk_diag *diag) {
    const size_t length = strcspn(text, "=!<>");
    const char *rest = text + length;
    enum tmk_status status = find_key("--filter", text, length, &out->key, diag);
    if (status != TMK_OK)
        return status;
    out->sign = *rest;
    const bool globs = *rest == '=' || (*rest == '!' && rest[1] == '=');
    out->glob = rest + (*rest == '!' ? 2 : 1);
    if (out->key->text ? globs : *rest == '<' || *rest == '>') {
        char *end;
        if (out->key->text)
            return TMK_OK;
        out->number = strtod(out->glob, &end);
        if (end != out->glob && !*end && !isnan(out->number))
            return TMK_OK;
    }
    snprintf(diag->text, sizeof diag->text, "--filter '%.100s': it is %s%s", text, out->key->name,
             out->key->text ? "=GLOB or !=GLOB" : "<NUMBER or >NUMBER");
    return diag->status = TMK_ARGUMENT;
}

enum tmk_status filter_init(struct filter *filter, const struct words *texts,
                            struct tmk_diag *diag) {
    enum tmk_status status = TMK_OK;
    *filter = (struct filter){.only_names = true};
    filter->conditions = calloc(texts->n + 1, sizeof *filter->conditions);
    if (!filter->conditions)
        return TMK_NOMEM;
    for (size_t i = 0; i < texts->n && status == TMK_OK; i++) {
        status = read_condition(texts->items[i], &filter->conditions[i], diag);
        filter->only_names &= filter->conditions[i].key == &keys[0];
    }
    filter->n = status == TMK_OK ? texts->n : 0;
    return status;
}

void filter_finish(struct filter *filter) {
    free(filter->conditions);
    *filter = (struct filter){0};
}

static bool matches_glob(const char *glob, const char *text) {
    return strcmp(glob, text) == 0 || fnmatch(glob, text, 0) == 0;
}

static bool condition_holds(const struct condition *c, const char *name,
                            const struct summary *summary) {
    if (c->key->number) {
        const double number = c->key->number(summary);
        return c->sign == '<' ? number < c->number : number > c->number;
    }
    return matches_glob(c->glob, summary->tensor ? c->key->text(summary->tensor) : name) ==
           (c->sign == '=');
}

bool filter_passes(const struct filter *filter, const char *name,
                   const struct tmk_profile_tensor *tensor) {
    struct summary summary = {0};
    if (tensor && !filter->only_names)
        summary = facts_of(tensor);
    for (size_t i = 0; i < filter->n; i++)
        if (!condition_holds(&filter->conditions[i], name, &summary))
            return false;
    return true;
}

/* ---- order ---- */

struct ranked {
    const char *text; /* or: */
    double number;    /* ascending; NaN last */
    uint32_t at;
};

static int compare_ranked(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    const int texts = x->text ? strcmp(x->text, y->text) : 0;
    if (texts)
        return texts;
    if (!x->text && isnan(x->number) != isnan(y->number))
        return isnan(x->number) ? 1 : -1;
    if (!x->text && (x->number < y->number || x->number > y->number))
        return x->number < y->number ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

enum tmk_status sort_values(const char *name, const struct tmk_profile *profile, uint32_t *chosen,
                            uint32_t n, struct tmk_diag *diag) {
    const struct pick_key *key;
    enum tmk_status status = find_key("--sort", name, strlen(name), &key, diag);
    struct ranked *order = status == TMK_OK ? calloc((size_t)n + 1, sizeof *order) : NULL;
    if (!order)
        return status == TMK_OK ? TMK_NOMEM : status;
    for (uint32_t i = 0; i < n; i++) {
        const struct tmk_profile_tensor *tensor = &profile->tensors[chosen[i]];
        const struct summary summary = facts_of(tensor);
        order[i] = (struct ranked){.at = chosen[i]};
        if (key->text)
            order[i].text = key->text(tensor);
        else
            order[i].number = key->number(&summary) * (key->ascends ? 1 : -1);
    }
    qsort(order, n, sizeof *order, compare_ranked);
    for (uint32_t i = 0; i < n; i++)
        chosen[i] = order[i].at;
    free(order);
    return TMK_OK;
}
