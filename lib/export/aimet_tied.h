/* SPDX-License-Identifier: Apache-2.0 */
/* Values that AIMET has one quantizer for: of LSTM, GRU and RNN the input, the hidden states and
 * the results, and apart from these the cell states. Each of their encodings that it reads replaces
 * the one before. Follows aimet_onnx 2.42, QuantizationSimModel._tie_rnn_hidden_state_quantizers.
 */
#ifndef TMK_EXPORT_AIMET_TIED_H
#define TMK_EXPORT_AIMET_TIED_H

#include "export/rows.h"

/* Is it in AIMET's list of operators that keep the grid of their operand? NULL is none. */
bool tmk_aimet_keeps_grid(const struct tmk_node *node);

/* What replaces encodings of rows. Zero-initialised is empty. */
struct tmk_aimet_ties {
    struct tmk_tied *items;
    size_t n;
};
/* Gives rows of values that share a quantizer an encoding that covers all of their ranges, which
 * lives until tmk_aimet_ties_finish, and reports how many differ from their own. job->graph is not
 * NULL. */
TMK_NODISCARD enum tmk_status tmk_aimet_tie(const struct tmk_export_job *job,
                                            struct tmk_export_rows *rows,
                                            struct tmk_aimet_ties *ties, struct tmk_diag *diag);
void tmk_aimet_ties_finish(struct tmk_aimet_ties *ties);

#endif
