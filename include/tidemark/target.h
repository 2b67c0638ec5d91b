/* SPDX-License-Identifier: Apache-2.0 */
/* Targets: what a runtime, compiler or processor computes in codes, read from a table. A table is a
 * base configuration of tmk_calibrate, and limits that encodings are checked against.
 * docs/targets.md describes the file.
 *
 * Thread-safety: a target does not change; any number of threads may read it. */
#ifndef TIDEMARK_TARGET_H
#define TIDEMARK_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/encodings.h>
#include <tidemark/profile.h>
#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tmk_target;

/* A word that ends with ".json" or contains '/' is a file. Other words are names: NAME.json in the
 * folders that the environment variable TIDEMARK_TARGETS lists (separated by ':'), then a built-in
 * table. TMK_ARGUMENT: there is no such name. TMK_READ, TMK_FORMAT: the file, with the entry. End
 * with tmk_target_close. */
TMK_API enum tmk_status tmk_target_open(const char *name, struct tmk_target **out,
                                        struct tmk_diag *diag);
/* Frees and sets *target to NULL; NULL is allowed. */
TMK_API void tmk_target_close(struct tmk_target **target);

/* Strings live as long as the target. */
TMK_API const char *tmk_target_name(const struct tmk_target *target);
TMK_API const char *tmk_target_title(const struct tmk_target *target);
/* The i-th format of tmk_export that the target reads, the preferred one first; NULL behind the
 * last. */
TMK_API const char *tmk_target_export(const struct tmk_target *target, size_t i);
/* The name of the i-th built-in table; NULL behind the last. */
TMK_API const char *tmk_target_built_in(size_t i);

/* Calls `tell` (may be NULL) with one line for each use of codes that the table does not allow:
 * operators without a kernel, types, schemes, scales per channel, scales that must be equal.
 * *found is their number. `profile` is the one that the encodings were made of, or that of a model
 * (tmk_model_skeleton). NULL: only types, schemes and granularity are compared, with what any
 * operator of the table has. TMK_MISMATCH: the profile is of another network. */
TMK_API enum tmk_status tmk_target_check(const struct tmk_target *target,
                                         const struct tmk_encodings *encodings,
                                         const struct tmk_profile *profile,
                                         void (*report)(void *context, const char *text),
                                         void *context, uint32_t *found, struct tmk_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
