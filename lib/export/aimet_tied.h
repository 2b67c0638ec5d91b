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

struct tmk_tied;
/* Gives rows of values that share a quantizer an encoding that covers all of their ranges, and
 * reports how many differ from their own. All IDs of job->graph are below n. *out: malloc'ed,
 * whatever is returned; it holds these encodings. */
TMK_NODISCARD enum tmk_status tmk_aimet_tie(const struct tmk_export_job *job, size_t n,
                                            struct tmk_export_rows *rows, struct tmk_tied **out,
                                            struct tmk_diag *diag);

#endif
