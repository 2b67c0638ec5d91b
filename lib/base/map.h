/* SPDX-License-Identifier: Apache-2.0 */
/* A hash map from strings to pointers. Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* A set of numbers below n that is walked in order while it changes. Not thread-safe. */

#define TMK_NO_ID UINT32_MAX

enum { TMK_IDSET_LEVELS = 6 }; /* of 64 each: more than 32 bits */

struct tmk_idset {
    uint64_t *levels[TMK_IDSET_LEVELS]; /* bit i: is i in? A level up: is any bit of word i set? */
    uint32_t words[TMK_IDSET_LEVELS];
    int n_levels;
};

/* Empty. False when memory ran out; end with tmk_idset_finish in any case. */
bool tmk_idset_init(struct tmk_idset *set, uint32_t n);
void tmk_idset_finish(struct tmk_idset *set);

void tmk_idset_add(struct tmk_idset *set, uint32_t id);
void tmk_idset_remove(struct tmk_idset *set, uint32_t id);
/* The smallest that is at least `from`; TMK_NO_ID: none. */
uint32_t tmk_idset_up(const struct tmk_idset *set, uint32_t from);
/* The largest that is at most `from`, which is below n; TMK_NO_ID: none. */
uint32_t tmk_idset_down(const struct tmk_idset *set, uint32_t from);
