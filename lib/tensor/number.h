/* SPDX-License-Identifier: Apache-2.0 */
/* Single elements, as numbers of any type. */
#ifndef TMK_TENSOR_NUMBER_H
#define TMK_TENSOR_NUMBER_H

#include <tidemark/tensor.h>

/* Can both functions below take the type? It is one that feeds inputs with tokens, masks, lengths:
 * float32, int64, int32, bool. */
bool tmk_number_takes(enum tmk_dtype dtype);
/* Element `at`. */
double tmk_number_get(const struct tmk_tensor *tensor, size_t at);
/* Sets it. TMK_FORMAT: the type has no such number; TMK_TYPE: it is none of these types. */
TMK_NODISCARD enum tmk_status tmk_number_put(struct tmk_tensor *tensor, size_t at, double value,
                                             struct tmk_diag *diag);

#endif
