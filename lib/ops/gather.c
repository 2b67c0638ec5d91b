/* SPDX-License-Identifier: Apache-2.0 */
/* Gather and Scatter, their variants by element and by tuple, and TensorScatter. */
#include <math.h>
#include <string.h>

#include "ops/contrib.h"
#include "ops/kernel.h"
#include "ops/move.h"
#include "tensor/elements.h"

static enum tmk_status axis_of(const struct tmk_node *node, const struct tmk_tensor *data,
                               int32_t *axis, struct tmk_diag *diag) {
    return tmk_axis(tmk_node_int(node, "axis", 0), data->shape.rank, axis, diag);
}

/* ---- Gather: slices of `data` along one axis, in the shape of `indices` ---- */

static enum tmk_status gather_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *data = infer->in[0], *indices = infer->in[1];
    int32_t axis, rank = data->shape.rank, q = indices->shape.rank;
    TMK_TRY(axis_of(infer->node, data, &axis, infer->diag));
    TMK_TRY(tmk_want_indices(indices, "the indices", infer->diag));
    if (rank + q - 1 > TMK_MAX_RANK)
        return tmk_fail(infer->diag, TMK_SHAPE, "the result would have %d dimensions; at most %d",
                        rank + q - 1, TMK_MAX_RANK);
    struct tmk_shape shape = {.rank = rank + q - 1};
    for (int32_t i = 0; i < axis; i++)
        shape.dim[i] = data->shape.dim[i];
    for (int32_t i = 0; i < q; i++)
        shape.dim[axis + i] = indices->shape.dim[i];
    for (int32_t i = axis + 1; i < rank; i++)
        shape.dim[q + i - 1] = data->shape.dim[i];
    return tmk_infer_set(infer, 0, data->dtype, &shape);
}

static enum tmk_status gather_run(struct tmk_run *run) {
    enum { ROWS = 4 }; /* after which a table in a mapped file is given back */
    const struct tmk_tensor *data = run->in[0], *indices = run->in[1];
    struct tmk_tensor *out = tmk_run_out(run, 0);
    int32_t axis;
    TMK_TRY(axis_of(run->node, data, &axis, run->diag));
    int64_t extent = data->shape.dim[axis];
    size_t n = tmk_tensor_count(indices), outer = tmk_shape_product(&data->shape, 0, axis);
    size_t block = tmk_shape_product(&data->shape, axis + 1, data->shape.rank),
           bytes = block * tmk_dtype_size(data->dtype);
    const bool given_back = run->gives_back && tmk_elements_large(data);
    char *to = out->data;
    int64_t at;
    for (size_t i = 0; i < n; i++)
        TMK_TRY(tmk_index(tmk_index_at(indices, i), extent, &at, run->diag));
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < n && bytes; i++, to += bytes) {
            at = tmk_index_at(indices, i);
            at = at < 0 ? at + extent : at;
            const size_t first = (o * (size_t)extent + (size_t)at) * block;
            const void *from = tmk_elements(data, first, block, to);
            if (from != to)
                memcpy(to, from, bytes);
            if (given_back && (i % ROWS == 0 || i + 1 == n))
                tmk_elements_rest(data, 0, tmk_tensor_count(data));
        }
    return TMK_OK;
}

/* ---- what GatherElements and ScatterElements share ---- */

static enum tmk_status want_fit(const struct tmk_shape *indices, const struct tmk_shape *data,
                                int32_t axis, struct tmk_diag *diag) {
    bool fits = indices->rank == data->rank;
    for (int32_t i = 0; i < data->rank && fits; i++)
        fits = i == axis || indices->dim[i] <= data->dim[i];
    return fits ? TMK_OK
                : tmk_fail(diag, TMK_SHAPE,
                           "indices of shape %s do not fit data of shape %s on axis %d",
                           TMK_SHAPE_TEXT(indices), TMK_SHAPE_TEXT(data), axis);
}

/* To the next line of `indices`, at `at`; answers how far it lies behind in data of these strides,
 * without its part on `axis`. */
static int64_t next_line(const struct tmk_shape *indices, const int64_t *stride, int32_t axis,
                         int64_t *at) {
    int64_t by = 0;
    for (int32_t k = indices->rank - 2; k >= 0; k--) {
        by += k == axis ? 0 : stride[k];
        if (++at[k] < indices->dim[k])
            break;
        by -= k == axis ? 0 : stride[k] * at[k];
        at[k] = 0;
    }
    return by;
}

/* ---- GatherElements: one element for each of `indices` ---- */

