/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/accel.h"

/* OpenMP's header comes with the compiler, not with the library that oneDNN runs on; this is all
 * that is needed. */
extern void omp_set_num_threads(int threads);

void tmk_kernel_enter_thread(void) {
    omp_set_num_threads(1);
}
