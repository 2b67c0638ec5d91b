/* SPDX-License-Identifier: Apache-2.0 */
/* The program of a module's unit tests: runs one group, the tests of test_GROUP.c.
 *
 *     test_MODULE GROUP */
#include <stdio.h>
#include <string.h>

#include "test.h"

enum { MAX_TESTS = 128 };

static struct test_entry *entries, **last_entry = &entries;
static struct test_fixture *fixtures;

struct tmk_diag test_diag;

struct tmk_diag *test_diag_reset(void) {
    test_diag.status = TMK_OK;
    test_diag.text[0] = '\0';
    return &test_diag;
}

void test_add(struct test_entry *entry) {
    *last_entry = entry;
    last_entry = &entry->next;
}

void test_add_fixture(struct test_fixture *fixture) {
    fixture->next = fixtures;
    fixtures = fixture;
}

/* The file is FOLDER/test_GROUP.c. */
static bool is_of_group(const char *file, const char *group) {
    const char *name = strrchr(file, '/');
    char wanted[128];
    snprintf(wanted, sizeof wanted, "test_%s.c", group);
    return strcmp(name ? name + 1 : file, wanted) == 0;
}

static const struct test_fixture *find_fixture(const char *group, bool each) {
    static const struct test_fixture none;
    for (const struct test_fixture *f = fixtures; f; f = f->next)
        if (f->each == each && is_of_group(f->file, group))
            return f;
    return &none;
}

static int run_group(const char *group) {
    static struct CMUnitTest tests[MAX_TESTS];
    const struct test_fixture *each = find_fixture(group, true), *all = find_fixture(group, false);
    size_t n = 0;
    for (const struct test_entry *e = entries; e && n < MAX_TESTS; e = e->next)
        if (is_of_group(e->file, group))
            tests[n++] = (struct CMUnitTest){e->name, e->run, each->set_up, each->tear_down, NULL};
    if (n > 0 && n < MAX_TESTS)
        return _cmocka_run_group_tests(group, tests, n, all->set_up, all->tear_down);
    fprintf(stderr, "%s: %zu tests\n", group, n);
    return 2;
}

int main(int argc, char **argv) {
    if (argc == 2)
        return run_group(argv[1]);
    fprintf(stderr, "usage: %s GROUP\n", argv[0]);
    return 2;
}
