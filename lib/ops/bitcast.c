/* SPDX-License-Identifier: Apache-2.0 */
/* BitCast: the same bits, called another type of the same width.
 *
 * float16, bfloat16 and float64 are held as float32, so their bits are gone: casts from and to them
 * are refused. A bool made of other bits than 0 and 1 is 1 where they are not 0. */
#include <string.h>

#include "ops/kernel.h"
#include "ops/rows.h"

static bool is_held(enum tmk_dtype dtype) {
    return dtype == TMK_FLOAT32 || dtype == TMK_BOOL ||
           (tmk_dtype_is_integer(dtype) && tmk_dtype_bits(dtype) >= 8);
}

static enum tmk_status infer_bitcast(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0];
    int64_t to = tmk_node_int(infer->node, "to", 0);
    bool named = to > 0 && to < TMK_N_DTYPES;
    enum tmk_dtype target = named ? (enum tmk_dtype)to : TMK_UNDEFINED;
    enum tmk_dtype from =
        x->origin != TMK_UNDEFINED && x->origin != x->dtype ? x->origin : x->dtype;
    if (!is_held(target) || !is_held(from))
        return tmk_fail(infer->diag, TMK_UNSUPPORTED,
                        "a cast of bits from %s to type %lld (%s) is not supported",
                        tmk_dtype_name(from), (long long)to, tmk_dtype_name(target));
    if (tmk_dtype_size(target) != tmk_dtype_size(from))
        return tmk_fail(infer->diag, TMK_TYPE, "%s and %s do not have the same width%s",
                        tmk_dtype_name(from), tmk_dtype_name(target),
                        from == TMK_FLOAT32 ? " (16-bit floats and doubles are held as float32)"
                                            : "");
    return tmk_infer_set(infer, 0, target, &x->shape);
}

static enum tmk_status run_bitcast(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0];
    struct tmk_tensor *y = tmk_run_out(run, 0);
    size_t n = y ? tmk_tensor_count(y) : 0;
    if (n == 0)
        return TMK_OK;
    memcpy(y->data, x->data, tmk_tensor_bytes(y));
    for (size_t i = 0; i < n && y->dtype == TMK_BOOL; i++)
        ((uint8_t *)y->data)[i] = ((const uint8_t *)x->data)[i] != 0;
    return TMK_OK;
}

const struct tmk_op tmk_ops_bitcast[] = {
    {TMK_OP_ONNX("BitCast", 26, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .channel = TMK_CHANNEL_INHERIT, .attrs = "to:int!", .infer = infer_bitcast,
     .run = run_bitcast},
    {NULL},
};
