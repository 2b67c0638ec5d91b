/* SPDX-License-Identifier: Apache-2.0 */
/* ai.tidemark::RoundAway: to the nearest integer, ties away from zero, as C's round; ONNX's Round
 * takes ties to even. */
#include <math.h>

#include "ops/rows.h"
#include "ops/unary.h"

TMK_ROW1(round_away_row, float, float, roundf(x))
static const struct tmk_unary round_away = {.row = {[TMK_FLOAT32] = round_away_row}};

const struct tmk_op tmk_ops_round_away[] = {
    {TMK_OP_KEY(TMK_DOMAIN_TIDEMARK, "RoundAway", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .flags = TMK_OP_INPLACE, .channel = TMK_CHANNEL_INHERIT, .table = &round_away,
     .infer = tmk_infer_unary, .run = tmk_run_unary},
    {NULL}};
