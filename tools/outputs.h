/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TMK_TOOLS_OUTPUTS_H
#define TMK_TOOLS_OUTPUTS_H

#include "command.h"

/* No output of the options is an input, or another output, under whatever names. `rest`: words that
 * are no options; all are taken for inputs. False after an error message. The library checks once
 * more, when a file is written (tidemark/inputs.h): it has the files that inputs name. */
bool check_outputs(const struct command *command, const struct option_row *options,
                   const struct words *rest, int *exit_status);

#endif
