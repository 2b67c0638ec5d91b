/* SPDX-License-Identifier: Apache-2.0 */
/* All of a source's arrays, entry by entry. */
#pragma once

#include "data/source.h"

/* Opens, reads `step` >= 1 entries at a time and closes. With `wants`, for a source that settles.
 */
void fuzz_read_source(const char *path, const struct tmk_source_options *options, uint64_t step,
                      const struct tmk_source_input *wants, uint32_t n_wants);
