/* SPDX-License-Identifier: Apache-2.0 */
/* What a profile holds besides its values: of the model, the data, the settings and the samples. */
#ifndef TMK_SESSION_DESCRIBE_H
#define TMK_SESSION_DESCRIBE_H

#include <tidemark/profile.h>
#include <tidemark/session.h>

#include "base/hash.h"
#include "exec/run.h"
#include "feed/feed.h"
#include "session/exclude.h"
#include "transform/model.h"

/* Fills the profile's producer and model; `original` is the graph without observers. */
TMK_NODISCARD enum tmk_status tmk_describe_model(struct tmk_profile *profile,
                                                 const struct tmk_model *model,
                                                 const struct tmk_graph *original,
                                                 struct tmk_diag *diag);

/* A segment of a run, before or after it ran. */
struct tmk_segment {
    const struct tmk_model *model;
    const struct tmk_run_options *options;
    const struct tmk_observe *observe; /* as asked for; may be NULL */
    const struct tmk_graph *original;  /* without observers */
    const struct tmk_excluded *excluded;
    const struct tmk_feed *feed;
    const char (*hashes)[TMK_HASH128_HEX]; /* of the data, one a source */
    const struct tmk_exec_tally *tallies;  /* of what ran, one a stratum; NULL: nothing did */
};

/* A profile without values, of a stratum's samples; `label` is that stratum's, NULL: there are
 * none. Free it with tmk_profile_destroy. */
TMK_NODISCARD enum tmk_status tmk_segment_describe(const struct tmk_segment *segment,
                                                   uint32_t stratum, const char *label,
                                                   struct tmk_profile **out, struct tmk_diag *diag);

#endif
