/* SPDX-License-Identifier: Apache-2.0 */
/* A hash map from strings to pointers. Not thread-safe. */
#ifndef TMK_BASE_MAP_H
#define TMK_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>

/* Zero-initialised is an empty map. Keys are borrowed: they must outlive the map. */
struct tmk_map {
    struct tmk_map_slot *slots;
    size_t used, size;
};

/* Adds or replaces. False when memory ran out; the map is as it was. `value` must not be NULL. */
bool tmk_map_put(struct tmk_map *map, const char *key, void *value);
/* NULL when absent. */
void *tmk_map_get(const struct tmk_map *map, const char *key);
void tmk_map_finish(struct tmk_map *map);

#endif
