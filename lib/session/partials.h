/* SPDX-License-Identifier: Apache-2.0 */
/* What the segments of a run have counted so far, stratum by stratum. */
#pragma once

#include <tidemark/profile.h>
#include <tidemark/session.h>
#include <tidemark/tensor.h>

/* Zero-initialised can be finished. */
struct tmk_partials {
    struct tmk_profile **profiles;   /* [n] of all segments; NULL: there was none */
    struct tmk_profile **before;     /* [n] from a checkpoint, until a segment is added to it */
    uint32_t n;                      /* strata; without labels 1 */
    const struct tmk_strata *labels; /* NULL: samples are not distinguished */
    struct tmk_strata_options strata;
    const char *checkpoint; /* a file; NULL: none */
};

/* `options` must outlive it. */
enum tmk_status tmk_partials_init(struct tmk_partials *partials,
                                  const struct tmk_run_options *options, struct tmk_diag *diag);
void tmk_partials_finish(struct tmk_partials *partials);

/* The setting of a stratum's profile; NULL: all samples are of one. */
const char *tmk_partials_label(const struct tmk_partials *partials, uint32_t stratum);
/* The sum describes the data as `last` does, which is the profile of a later segment, as some of it
 * is known in the end alone: of a stream how long it was. */
enum tmk_status tmk_partials_follow(struct tmk_partials *partials, uint32_t stratum,
                                    const struct tmk_profile *last, struct tmk_diag *diag);
/* Adds the profile of a segment, which is the sum's from now on, or gone. */
enum tmk_status tmk_partials_add(struct tmk_partials *partials, uint32_t stratum,
                                 struct tmk_profile *segment, struct tmk_diag *diag);
/* Samples that ran. */
uint64_t tmk_partials_run(const struct tmk_partials *partials);

/* To the checkpoint, and back. TMK_MISMATCH: it is of other strata. */
enum tmk_status tmk_partials_write(const struct tmk_partials *partials, struct tmk_diag *diag);
enum tmk_status tmk_partials_read(struct tmk_partials *partials, struct tmk_diag *diag);
/* A profile without values that covers what the checkpoint does. */
enum tmk_status tmk_partials_covered(const struct tmk_partials *partials, struct tmk_profile **out,
                                     struct tmk_diag *diag);

/* A stratum is complete: hands its profile out, and adds it to *whole (NULL before the first),
 * where it ends. */
enum tmk_status tmk_partials_close(struct tmk_partials *partials, uint32_t stratum,
                                   struct tmk_profile **whole, struct tmk_diag *diag);

/* The tensors of one value from all batches, one behind the other. */

/* Zero-initialised but for the name. */
struct tmk_gathered {
    const char *name; /* for errors */
    enum tmk_dtype dtype;
    struct tmk_shape shape; /* of a batch; dim[0] of all batches when joined */
    uint64_t batches;
    unsigned char *bytes;
    size_t used, size;
};
/* Appends a copy. join: batches are slices of the data, and are joined along their first axis.
 * TMK_SHAPE: the batches differ in more than that. */
enum tmk_status tmk_gathered_append(struct tmk_gathered *gathered, const struct tmk_tensor *tensor,
                                    bool join, struct tmk_diag *diag);
/* All of them, borrowed; without join a new first axis counts the batches. */
enum tmk_status tmk_gathered_tensor(const struct tmk_gathered *gathered, bool join,
                                    struct tmk_tensor *out, struct tmk_diag *diag);
void tmk_gathered_finish(struct tmk_gathered *gathered);