static enum tmk_status gather_elements_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *data = infer->in[0], *indices = infer->in[1];
    int32_t axis;
    TMK_TRY(axis_of(infer->node, data, &axis, infer->diag));
    TMK_TRY(tmk_want_indices(indices, "the indices", infer->diag));
    TMK_TRY(want_fit(&indices->shape, &data->shape, axis, infer->diag));
    return tmk_infer_set(infer, 0, data->dtype, &indices->shape);
}

static enum tmk_status gather_elements_run(struct tmk_run *run) {
    const struct tmk_tensor *data = run->in[0], *indices = run->in[1];
    struct tmk_tensor *out = tmk_run_out(run, 0);
    int32_t axis, last = data->shape.rank - 1;
    TMK_TRY(axis_of(run->node, data, &axis, run->diag));
    size_t n = tmk_tensor_count(indices), element = tmk_dtype_size(data->dtype);
    int64_t stride[TMK_MAX_RANK], at[TMK_MAX_RANK] = {0}, line = indices->shape.dim[last];
    tmk_strides(&data->shape, stride);
    int64_t along = stride[axis], base = 0; /* base: of the line, without its part on `axis` */
    for (size_t i = 0; i < n; i += (size_t)line) {
        for (int64_t j = 0; j < line; j++) {
            int64_t index;
            TMK_TRY(tmk_index(tmk_index_at(indices, i + (size_t)j), data->shape.dim[axis], &index,
                              run->diag));
            int64_t from = base + index * along + (axis == last ? 0 : j);
            memcpy((char *)out->data + (i + (size_t)j) * element,
                   (const char *)data->data + (size_t)from * element, element);
        }
        base += next_line(&indices->shape, stride, axis, at);
    }
    return TMK_OK;
}

/* ---- GatherND: a slice of `data` for each tuple in the last axis of `indices` ---- */

static enum tmk_status gather_nd_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *data = infer->in[0], *indices = infer->in[1];
    int32_t r = data->shape.rank, q = indices->shape.rank;
    int64_t batch = tmk_node_int(infer->node, "batch_dims", 0);
    if (infer->node->domain[0]) /* ONNX Runtime's own takes int32, too */
        TMK_TRY(tmk_want_indices(indices, "the indices", infer->diag));
    else
        TMK_TRY(tmk_want_dtype(indices, TMK_INT64, "the indices", infer->diag));
    if (r < 1 || q < 1)
        return tmk_fail(infer->diag, TMK_SHAPE, "data and indices need a dimension at least");
    if (batch < 0 || batch >= (r < q ? r : q))
        return tmk_fail(infer->diag, TMK_RANGE,
                        "batch_dims is %lld for data of rank %d and indices of rank %d",
                        (long long)batch, r, q);
    int32_t skip = (int32_t)batch;
    int64_t tuple = indices->shape.dim[q - 1];
    bool fits = tuple >= 1 && tuple <= r - skip;
    for (int32_t i = 0; i < skip && fits; i++)
        fits = data->shape.dim[i] == indices->shape.dim[i];
    if (!fits)
        return tmk_fail(infer->diag, TMK_SHAPE,
                        "indices of shape %s do not fit data of shape %s with batch_dims %d",
                        TMK_SHAPE_TEXT(&indices->shape), TMK_SHAPE_TEXT(&data->shape), skip);
    int32_t whole = skip + (int32_t)tuple; /* data axes that the batch and the tuple use up */
    if (q - 1 + r - whole > TMK_MAX_RANK)
        return tmk_fail(infer->diag, TMK_SHAPE, "the result would have %d dimensions; at most %d",
                        q - 1 + r - whole, TMK_MAX_RANK);
    struct tmk_shape shape = {.rank = q - 1 + r - whole};
    for (int32_t i = 0; i < q - 1; i++)
        shape.dim[i] = indices->shape.dim[i];
    for (int32_t i = whole; i < r; i++)
        shape.dim[q - 1 + i - whole] = data->shape.dim[i];
    return tmk_infer_set(infer, 0, data->dtype, &shape);
}

