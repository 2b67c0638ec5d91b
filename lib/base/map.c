/* SPDX-License-Identifier: Apache-2.0 */
/* Maps from strings and from pointers, which differ in hashing and comparing. */
#include "base/map.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

struct tmk_map_slot {
    const void *key;
    void *value;
};

static inline struct tmk_map_slot *find_slot(const struct tmk_map *map, const void *key,
                                             bool text) {
    /* Fibonacci hashing: pointers differ in their middle bits */
    uint64_t hash = text ? tmk_hash64(key, strlen(key), 0)
                         : ((uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u) >> 20;
    size_t i = (size_t)hash & (map->size - 1);
    while (map->slots[i].key &&
           (text ? strcmp(map->slots[i].key, key) != 0 : map->slots[i].key != key))
        i = (i + 1) & (map->size - 1);
    return &map->slots[i];
}

static inline bool put_entry(struct tmk_map *map, const void *key, void *value, bool text) {
    if (map->used * 4 >= map->size * 3) {
        struct tmk_map larger = {.used = map->used, .size = map->size ? map->size * 2 : 64};
        larger.slots = calloc(larger.size, sizeof *larger.slots);
        if (!larger.slots)
            return false;
        for (size_t i = 0; i < map->size; i++)
            if (map->slots[i].key)
                *find_slot(&larger, map->slots[i].key, text) = map->slots[i];
        free(map->slots);
        *map = larger;
    }
    struct tmk_map_slot *slot = find_slot(map, key, text);
    if (!slot->key)
        map->used++;
    *slot = (struct tmk_map_slot){key, value};
    return true;
}

bool tmk_map_put(struct tmk_map *map, const char *key, void *value) {
    return put_entry(map, key, value, true);
}

void *tmk_map_get(const struct tmk_map *map, const char *key) {
    return map->size ? find_slot(map, key, true)->value : NULL;
}

void tmk_map_finish(struct tmk_map *map) {
    free(map->slots);
    *map = (struct tmk_map){0};
}

bool tmk_ptrmap_put(struct tmk_ptrmap *map, const void *key, void *value) {
    return put_entry(&map->map, key, value, false);
}

void *tmk_ptrmap_get(const struct tmk_ptrmap *map, const void *key) {
    return map->map.size && key ? find_slot(&map->map, key, false)->value : NULL;
}

void tmk_ptrmap_finish(struct tmk_ptrmap *map) {
    tmk_map_finish(&map->map);
}
