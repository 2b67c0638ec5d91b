/* SPDX-License-Identifier: Apache-2.0 */
/* What one step of the tree of ranks costs, without the network: bench_gather A.json B.json, two
 * shards of one run. Prints the least of several, in processor time. Built, not run by the tests.
 */
#include <stdio.h>
#include <time.h>

#include "base/diag.h"
#include "base/text.h"
#include "profile/checkpoint.h"

enum { TIMES = 7 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct least {
    double pack, unpack, add;
    size_t bytes;
};

static void keep_least(double *least, double seconds) {
    if (*least == 0 || seconds < *least)
        *least = seconds;
}

static enum tmk_status once(const char *a, const struct tmk_profile *b, struct least *least,
                            struct tmk_diag *diag) {
    struct tmk_profile *whole = NULL, *part = NULL;
    struct tmk_text bytes = {0};
    enum tmk_status status = tmk_profile_read(a, &whole, diag);
    double start = now();
    if (status == TMK_OK)
        status = tmk_checkpoint_pack(b, &bytes, diag);
    double packed = now();
    if (status == TMK_OK)
        status = tmk_checkpoint_unpack(bytes.data, bytes.len, &part, diag);
    double unpacked = now();
    if (status == TMK_OK)
        status = tmk_checkpoint_add(whole, part, diag);
    keep_least(&least->add, now() - unpacked);
    keep_least(&least->unpack, unpacked - packed);
    keep_least(&least->pack, packed - start);
    least->bytes = bytes.len;
    tmk_text_finish(&bytes);
    tmk_profile_destroy(&part);
    tmk_profile_destroy(&whole);
    return status;
}

static enum tmk_status bench(const char *a, const char *b, struct least *least,
                             struct tmk_diag *diag) {
    struct tmk_profile *part;
    TMK_TRY(tmk_profile_read(b, &part, diag));
    enum tmk_status status = TMK_OK;
    for (int i = 0; status == TMK_OK && i < TIMES; i++)
        status = once(a, part, least, diag);
    tmk_profile_destroy(&part);
    return status;
}

int main(int argc, char **argv) {
    struct tmk_diag diag = {0};
    struct least least = {0};
    if (argc != 3)
        return 2;
    if (bench(argv[1], argv[2], &least, &diag) != TMK_OK) {
        fprintf(stderr, "%s\n", diag.text);
        return 1;
    }
    printf("%zu bytes, pack %.1f ms, unpack %.1f ms, add %.1f ms\n", least.bytes, least.pack * 1e3,
           least.unpack * 1e3, least.add * 1e3);
    return 0;
}
