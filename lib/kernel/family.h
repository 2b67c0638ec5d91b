/* SPDX-License-Identifier: Apache-2.0 */
/* Families: operators that are prepared and run alike. One const struct a file, named in the list
 * of accel.c or, where it needs a library, in that library's list. */
#pragma once

#include "base/diag.h"
#include "base/size.h"
#include "kernel/accel.h"

/* What tmk_accel_create was asked for. */
struct tmk_request {
    const struct tmk_family *family;
    const struct tmk_node *node;
    const struct tmk_tensor *const *in;
    const struct tmk_infer_result *result; /* output 0; known */
    struct tmk_accel_layout layout;
    struct tmk_packs *packs; /* may be NULL */
    struct tmk_diag *diag;
};

/* Families' own structs begin with it. */
struct tmk_accel {
    const struct tmk_family *family;
    const struct tmk_node *node;
    size_t scratch;
    uint32_t packed; /* bit i: it has a copy of operand i, and does not read the operand itself */
    size_t held;     /* bytes of copies that it made of constant operands, and of code */
    size_t code;     /* of these */
    char name[64];
};

struct tmk_family {
    bool (*matches)(const struct tmk_node *node);
    /* As tmk_accel_preferred_layout, but for layouts that are the same bytes; a request's layout is
     * nothing to go by. *out is {0, 0} before. NULL: it always stays so, and no other layout is
     * asked for. */
    enum tmk_status (*preferred_layout)(const struct tmk_request *request, uint32_t have,
                                        struct tmk_accel_layout *out);
    /* Leaves *out alone where nothing fits. */
    enum tmk_status (*create)(const struct tmk_request *request, struct tmk_accel **out);
    /* As tmk_accel_run. */
    enum tmk_status (*run)(const struct tmk_accel *accel, const struct tmk_tensor *const *in,
                           struct tmk_tensor *const *out, void *scratch, struct tmk_diag *diag);
    void (*destroy)(struct tmk_accel *accel);
    /* Constant operand 1 may be lazy (tensor/elements.h): it is packed where it can be. */
    bool packs;
    /* As tmk_accel_load and unload; NULL where there are no copies. */
    enum tmk_status (*load)(struct tmk_accel *accel, struct tmk_diag *diag);
    void (*unload)(struct tmk_accel *accel);
};

extern const struct tmk_family tmk_family_pool_blocked, tmk_family_pool_global;

/* Of the library that this is built with; NULL at the end. */
extern const struct tmk_family *const tmk_library_families[];

/* Blocks of this many channels are what families know. */
static inline bool tmk_is_block(uint32_t block) {
    return block == 8 || block == 16;
}
