/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings with every field and every kind of number. */
#ifndef TMK_CALIB_SAMPLE_H
#define TMK_CALIB_SAMPLE_H

#include <tidemark/encodings.h>

enum tmk_status sample_encodings(struct tmk_encodings **out, struct tmk_diag *diag);

#endif
