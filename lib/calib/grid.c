/* SPDX-License-Identifier: Apache-2.0 */
#include "calib/grid.h"

bool tmk_grid_codes(const struct tmk_grid *grid, int32_t *lowest, int32_t *highest) {
    int bits = 0;
    bool is_signed = false;
    switch (grid->dtype) {
    case TMK_INT4:
        bits = 4, is_signed = true;
        break;
    case TMK_UINT4:
        bits = 4;
        break;
    case TMK_INT8:
        bits = 8, is_signed = true;
        break;
    case TMK_UINT8:
        bits = 8;
        break;
    case TMK_INT16:
        bits = 16, is_signed = true;
        break;
    case TMK_UINT16:
        bits = 16;
        break;
    case TMK_INT32:
        bits = 32, is_signed = true;
        break;
    default:
        return false;
    }
    if (is_signed) {
        *highest = (int32_t)((UINT32_C(1) << (bits - 1)) - 1);
        *lowest = -*highest - (grid->narrow ? 0 : 1);
    } else {
        *lowest = 0;
        *highest = (int32_t)((UINT32_C(1) << bits) - 1);
    }
    return true;
}

double tmk_grid_float8_most(enum tmk_dtype dtype) {
    switch (dtype) {
    case TMK_FLOAT8E4M3FN:
        return 448;
    case TMK_FLOAT8E4M3FNUZ:
        return 240;
    case TMK_FLOAT8E5M2:
    case TMK_FLOAT8E5M2FNUZ:
        return 57344;
    default:
        return 0;
    }
}
