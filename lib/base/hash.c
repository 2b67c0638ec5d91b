/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

/* The functions below OpenSSL's front: that one reads a configuration and takes thousands of
 * allocations to set itself up, and does not survive that one of them fails. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#include <stdlib.h>
#define XXH_STATIC_LINKING_ONLY /* the states, which live on the stack */
#include <xxhash.h>

struct tmk_sha256 {
    SHA256_CTX ctx;
};

uint64_t tmk_hash64(const void *bytes, size_t len, uint64_t seed) {
    return XXH64(bytes, len, seed);
}

static void write_hex(const unsigned char *digest, size_t n, char *hex) {
    static const char digit[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        hex[2 * i] = digit[digest[i] >> 4];
        hex[2 * i + 1] = digit[digest[i] & 15];
    }
    hex[2 * n] = '\0';
}

uint64_t tmk_hash64_pieces(const void *(*piece)(void *context, size_t at, size_t *n), void *context,
                           size_t len, uint64_t seed) {
    XXH64_state_t state;
    (void)XXH64_reset(&state, seed);
    for (size_t at = 0, n; at < len; at += n) {
        const void *bytes = piece(context, at, &n);
        (void)XXH64_update(&state, bytes, n);
    }
    return XXH64_digest(&state);
}

struct tmk_sha256 *tmk_sha256_create(void) {
    struct tmk_sha256 *hash = malloc(sizeof *hash);
    if (!hash)
        return NULL;
    SHA256_Init(&hash->ctx);
    return hash;
}

void tmk_sha256_update(struct tmk_sha256 *hash, const void *bytes, size_t len) {
    SHA256_Update(&hash->ctx, bytes, len);
}

void tmk_sha256_finish(struct tmk_sha256 **hash, char hex[TMK_SHA256_HEX]) {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256_Final(digest, &(*hash)->ctx);
    free(*hash);
    *hash = NULL;
    write_hex(digest, sizeof digest, hex);
}

struct tmk_hash128 *tmk_hash128_create(void) {
    XXH3_state_t *state = XXH3_createState();
    if (state)
        (void)XXH3_128bits_reset(state);
    return (struct tmk_hash128 *)state;
}

void tmk_hash128_update(struct tmk_hash128 *hash, const void *bytes, size_t len) {
    (void)XXH3_128bits_update((XXH3_state_t *)hash, bytes, len);
}

void tmk_hash128_finish(struct tmk_hash128 **hash, char hex[TMK_HASH128_HEX]) {
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest, XXH3_128bits_digest((XXH3_state_t *)*hash));
    XXH3_freeState((XXH3_state_t *)*hash);
    *hash = NULL;
    write_hex(digest.digest, sizeof digest.digest, hex);
}
