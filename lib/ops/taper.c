/* SPDX-License-Identifier: Apache-2.0 */
/* HannWindow, HammingWindow, BlackmanWindow: element n is a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n /
 * N), with N the size or, unless periodic, one less. */
#include <math.h>

#include "ops/kernel.h"
#include "ops/move.h"
#include "ops/rows.h"

static enum tmk_status infer_taper(struct tmk_infer *infer) {
    const struct tmk_tensor *size = infer->in[0];
    int64_t asked = tmk_node_int(infer->node, "output_datatype", TMK_FLOAT32), n;
    size_t count;
    if (asked < 0 || asked >= TMK_N_DTYPES || tmk_held_dtype((enum tmk_dtype)asked) != TMK_FLOAT32)
        return tmk_fail(infer->diag, TMK_UNSUPPORTED,
                        "attribute 'output_datatype' is %lld; windows are made in float32 only",
                        (long long)asked);
    if (tmk_tensor_count(size) != 1)
        return tmk_fail(infer->diag, TMK_SHAPE, "input 'size' has %zu elements, not one",
                        tmk_tensor_count(size));
    if (!size->data)
        return TMK_OK;
    TMK_TRY(tmk_read_ints(size, "size", 1, &n, &count, infer->diag));
    if (n < 0)
        return tmk_fail(infer->diag, TMK_RANGE, "input 'size' is %lld", (long long)n);
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &(struct tmk_shape){1, {n}});
}

static void fill_window(struct tmk_run *run, double a0, double a1, double a2) {
    struct tmk_tensor *y = tmk_run_out(run, 0);
    size_t n = y ? tmk_tensor_count(y) : 0;
    bool periodic = tmk_node_int(run->node, "periodic", 1) != 0;
    double turn = 2 * 3.14159265358979323846 / (double)(periodic ? n : n - 1);
    for (size_t i = 0; i < n; i++)
        ((float *)y->data)[i] =
            (float)(a0 - a1 * cos((double)i * turn) + a2 * cos(2 * (double)i * turn));
}

static enum tmk_status run_hann(struct tmk_run *run) {
    fill_window(run, 0.5, 0.5, 0);
    return TMK_OK;
}

static enum tmk_status run_hamming(struct tmk_run *run) {
    fill_window(run, 25.0 / 46, 21.0 / 46, 0);
    return TMK_OK;
}

static enum tmk_status run_blackman(struct tmk_run *run) {
    fill_window(run, 0.42, 0.5, 0.08);
    return TMK_OK;
}

static const char attrs[] = "output_datatype:int periodic:int";

const struct tmk_op tmk_ops_taper[] = {
    {TMK_OP_ONNX("HannWindow", 17, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .attrs = attrs,
     .infer = infer_taper, .run = run_hann},
    {TMK_OP_ONNX("HammingWindow", 17, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .attrs = attrs,
     .infer = infer_taper, .run = run_hamming},
    {TMK_OP_ONNX("BlackmanWindow", 17, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1), .attrs = attrs,
     .infer = infer_taper, .run = run_blackman},
    {NULL}};
