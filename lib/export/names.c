/* SPDX-License-Identifier: Apache-2.0 */
#include "export/names.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/json.h"
#include "base/map.h"
#include "base/memory.h"

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
    if (status == TMK_OK)
        status = read_members(&r, object);
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
