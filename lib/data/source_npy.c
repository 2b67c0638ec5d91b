/* SPDX-License-Identifier: Apache-2.0 */
/* One array in a .npy file, read entry by entry: what is held does not grow with the file. (A
 * mapping's pages would count as memory of the process, and a file that shrinks while it is mapped
 * is a signal.) Only arrays in Fortran order are mapped, since their entries lie scattered over the
 * whole file. */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "data/kind.h"
#include "data/npy.h"

struct npy {
    struct tmk_infile file;
    struct tmk_buf *mapped; /* Fortran order only */
    struct tmk_npy header;
};

static bool claims_npy(const struct tmk_source_probe *probe) {
    static const char magic[] = "\x93NUMPY";
    return !probe->inside && !probe->stream &&
           (memcmp(probe->start, magic, sizeof magic - 1) == 0 ||
            tmk_source_ends_in(probe->path, ".npy"));
}

static enum tmk_status parse_header(const struct tmk_infile *file, struct tmk_npy *out,
                                    struct tmk_diag *diag) {
    unsigned char start[TMK_NPY_PREAMBLE];
    size_t len = file->size < sizeof start ? (size_t)file->size : sizeof start, size;
    TMK_TRY(tmk_infile_read(file, 0, start, len, diag));
    TMK_TRY(tmk_npy_header_size(start, len, &size, diag));
    if (size > file->size)
        size = (size_t)file->size; /* the parser reports what is missing */
    unsigned char *bytes = malloc(size + 1);
    TMK_TRY_ALLOC(bytes, diag);
    enum tmk_status status = tmk_infile_read(file, 0, bytes, size, diag);
    TMK_THEN(status, tmk_npy_parse(bytes, size, out, diag));
    free(bytes);
    return status;
}

static enum tmk_status read_header(struct npy *npy, const char *path, struct tmk_diag *diag) {
    TMK_TRY(parse_header(&npy->file, &npy->header, diag));
    if (npy->header.refusal) /* there is no other array that could be wanted */
        return tmk_npy_slice(&npy->header, NULL, 0, 0, &(struct tmk_tensor){0}, diag);
    TMK_TRY(tmk_npy_check_size(&npy->header, npy->file.size, diag));
    return npy->header.fortran ? tmk_file_map(path, &npy->mapped, diag) : TMK_OK;
}

static enum tmk_status open_npy(struct tmk_source *source, const struct tmk_source_options *options,
                                struct tmk_diag *diag) {
    (void)options;
    struct npy *npy = source->own;
    npy->file.fd = -1;
    struct tmk_source_array *array = tmk_arena_alloc(&source->arena, sizeof *array);
    TMK_TRY_ALLOC(array, diag);
    TMK_TRY(tmk_infile_open(source->info.path, &npy->file, diag));
    TMK_TRY(tmk_in(diag, read_header(npy, source->info.path, diag), "%s", source->info.path));
    *array = (struct tmk_source_array){.name = "",
                                       .n_entries = tmk_npy_entries(&npy->header),
                                       .dtype = npy->header.dtype,
                                       .shape = npy->header.shape};
    source->info.arrays = array;
    source->info.n_arrays = 1;
    return TMK_OK;
}

static enum tmk_status read_entries(const struct npy *npy, uint64_t first, uint64_t count,
                                    struct tmk_tensor *out, struct tmk_diag *diag) {
    uint64_t entries = tmk_npy_entries(&npy->header);
    if (npy->mapped) {
        struct tmk_tensor tensor = {0};
        TMK_TRY(tmk_npy_slice(&npy->header, npy->mapped, first, count, &tensor, diag));
        return tmk_source_return_tensor(&npy->file, &tensor, out, diag);
    }
    /* a file of its own, as it were: the wanted entries, and nothing before them */
    struct tmk_npy part = npy->header;
    size_t entry = entries ? npy->header.bytes / (size_t)entries : 0;
    part.shape.dim[0] = (int64_t)count;
    part.bytes = entry * (size_t)count;
    part.offset = 0;
    struct tmk_buf *bytes = tmk_buf_create(part.bytes);
    TMK_TRY_ALLOC(bytes, diag);
    enum tmk_status status = tmk_infile_read(&npy->file, npy->header.offset + first * entry,
                                             tmk_buf_data(bytes), part.bytes, diag);
    TMK_THEN(status, tmk_npy_slice(&part, bytes, 0, count, out, diag));
    tmk_buf_unref(&bytes);
    return status;
}

static enum tmk_status read_npy(struct tmk_source *source, uint32_t array, uint64_t first,
                                uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag) {
    (void)array;
    return tmk_in(diag, read_entries(source->own, first, count, out, diag), "%s",
                  source->info.path);
}

static void close_npy(struct tmk_source *source) {
    struct npy *npy = source->own;
    tmk_infile_close(&npy->file);
    tmk_buf_unref(&npy->mapped);
}

const struct tmk_source_kind tmk_source_npy = {
    .name = "npy",
    .takes = "FILE.npy (a NumPy array)",
    .own_size = sizeof(struct npy),
    .claims = claims_npy,
    .open = open_npy,
    .read = read_npy,
    .close = close_npy,
};
