/* SPDX-License-Identifier: Apache-2.0 */
/* A profile with one of each field of the format. Always the same one. */
#pragma once

#include <tidemark/profile.h>

/* Of four samples of [N,2,3] in two batches. `per_sample`: with the input's extremes of each
 * sample. */
enum tmk_status sample_profile(bool per_sample, struct tmk_profile **out, struct tmk_diag *diag);
