/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings as data: their memory, their names, finding one. */
#include "calib/encodings.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/encodings.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/map.h"
#include "base/size.h"
#include "calib/grid.h"
#include "tmk_version.h"

const char *tmk_encoding_role_name(enum tmk_encoding_role role) {
    static const char *const names[] = {
#define TMK_ENCODING_ROLE_TEXT(name, text) text,
        TMK_ENCODING_ROLE_LIST(TMK_ENCODING_ROLE_TEXT)
#undef TMK_ENCODING_ROLE_TEXT
    };
    return (size_t)role < TMK_COUNT(names) ? names[role] : "?";
}

enum tmk_status tmk_encodings_create(struct tmk_encodings **out, struct tmk_diag *diag) {
    struct tmk_encodings *made = calloc(1, sizeof *made);
    TMK_TRY_ALLOC(made, diag);
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

static bool is_used_by(const struct tmk_encoding *encoding, const char *node, uint32_t input) {
    for (uint32_t i = 0; i < encoding->n_uses; i++)
        if (encoding->uses[i].input == input && strcmp(encoding->uses[i].node, node) == 0)
            return true;
    return false;
}

const struct tmk_encoding *tmk_encodings_find(const struct tmk_encodings *encodings, uint32_t id,
                                              const char *node, uint32_t input) {
    size_t low =
        tmk_lower_bound(encodings->items, encodings->n_items, sizeof *encodings->items, id);
    const struct tmk_encoding *found = NULL;
    for (; low < encodings->n_items && encodings->items[low].id == id; low++) {
        const struct tmk_encoding *item = &encodings->items[low];
        if (item->n_uses == 0 ? !found : node && is_used_by(item, node, input))
            found = item;
        if (found && found->n_uses)
            return found;
    }
    return found;
}

const struct tmk_left_float *tmk_encodings_left(const struct tmk_encodings *encodings,
                                                uint32_t id) {
    const size_t at =
        tmk_lower_bound(encodings->left, encodings->n_left, sizeof *encodings->left, id);
    return at < encodings->n_left && encodings->left[at].id == id ? &encodings->left[at] : NULL;
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
        TMK_TRY_ALLOC(*floats[i], diag);
    }
    e->zero_point = tmk_encodings_make(encodings, n, sizeof *e->zero_point);
    TMK_TRY_ALLOC(e->zero_point, diag);
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

/* The reals of the lowest and the highest code under the i-th scale. */
static void encoding_reals(const struct tmk_encoding *e, uint32_t i, float *lowest,
                           float *highest) {
    int32_t low, high;
    double most = tmk_grid_float8_max(e->dtype), scale = (double)e->scale[i];
    tmk_encoding_codes(e, &low, &high);
    *lowest = real_end(scale, most > 0 ? -most : (double)low - e->zero_point[i]);
    *highest = real_end(scale, most > 0 ? most : (double)high - e->zero_point[i]);
}

void tmk_encoding_set_clip(struct tmk_encoding *e) {
    for (uint32_t i = 0; i < e->n; i++)
        encoding_reals(e, i, &e->clip_min[i], &e->clip_max[i]);
}

enum tmk_status tmk_encoding_cover(struct tmk_encoding *e, float low, float high,
                                   struct tmk_one_scale *numbers, struct tmk_diag *diag) {
    const struct tmk_grid grid = {e->dtype, e->symmetric, e->narrow, e->pow2};
    numbers->low = low;
    numbers->high = high;
    TMK_TRY(tmk_grid_fit(&grid, low, high, &numbers->scale, &numbers->zero_point, diag));
    e->scale = &numbers->scale;
    e->zero_point = &numbers->zero_point;
    e->low = &numbers->low;
    e->high = &numbers->high;
    e->clip_min = &numbers->clip_min;
    e->clip_max = &numbers->clip_max;
    tmk_encoding_set_clip(e);
    return TMK_OK;
}

enum tmk_status tmk_encodings_keep(struct tmk_encodings *encodings, const char *text,
                                   const char **out, struct tmk_diag *diag) {
    const char *kept = tmk_encodings_text(encodings, text);
    TMK_TRY_ALLOC(kept, diag);
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

bool tmk_encoding_is_type(enum tmk_dtype dtype) {
    int32_t lowest, highest;
    const struct tmk_grid grid = {.dtype = dtype};
    return tmk_grid_float8_max(dtype) > 0 || tmk_grid_codes(&grid, &lowest, &highest);
}

static bool is_pow2(float scale) {
    int exponent;
    return frexpf(scale, &exponent) == 0.5f;
}

enum tmk_status tmk_encoding_check_scales(const struct tmk_encoding *e, struct tmk_diag *diag) {
    int32_t lowest, highest, middle = tmk_encoding_middle(e->dtype);
    if (!tmk_encoding_is_type(e->dtype))
        return tmk_fail(diag, TMK_FORMAT, "'dtype': nothing is quantized to %s",
                        tmk_dtype_name(e->dtype));
    if (e->axis < 0 && e->n != 1)
        return tmk_fail(diag, TMK_FORMAT, "'axis' is null, but there are %" PRIu32 " scales", e->n);
    if (e->block && (e->axis < 0 || e->role != TMK_ENCODING_WEIGHT))
        return tmk_fail(diag, TMK_FORMAT, "'block': only weights have blocks, and along an axis");
    tmk_encoding_codes(e, &lowest, &highest);
    for (uint32_t i = 0; i < e->n; i++) {
        if (!(e->scale[i] > 0 && isfinite(e->scale[i])))
            return tmk_fail(diag, TMK_FORMAT, "'scale': entry %" PRIu32 " is not above 0", i);
        if (e->pow2 && !is_pow2(e->scale[i]))
            return tmk_fail(diag, TMK_FORMAT, "'scale': entry %" PRIu32 " is no power of two", i);
        if (e->zero_point[i] < lowest || e->zero_point[i] > highest)
            return tmk_fail(diag, TMK_FORMAT,
                            "'zero_point': entry %" PRIu32 " is no code of %s (%" PRId32
                            " to %" PRId32 ")",
                            i, tmk_dtype_name(e->dtype), lowest, highest);
        if (e->symmetric && e->zero_point[i] != middle)
            return tmk_fail(diag, TMK_FORMAT,
                            "'zero_point': entry %" PRIu32 " is %" PRId32
                            ", but symmetric %s has %" PRId32,
                            i, e->zero_point[i], tmk_dtype_name(e->dtype), middle);
    }
    return TMK_OK;
}

/* Hand-made files may round: within a thousandth of a step, or of what float32 holds. */
static bool nearly_equal(float given, float follows, float scale) {
    return fabsf(given - follows) <= fmaxf(scale * 1e-3f, fabsf(follows) * 1e-6f);
}

static enum tmk_status check_ranges(const struct tmk_encoding *e, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < e->n; i++) {
        float lowest, highest;
        encoding_reals(e, i, &lowest, &highest);
        if (!nearly_equal(e->clip_min[i], lowest, e->scale[i]))
            return tmk_fail(diag, TMK_FORMAT,
                            "'clip_min': entry %" PRIu32
                            " is not what scale and zero point give (%.9g)",
                            i, (double)lowest);
        if (!nearly_equal(e->clip_max[i], highest, e->scale[i]))
            return tmk_fail(diag, TMK_FORMAT,
                            "'clip_max': entry %" PRIu32
                            " is not what scale and zero point give (%.9g)",
                            i, (double)highest);
        if (!(e->low[i] <= e->high[i]))
            return tmk_fail(diag, TMK_FORMAT, "'low': entry %" PRIu32 " is above 'high'", i);
    }
    if (!(e->observed_min <= e->observed_max))
        return tmk_fail(diag, TMK_FORMAT, "'observed_min' is above 'observed_max'");
    return TMK_OK;
}

static enum tmk_status check_item(const struct tmk_encoding *e, struct tmk_diag *diag) {
    int32_t lowest, highest;
    tmk_encoding_codes(e, &lowest, &highest);
    if (e->narrow && lowest >= 0)
        return tmk_fail(diag, TMK_FORMAT, "'narrow': %s has no sign", tmk_dtype_name(e->dtype));
    if (e->role == TMK_ENCODING_BIAS ? e->n_sources != 0 && e->n_sources != 2 : e->n_sources != 0)
        return tmk_fail(diag, TMK_FORMAT,
                        "'sources': a bias has two, input and weight, or none; others have none");
    return check_ranges(e, diag);
}

static enum tmk_status check_items(const struct tmk_encodings *all, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < all->n_items; i++) {
        const struct tmk_encoding *e = &all->items[i], *last = i ? e - 1 : NULL;
        TMK_TRY(
            tmk_in(diag, check_item(e, diag), "encodings[%" PRIu32 "] (p%" PRIu32 ")", i, e->id));
        if (last && e->id < last->id)
            return tmk_fail(diag, TMK_FORMAT,
                            "encodings[%" PRIu32 "]: 'id' is p%" PRIu32 " behind p%" PRIu32
                            "; IDs ascend",
                            i, e->id, last->id);
        if (last && e->id == last->id && !last->n_uses)
            return tmk_fail(diag, TMK_FORMAT,
                            "encodings[%" PRIu32 "]: a second of p%" PRIu32
                            " behind one for all its readers",
                            i, e->id);
    }
    return TMK_OK;
}

