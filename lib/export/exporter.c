/* SPDX-License-Identifier: Apache-2.0 */
#include "export/exporter.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/json.h"
#include "base/map.h"
#include "base/memory.h"

const struct tmk_encoding *tmk_export_encoding(const struct tmk_encodings *encodings,
                                               const struct tmk_node *node, uint32_t at) {
    const struct tmk_value *value = tmk_node_input(node, at);
    char key[24] = "";
    if (!value || value->profile_id < 0)
        return NULL;
    for (uint32_t i = 0; !*key && i < node->n_outputs; i++)
        if (node->outputs[i])
            snprintf(key, sizeof key, "p%" PRId64, node->outputs[i]->profile_id);
    return tmk_encodings_find(encodings, (uint32_t)value->profile_id,
                              *node->name ? node->name : key, at);
}

const char *tmk_export_name(const struct tmk_export_job *job, uint32_t id, const char *original) {
    return tmk_export_name_at(job, id, original, 0);
}

const char *tmk_export_name_at(const struct tmk_export_job *job, uint32_t id, const char *original,
                               uint32_t i) {
    if (job->names) {
        const char *mapped = tmk_export_names_get(job->names, id, i);
        if (mapped || !job->names->keep || tmk_export_names_get(job->names, id, 0))
            return mapped;
    }
    return i == 0 && original[0] ? original : NULL;
}

const char *tmk_export_setting(const struct tmk_export_job *job, const char *key,
                               const char *otherwise) {
    size_t len = strlen(key);
    for (size_t i = job->n_settings; i-- > 0;)
        if (strncmp(job->settings[i], key, len) == 0 && job->settings[i][len] == '=')
            return job->settings[i] + len + 1;
    return otherwise;
}

void tmk_export_remark(const struct tmk_export_job *job, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    tmk_pass_remark(job->remark, job->context, fmt, args);
    va_end(args);
}

enum tmk_status tmk_export_write(const struct tmk_export_job *job, const struct tmk_text *text,
                                 struct tmk_diag *diag) {
    TMK_TRY_ALLOC(!text->failed, diag);
    TMK_TRY(tmk_export_ready(job, diag));
    return tmk_file_write(job->path, text->data ? text->data : "", text->len, diag);
}

/* ---- two files ---- */

char *tmk_export_bin_path(const char *path, const char *suffix) {
    size_t len = strlen(path), tail = strlen(suffix);
    size_t stem = len > tail && strcmp(path + len - tail, suffix) == 0 ? len - tail : len;
    char *out;
    return asprintf(&out, "%.*s.bin", (int)stem, path) < 0 ? NULL : out;
}

enum tmk_status tmk_export_write_pair(const struct tmk_export_job *job, const char *suffix,
                                      const struct tmk_text *text, const struct tmk_text *bin,
                                      struct tmk_diag *diag) {
    TMK_TRY(tmk_export_ready(job, diag));
    char *beside = text->failed || bin->failed ? NULL : tmk_export_bin_path(job->path, suffix);
    const struct tmk_file_content files[] = {{beside, bin->data, bin->len},
                                             {job->path, text->data, text->len}};
    enum tmk_status status = beside ? tmk_files_write(files, 2, diag) : tmk_nomem(diag);
    free(beside);
    return status;
}

/* ---- the consumer's names ---- */

struct reading {
    const struct tmk_encodings *encodings;
    struct tmk_map ids;   /* "p12" and original names -> an entry's id */
    struct tmk_map taken; /* the consumer's names */
    struct tmk_export_names *names;
    struct tmk_diag *diag;
};

static enum tmk_status know_key(struct reading *r, const char *key, const uint32_t *id) {
    if (!key[0] || tmk_map_get(&r->ids, key))
        return TMK_OK;
    return tmk_map_put(&r->ids, key, (void *)id) ? TMK_OK : tmk_nomem(r->diag);
}

static enum tmk_status know_id(struct reading *r, const uint32_t *id) {
    char text[16];
    snprintf(text, sizeof text, "p%u", *id);
    const char *key = tmk_arena_strdup(&r->names->arena, text);
    return key ? know_key(r, key, id) : tmk_nomem(r->diag);
}

