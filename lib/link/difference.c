/* SPDX-License-Identifier: Apache-2.0 */
/* A content hash states how a value is computed from the graph's inputs. It implies equal numbers
 * only if these inputs get the same data, and inside of a body only if the same loop or branch runs
 * it. */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/hash.h"
#include "base/map.h"
#include "link/link.h"

/* ---- bodies ---- */

/* Stands for the owner of a body where two nodes have the same label. */
static struct tmk_profile_tensor several;

static bool is_inside(const struct tmk_profile *p, const struct tmk_profile_tensor *t,
                      uint32_t operand) {
    return t->has_producer && t->operands[operand] < p->n_tensors &&
           strlen(p->tensors[t->operands[operand]].path) > strlen(t->path);
}

/* Of each body's path the first result of the node that runs it. */
static bool find_owners(const struct tmk_profile *p, struct tmk_map *owners) {
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        struct tmk_profile_tensor *t = &p->tensors[i];
        for (uint32_t k = 0; k < t->n_operands; k++) {
            if (!is_inside(p, t, k))
                continue;
            const char *path = p->tensors[t->operands[k]].path;
            struct tmk_profile_tensor *known = tmk_map_get(owners, path), *owner = t;
            if (known && known != t && known->producer.output <= t->producer.output)
                owner = known->producer.output < t->producer.output ? known : &several;
            if (!tmk_map_put(owners, path, owner))
                return false;
        }
    }
    return true;
}

static uint64_t context_of(const struct tmk_map *owners, const char *path) {
    uint64_t context = TMK_LINK_MAIN_GRAPH;
    while (*path) {
        const struct tmk_profile_tensor *owner = tmk_map_get(owners, path);
        if (!owner || owner == &several)
            return TMK_LINK_NO_CONTEXT;
        const char *attr = strrchr(path, '/');
        const uint64_t parts[] = {context, owner->fingerprint, owner->content};
        context = tmk_hash64(parts, sizeof parts, attr ? tmk_hash64(attr, strlen(attr), 0) : 0);
        path = owner->path;
    }
    return context;
}

enum tmk_status tmk_link_contexts(const struct tmk_profile *profile, uint64_t **out,
                                  struct tmk_diag *diag) {
    struct tmk_map owners = {0};
    *out = calloc((size_t)profile->n_tensors + 1, sizeof **out);
    bool fits = *out && find_owners(profile, &owners);
    for (uint32_t i = 0; fits && i < profile->n_tensors; i++)
        (*out)[i] = context_of(&owners, profile->tensors[i].path);
    tmk_map_finish(&owners);
    return fits ? TMK_OK : tmk_nomem(diag);
}

/* ---- inputs ---- */

static bool is_input(const struct tmk_profile_tensor *t) {
    return t->kind == TMK_PROFILE_INPUT && !*t->path;
}

static bool computed_alike(const struct tmk_profile_tensor *o, const struct tmk_profile_tensor *v) {
    return o->fingerprint == v->fingerprint && o->content == v->content;
}

static const struct tmk_profile_tensor *input_named(const struct tmk_profile *p, const char *name) {
    for (uint32_t i = 0; i < p->n_tensors; i++)
        if (is_input(&p->tensors[i]) && strcmp(p->tensors[i].name, name) == 0)
            return &p->tensors[i];
    return NULL;
}

/* Of another size than that of a batch: no data fits both. */
static bool sizes_differ(const struct tmk_profile_tensor *o, const struct tmk_profile_tensor *v) {
    if (!o->has_shape || !v->has_shape || o->shape.rank != v->shape.rank)
        return false;
    for (int32_t i = 1; i < o->shape.rank; i++)
        if (o->shape.dim[i] >= 0 && v->shape.dim[i] >= 0 && o->shape.dim[i] != v->shape.dim[i])
            return true;
    return false;
}

static bool has_counterpart(const struct tmk_linking *l, uint32_t original) {
    if (original >= l->from->n_tensors)
        return false;
    for (uint32_t v = 0; v < l->to->n_tensors; v++)
        if (computed_alike(&l->from->tensors[original], &l->to->tensors[v]))
            return true;
    return false;
}

