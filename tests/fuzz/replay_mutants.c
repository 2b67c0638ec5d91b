/* SPDX-License-Identifier: Apache-2.0 */
/* Mutants of every file of the given folders go through a target, so many of each, the same in
 * every run: of their form (mutate.h) where the target has one, else of bytes. Where bytes are
 * choices, others are drawn. TIDEMARK_FUZZ_KEEP names a file that gets each mutant before it is
 * read.
 *
 *     replay_mutants TARGET COUNT FOLDER...      one that is not there has no files
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/file.h"
#include "base/size.h"
#include "fuzz.h"
#include "mutate.h"

enum {
    MOST = 200000,
    CHAIN = 2 /* a mutant in so many begins with the file itself */,
    CHOICES = 48
};

static int by_name(const struct dirent **a, const struct dirent **b) {
    return alphasort(a, b);
}

static int is_file(const struct dirent *entry) {
    return entry->d_type != DT_DIR;
}

static void keep(const uint8_t *data, size_t size) {
    const char *path = getenv("TIDEMARK_FUZZ_KEEP");
    FILE *file = path ? fopen(path, "wb") : NULL;
    if (file) {
        (void)fwrite(data, 1, size, file);
        fclose(file);
    }
}

static uint64_t draw(uint64_t *random, uint64_t below) {
    *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (*random >> 33) % below;
}

static size_t draw_choices(uint8_t *data, uint64_t random) {
    for (size_t i = 0; i < CHOICES; i++)
        data[i] = (uint8_t)draw(&random, 256);
    return 1 + draw(&random, CHOICES);
}

/* A bit, a number, a range that is gone, twice there or zeroed, the end. */
static size_t change_bytes(uint8_t *data, size_t size, uint64_t random) {
    static const uint64_t numbers[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fffffff, 0xffffffff, UINT64_MAX};
    const size_t at = draw(&random, size),
                 reach = 1 + draw(&random, draw(&random, 2) ? 8 : size - at),
                 len = reach < size - at ? reach : size - at;
    switch (draw(&random, 7)) {
    case 0:
        return 1 + at;
    case 1:
        memmove(data + at, data + at + len, size - at - len);
        return size - len;
    case 2:
        if (size + len > MOST)
            return size;
        memmove(data + at + len, data + at, size - at);
        return size + len;
    case 3:
        memset(data + at, 0, len);
        return size;
    case 4: {
        const uint64_t number = numbers[draw(&random, TMK_COUNT(numbers))];
        memcpy(data + at, &number, size - at < 8 ? size - at : (size_t)1 << draw(&random, 4));
        return size;
    }
    default:
        data[at] ^= (uint8_t)(1U << draw(&random, 8));
        return size;
    }
}

static size_t mutate(const char *target, uint8_t *data, size_t size, unsigned seed) {
    uint64_t random = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
    if (fuzz_has_mutator(target))
        return fuzz_mutate(target, data, size, MOST, seed);
    if (strcmp(target, "hdf5_edits") == 0 || strcmp(target, "graphs") == 0)
        return draw_choices(data, random);
    return size ? change_bytes(data, size, random) : 0;
}

/* ---- what it took ---- */

static double slowest, used;

static double processor_time(void) {
    struct rusage own, others;
    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &others);
    const struct timeval *all[] = {&own.ru_utime, &own.ru_stime, &others.ru_utime,
                                   &others.ru_stime};
    double sum = 0;
    for (size_t i = 0; i < TMK_COUNT(all); i++)
        sum += (double)all[i]->tv_sec + 1e-6 * (double)all[i]->tv_usec;
    return sum;
}

static void run_one(const uint8_t *data, size_t size) {
    const double before = processor_time();
    (void)LLVMFuzzerTestOneInput(data, size);
    const double took = processor_time() - before;
    used += took;
    slowest = took > slowest ? took : slowest;
}

/* Returns how many there were. */
static int replay(const struct tmk_buf *buf, const char *target, int count) {
    static uint8_t data[MOST];
    size_t size = 0;
    int ran = 0;
    for (int i = 0; i < count && tmk_buf_size(buf) <= MOST; i++) {
        if (i % CHAIN == 0 || !size) {
            size = tmk_buf_size(buf);
            memcpy(data, tmk_buf_data(buf), size);
        }
        size = mutate(target, data, size, (unsigned)i);
        if (!size)
            continue;
        keep(data, size);
        run_one(data, size);
        ran++;
    }
    return ran;
}

int main(int argc, char **argv) {
    int ran = 0, files = 0;
    if (argc < 4 || !fuzz_choose(argv[1])) {
        fprintf(stderr, "usage: %s TARGET COUNT FOLDER...\n", argv[0]);
        return 2;
    }
    for (int i = 3; i < argc; i++) {
        struct dirent **entries = NULL;
        const int n = scandir(argv[i], &entries, is_file, by_name);
        for (int j = 0; j < n; j++) {
            char path[4096];
            struct tmk_diag diag = {0};
            struct tmk_buf *buf = NULL;
            snprintf(path, sizeof path, "%s/%s", argv[i], entries[j]->d_name);
            printf("%s\n", path);
            fflush(stdout); /* the last line names it */
            if (tmk_file_map(path, &buf, &diag) == TMK_OK) {
                ran += replay(buf, argv[1], atoi(argv[2]));
                files++;
            }
            tmk_buf_unref(&buf);
            free(entries[j]);
        }
        free(entries);
    }
    struct rusage own;
    getrusage(RUSAGE_SELF, &own);
    printf("%d mutants of %d files, %lu of %lu readings succeed: %.1f s of processor time, the "
           "slowest "
           "%.3f s; %ld MiB at most\n",
           ran, files, fuzz_successes, fuzz_outcomes, used, slowest, own.ru_maxrss >> 10);
    return ran ? 0 : 1;
}
