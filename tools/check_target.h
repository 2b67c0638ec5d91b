/* SPDX-License-Identifier: Apache-2.0 */
/* check ENC.json --target */
#ifndef TMK_TOOLS_CHECK_TARGET_H
#define TMK_TOOLS_CHECK_TARGET_H

#include <stdbool.h>

#include "command.h"

/* Prints what the encodings use and the target does not allow; against: a profile or a model, NULL:
 * none. The exit status. */
int check_for_target(const struct words *files, const char *name, const char *against,
                     const char *params, bool json);

#endif
