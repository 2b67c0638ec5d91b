/* SPDX-License-Identifier: Apache-2.0 */
/* A target's table from its file. */
#include "calib/target.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/guess.h>

#include "base/diag.h"
#include "base/size.h"
#include "calib/encodings.h"
#include "traits/traits.h"

#define FORMAT_NAME "tidemark-target"

/* Made of the folder share/targets. */
extern const struct tmk_target_text { const char *name, *text; } tmk_target_texts[];

static enum tmk_status keep_member(struct tmk_target *target, const cJSON *object, const char *key,
                                   const char **out, struct tmk_diag *diag) {
    const char *text;
    TMK_TRY(tmk_json_text(object, key, &text, diag));
    *out = tmk_arena_strdup(&target->arena, text);
    return *out ? TMK_OK : tmk_nomem(diag);
}

/* ---- limits ---- */

/* "int8", "int8 symmetric" */
static enum tmk_status get_type(const char *text, struct tmk_target_type *out,
                                struct tmk_diag *diag) {
    char name[16];
    const char *blank = strchr(text, ' ');
    const size_t len = blank ? (size_t)(blank - text) : strlen(text);
    *out = (struct tmk_target_type){.scheme = TMK_TARGET_ANY_SCHEME};
    if (len < sizeof name) {
        memcpy(name, text, len);
        name[len] = '\0';
        out->dtype = tmk_dtype_by_name(name);
    }
    if (blank && strcmp(blank, " symmetric") == 0)
        out->scheme = TMK_TARGET_SYMMETRIC;
    else if (blank && strcmp(blank, " asymmetric") == 0)
        out->scheme = TMK_TARGET_ASYMMETRIC;
    else if (blank)
        out->dtype = TMK_UNDEFINED;
    if (!tmk_encoding_is_type(out->dtype))
        return tmk_fail(diag, TMK_FORMAT, "'%s' is no type such as \"int8 symmetric\"", text);
    return TMK_OK;
}

static enum tmk_status get_types(const cJSON *array, struct tmk_target_limits *out,
                                 struct tmk_diag *diag) {
    const cJSON *item;
    out->n_types = 0;
    if (!cJSON_IsArray(array) || cJSON_GetArraySize(array) > TMK_TARGET_MOST_TYPES)
        return tmk_fail(diag, TMK_FORMAT, "not a list of at most %d types", TMK_TARGET_MOST_TYPES);
    cJSON_ArrayForEach(item, array) {
        if (!cJSON_IsString(item))
            return tmk_fail(diag, TMK_FORMAT, "not a list of types");
        TMK_TRY(get_type(item->valuestring, &out->types[out->n_types], diag));
        out->n_types++;
    }
    return TMK_OK;
}

static enum tmk_status get_scales(const cJSON *array, bool depthwise, struct tmk_target_limits *out,
                                  struct tmk_diag *diag) {
    const cJSON *item;
    out->tensor = out->channel = out->depthwise = false;
    cJSON_ArrayForEach(item, array) {
        const char *word = cJSON_IsString(item) ? item->valuestring : "";
        if (strcmp(word, "channel") == 0) {
            out->prefers_channel = !out->tensor;
            out->channel = true;
        } else if (strcmp(word, "tensor") == 0) {
            out->prefers_channel = out->channel;
            out->tensor = true;
        } else if (depthwise && strcmp(word, "depthwise") == 0) {
            out->depthwise = true;
        } else {
            return tmk_fail(diag, TMK_FORMAT, "not a list of \"tensor\" and \"channel\"%s",
                            depthwise ? " or \"depthwise\"" : "");
        }
    }
    return out->tensor || out->channel
               ? TMK_OK
               : tmk_fail(diag, TMK_FORMAT, "neither \"tensor\" nor \"channel\"");
}

#define LIMIT_KEYS "activation", "weight", "bias", "activation_scales", "weight_scales"

static enum tmk_status get_limits(const cJSON *object, struct tmk_target_limits limits[3],
                                  struct tmk_diag *diag) {
    static const char *const scales[] = {
        [TMK_ENCODING_ACTIVATION] = "activation_scales", [TMK_ENCODING_WEIGHT] = "weight_scales"};
    for (int role = 0; role < 3; role++) {
        const char *key = tmk_encoding_role_name((enum tmk_encoding_role)role);
        const cJSON *types = tmk_json_member(object, key);
        if (types)
            TMK_TRY(tmk_in(diag, get_types(types, &limits[role], diag), "'%s'", key));
    }
    for (size_t role = 0; role < TMK_COUNT(scales); role++) {
        const cJSON *given = tmk_json_member(object, scales[role]);
        if (given)
            TMK_TRY(tmk_in(diag,
                           get_scales(given, role == TMK_ENCODING_ACTIVATION, &limits[role], diag),
                           "'%s'", scales[role]));
    }
    return TMK_OK;
}

