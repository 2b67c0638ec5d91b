/* SPDX-License-Identifier: Apache-2.0 */
/* HDF5 files read by processes of their own: every way in which such a process can end, and data in
 * more pieces than one. */
#include <errno.h>
#include <hdf5.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "test.h"

#include "base/diag.h"
#include "folder.h"
#include "hdf5/ahead.h"

enum { WIDE = (TMK_HDF5_HALF / 8) * 9 }; /* an entry of bytes that half of the memory cannot hold */

static uint8_t at_place(uint64_t i) {
    return (uint8_t)(i * 2654435761u >> 13);
}

/* A dataset of bytes, at_place everywhere. chunk NULL: in one piece. */
static void put(hid_t file, const char *name, int rank, const hsize_t *dim, const hsize_t *chunk) {
    size_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= dim[i];
    uint8_t *bytes = malloc(n);
    assert_non_null(bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = at_place(i);
    hid_t space = H5Screate_simple(rank, dim, NULL), how = H5Pcreate(H5P_DATASET_CREATE);
    if (chunk)
        assert_true(H5Pset_chunk(how, rank, chunk) >= 0);
    hid_t set = H5Dcreate2(file, name, H5T_STD_U8LE, space, H5P_DEFAULT, how, H5P_DEFAULT);
    assert_true(H5Dwrite(set, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes) >= 0);
    H5Dclose(set);
    H5Pclose(how);
    H5Sclose(space);
    free(bytes);
}

static int make_sample(void **state) {
    char path[128];
    if (make_folder(state) != 0)
        return -1;
    in_folder("sample.h5", path);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(file >= 0);
    put(file, "whole", 2, (hsize_t[]){7, 5}, NULL);
    put(file, "cut", 3, (hsize_t[]){50, 4, 3}, (hsize_t[]){4, 3, 2});
    put(file, "wide", 2, (hsize_t[]){2, WIDE}, (hsize_t[]){1, 1 << 20});
    H5Gclose(H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Lcreate_soft("/whole", file, "soft", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
    return 0;
}

static struct tmk_hdf5 *opened(void) {
    char path[128];
    struct tmk_hdf5 *file = NULL;
    must(tmk_hdf5_open(in_folder("sample.h5", path), &file, DIAG));
    return file;
}

/* No process is left. */
static void assert_no_children(void) {
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

TEST(members_are_listed) {
    struct tmk_hdf5_member *members;
    uint32_t n;
    enum tmk_hdf5_kind kind;
    bool linked;
    static const char *const names[] = {"cut", "group", "soft", "whole", "wide"};
    struct tmk_hdf5 *file = opened();
    (void)state;
    must(tmk_hdf5_list(file, "/", &members, &n, DIAG));
    assert_int_equal(n, 5);
    for (uint32_t i = 0; i < n; i++) {
        assert_string_equal(members[i].name, names[i]);
        assert_int_equal(members[i].kind, i == 1 ? TMK_HDF5_GROUP : TMK_HDF5_DATASET);
        assert_int_equal(members[i].linked, i == 2);
    }
    free(members);
    must(tmk_hdf5_look(file, "/soft", &kind, &linked, DIAG));
    assert_true(kind == TMK_HDF5_DATASET && linked);
    must(tmk_hdf5_look(file, "group/none", &kind, &linked, DIAG));
    assert_true(kind == TMK_HDF5_NOTHING && !linked);
    tmk_hdf5_close(&file);
    assert_no_children();
}

/* Entries, so many at a time, hold what was written. */
static void check_set(struct tmk_hdf5 *file, const char *name, uint64_t step) {
    struct tmk_hdf5_dataset set;
    size_t entry, bytes;
    must(tmk_hdf5_dataset_open(file, name, &set, DIAG));
    must(tmk_hdf5_read_as(file, &set, TMK_HDF5_U8, 0, DIAG));
    assert_true(tmk_hdf5_size(&set, 1, &entry));
    assert_true(tmk_hdf5_size(&set, step, &bytes));
    uint8_t *got = malloc(bytes);
    assert_non_null(got);
    for (uint64_t first = 0; first < set.dim[0]; first += step) {
        uint64_t n = set.dim[0] - first < step ? set.dim[0] - first : step;
        must(tmk_hdf5_read(file, &set, first, n, got, DIAG));
        for (size_t i = 0; i < n * entry; i++)
            if (got[i] != at_place(first * entry + i))
                fail_msg("%s: entry %d, byte %zu", name, (int)first, i);
    }
    assert_int_equal(tmk_hdf5_read(file, &set, set.dim[0], 1, got, DIAG), TMK_RANGE);
    must(tmk_hdf5_shut(file, &set, DIAG));
    free(got);
}

TEST(entries_are_what_was_written) {
    static const uint64_t steps[] = {1, 2, 3, 7, 50};
    struct tmk_hdf5 *file = opened();
    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        check_set(file, "whole", steps[i]);
        check_set(file, "cut", steps[i]);
    }
    check_set(file, "wide", 1);
    check_set(file, "wide", 2);
    tmk_hdf5_close(&file);
}

/* It keeps descriptors of its own, and signals wait until it comes to them. */
static bool under_valgrind(void) {
    const char *preloaded = getenv("LD_PRELOAD");
    return preloaded && strstr(preloaded, "vgpreload");
}

TEST(each_end_of_the_process_is_told) {
    static const struct {
        int signal;
        enum tmk_status status;
        const char *says;
    } ends[] = {
        {SIGSEGV, TMK_READ, "crashes"},   {SIGABRT, TMK_READ, "crashes"},
        {SIGBUS, TMK_READ, "crashes"},    {SIGXCPU, TMK_READ, "timed out"},
        {SIGKILL, TMK_MACHINE, "killed"},
    };
    (void)state;
    if (under_valgrind())
        return;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        enum tmk_hdf5_kind kind;
        struct tmk_hdf5 *file = opened();
        kill(file->process.pid, ends[i].signal);
        for (int again = 0; again < 2; again++) {
            must_fail(tmk_hdf5_look(file, "/whole", &kind, NULL, DIAG), ends[i].status,
                      ends[i].says);
        }
        assert_no_children();
        tmk_hdf5_close(&file);
    }
}

/* What a terminal sends to the whole group is not the process's business. */
TEST(a_terminal_does_not_stop_it) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGPIPE, SIGALRM};
    struct tmk_hdf5 *file = opened();
    (void)state;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        kill(file->process.pid, signals[i]);
    check_set(file, "cut", 7);
    tmk_hdf5_close(&file);
}

