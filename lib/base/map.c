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

enum { BITS = 6, MASK = 63 };

bool tmk_idset_init(struct tmk_idset *set, uint32_t n) {
    *set = (struct tmk_idset){0};
    do {
        n = n / 64 + (n % 64 != 0 || n == 0);
        uint64_t *words = calloc(n, sizeof *words);
        if (!words)
            return false;
        set->words[set->n_levels] = n;
        set->levels[set->n_levels++] = words;
    } while (n > 1);
    return true;
}

void tmk_idset_finish(struct tmk_idset *set) {
    for (int i = 0; i < set->n_levels; i++)
        free(set->levels[i]);
    *set = (struct tmk_idset){0};
}

void tmk_idset_add(struct tmk_idset *set, uint32_t id) {
    for (int i = 0; i < set->n_levels; i++, id >>= BITS)
        set->levels[i][id >> BITS] |= UINT64_C(1) << (id & MASK);
}

void tmk_idset_remove(struct tmk_idset *set, uint32_t id) {
    for (int i = 0; i < set->n_levels; i++, id >>= BITS) {
        set->levels[i][id >> BITS] &= ~(UINT64_C(1) << (id & MASK));
        if (set->levels[i][id >> BITS])
            return;
    }
}

uint32_t tmk_idset_up(const struct tmk_idset *set, uint32_t from) {
    uint32_t at = from;
    for (int i = 0; i < set->n_levels && at >> BITS < set->words[i]; i++) {
        uint64_t rest = set->levels[i][at >> BITS] & (~UINT64_C(0) << (at & MASK));
        if (!rest) {
            at = (at >> BITS) + 1;
            continue;
        }
        at = (at & ~(uint32_t)MASK) | (uint32_t)__builtin_ctzll(rest);
        while (i-- > 0)
            at = at << BITS | (uint32_t)__builtin_ctzll(set->levels[i][at]);
        return at;
    }
    return TMK_NO_ID;
}

uint32_t tmk_idset_down(const struct tmk_idset *set, uint32_t from) {
    uint32_t at = from;
    for (int i = 0; i < set->n_levels; i++) {
        uint64_t rest = set->levels[i][at >> BITS] & (~UINT64_C(0) >> (MASK - (at & MASK)));
        if (rest) {
            at = (at & ~(uint32_t)MASK) | (MASK - (uint32_t)__builtin_clzll(rest));
            while (i-- > 0)
                at = at << BITS | (MASK - (uint32_t)__builtin_clzll(set->levels[i][at]));
            return at;
        }
        if (!(at >> BITS))
            return TMK_NO_ID;
        at = (at >> BITS) - 1;
    }
    return TMK_NO_ID;
}
