/* SPDX-License-Identifier: Apache-2.0 */
/* Picks become encodings. */
#pragma once

#include "calib/select.h"
#include "tensor/fixed.h"

struct tmk_make {
    const struct tmk_selection *selection;
    const struct tmk_ties *ties;
    const struct tmk_config *config;
    struct tmk_encodings *encodings;
    struct tmk_encoding *items; /* [n_picks], one a pick; n = 0: it could not be made */
    const char **dropped;       /* [n_picks] why it could not */
    const struct tmk_tensor *(*constant)(void *model, uint32_t id); /* or NULL */
    const struct tmk_encoding *(*codes)(void *model, uint32_t id);  /* or NULL */
    void *model;
    bool targeted;                                   /* the config is a target's, too */
    struct tmk_weight_ranges *known;                 /* or NULL */
    void (*remark)(void *context, const char *text); /* or NULL */
    bool (*stop)(void *context);                     /* or NULL */
    void *context;
    struct tmk_diag *diag;
};

/* Fills items: activations and weights, then biases, whose scales are products of theirs.
 * TMK_UNSUPPORTED: the profile has no histograms, and the method wants them. */
enum tmk_status tmk_make_items(struct tmk_make *make);
/* A weight whose numbers are known, and are to be used; *done stays false for others
 * (calib/weights.c). TMK_MISMATCH: they are not those that were profiled. */
enum tmk_status tmk_make_weight(struct tmk_make *make, uint32_t pick, bool *done);

/* TMK_INTERRUPTED: it is to stop. */
enum tmk_status tmk_make_goes_on(const struct tmk_make *make);
void tmk_make_remark(const struct tmk_make *make, const char *fmt, ...) TMK_PRINTF(2, 3);
const struct tmk_profile_tensor *tmk_make_tensor(const struct tmk_make *make, uint32_t pick);
/* What all items have; n scales, to be filled. */
enum tmk_status tmk_make_begin(struct tmk_make *make, uint32_t pick, uint32_t n);

/* The multiplications by which engines of integers bring codes from one scale to another. */

/* Fills encodings->requants from make->items. `rounding` and `pow2_requant` of the encodings say
 * how. */
enum tmk_status tmk_make_requants(struct tmk_make *make);

/* How far fixed-point multiplication (tensor/fixed.h) is from multiplying by the real number. Pure
 * functions; thread-safe. */

/* At least |tmk_fixed_multiply - x * real| for every int32 x whose result lies in [lowest,
 * highest]: proven, and near what occurs. */
double tmk_fixed_error(int32_t q, int32_t shift, double real, enum tmk_rounding rounding,
                       int32_t lowest, int32_t highest);
