/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka wants these four before it, in this order. */
#ifndef TMK_TEST_H
#define TMK_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Defines a group of tests: a function that gives the count of those that failed. run_group.c
 * calls it. */
#define TEST_GROUP(name)                                                                           \
    int group_##name(void);                                                                        \
    int group_##name(void)

/* The expression is TMK_OK, or the diag's text is shown. */
#define assert_ok(expr, diag)                                                                      \
    do {                                                                                           \
        if ((expr) != TMK_OK)                                                                      \
            fail_msg("%s: %s", #expr, (diag)->text);                                               \
    } while (0)

#endif