static enum tmk_status know_all(struct reading *r) {
    const struct tmk_encodings *e = r->encodings;
    for (uint32_t i = 0; i < e->n_items; i++)
        TMK_TRY(know_id(r, &e->items[i].id));
    for (uint32_t i = 0; i < e->n_left; i++)
        TMK_TRY(know_id(r, &e->left[i].id));
    for (uint32_t i = 0; i < e->n_items; i++)
        TMK_TRY(know_key(r, e->items[i].name, &e->items[i].id));
    for (uint32_t i = 0; i < e->n_left; i++)
        TMK_TRY(know_key(r, e->left[i].name, &e->left[i].id));
    return TMK_OK;
}

static enum tmk_status add_name(struct reading *r, uint32_t id, uint32_t order, const cJSON *item) {
    struct tmk_export_names *names = r->names;
    if (!cJSON_IsString(item) || !item->valuestring[0])
        return tmk_fail(r->diag, TMK_FORMAT, "p%u: a name, or an array of names, was expected", id);
    char *name = tmk_arena_strdup(&names->arena, item->valuestring);
    TMK_TRY_ALLOC(name, r->diag);
    if (tmk_map_get(&r->taken, name))
        return tmk_fail(r->diag, TMK_FORMAT, "two values would be called '%s'", name);
    TMK_TRY_ALLOC(tmk_map_put(&r->taken, name, name), r->diag);
    names->items[names->n++] = (struct tmk_export_alias){id, order, name};
    return TMK_OK;
}

static enum tmk_status add_member(struct reading *r, const cJSON *member) {
    const uint32_t *id = tmk_map_get(&r->ids, member->string);
    uint32_t order = 0;
    const cJSON *item;
    if (!id) {
        if (!r->names->strangers++)
            r->names->stranger = tmk_arena_strdup(&r->names->arena, member->string);
        return TMK_OK;
    }
    if (!cJSON_IsArray(member))
        return add_name(r, *id, 0, member);
    cJSON_ArrayForEach(item, member) TMK_TRY(add_name(r, *id, order++, item));
    return TMK_OK;
}

static int by_id(const void *a, const void *b) {
    const struct tmk_export_alias *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static enum tmk_status read_members(struct reading *r, const cJSON *object) {
    size_t most = 0;
    const cJSON *member;
    cJSON_ArrayForEach(member, object) most +=
        cJSON_IsArray(member) ? (size_t)cJSON_GetArraySize(member) : 1;
    r->names->items = tmk_arena_array(&r->names->arena, most + 1, sizeof *r->names->items);
    TMK_TRY_ALLOC(r->names->items, r->diag);
    TMK_TRY(know_all(r));
    cJSON_ArrayForEach(member, object) TMK_TRY(add_member(r, member));
    struct tmk_export_alias *items = r->names->items;
    qsort(items, r->names->n, sizeof *items, by_id);
    for (size_t i = 1; i < r->names->n; i++)
        if (by_id(&items[i - 1], &items[i]) == 0)
            return tmk_fail(r->diag, TMK_FORMAT, "p%u is named twice, '%s' and '%s'", items[i].id,
                            items[i - 1].name, items[i].name);
    return TMK_OK;
}

enum tmk_status tmk_export_names_read(const char *path, const struct tmk_encodings *encodings,
                                      struct tmk_export_names *out, struct tmk_diag *diag) {
    struct tmk_export_names names = {0};
    struct reading r = {.encodings = encodings, .names = &names, .diag = diag};
    struct tmk_buf *file = NULL;
    cJSON *object = NULL;
    size_t held = 0;
    TMK_TRY(tmk_file_map(path, &file, diag));
    enum tmk_status status =
        tmk_json_parse_object(tmk_buf_data(file), tmk_buf_size(file), &object, &held, diag);
    TMK_THEN(status, read_members(&r, object));
    cJSON_Delete(object);
    tmk_memory_uncharge(held);
    tmk_buf_unref(&file);
    tmk_map_finish(&r.ids);
    tmk_map_finish(&r.taken);
    if (status == TMK_OK)
        *out = names;
    else
        tmk_export_names_finish(&names);
    return tmk_in(diag, status, "%s", path);
}

void tmk_export_names_finish(struct tmk_export_names *names) {
    tmk_arena_finish(&names->arena);
    *names = (struct tmk_export_names){0};
}

const char *tmk_export_names_get(const struct tmk_export_names *names, uint32_t id,
                                 uint32_t order) {
    const struct tmk_export_alias key = {id, order, NULL};
    const struct tmk_export_alias *found =
        names->n ? bsearch(&key, names->items, names->n, sizeof key, by_id) : NULL;
    return found ? found->name : NULL;
}