/* ---- operators ---- */

/* Every entry names one of the table's sources. */
static enum tmk_status check_source(const cJSON *tree, const cJSON *entry, struct tmk_diag *diag) {
    const cJSON *sources;
    const char *source;
    TMK_TRY(tmk_json_object(tree, "sources", &sources, diag));
    TMK_TRY(tmk_json_text(entry, "source", &source, diag));
    if (!cJSON_IsString(tmk_json_member(sources, source)))
        return tmk_fail(diag, TMK_FORMAT, "'source': '%s' is not among the table's sources",
                        source);
    return TMK_OK;
}

/* A misspelled operator would stay float without a word. One that nothing known is like may be the
 * target's own. */
static enum tmk_status check_operators(const char *const *ops, uint32_t n, struct tmk_diag *diag) {
    char meant[TMK_GUESS_SIZE];
    enum { MOST_EDITS = 2 };
    uint32_t n_known;
    const struct tmk_traits *known = tmk_traits_list(&n_known);
    for (uint32_t i = 0; i < n; i++) {
        struct tmk_guess guess = {.wanted = ops[i]};
        bool found = false;
        for (uint32_t k = 0; k < n_known; k++) {
            found = found || strcmp(known[k].op, ops[i]) == 0;
            tmk_guess_try(&guess, known[k].op);
        }
        if (!found && guess.best && guess.distance <= MOST_EDITS)
            return tmk_fail(diag, TMK_FORMAT, "'op': there is no operator '%s'%s", ops[i],
                            tmk_guess_text(&guess, meant));
    }
    return TMK_OK;
}

static enum tmk_status get_sharing(const cJSON *entry, enum tmk_target_sharing *out,
                                   struct tmk_diag *diag) {
    const char *text;
    TMK_TRY(tmk_json_text_or(entry, "same_scale", &text, "none", diag));
    *out = strcmp(text, "input") == 0 ? TMK_TARGET_SHARES_INPUT
           : strcmp(text, "all") == 0 ? TMK_TARGET_SHARES_ALL
                                      : TMK_TARGET_SHARES_NONE;
    if (*out == TMK_TARGET_SHARES_NONE && strcmp(text, "none") != 0)
        return tmk_fail(diag, TMK_FORMAT, "'same_scale' is none, input or all, not '%s'", text);
    return TMK_OK;
}

static enum tmk_status get_least_channels(const cJSON *entry, uint32_t *out,
                                          struct tmk_diag *diag) {
    const cJSON *item = tmk_json_member(entry, "least_channels");
    if (item && !(cJSON_IsNumber(item) && item->valuedouble >= 1 && item->valuedouble <= 65536))
        return tmk_fail(diag, TMK_FORMAT, "'least_channels' is no number of channels");
    *out = item ? (uint32_t)item->valuedouble : 0;
    return TMK_OK;
}

static enum tmk_status add_rows(struct tmk_target *target, const cJSON *tree, const cJSON *entry,
                                struct tmk_diag *diag) {
    static const char *const keys[] = {"op", "source", "same_scale", "least_channels", LIMIT_KEYS};
    struct tmk_target_row row = {0};
    const char **ops;
    uint32_t n;
    TMK_TRY(tmk_json_keys(entry, keys, TMK_COUNT(keys), true, diag));
    TMK_TRY(check_source(tree, entry, diag));
    TMK_TRY(tmk_json_texts(entry, "op", "operator types", &target->arena, &ops, &n, diag));
    TMK_TRY(check_operators(ops, n, diag));
    memcpy(row.limits, target->defaults, sizeof row.limits);
    TMK_TRY(get_limits(entry, row.limits, diag));
    TMK_TRY(get_sharing(entry, &row.sharing, diag));
    TMK_TRY(get_least_channels(entry, &row.least_channels, diag));
    for (uint32_t i = 0; i < n; i++) {
        if (tmk_target_find_row(target, ops[i]))
            return tmk_fail(diag, TMK_FORMAT, "%s has an entry already", ops[i]);
        row.op = ops[i];
        target->rows[target->n_rows++] = row;
    }
    return TMK_OK;
}

/* They compute nothing of elements, so that no target's table lists them. */
static const char *const no_operators[] = {"Identity", "Dropout", "Shape", "Size"};

