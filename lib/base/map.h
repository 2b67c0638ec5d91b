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

/* A hash map from pointers to pointers. Not thread-safe. */

/* Zero-initialised is an empty map. */
struct tmk_ptrmap {
    struct tmk_map map; /* keys are compared as they are */
};

/* Adds or replaces; key and value are not NULL. False when memory ran out; the map is as it was. */
bool tmk_ptrmap_put(struct tmk_ptrmap *map, const void *key, void *value);
/* NULL when absent; NULL is never a key. */
void *tmk_ptrmap_get(const struct tmk_ptrmap *map, const void *key);
void tmk_ptrmap_finish(struct tmk_ptrmap *map);

#endif
