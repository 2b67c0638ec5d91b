/* SPDX-License-Identifier: Apache-2.0 */
/* Of which prompt, and of which of its positions, the elements of a tensor are. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An index that follows from the place of an element, row-major: place / stride % size. */
struct tmk_index {
    size_t stride, size; /* size 0: not known */
    size_t offset;       /* of a position: what is added */
};

enum { TMK_MOST_POSITIONS = 2 }; /* queries and keys */

/* Zero-initialised: nothing is known. */
struct tmk_positions {
    struct tmk_index prompt;
    struct tmk_index position[TMK_MOST_POSITIONS];
    uint32_t n;
};

/* What is known of an input: the axes that count prompts and positions, -1: none. */
struct tmk_position_seed {
    int32_t prompt, position;
    bool first; /* its positions are the first ones, as in a cache; else the last */
};
struct tmk_position_seeds {
    const struct tmk_position_seed *input; /* by graph input; NULL: nothing is followed */
    uint32_t mask;                         /* the input that is [prompts, positions] */
};

/* The positions of a batch that are padding. */
struct tmk_padding {
    const bool *padded; /* [prompts][length] */
    size_t prompts, length;
};

static inline size_t tmk_index_at(const struct tmk_index *index, size_t place) {
    return place / index->stride % index->size + index->offset;
}

/* Is the element at this place of a position that is padding? */
static inline bool tmk_is_padding(const struct tmk_padding *padding,
                                  const struct tmk_positions *positions, size_t place) {
    const size_t prompt = tmk_index_at(&positions->prompt, place);
    for (uint32_t i = 0; i < positions->n; i++) {
        const size_t at = tmk_index_at(&positions->position[i], place);
        if (prompt < padding->prompts && at < padding->length &&
            padding->padded[prompt * padding->length + at])
            return true;
    }
    return false;
}
