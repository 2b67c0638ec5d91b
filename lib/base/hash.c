/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

/* The functions below OpenSSL's front: that one reads a configuration and takes thousands of
 * allocations to set itself up, and does not survive that one of them fails. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#include <stdlib.h>
#include <xxhash.h>

struct tmk_sha256 {
    SHA256_CTX ctx;
};

uint64_t tmk_hash64(const void *bytes, size_t len, uint64_t seed) {
    return XXH64(bytes, len, seed);
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
    static const char digit[] = "0123456789abcdef";
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256_Final(digest, &(*hash)->ctx);
    free(*hash);
    *hash = NULL;
    for (int i = 0; i < SHA256_DIGEST_LENGTH; i++) {
        hex[2 * i] = digit[digest[i] >> 4];
        hex[2 * i + 1] = digit[digest[i] & 15];
    }
    hex[64] = '\0';
}