TEST(ignored_children_do_no_harm) {
    enum tmk_hdf5_kind kind;
    void (*before)(int) = signal(SIGCHLD, SIG_IGN);
    struct tmk_hdf5 *file = opened();
    (void)state;
    check_set(file, "cut", 7);
    tmk_hdf5_close(&file);
    if (!under_valgrind()) {
        file = opened();
        kill(file->process.pid, SIGSEGV);
        assert_int_equal(tmk_hdf5_look(file, "/whole", &kind, NULL, DIAG), TMK_READ);
        tmk_hdf5_close(&file);
    }
    signal(SIGCHLD, before);
    assert_no_children();
}

/* A copy of this process may not use the file, and leaves it to its owner when it closes it. */
TEST(a_forked_copy_keeps_off) {
    struct tmk_hdf5 *file = opened();
    int how;
    (void)state;
    pid_t copy = fork();
    if (copy == 0) {
        enum tmk_hdf5_kind kind;
        bool refused = tmk_hdf5_look(file, "/whole", &kind, NULL, DIAG) == TMK_ARGUMENT;
        tmk_hdf5_close(&file);
        _exit(refused ? 0 : 1);
    }
    assert_int_equal(waitpid(copy, &how, 0), copy);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    check_set(file, "cut", 7);
    tmk_hdf5_close(&file);
    assert_no_children();
}

TEST(a_machine_without_means_is_told) {
    char path[128];
    struct tmk_hdf5 *file = NULL;
    struct rlimit before, limit;
    (void)state;
    if (under_valgrind())
        return;
    int next = dup(0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = (struct rlimit){(rlim_t)next + 1, before.rlim_max}; /* the file itself, and no more */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    enum tmk_status status = tmk_hdf5_open(in_folder("sample.h5", path), &file, DIAG);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, TMK_MACHINE);
    assert_non_null(strstr(test_diag.text, "no process"));
    assert_no_children();
}

TEST(what_is_no_file_is_refused) {
    char path[128];
    struct tmk_hdf5 *file = NULL;
    (void)state;
    assert_int_equal(tmk_hdf5_open(in_folder("absent.h5", path), &file, DIAG), TMK_READ);
    must(tmk_file_write(in_folder("text.h5", path), "text", 4, DIAG));
    must_fail(tmk_hdf5_open(path, &file, DIAG), TMK_FORMAT, "HDF5: ");
    assert_null(file);
    assert_no_children();
}

GROUP_FIXTURE(make_sample, remove_folder)
