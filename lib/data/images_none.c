/* SPDX-License-Identifier: Apache-2.0 */
/* Instead of the files of images in a build without them: they are recognised, and refused. */
#include "base/diag.h"
#include "data/image_files.h"
#include "data/kind.h"

static enum tmk_status fail_unsupported(const struct tmk_source *source, struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_UNSUPPORTED, "%s: this build reads no images (libpng and libjpeg)",
                    source->info.path);
}

static enum tmk_status open_none(struct tmk_source *source,
                                 const struct tmk_source_options *options, struct tmk_diag *diag) {
    (void)options;
    return fail_unsupported(source, diag);
}

static enum tmk_status read_none(struct tmk_source *source, uint32_t array, uint64_t first,
                                 uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag) {
    (void)array, (void)first, (void)count, (void)out;
    return fail_unsupported(source, diag);
}

static void close_none(struct tmk_source *source) {
    (void)source;
}

const struct tmk_source_kind tmk_source_images = {
    .name = "images",
    .takes = "(images in a build with libpng and libjpeg)",
    .claims = tmk_image_files_claim,
    .claims_folder = tmk_image_files_claim_folder,
    .open = open_none,
    .read = read_none,
    .close = close_none,
};
