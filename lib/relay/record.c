/* SPDX-License-Identifier: Apache-2.0 */
#include "relay/record.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"

#define RECORD_MAGIC UINT64_C(0xDD5E40F096B4A13F)
enum { MAX_RANK = 32, CPU = 1 };

/* DLPack's codes. */
enum { CODE_INT, CODE_UINT, CODE_FLOAT, CODE_HANDLE, CODE_BFLOAT, CODE_COMPLEX, CODE_BOOL };
static const char *const code_names[] = {"int",    "uint",    "float", "handle",
                                         "bfloat", "complex", "bool"};
static const struct {
    uint8_t code, bits;
    enum tmk_dtype dtype;
} dtypes[] = {{CODE_UINT, 1, TMK_BOOL},          {CODE_BOOL, 8, TMK_BOOL},
              {CODE_INT, 8, TMK_INT8},           {CODE_INT, 16, TMK_INT16},
              {CODE_INT, 32, TMK_INT32},         {CODE_INT, 64, TMK_INT64},
              {CODE_UINT, 8, TMK_UINT8},         {CODE_UINT, 16, TMK_UINT16},
              {CODE_UINT, 32, TMK_UINT32},       {CODE_UINT, 64, TMK_UINT64},
              {CODE_FLOAT, 16, TMK_FLOAT16},     {CODE_FLOAT, 32, TMK_FLOAT32},
              {CODE_FLOAT, 64, TMK_FLOAT64},     {CODE_BFLOAT, 16, TMK_BFLOAT16},
              {CODE_COMPLEX, 64, TMK_COMPLEX64}, {CODE_COMPLEX, 128, TMK_COMPLEX128}};

