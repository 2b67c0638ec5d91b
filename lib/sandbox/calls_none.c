/* SPDX-License-Identifier: Apache-2.0 */
/* Instead of calls.c in a build without libseccomp, and in one with sanitizers, which need more
 * calls than the program. */
#include "sandbox/served.h"

bool tmk_refuse_calls(void) {
    return false;
}
