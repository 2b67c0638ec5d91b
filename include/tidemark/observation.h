/* SPDX-License-Identifier: Apache-2.0 */
/* What an observer outside the library gets. */
#ifndef TIDEMARK_OBSERVATION_H
#define TIDEMARK_OBSERVATION_H

#include <stdint.h>

#include <tidemark/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One value of one batch; good during the call. */
struct tmk_observation {
    uint32_t worker;                 /* the number of the thread that calls */
    uint32_t id;                     /* the value's profile ID */
    uint64_t sample, samples;        /* the batch's first sample, and how many it has */
    const struct tmk_tensor *tensor; /* dense, row-major */
};

#ifdef __cplusplus
}
#endif
#endif
