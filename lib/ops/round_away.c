/* SPDX-License-Identifier: Apache-2.0 */
/* ai.tidemark::RoundAway: to the nearest integer, ties away from zero, as C's round; ONNX's Round
 * takes ties to even. */
#include <math.h>

#include "ops/rows.h"
#include "ops/unary.h"

TMK_ROW1(round_away_row, float, float, roundf(x))
static const struct tmk_unary round_away = {.row = {[TMK_FLOAT32] = round_away_row}};

static enum tmk_status infer_round_away(struct tmk_infer *infer) {
    return tmk_infer_unary(infer, &round_away);
}

static enum tmk_status run_round_away(struct tmk_run *run) {
    return tmk_run_unary(run, &round_away);
}

const struct tmk_op tmk_op_RoundAway_1 = {
    TMK_OP_KEY(TMK_DOMAIN_TIDEMARK, "RoundAway", 1, INT32_MAX),
    TMK_OP_COUNTS(1, 1, 1, 1),
    .flags = TMK_OP_PURE | TMK_OP_INPLACE,
    .channel = TMK_CHANNEL_INHERIT,
    .attrs = tmk_attrs_none,
    .infer = infer_round_away,
    .run = run_round_away,
    .sample = "graph \"round\" opset 13 \"ai.tidemark\" 1 {\n"
              "  input %x : f32[2,3,4]\n"
              "  %y = ai.tidemark::RoundAway(%x)\n"
              "  output %y\n"
              "}\n",
};
