/* SPDX-License-Identifier: Apache-2.0 */
#include "link/rules.h"

#include <ctype.h>
#include <string.h>

#include "base/hash.h"

enum { TELLING_WEIGHT = 16 }; /* elements from which on equal weights are no coincidence */

/* ---- rules ---- */

bool tmk_link_is_free(const struct tmk_linking *l, uint32_t original, uint32_t value) {
    return original < l->from->n_tensors && value < l->to->n_tensors &&
           l->value_of[original] == TMK_UNLINKED && l->original_of[value] == TMK_UNLINKED;
}

static bool same_maker(const struct tmk_linking *l, uint32_t original, uint32_t value) {
    const struct tmk_profile_tensor *o = &l->from->tensors[original], *v = &l->to->tensors[value];
    return tmk_linking_same_op(o, v) && !tmk_linking_shapes_differ(o, v) &&
           !*o->path == !*v->path && o->n_operands == v->n_operands;
}

static bool by_operands(const struct tmk_linking *l, uint32_t original, uint32_t value) {
    const struct tmk_profile_tensor *o = &l->from->tensors[original], *v = &l->to->tensors[value];
    if (!o->n_operands || !same_maker(l, original, value))
        return false;
    for (uint32_t k = 0; k < o->n_operands; k++)
        if (o->operands[k] >= l->from->n_tensors || l->value_of[o->operands[k]] == TMK_UNLINKED ||
            l->value_of[o->operands[k]] != v->operands[k])
            return false;
    return true;
}

static bool is_telling(const struct tmk_profile_tensor *weight) {
    size_t n;
    return weight->has_shape && tmk_shape_count(&weight->shape, &n) && n >= TELLING_WEIGHT;
}

bool tmk_link_has_telling_weight(const struct tmk_linking *l, const struct tmk_profile_tensor *t) {
    for (uint32_t k = 0; k < t->n_operands; k++)
        if (t->operands[k] < l->from->n_tensors &&
            l->from->tensors[t->operands[k]].kind == TMK_PROFILE_WEIGHT &&
            is_telling(&l->from->tensors[t->operands[k]]))
            return true;
    return false;
}

static bool by_weights(const struct tmk_linking *l, uint32_t original, uint32_t value) {
    const struct tmk_profile_tensor *o = &l->from->tensors[original], *v = &l->to->tensors[value];
    if (!same_maker(l, original, value))
        return false;
    for (uint32_t k = 0; k < o->n_operands; k++) {
        if (o->operands[k] >= l->from->n_tensors)
            return false;
        const struct tmk_profile_tensor *weight = &l->from->tensors[o->operands[k]];
        if (weight->kind == TMK_PROFILE_WEIGHT &&
            (l->value_of[weight->id] == TMK_UNLINKED || l->value_of[weight->id] != v->operands[k]))
            return false;
    }
    return tmk_link_has_telling_weight(l, o);
}

bool tmk_link_is_name(const char *name) {
    while (*name && !isalpha((unsigned char)*name))
        name++;
    return *name;
}

/* Does what they are made of speak against it? */
static bool operands_differ(const struct tmk_linking *l, const struct tmk_profile_tensor *o,
                            const struct tmk_profile_tensor *v) {
    for (uint32_t k = 0; k < o->n_operands && k < v->n_operands; k++) {
        uint32_t a = o->operands[k], b = v->operands[k];
        if (a < l->from->n_tensors && b < l->to->n_tensors && l->value_of[a] != TMK_UNLINKED &&
            l->original_of[b] != TMK_UNLINKED && l->value_of[a] != b)
            return true;
    }
    return false;
}

static bool by_name(const struct tmk_linking *l, uint32_t original, uint32_t value) {
    const struct tmk_profile_tensor *o = &l->from->tensors[original], *v = &l->to->tensors[value];
    return tmk_link_is_name(o->name) && strcmp(o->name, v->name) == 0 &&
           strcmp(o->path, v->path) == 0 &&
           (tmk_linking_same_op(o, v) || (!o->has_producer && !v->has_producer)) &&
           (o->kind == TMK_PROFILE_WEIGHT) == (v->kind == TMK_PROFILE_WEIGHT) &&
           !tmk_linking_shapes_differ(o, v) && !operands_differ(l, o, v);
}

