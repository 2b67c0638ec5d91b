/* SPDX-License-Identifier: Apache-2.0 */
/* With seccomp: a call that is not listed here fails with EPERM. */
#include <errno.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/size.h"
#include "sandbox/served.h"

/* Memory, clocks, waiting, the end. */
static const int plain[] = {
    SCMP_SYS(brk),
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(futex),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(getrandom),
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(getppid),
    SCMP_SYS(sched_yield),
    SCMP_SYS(restart_syscall),
};

static bool allow_some(scmp_filter_ctx filter) {
    const scmp_datum_t self = (scmp_datum_t)getpid();
    bool ok = true;
    /* Some processors have fewer calls. */
    for (size_t i = 0; i < TMK_COUNT(plain); i++)
        (void)seccomp_rule_add(filter, SCMP_ACT_ALLOW, plain[i], 0);
    /* On its own descriptors only, since others could not be told apart from them. */
    ok &= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(recvmsg), 1,
                           SCMP_A0(SCMP_CMP_EQ, TMK_HELPER_SOCKET)) == 0;
    ok &= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(sendmsg), 1,
                           SCMP_A0(SCMP_CMP_EQ, TMK_HELPER_SOCKET)) == 0;
    ok &= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(pread64), 1,
                           SCMP_A0(SCMP_CMP_EQ, TMK_HELPER_FILE)) == 0;
    /* Memory of no file, and none that is executed. */
    ok &= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 2,
                           SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
                           SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, MAP_ANONYMOUS)) == 0;
    ok &= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                           SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)) == 0;
    /* abort */
    ok &= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
                           SCMP_A0(SCMP_CMP_EQ, self)) == 0;
    return ok;
}

bool tmk_refuse_calls(void) {
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (!filter)
        return false;
    const bool held = allow_some(filter) && seccomp_load(filter) == 0;
    seccomp_release(filter);
    return held;
}