static void add_no_operators(struct tmk_target *target) {
    for (size_t i = 0; i < TMK_COUNT(no_operators); i++) {
        struct tmk_target_row row = {.op = no_operators[i], .sharing = TMK_TARGET_SHARES_INPUT};
        memcpy(row.limits, target->defaults, sizeof row.limits);
        if (!tmk_target_find_row(target, row.op))
            target->rows[target->n_rows++] = row;
    }
}

static enum tmk_status get_operators(struct tmk_target *target, const cJSON *tree,
                                     struct tmk_diag *diag) {
    const cJSON *array, *entry;
    size_t n = 0;
    uint32_t at = 0;
    TMK_TRY(tmk_json_array(tree, "operators", &array, diag));
    cJSON_ArrayForEach(entry, array) {
        n += (size_t)cJSON_GetArraySize(tmk_json_member(entry, "op"));
    }
    target->rows =
        tmk_arena_array(&target->arena, n + TMK_COUNT(no_operators), sizeof *target->rows);
    TMK_TRY_ALLOC(target->rows, diag);
    cJSON_ArrayForEach(entry, array) {
        TMK_TRY(tmk_in(diag, add_rows(target, tree, entry, diag), "operators[%" PRIu32 "]", at));
        at++;
    }
    add_no_operators(target);
    return TMK_OK;
}

static enum tmk_status get_pair(struct tmk_target *target, const cJSON *tree, const cJSON *entry,
                                struct tmk_diag *diag) {
    static const char *const keys[] = {"op", "source"};
    static const char what[] = "two operator types";
    const char **ops;
    uint32_t n;
    TMK_TRY(tmk_json_keys(entry, keys, TMK_COUNT(keys), true, diag));
    TMK_TRY(check_source(tree, entry, diag));
    TMK_TRY(tmk_json_texts(entry, "op", what, &target->arena, &ops, &n, diag));
    if (n != 2)
        return tmk_fail(diag, TMK_FORMAT, "'op' is not a list of %s", what);
    TMK_TRY(check_operators(ops, n, diag));
    memcpy(target->fused[target->n_fused++], ops, sizeof *target->fused);
    return TMK_OK;
}

static enum tmk_status get_fused(struct tmk_target *target, const cJSON *tree,
                                 struct tmk_diag *diag) {
    const cJSON *array, *entry;
    if (!tmk_json_member(tree, "fused"))
        return TMK_OK;
    TMK_TRY(tmk_json_array(tree, "fused", &array, diag));
    target->fused =
        tmk_arena_array(&target->arena, (size_t)cJSON_GetArraySize(array), sizeof *target->fused);
    TMK_TRY_ALLOC(target->fused, diag);
    cJSON_ArrayForEach(entry, array) {
        TMK_TRY(tmk_in(diag, get_pair(target, tree, entry, diag), "fused[%" PRIu32 "]",
                       target->n_fused));
    }
    return TMK_OK;
}

/* ---- the file ---- */

static enum tmk_status get_target(struct tmk_target *target, const cJSON *tree,
                                  struct tmk_diag *diag) {
    static const char *const keys[] = {"format",   "name",      "title", "sources", "exports",
                                       "defaults", "operators", "fused", "config"};
    static const char *const default_keys[] = {LIMIT_KEYS};
    const char *format;
    const cJSON *defaults, *config = tmk_json_member(tree, "config");
    TMK_TRY(tmk_json_text(tree, "format", &format, diag));
    if (strcmp(format, FORMAT_NAME) != 0)
        return tmk_fail(diag, TMK_FORMAT, "'format' is '%s', not '" FORMAT_NAME "'", format);
    TMK_TRY(tmk_json_keys(tree, keys, TMK_COUNT(keys), true, diag));
    TMK_TRY(keep_member(target, tree, "name", &target->name, diag));
    TMK_TRY(keep_member(target, tree, "title", &target->title, diag));
    TMK_TRY(tmk_json_texts(tree, "exports", "formats", &target->arena, &target->exports,
                           &target->n_exports, diag));
    if (!target->n_exports)
        return tmk_fail(diag, TMK_FORMAT, "'exports' names no format");
    TMK_TRY(tmk_json_object(tree, "defaults", &defaults, diag));
    TMK_TRY(tmk_in(diag, tmk_json_keys(defaults, default_keys, TMK_COUNT(default_keys), true, diag),
                   "'defaults'"));
    for (int role = 0; role < 3; role++)
        target->defaults[role].tensor = true;
    target->defaults[TMK_ENCODING_BIAS].channel = true;
    TMK_TRY(tmk_in(diag, get_limits(defaults, target->defaults, diag), "'defaults'"));
    TMK_TRY(get_operators(target, tree, diag));
    TMK_TRY(get_fused(target, tree, diag));
    if (!config)
        return TMK_OK;
    target->config = cJSON_Duplicate(config, true);
    return target->config ? TMK_OK : tmk_nomem(diag);
}

