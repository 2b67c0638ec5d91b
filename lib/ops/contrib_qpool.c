/* SPDX-License-Identifier: Apache-2.0 */
/* 8-bit tensors through float and back: QLinearAveragePool, QLinearGlobalAveragePool,
 * QLinearSoftmax; and NhwcMaxPool and QLinearConv, which need no float. Channels that come last are
 * moved to axis 1 on the way in and back on the way out. */
#include "ops/contrib.h"
#include "ops/contrib_q8.h"
#include "ops/conv.h"
#include "ops/pool.h"
#include "ops/softmax.h"
#include "ops/sums.h"

enum { IN_X, IN_X_SCALE, IN_X_ZERO, IN_Y_SCALE, IN_Y_ZERO };

/* ---- channels last ---- */

/* [N, ..., C] as [N, C, ...], and back. */
static struct tmk_shape channels_first(const struct tmk_shape *x) {
    struct tmk_shape shape = *x;
    for (int32_t i = x->rank - 1; i > 1; i--)
        shape.dim[i] = x->dim[i - 1];
    shape.dim[1] = x->dim[x->rank - 1];
    return shape;
}

static struct tmk_shape channels_last(const struct tmk_shape *x) {
    struct tmk_shape shape = *x;
    for (int32_t i = 1; i < x->rank - 1; i++)
        shape.dim[i] = x->dim[i + 1];
    shape.dim[x->rank - 1] = x->dim[1];
    return shape;
}

/* Where element (channel, place) of sample n stands, among `area` places. */
static size_t element_index(bool last, size_t n, size_t channels, size_t area, size_t channel,
                            size_t place) {
    return last ? (n * area + place) * channels + channel : (n * channels + channel) * area + place;
}

static bool is_last(const struct tmk_node *node) {
    return tmk_node_is(node, TMK_DOMAIN_MICROSOFT, "NhwcMaxPool") ||
           tmk_node_int(node, "channels_last", 0) != 0;
}

/* x, [N, C, ...] once its channels are moved. */
static enum tmk_status planes_of(const struct tmk_node *node, const struct tmk_shape *x,
                                 struct tmk_shape *out, struct tmk_diag *diag) {
    TMK_TRY(tmk_want_rank(x, 2, diag));
    *out = is_last(node) ? channels_first(x) : *x;
    return TMK_OK;
}

/* ---- average pools ---- */

static enum tmk_status infer_average(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[IN_X];
    struct tmk_shape planes, shape;
    TMK_TRY(tmk_q8_check(infer, IN_X, "X"));
    TMK_TRY(tmk_q8_check_result(infer, IN_Y_SCALE, x->dtype, "Y"));
    TMK_TRY(planes_of(infer->node, &x->shape, &planes, infer->diag));
    TMK_TRY(tmk_pool_shape(infer->node, &planes, &shape, infer->diag));
    if (is_last(infer->node))
        shape = channels_last(&shape);
    return tmk_infer_set(infer, 0, x->dtype, &shape);
}

static enum tmk_status infer_global(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[IN_X];
    struct tmk_shape shape;
    TMK_TRY(tmk_q8_check(infer, IN_X, "X"));
    TMK_TRY(tmk_q8_check_result(infer, IN_Y_SCALE, x->dtype, "Y"));
    TMK_TRY(planes_of(infer->node, &x->shape, &shape, infer->diag));
    for (int32_t i = 2; i < shape.rank; i++)
        shape.dim[i] = 1;
    if (is_last(infer->node))
        shape = channels_last(&shape);
    return tmk_infer_set(infer, 0, x->dtype, &shape);
}

/* x as float, channels on axis 1 of `planes`, in scratch. */
static enum tmk_status widen_input(struct tmk_run *run, const struct tmk_shape *planes, bool last,
                                   float **out) {
    const struct tmk_tensor *x = run->in[IN_X];
    size_t area = tmk_shape_product(planes, 2, planes->rank), channels = (size_t)planes->dim[1];
    float *to = tmk_scratch(run, tmk_tensor_count(x), sizeof(float));
    TMK_TRY_ALLOC(to, run->diag);
    struct tmk_q8 q = tmk_q8_of(run, IN_X_SCALE);
    *out = to;
    for (size_t n = 0; n < (size_t)planes->dim[0]; n++)
        for (size_t c = 0; c < channels; c++)
            for (size_t i = 0; i < area; i++)
                *to++ = tmk_q8_value(
                    x->dtype, q,
                    ((const uint8_t *)x->data)[element_index(last, n, channels, area, c, i)]);
    return TMK_OK;
}

/* The output from floats whose channels are on axis 1 of `planes`. */
static void narrow_output(struct tmk_run *run, const struct tmk_shape *planes, bool last,
                          const float *from) {
    struct tmk_tensor *y = run->out[0];
    size_t area = tmk_shape_product(planes, 2, planes->rank), channels = (size_t)planes->dim[1];
    struct tmk_q8 q = tmk_q8_of(run, IN_Y_SCALE);
    for (size_t n = 0; n < (size_t)planes->dim[0]; n++)
        for (size_t c = 0; c < channels; c++)
            for (size_t i = 0; i < area; i++)
                ((uint8_t *)y->data)[element_index(last, n, channels, area, c, i)] =
                    tmk_q8_even_byte(y->dtype, *from++ / q.scale, q);
}

