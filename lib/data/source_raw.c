/* SPDX-License-Identifier: Apache-2.0 */
/* Bare float32 numbers in a .bin file, in this machine's byte order. Their shape is that of the
 * input which they feed. */
#include "base/diag.h"
#include "base/file.h"
#include "base/size.h"
#include "data/kind.h"
#include "tensor/shape.h"

struct raw {
    struct tmk_infile file;
    size_t entry; /* bytes */
};

static bool claims_raw(const struct tmk_source_probe *probe) {
    return !probe->inside && tmk_source_ends_in(probe->path, ".bin");
}

static enum tmk_status open_raw(struct tmk_source *source, const struct tmk_source_options *options,
                                struct tmk_diag *diag) {
    (void)options;
    struct raw *raw = source->own;
    raw->file.fd = -1;
    source->info.binds = true;
    return tmk_infile_open(source->info.path, &raw->file, diag);
}

static enum tmk_status check_want(const struct tmk_source_input *want, struct tmk_diag *diag) {
    if (!tmk_dtype_is_float(want->dtype))
        return tmk_fail(diag, TMK_TYPE, "raw files hold float32, but input '%s' is %s", want->input,
                        tmk_dtype_name(want->dtype));
    if (!want->has_shape || !want->shape.rank)
        return tmk_fail(diag, TMK_SHAPE,
                        "a raw file takes its shape from the input, but '%s' has none; a .npy says "
                        "its own",
                        want->input);
    for (int32_t i = 1; i < want->shape.rank; i++)
        if (want->shape.dim[i] < 0)
            return tmk_fail(diag, TMK_SHAPE,
                            "a raw file takes its shape from the input, but dimension %d of '%s' "
                            "is free; add --dim NAME=N",
                            i, want->input);
    return TMK_OK;
}

static enum tmk_status measure_raw(struct raw *raw, const struct tmk_source_input *want,
                                   struct tmk_source_array *array, struct tmk_diag *diag) {
    struct tmk_shape shape = want->shape;
    size_t elements;
    shape.dim[0] = 1;
    if (!tmk_shape_count(&shape, &elements) ||
        !tmk_mul_size(elements, sizeof(float), &raw->entry) || !raw->entry)
        return tmk_fail(diag, TMK_SHAPE, "entries of shape %s are not read",
                        TMK_SHAPE_TEXT(&shape));
    if (raw->file.size % raw->entry)
        return tmk_fail(diag, TMK_FORMAT,
                        "%llu bytes are no whole number of entries of %zu bytes (float32 %s)",
                        (unsigned long long)raw->file.size, raw->entry, TMK_SHAPE_TEXT(&shape));
    shape.dim[0] = (int64_t)(raw->file.size / raw->entry);
    *array = (struct tmk_source_array){
        .name = "", .n_entries = (uint64_t)shape.dim[0], .dtype = TMK_FLOAT32, .shape = shape};
    return TMK_OK;
}

static enum tmk_status bind_raw(struct tmk_source *source, const struct tmk_source_input *wants,
                                uint32_t n, struct tmk_diag *diag) {
    struct tmk_source_array *array = tmk_arena_alloc(&source->arena, sizeof *array);
    TMK_TRY_ALLOC(array, diag);
    if (n != 1)
        return tmk_fail(diag, TMK_ARGUMENT, "%s: a raw file feeds one input, not %u; say INPUT=%s",
                        source->info.path, n, source->info.path);
    TMK_TRY(tmk_in(diag, check_want(&wants[0], diag), "%s", source->info.path));
    TMK_TRY(
        tmk_in(diag, measure_raw(source->own, &wants[0], array, diag), "%s", source->info.path));
    source->info.arrays = array;
    source->info.n_arrays = 1;
    return TMK_OK;
}

static enum tmk_status read_raw(struct tmk_source *source, uint32_t a, uint64_t first,
                                uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag) {
    const struct raw *raw = source->own;
    struct tmk_tensor tensor = {0};
    struct tmk_shape shape = source->info.arrays[a].shape;
    shape.dim[0] = (int64_t)count;
    TMK_TRY(tmk_tensor_init(&tensor, TMK_FLOAT32, &shape, diag));
    enum tmk_status status = tmk_infile_read(&raw->file, first * raw->entry, tensor.data,
                                             tmk_tensor_bytes(&tensor), diag);
    if (status == TMK_OK)
        *out = tensor;
    else
        tmk_tensor_finish(&tensor);
    return tmk_in(diag, status, "%s", source->info.path);
}

static void close_raw(struct tmk_source *source) {
    tmk_infile_close(&((struct raw *)source->own)->file);
}

const struct tmk_source_kind tmk_source_raw = {
    .name = "raw",
    .takes = "FILE.bin (float32 numbers in the input's shape)",
    .own_size = sizeof(struct raw),
    .claims = claims_raw,
    .open = open_raw,
    .bind = bind_raw,
    .read = read_raw,
    .close = close_raw,
};
