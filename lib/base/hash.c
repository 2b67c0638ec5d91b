/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <xxhash.h>

struct tmk_sha256 {
    EVP_MD_CTX *ctx;
};

uint64_t tmk_hash64(const void *bytes, size_t len, uint64_t seed) {
    return XXH64(bytes, len, seed);
}

struct tmk_sha256 *tmk_sha256_create(void) {
    struct tmk_sha256 *hash = malloc(sizeof *hash);
    if (!hash)
        return NULL;
    hash->ctx = EVP_MD_CTX_new();
    if (!hash->ctx || EVP_DigestInit_ex(hash->ctx, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(hash->ctx);
        free(hash);
        return NULL;
    }
    return hash;
}

void tmk_sha256_update(struct tmk_sha256 *hash, const void *bytes, size_t len) {
    EVP_DigestUpdate(hash->ctx, bytes, len);
}

void tmk_sha256_finish(struct tmk_sha256 **hash, char hex[TMK_SHA256_HEX]) {
    static const char digit[] = "0123456789abcdef";
    unsigned char digest[EVP_MAX_MD_SIZE] = {0};
    EVP_DigestFinal_ex((*hash)->ctx, digest, NULL);
    EVP_MD_CTX_free((*hash)->ctx);
    free(*hash);
    *hash = NULL;
    for (int i = 0; i < 32; i++) {
        hex[2 * i] = digit[digest[i] >> 4];
        hex[2 * i + 1] = digit[digest[i] & 15];
    }
    hex[64] = '\0';
}