static enum tmk_status run_average(struct tmk_run *run) {
    struct tmk_tensor *y = tmk_run_out(run, 0);
    bool last = is_last(run->node);
    struct tmk_shape planes, shape;
    float *x, *means;
    TMK_TRY(planes_of(run->node, &run->in[IN_X]->shape, &planes, run->diag));
    TMK_TRY(tmk_pool_shape(run->node, &planes, &shape, run->diag));
    TMK_TRY(widen_input(run, &planes, last, &x));
    means = tmk_scratch(run, tmk_tensor_count(y), sizeof *means);
    TMK_TRY_ALLOC(means, run->diag);
    TMK_TRY(tmk_pool_average(run, &planes, x, means));
    narrow_output(run, &shape, last, means);
    return TMK_OK;
}

static enum tmk_status run_global(struct tmk_run *run) {
    struct tmk_tensor *y = tmk_run_out(run, 0);
    bool last = is_last(run->node);
    struct tmk_shape planes;
    float *x;
    TMK_TRY(planes_of(run->node, &run->in[IN_X]->shape, &planes, run->diag));
    TMK_TRY(widen_input(run, &planes, last, &x));
    size_t count = tmk_tensor_count(y), area = tmk_shape_product(&planes, 2, planes.rank);
    for (size_t i = 0; i < count && area;
         i++) /* each mean stands before what is still to be read */
        x[i] = (float)(tmk_sum(x + i * area, area) / (double)area);
    struct tmk_q8 q = tmk_q8_of(run, IN_Y_SCALE);
    for (size_t i = 0; i < count; i++)
        ((uint8_t *)y->data)[i] = tmk_q8_byte(y->dtype, area ? x[i] / q.scale : NAN, q);
    return TMK_OK;
}

/* Bytes of an element a byte, channels moved from last to first or back. `planes` has them first.
 */
static void move_channels(const struct tmk_shape *planes, bool to_last, const uint8_t *from,
                          uint8_t *to) {
    const size_t channels = (size_t)planes->dim[1],
                 area = tmk_shape_product(planes, 2, planes->rank);
    for (size_t n = 0; n < (size_t)planes->dim[0]; n++)
        for (size_t c = 0; c < channels; c++)
            for (size_t i = 0; i < area; i++)
                to[element_index(to_last, n, channels, area, c, i)] =
                    from[element_index(!to_last, n, channels, area, c, i)];
}

/* ---- NhwcMaxPool ---- */

static enum tmk_status infer_max(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0];
    struct tmk_shape planes, shape;
    TMK_TRY(tmk_want_quantized(x, NULL, "x", infer->diag));
    TMK_TRY(planes_of(infer->node, &x->shape, &planes, infer->diag));
    TMK_TRY(tmk_pool_shape(infer->node, &planes, &shape, infer->diag));
    shape = channels_last(&shape);
    return tmk_infer_set(infer, 0, x->dtype, &shape);
}

static enum tmk_status run_max(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0];
    struct tmk_tensor *y = tmk_run_out(run, 0);
    struct tmk_shape planes, shape;
    TMK_TRY(planes_of(run->node, &x->shape, &planes, run->diag));
    TMK_TRY(tmk_pool_shape(run->node, &planes, &shape, run->diag));
    uint8_t *from = run->scratch(run->context, tmk_tensor_count(x) + 1),
            *to = run->scratch(run->context, tmk_tensor_count(y));
    TMK_TRY_ALLOC(from && to, run->diag);
    move_channels(&planes, false, x->data, from);
    TMK_TRY(tmk_pool_max(run, &planes, x->dtype == TMK_INT8, from, to));
    move_channels(&shape, true, to, y->data);
    return TMK_OK;
}

/* ---- QLinearSoftmax: along an axis, or ('opset' below 13) over all from an axis on ---- */

static enum tmk_status infer_softmax(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[IN_X];
    int32_t axis;
    TMK_TRY(tmk_q8_check(infer, IN_X, "X"));
    TMK_TRY(tmk_q8_check_result(infer, IN_Y_SCALE, x->dtype, "Y"));
    TMK_TRY(tmk_axis(tmk_node_int(infer->node, "axis", -1), x->shape.rank, &axis, infer->diag));
    return tmk_infer_same(infer);
}

