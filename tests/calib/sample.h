/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings with every field and every kind of number. */
#pragma once

#include <tidemark/encodings.h>

enum tmk_status sample_encodings(struct tmk_encodings **out, struct tmk_diag *diag);
