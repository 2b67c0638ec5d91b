/* SPDX-License-Identifier: Apache-2.0 */
/* Random graphs without a fuzzer.
 *
 *     graph_loop            TIDEMARK_RANDOM_GRAPHS of them (otherwise a few), from the seed
 *                           TIDEMARK_RANDOM_FIRST on; a seed that fails is printed with its graph
 *     graph_loop FILE...    those of the files' bytes: what a fuzzer found
 *
 * Prints what was compared. Exit status 1 when something does not hold. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "graph_bytes.h"
#include "graph_run.h"
#include "tools/op_rows.h"

enum { USUAL = 120, MOST_FAILURES = 20 };

static uint64_t asked(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static bool one(const uint8_t *bytes, size_t n, const char *label, struct graph_tally *tally) {
    struct made_graph made;
    struct tmk_text why = {0};
    graph_make(bytes, n, &made);
    const bool good = graph_check(&made, tally, &why);
    if (!good)
        printf("---- %s\n%s%s", label, why.data, made.text.data);
    tmk_text_finish(&why);
    made_graph_finish(&made);
    return good;
}

static void report(const struct graph_tally *t) {
    const struct tmk_op *const *list = op_rows();
    size_t ran = 0, n = 0;
    for (; list[n]; n++)
        ran += t->rows[n] > 0;
    printf("%" PRIu64 " graphs, %" PRIu64 " of them fail, in both ways\n", t->graphs,
           t->failed_alike);
    printf("%zu of %zu operator rows ran\n", ran, n);
    printf("%" PRIu64 " nodes compared, %" PRIu64 " elements; %" PRIu64
           " outputs near, not equal\n",
           t->nodes, t->elements, t->near);
    printf("%" PRIu64 " accelerated steps, %" PRIu64 " chains, %" PRIu64 " changes of layout\n",
           t->accels, t->chains, t->blocked);
    printf("%" PRIu64 " states recounted, %" PRIu64 " tensors behind derived ones\n", t->recounts,
           t->derived);
    printf("%" PRIu64 " graphs changed by passes, %" PRIu64 " outputs compared, %" PRIu64
           " ill-conditioned\n",
           t->passes, t->pass_outputs, t->unstable);
    if (getenv("TIDEMARK_RANDOM_ROWS"))
        for (size_t i = 0; i < n; i++)
            printf("%8" PRIu64 "  %s %d\n", t->rows[i], list[i]->name, list[i]->since);
}

int main(int argc, char **argv) {
    static struct graph_tally tally;
    uint64_t failures = 0;
    if (argc > 1) {
        for (int i = 1; i < argc; i++) {
            struct tmk_buf *buf = NULL;
            struct tmk_diag diag = {0};
            if (tmk_file_map(argv[i], &buf, &diag) != TMK_OK) {
                fprintf(stderr, "%s\n", diag.text);
                return 2;
            }
            failures += !one(tmk_buf_data(buf), tmk_buf_size(buf), argv[i], &tally);
            tmk_buf_unref(&buf);
        }
    } else {
        const uint64_t first = asked("TIDEMARK_RANDOM_FIRST", 1),
                       n = asked("TIDEMARK_RANDOM_GRAPHS", USUAL);
        for (uint64_t seed = first; seed < first + n && failures < MOST_FAILURES; seed++) {
            uint8_t bytes[MOST_GRAPH_BYTES];
            char label[32];
            snprintf(label, sizeof label, "seed %" PRIu64, seed);
            failures += !one(bytes, graph_bytes(seed, bytes), label, &tally);
        }
    }
    report(&tally);
    printf("%" PRIu64 " failures\n", failures);
    return failures != 0;
}
