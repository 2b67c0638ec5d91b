/* SPDX-License-Identifier: Apache-2.0 */
/* Suggestions for unknown names. */
#ifndef TIDEMARK_GUESS_H
#define TIDEMARK_GUESS_H

#include <stddef.h>

#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most similar of some names, for a message about one that is not known. Start with {.wanted =
 * NAME}. Names are borrowed. Thread-safe for different guesses. */
struct tmk_guess {
    const char *wanted, *best; /* best NULL: none is similar enough */
    size_t distance;           /* edits from wanted to best */
};
/* Considers one known name. Names over 100 bytes are ignored. */
TMK_API void tmk_guess_try(struct tmk_guess *guess, const char *known);
enum { TMK_GUESS_SIZE = 128 };
/* " (did you mean 'NAME'?)", or "" where there is no best. Returns `out`. */
TMK_API const char *tmk_guess_text(const struct tmk_guess *guess, char out[TMK_GUESS_SIZE]);

#ifdef __cplusplus
}
#endif
#endif
