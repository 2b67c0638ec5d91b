/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings as data: their memory, their names, finding one. */
#include <tidemark/encodings.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/size.h"
#include "calib/grid.h"
#include "calib/item.h"
#include "tmk_version.h"

const char *tmk_encoding_role_name(enum tmk_encoding_role role) {
    static const char *const names[] = {
#define TMK_ENCODING_ROLE_TEXT(name, text) text,
        TMK_ENCODING_ROLE_LIST(TMK_ENCODING_ROLE_TEXT)
#undef TMK_ENCODING_ROLE_TEXT
    };
    return (size_t)role < sizeof names / sizeof *names ? names[role] : "?";
}

enum tmk_status tmk_encodings_create(struct tmk_encodings **out, struct tmk_diag *diag) {
    struct tmk_encodings *made = calloc(1, sizeof *made);
    if (!made)
        return tmk_nomem(diag);
    made->arena = calloc(1, sizeof *made->arena);
    if (!made->arena) {
        free(made);
        return tmk_nomem(diag);
    }
    made->version.major = TMK_ENCODINGS_MAJOR;
    made->version.minor = TMK_ENCODINGS_MINOR;
    made->producer.name = "tidemark";
    made->producer.version = TMK_VERSION;
    made->model.file = made->model.sha256 = made->model.format = "";
    *out = made;
    return TMK_OK;
}

void tmk_encodings_destroy(struct tmk_encodings **slot) {
    struct tmk_encodings *encodings = slot ? *slot : NULL;
    if (!encodings)
        return;
    *slot = NULL;
    tmk_arena_finish(encodings->arena);
    free(encodings->arena);
    free(encodings);
}

void *tmk_encodings_make(struct tmk_encodings *encodings, size_t count, size_t size) {
    return tmk_arena_array(encodings->arena, count, size);
}

const char *tmk_encodings_text(struct tmk_encodings *encodings, const char *text) {
    return tmk_arena_strdup(encodings->arena, text);
}

static bool is_of(const struct tmk_encoding *encoding, const char *node, uint32_t input) {
    for (uint32_t i = 0; i < encoding->n_uses; i++)
        if (encoding->uses[i].input == input && strcmp(encoding->uses[i].node, node) == 0)
            return true;
    return false;
}

const struct tmk_encoding *tmk_encodings_find(const struct tmk_encodings *encodings, uint32_t id,
                                              const char *node, uint32_t input) {
    uint32_t low = 0, high = encodings->n_items;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (encodings->items[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    const struct tmk_encoding *found = NULL;
    for (; low < encodings->n_items && encodings->items[low].id == id; low++) {
        const struct tmk_encoding *item = &encodings->items[low];
        if (item->n_uses == 0 ? !found : node && is_of(item, node, input))
            found = item;
        if (found && found->n_uses)
            return found;
    }
    return found;
}

void tmk_encoding_codes(const struct tmk_encoding *encoding, int32_t *lowest, int32_t *highest) {
    const struct tmk_grid grid = {encoding->dtype, encoding->symmetric, encoding->narrow,
                                  encoding->pow2};
    if (!tmk_grid_codes(&grid, lowest, highest))
        *lowest = *highest = 0;
}

enum tmk_status tmk_encoding_allocate(struct tmk_encodings *encodings, struct tmk_encoding *e,
                                      uint32_t n, struct tmk_diag *diag) {
    float **const floats[] = {&e->scale, &e->low, &e->high, &e->clip_min, &e->clip_max};
    for (size_t i = 0; i < TMK_COUNT(floats); i++) {
        *floats[i] = tmk_encodings_make(encodings, n, sizeof **floats[i]);
        if (!*floats[i])
            return tmk_nomem(diag);
    }
    e->zero_point = tmk_encodings_make(encodings, n, sizeof *e->zero_point);
    if (!e->zero_point)
        return tmk_nomem(diag);
    e->n = n;
    return TMK_OK;
}

bool tmk_scale_layout_init(struct tmk_scale_layout *layout, const struct tmk_encoding *e,
                           const struct tmk_shape *shape) {
    struct tmk_scale_layout l = {.inner = 1, .dim = 1, .block = e->block};
    size_t count;
    *layout = l;
    if (e->axis < 0)
        return e->n == 1;
    if (e->axis >= shape->rank || !tmk_shape_count(shape, &count))
        return false;
    l.dim = (size_t)shape->dim[e->axis];
    for (int32_t i = e->axis + 1; i < shape->rank; i++)
        l.inner *= (size_t)shape->dim[i];
    if (!count) { /* no element asks for its scale */
        l.inner = l.dim = 1;
        *layout = l;
        return true;
    }
    if (l.block)
        l.blocks = l.dim / l.block + (l.dim % l.block != 0);
    *layout = l;
    return l.block ? count / l.dim * l.blocks == e->n : l.dim == e->n;
}

/* Where a range ends near the end of float32, its outermost codes stand for more than that: a
 * rounded scale times their distance. Such an end is that of float32. */
static float real_end(double scale, double distance) {
    return (float)fmin(fmax(scale * distance, -FLT_MAX), FLT_MAX);
}

void tmk_encoding_reals(const struct tmk_encoding *e, uint32_t i, float *lowest, float *highest) {
    int32_t low, high;
    double most = tmk_grid_float8_max(e->dtype), scale = (double)e->scale[i];
    tmk_encoding_codes(e, &low, &high);
    *lowest = real_end(scale, most > 0 ? -most : (double)low - e->zero_point[i]);
    *highest = real_end(scale, most > 0 ? most : (double)high - e->zero_point[i]);
}

void tmk_encoding_set_clip(struct tmk_encoding *e) {
    for (uint32_t i = 0; i < e->n; i++)
        tmk_encoding_reals(e, i, &e->clip_min[i], &e->clip_max[i]);
}

enum tmk_status tmk_encodings_keep(struct tmk_encodings *encodings, const char *text,
                                   const char **out, struct tmk_diag *diag) {
    const char *kept = tmk_encodings_text(encodings, text);
    if (!kept)
        return tmk_nomem(diag);
    *out = kept;
    return TMK_OK;
}

int32_t tmk_encoding_middle(enum tmk_dtype dtype) {
    int32_t lowest, highest;
    const struct tmk_grid grid = {.dtype = dtype};
    if (!tmk_grid_codes(&grid, &lowest, &highest) || lowest < 0)
        return 0;
    return highest / 2 + 1;
}