static enum tmk_status gather_nd_run(struct tmk_run *run) {
    const struct tmk_tensor *data = run->in[0], *indices = run->in[1];
    struct tmk_tensor *out = tmk_run_out(run, 0);
    int32_t q = indices->shape.rank, skip = (int32_t)tmk_node_int(run->node, "batch_dims", 0);
    int32_t tuple = (int32_t)indices->shape.dim[q - 1];
    int64_t stride[TMK_MAX_RANK];
    tmk_strides(&data->shape, stride);
    size_t batches = tmk_shape_product(&indices->shape, 0, skip);
    size_t each = tmk_shape_product(&indices->shape, skip, q - 1),
           element = tmk_dtype_size(data->dtype);
    size_t block = tmk_shape_product(&data->shape, skip + tuple, data->shape.rank) * element;
    size_t batch_stride = tmk_shape_product(&data->shape, skip, data->shape.rank) * element;
    char *to = out->data;
    size_t index = 0;
    for (size_t b = 0; b < batches; b++)
        for (size_t i = 0; i < each; i++, index += (size_t)tuple, to += block) {
            int64_t offset = 0;
            for (int32_t k = 0; k < tuple; k++) {
                int64_t at;
                TMK_TRY(tmk_index(tmk_index_at(indices, index + (size_t)k),
                                  data->shape.dim[skip + k], &at, run->diag));
                offset += at * stride[skip + k];
            }
            memcpy(to, (const char *)data->data + b * batch_stride + (size_t)offset * element,
                   block);
        }
    return TMK_OK;
}

static const char axis_attrs[] = "axis:int";

/* Scatter, ScatterElements and ScatterND. None of them runs in place: a tensor may be its own
 * updates. */

/* What happens where an update meets an element. */
enum { REDUCE_NONE, REDUCE_ADD, REDUCE_MUL, REDUCE_MIN, REDUCE_MAX };

static enum tmk_status reduction_of(const struct tmk_node *node, int *out, struct tmk_diag *diag) {
    return tmk_choice(node, "reduction", "none add mul min max", out, diag);
}

/* Integers wrap around: the arithmetic is that of uint64_t, cut to the type. */
#define COMBINE_INTEGER(type)                                                                      \
    static void combine_##type(int how, void *into, const void *with, size_t n) {                  \
        type *a = into;                                                                            \
        const type *b = with;                                                                      \
        for (size_t i = 0; i < n; i++)                                                             \
            switch (how) {                                                                         \
            case REDUCE_ADD:                                                                       \
                a[i] = (type)((uint64_t)a[i] + (uint64_t)b[i]);                                    \
                break;                                                                             \
            case REDUCE_MUL:                                                                       \
                a[i] = (type)((uint64_t)a[i] * (uint64_t)b[i]);                                    \
                break;                                                                             \
            case REDUCE_MIN:                                                                       \
                a[i] = b[i] < a[i] ? b[i] : a[i];                                                  \
                break;                                                                             \
            case REDUCE_MAX:                                                                       \
                a[i] = b[i] > a[i] ? b[i] : a[i];                                                  \
                break;                                                                             \
            case REDUCE_NONE:                                                                      \
                a[i] = b[i];                                                                       \
                break;                                                                             \
            }                                                                                      \
    }
COMBINE_INTEGER(int8_t)
COMBINE_INTEGER(int16_t)
COMBINE_INTEGER(int32_t)
COMBINE_INTEGER(int64_t)
COMBINE_INTEGER(uint8_t)
COMBINE_INTEGER(uint16_t)
COMBINE_INTEGER(uint32_t)
COMBINE_INTEGER(uint64_t)

/* or for sums and maxima, and for products and minima */
static void combine_bool(int how, void *into, const void *with, size_t n) {
    uint8_t *a = into;
    const uint8_t *b = with;
    bool either = how == REDUCE_ADD || how == REDUCE_MAX;
    for (size_t i = 0; i < n; i++)
        a[i] = how == REDUCE_NONE ? b[i] : either ? a[i] | b[i] : a[i] & b[i];
}

static void combine_float(int how, void *into, const void *with, size_t n) {
    float *a = into;
    const float *b = with;
    for (size_t i = 0; i < n; i++)
        switch (how) {
        case REDUCE_ADD:
            a[i] += b[i];
            break;
        case REDUCE_MUL:
            a[i] *= b[i];
            break;
        case REDUCE_MIN: /* NaN wins */
            a[i] = b[i] < a[i] || isnan(b[i]) ? b[i] : a[i];
            break;
        case REDUCE_MAX:
            a[i] = b[i] > a[i] || isnan(b[i]) ? b[i] : a[i];
            break;
        case REDUCE_NONE:
            a[i] = b[i];
            break;
        }
}

typedef void combine_fn(int how, void *into, const void *with, size_t n);

