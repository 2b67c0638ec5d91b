/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes: xxHash64 for fingerprints (https://xxhash.com), SHA-256 (FIPS 180-4) for naming models,
 * XXH3 of 128 bits for data: of many gigabytes, where SHA-256 takes a good part of a run. */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint64_t tmk_hash64(const void *bytes, size_t len, uint64_t seed);
/* The same of bytes that come in pieces: piece(context, at, &n) answers the n bytes from `at` on,
 * at least one. */
uint64_t tmk_hash64_pieces(const void *(*piece)(void *context, size_t at, size_t *n), void *context,
                           size_t len, uint64_t seed);

enum { TMK_SHA256_HEX = 65 }; /* 64 hex digits and the terminator */
struct tmk_sha256;
/* NULL when memory ran out. */
struct tmk_sha256 *tmk_sha256_create(void);
void tmk_sha256_update(struct tmk_sha256 *hash, const void *bytes, size_t len);
/* Writes the digest in lower-case hex, frees the hasher and sets *hash to NULL. */
void tmk_sha256_finish(struct tmk_sha256 **hash, char hex[TMK_SHA256_HEX]);

enum { TMK_HASH128_HEX = 33 }; /* 32 hex digits and the terminator */
struct tmk_hash128;
/* NULL when memory ran out. */
struct tmk_hash128 *tmk_hash128_create(void);
void tmk_hash128_update(struct tmk_hash128 *hash, const void *bytes, size_t len);
/* Writes the digest in lower-case hex as xxh128sum prints it, frees the hasher and sets *hash to
 * NULL. */
void tmk_hash128_finish(struct tmk_hash128 **hash, char hex[TMK_HASH128_HEX]);
