/* SPDX-License-Identifier: Apache-2.0 */
/* From nodes that run to steps, in two halves: choose.c decides by which kernel each node runs, in
 * which layout, and which nodes make a chain; emit.c writes the steps down in their final order. */
#pragma once

#include "plan/build.h"

enum {
    TMK_MAX_MEMBERS = 24,   /* of a chain */
    TMK_MAX_OPERANDS = 120, /* of its members together */
    TMK_NO_GROUP = UINT32_MAX,
    TMK_READ_BY_MANY = UINT32_MAX - 1
};

enum tmk_how { TMK_HOW_NODE, TMK_HOW_ACCEL, TMK_HOW_JOIN, TMK_HOW_CHAIN };

/* How a raw step runs. */
struct tmk_step_choice {
    enum tmk_how how;
    struct tmk_accel *accel;
    uint32_t in_block, out_block; /* of operand 0 (JOIN: of all), of result 0 */
    uint32_t group;               /* CHAIN; see tmk_group_of */
    uint32_t next;                /* the next member of its group, or TMK_NO_STEP */
};

/* Pointwise nodes of one space and layout that become a chain. When two are joined, one is `into`
 * the other. */
struct tmk_group {
    uint32_t into; /* itself: not joined */
    uint32_t block;
    struct tmk_shape space;
    uint32_t first, last, n; /* members: raw steps, linked in order */
    uint32_t n_operands;
};

struct tmk_arranging {
    struct tmk_planning *p;
    struct tmk_step_choice *choice; /* by raw step */
    struct tmk_group *groups;
    uint32_t n_groups;
    /* By value under its observers. */
    uint32_t *made;   /* the block that its producer makes it in */
    uint32_t *reader; /* TMK_NO_GROUP: none so far; a group: only its members; or MANY */
    bool *fixed;      /* must lie row-major under its own index */
    bool *tapped;     /* its pieces are observed */
};

static inline uint32_t tmk_group_of(const struct tmk_arranging *a, uint32_t group) {
    while (a->groups[group].into != group)
        group = a->groups[group].into;
    return group;
}
/* Makes steps, taps and what belongs to them. Takes accels out of the choices. */
enum tmk_status tmk_arrange_emit(struct tmk_arranging *a);