/* NULL: not a type to calculate with. */
static combine_fn *combine_for(enum tmk_dtype dtype) {
    switch (dtype) {
    case TMK_FLOAT32:
        return combine_float;
    case TMK_BOOL:
        return combine_bool;
    case TMK_INT8:
        return combine_int8_t;
    case TMK_INT16:
        return combine_int16_t;
    case TMK_INT32:
        return combine_int32_t;
    case TMK_INT64:
        return combine_int64_t;
    case TMK_UINT8:
        return combine_uint8_t;
    case TMK_UINT16:
        return combine_uint16_t;
    case TMK_UINT32:
        return combine_uint32_t;
    case TMK_UINT64:
        return combine_uint64_t;
    default:
        return NULL;
    }
}

/* What both operators check, and what they answer: the shape of `data`. */
static enum tmk_status scatter_types(struct tmk_infer *infer) {
    const struct tmk_tensor *data = infer->in[0], *updates = infer->in[2];
    int how;
    TMK_TRY(reduction_of(infer->node, &how, infer->diag));
    TMK_TRY(tmk_want_dtype(updates, data->dtype, "the updates", infer->diag));
    if (how != REDUCE_NONE && !combine_for(data->dtype))
        return tmk_fail(infer->diag, TMK_TYPE, "%s cannot be reduced", tmk_dtype_name(data->dtype));
    return tmk_infer_set(infer, 0, data->dtype, &data->shape);
}

/* ---- Scatter, ScatterElements: one element for each of `indices` ---- */

static enum tmk_status scatter_elements_infer(struct tmk_infer *infer) {
    const struct tmk_shape *data = &infer->in[0]->shape, *indices = &infer->in[1]->shape;
    int32_t axis;
    TMK_TRY(axis_of(infer->node, infer->in[0], &axis, infer->diag));
    TMK_TRY(tmk_want_indices(infer->in[1], "the indices", infer->diag));
    if (!tmk_shape_equal(indices, &infer->in[2]->shape))
        return tmk_fail(infer->diag, TMK_SHAPE, "indices of shape %s, but updates of shape %s",
                        TMK_SHAPE_TEXT(indices), TMK_SHAPE_TEXT(&infer->in[2]->shape));
    TMK_TRY(want_fit(indices, data, axis, infer->diag));
    return scatter_types(infer);
}

static enum tmk_status scatter_elements_run(struct tmk_run *run) {
    const struct tmk_tensor *data = run->in[0], *indices = run->in[1], *updates = run->in[2];
    struct tmk_tensor *out = tmk_run_out(run, 0);
    int how;
    int32_t axis, last = data->shape.rank - 1;
    TMK_TRY(reduction_of(run->node, &how, run->diag));
    TMK_TRY(axis_of(run->node, data, &axis, run->diag));
    TMK_TRY(tmk_run_view(run));
    size_t n = tmk_tensor_count(indices), element = tmk_dtype_size(data->dtype);
    if (!out || n == 0)
        return TMK_OK;
    combine_fn *combine = combine_for(data->dtype);
    int64_t stride[TMK_MAX_RANK], at[TMK_MAX_RANK] = {0}, line = indices->shape.dim[last];
    tmk_strides(&data->shape, stride);
    int64_t along = stride[axis], base = 0; /* base: of the line, without its part on `axis` */
    for (size_t i = 0; i < n; i += (size_t)line) {
        for (int64_t j = 0; j < line; j++) {
            int64_t index;
            TMK_TRY(tmk_index(tmk_index_at(indices, i + (size_t)j), data->shape.dim[axis], &index,
                              run->diag));
            size_t to = (size_t)(base + index * along + (axis == last ? 0 : j)) * element;
            const char *from = (const char *)updates->data + (i + (size_t)j) * element;
            if (how == REDUCE_NONE)
                memcpy((char *)out->data + to, from, element);
            else
                combine(how, (char *)out->data + to, from, 1);
        }
        base += next_line(&indices->shape, stride, axis, at);
    }
    return TMK_OK;
}

/* ---- ScatterND: a slice for each tuple in the last axis of `indices` ---- */

