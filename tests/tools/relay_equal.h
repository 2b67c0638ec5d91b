/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "relay/ast.h"

/* Same functions, expressions, attributes, declared types, constants by bytes; where `names` is
 * true also the same names of bindings and the same comments. Never compares places. On a
 * difference `why` (may be NULL) has the first. */
bool relay_equal(const struct tmk_relay_module *a, const struct tmk_relay_module *b, bool names,
                 struct tmk_diag *why);
