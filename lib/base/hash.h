/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes: xxHash64 for fingerprints (https://xxhash.com), SHA-256 (FIPS 180-4) for naming files. */
#ifndef TMK_BASE_HASH_H
#define TMK_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t tmk_hash64(const void *bytes, size_t len, uint64_t seed);

enum { TMK_SHA256_HEX = 65 }; /* 64 hex digits and the terminator */
struct tmk_sha256;
/* NULL when memory ran out. */
struct tmk_sha256 *tmk_sha256_create(void);
void tmk_sha256_update(struct tmk_sha256 *hash, const void *bytes, size_t len);
/* Writes the digest in lower-case hex, frees the hasher and sets *hash to NULL. */
void tmk_sha256_finish(struct tmk_sha256 **hash, char hex[TMK_SHA256_HEX]);

#endif