void tmk_relay_bytes_report(const struct tmk_relay_bytes *from, size_t at, const char *fmt, ...) {
    char what[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    tmk_diag_set(from->diag, TMK_FORMAT, "%s: byte %zu: %s", from->name, at, what);
}

enum tmk_status tmk_relay_field(struct tmk_relay_bytes *from, size_t size, uint64_t *out) {
    if (from->len - from->at < size)
        return tmk_relay_bytes_fail(from, from->at, "the file is cut short");
    uint64_t value = 0;
    for (size_t i = size; i-- > 0;)
        value = value << 8 | from->bytes[from->at + i];
    from->at += size;
    *out = value;
    return TMK_OK;
}

void tmk_relay_field_print(struct tmk_text *out, size_t size, uint64_t value) {
    char bytes[8];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(value >> (8 * i));
    tmk_text_append(out, bytes, size);
}

static enum tmk_dtype find_dtype(const struct tmk_relay_param *param) {
    for (size_t i = 0; i < TMK_COUNT(dtypes) && param->lanes == 1; i++)
        if (dtypes[i].code == param->code && dtypes[i].bits == param->bits)
            return dtypes[i].dtype;
    return TMK_UNDEFINED;
}

/* "float32", "uint1" as "bool", "float32x4". */
static enum tmk_status name_dtype(struct tmk_relay_param *param, struct tmk_arena *arena,
                                  struct tmk_diag *diag) {
    if (find_dtype(param) == TMK_BOOL) {
        param->dtype = tmk_dtype_name(TMK_BOOL);
        return TMK_OK;
    }
    char name[48], lanes[16] = "";
    if (param->lanes != 1)
        snprintf(lanes, sizeof lanes, "x%u", param->lanes);
    if (param->code < TMK_COUNT(code_names))
        snprintf(name, sizeof name, "%s%u%s", code_names[param->code], param->bits, lanes);
    else
        snprintf(name, sizeof name, "custom[%u]%u%s", param->code, param->bits, lanes);
    param->dtype = tmk_arena_strdup(arena, name);
    return param->dtype ? TMK_OK : tmk_nomem(diag);
}

/* Type, dimensions and size, checked against each other. */
static enum tmk_status read_header(struct tmk_relay_bytes *from, struct tmk_arena *arena,
                                   struct tmk_relay_param *param) {
    uint64_t value, rank;
    size_t begin = from->at;
    TMK_TRY(tmk_relay_field(from, 8, &value));
    if (value != RECORD_MAGIC)
        return tmk_relay_bytes_fail(from, begin, "no tensor begins here (it has another mark)");
    TMK_TRY(tmk_relay_field(from, 8, &value));
    if (value)
        return tmk_relay_bytes_fail(from, begin + 8, "a reserved field is not zero");
    TMK_TRY(tmk_relay_field(from, 4, &value));
    param->device_type = (int32_t)(uint32_t)value;
    TMK_TRY(tmk_relay_field(from, 4, &value));
    param->device_id = (int32_t)(uint32_t)value;
    TMK_TRY(tmk_relay_field(from, 4, &rank));
    if (rank > MAX_RANK)
        return tmk_relay_bytes_fail(from, begin + 24, "a tensor of %" PRId32 " dimensions",
                                    (int32_t)(uint32_t)rank);
    param->rank = (int32_t)rank;
    TMK_TRY(tmk_relay_field(from, 1, &value));
    param->code = (uint8_t)value;
    TMK_TRY(tmk_relay_field(from, 1, &value));
    param->bits = (uint8_t)value;
    TMK_TRY(tmk_relay_field(from, 2, &value));
    param->lanes = (uint16_t)value;
    int64_t *dims = tmk_arena_array(arena, rank, sizeof *dims);
    TMK_TRY_ALLOC(dims, from->diag);
    for (size_t i = 0; i < rank; i++) {
        TMK_TRY(tmk_relay_field(from, 8, &value));
        if (value > INT64_MAX)
            return tmk_relay_bytes_fail(from, from->at - 8, "a dimension of %" PRId64,
                                        (int64_t)value);
        dims[i] = (int64_t)value;
    }
    param->dims = dims;
    return name_dtype(param, arena, from->diag);
}

static bool shape_of_param(const struct tmk_relay_param *param, struct tmk_shape *out) {
    *out = (struct tmk_shape){.rank = param->rank};
    if (param->rank > TMK_MAX_RANK)
        return false;
    for (int32_t i = 0; i < param->rank; i++)
        out->dim[i] = param->dims[i];
    return true;
}

enum tmk_status tmk_relay_record_read(struct tmk_relay_bytes *from, struct tmk_arena *arena,
                                      struct tmk_relay_param *out) {
    struct tmk_relay_param param = {.name = out->name};
    struct tmk_shape shape;
    TMK_TRY(read_header(from, arena, &param));
    /* The size that the type and the dimensions ask for; TVM leaves lanes out of it. */
    uint64_t stored;
    size_t size = ((size_t)param.bits + 7) / 8, at = from->at;
    bool fits = true, empty = false;
    for (int32_t i = 0; i < param.rank; i++) {
        if (param.dims[i] == 0)
            empty = true;
        else
            fits = fits && tmk_mul_size(size, (size_t)param.dims[i], &size);
    }
    TMK_TRY(tmk_relay_field(from, 8, &stored));
    if (!fits)
        return tmk_relay_bytes_fail(from, at, "the dimensions of this tensor overflow");
    size = empty ? 0 : size;
    size_t with_lanes = size;
    if (stored != size && (!tmk_mul_size(size, param.lanes, &with_lanes) || stored != with_lanes))
        return tmk_relay_bytes_fail(from, at,
                                    "%" PRIu64 " bytes for a tensor whose type and dimensions "
                                    "need %zu",
                                    stored, size);
    if (stored > from->len - from->at)
        return tmk_relay_bytes_fail(from, from->at,
                                    "the file is cut short: %" PRIu64 " bytes of a tensor begin "
                                    "here, %zu are left",
                                    stored, from->len - from->at);
    param.n_bytes = (size_t)stored;
    enum tmk_dtype dtype = find_dtype(&param);
    const unsigned char *data = from->bytes + from->at;
    if (dtype != TMK_UNDEFINED && shape_of_param(&param, &shape)) {
        TMK_TRY(tmk_tensor_init(&param.tensor, dtype, &shape, from->diag));
        memcpy(param.tensor.data, data, param.n_bytes);
        param.bytes = param.tensor.data;
    } else {
        char *copy = tmk_arena_alloc(arena, param.n_bytes);
        TMK_TRY_ALLOC(copy, from->diag);
        memcpy(copy, data, param.n_bytes);
        param.bytes = copy;
    }
    from->at += param.n_bytes;
    *out = param;
    return TMK_OK;
}

enum tmk_status tmk_relay_record_make(const struct tmk_tensor *tensor, struct tmk_arena *arena,
                                      struct tmk_relay_param *out, struct tmk_diag *diag) {
    struct tmk_relay_param param = {
        .name = out->name, .device_type = CPU, .lanes = 1, .rank = tensor->shape.rank};
    size_t i = 0;
    while (i < TMK_COUNT(dtypes) && dtypes[i].dtype != tensor->dtype)
        i++;
    if (i == TMK_COUNT(dtypes))
        return tmk_fail(diag, TMK_TYPE, "TVM has no element type %s",
                        tmk_dtype_name(tensor->dtype));
    param.code = dtypes[i].code;
    param.bits = dtypes[i].bits;
    int64_t *dims = tmk_arena_array(arena, (size_t)param.rank, sizeof *dims);
    TMK_TRY_ALLOC(dims, diag);
    for (int32_t k = 0; k < param.rank; k++)
        dims[k] = tensor->shape.dim[k];
    param.dims = dims;
    TMK_TRY(name_dtype(&param, arena, diag));
    tmk_tensor_share(&param.tensor, tensor);
    param.bytes = param.tensor.data;
    param.n_bytes = tmk_tensor_bytes(tensor);
    *out = param;
    return TMK_OK;
}

void tmk_relay_record_print(struct tmk_text *out, const struct tmk_relay_param *param) {
    tmk_relay_field_print(out, 8, RECORD_MAGIC);
    tmk_relay_field_print(out, 8, 0);
    tmk_relay_field_print(out, 4, (uint32_t)param->device_type);
    tmk_relay_field_print(out, 4, (uint32_t)param->device_id);
    tmk_relay_field_print(out, 4, (uint32_t)param->rank);
    tmk_relay_field_print(out, 1, param->code);
    tmk_relay_field_print(out, 1, param->bits);
    tmk_relay_field_print(out, 2, param->lanes);
    for (int32_t i = 0; i < param->rank; i++)
        tmk_relay_field_print(out, 8, (uint64_t)param->dims[i]);
    tmk_relay_field_print(out, 8, param->n_bytes);
    tmk_text_append(out, param->bytes, param->n_bytes);
}
