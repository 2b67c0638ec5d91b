/* SPDX-License-Identifier: Apache-2.0 */
/* PNG and JPEG files, an entry each. */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "data/ahead.h"
#include "data/image.h"
#include "data/image_files.h"
#include "data/kind.h"

struct images {
    const char *list; /* that names the files, or NULL */
    struct tmk_image_files files;
    struct tmk_image_recipe recipe;
    struct tmk_image_helpers *helpers;
    struct tmk_ahead *ahead; /* NULL: entries are made when they are wanted */
};

/* What is known before a picture is read. */
static void describe_array(const struct images *images, struct tmk_source_array *array) {
    const struct tmk_image_spec *spec = &images->recipe.spec;
    int64_t channels = tmk_image_channels(spec), width = -1, height = -1;
    if (spec->crop_width) {
        width = spec->crop_width;
        height = spec->crop_height;
    } else if (spec->width) {
        width = spec->width;
        height = spec->height;
    }
    const struct tmk_shape nchw = {4, {(int64_t)images->files.n, channels, height, width}},
                           nhwc = {4, {(int64_t)images->files.n, height, width, channels}};
    *array = (struct tmk_source_array){.name = "",
                                       .n_entries = images->files.n,
                                       .dtype = spec->bytes ? TMK_UINT8 : TMK_FLOAT32,
                                       .shape = spec->nhwc ? nhwc : nchw};
}

static enum tmk_status open_images(struct tmk_source *source,
                                   const struct tmk_source_options *options,
                                   struct tmk_diag *diag) {
    struct tmk_image_spec spec;
    struct images *images = source->own;
    struct tmk_source_array *array = tmk_arena_alloc(&source->arena, sizeof *array);
    TMK_TRY_ALLOC(array, diag);
    if (options->image)
        spec = *options->image;
    else
        TMK_TRY(tmk_image_spec_parse(NULL, &spec, diag));
    tmk_image_recipe_init(&images->recipe, &spec);
    if (tmk_source_ends_in(source->info.path, ".txt"))
        images->list = source->info.path;
    TMK_TRY(tmk_image_files_list(source, &images->files, diag));
    TMK_TRY(tmk_image_helpers_create(&images->helpers, diag));
    describe_array(images, array);
    source->info.arrays = array;
    source->info.n_arrays = 1;
    source->info.separate = true;
    return TMK_OK;
}

static enum tmk_status decode_image(const void *context, uint64_t entry, struct tmk_tensor *out,
                                    struct tmk_diag *diag) {
    const struct images *images = context;
    enum tmk_status status =
        tmk_image_load(images->helpers, images->files.file[entry].path, &images->recipe, out, diag);
    return images->list ? tmk_in(diag, status, "%s", images->list) : status;
}

static enum tmk_status read_ahead(struct tmk_source *source, const struct tmk_source_order *order,
                                  struct tmk_source_threads *threads, struct tmk_diag *diag) {
    struct images *images = source->own;
    tmk_ahead_destroy(&images->ahead);
    return tmk_ahead_create(decode_image, images, order, threads, &images->ahead, diag);
}

static enum tmk_status take_image(const struct images *images, uint64_t entry,
                                  struct tmk_tensor *out, struct tmk_diag *diag) {
    bool there = false;
    if (images->ahead)
        TMK_TRY(tmk_ahead_take(images->ahead, entry, &there, out, diag));
    return there ? TMK_OK : decode_image(images, entry, out, diag);
}

/* Behind the first entry, whose shape all of them have; up to one that is different, or bad. */
static enum tmk_status gather_images(const struct images *images, const struct tmk_tensor *one,
                                     uint64_t first, uint64_t count, struct tmk_tensor *out,
                                     struct tmk_diag *diag) {
    struct tmk_tensor all = {0};
    struct tmk_shape shape = one->shape;
    size_t bytes = tmk_tensor_bytes(one);
    uint64_t done = 1;
    shape.dim[0] = (int64_t)count;
    TMK_TRY(tmk_tensor_init(&all, one->dtype, &shape, diag));
    memcpy(all.data, one->data, bytes);
    for (; done < count; done++) {
        struct tmk_tensor next = {0};
        if (take_image(images, first + done, &next, NULL) != TMK_OK)
            break;
        bool same = tmk_shape_equal(&next.shape, &one->shape);
        if (same)
            memcpy((char *)all.data + done * bytes, next.data, bytes);
        tmk_tensor_finish(&next);
        if (!same)
            break;
    }
    all.shape.dim[0] = (int64_t)done;
    *out = all;
    return TMK_OK;
}

static enum tmk_status read_images(struct tmk_source *source, uint32_t array, uint64_t first,
                                   uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag) {
    (void)array;
    const struct images *images = source->own;
    struct tmk_tensor one = {0};
    TMK_TRY(take_image(images, first, &one, diag));
    if (count == 1) {
        *out = one;
        return TMK_OK;
    }
    enum tmk_status status = gather_images(images, &one, first, count, out, diag);
    tmk_tensor_finish(&one);
    return status;
}

static const char *entry_name(const struct tmk_source *source, uint64_t entry) {
    const struct images *images = source->own;
    return entry < images->files.n ? images->files.file[entry].name : "";
}

static enum tmk_status hash_images(const struct tmk_source *source, const atomic_bool *stop,
                                   char hex[TMK_HASH128_HEX], struct tmk_diag *diag) {
    const struct images *images = source->own;
    return tmk_image_files_hash(source, &images->files, stop, hex, diag);
}

static void close_images(struct tmk_source *source) {
    struct images *images = source->own;
    tmk_ahead_destroy(&images->ahead);
    tmk_image_helpers_destroy(&images->helpers);
    free(images->files.file);
}

const struct tmk_source_kind tmk_source_images = {
    .name = "images",
    .takes = "a folder of PNG and JPEG files, a .txt that lists them, or one of them",
    .own_size = sizeof(struct images),
    .claims = tmk_image_files_claim,
    .claims_folder = tmk_image_files_claim_folder,
    .open = open_images,
    .ahead = read_ahead,
    .read = read_images,
    .entry_name = entry_name,
    .hash = hash_images,
    .close = close_images,
};
