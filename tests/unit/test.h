/* SPDX-License-Identifier: Apache-2.0 */
/* The tests of a file are a group; run_group.c runs it. cmocka requires these four headers before
 * it, in this order. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <string.h>

#include <tidemark/status.h>

struct test_entry {
    const char *file, *name;
    CMUnitTestFunction run;
    struct test_entry *next;
};

struct test_fixture {
    const char *file;
    CMFixtureFunction set_up, tear_down;
    bool each;
    struct test_fixture *next;
};

/* Before main. The entries stay the caller's. */
void test_add(struct test_entry *entry);
void test_add_fixture(struct test_fixture *fixture);

/* Defines a test. Those of a file run in the order of their definitions. */
#define TEST(name)                                                                                 \
    static void name(void **);                                                                     \
    __attribute__((constructor)) static void register_##name(void) {                               \
        static struct test_entry entry = {__FILE__, #name, name, NULL};                            \
        test_add(&entry);                                                                          \
    }                                                                                              \
    static void name(__attribute__((unused)) void **state)

/* Called before the first test of the file and after the last; either may be NULL. */
#define GROUP_FIXTURE(set_up, tear_down) TEST_FIXTURE_NAMED(set_up, tear_down, false, __COUNTER__)
/* Called before and after each test of the file; either may be NULL. */
#define TEST_FIXTURE(set_up, tear_down) TEST_FIXTURE_NAMED(set_up, tear_down, true, __COUNTER__)
#define TEST_FIXTURE_NAMED(set_up, tear_down, each, n) TEST_FIXTURE_OF(set_up, tear_down, each, n)
#define TEST_FIXTURE_OF(set_up, tear_down, each, n)                                                \
    __attribute__((constructor)) static void register_fixture_##n(void) {                          \
        static struct test_fixture fixture = {__FILE__, set_up, tear_down, each, NULL};            \
        test_add_fixture(&fixture);                                                                \
    }

/* The text of the last call that got DIAG. For the main thread. */
extern struct tmk_diag test_diag;
struct tmk_diag *test_diag_reset(void);
#define DIAG test_diag_reset()

/* A call with DIAG succeeds. */
#define must(expr) assert_ok(expr, &test_diag)
/* A call with DIAG fails with this status, and its text contains `why`. */
#define must_fail(expr, status, why)                                                               \
    do {                                                                                           \
        assert_int_equal(expr, status);                                                            \
        if (!strstr(test_diag.text, why))                                                          \
            fail_msg("%s: \"%s\", not \"%s\"", #expr, test_diag.text, why);                        \
    } while (0)

/* The expression is TMK_OK, or the diag's text is shown. */
#define assert_ok(expr, diag)                                                                      \
    do {                                                                                           \
        if ((expr) != TMK_OK)                                                                      \
            fail_msg("%s: %s", #expr, (diag)->text);                                               \
    } while (0)
