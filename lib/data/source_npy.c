/* SPDX-License-Identifier: Apache-2.0 */
/* One array in a .npy file, mapped: what the format lays out as we do is never copied. */
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "data/kind.h"
#include "data/npy.h"

struct npy {
    struct tmk_buf *file;
    struct tmk_npy header;
};

static bool claims(const struct tmk_source_probe *probe) {
    static const char magic[] = "\x93NUMPY";
    return !probe->folder && (memcmp(probe->start, magic, sizeof magic - 1) == 0 ||
                              tmk_source_ends_in(probe->path, ".npy"));
}

static enum tmk_status read_header(struct tmk_source *source, struct npy *npy,
                                   struct tmk_diag *diag) {
    const void *bytes = tmk_buf_data(npy->file);
    size_t size = tmk_buf_size(npy->file);
    TMK_TRY(tmk_npy_parse(bytes, size, &npy->header, diag));
    if (npy->header.refusal) /* there is no other array that could be wanted */
        return tmk_npy_slice(&npy->header, npy->file, 0, 0, &(struct tmk_tensor){0}, diag);
    TMK_TRY(tmk_npy_check_size(&npy->header, size, diag));
    return tmk_source_hash(source, npy->file, diag);
}

static enum tmk_status open_npy(struct tmk_source *source, tmk_decode_tensor decode,
                                struct tmk_diag *diag) {
    (void)decode;
    struct npy *npy = tmk_arena_alloc(&source->arena, sizeof *npy);
    struct tmk_source_array *array = tmk_arena_alloc(&source->arena, sizeof *array);
    source->own = npy;
    if (!npy || !array)
        return tmk_nomem(diag);
    TMK_TRY(tmk_file_map(source->info.path, &npy->file, diag));
    TMK_TRY(tmk_in(diag, read_header(source, npy, diag), "%s", source->info.path));
    *array = (struct tmk_source_array){.name = "",
                                       .n_entries = tmk_npy_entries(&npy->header),
                                       .dtype = npy->header.dtype,
                                       .shape = npy->header.shape};
    source->info.arrays = array;
    source->info.n_arrays = 1;
    return TMK_OK;
}

static enum tmk_status read_npy(struct tmk_source *source, uint32_t array, uint64_t first,
                                uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag) {
    (void)array;
    const struct npy *npy = source->own;
    return tmk_in(diag, tmk_npy_slice(&npy->header, npy->file, first, count, out, diag), "%s",
                  source->info.path);
}

static void close_npy(struct tmk_source *source) {
    struct npy *npy = source->own;
    if (npy)
        tmk_buf_unref(&npy->file);
}

const struct tmk_source_kind tmk_source_npy = {
    .name = "npy",
    .takes = "FILE.npy (a NumPy array)",
    .claims = claims,
    .open = open_npy,
    .read = read_npy,
    .close = close_npy,
};
