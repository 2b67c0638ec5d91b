/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/inputs.h"

/* A folder, which each test works in. */
static char root[] = "/tmp/tidemark-outfile-XXXXXX";

static int set_up(void **state) {
    (void)state;
    strcpy(root + strlen(root) - 6, "XXXXXX");
    return mkdtemp(root) && chdir(root) == 0 ? 0 : 1;
}

static size_t entries(bool remove) {
    size_t n = 0;
    struct dirent *entry;
    DIR *dir = opendir(root);
    assert_non_null(dir);
    while ((entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            n++;
            if (remove)
                assert_int_equal(unlinkat(dirfd(dir), entry->d_name, 0) == 0 ||
                                     unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR) == 0,
                                 1);
        }
    closedir(dir);
    return n;
}

static int tear_down(void **state) {
    (void)state;
    entries(true);
    return rmdir(root);
}

static void put(const char *path, const char *text) {
    must(tmk_file_write(path, text, strlen(text), DIAG));
}

static void assert_holds(const char *path, const char *text) {
    char bytes[64];
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    ssize_t n = read(fd, bytes, sizeof bytes);
    close(fd);
    assert_int_equal(n, strlen(text));
    assert_memory_equal(bytes, text, strlen(text));
}

TEST(a_file_that_was_there_keeps_its_permissions) {
    struct stat st;
    put("a", "old");
    assert_int_equal(chmod("a", 0606), 0);
    put("a", "new");
    assert_int_equal(stat("a", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0606);
    const mode_t mask = umask(027);
    put("b", "new");
    umask(mask);
    assert_int_equal(stat("b", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(entries(false), 2);
}

TEST(links_stay_and_what_they_lead_to_is_written) {
    struct stat st;
    assert_int_equal(mkdir("d", 0777), 0);
    assert_int_equal(symlink("d/there", "one"), 0);
    assert_int_equal(symlink("one", "two"), 0);
    put("two", "text");
    assert_holds("d/there", "text");
    assert_int_equal(lstat("two", &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(symlink("circle", "circle"), 0);
    assert_int_equal(tmk_file_write("circle", "", 0, NULL), TMK_WRITE);
    assert_int_equal(unlink("d/there"), 0);
}

TEST(links_of_others_in_shared_folders_are_not_followed) {
    if (geteuid() != 0)
        skip(); /* only root can make one */
    put("target", "before");
    assert_int_equal(mkdir("shared", 0777), 0);
    assert_int_equal(chmod("shared", 01777), 0);
    assert_int_equal(symlink("../target", "shared/out"), 0);
    assert_int_equal(symlink("../new", "shared/new"), 0);
    put("shared/out", "own");
    assert_holds("target", "own");
    assert_int_equal(lchown("shared/out", 65534, 65534), 0);
    assert_int_equal(lchown("shared/new", 65534, 65534), 0);
    assert_int_equal(tmk_file_write("shared/out", "x", 1, DIAG), TMK_WRITE);
    assert_int_equal(tmk_file_write("shared/new", "x", 1, DIAG), TMK_WRITE);
    assert_holds("target", "own");
    assert_int_equal(access("new", F_OK), -1);
    assert_int_equal(chmod("shared", 0777), 0);
    put("shared/out", "plain folder");
    assert_holds("target", "plain folder");
    assert_int_equal(unlink("shared/out") | unlink("shared/new"), 0);
}

TEST(folders_and_impossible_names_are_refused_at_once) {
    struct tmk_outfile out;
    char name[300];
    memset(name, 'n', sizeof name);
    name[256] = '\0';
    assert_int_equal(tmk_outfile_begin(name, &out, NULL), TMK_WRITE);
    name[255] = '\0';
    put(name, "as long as may be");
    must_fail(tmk_outfile_begin(root, &out, DIAG), TMK_WRITE, "Is a directory");
    assert_int_equal(tmk_outfile_begin("none/", &out, NULL), TMK_WRITE);
    assert_int_equal(tmk_outfile_begin("none/a", &out, NULL), TMK_WRITE);
    assert_int_equal(tmk_outfile_begin("", &out, NULL), TMK_WRITE);
    assert_int_equal(tmk_outfile_check("a", NULL), TMK_OK);
    assert_int_equal(entries(false), 1);
}

TEST(pipes_and_descriptors_are_written_straight) {
    char path[32], bytes[8];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    assert_true(tmk_path_is_stream(path));
    put(path, "text");
    assert_int_equal(read(ends[0], bytes, sizeof bytes), 4);
    assert_memory_equal(bytes, "text", 4);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(tmk_file_write(path, "x", 1, NULL), TMK_WRITE);
    put("/dev/null", "text");
    assert_true(tmk_path_is_stream("/dev/null"));
    assert_false(tmk_path_is_stream("none"));
    assert_int_equal(tmk_file_write("/dev/full", "x", 1, NULL), TMK_WRITE);
}

/* The last of the three can't be put in its place any more. */
TEST(files_that_belong_together_appear_all_or_none) {
    struct tmk_outfile files[3] = {{0}};
    static const char *const paths[] = {"old", "new", "third"};
    put("old", "as it was");
    for (int i = 0; i < 3; i++) {
        must(tmk_outfile_begin(paths[i], &files[i], DIAG));
        must(tmk_outfile_write(&files[i], "text", 4, DIAG));
    }
    close(files[2].folder);
    files[2].folder = open("/proc", O_PATH | O_DIRECTORY); /* where nothing can be linked */
    must_fail(tmk_outfiles_commit(files, 3, DIAG), TMK_WRITE, "third: cannot be written");
    assert_null(strstr(test_diag.text, "already"));
    assert_holds("old", "as it was");
    assert_int_equal(access("new", F_OK), -1);
    assert_int_equal(entries(false), 1);
    const struct tmk_file_content contents[] = {{"old", "1", 1}, {"new", "2", 1}};
    assert_int_equal(tmk_files_write(contents, 2, NULL), TMK_OK);
    assert_holds("old", "1");
    assert_holds("new", "2");
    assert_int_equal(entries(false), 2);
}

static void assert_refused(const char *path) {
    must_fail(tmk_file_write(path, "x", 1, DIAG), TMK_ARGUMENT, path);
}

TEST(no_file_replaces_one_that_is_read) {
    struct stat st;
    struct tmk_infile file;
    struct tmk_buf *buf;
    put("in", "first");
    assert_int_equal(link("in", "hard"), 0);
    assert_int_equal(symlink("in", "soft"), 0);
    must(tmk_infile_open("in", &file, DIAG));
    assert_refused("in");
    assert_refused("hard");
    assert_refused("soft");
    assert_refused("./in");
    tmk_infile_close(&file);
    put("in", "again"); /* it is not open, and was not registered */
    must(tmk_file_map("in", &buf, DIAG));
    assert_refused("in");
    tmk_buf_unref(&buf);
    put("in", "third");

    tmk_inputs_begin();
    tmk_inputs_begin();
    must(tmk_infile_open("in", &file, DIAG));
    tmk_infile_close(&file);
    assert_refused("in");
    tmk_inputs_end();
    assert_refused("soft");
    assert_int_equal(stat("in", &st), 0);
    tmk_input_forget(&st);
    put("in", "fourth");
    must(tmk_infile_open("in", &file, DIAG));
    tmk_infile_close(&file);
    assert_refused("in");
    tmk_inputs_end();
    put("in", "fifth");
    assert_holds("hard", "first");
}

TEST(many_files_are_remembered) {
    enum { FILES = 300 };
    char name[16];
    tmk_inputs_begin();
    for (int i = 0; i < FILES; i++) {
        struct tmk_infile file;
        snprintf(name, sizeof name, "%d", i);
        put(name, name);
        must(tmk_infile_open(name, &file, DIAG));
        tmk_infile_close(&file);
    }
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "%d", i);
        assert_refused(name);
    }
    tmk_inputs_end();
    put(name, "x");
}

TEST(the_same_file_has_several_names) {
    put("in", "first");
    assert_int_equal(link("in", "hard"), 0);
    assert_int_equal(symlink("in", "soft"), 0);
    assert_int_equal(symlink("none", "later"), 0);
    assert_int_equal(mkdir("sub", 0777), 0);
    assert_true(tmk_same_file("in", "in"));
    assert_true(tmk_same_file("hard", "soft"));
    assert_true(tmk_same_file("sub/../in", "./in"));
    assert_true(tmk_same_file("later", "none"));
    assert_true(tmk_same_file("none", "sub/../none"));
    assert_false(tmk_same_file("none", "sub/none"));
    assert_false(tmk_same_file("none", "in"));
    assert_false(tmk_same_file("no/such", "no/such"));
    assert_false(tmk_same_file("/dev/null", "/dev/null"));
    assert_false(tmk_same_file(NULL, "in"));
    assert_false(tmk_same_file("sub", "sub"));
}

static void make_temporary(const char *name, time_t age) {
    const struct timespec times[2] = {{.tv_sec = time(NULL) - age}, {.tv_sec = time(NULL) - age}};
    int fd = open(name, O_CREAT | O_WRONLY, 0666);
    assert_true(fd >= 0);
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

TEST(what_dead_processes_left_goes_after_a_day) {
    make_temporary(TMK_TEMPORARY "abcdefghijkl", 2 * 24 * 60 * 60);
    make_temporary(TMK_TEMPORARY "young2345678", 60);
    make_temporary(TMK_TEMPORARY "notes", 2 * 24 * 60 * 60);
    put("a", "old");
    put("a", "new");
    assert_int_equal(access(TMK_TEMPORARY "abcdefghijkl", F_OK), -1);
    assert_int_equal(access(TMK_TEMPORARY "young2345678", F_OK), 0);
    assert_int_equal(access(TMK_TEMPORARY "notes", F_OK), 0);
    assert_int_equal(entries(false), 3);
}

TEST_FIXTURE(set_up, tear_down)
