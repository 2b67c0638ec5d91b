/* SPDX-License-Identifier: Apache-2.0 */
#include "calib/method.h"

#include <string.h>

#include "calib/weights.h"

#define TMK_METHOD(symbol) extern const struct tmk_method symbol;
#include "calib/list.inc"
#undef TMK_METHOD

const struct tmk_method *const *tmk_method_list(void) {
    static const struct tmk_method *const rows[] = {
#define TMK_METHOD(symbol) &symbol,
#include "calib/list.inc"
#undef TMK_METHOD
        NULL,
    };
    return rows;
}

const struct tmk_method *tmk_method_find(const char *name) {
    for (const struct tmk_method *const *row = tmk_method_list(); *row; row++)
        if (strcmp((*row)->name, name) == 0)
            return *row;
    return strcmp(tmk_method_l4.name, name) == 0 ? &tmk_method_l4 : NULL;
}
