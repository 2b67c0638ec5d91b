/* SPDX-License-Identifier: Apache-2.0 */
#include "data/role.h"

#include <string.h>

static bool has_word(const char *name, const char *const *words) {
    for (; *words; words++)
        if (strstr(name, *words))
            return true;
    return false;
}

bool tmk_role_is_of_encoder(const char *input) {
    static const char *const words[] = {"encoder", "cross", NULL};
    return has_word(input, words);
}

bool tmk_role_starts_as_zeros(const char *input) {
    static const char *const words[] = {"conv", "recurrent", "ssm", "state", NULL};
    return has_word(input, words);
}

enum tmk_role tmk_role_of(const struct tmk_source_input *input, bool alone) {
    static const char *const masks[] = {"mask", NULL}, *const positions[] = {"position", NULL},
                             *const types[] = {"token_type", "segment", NULL},
                             *const lengths[] = {"seqlen", "seq_len", "length", NULL},
                             *const places[] = {"write_ind", NULL},
                             *const caches[] = {"past", "cache", NULL},
                             *const tokens[] = {"ids", "token", NULL};
    const char *name = input->input;
    const bool integer = input->dtype == TMK_INT64 || input->dtype == TMK_INT32;
    if (input->dtype == TMK_BOOL && strstr(name, "use_cache"))
        return TMK_ROLE_USES_CACHE;
    if (has_word(name, masks))
        return TMK_ROLE_MASK;
    if (has_word(name, positions))
        return TMK_ROLE_POSITIONS;
    if (has_word(name, types))
        return TMK_ROLE_TYPES;
    if (integer && (has_word(name, places) || (has_word(name, lengths) && has_word(name, caches))))
        return TMK_ROLE_BEFORE;
    if (integer && has_word(name, lengths))
        return TMK_ROLE_LENGTH;
    if (has_word(name, caches))
        return TMK_ROLE_CACHE;
    if (input->dtype == TMK_FLOAT32 && strstr(name, "embeds"))
        return TMK_ROLE_EMBEDDINGS;
    return integer && (alone || has_word(name, tokens)) ? TMK_ROLE_TOKENS : TMK_ROLE_NONE;
}
