/* SPDX-License-Identifier: Apache-2.0 */
/* relay.save_param_dict's bytes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/map.h"
#include "relay/record.h"

#define PARAMS_MAGIC UINT64_C(0xF7E58D4F05049CB7)

enum tmk_status tmk_relay_params_create(struct tmk_relay_params **out, struct tmk_diag *diag) {
    *out = calloc(1, sizeof **out);
    return *out ? TMK_OK : tmk_nomem(diag);
}

void tmk_relay_params_destroy(struct tmk_relay_params **params) {
    struct tmk_relay_params *gone = *params;
    if (!gone)
        return;
    for (uint32_t i = 0; i < gone->n; i++)
        tmk_tensor_finish(&gone->items[i].tensor);
    tmk_arena_finish(&gone->arena);
    free(gone);
    *params = NULL;
}

/* Room for one more behind the last. */
static enum tmk_status grow_items(struct tmk_relay_params *params, struct tmk_diag *diag) {
    if (params->n < params->size)
        return TMK_OK;
    uint32_t size = params->size ? params->size * 2 : 16;
    struct tmk_relay_param *items = tmk_arena_array(&params->arena, size, sizeof *items);
    TMK_TRY_ALLOC(items, diag);
    if (params->n)
        memcpy(items, params->items, params->n * sizeof *items);
    params->items = items;
    params->size = size;
    return TMK_OK;
}

enum tmk_status tmk_relay_params_add(struct tmk_relay_params *params, const char *name,
                                     const struct tmk_tensor *tensor, struct tmk_diag *diag) {
    TMK_TRY(grow_items(params, diag));
    struct tmk_relay_param *item = &params->items[params->n];
    item->name = tmk_arena_strdup(&params->arena, name);
    TMK_TRY_ALLOC(item->name, diag);
    TMK_TRY(tmk_in(diag, tmk_relay_record_make(tensor, &params->arena, item, diag), "%s", name));
    params->n++;
    return TMK_OK;
}

/* The names come first, all together. */
static enum tmk_status read_names(struct tmk_relay_bytes *from, struct tmk_relay_params *params,
                                  struct tmk_map *names, uint32_t *n) {
    uint64_t count, len;
    size_t at = from->at;
    TMK_TRY(tmk_relay_field(from, 8, &count));
    if (count > (from->len - from->at) / (8 + TMK_RELAY_RECORD_MIN) || count > UINT32_MAX)
        return tmk_relay_bytes_fail(from, at, "%" PRIu64 " names do not fit into %zu bytes", count,
                                    from->len);
    params->items = tmk_arena_array(&params->arena, (size_t)count, sizeof *params->items);
    TMK_TRY_ALLOC(params->items, from->diag);
    params->size = (uint32_t)count;
    for (uint32_t i = 0; i < count; i++) {
        at = from->at;
        TMK_TRY(tmk_relay_field(from, 8, &len));
        if (len > from->len - from->at)
            return tmk_relay_bytes_fail(from, at, "a name of %" PRIu64 " bytes", len);
        const char *text = (const char *)from->bytes + from->at;
        if (memchr(text, '\0', (size_t)len))
            return tmk_relay_bytes_fail(from, at, "a zero byte in a name");
        struct tmk_relay_param *item = &params->items[i];
        item->name = tmk_arena_strndup(&params->arena, text, (size_t)len);
        TMK_TRY_ALLOC(item->name, from->diag);
        if (tmk_map_get(names, item->name))
            return tmk_relay_bytes_fail(from, at, "'%.200s' stands here twice", item->name);
        TMK_TRY_ALLOC(tmk_map_put(names, item->name, item), from->diag);
        from->at += (size_t)len;
    }
    *n = (uint32_t)count;
    return TMK_OK;
}

static enum tmk_status read_all(struct tmk_relay_bytes *from, struct tmk_relay_params *params,
                                struct tmk_map *names) {
    uint64_t value;
    uint32_t n;
    TMK_TRY(tmk_relay_field(from, 8, &value));
    if (value != PARAMS_MAGIC)
        return tmk_relay_bytes_fail(from, 0, "not a params file (relay.save_param_dict's)");
    TMK_TRY(tmk_relay_field(from, 8, &value));
    if (value)
        return tmk_relay_bytes_fail(from, 8, "a reserved field is not zero");
    TMK_TRY(read_names(from, params, names, &n));
    size_t at = from->at;
    TMK_TRY(tmk_relay_field(from, 8, &value));
    if (value != n)
        return tmk_relay_bytes_fail(from, at, "%" PRIu64 " tensors for %" PRIu32 " names", value,
                                    n);
    for (uint32_t i = 0; i < n; i++) {
        TMK_TRY(tmk_relay_record_read(from, &params->arena, &params->items[i]));
        params->n++;
    }
    if (from->at != from->len)
        return tmk_relay_bytes_fail(from, from->at, "%zu bytes behind the last tensor",
                                    from->len - from->at);
    return TMK_OK;
}

enum tmk_status tmk_relay_params_parse(const void *bytes, size_t len, const char *name,
                                       struct tmk_relay_params **out, struct tmk_diag *diag) {
    struct tmk_relay_params *params;
    struct tmk_map names = {0};
    struct tmk_relay_bytes from = {.bytes = bytes, .len = len, .name = name, .diag = diag};
    TMK_TRY(tmk_relay_params_create(&params, diag));
    enum tmk_status status = read_all(&from, params, &names);
    tmk_map_finish(&names);
    if (status != TMK_OK) {
        tmk_relay_params_destroy(&params);
        return status;
    }
    *out = params;
    return TMK_OK;
}

enum tmk_status tmk_relay_params_read(const char *path, struct tmk_relay_params **out,
                                      struct tmk_diag *diag) {
    struct tmk_buf *file;
    TMK_TRY(tmk_file_map(path, &file, diag));
    enum tmk_status status =
        tmk_relay_params_parse(tmk_buf_data(file), tmk_buf_size(file), path, out, diag);
    tmk_buf_unref(&file);
    return tmk_explain_file_kind(diag, status, path, TMK_FILE_PARAMS);
}

enum tmk_status tmk_relay_params_print(const struct tmk_relay_params *params, struct tmk_text *out,
                                       struct tmk_diag *diag) {
    tmk_relay_field_print(out, 8, PARAMS_MAGIC);
    tmk_relay_field_print(out, 8, 0);
    tmk_relay_field_print(out, 8, params->n);
    for (uint32_t i = 0; i < params->n; i++) {
        tmk_relay_field_print(out, 8, strlen(params->items[i].name));
        tmk_text_puts(out, params->items[i].name);
    }
    tmk_relay_field_print(out, 8, params->n);
    for (uint32_t i = 0; i < params->n; i++)
        tmk_relay_record_print(out, &params->items[i]);
    return out->failed ? tmk_nomem(diag) : TMK_OK;
}

static const struct tmk_relay_param *find_param(const struct tmk_relay_params *params,
                                                const char *name) {
    for (uint32_t i = 0; i < params->n; i++)
        if (!strcmp(params->items[i].name, name))
            return &params->items[i];
    return NULL;
}

const struct tmk_relay_param *tmk_relay_params_find(const struct tmk_relay_params *params,
                                                    const char *name) {
    const struct tmk_relay_param *exact = find_param(params, name);
    return exact || name[0] != 'v' ? exact : find_param(params, name + 1);
}