static enum tmk_status scatter_nd_infer(struct tmk_infer *infer) {
    const struct tmk_shape *data = &infer->in[0]->shape, *indices = &infer->in[1]->shape;
    int32_t r = data->rank, q = indices->rank;
    TMK_TRY(tmk_want_dtype(infer->in[1], TMK_INT64, "the indices", infer->diag));
    if (r < 1 || q < 1)
        return tmk_fail(infer->diag, TMK_SHAPE, "data and indices need a dimension at least");
    int64_t tuple = indices->dim[q - 1];
    bool fits = tuple >= 0 && tuple <= r && q - 1 + r - tuple <= TMK_MAX_RANK;
    if (fits) {
        struct tmk_shape want = {.rank = q - 1 + r - (int32_t)tuple};
        for (int32_t i = 0; i < q - 1; i++)
            want.dim[i] = indices->dim[i];
        for (int32_t i = (int32_t)tuple; i < r; i++)
            want.dim[q - 1 + i - tuple] = data->dim[i];
        fits = tmk_shape_equal(&want, &infer->in[2]->shape);
    }
    if (!fits)
        return tmk_fail(infer->diag, TMK_SHAPE,
                        "indices of shape %s and updates of shape %s do not fit data of shape %s",
                        TMK_SHAPE_TEXT(indices), TMK_SHAPE_TEXT(&infer->in[2]->shape),
                        TMK_SHAPE_TEXT(data));
    return scatter_types(infer);
}

static enum tmk_status scatter_nd_run(struct tmk_run *run) {
    const struct tmk_tensor *data = run->in[0], *indices = run->in[1], *updates = run->in[2];
    struct tmk_tensor *out = tmk_run_out(run, 0);
    int how;
    TMK_TRY(reduction_of(run->node, &how, run->diag));
    TMK_TRY(tmk_run_view(run));
    int32_t q = indices->shape.rank, tuple = (int32_t)indices->shape.dim[q - 1];
    int64_t stride[TMK_MAX_RANK];
    tmk_strides(&data->shape, stride);
    size_t n = tmk_shape_product(&indices->shape, 0, q - 1), element = tmk_dtype_size(data->dtype);
    size_t block = tmk_shape_product(&data->shape, tuple, data->shape.rank);
    combine_fn *combine = combine_for(data->dtype);
    const int64_t *index = indices->data;
    const char *from = updates->data;
    for (size_t i = 0; i < n; i++, index += tuple, from += block * element) {
        int64_t offset = 0;
        for (int32_t k = 0; k < tuple; k++) {
            int64_t at;
            TMK_TRY(tmk_index(index[k], data->shape.dim[k], &at, run->diag));
            offset += at * stride[k];
        }
        char *to = (char *)out->data + (size_t)offset * element;
        if (how == REDUCE_NONE)
            memcpy(to, from, block * element);
        else
            combine(how, to, from, block);
    }
    return TMK_OK;
}

/* TensorScatter: writes a stretch of a sequence into a cache, at a place of each sample's own. */

static enum tmk_status read_node(const struct tmk_node *node, int32_t rank, int32_t *axis,
                                 int *circular, struct tmk_diag *diag) {
    TMK_TRY(tmk_choice(node, "mode", "linear circular", circular, diag));
    TMK_TRY(tmk_axis(tmk_node_int(node, "axis", -2), rank, axis, diag));
    if (*axis == 0)
        return tmk_fail(diag, TMK_RANGE, "attribute 'axis' names the axis of the batch");
    return TMK_OK;
}

static enum tmk_status infer_tensor_scatter(struct tmk_infer *infer) {
    const struct tmk_tensor *cache = infer->in[0], *update = infer->in[1],
                            *places = tmk_infer_in(infer, 2);
    struct tmk_diag *diag = infer->diag;
    int32_t axis;
    int circular;
    if (!tmk_dtype_size(cache->dtype))
        return tmk_fail(diag, TMK_TYPE, "the input is of type %s", tmk_dtype_name(cache->dtype));
    TMK_TRY(tmk_want_dtype(update, cache->dtype, "update", diag));
    TMK_TRY(read_node(infer->node, cache->shape.rank, &axis, &circular, diag));
    struct tmk_shape fit = cache->shape;
    if (update->shape.rank == fit.rank && update->shape.dim[axis] <= fit.dim[axis])
        fit.dim[axis] = update->shape.dim[axis];
    if (!tmk_shape_equal(&fit, &update->shape))
        return tmk_fail(diag, TMK_SHAPE, "input 'update' does not fit into 'past_cache'");
    TMK_TRY(tmk_want_shape(places, TMK_INT64, "write_indices",
                           &(struct tmk_shape){1, {cache->shape.dim[0]}}, diag));
    return tmk_infer_set(infer, 0, cache->dtype, &cache->shape);
}

