/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests: prints what a source of data holds, or writes it again.
 *
 *     dump_source SOURCE STEP [IMAGE]    reads STEP entries at a time; IMAGE as of --image
 *     dump_source SOURCE -o OUT          OUT.npz or OUT.npy; arrays that cannot be read are left
 * out
 *
 * One line an array: name, type, type in the file, shape, elements in hex, between tabs; for an
 * array that cannot be read: name, "undefined", the reason. The last line is the hash. Exit status
 * 1 and one line on stderr when the source is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "data/image_spec.h"
#include "data/npz_write.h"
#include "data/source.h"

static enum tmk_status print_entries(struct tmk_source *source, uint32_t a, uint64_t step,
                                     struct tmk_diag *diag) {
    const struct tmk_source_array *array = &tmk_source_info(source)->arrays[a];
    char shape[256];
    for (uint64_t first = 0, got; first == 0 || first < array->n_entries; first += got) {
        struct tmk_tensor tensor = {0};
        uint64_t left = array->n_entries - first;
        TMK_TRY(tmk_source_read(source, a, first, left < step ? left : step, &tensor, diag));
        if (first == 0)
            printf("%s\t%s\t%s\t%s\t", array->name, tmk_dtype_name(tensor.dtype),
                   tmk_dtype_name(tensor.origin),
                   tmk_shape_text(&array->shape, shape, sizeof shape));
        for (size_t i = 0; i < tmk_tensor_bytes(&tensor); i++)
            printf("%02x", ((const unsigned char *)tensor.data)[i]);
        got = array->n_entries ? (uint64_t)tensor.shape.dim[0] : 1;
        tmk_tensor_finish(&tensor);
    }
    printf("\n");
    return TMK_OK;
}

static enum tmk_status print_all(struct tmk_source *source, uint64_t step, struct tmk_diag *diag) {
    const struct tmk_source_info *info = tmk_source_info(source);
    for (uint32_t a = 0; a < info->n_arrays; a++) {
        struct tmk_diag reason = {0};
        enum tmk_status status = print_entries(source, a, step, &reason);
        if (status != TMK_OK && info->arrays[a].dtype != TMK_UNDEFINED)
            return tmk_fail(diag, status, "%s", reason.text);
        if (status != TMK_OK)
            printf("%s\tundefined\t%s\n", info->arrays[a].name, reason.text);
    }
    char hex[TMK_HASH128_HEX];
    enum tmk_status status = tmk_source_hash(source, NULL, hex, diag);
    if (status == TMK_OK)
        printf("%s\n", hex);
    return status;
}

static enum tmk_status copy_all(struct tmk_source *source, const char *path,
                                struct tmk_diag *diag) {
    const struct tmk_source_info *info = tmk_source_info(source);
    struct tmk_tensor *tensors = calloc(info->n_arrays, sizeof *tensors);
    struct tmk_npz_entry *entries = calloc(info->n_arrays, sizeof *entries);
    enum tmk_status status = tensors && entries ? TMK_OK : tmk_nomem(diag);
    size_t n = 0;
    for (uint32_t a = 0; a < info->n_arrays && status == TMK_OK; a++) {
        if (info->arrays[a].dtype == TMK_UNDEFINED)
            continue;
        status = tmk_source_read(source, a, 0, info->arrays[a].n_entries, &tensors[n], diag);
        entries[n] = (struct tmk_npz_entry){info->arrays[a].name, &tensors[n]};
        n += status == TMK_OK;
    }
    if (status == TMK_OK)
        status = tmk_npz_write(path, entries, n, diag);
    for (size_t i = 0; i < n; i++)
        tmk_tensor_finish(&tensors[i]);
    free(tensors);
    free(entries);
    return status;
}

int main(int argc, char **argv) {
    struct tmk_diag diag = {0};
    struct tmk_source *source = NULL;
    bool copy = argc == 4 && strcmp(argv[2], "-o") == 0;
    unsigned long step = !copy && (argc == 3 || argc == 4) ? strtoul(argv[2], NULL, 10) : 0;
    if (!copy && !step)
        return 2;
    struct tmk_image_spec spec;
    const struct tmk_source_options options = {.image = &spec};
    enum tmk_status status =
        tmk_image_spec_parse(!copy && argc == 4 ? argv[3] : NULL, &spec, &diag);
    if (status == TMK_OK)
        status = tmk_source_open(argv[1], &options, &source, &diag);
    if (status == TMK_OK)
        status = copy ? copy_all(source, argv[3], &diag) : print_all(source, step, &diag);
    tmk_source_close(&source);
    if (status != TMK_OK)
        fprintf(stderr, "%s\n", diag.text);
    return status == TMK_OK ? 0 : 1;
}
