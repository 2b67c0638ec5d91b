/* SPDX-License-Identifier: Apache-2.0 */
/* Helper programs: what holds one that a file has taken over, and which are started at all. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

#include "base/file.h"
#include "folder.h"
#include "payload.h"
#include "sandbox/helper.h"

static const struct tmk_helper_kind payload = {"payload", "nothing", "the payload"};
static const char *const way_names[] = {
#define WAY(name) #name,
    WAYS_OUT(WAY)
#undef WAY
};

/* Every way is refused, by the filter of calls; where there is none nothing is claimed. */
TEST(ways_out_are_refused) {
    char path[128];
    struct tmk_helper helper;
    struct stat is;
    must(tmk_file_write(in_folder("held", path), "held", 4, DIAG));
    const int file = open(path, O_RDWR | O_CLOEXEC);
    assert_true(file >= 0);
    must(tmk_helper_begin(&payload, file, 4096, 1 << 26, &helper, DIAG));
    if (!helper.ready.seccomp)
        print_message("# skipped: this build or this kernel filters no calls\n");
    for (uint32_t way = 0; way < N_WAYS_OUT && helper.ready.seccomp; way++) {
        const struct payload_ask ask = {way};
        struct payload_reply reply;
        struct tmk_helper_answer answer;
        must(tmk_helper_send(&helper, &ask, sizeof ask, path, strlen(path), 1, DIAG));
        must(tmk_helper_receive(&helper, way, &answer, &reply, sizeof reply, DIAG));
        if (reply.result != -1 || reply.error != EPERM)
            fail_msg("%s: result %lld, error %d", way_names[way], (long long)reply.result,
                     reply.error);
    }
    tmk_helper_end(&helper);
    close(file);
    assert_int_equal(stat(path, &is), 0);
    assert_int_equal(is.st_size, 4);
}

TEST(a_program_that_is_not_there_is_told) {
    char path[PATH_MAX], here[128];
    const char *was = getenv("TIDEMARK_LIBEXEC");
    char *kept = was ? strdup(was) : NULL;
    assert_int_equal(unsetenv("TIDEMARK_LIBEXEC"), 0);
    must_fail(tmk_helper_find("no-such-program", path, DIAG), TMK_MACHINE, "beside the library");
    assert_int_equal(setenv("TIDEMARK_LIBEXEC", in_folder("", here), 1), 0);
    must_fail(tmk_helper_find("payload", path, DIAG), TMK_MACHINE, "TIDEMARK_LIBEXEC");
    assert_int_equal(kept ? setenv("TIDEMARK_LIBEXEC", kept, 1) : unsetenv("TIDEMARK_LIBEXEC"), 0);
    free(kept);
}

/* One that ends without an answer. */
TEST(a_program_that_is_no_helper_is_told) {
    char path[128], found[PATH_MAX];
    struct tmk_helper helper;
    must(tmk_file_write(in_folder("payload", path), "#!/bin/sh\n", 10, DIAG));
    assert_int_equal(chmod(path, 0755), 0);
    const char *was = getenv("TIDEMARK_LIBEXEC");
    char *kept = was ? strdup(was) : NULL, here[128];
    assert_int_equal(setenv("TIDEMARK_LIBEXEC", in_folder("", here), 1), 0);
    must(tmk_helper_find("payload", found, DIAG));
    must_fail(tmk_helper_begin(&payload, -1, 4096, 1 << 26, &helper, DIAG), TMK_MACHINE,
              "does not start");
    assert_int_equal(kept ? setenv("TIDEMARK_LIBEXEC", kept, 1) : unsetenv("TIDEMARK_LIBEXEC"), 0);
    free(kept);
}

GROUP_FIXTURE(make_folder, remove_folder)
