/* SPDX-License-Identifier: Apache-2.0 */
/* Instead of source_hdf5.c in a build without HDF5: files of that kind are recognised, and refused.
 */
#include <string.h>

#include "base/diag.h"
#include "data/kind.h"

static bool claims(const struct tmk_source_probe *probe) {
    return !probe->folder && !probe->stream &&
           (memcmp(probe->start, "\x89HDF\r\n\x1a\n", 8) == 0 ||
            tmk_source_ends_in(probe->path, ".h5") || tmk_source_ends_in(probe->path, ".hdf5"));
}

static enum tmk_status open_none(struct tmk_source *source,
                                 const struct tmk_source_options *options, struct tmk_diag *diag) {
    (void)options;
    return tmk_fail(diag, TMK_UNSUPPORTED, "%s: this build reads no HDF5", source->info.path);
}

static enum tmk_status read_none(struct tmk_source *source, uint32_t array, uint64_t first,
                                 uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag) {
    (void)array, (void)first, (void)count, (void)out;
    return tmk_fail(diag, TMK_UNSUPPORTED, "%s: this build reads no HDF5", source->info.path);
}

static void close_none(struct tmk_source *source) {
    (void)source;
}

const struct tmk_source_kind tmk_source_hdf5 = {
    .name = "hdf5",
    .takes = "(FILE.h5:/path in a build with HDF5)",
    .claims = claims,
    .open = open_none,
    .read = read_none,
    .close = close_none,
};
