/* SPDX-License-Identifier: Apache-2.0 */
#include "terminate.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "command.h"

/* oneDNN lets std::bad_alloc through to callers that are C, and C++ then ends the process. Streams
 * are not flushed: what was printed so far is not the whole answer. */
static void report_terminate(void) {
    static const struct tmk_diag diag = {
        .text = "oneDNN ended the process, most likely for lack of memory"};
    _exit(report_error(TMK_NOMEM, &diag));
}

static bool own_exit;

/* libgomp calls exit when it has no memory, with a status that means something else here. */
static void replace_status(void) {
    if (!own_exit)
        _exit(EXIT_MACHINE);
}

int mark_own_exit(int status) {
    own_exit = true;
    return status;
}

void handle_terminate(void) {
    void (*(*set_terminate)(void (*)(void)))(void);
    /* std::set_terminate, where a C++ library is there at all */
    *(void **)&set_terminate = dlsym(RTLD_DEFAULT, "_ZSt13set_terminatePFvvE");
    if (set_terminate)
        (void)set_terminate(report_terminate);
    (void)atexit(replace_status);
}
