/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ptrmap.h"

#include <stdint.h>
#include <stdlib.h>

struct tmk_ptrmap_slot {
    const void *key;
    void *value;
};

static struct tmk_ptrmap_slot *find_slot(struct tmk_ptrmap_slot *slots, size_t size,
                                         const void *key) {
    /* Fibonacci hashing: pointers differ in their middle bits */
    size_t i = (size_t)(((uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u) >> 20) & (size - 1);
    while (slots[i].key && slots[i].key != key)
        i = (i + 1) & (size - 1);
    return &slots[i];
}

static bool grow_table(struct tmk_ptrmap *map) {
    size_t size = map->size ? map->size * 2 : 64;
    struct tmk_ptrmap_slot *slots = calloc(size, sizeof *slots);
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

bool tmk_ptrmap_put(struct tmk_ptrmap *map, const void *key, void *value) {
    if (map->used * 4 >= map->size * 3 && !grow_table(map))
        return false;
    struct tmk_ptrmap_slot *slot = find_slot(map->slots, map->size, key);
    if (!slot->key)
        map->used++;
    slot->key = key;
    slot->value = value;
    return true;
}

void *tmk_ptrmap_get(const struct tmk_ptrmap *map, const void *key) {
    return map->size && key ? find_slot(map->slots, map->size, key)->value : NULL;
}

void tmk_ptrmap_finish(struct tmk_ptrmap *map) {
    free(map->slots);
    *map = (struct tmk_ptrmap){0};
}
