/* SPDX-License-Identifier: Apache-2.0 */
/* A hash map from pointers to pointers. Not thread-safe. */
#ifndef TMK_BASE_PTRMAP_H
#define TMK_BASE_PTRMAP_H

#include "base/map.h"

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
