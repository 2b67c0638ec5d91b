/* SPDX-License-Identifier: Apache-2.0 */
#include "base/grow.h"

#include <stdlib.h>

#include "base/size.h"

void *tmk_grown(void *array, size_t used, size_t *size, size_t element) {
    size_t larger, bytes;
    if (used < *size)
        return array;
    if (!tmk_mul_size(*size ? *size : 8, 2, &larger) || !tmk_mul_size(larger, element, &bytes))
        return NULL;
    void *grown = realloc(array, bytes);
    if (grown)
        *size = larger;
    return grown;
}