bool tmk_link_is_like(const struct tmk_linking *l, enum tmk_link_rule rule, uint32_t original,
                      uint32_t value) {
    return rule == TMK_LINK_BY_OPERANDS  ? by_operands(l, original, value)
           : rule == TMK_LINK_BY_WEIGHTS ? by_weights(l, original, value)
                                         : by_name(l, original, value);
}

bool tmk_link_seek_alike(const struct tmk_linking *l, enum tmk_link_rule rule, uint32_t a,
                         uint32_t b) {
    const struct tmk_profile_tensor *x = &l->from->tensors[a], *y = &l->from->tensors[b];
    if (!tmk_linking_same_op(x, y) || !*x->path != !*y->path || x->n_operands != y->n_operands ||
        x->dtype != y->dtype || x->has_shape != y->has_shape ||
        (x->has_shape && !tmk_shape_equal(&x->shape, &y->shape)))
        return false;
    for (uint32_t k = 0; k < x->n_operands; k++) {
        uint32_t p = x->operands[k], q = y->operands[k];
        bool p_counts =
                 rule == TMK_LINK_BY_OPERANDS || l->from->tensors[p].kind == TMK_PROFILE_WEIGHT,
             q_counts =
                 rule == TMK_LINK_BY_OPERANDS || l->from->tensors[q].kind == TMK_PROFILE_WEIGHT;
        if (p_counts != q_counts || (p_counts && l->value_of[p] != l->value_of[q]))
            return false;
    }
    return true;
}

/* ---- keys ---- */

struct tmk_link_known tmk_link_known(const struct tmk_linking *l) {
    const struct tmk_profile *sides[] = {l->from, l->to};
    struct tmk_link_known known = {.dtypes = true, .ranks = true};
    memset(known.dims, true, sizeof known.dims);
    for (int side = 0; side < 2; side++)
        for (uint32_t i = 0; i < sides[side]->n_tensors; i++) {
            const struct tmk_profile_tensor *t = &sides[side]->tensors[i];
            known.dtypes = known.dtypes && t->dtype != TMK_UNDEFINED;
            known.ranks = known.ranks && t->has_shape;
            for (int32_t k = 0; t->has_shape && k < t->shape.rank; k++)
                known.dims[k] = known.dims[k] && t->shape.dim[k] >= 0;
        }
    return known;
}

static uint64_t mix_hash(uint64_t a, uint64_t b) {
    const uint64_t both[] = {a, b};
    return tmk_hash64(both, sizeof both, 0);
}

static uint64_t text_key(const char *text, uint64_t seed) {
    return tmk_hash64(text, strlen(text), seed);
}

uint64_t tmk_link_maker_key(const struct tmk_link_known *known,
                            const struct tmk_profile_tensor *t) {
    uint64_t key = text_key(t->producer.domain, text_key(t->producer.op, t->producer.output));
    key = mix_hash(key, (uint64_t)t->n_operands << 1 | !*t->path);
    if (known->dtypes)
        key = mix_hash(key, (uint64_t)t->dtype);
    if (known->ranks)
        key = mix_hash(key, (uint64_t)t->shape.rank);
    for (int32_t k = 0; known->ranks && k < t->shape.rank; k++)
        if (known->dims[k])
            key = mix_hash(key, (uint64_t)t->shape.dim[k]);
    return key;
}

uint64_t tmk_link_operand_key(uint64_t maker, uint32_t k, uint32_t value) {
    return mix_hash(maker, (uint64_t)k << 32 | value);
}

uint64_t tmk_link_name_key(const struct tmk_profile_tensor *t) {
    return text_key(t->path, text_key(t->name, 1));
}