static enum tmk_status check_left(const struct tmk_encodings *all, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < all->n_left; i++) {
        const struct tmk_left_float *left = &all->left[i];
        if (i && left->id <= left[-1].id)
            return tmk_fail(diag, TMK_FORMAT,
                            "left[%" PRIu32 "]: 'id' is p%" PRIu32 " behind p%" PRIu32
                            "; IDs ascend",
                            i, left->id, left[-1].id);
        if (left->observed_min > left->observed_max ||
            isnan(left->observed_min) != isnan(left->observed_max))
            return tmk_fail(diag, TMK_FORMAT,
                            "left[%" PRIu32 "]: 'observed_min' is above 'observed_max', or one of "
                            "them is missing",
                            i);
        if (tmk_encodings_find(all, left->id, NULL, 0))
            return tmk_fail(diag, TMK_FORMAT,
                            "left[%" PRIu32 "]: p%" PRIu32 " has an encoding for all its readers",
                            i, left->id);
    }
    return TMK_OK;
}

static enum tmk_status check_requant(const struct tmk_encodings *all, const struct tmk_requant *r,
                                     struct tmk_diag *diag) {
    for (uint32_t i = 0; i < r->n; i++) {
        bool zero = r->multiplier[i] == 0 && r->shift[i] == 0;
        if (!zero && r->multiplier[i] < INT32_C(1) << 30)
            return tmk_fail(diag, TMK_FORMAT, "'multiplier': entry %" PRIu32 " is not 2^30 or more",
                            i);
        if (!zero && all->pow2_requant && r->multiplier[i] != INT32_C(1) << 30)
            return tmk_fail(diag, TMK_FORMAT,
                            "'multiplier': entry %" PRIu32 " is not 2^30, a power of two", i);
        if (r->shift[i] < -31 || r->shift[i] > 30)
            return tmk_fail(diag, TMK_FORMAT, "'shift': entry %" PRIu32 " is not in -31 ... 30", i);
        if (!(r->real[i] > 0))
            return tmk_fail(diag, TMK_FORMAT, "'real': entry %" PRIu32 " is not above 0", i);
    }
    return TMK_OK;
}