static enum tmk_status make_target(const cJSON *tree, struct tmk_target **out,
                                   struct tmk_diag *diag) {
    struct tmk_target *target = calloc(1, sizeof *target);
    TMK_TRY_ALLOC(target, diag);
    enum tmk_status status = get_target(target, tree, diag);
    if (status == TMK_OK)
        *out = target;
    else
        tmk_target_close(&target);
    return status;
}

static enum tmk_status open_file(const char *path, struct tmk_target **out, struct tmk_diag *diag) {
    struct tmk_json_file file;
    TMK_TRY(tmk_json_file_open(path, &file, diag));
    enum tmk_status status = tmk_in(diag, make_target(file.tree, out, diag), "%s", path);
    tmk_json_file_close(&file);
    return status;
}

static enum tmk_status open_text(const struct tmk_target_text *built_in, struct tmk_target **out,
                                 struct tmk_diag *diag) {
    cJSON *tree = NULL;
    locale_t locale[2];
    TMK_TRY(tmk_locale_begin(locale, diag));
    enum tmk_status status = tmk_json_parse(built_in->text, strlen(built_in->text), &tree, diag);
    TMK_THEN(status, tmk_in(diag, make_target(tree, out, diag), "target %s", built_in->name));
    cJSON_Delete(tree);
    tmk_locale_end(locale);
    return status;
}

/* The first NAME.json in the folders of the environment variable. */
static bool find_file(const char *name, struct tmk_text *path) {
    const char *folders = getenv("TIDEMARK_TARGETS");
    while (folders && *folders) {
        const size_t len = strcspn(folders, ":");
        tmk_text_finish(path);
        *path = (struct tmk_text){0};
        tmk_text_printf(path, "%.*s/%s.json", (int)len, folders, name);
        if (len && !path->failed && access(path->data, R_OK) == 0)
            return true;
        folders += len + (folders[len] == ':');
    }
    return false;
}

static enum tmk_status fail_name(const char *name, struct tmk_diag *diag) {
    struct tmk_known known = {.guess.wanted = name};
    for (const struct tmk_target_text *t = tmk_target_texts; t->name; t++)
        tmk_known_add(&known, t->name);
    return tmk_fail(diag, TMK_ARGUMENT,
                    "there is no target '%s'%s; there are %s, and files: NAME.json", name,
                    known.meant, known.names);
}

enum tmk_status tmk_target_open(const char *name, struct tmk_target **out, struct tmk_diag *diag) {
    const size_t len = strlen(name);
    struct tmk_text path = {0};
    if (strchr(name, '/') || (len > 5 && strcmp(name + len - 5, ".json") == 0))
        return open_file(name, out, diag);
    enum tmk_status status = TMK_NOTFOUND;
    if (find_file(name, &path))
        status = open_file(path.data, out, diag);
    for (const struct tmk_target_text *t = tmk_target_texts; status == TMK_NOTFOUND && t->name; t++)
        if (strcmp(t->name, name) == 0)
            status = open_text(t, out, diag);
    tmk_text_finish(&path);
    return status == TMK_NOTFOUND ? fail_name(name, diag) : status;
}

void tmk_target_close(struct tmk_target **target) {
    if (*target) {
        cJSON_Delete((*target)->config);
        tmk_arena_finish(&(*target)->arena);
    }
    free(*target);
    *target = NULL;
}

/* ---- queries ---- */

const char *tmk_target_name(const struct tmk_target *target) {
    return target->name;
}

const char *tmk_target_title(const struct tmk_target *target) {
    return target->title;
}

const char *tmk_target_export(const struct tmk_target *target, size_t i) {
    return i < target->n_exports ? target->exports[i] : NULL;
}

const char *tmk_target_built_in(size_t i) {
    size_t n = 0;
    while (n < i && tmk_target_texts[n].name)
        n++;
    return tmk_target_texts[n].name;
}

const struct tmk_target_row *tmk_target_find_row(const struct tmk_target *target, const char *op) {
    for (uint32_t i = 0; target && i < target->n_rows; i++)
        if (strcmp(target->rows[i].op, op) == 0)
            return &target->rows[i];
    return NULL;
}

bool tmk_target_fuses(const struct tmk_target *target, const char *first, const char *second) {
    for (uint32_t i = 0; i < target->n_fused; i++)
        if (strcmp(target->fused[i][0], first) == 0 && strcmp(target->fused[i][1], second) == 0)
            return true;
    return false;
}
