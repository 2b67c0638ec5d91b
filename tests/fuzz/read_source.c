/* SPDX-License-Identifier: Apache-2.0 */
#include "read_source.h"

#include "base/diag.h"
#include "fuzz.h"

/* Headers may promise any number of entries of nothing. */
enum { MOST_READS = 64 };

static void read_array(struct tmk_source *source, uint32_t a, uint64_t step) {
    const struct tmk_source_array *array = &tmk_source_info(source)->arrays[a];
    uint64_t first = 0;
    for (int i = 0; i < MOST_READS && first < array->n_entries; i++) {
        struct tmk_diag diag = {0};
        struct tmk_tensor tensor = {0};
        uint64_t left = array->n_entries - first, count = left < step ? left : step;
        if (array->whole)
            count = 1;
        if (!fuzz_ok(tmk_source_read(source, a, first, count, &tensor, &diag), &diag))
            return;
        uint64_t got = array->whole ? 1 : (uint64_t)tensor.shape.dim[0];
        const unsigned char *bytes = tensor.data;
        unsigned sum = 0; /* sanitizers see each byte */
        for (size_t b = 0; b < tmk_tensor_bytes(&tensor); b++)
            sum += bytes[b] & 1;
        fuzz_check(sum <= tmk_tensor_bytes(&tensor), &diag);
        tmk_tensor_finish(&tensor);
        fuzz_check(got <= count, &diag);
        if (!got)
            return;
        first += got;
    }
}

void fuzz_read_source(const char *path, const struct tmk_source_options *options, uint64_t step,
                      const struct tmk_source_input *wants, uint32_t n_wants) {
    struct tmk_diag diag = {0};
    struct tmk_source *source = NULL;
    if (!fuzz_ok(tmk_source_open(path, options, &source, &diag), &diag))
        return;
    if (!tmk_source_info(source)->binds ||
        fuzz_ok(tmk_source_bind(source, wants, n_wants, &diag), &diag)) {
        for (uint32_t a = 0; a < tmk_source_info(source)->n_arrays; a++)
            read_array(source, a, step);
        char hex[65];
        tmk_source_end(source);
        (void)fuzz_ok(tmk_source_hash(source, NULL, hex, &diag), &diag);
    }
    tmk_source_close(&source);
}
