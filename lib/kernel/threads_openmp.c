/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "kernel/accel.h"

/* OpenMP's header comes with the compiler, not with the library that oneDNN runs on; this is all
 * that is needed. */
extern void omp_set_num_threads(int threads);

/* Where it lacks memory libgomp ends the process, with a line of its own: what it takes now and at
 * the thread's first parallel section is less than this, which the thread's heap keeps. */
enum { ROOM = 64 << 10 };

bool tmk_kernel_enter_thread(void) {
    void *volatile room = malloc(ROOM);
    if (!room)
        return false;
    free(room);
    omp_set_num_threads(1);
    return true;
}
