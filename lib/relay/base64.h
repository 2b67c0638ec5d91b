/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as text of 64 letters (RFC 4648), inside JSON strings. */
#pragma once

#include "base/buf.h"
#include "base/text.h"

/* The bytes of `len` letters; TMK_FORMAT has the letter that is wrong, counted from 0. */
enum tmk_status tmk_base64_decode(const char *text, size_t len, struct tmk_buf **out, size_t *used,
                                  struct tmk_diag *diag);
void tmk_base64_print(struct tmk_text *out, const void *bytes, size_t len);
