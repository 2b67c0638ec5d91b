/* SPDX-License-Identifier: Apache-2.0 */
/* Which family prepares a node. */
#include "kernel/accel.h"
#include "kernel/chain.h"

#include "kernel/family.h"

/* Asked before the library's. */
static const struct tmk_family *const own_families[] = {
    &tmk_family_pool_blocked,
    &tmk_family_pool_global,
};

static const struct tmk_family *family_at(size_t i) {
    return i < TMK_COUNT(own_families) ? own_families[i]
                                       : tmk_library_families[i - TMK_COUNT(own_families)];
}

enum tmk_status tmk_accel_preferred_layout(const struct tmk_node *node,
                                           const struct tmk_tensor *const *in,
                                           const struct tmk_infer_result *out_types, uint32_t have,
                                           struct tmk_accel_layout *out, struct tmk_diag *diag) {
    struct tmk_request request = {.node = node, .in = in, .result = out_types, .diag = diag};
    struct tmk_accel_layout layout = {0, 0};
    *out = layout;
    /* Constants lie row-major. */
    if (!tmk_kernel_block() || !node->n_inputs || !in[0] || in[0]->data || !node->n_outputs ||
        !node->outputs[0] || !out_types[0].known)
        return TMK_OK;
    for (size_t i = 0; family_at(i) && !layout.in && !layout.out; i++) {
        request.family = family_at(i);
        if (request.family->preferred_layout && request.family->matches(node))
            TMK_TRY(request.family->preferred_layout(&request, have, &layout));
    }
    if (layout.in && tmk_blocked_same(&in[0]->shape, layout.in))
        layout.in = 0;
    if (layout.out && tmk_blocked_same(&out_types[0].shape, layout.out))
        layout.out = 0;
    *out = layout;
    return TMK_OK;
}

enum tmk_status tmk_accel_create(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                 const struct tmk_infer_result *out_types,
                                 struct tmk_accel_layout layout, struct tmk_packs *packs,
                                 struct tmk_accel **out, struct tmk_diag *diag) {
    struct tmk_request request = {.node = node,
                                  .in = in,
                                  .result = out_types,
                                  .layout = layout,
                                  .packs = packs,
                                  .diag = diag};
    struct tmk_accel *accel = NULL;
    bool rows = !layout.in && !layout.out, usable = node->n_outputs && node->outputs[0] &&
                                                    out_types[0].known &&
                                                    !(layout.in && in[0]->data);
    for (size_t i = 0; usable && family_at(i) && !accel; i++) {
        request.family = family_at(i);
        if ((rows || request.family->preferred_layout) && request.family->matches(node))
            TMK_TRY(request.family->create(&request, &accel));
    }
    *out = accel;
    return TMK_OK;
}

bool tmk_accel_takes_lazy(const struct tmk_node *node, uint32_t input) {
    for (size_t i = 0; input == 1 && family_at(i); i++)
        if (family_at(i)->packs && family_at(i)->matches(node))
            return true;
    return false;
}

bool tmk_accel_has_packed(const struct tmk_accel *accel, uint32_t input) {
    return input < 32 && accel->packed >> input & 1;
}

void tmk_accel_destroy(struct tmk_accel **accel) {
    if (!accel || !*accel)
        return;
    (*accel)->family->destroy(*accel);
    *accel = NULL;
}

enum tmk_status tmk_accel_load(struct tmk_accel *accel, struct tmk_diag *diag) {
    return accel->family->load ? accel->family->load(accel, diag) : TMK_OK;
}

void tmk_accel_unload(struct tmk_accel *accel) {
    if (accel->family->unload)
        accel->family->unload(accel);
}

const char *tmk_accel_name(const struct tmk_accel *accel) {
    return accel->name;
}

size_t tmk_accel_bytes(const struct tmk_accel *accel) {
    return accel->held;
}

size_t tmk_accel_code(const struct tmk_accel *accel) {
    return accel->code;
}

size_t tmk_accel_scratch(const struct tmk_accel *accel) {
    return accel->scratch;
}

enum tmk_status tmk_accel_run(const struct tmk_accel *accel, const struct tmk_tensor *const *in,
                              struct tmk_tensor *const *out, void *scratch, struct tmk_diag *diag) {
    return accel->family->run(accel, in, out, scratch, diag);
}
