/* SPDX-License-Identifier: Apache-2.0 */
/* A profile on a terminal. Everything goes to stdout. */
#ifndef TMK_TOOLS_SHOW_H
#define TMK_TOOLS_SHOW_H

#include <tidemark/profile.h>

/* A header and one line for each of n positions in profile->tensors. */
void show_table(const struct tmk_profile *profile, const uint32_t *chosen, uint32_t n);
/* All that is known of one value. */
void show_value(const struct tmk_profile_tensor *tensor);
/* A JSON array of the chosen values' figures. */
void show_json(const struct tmk_profile *profile, const uint32_t *chosen, uint32_t n);

#endif