static enum tmk_status run_softmax(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[IN_X];
    const struct tmk_shape *shape = &x->shape;
    struct tmk_tensor *y = tmk_run_out(run, 0);
    int32_t axis;
    size_t n = tmk_tensor_count(x);
    TMK_TRY(tmk_axis(tmk_node_int(run->node, "axis", -1), shape->rank, &axis, run->diag));
    float *v = tmk_scratch(run, n, sizeof(float));
    TMK_TRY_ALLOC(v, run->diag);
    struct tmk_q8 from = tmk_q8_of(run, IN_X_SCALE), to = tmk_q8_of(run, IN_Y_SCALE);
    for (size_t i = 0; i < n; i++)
        v[i] = tmk_q8_value(x->dtype, from, ((const uint8_t *)x->data)[i]);
    struct tmk_extents e = {tmk_shape_product(shape, 0, axis),
                            tmk_shape_product(shape, axis, shape->rank), 1};
    if (tmk_node_int(run->node, "opset", 13) >= 13) {
        e.n = (size_t)shape->dim[axis];
        e.inner = tmk_shape_product(shape, axis + 1, shape->rank);
    }
    TMK_TRY(tmk_softmax(run, &e, v, v));
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)y->data)[i] = tmk_q8_byte(y->dtype, v[i] / to.scale, to);
    return TMK_OK;
}

/* ---- QLinearConv, whose weights are [out, in, places...] with channels last, too ---- */

static enum tmk_status infer_conv_last(struct tmk_infer *infer) {
    const struct tmk_tensor *in[TMK_MAX_INPUTS];
    struct tmk_infer_result y = {0};
    struct tmk_infer first = *infer;
    struct tmk_tensor x = {0};
    struct tmk_shape planes;
    TMK_TRY(planes_of(infer->node, &infer->in[0]->shape, &planes, infer->diag));
    tmk_tensor_borrow(&x, infer->in[0]->dtype, &planes, NULL);
    for (uint32_t i = 0; i < infer->n_in; i++)
        in[i] = i ? infer->in[i] : &x;
    first.in = in;
    first.n_out = 1;
    first.out = &y;
    TMK_TRY(tmk_infer_qlinear_conv(&first));
    if (is_last(infer->node))
        y.shape = channels_last(&y.shape);
    return tmk_infer_set(infer, 0, y.dtype, &y.shape);
}

static enum tmk_status run_conv_last(struct tmk_run *run) {
    const struct tmk_tensor *in[TMK_MAX_INPUTS];
    struct tmk_tensor x = {0}, y = {0}, *out[] = {&y};
    struct tmk_run first = *run;
    if (!is_last(run->node))
        return tmk_run_qlinear_conv(run);
    const struct tmk_shape planes = channels_first(&run->in[0]->shape),
                           shape = channels_first(&run->out[0]->shape);
    uint8_t *from = tmk_scratch(run, tmk_tensor_count(run->in[0]), 1),
            *to = tmk_scratch(run, tmk_tensor_count(run->out[0]), 1);
    TMK_TRY_ALLOC(from && to, run->diag);
    move_channels(&planes, false, run->in[0]->data, from);
    tmk_tensor_borrow(&x, run->in[0]->dtype, &planes, from);
    tmk_tensor_borrow(&y, run->out[0]->dtype, &shape, to);
    for (uint32_t i = 0; i < run->n_in; i++)
        in[i] = i ? run->in[i] : &x;
    first.in = in;
    first.n_out = 1;
    first.out = out;
    TMK_TRY(tmk_run_qlinear_conv(&first));
    move_channels(&shape, true, to, run->out[0]->data);
    return TMK_OK;
}

/* ---- rows ---- */

#define TMK_WINDOW_ATTRS "auto_pad:string ceil_mode:int kernel_shape:ints! pads:ints strides:ints"

const struct tmk_op tmk_ops_contrib_qpool[] = {
    {TMK_OP_CONTRIB("QLinearAveragePool"), TMK_OP_COUNTS(2, 5, 1, 1),
     .attrs = TMK_WINDOW_ATTRS " channels_last:int count_include_pad:int", .infer = infer_average,
     .run = run_average, .cost = tmk_cost_window},
    {TMK_OP_CONTRIB("QLinearGlobalAveragePool"), TMK_OP_COUNTS(2, 5, 1, 1),
     .attrs = "channels_last:int", .infer = infer_global, .run = run_global},
    {TMK_OP_CONTRIB("QLinearSoftmax"), TMK_OP_COUNTS(2, 5, 1, 1), .channel = TMK_CHANNEL_INHERIT,
     .attrs = "axis:int opset:int!", .infer = infer_softmax, .run = run_softmax},
    {TMK_OP_CONTRIB("NhwcMaxPool"), TMK_OP_COUNTS(1, 1, 1, 1), .channel = TMK_CHANNEL_LAST,
     .attrs = TMK_WINDOW_ATTRS " dilations:ints", .infer = infer_max, .run = run_max,
     .cost = tmk_cost_window},
    {TMK_OP_CONTRIB("QLinearConv"), TMK_OP_COUNTS(8, 9, 1, 1),
     .attrs = TMK_CONV_ATTRS " channels_last:int", .infer = infer_conv_last, .run = run_conv_last,
     .cost = tmk_cost_conv_quantized},
    {NULL}};
