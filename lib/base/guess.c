/* SPDX-License-Identifier: Apache-2.0 */
/* The most similar of names that are known, for messages about one that is not. */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <tidemark/guess.h>

enum { LONGEST = 100, WITHIN = 1000 }; /* WITHIN: farther than any number of edits */

static bool same_letter(char a, char b) {
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

/* How many characters to put in, leave out, replace or swap with their neighbour; case is free. */
static size_t edit_distance(const char *a, size_t n, const char *b, size_t m) {
    size_t rows[3][LONGEST + 1];
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= m; j++)
        last[j] = j;
    for (size_t i = 1; i <= n; i++) {
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            now[j] = min_size(min_size(last[j], now[j - 1]) + 1,
                              last[j - 1] + !same_letter(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
                same_letter(a[i - 2], b[j - 1]))
                now[j] = min_size(now[j], before[j - 2] + 1);
        }
        size_t *const free_row = before;
        before = last;
        last = now;
        now = free_row;
    }
    return last[m];
}

void tmk_guess_try(struct tmk_guess *guess, const char *known) {
    const size_t n = strlen(guess->wanted), m = strlen(known);
    if (!n || !m || n > LONGEST || m > LONGEST)
        return;
    size_t distance = edit_distance(guess->wanted, n, known, m);
    if (distance > (n < 3 ? 1 : (n + 2) / 3)) {
        if (n < 3 || !strstr(known, guess->wanted))
            return;
        distance = WITHIN + m - n; /* a part of a name, where no whole one is near */
    }
    if (!guess->best || distance < guess->distance) {
        guess->best = known;
        guess->distance = distance;
    }
}

const char *tmk_guess_text(const struct tmk_guess *guess, char out[TMK_GUESS_SIZE]) {
    out[0] = '\0';
    if (guess->best)
        snprintf(out, TMK_GUESS_SIZE, " (did you mean '%s'?)", guess->best);
    return out;
}
