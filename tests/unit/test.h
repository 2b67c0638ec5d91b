/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka wants these four before it, in this order. */
#ifndef TMK_TEST_H
#define TMK_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The expression is TMK_OK, or the diag's text is shown. */
#define assert_ok(expr, diag)                                                                      \
    do {                                                                                           \
        if ((expr) != TMK_OK)                                                                      \
            fail_msg("%s: %s", #expr, (diag)->text);                                               \
    } while (0)

#endif
