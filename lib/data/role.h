/* SPDX-License-Identifier: Apache-2.0 */
/* What the inputs of a language model are, by their names. */
#pragma once

#include "data/source.h"

enum tmk_role {
    TMK_ROLE_NONE,
    TMK_ROLE_TOKENS,     /* token IDs */
    TMK_ROLE_EMBEDDINGS, /* of tokens, in place of IDs */
    TMK_ROLE_MASK,       /* nonzero at each token that there is, those in the caches included */
    TMK_ROLE_POSITIONS,  /* of the tokens */
    TMK_ROLE_TYPES,      /* segments of the tokens */
    TMK_ROLE_LENGTH,     /* tokens there are, those in the caches included (seqlens_k: less 1) */
    TMK_ROLE_BEFORE,     /* tokens in the caches; where the next one is written */
    TMK_ROLE_CACHE,
    TMK_ROLE_USES_CACHE /* a bool: are there tokens in the caches? */
};

/* `alone`: the model has no other input. */
enum tmk_role tmk_role_of(const struct tmk_source_input *input, bool alone);
/* Does an encoder make it? Then it does not follow from the tokens of a decoder. */
bool tmk_role_is_of_encoder(const char *input);
/* Of a cache of a fixed size: the state of a recurrence starts as zeros, keys of an encoder do not.
 */
bool tmk_role_starts_as_zeros(const char *input);