static enum tmk_status check_requants(const struct tmk_encodings *all, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < all->n_requants; i++) {
        const struct tmk_requant *r = &all->requants[i];
        TMK_TRY(tmk_in(diag, check_requant(all, r, diag), "requants[%" PRIu32 "] (p%" PRIu32 ")", i,
                       r->id));
        if (i && r->id < r[-1].id)
            return tmk_fail(diag, TMK_FORMAT,
                            "requants[%" PRIu32 "]: 'id' is p%" PRIu32 " behind p%" PRIu32
                            "; IDs ascend",
                            i, r->id, r[-1].id);
    }
    return TMK_OK;
}

static int compare_groups(const void *a, const void *b) {
    const struct tmk_encoding *x = *(const struct tmk_encoding *const *)a,
                              *y = *(const struct tmk_encoding *const *)b;
    return x->group != y->group ? (x->group < y->group ? -1 : 1) : TMK_ORDER(x, y);
}

bool tmk_encoding_same_codes(const struct tmk_encoding *a, const struct tmk_encoding *b) {
    return a->dtype == b->dtype && a->n == b->n &&
           memcmp(a->scale, b->scale, a->n * sizeof *a->scale) == 0 &&
           memcmp(a->zero_point, b->zero_point, a->n * sizeof *a->zero_point) == 0;
}

static enum tmk_status check_groups(const struct tmk_encodings *all, struct tmk_diag *diag) {
    const struct tmk_encoding **tied = malloc(((size_t)all->n_items + 1) * sizeof *tied);
    uint32_t n = 0;
    enum tmk_status status = TMK_OK;
    TMK_TRY_ALLOC(tied, diag);
    for (uint32_t i = 0; i < all->n_items; i++)
        if (all->items[i].group)
            tied[n++] = &all->items[i];
    qsort(tied, n, sizeof *tied, compare_groups);
    for (uint32_t i = 1; status == TMK_OK && i < n; i++)
        if (tied[i]->group == tied[i - 1]->group && !tmk_encoding_same_codes(tied[i - 1], tied[i]))
            status = tmk_fail(diag, TMK_FORMAT,
                              "'group' %" PRIu32 ": p%" PRIu32 " and p%" PRIu32
                              " do not share type, scale and zero point",
                              tied[i]->group, tied[i - 1]->id, tied[i]->id);
    free(tied);
    return status;
}

static enum tmk_status check_settings(const struct tmk_encodings *all, struct tmk_diag *diag) {
    struct tmk_map keys = {0};
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; status == TMK_OK && i < all->n_settings; i++) {
        if (tmk_map_get(&keys, all->settings[i].key))
            status =
                tmk_fail(diag, TMK_FORMAT, "'settings': '%s' stands twice", all->settings[i].key);
        else if (!tmk_map_put(&keys, all->settings[i].key, &all->settings[i]))
            status = tmk_nomem(diag);
    }
    tmk_map_finish(&keys);
    return status;
}

enum tmk_status tmk_encodings_check(const struct tmk_encodings *encodings, struct tmk_diag *diag) {
    TMK_TRY(check_settings(encodings, diag));
    TMK_TRY(check_items(encodings, diag));
    TMK_TRY(check_left(encodings, diag));
    TMK_TRY(check_requants(encodings, diag));
    return check_groups(encodings, diag);
}
