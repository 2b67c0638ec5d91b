/* SPDX-License-Identifier: Apache-2.0 */
/* What a resumed run needs: a profile of the samples done so far, without what the model itself has
 * (names, shapes as declared, ends), as bytes that are quick to write and checked when read.
 *
 * The bytes: "TMKCHKPT"; the version (4 bytes, little-endian as all of them); the length of what
 * follows up to the checksum (8 bytes); that; XXH64 of everything before (8 bytes). In between, in
 * the numbers of stats/codec.h: the profile's header as JSON text; how many values; for each the
 * distance of its ID from the one before (from -1 at first), fingerprint, kind, status, what it has
 * (flags), types, count, shapes that ran, rule and sources, statistics, top samples, extremes of
 * each sample. Equal profiles are equal bytes, and nothing else decodes. */
#pragma once

#include <tidemark/profile.h>

#include "base/text.h"

/* Appends the checkpoint of a consistent profile (else TMK_MISMATCH). */
enum tmk_status tmk_checkpoint_encode(const struct tmk_profile *profile, struct tmk_text *out,
                                      struct tmk_diag *diag);
/* A profile with the header and, in each record, the ID, fingerprint, kind, status and all that
 * running produced; it is consistent. TMK_FORMAT for anything that encoding does not write (cut
 * short, damaged, no checkpoint), TMK_UNSUPPORTED for another version. End with
 * tmk_profile_destroy. */
enum tmk_status tmk_checkpoint_decode(const void *bytes, size_t len, struct tmk_profile **out,
                                      struct tmk_diag *diag);

/* The same between the processes of one run, which trust these bytes: consistency and checksum are
 * not checked again, which takes most of the time; the profile of them all should be. */
enum tmk_status tmk_checkpoint_pack(const struct tmk_profile *profile, struct tmk_text *out,
                                    struct tmk_diag *diag);
enum tmk_status tmk_checkpoint_unpack(const void *bytes, size_t len, struct tmk_profile **out,
                                      struct tmk_diag *diag);

/* The same for n >= 1 profiles, one behind the other, to and from a file, which is written whole or
 * not at all; those that are NULL are left out. Errors name the file. Free *out, and its *n
 * profiles with tmk_profile_destroy. */
enum tmk_status tmk_checkpoint_write(struct tmk_profile *const *profiles, size_t n,
                                     const char *path, struct tmk_diag *diag);
enum tmk_status tmk_checkpoint_read(const char *path, struct tmk_profile ***out, size_t *n,
                                    struct tmk_diag *diag);

/* Adds what was done before to the profile of what was done since: tmk_profile_merge with a decoded
 * checkpoint, of whose values only what a checkpoint holds is compared. */
enum tmk_status tmk_checkpoint_add(struct tmk_profile *profile,
                                   const struct tmk_profile *checkpoint, struct tmk_diag *diag);
