/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/vmath_kernel.h"

bool tmk_vmath_has_mvec(void) {
    return true;
}
