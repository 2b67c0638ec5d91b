/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

struct tmk_map_slot {
    const char *key;
    void *value;
};

static struct tmk_map_slot *find_slot(struct tmk_map_slot *slots, size_t size, const char *key) {
    size_t i = (size_t)tmk_hash64(key, strlen(key), 0) & (size - 1);
    while (slots[i].key && strcmp(slots[i].key, key) != 0)
        i = (i + 1) & (size - 1);
    return &slots[i];
}

static bool grow_table(struct tmk_map *map) {
    size_t size = map->size ? map->size * 2 : 64;
    struct tmk_map_slot *slots = calloc(size, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < map->size; i++)
        if (map->slots[i].key)
            *find_slot(slots, size, map->slots[i].key) = map->slots[i];
    free(map->slots);
    map->slots = slots;
    map->size = size;
    return true;
}

bool tmk_map_put(struct tmk_map *map, const char *key, void *value) {
    if (map->used * 4 >= map->size * 3 && !grow_table(map))
        return false;
    struct tmk_map_slot *slot = find_slot(map->slots, map->size, key);
    if (!slot->key)
        map->used++;
    slot->key = key;
    slot->value = value;
    return true;
}

void *tmk_map_get(const struct tmk_map *map, const char *key) {
    return map->size ? find_slot(map->slots, map->size, key)->value : NULL;
}

void tmk_map_finish(struct tmk_map *map) {
    free(map->slots);
    *map = (struct tmk_map){0};
}