/* Does the value in its place get other data? Data is given by name, or where names changed, by
 * position; what is fed back from an output, by what computes that. */
static bool gets_other_data(const struct tmk_linking *l, const struct tmk_profile_tensor *o) {
    for (uint32_t k = 0; k < o->n_operands; k++)
        if (!has_counterpart(l, o->operands[k]))
            return true;
    for (uint32_t i = 0; i < l->to->n_tensors; i++) {
        const struct tmk_profile_tensor *v = &l->to->tensors[i];
        if (!is_input(v) || !computed_alike(o, v))
            continue;
        return sizes_differ(o, v) ||
               (strcmp(o->name, v->name) != 0 &&
                (input_named(l->to, o->name) || input_named(l->from, v->name)));
    }
    return false;
}

static bool has_different_operand(const struct tmk_linking *l, const struct tmk_profile_tensor *t) {
    for (uint32_t k = 0; k < t->n_operands; k++)
        if (t->operands[k] < l->from->n_tensors && l->differs[t->operands[k]])
            return true;
    return false;
}

enum tmk_status tmk_linking_mark_different(struct tmk_linking *l) {
    bool any = false, changed = true;
    l->differs = calloc((size_t)l->from->n_tensors + 1, sizeof *l->differs);
    TMK_TRY_ALLOC(l->differs, l->diag);
    for (uint32_t i = 0; i < l->from->n_tensors; i++) {
        const struct tmk_profile_tensor *t = &l->from->tensors[i];
        /* numbers without a seed depend on the node's place in the graph */
        l->differs[i] = tmk_link_has(t, TMK_TRAIT_RANDOM) || (is_input(t) && gets_other_data(l, t));
        any = any || l->differs[i];
    }
    if (any) {
        /* What runs a body depends on more than a record lists: all of them, with all that is
         * inside. */
        for (uint32_t i = 0; i < l->from->n_tensors; i++) {
            const struct tmk_profile_tensor *t = &l->from->tensors[i];
            bool body = *t->path;
            for (uint32_t k = 0; k < t->n_operands && !body; k++)
                body = is_inside(l->from, t, k);
            l->differs[i] = l->differs[i] || body;
        }
    }
    while (any && changed) { /* operands have lesser IDs, but in loops */
        changed = false;
        for (uint32_t i = 0; i < l->from->n_tensors; i++)
            if (!l->differs[i] && has_different_operand(l, &l->from->tensors[i]))
                changed = l->differs[i] = true;
    }
    return TMK_OK;
}

static bool is_same_input(const struct tmk_profile_tensor *o, const struct tmk_profile_tensor *v) {
    return is_input(o) && is_input(v) && strcmp(o->name, v->name) == 0 && !o->n_operands &&
           o->origin == v->origin && !tmk_linking_shapes_differ(o, v);
}

void tmk_linking_inputs(struct tmk_linking *l) {
    for (uint32_t o = 0; o < l->from->n_tensors; o++) {
        const struct tmk_profile_tensor *t = &l->from->tensors[o], *v;
        if (is_input(t) && l->differs[o] && (v = input_named(l->to, t->name)) &&
            is_same_input(t, v))
            tmk_linking_match(l, o, v->id, TMK_LINK_NAME);
    }
}

/* ---- what is not proven ---- */

enum tmk_status tmk_linking_leave_out(struct tmk_linking *l) {
    for (uint32_t o = 0; o < l->from->n_tensors; o++) {
        struct tmk_link_match *match = &l->link->matches[o];
        uint32_t v = l->value_of[o];
        if (v == TMK_UNLINKED || match->evidence == TMK_LINK_CONTENT ||
            is_same_input(&l->from->tensors[o], &l->to->tensors[v]))
            continue;
        l->value_of[o] = l->original_of[v] = TMK_UNLINKED;
        l->link->record->originals[o].value = -1;
        l->link->record->originals[o].verdict = TMK_LINEAGE_DEAD;
        match->left_out = true;
        match->n_candidates = 0;
        TMK_TRY(tmk_linking_add_candidate(l, o, v));
    }
    return TMK_OK;
}
