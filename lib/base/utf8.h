/* SPDX-License-Identifier: Apache-2.0 */
/* Whether bytes are text. */
#ifndef TMK_BASE_UTF8_H
#define TMK_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#include <tidemark/status.h>

/* Well-formed UTF-8 (Unicode 15, table 3-7): no overlong forms, no surrogates, nothing above
 * U+10FFFF. */
bool tmk_utf8_valid(const char *bytes, size_t len);

/* The same for a file's text: TMK_FORMAT, with the first byte that is none. */
TMK_NODISCARD enum tmk_status tmk_utf8_check(const char *bytes, size_t len, struct tmk_diag *diag);

/* A code point up to U+10FFFF as UTF-8; how many bytes it takes. */
size_t tmk_utf8_put(unsigned point, char out[4]);

#endif