static enum tmk_status run_tensor_scatter(struct tmk_run *run) {
    const struct tmk_tensor *cache = run->in[0], *update = run->in[1], *places = tmk_run_in(run, 2);
    const struct tmk_shape *shape = &cache->shape;
    struct tmk_tensor *y = tmk_run_out(run, 0);
    int32_t axis;
    int circular;
    TMK_TRY(read_node(run->node, shape->rank, &axis, &circular, run->diag));
    size_t batch = (size_t)shape->dim[0], middle = tmk_shape_product(shape, 1, axis),
           length = (size_t)shape->dim[axis], n = (size_t)update->shape.dim[axis],
           bytes = tmk_shape_product(shape, axis + 1, shape->rank) * tmk_dtype_size(cache->dtype);
    const int64_t *given = places ? places->data : NULL;
    for (size_t b = 0; given && b < batch; b++)
        if (given[b] < 0 || (!circular && given[b] > (int64_t)(length - n)))
            return tmk_fail(run->diag, TMK_RANGE, "%zu elements do not fit at %lld of %zu", n,
                            (long long)given[b], length);
    if (tmk_tensor_count(y) == 0)
        return TMK_OK;
    memcpy(y->data, cache->data, tmk_tensor_bytes(cache));
    const char *from = update->data;
    for (size_t b = 0; b < batch; b++) {
        size_t first = given ? (size_t)given[b] % length : 0;
        size_t whole = length - first < n ? length - first : n; /* before it wraps around */
        for (size_t m = 0; m < middle; m++, from += n * bytes) {
            char *to = (char *)y->data + (b * middle + m) * length * bytes;
            memcpy(to + first * bytes, from, whole * bytes);
            memcpy(to, from + whole * bytes, (n - whole) * bytes);
        }
    }
    return TMK_OK;
}

const struct tmk_op tmk_ops_gather[] = {
    {TMK_OP_ONNX("Gather", 1, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1), .flags = TMK_OP_CHECKS,
     .lazy = 1 << 0, .attrs = axis_attrs, .infer = gather_infer, .run = gather_run},
    {TMK_OP_ONNX("GatherElements", 11, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1), .attrs = axis_attrs,
     .infer = gather_elements_infer, .run = gather_elements_run},
    {TMK_OP_ONNX("GatherND", 11, 11), TMK_OP_COUNTS(2, 2, 1, 1), .flags = TMK_OP_CHECKS,
     .infer = gather_nd_infer, .run = gather_nd_run},
    {TMK_OP_ONNX("GatherND", 12, INT32_MAX), TMK_OP_COUNTS(2, 2, 1, 1), .flags = TMK_OP_CHECKS,
     .attrs = "batch_dims:int", .infer = gather_nd_infer, .run = gather_nd_run},
    {TMK_OP_CONTRIB("GatherND"), TMK_OP_COUNTS(2, 2, 1, 1), .flags = TMK_OP_CHECKS,
     .infer = gather_nd_infer, .run = gather_nd_run},
    {TMK_OP_ONNX("Scatter", 9, 10), TMK_OP_COUNTS(3, 3, 1, 1), .flags = TMK_OP_CHECKS,
     .attrs = axis_attrs, .infer = scatter_elements_infer, .run = scatter_elements_run},
    {TMK_OP_ONNX("ScatterElements", 11, 15), TMK_OP_COUNTS(3, 3, 1, 1), .flags = TMK_OP_CHECKS,
     .attrs = axis_attrs, .infer = scatter_elements_infer, .run = scatter_elements_run},
    {TMK_OP_ONNX("ScatterElements", 16, INT32_MAX), TMK_OP_COUNTS(3, 3, 1, 1),
     .flags = TMK_OP_CHECKS, .attrs = "axis:int reduction:string", .infer = scatter_elements_infer,
     .run = scatter_elements_run},
    {TMK_OP_ONNX("ScatterND", 11, 15), TMK_OP_COUNTS(3, 3, 1, 1), .flags = TMK_OP_CHECKS,
     .infer = scatter_nd_infer, .run = scatter_nd_run},
    {TMK_OP_ONNX("ScatterND", 16, INT32_MAX), TMK_OP_COUNTS(3, 3, 1, 1), .flags = TMK_OP_CHECKS,
     .attrs = "reduction:string", .infer = scatter_nd_infer, .run = scatter_nd_run},
    {TMK_OP_ONNX("TensorScatter", 24, INT32_MAX), TMK_OP_COUNTS(2, 3, 1, 1), .flags = TMK_OP_CHECKS,
     .attrs = "axis:int mode:string", .infer = infer_tensor_scatter, .run = run_tensor_scatter},
    {NULL}};
