/* SPDX-License-Identifier: Apache-2.0 */
/* A node, its accelerated kernel and its plain one, on the same operands. */
#pragma once

#include "test.h"

#include "base/text.h"
#include "kernel/accel.h"

enum { MOST_INPUTS = 3 };

struct fixture {
    struct tmk_graph *graph;
    struct tmk_accel_layout layout;
    const struct tmk_node *node;
    struct tmk_tensor operand[MOST_INPUTS],
        known[MOST_INPUTS]; /* known: data NULL where not constant */
    const struct tmk_tensor *in[MOST_INPUTS], *in_known[MOST_INPUTS];
    struct tmk_tensor blocks; /* operand 0, as the layout has it */
    struct tmk_infer_result type[2];
    struct tmk_tensor expected[2];
    struct tmk_accel *accel;
    bool exact; /* the accelerated result is the plain one, to the bit but for the sign of 0 */
};

/* Built with a library of kernels, or only with those of our own? */
bool with_library(void);

/* The same numbers in every run. */
uint32_t random_bits(void);
int pick(int low, int high);

/* Operands whose bit is set in `constants` are known when the accel is made. False: the node is not
 * valid. To be ended with tear_down in any case. */
bool set_up(struct fixture *f, const char *text, unsigned constants);
struct tmk_accel_layout preferred_layout(const struct fixture *f, uint32_t have);
/* False: left to the plain kernel. */
bool prepare(struct fixture *f, struct tmk_accel_layout layout);
void tear_down(struct fixture *f);

/* Runs on this thread and on two more at a time: all give what the plain kernel gives. */
void check_prepared(struct fixture *f, const char *text);
/* 1: accelerated, and right; 0: left to the plain kernel; -1: no valid node. */
int check(const char *text, unsigned constants);
/* `count` valid nodes out of make, at least so many of them accelerated row-major, and asking for
 * blocks. */
void check_many(void (*make)(struct tmk_text *text), int count, int min, int least_blocks);
